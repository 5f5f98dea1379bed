"""Inception-ResNet-v2 (Szegedy et al. 2017), with the names of parameters that timm gives.

    stem 3 -> 192, mixed_5b -> 320, 10 x Block 35, mixed_6a -> 1088, 20 x Block 17,
    mixed_7a -> 2080, 9 x Block 8 and one more without ReLU, conv2d_7b -> 1536, mean

The numbers of the blocks are the sizes of their maps when the image has 299 x 299 pixels. Each adds
a scaled sum of branches to its input, as the paper advises for so many filters.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from csot.nets.layers import initialise, pool

SMALLEST = 75
"""Pixels each way that leave one pixel at the end."""
Size = int | tuple[int, int]


class Conv(nn.Module):
    """relu(bn(conv(x)))."""

    def __init__(self, inputs: int, outputs: int, size: Size, stride: int = 1, padding: Size = 0):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, size, stride=stride, padding=padding, bias=False)
        self.bn = nn.BatchNorm2d(outputs, eps=0.001)  # TensorFlow's, which the weights came from

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.bn(self.conv(x)).relu()
        return out


class Branches(nn.Module):
    """Several paths from one input, their channels side by side: branch0, branch1, ..."""

    def __init__(self, *branches: nn.Module):
        super().__init__()
        self.count = len(branches)
        for number, branch in enumerate(branches):
            self.add_module(f"branch{number}", branch)

    def joined(self, x: Tensor) -> Tensor:
        return torch.cat([self.get_submodule(f"branch{n}")(x) for n in range(self.count)], 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.joined(x)


class Residual(Branches):
    """relu(x + scale * conv2d(branches)); the last block of all has no ReLU."""

    def __init__(
        self, width: int, inner: int, scale: float, *branches: nn.Module, relu: bool = True
    ):
        super().__init__(*branches)
        self.scale = scale
        self.relu = relu
        self.conv2d = nn.Conv2d(inner, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x + self.scale * self.conv2d(self.joined(x))
        return out.relu() if self.relu else out


def mixed_5b() -> Branches:
    return Branches(
        Conv(192, 96, 1),
        nn.Sequential(Conv(192, 48, 1), Conv(48, 64, 5, padding=2)),
        nn.Sequential(Conv(192, 64, 1), Conv(64, 96, 3, padding=1), Conv(96, 96, 3, padding=1)),
        nn.Sequential(
            nn.AvgPool2d(3, stride=1, padding=1, count_include_pad=False), Conv(192, 64, 1)
        ),
    )


def block35() -> Residual:
    return Residual(
        320,
        128,
        0.17,
        Conv(320, 32, 1),
        nn.Sequential(Conv(320, 32, 1), Conv(32, 32, 3, padding=1)),
        nn.Sequential(Conv(320, 32, 1), Conv(32, 48, 3, padding=1), Conv(48, 64, 3, padding=1)),
    )


def mixed_6a() -> Branches:
    return Branches(
        Conv(320, 384, 3, stride=2),
        nn.Sequential(Conv(320, 256, 1), Conv(256, 256, 3, padding=1), Conv(256, 384, 3, stride=2)),
        nn.MaxPool2d(3, stride=2),
    )


def block17() -> Residual:
    long = nn.Sequential(
        Conv(1088, 128, 1),
        Conv(128, 160, (1, 7), padding=(0, 3)),
        Conv(160, 192, (7, 1), padding=(3, 0)),
    )
    return Residual(1088, 384, 0.1, Conv(1088, 192, 1), long)


def mixed_7a() -> Branches:
    return Branches(
        nn.Sequential(Conv(1088, 256, 1), Conv(256, 384, 3, stride=2)),
        nn.Sequential(Conv(1088, 256, 1), Conv(256, 288, 3, stride=2)),
        nn.Sequential(
            Conv(1088, 256, 1), Conv(256, 288, 3, padding=1), Conv(288, 320, 3, stride=2)
        ),
        nn.MaxPool2d(3, stride=2),
    )


def block8(scale: float, relu: bool = True) -> Residual:
    long = nn.Sequential(
        Conv(2080, 192, 1),
        Conv(192, 224, (1, 3), padding=(0, 1)),
        Conv(224, 256, (3, 1), padding=(1, 0)),
    )
    return Residual(2080, 448, scale, Conv(2080, 192, 1), long, relu=relu)


class InceptionResNetV2(nn.Sequential):
    """(B, channels, H, W) -> features (B, 1536)."""

    dim = 1536

    def __init__(self, channels: int = 3):
        super().__init__()
        for name, part in (
            ("conv2d_1a", Conv(channels, 32, 3, stride=2)),
            ("conv2d_2a", Conv(32, 32, 3)),
            ("conv2d_2b", Conv(32, 64, 3, padding=1)),
            ("maxpool_3a", nn.MaxPool2d(3, stride=2)),
            ("conv2d_3b", Conv(64, 80, 1)),
            ("conv2d_4a", Conv(80, 192, 3)),
            ("maxpool_5a", nn.MaxPool2d(3, stride=2)),
            ("mixed_5b", mixed_5b()),
            ("repeat", nn.Sequential(*(block35() for _ in range(10)))),
            ("mixed_6a", mixed_6a()),
            ("repeat_1", nn.Sequential(*(block17() for _ in range(20)))),
            ("mixed_7a", mixed_7a()),
            ("repeat_2", nn.Sequential(*(block8(0.2) for _ in range(9)))),
            ("block8", block8(1.0, relu=False)),
            ("conv2d_7b", Conv(2080, 1536, 1)),
        ):
            self.add_module(name, part)
        initialise(self)

    def forward(self, x: Tensor) -> Tensor:
        for part in self:
            x = part(x)
        return pool(x)
