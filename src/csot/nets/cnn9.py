"""The 9-layer CNN of Co-teaching (Han et al. 2018), which many small-image baselines train.

Three stages of three convolutions, each followed by batch normalisation and a leaky ReLU. After the
first two stages come a maximum over 2x2 pixels and dropout; the convolutions of the third have no
padding, so that images of 32 pixels end as maps of 2x2.
"""

from __future__ import annotations

from torch import Tensor, nn

from csot.nets.layers import pool

SLOPE = 0.01
CNN9_SMALLEST = 28
"""Pixels: two halvings, then six pixels less."""
STAGES = ((1, 1, 1), (2, 2, 2), (4, 2, 1))
"""Channels of each convolution, in units of the width."""


class Cnn9(nn.Module):
    """(B, channels, H, W) -> features (B, width)."""

    def __init__(self, channels: int, width: int = 128, dropout: float = 0.25):
        super().__init__()
        layers: list[nn.Module] = []
        inputs = channels
        for number, stage in enumerate(STAGES):
            is_last = number == len(STAGES) - 1
            for factor in stage:
                outputs = factor * width
                layers += [
                    nn.Conv2d(inputs, outputs, 3, padding=0 if is_last else 1),
                    nn.BatchNorm2d(outputs),
                    nn.LeakyReLU(SLOPE),
                ]
                inputs = outputs
            if not is_last:
                layers += [nn.MaxPool2d(2), nn.Dropout2d(dropout)]
        self.layers = nn.Sequential(*layers)
        self.dim = inputs

    def forward(self, x: Tensor) -> Tensor:
        return pool(self.layers(x))
