"""The predictor of SimSiam (Chen and He 2021): it foretells the features of the other view."""

from __future__ import annotations

from torch import Tensor, nn

from csot.nets.layers import Norm, norm_1d


class Predictor(nn.Module):
    """(B, D) -> hidden -> (B, D), with a bottleneck: 128 units for CIFAR, 384 for WebVision.

    The first layer has no bias, as published: batch normalisation takes it away again.
    """

    def __init__(self, dim: int, hidden: int = 128, norm: Norm = "batch"):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(dim, hidden, bias=False),
            norm_1d(norm, hidden),
            nn.ReLU(),
            nn.Linear(hidden, dim),
        )

    def forward(self, features: Tensor) -> Tensor:
        out: Tensor = self.layers(features)
        return out
