"""What every network returns."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Outputs(NamedTuple):
    """One row for each sample: logits (B, C), and the features (B, F) that the classifier read."""

    logits: Tensor
    features: Tensor
