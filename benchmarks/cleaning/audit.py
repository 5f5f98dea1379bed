"""Which rows a reviewer verifies. The one place that knows: replace ``choose`` to try another."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

STRATA = 10


def choose(findings: pd.DataFrame, count: int, seed: int) -> npt.NDArray[np.int64]:
    """Positions of ``count`` rows, random within strata of ``label_score``, one stratum in turn.

    A longer list begins with the shorter one, so that a curve over counts adds rows and never
    exchanges them.
    """
    rng = np.random.default_rng(seed)
    score = findings["label_score"].to_numpy()
    chance = rng.random(len(score))
    # Ties of the score are broken at random, or a stratum would follow the order of the file.
    order = np.lexsort((chance, score))
    strata = [rng.permutation(part) for part in np.array_split(order, STRATA)]
    longest = max(len(part) for part in strata)
    table = np.full((longest, STRATA), -1, dtype=np.int64)
    for column, part in enumerate(strata):
        table[: len(part), column] = part
    turn = table.ravel()
    return turn[turn >= 0][:count]
