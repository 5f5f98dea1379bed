"""One server's view of the run: who reviews, what deciding and undoing mean, what a row shows."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from csot._core.pictures import Containment
from csot.review.domain.auditing import Auditing
from csot.review.domain.decision_log import UNDO, Action, LogEntry, Store, Way
from csot.review.domain.filters import Selector
from csot.review.domain.ledger import CODES, Ledger, Person
from csot.review.domain.precision import left_above
from csot.review.domain.run_catalogue import Catalogue, load_catalogue
from csot.runs import Run
from csot.runs.source import read_cells
from csot.runs.tables import from_text, to_text

NEIGHBOURS = 8
CELLS = 40
BLOCK = 131_072
"""Rows whose features are held as float32 at once."""
HELD = 2**26
"""Element count up to which features are held as float32 instead of converted at each use."""
AXES = 24
"""Coordinates that the summary of bare features draws."""


@dataclass(frozen=True)
class Neighbour:
    row: int
    similarity: float


class RowDetails:
    """Loaded lazily, or in the background: `load` may run in a thread of its own."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._lock = threading.Lock()
        self._loaded = False
        self._images: list[str] | None = None
        self._texts: list[str] | None = None
        self._cells: pd.DataFrame | None = None
        self._means: dict[int, npt.NDArray[np.float32]] = {}
        features = catalogue.run.read_features()
        fits = features is not None and len(features) == len(catalogue)
        self._features: npt.NDArray[Any] | None = features if fits else None

    def load_early(self) -> None:
        """`load` in the background. What is wrong with the files is said by the first page."""
        with suppress(ValueError, OSError):
            self.load()

    def load(self) -> None:
        with self._lock:
            if self._loaded:
                return
            samples = self._catalogue.run.read_samples()
            if samples is not None:
                samples.index = pd.Index([str(key) for key in samples.index], dtype=object)
                samples = samples.reindex(pd.Index(self._catalogue.ids, dtype=object)).fillna("")
                if "image" in samples:
                    self._images = samples["image"].tolist()
                if "text" in samples:
                    self._texts = samples["text"].tolist()
            if self._images is None and self._texts is None:
                self._cells = read_cells(self._catalogue.run, self._catalogue.ids, CELLS)
            if self._features is not None and self._features.size <= HELD:
                self._features = np.asarray(self._features, dtype=np.float32)
            self._loaded = True

    def image(self, row: int) -> str:
        """Its path as the run has it; empty if there is none."""
        self.load()
        return "" if self._images is None else self._images[row]

    def text(self, row: int) -> str:
        self.load()
        return "" if self._texts is None else self._texts[row]

    def cells(self, row: int) -> list[tuple[str, str]]:
        """Column and cell of the user's own table."""
        self.load()
        if self._cells is None:
            return []
        return list(zip(self._cells.columns, self._cells.iloc[row], strict=True))

    def neighbours(self, row: int) -> list[Neighbour]:
        """The nearest rows by the cosine of their features, the nearest first."""
        if self._features is None:
            return []
        own = np.asarray(self._features[row], dtype=np.float32)
        cosine = np.concatenate(
            [
                np.asarray(self._features[start : start + BLOCK], dtype=np.float32) @ own
                for start in range(0, len(self._features), BLOCK)
            ]
        )
        cosine[row] = -np.inf
        count = min(NEIGHBOURS, len(cosine) - 1)
        if count < 1:
            return []
        near = np.argpartition(-cosine, count - 1)[:count]
        near = near[np.argsort(-cosine[near], kind="stable")]
        return [Neighbour(int(other), float(cosine[other])) for other in near]

    def axes(self, row: int) -> npt.NDArray[np.float32] | None:
        """The first coordinates of a row on principal axes."""
        if self._features is None:
            return None
        return np.asarray(self._features[row, :AXES], dtype=np.float32)

    def mean_axes(self, label: int) -> npt.NDArray[np.float32] | None:
        """The same of the rows that are given a label, on average."""
        if self._features is None or label < 0:
            return None
        if label not in self._means:
            rows = np.flatnonzero(self._catalogue.given == label)
            if not len(rows):
                return None
            some = np.asarray(self._features[rows, :AXES], dtype=np.float32)
            self._means[label] = some.mean(0)
        return self._means[label]


NAME_LIMIT = 60
CLASS_LIMIT = 200
"""Characters of a new class."""
WITHOUT_LABEL = ("unsure", "discard")


@dataclass(frozen=True)
class ReviewProgress:
    """Progress of one reviewer on the rows that are worth a look."""

    total: int
    decided: int
    accepted: int
    kept: int
    chosen: int
    unsure: int
    discarded: int
    left: int
    rate: float | None
    """Decisions per minute."""

    @property
    def minutes_left(self) -> float | None:
        return self.left / self.rate if self.rate and self.left else None


