"""Small data sets that several tests clean."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image


def blobs(n: int = 120) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.str_]]:
    """Two clusters; the first six labels are wrong."""
    rng = np.random.default_rng(0)
    truth = np.arange(n) % 2
    features = rng.normal(size=(n, 4)) + 4 * truth[:, None]
    names = np.array(["ape", "bee"])
    given = names[np.where(np.arange(n) < 6, 1 - truth, truth)]
    return features, given


def embed(paths: list[Path]) -> npt.NDArray[np.float32]:
    """Pixels as features: an embedder."""
    return np.stack([np.asarray(Image.open(path), dtype=np.float32).ravel() for path in paths])
