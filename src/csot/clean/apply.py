"""`apply_corrections`: the data of a run with corrected labels, in the form it came in."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from csot._core.files import atomic_path, refuse_overlap, write_npz
from csot.data import Columns, DataError, LabelledData, read_data
from csot.data.readers.arrays import ALIASES, load_arrays
from csot.data.readers.read_data import is_frame
from csot.review.domain.decision_exports import Decisions, read_decisions
from csot.runs import Run
from csot.runs.findings import CONFIDENCE, CORRECTED, GIVEN, ID, STATUS
from csot.runs.tables import kind_of, to_text, write_csv, write_parquet

NEW, SOURCE = "new_label", "source"
REVIEWED, CORRECTION, GUESS = "reviewed", "corrected", "uncertain"


@dataclass(frozen=True)
class Applied:
    """What `apply_corrections` wrote."""

    path: Path
    changes_path: Path
    changes: pd.DataFrame = field(repr=False)
    """One row per changed label: id, given_label, new_label, confidence, and whether people
    (`reviewed`) or the run changed it, surely (`corrected`) or as the better guess
    (`uncertain`)."""
    n_rows: int


def apply_corrections(
    run: Run | str | Path,
    out: str | Path,
    *,
    data: Any = None,
    min_confidence: float = 0.0,
    link: bool = False,
    allow_outside: bool = False,
) -> Applied:
    """Write the data set of a run again, with its corrected labels.

    A folder of images becomes a folder with one sub-folder per class; a table a table, and arrays
    arrays, of the same columns and names. What people decided in the review comes first, then what
    the run corrected. Discarded rows lose their label; images without one are left out. The list of
    changes is written beside `out`.

    Parameters
    ----------
    run : Run or path
        A finished run of `csot clean` or `csot train` whose data is still where it was.
    out : path
        A new folder or file; the input is never overwritten.
    data : DataFrame or datasets.Dataset, optional
        The table of a run on a table in memory, which is not on disk to be read again.
    min_confidence : float in [0, 1]
        Corrections of the run below this confidence are left out; decisions of people are not.
    link : bool
        Images as symbolic links to the originals, instead of copies.
    allow_outside : bool
        Read images that lie outside of the data folder.
    """
    found = run if isinstance(run, Run) else Run.open(run)
    target = Path(out)
    if not 0 <= min_confidence <= 1:
        raise DataError(f"`min_confidence` is {min_confidence}; give a number from 0 to 1")
    read, path = _read_source(found, data, allow_outside)
    if path is not None:
        refuse_overlap(path, target)
    changes_path = target.with_name(f"{target.stem}-changes.csv")
    for place in (target, changes_path):
        if place.exists():
            raise DataError(f"`out` {place} exists; nothing is overwritten: choose another name")
    labels, changes = _final_labels(found, read, min_confidence)
    with atomic_path(target) as place:
        if read.images is not None and read.table is None:
            _write_images(place, read, labels, link)
        elif read.table is not None:
            own = ".csv" if path is None else path.suffix.lower()
            _write_table(place, target.suffix.lower() or own, read, labels)
        else:
            assert path is not None
            _write_arrays(place, path, read, labels)
    write_csv(changes_path, changes, excel_safe=found.excel_safe)
    return Applied(target, changes_path, changes, len(read))


def _read_source(run: Run, frame: Any, allow_outside: bool) -> tuple[LabelledData, Path | None]:
    """The data of the run, as it is now; an error if its samples or labels have changed."""
    summary = run.read_summary()
    source, settings = (_mapping(summary.get(name)) for name in ("source", "settings"))
    path, place = source.get("path"), source.get("root")
    if not isinstance(path, str) and (not is_frame(frame) or "method" in summary):
        raise DataError(
            f"{run.path} does not name a file of its data: apply needs a run on files, or one of "
            "csot clean on a table in memory, which is given again as `data`; for arrays, "
            "run.findings['corrected_label'] has the labels"
        )
    if summary.get("noise", "none") != "none":
        raise DataError(
            f"{run.path} trained with noise added to the labels ({summary['noise']}): its "
            "corrections are not of the labels of the data"
        )
    if isinstance(path, str) and frame is not None:
        raise DataError(f"`data` is for runs on a table in memory; {run.path} is on {path}")
    # A training run keeps its columns with the data set's settings.
    chosen = _mapping(_mapping(settings.get("dataset")).get("columns")) or settings
    if "n_annotators" in summary or ("method" in summary and chosen.get("annotator")):
        raise DataError(
            f"{run.path} weighed the votes of several annotators, and its data has a row per vote; "
            f"take {run.path / 'corrected.csv'}, which has a row per sample"
        )
    named = ("label", "text", "image", "id", "group", "features")
    columns = Columns(**{name: chosen.get(name) for name in named})
    is_table = source.get("kind") == "table"
    data = read_data(
        Path(path) if isinstance(path, str) else frame,
        columns,
        Path(place) if is_table and isinstance(place, str) else None,
        lambda _: None,
        labelled=False,
        allow_outside=allow_outside,
        merge_variants=settings.get("merge_variants") is True,
    )
    return data, Path(path) if isinstance(path, str) else None


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _final_labels(
    run: Run, data: LabelledData, min_confidence: float
) -> tuple[npt.NDArray[np.object_], pd.DataFrame]:
    """The label of each sample of the data (N,), and the table of changes."""
    findings, decisions = run.read_findings(), read_decisions(run)
    kind = kind_of(pd.concat([findings[GIVEN], findings[CORRECTED]]).dropna())
    rows: list[dict[str, Any]] = findings.to_dict("records")  # type: ignore[assignment]
    by_id = {
        to_text(name, run.id_kind): row for name, row in zip(findings.index, rows, strict=True)
    }
    classes = {to_text(label, kind): label for label in {*findings[GIVEN], *findings[CORRECTED]}}
    labels = np.empty(len(data), dtype=object)
    changes: list[tuple[Any, ...]] = []
    lacking = [name for name in data.ids if name not in by_id]
    if lacking and len(lacking) > len(data) - len(by_id):
        raise DataError(
            f"the data of {run.path} has changed since: {lacking[0]!r} is not among its findings; "
            "run csot clean again"
        )
    for row, (name, own) in enumerate(zip(data.ids, data.labels, strict=True)):
        labels[row] = own
        finding = by_id.get(name)
        if finding is None:
            continue
        given = None if pd.isna(finding[GIVEN]) else finding[GIVEN]
        if str(given) != str(own):
            raise DataError(
                f"the data of {run.path} has changed since: {name!r} was labelled {given!r} and is "
                f"now {own!r}; run csot clean again"
            )
        new, who = _decide(name, finding, decisions, classes, min_confidence)
        if new != given:
            labels[row] = new
            changes.append((name, given, new, finding[CONFIDENCE], who))
    columns = [ID, GIVEN, NEW, CONFIDENCE, SOURCE]
    table = pd.DataFrame(changes, columns=columns)
    # A discarded row has no label: whole numbers beside it must not become floats.
    table[NEW] = pd.Series([change[2] for change in changes], dtype=object)
    return labels, table


def _decide(
    name: str,
    finding: dict[str, Any],
    decisions: Decisions,
    classes: dict[str, Any],
    min_confidence: float,
) -> tuple[Any, str]:
    """The label, None for a discarded row, and who it comes from."""
    given = None if pd.isna(finding[GIVEN]) else finding[GIVEN]
    if name in decisions.discarded:
        return None, REVIEWED
    if name in decisions.labels:
        label = decisions.labels[name]
        return classes.get(label, label), REVIEWED
    corrected = finding[CORRECTED]
    is_sure = finding[CONFIDENCE] >= min_confidence and not pd.isna(corrected)
    if name in decisions.undecided or not is_sure:
        return given, CORRECTION
    return corrected, GUESS if finding[STATUS] == GUESS else CORRECTION


def _write_images(
    folder: Path, data: LabelledData, labels: npt.NDArray[np.object_], link: bool
) -> None:
    """`folder`/class/name; a number is added where two images would have one name."""
    assert data.images is not None
    folder.mkdir()
    used: set[Path] = set()
    for image, label in zip(data.images, labels, strict=True):
        if label is None:
            continue
        name = str(label)
        if name in {"", ".", ".."} or "/" in name or "\\" in name or "\0" in name:
            raise DataError(f"the class {name!r} cannot be the name of a folder; rename it first")
        place, number = folder / name / image.name, 1
        while place in used:
            number += 1
            place = folder / name / f"{image.stem}-{number}{image.suffix}"
        used.add(place)
        place.parent.mkdir(exist_ok=True)
        if link:
            place.symlink_to(image.resolve())
        else:
            shutil.copy2(image, place)


def _write_table(
    path: Path, suffix: str, data: LabelledData, labels: npt.NDArray[np.object_]
) -> None:
    assert data.table is not None
    assert data.label_column is not None
    table = data.table.copy()
    column = table[data.label_column].astype(object)
    changed = {
        name: new
        for name, new, own in zip(data.ids, labels, data.labels, strict=True)
        if new != own
    }
    # Cells of unchanged labels stay as the user wrote them.
    table[data.label_column] = [
        changed.get(str(name), cell) for name, cell in zip(table.index, column, strict=True)
    ]
    is_named = any(name is not None for name in table.index.names)
    if suffix in {".parquet", ".pq"}:
        write_parquet(path, table.reset_index() if is_named else table)
    elif suffix in {".jsonl", ".ndjson"}:
        text = (table.reset_index() if is_named else table).to_json(
            orient="records", lines=True, force_ascii=False
        )
        path.write_text(str(text), encoding="utf-8")
    elif suffix == ".tsv":
        table.to_csv(path, sep="\t", index=is_named)
    elif suffix == ".csv":
        write_csv(path, table, index=is_named)
    else:
        raise DataError(
            f"`out`: tables are written as .csv, .tsv, .jsonl or .parquet, not as {suffix!r}"
        )


def _write_arrays(
    place: Path, path: Path, data: LabelledData, labels: npt.NDArray[np.object_]
) -> None:
    """Every array of the file under its own name, the labels replaced."""
    arrays, held = load_arrays(path)
    names = [name for name in held if ALIASES.get(name, name) in arrays]
    given = np.asarray(arrays["labels"])
    codes = {name: number for number, name in enumerate(data.class_names or [])}
    written = given.copy()
    is_coded = bool(codes) and given.dtype.kind in "iu"
    for row, (new, old) in enumerate(zip(labels, data.labels, strict=True)):
        if new != old:
            missing = "" if given.dtype.kind in "US" else -1
            value = missing if new is None else codes[str(new)] if is_coded else new
            if given.dtype.kind in "US" and len(str(value)) > written.dtype.itemsize // 4:
                written = written.astype(f"U{len(str(value))}")
            written[row] = value
    result = {name: arrays[ALIASES.get(name, name)] for name in names}
    for name in names:
        if ALIASES.get(name, name) == "labels":
            result[name] = written
    if path.is_dir():
        place.mkdir()
        for name, array in result.items():
            np.save(place / f"{name}.npy", array, allow_pickle=False)
    else:
        with open(place, "wb") as file:
            write_npz(file, result)
