"""Small networks on top of features."""

from __future__ import annotations

from torch import nn

from csot.nets.layers import Norm, norm_1d


def two_layers(inputs: int, hidden: int, outputs: int, norm: Norm) -> nn.Sequential:
    """Linear, normalisation, ReLU, linear."""
    return nn.Sequential(
        nn.Linear(inputs, hidden),
        norm_1d(norm, hidden),
        nn.ReLU(),
        nn.Linear(hidden, outputs),
    )
