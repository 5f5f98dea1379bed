"""ResNet-8 and ResNet-20 for small images (He et al. 2016, section 4.2): 6n + 2 layers.

A 3x3 stem, then three stages of n blocks with `width`, 2 `width` and 4 `width` channels; the second
and the third halve the image. The shortcut of a block that changes size is a 1x1 convolution.
Any size serves: 32x32 photographs as well as 8x8 digits, of which a 2x2 map is left. A
`stem_stride` of 2 halves the image at once: a quarter of the work, for machines without a GPU.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from csot.nets.layers import Norm, conv, initialise, norm_2d, pool

STAGES = (1, 2, 4)


class Block(nn.Module):
    """relu(x + norm(conv(relu(norm(conv(x)))))).

    Without normalisation the second convolution starts smaller by `residual`, lest the
    spread of the features doubles with every block.
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
        residual = (len(STAGES) * count) ** -0.5 if norm == "none" else 1.0
        self.conv1 = conv(channels, width, 3, stem_stride, bias=norm == "none")
        self.bn1 = norm_2d(norm, width)
        blocks, inputs = [], width
        for factor in STAGES:
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