class Session:
    """The run, the log and the reviewer, behind one lock."""

    def __init__(
        self, run: Run, reviewer: str, same_data: bool = False, allow_outside: bool = False
    ) -> None:
        if not reviewer.strip() or len(reviewer) > NAME_LIMIT or not reviewer.isprintable():
            raise ValueError(
                f"`reviewer` {reviewer!r}: give a name of 1 to {NAME_LIMIT} printable characters"
            )
        self.reviewer = reviewer.strip()
        self.catalogue: Catalogue = load_catalogue(run)
        if not len(self.catalogue):
            raise ValueError(f"{run.path} has no rows to review")
        self.store = Store(run.path)
        try:
            self.store.claim(self.catalogue.source, same_data)
            self.ledger = Ledger(self.catalogue, self.store)
            self.samples = RowDetails(self.catalogue)
            self.pictures = Containment(run.image_root, allow_outside)
            self.selector = Selector(self.catalogue)
            self.auditing = Auditing(self.catalogue)
        except BaseException:
            self.store.close()
            raise
        self.lock = threading.RLock()

    @property
    def person(self) -> Person:
        return self.ledger.person(self.reviewer)

    def refresh(self) -> None:
        """See what others decided."""
        with self.lock:
            self.ledger.refresh()

    def decide(
        self, rows: Sequence[int], action: Action, label: int | None, way: Way, batch: str
    ) -> int:
        """Durable on return. How many rows were decided; rows that the action does not fit are
        left out of a grid's selection, and an error by themselves."""
        entries = []
        for row in dict.fromkeys(rows):
            final = self._label(row, action, label)
            if final is None and action not in WITHOUT_LABEL:
                if way in ("one", "audit"):
                    raise ValueError(f"row {row} has no label to {action}: choose a class")
                continue
            entries.append(self._entry(row, action, final, way, batch))
        with self.lock:
            self.store.append(entries)
            self.ledger.refresh()
        return len(entries)

    def new_class(self, name: str) -> int:
        """The number of a class that a reviewer typed; it may already be there."""
        name = " ".join(name.split())
        if not name or len(name) > CLASS_LIMIT or not name.isprintable():
            raise ValueError(f"a class needs a name of 1 to {CLASS_LIMIT} printable characters")
        kind = self.catalogue.run.label_kind
        try:
            is_fit = to_text(from_text(name, kind), kind) == name
        except ValueError:
            is_fit = False
        if not is_fit and name not in self.catalogue.numbers:
            raise ValueError(f"the labels of this run are of the kind {kind}, and {name!r} is not")
        with self.lock:
            return self.catalogue.number(name)

    def accept_above(self, threshold: float, expected: int, batch: str) -> int:
        """Accept every undecided suggestion of at least that confidence.

        `expected` is what the page said it would be: if another tab decided meanwhile, the user
        has to look again.
        """
        with self.lock:
            self.ledger.refresh()
            if batch in self.person.batches:
                return len(self.person.batches[batch])
            rows = np.flatnonzero(left_above(self.catalogue, self.person, threshold)).tolist()
            if len(rows) != expected:
                raise ValueError(
                    f"{len(rows):,} suggestions are left above {threshold:g}, not {expected:,}: "
                    "others were decided meanwhile; look again"
                )
            return self.decide(rows, "accept", None, "rule", batch)

    def undo(self, wanted: str | None, batch: str) -> list[int]:
        """Take back a batch, or the reviewer's last one; the rows concerned."""
        with self.lock:
            self.ledger.refresh()
            if batch in self.person.undone:  # sent again, because the answer was lost
                return list(self.person.undone[batch])
            undone = wanted or self.ledger.last_batch(self.reviewer)
            rows = self.person.batches.get(undone or "", [])
            entries = [
                LogEntry(batch, self.reviewer, self.catalogue.ids[row], UNDO, None, "one", undone)
                for row in rows
            ]
            self.store.append(entries)
            found = list(rows)
            self.ledger.refresh()
            return found

    def progress(self) -> ReviewProgress:
        person, flagged = self.person, self.catalogue.flagged
        count = np.bincount(person.action, minlength=len(CODES) + 1)
        rate = person.rate()
        return ReviewProgress(
            total=int(flagged.sum()),
            decided=int((flagged & person.decided).sum()),
            accepted=int(count[CODES["accept"]]),
            kept=int(count[CODES["keep"]]),
            chosen=int(count[CODES["choose"]]),
            unsure=int(count[CODES["unsure"]]),
            discarded=int(count[CODES["discard"]]),
            left=int((flagged & ~person.decided).sum()),
            rate=rate,
        )

    def close(self) -> None:
        self.store.close()

    def _label(self, row: int, action: Action, label: int | None) -> int | None:
        catalogue = self.catalogue
        found = {
            "accept": int(catalogue.suggested[row]),
            "keep": int(catalogue.given[row]),
            "choose": -1 if label is None else label,
            "unsure": -1,
            "discard": -1,
        }[action]
        return found if 0 <= found < len(catalogue.names) else None

    def _entry(self, row: int, action: Action, label: int | None, way: Way, batch: str) -> LogEntry:
        """Named by what it does: choosing the suggested class is accepting it."""
        catalogue = self.catalogue
        if label is None:
            action = "discard" if action == "discard" else "unsure"
        elif label == catalogue.given[row]:
            action = "keep"
        else:
            action = "accept" if label == catalogue.suggested[row] else "choose"
        name = None if label is None else catalogue.names[label]
        return LogEntry(batch, self.reviewer, catalogue.ids[row], action, name, way)
