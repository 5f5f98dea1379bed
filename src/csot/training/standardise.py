"""Features of mean 0 and spread 1, as part of the network, so that it is saved with it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from csot.data.samples import Samples
from csot.methods._base import feature_dim
from csot.nets.outputs import Outputs

ROWS = 65536
"""Rows that the moments are taken from: enough for two digits more than needed."""


class Standardised(nn.Module):
    """A network behind (x - mean) / spread."""

    mean: Tensor
    spread: Tensor

    def __init__(self, network: nn.Module, mean: Tensor, spread: Tensor) -> None:
        super().__init__()
        self.network = network
        self.feature_dim = feature_dim(network)
        self.register_buffer("mean", mean)
        self.register_buffer("spread", spread)

    def forward(self, inputs: Tensor) -> Outputs:
        outputs: Outputs = self.network((inputs - self.mean) / self.spread)
        return outputs


def moments(samples: Samples) -> tuple[Tensor, Tensor]:
    """(D,) mean and (D,) standard deviation; a constant feature has spread 1."""
    rows = torch.arange(0, len(samples), max(1, len(samples) // ROWS))
    values = samples.batch(rows).double()
    spread = values.std(0, correction=0)
    return values.mean(0).float(), torch.where(spread > 0, spread, 1.0).float()
