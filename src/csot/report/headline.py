"""The headline of the report: counts that add up, and the noise rate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from csot.report.coded_findings import Coded
from csot.runs.findings import VERIFIED
from csot.runs.noise import NoiseEstimate


@dataclass(frozen=True)
class Headline:
    """The counts at the top.

    Rows without a label, right, replaced, kept and unflagged add up to all rows.
    """

    rows: int
    unlabelled: int
    right: int
    """Labels that look right."""
    replaced: int
    """Labels that look wrong and are replaced."""
    kept: int
    """Labels that look wrong, but not surely enough to replace them."""
    unflagged: int
    """Labels that are replaced without a flag, such as those that a person corrected."""
    by_person: bool
    """Whether a person verified all of these."""
    uncertain: int
    """Rows of any kind that a person should decide."""
    skipped: int
    expected: float
    """Sum of the probabilities that a label is wrong."""
    spread: float
    """Two standard deviations of that number."""
    noise: NoiseEstimate
    informative: bool
    warning: str

    @property
    def labelled(self) -> int:
        return self.rows - self.unlabelled

    @property
    def issues(self) -> int:
        return self.replaced + self.kept

    @property
    def parts(self) -> list[tuple[str, str, int]]:
        """Style, name and number of the parts that all rows fall into."""
        parts = [
            ("clean", "Labels look right", self.right),
            ("uncertain", "Look wrong, kept", self.kept),
            ("corrected", "Look wrong, replaced", self.replaced),
            (
                "verified",
                "Replaced by a person" if self.by_person else "Replaced, not flagged",
                self.unflagged,
            ),
            ("unlabelled", "Without a label", self.unlabelled),
        ]
        return [part for place, part in enumerate(parts) if place < 3 or part[2]]


def headline(coded: Coded, summary: Mapping[str, Any]) -> Headline:
    """Count the findings; the noise rate is the run's own estimate if it has one."""
    doubt = coded.doubt
    labelled = coded.labelled
    changed = labelled & (coded.corrected != coded.given)
    issue = coded.issue & labelled
    verified = np.array([note == VERIFIED for note in coded.notes], dtype=bool)
    other = changed & ~issue
    expected = float(doubt.sum())
    return Headline(
        rows=len(coded.given),
        unlabelled=int((~labelled).sum()),
        right=int((labelled & ~issue & ~changed).sum()),
        replaced=int((issue & changed).sum()),
        kept=int((issue & ~changed).sum()),
        unflagged=int(other.sum()),
        by_person=bool(verified[other].all()),
        uncertain=int(coded.has_status("uncertain").sum()),
        skipped=len(summary.get("skipped") or []),
        expected=expected,
        # Rows wrong independently, each with the probability 1 - score.
        spread=2 * float(np.sqrt(np.clip(doubt * (1 - doubt), 0, None).sum())),
        noise=NoiseEstimate.of_summary(summary)
        or NoiseEstimate(expected / max(int(labelled.sum()), 1)),
        informative=summary.get("informative") is not False,
        warning=str(summary.get("warning") or ""),
    )
