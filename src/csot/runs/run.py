"""A run: the folder with the results of a command."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from csot._core.errors import FileError, clip, naming
from csot._core.files import (
    atomic_write,
    can_be_path,
    is_partial,
    read_npy,
    remove_partials,
    write_text,
)
from csot.runs import summary, tables
from csot.runs.corrected_table import corrected_table
from csot.runs.findings import (
    CONFIDENCE,
    FINDINGS_COLUMNS,
    ID,
    IS_ISSUE,
    LABEL_COLUMNS,
    REASON,
    SCORE,
    all_labels,
    check_findings,
)
from csot.runs.label_studio_tasks import label_studio_files
from csot.runs.marker import MARKER, read_marker, update_marker
from csot.runs.tables import Kind, kind_of, read_column, text_column

if TYPE_CHECKING:
    from typing_extensions import Self

FINDINGS = "findings.csv"
FINDINGS_PARQUET = "findings.parquet"
SAMPLES = "samples.csv"
SAMPLE_COLUMNS = ("image", "text")
DUPLICATES = "duplicates.csv"
DUPLICATE_GROUP = "duplicate_group"
SUMMARY = "summary.json"
PROBABILITIES = "probabilities.npy"
FEATURES = "features.npy"
CORRECTED_TABLE = "corrected.csv"
LABEL_STUDIO = "label_studio.json"
LABEL_STUDIO_CONFIG = "label_studio.xml"
REPORT = "report.html"
ANNOTATORS = "annotators.csv"
VOTES = "votes.csv"
CLEANER = "cleaner.npz"
TRUTH = "true_labels.csv"
NULLABLE: dict[Kind, Any] = {"integer": pd.Int64Dtype(), "boolean": pd.BooleanDtype()}
"""Label columns in Parquet, where None beside integers must not make them floats."""
OUTPUTS = (
    SUMMARY,  # first: without it the run is unfinished
    FINDINGS,
    FINDINGS_PARQUET,
    SAMPLES,
    DUPLICATES,
    PROBABILITIES,
    FEATURES,
    CORRECTED_TABLE,
    LABEL_STUDIO,
    LABEL_STUDIO_CONFIG,
    ANNOTATORS,
    VOTES,
    CLEANER,
    TRUTH,
    REPORT,
)


@dataclass(frozen=True)
class Run:
    """A folder of results. Every file is replaced at once or not at all.

    `summary.json` is written last: a run that has it is finished.
    """

    path: Path

    @classmethod
    def create(
        cls, path: str | Path, force: bool = False, *, source: Mapping[str, Any] | None = None
    ) -> Self:
        """Make the folder, or continue in an unfinished run or in one of the same `source`.

        `source` is compared with the entry of that name in the summary of a finished run. A
        finished run of other data is refused; `force` empties it of its results (caches and
        other files stay). A folder with files that is not a run is always refused.
        """
        run = cls(Path(path))
        if run.path.exists() and not run.path.is_dir():
            raise ValueError(f"{run.path} is a file: a run is a folder")
        if not run._file(MARKER).exists():
            if run.path.is_dir() and any(not is_partial(path) for path in run.path.iterdir()):
                raise ValueError(
                    f"{run.path} has files in it but is not a run (no {MARKER}): "
                    "choose a new folder"
                )
            run.path.mkdir(parents=True, exist_ok=True)
        elif run._file(SUMMARY).exists():
            same = source is not None and run._source() == summary.plain(source)
            if not same and not force:
                raise ValueError(
                    f"{run.path} holds a finished run of other data: "
                    "choose a new folder (`out`), or replace its results (`force`)"
                )
            if not same:
                for name in OUTPUTS:
                    run._file(name).unlink(missing_ok=True)
        remove_partials(run.path)
        update_marker(run.path)
        return run

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """A finished run, or an error that says what is missing."""
        run = cls(Path(path))
        if not run.path.exists():
            raise ValueError(f"{run.path} does not exist: give the folder of a run")
        if not run.path.is_dir():
            raise ValueError(f"{run.path} is a file: give the folder of a run")
        if not run._file(MARKER).exists():
            raise ValueError(f"{run.path} is not a run: it has no {MARKER}")
        read_marker(run.path)
        missing = [name for name in (FINDINGS, SUMMARY) if not run._file(name).exists()]
        if missing:
            raise ValueError(
                f"{run.path} is an unfinished run: no {' and no '.join(missing)}; run it again"
            )
        return run

    def write_findings(self, findings: pd.DataFrame) -> Path:
        """findings.csv and, with pyarrow, findings.parquet. Ids must differ."""
        findings = check_findings(findings)
        ids, id_kind = tables.id_column(findings.index)
        label_kind = kind_of(all_labels(findings))
        frame = findings.reset_index(drop=True)
        frame.insert(0, ID, ids)
        for name in LABEL_COLUMNS:
            frame[name] = text_column(frame[name], label_kind)
        # A parquet file that no longer agrees with the CSV must not survive an interruption.
        self._file(FINDINGS_PARQUET).unlink(missing_ok=True)
        update_marker(self.path, id_kind=id_kind, label_kind=label_kind)
        tables.write_csv(self._file(FINDINGS), frame, excel_safe=self.excel_safe)
        if tables.has_parquet():
            frame[ID] = read_column(ids, id_kind)
            for name in LABEL_COLUMNS:
                column = read_column(frame[name], label_kind)
                frame[name] = column.astype(NULLABLE.get(label_kind, column.dtype))
            tables.write_parquet(self._file(FINDINGS_PARQUET), frame)
        return self._file(FINDINGS)

    def read_findings(self) -> pd.DataFrame:
        """The table of `check_findings`; ids and labels have the types they were written with."""
        with naming(self._file(FINDINGS), "a table of findings", "run the command again"):
            return self._read_findings()

    def _read_findings(self) -> pd.DataFrame:
        frame = self._read_by_id(FINDINGS)
        if REASON not in frame:  # a run of an older version
            frame[REASON] = ""
        missing = [name for name in FINDINGS_COLUMNS if name not in frame]
        if missing:
            raise FileError(f"{self._file(FINDINGS)} lacks the columns {missing}")
        kind = self._kind("label_kind")
        for name in LABEL_COLUMNS:
            frame[name] = read_column(frame[name], kind).set_axis(frame.index)
        frame[IS_ISSUE] = frame[IS_ISSUE] == "True"
        for name in (SCORE, CONFIDENCE):
            frame[name] = np.array([float(cell or "nan") for cell in frame[name]])
        return check_findings(frame[list(FINDINGS_COLUMNS)])

    def write_samples(self, samples: pd.DataFrame) -> Path:
        """samples.csv: by id, `image` (path below the data root) and `text`, both optional."""
        unknown = [name for name in samples.columns if name not in SAMPLE_COLUMNS]
        if unknown:
            raise ValueError(f"samples may have the columns {list(SAMPLE_COLUMNS)}, got {unknown}")
        ids, kind = tables.id_column(samples.index)
        update_marker(self.path, id_kind=kind)
        frame = samples.reset_index(drop=True)
        frame.insert(0, ID, ids)
        tables.write_csv(self._file(SAMPLES), frame, excel_safe=self.excel_safe)
        return self._file(SAMPLES)

    def read_samples(self) -> pd.DataFrame | None:
        """Text columns by id, empty where nothing was given; None if there is no such file."""
        return self._read_by_id(SAMPLES) if self._file(SAMPLES).exists() else None

    def write_duplicates(self, groups: pd.Series[Any]) -> Path:
        """duplicates.csv: the rows that have a near-duplicate, group by group.

        `groups` holds the number of each row's group by id, -1 where it belongs to none.
        """
        found = groups[groups >= 0].sort_values(kind="stable")
        ids, _ = tables.id_column(found.index)
        frame = pd.DataFrame({ID: ids, DUPLICATE_GROUP: found.to_numpy()})
        tables.write_csv(self._file(DUPLICATES), frame, excel_safe=self.excel_safe)
        return self._file(DUPLICATES)

    def read_duplicates(self) -> pd.Series[Any] | None:
        """The group of near-duplicates by id, of rows that have one; None without the file."""
        path = self._file(DUPLICATES)
        if not path.exists():
            return None
        frame = self._read_by_id(DUPLICATES)
        with naming(path, "a table of near-duplicates", "run the command again"):
            return frame[DUPLICATE_GROUP].astype(np.int64)

    def write_summary(self, values: Mapping[str, Any]) -> Path:
        """summary.json, from anything that JSON or NumPy knows. Write it last."""
        summary.write_summary(self._file(SUMMARY), values)
        return self._file(SUMMARY)

    def read_summary(self) -> dict[str, Any]:
        """All keys but `n_rows` and `class_names` may be absent."""
        return summary.read_summary(self._file(SUMMARY))

    def write_probabilities(self, probabilities: npt.ArrayLike) -> Path:
        """probabilities.npy: the (N, C) posterior of the truth, as float32."""
        array = np.asarray(probabilities, dtype=np.float32)
        if array.ndim != 2:
            raise ValueError(f"probabilities must be (N, C), got shape {array.shape}")
        return self._write_array(PROBABILITIES, array)

    def read_probabilities(self) -> npt.NDArray[np.float32] | None:
        """A read-only memory map, or None if the run has no probabilities."""
        found: npt.NDArray[np.float32] | None = self._read_array(PROBABILITIES)
        return found

    def write_features(self, features: npt.ArrayLike) -> Path:
        """features.npy: (N, D) as unit vectors in float16, to find a row's nearest neighbours."""
        array = np.asarray(features, dtype=np.float32)
        if array.ndim != 2:
            raise ValueError(f"features must be (N, D), got shape {array.shape}")
        length = np.linalg.norm(array, axis=1, keepdims=True)
        units = array / np.where(length > 0, length, 1)
        return self._write_array(FEATURES, units.astype(np.float16))

    def read_features(self) -> npt.NDArray[np.float16] | None:
        """A read-only memory map, or None if the run has no features."""
        found: npt.NDArray[np.float16] | None = self._read_array(FEATURES)
        return found

    def write_corrected(
        self, table: pd.DataFrame, findings: pd.DataFrame, *, label_column: str | None = None
    ) -> Path:
        """corrected.csv: see `corrected_table`. A named index is a column of its own."""
        result = corrected_table(table, findings, label_column)
        named = any(name is not None for name in table.index.names)
        path = self._file(CORRECTED_TABLE)
        tables.write_csv(path, result, index=named, excel_safe=self.excel_safe)
        return self._file(CORRECTED_TABLE)

    def write_label_studio(
        self,
        findings: pd.DataFrame,
        samples: pd.DataFrame | None = None,
        rows: pd.DataFrame | None = None,
        *,
        class_names: list[Any] | None = None,
        only_flagged: bool = False,
        image_root: Path | None = None,
    ) -> Path:
        """label_studio.json (tasks with our labels as predictions) and its labelling interface.

        An annotator sees the image or the text of `samples`, else the cells of `rows`.
        `image_root` is the folder that the images start from; by default the run's own.
        `only_flagged` leaves out the rows that are neither an issue nor uncertain.
        """
        made, config = label_studio_files(
            findings,
            samples,
            rows,
            class_names=class_names or [],
            only_flagged=only_flagged,
            image_root=image_root or self.image_root,
        )
        write_text(self._file(LABEL_STUDIO_CONFIG), config)
        write_text(self._file(LABEL_STUDIO), summary.dumps(made, indent=None))
        return self._file(LABEL_STUDIO)

    def write_annotators(
        self, annotators: pd.DataFrame | None, votes: pd.DataFrame | None = None
    ) -> None:
        """annotators.csv, a row per annotator, and votes.csv, a row per vote.

        None removes what an earlier command left.
        """
        for name, frame in ((ANNOTATORS, annotators), (VOTES, votes)):
            if frame is None:
                self._file(name).unlink(missing_ok=True)
            else:
                tables.write_csv(self._file(name), frame)

    def read_annotators(self) -> pd.DataFrame | None:
        """Every cell as text; None if the labels are of one annotator."""
        path = self._file(ANNOTATORS)
        return tables.read_text_csv(path) if path.exists() else None

    @property
    def id_kind(self) -> Kind:
        """The kind of the ids, as they were written."""
        return self._kind("id_kind")

    @property
    def label_kind(self) -> Kind:
        """The kind of the labels in the findings."""
        return self._kind("label_kind")

    @property
    def excel_safe(self) -> bool:
        """Whether the tables are written so that no spreadsheet runs a cell of them.

        Reading them gives back what was written in either case.
        """
        return read_marker(self.path).get("excel_safe") is True

    def write_excel_safe(self, wanted: bool) -> None:
        """Set `excel_safe`, before any table is written."""
        if wanted or self.excel_safe:
            update_marker(self.path, excel_safe=wanted)

    @property
    def report_path(self) -> Path:
        """Where the report goes."""
        return self._file(REPORT)

    @property
    def has_images(self) -> bool:
        """Whether the samples name pictures."""
        path = self._file(SAMPLES)
        return path.exists() and "image" in tables.read_text_csv(path, nrows=0).columns

    @property
    def cleaner_path(self) -> Path:
        """Where the fitted cleaner is; a run that only judged, or weighed votes, has none."""
        return self._file(CLEANER)

    @property
    def image_root(self) -> Path:
        """The folder that `image` paths start from: `source.root`, else the run itself."""
        root = self._source().get("root")
        if not isinstance(root, str) or not root:
            return self.path
        if can_be_path(root):
            return Path(root)
        found = f"its source.root {clip(repr(root))} cannot be a folder"
        raise FileError(f"{self._file(SUMMARY)} is damaged: {found}; run the command again")

    def _file(self, name: str) -> Path:
        return self.path / name

    def _write_array(self, name: str, array: npt.NDArray[Any]) -> Path:
        with atomic_write(self._file(name)) as file:
            np.save(file, array, allow_pickle=False)
        return self._file(name)

    def _read_array(self, name: str) -> Any:
        path = self._file(name)
        if not path.exists():
            return None
        array = read_npy(path, mapped=True)
        if array.ndim != 2 or array.dtype.kind != "f":
            raise FileError(
                f"{path} holds {array.dtype} of shape {array.shape}; floats of shape (N, D) are "
                "needed: run the command again"
            )
        return array

    def _source(self) -> dict[str, Any]:
        source = self.read_summary().get("source") if self._file(SUMMARY).exists() else None
        return source if isinstance(source, dict) else {}

    def _kind(self, name: str) -> Kind:
        kind: Kind = read_marker(self.path).get(name, "text")
        return kind

    def _read_by_id(self, name: str) -> pd.DataFrame:
        path = self._file(name)
        frame = tables.read_text_csv(path, excel_safe=self.excel_safe)
        if ID not in frame:
            raise FileError(f"{path} has no column {ID!r}")
        with naming(path, "a table by id", "run the command again"):
            ids = read_column(frame.pop(ID), self._kind("id_kind"))
            found = frame.set_index(pd.Index(ids, name=ID, dtype=ids.dtype))
        if found.index.has_duplicates:
            first = clip(repr(found.index[found.index.duplicated()][0]))
            raise FileError(f"{path} has the id {first} twice: run the command again")
        return found
