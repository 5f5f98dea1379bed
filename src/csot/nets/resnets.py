"""Residual networks: PreAct ResNet-18, ResNet-8, -20 and -34 for small images, ResNet-50."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from csot.nets.layers import Norm, conv, initialise, norm_2d, pool

# PreAct ResNet-18 for 32x32 images (He et al. 2016, "Identity mappings"), as DivideMix has it.
#
# A 3x3 stem and four stages of two blocks with 64, 128, 256 and 512 channels; all stages but the
# first halve the image. This variant differs from the original in three ways. It normalises after
# the stem too; every shortcut starts from relu(bn(x)), where the original has x itself if the size
# stays; and there is no normalisation or ReLU before the pooling, unless `final_norm` is set.

PREACT_STAGES = (1, 2, 4, 8)
PREACT_BLOCKS = 2


class PreActBlock(nn.Module):
    """y = relu(bn(x));  shortcut(y) + conv(relu(bn(conv(y))))."""

    def __init__(self, inputs: int, outputs: int, stride: int):
        super().__init__()
        self.bn1 = nn.BatchNorm2d(inputs)
        self.conv1 = conv(inputs, outputs, 3, stride)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.conv2 = conv(outputs, outputs, 3)
        self.shortcut = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.shortcut.append(conv(inputs, outputs, 1, stride))

    def forward(self, x: Tensor) -> Tensor:
        active = self.bn1(x).relu_()
        inner = self.conv2(self.bn2(self.conv1(active)).relu_())
        out: Tensor = inner + self.shortcut(active)
        return out


class PreActResNet18(nn.Module):
    """(B, channels, H, W) -> features (B, 8 width)."""

    def __init__(self, channels: int, width: int = 64, final_norm: bool = False):
        super().__init__()
        self.conv1 = conv(channels, width, 3)
        self.bn1 = nn.BatchNorm2d(width)
        inputs = width
        for number, factor in enumerate(PREACT_STAGES, start=1):
            blocks = []
            for position in range(PREACT_BLOCKS):
                stride = 2 if number > 1 and position == 0 else 1
                blocks.append(PreActBlock(inputs, factor * width, stride))
                inputs = factor * width
            self.add_module(f"layer{number}", nn.Sequential(*blocks))
        self.final: nn.Module = nn.Identity()
        if final_norm:
            self.final = nn.Sequential(nn.BatchNorm2d(inputs), nn.ReLU())
        self.dim = inputs
        initialise(self)

    def forward(self, x: Tensor) -> Tensor:
        maps = self.bn1(self.conv1(x)).relu_()
        for number in range(1, len(PREACT_STAGES) + 1):
            maps = self.get_submodule(f"layer{number}")(maps)
        return pool(self.final(maps))


# ResNet-8 and ResNet-20 for small images (He et al. 2016, section 4.2): 6n + 2 layers.
#
# A 3x3 stem, then three stages of n blocks with `width`, 2 `width` and 4 `width` channels; the
# second and the third halve the image. The shortcut of a block that changes size is a 1x1
# convolution. Any image size works: 32x32 photographs as well as 8x8 digits, which end as 2x2 maps.
# A `stem_stride` of 2 halves the image at once, which saves three quarters of the work.

SMALL_STAGES = (1, 2, 4)


class Block(nn.Module):
    """relu(x + norm(conv(relu(norm(conv(x)))))).

    Without normalisation the second convolution is initialised smaller by `residual`, so that
    the variance of the features does not double with every block.
    """

    def __init__(self, inputs: int, outputs: int, stride: int, norm: Norm, residual: float):
        super().__init__()
        bias = norm == "none"
        self.residual = residual
        self.conv1 = conv(inputs, outputs, 3, stride, bias)
        self.bn1 = norm_2d(norm, outputs)
        self.conv2 = conv(outputs, outputs, 3, 1, bias)
        self.bn2 = norm_2d(norm, outputs)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            projection = conv(inputs, outputs, 1, stride, bias)
            self.shortcut = nn.Sequential(projection, norm_2d(norm, outputs))

    def forward(self, x: Tensor) -> Tensor:
        inner = self.bn2(self.conv2(self.bn1(self.conv1(x)).relu_()))
        out: Tensor = (inner + self.shortcut(x)).relu_()
        return out


class SmallResNet(nn.Module):
    """(B, channels, H, W) -> features (B, 4 width)."""

    def __init__(
        self,
        channels: int,
        depth: int,
        width: int = 16,
        norm: Norm = "batch",
        stem_stride: int = 1,
    ):
        super().__init__()
        assert depth % 6 == 2
        count = (depth - 2) // 6
        residual = (len(SMALL_STAGES) * count) ** -0.5 if norm == "none" else 1.0
        self.conv1 = conv(channels, width, 3, stem_stride, bias=norm == "none")
        self.bn1 = norm_2d(norm, width)
        blocks, inputs = [], width
        for factor in SMALL_STAGES:
            for position in range(count):
                stride = 2 if factor > 1 and position == 0 else 1
                blocks.append(Block(inputs, factor * width, stride, norm, residual))
                inputs = factor * width
        self.blocks = nn.Sequential(*blocks)
        self.dim = inputs
        initialise(self)
        for block in blocks:
            with torch.no_grad():
                block.conv2.weight.mul_(block.residual)

    def forward(self, x: Tensor) -> Tensor:
        return pool(self.blocks(self.bn1(self.conv1(x)).relu_()))


BLOCKS = (3, 4, 6, 3)
"""Number of blocks in each stage of ResNet-34 and ResNet-50."""

# ResNet-34 for 32x32 images, as ELR trains it: a 3x3 stem in place of the 7x7 one and of the
# pooling, then four stages of 3, 4, 6 and 3 blocks with 64, 128, 256 and 512 channels.


class ResNet34(nn.Module):
    """(B, channels, H, W) -> features (B, 8 width)."""

    def __init__(self, channels: int, width: int = 64):
        super().__init__()
        self.conv1 = conv(channels, width, 3)
        self.bn1 = nn.BatchNorm2d(width)
        blocks, inputs = [], width
        for number, count in enumerate(BLOCKS):
            outputs = width * 2**number
            for position in range(count):
                stride = 2 if number > 0 and position == 0 else 1
                blocks.append(Block(inputs, outputs, stride, "batch", 1.0))
                inputs = outputs
        self.blocks = nn.Sequential(*blocks)
        self.dim = inputs
        initialise(self)

    def forward(self, x: Tensor) -> Tensor:
        return pool(self.blocks(self.bn1(self.conv1(x)).relu_()))


# ResNet-50 for large images (He et al. 2016), with torchvision's names of parameters.
#
# A 7x7 stem and four stages of as many bottlenecks. As in torchvision the 3x3 convolution of
# a bottleneck has the stride, so that its ImageNet weights fit.

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
