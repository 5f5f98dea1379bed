"""Label Studio tasks with our labels as predictions, and the labelling interface that they fit."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote, unquote
from xml.sax.saxutils import quoteattr

import pandas as pd

from csot._core.label_studio import CONTROL, LOCAL_FILES, SAMPLE_ID
from csot.runs.findings import (
    CONFIDENCE,
    CORRECTED,
    GIVEN,
    IS_ISSUE,
    SCORE,
    STATUS,
    all_labels,
    suspicion_order,
)
from csot.runs.tables import Kind, kind_of, to_text

Medium = Literal["image", "text", "row"]

TAGS: dict[Medium, str] = {"image": "Image", "text": "Text", "row": "Text"}


def shown_medium(samples: pd.DataFrame | None) -> Medium:
    """What an annotator is shown: the image, else the text, else the plain row."""
    columns = () if samples is None else samples.columns
    return "image" if "image" in columns else "text" if "text" in columns else "row"


def label_studio_files(
    findings: pd.DataFrame,
    samples: pd.DataFrame | None,
    rows: pd.DataFrame | None,
    *,
    class_names: list[Any],
    only_flagged: bool,
    image_root: Path,
) -> tuple[list[dict[str, Any]], str]:
    """The tasks, and the labelling interface with every class; see `Run.write_label_studio`."""
    labels = all_labels(findings)
    kind = kind_of(labels)
    texts = {to_text(label, kind): None for label in [*class_names, *labels]}
    texts.pop("", None)
    if only_flagged:
        findings = findings[findings[IS_ISSUE] | (findings[STATUS] != "clean")]
    made = tasks(
        findings,
        samples,
        rows,
        image_root=image_root,
        model_version=_model_version(),
        label_kind=kind,
    )
    return made, labelling_config(shown_medium(samples), list(texts))


def tasks(
    findings: pd.DataFrame,
    samples: pd.DataFrame | None,
    rows: pd.DataFrame | None,
    *,
    image_root: Path,
    model_version: str,
    label_kind: Kind,
) -> list[dict[str, Any]]:
    """One task per finding, the most suspicious first: Label Studio shows them as they come.

    `samples` and `rows` are aligned by id. Label Studio serves only folders below its document
    root, not the root itself: images are addressed from the parent of `image_root`.
    """
    labelled = findings[GIVEN].notna()
    score = findings[SCORE].to_numpy(dtype=float)
    order = suspicion_order(findings[IS_ISSUE].to_numpy(dtype=bool), score, labelled)
    findings = findings.iloc[order]
    medium = shown_medium(samples)
    if medium == "image" and samples is not None:
        paths = samples["image"].reindex(findings.index).fillna("").tolist()
        root = image_root.resolve()
        shown = [image_address(path, root) for path in paths]
    elif medium == "text" and samples is not None:
        shown = samples["text"].reindex(findings.index).fillna("").tolist()
    else:
        shown = _plain_rows(findings.index, rows)
    found = []
    for position, record in enumerate(findings.itertuples(name=None)):
        cell = dict(zip(findings.columns, record[1:], strict=True))
        corrected = to_text(cell[CORRECTED], label_kind)
        data = {
            SAMPLE_ID: str(record[0]),
            medium: shown[position],
            GIVEN: to_text(cell[GIVEN], label_kind),
            IS_ISSUE: bool(cell[IS_ISSUE]),
            SCORE: cell[SCORE],
            STATUS: cell[STATUS],
        }
        choice = {
            "from_name": CONTROL,
            "to_name": medium,
            "type": "choices",
            "value": {"choices": [corrected]},
        }
        prediction = {
            "model_version": model_version,
            "score": cell[CONFIDENCE],
            "result": [choice] if corrected else [],
        }
        found.append({"data": data, "predictions": [prediction]})
    return found


def image_address(path: str, root: Path) -> str:
    """What Label Studio loads the image from; nothing where there is no image.

    `path` starts from `root`, whose links are followed already, or is absolute.
    """
    if not path:
        return ""
    whole = root / path
    below = whole.relative_to(root.parent) if whole.is_relative_to(root.parent) else whole
    return LOCAL_FILES + quote(below.as_posix(), errors="surrogateescape")


def image_path(address: str, root: Path) -> str | None:
    """The absolute path behind an address that `image_address` made; None for any other."""
    if not address.startswith(LOCAL_FILES):
        return None
    name = unquote(address.removeprefix(LOCAL_FILES), errors="surrogateescape")
    return str(root.parent / name)


def labelling_config(medium: Medium, class_names: list[str]) -> str:
    """The labelling interface that the tasks fit: given label and choices above the sample."""
    choices = "\n".join(f"    <Choice value={quoteattr(name)}/>" for name in class_names)
    return (
        "<View>\n"
        f'  <Header size="5" value="Given label: ${GIVEN}"/>\n'
        f'  <Choices name="{CONTROL}" toName="{medium}" choice="single" showInline="true">\n'
        f"{choices}\n"
        "  </Choices>\n"
        f'  <{TAGS[medium]} name="{medium}" value="${medium}"/>\n'
        "</View>\n"
    )


def _plain_rows(index: pd.Index, rows: pd.DataFrame | None) -> list[str]:
    """`column: value` lines, or the id where nothing else is known."""
    if rows is None:
        return [f"id: {value}" for value in index]
    names = [str(name) for name in rows.columns]
    cells = rows.reindex(index).itertuples(index=False, name=None)
    return ["\n".join(f"{n}: {v}" for n, v in zip(names, row, strict=True)) for row in cells]


def _model_version() -> str:
    try:
        return f"csot {version('csot')}"
    except PackageNotFoundError:
        return "csot"
