"""PreAct ResNet-18 for 32x32 images (He et al. 2016, "Identity mappings"), as DivideMix has it.

A 3x3 stem and four stages of two blocks with 64, 128, 256 and 512 channels; all stages but the
first halve the image. This variant differs from the original in three ways. It normalises after
the stem too; every shortcut starts from relu(bn(x)), where the original has x itself if the size
stays; and nothing is normalised or cut off before the pooling, unless `final_norm` says so.
"""

from __future__ import annotations

from torch import Tensor, nn

from csot.nets.layers import conv, initialise, pool

STAGES = (1, 2, 4, 8)
BLOCKS = 2


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
        for number, factor in enumerate(STAGES, start=1):
            blocks = []
            for position in range(BLOCKS):
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
        for number in range(1, len(STAGES) + 1):
            maps = self.get_submodule(f"layer{number}")(maps)
        return pool(self.final(maps))
