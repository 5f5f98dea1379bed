"""Label Studio's format: what the tasks that are written and the exports that are read share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from csot._core.errors import DataError, clip
from csot._core.files import read_json

SAMPLE_ID = "sample_id"
"""Key of a sample's id in the data of a task. Exports overwrite `id` with a number of their own."""
CONTROL = "label"
"""Name of the choices in the labelling interface, and of their column in flat exports."""
ANNOTATION_ID = "annotation_id"
"""Column that every row of a flat export has: JSON-MIN, CSV and TSV."""
LOCAL_FILES = "/data/local-files/?d="
"""How Label Studio addresses files below its document root."""
SUFFIX = ".json"
LARGEST = 4 << 30
"""Bytes of an export: a few thousand for each of a million tasks."""
REMEDY = "export the project whose tasks are label_studio.json of the run, as JSON or JSON-MIN"


@dataclass(frozen=True)
class Annotation:
    """What one annotator says about one sample."""

    sample: str
    annotator: str
    label: str


def read_export(path: Path) -> list[Annotation]:
    """The labels in an export of Label Studio: JSON or JSON-MIN.

    Skipped tasks, empty annotations, predictions and choices of other controls are not labels.
    """
    tasks = read_json(path, LARGEST)
    if not isinstance(tasks, list) or not all(isinstance(task, dict) for task in tasks):
        raise DataError(f"{path} is not a list of Label Studio's tasks: {REMEDY}")
    found = []
    for number, task in enumerate(tasks):
        data = task.get("data") if "annotations" in task else task
        sample = data.get(SAMPLE_ID) if isinstance(data, dict) else None
        if not isinstance(sample, str):
            raise DataError(f"{path}: task {number} (from 0) has no {SAMPLE_ID}: {REMEDY}")
        for label, annotator in _labels(task):
            if not isinstance(label, str):
                raise DataError(
                    f"{path}: {clip(repr(sample))} has the labels {clip(repr(label))}: keep one"
                )
            found.append(Annotation(sample, _name(annotator), label))
    return found


def _labels(task: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    """Label and annotator; the label is text, or whatever stands in its place."""
    if "annotations" not in task:
        if task.get(CONTROL):
            yield task[CONTROL], task.get("annotator")
        return
    annotations = task["annotations"]
    for annotation in annotations if isinstance(annotations, list) else ():
        if not isinstance(annotation, dict) or annotation.get("was_cancelled"):
            continue
        results = annotation.get("result")
        for result in results if isinstance(results, list) else ():
            if not isinstance(result, dict) or result.get("from_name", CONTROL) != CONTROL:
                continue
            value = result.get("value")
            choices = value.get("choices") if isinstance(value, dict) else None
            if choices:
                is_one = isinstance(choices, list) and len(choices) == 1
                yield choices[0] if is_one else choices, annotation.get("completed_by")


def _name(annotator: Any) -> str:
    """An address or a number; a number where there is no address."""
    if isinstance(annotator, dict):
        annotator = annotator.get("email") or annotator.get("id")
    return "" if annotator is None else str(annotator)
