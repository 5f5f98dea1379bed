"""What every rival returns: one judgement of all rows, in the same terms."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Labels = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]
Scores = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Verdict:
    """A method's judgement of N labels, and its predictions for the test rows.

    ``score`` (N,): low where the label looks wrong; ``flagged`` (N,): labels the method calls
    wrong; ``predicted`` (N,): its label for each row, which replaces a flagged one; ``noise_rate``:
    its estimate of the share of wrong labels; ``test``: predicted labels of the test rows.
    """

    score: Scores
    flagged: Mask
    predicted: Labels
    noise_rate: float
    test: Labels | None
    seconds: float

    def corrected(self, given: Labels) -> Labels:
        return np.where(self.flagged, self.predicted, given)


@dataclass(frozen=True)
class Task:
    """Features and given labels of the rows to be judged, and the rows to be predicted."""

    features: Floats
    given: Labels
    test: Floats
    n_classes: int
    seed: int
