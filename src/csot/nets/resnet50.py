"""ResNet-50 for large images (He et al. 2016), with torchvision's names of parameters.

A 7x7 stem and four stages of 3, 4, 6 and 3 bottlenecks. As in torchvision the 3x3 convolution of a
bottleneck takes the stride, so its ImageNet weights serve.
"""

from __future__ import annotations

from torch import Tensor, nn

from csot.nets.layers import conv, initialise, pool

BLOCKS = (3, 4, 6, 3)
EXPANSION = 4


class Bottleneck(nn.Module):
    """relu(x + three convolutions: 1x1 down, 3x3, 1x1 up)."""

    def __init__(self, inputs: int, inner: int, stride: int):
        super().__init__()
        outputs = EXPANSION * inner
        self.conv1 = conv(inputs, inner, 1)
        self.bn1 = nn.BatchNorm2d(inner)
        self.conv2 = conv(inner, inner, 3, stride)
        self.bn2 = nn.BatchNorm2d(inner)
        self.conv3 = conv(inner, outputs, 1)
        self.bn3 = nn.BatchNorm2d(outputs)
        self.downsample: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(
                conv(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs)
            )

    def forward(self, x: Tensor) -> Tensor:
        inner = self.bn2(self.conv2(self.bn1(self.conv1(x)).relu())).relu()
        out: Tensor = (self.bn3(self.conv3(inner)) + self.downsample(x)).relu()
        return out


class ResNet50(nn.Module):
    """(B, channels, H, W) -> features (B, 32 width): 2048."""

    def __init__(self, channels: int = 3, width: int = 64):
        super().__init__()
        self.conv1 = conv(channels, width, 7, stride=2)
        self.bn1 = nn.BatchNorm2d(width)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        inputs = width
        for number, count in enumerate(BLOCKS, start=1):
            inner = width * 2 ** (number - 1)
            blocks = []
            for position in range(count):
                stride = 2 if number > 1 and position == 0 else 1
                blocks.append(Bottleneck(inputs, inner, stride))
                inputs = EXPANSION * inner
            self.add_module(f"layer{number}", nn.Sequential(*blocks))
        self.dim = inputs
        initialise(self)

    def forward(self, x: Tensor) -> Tensor:
        maps = self.maxpool(self.bn1(self.conv1(x)).relu())
        for number in range(1, len(BLOCKS) + 1):
            maps = self.get_submodule(f"layer{number}")(maps)
        return pool(maps)
