"""Which rows a reviewer verifies. The one place that knows: replace ``choose`` to try another."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

import csot


def choose(findings: pd.DataFrame, count: int, seed: int) -> npt.NDArray[np.int64]:
    """Positions of ``count`` rows, as ``csot audit`` proposes them.

    A longer list begins with the shorter one, so that a curve over counts adds rows and never
    exchanges them.
    """
    audit = csot.propose_audit(findings, n_rows=count, random_state=seed)
    return np.asarray(audit.positions, dtype=np.int64)
