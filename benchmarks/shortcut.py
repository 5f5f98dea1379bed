"""What a shortcut costs that subsamples first, against torch's strided convolution.

Forward and backward of whole networks in channels_last, the two in turn within one run; ratios
above 1 mean that subsampling first is slower. See `csot.nets.layers.StridedPointwise`.

    python benchmarks/shortcut.py --repeats 15
"""

from __future__ import annotations

import argparse
import copy
import platform
import statistics
import time

import torch
from torch import Tensor, nn

from csot.nets import build_network
from csot.nets.layers import StridedPointwise

CASES = (
    ("resnet8", 16, 8, 128),
    ("resnet8", 16, 32, 128),
    ("resnet20", 16, 32, 64),
    ("preact_resnet18", 64, 32, 16),
    ("resnet50", 64, 96, 8),
)
"""Name, width, pixels, batch."""


def with_strided_shortcuts(network: nn.Module) -> nn.Module:
    """A copy with the same parameters and torch's own strided 1 x 1 convolutions."""
    network = copy.deepcopy(network)
    for parent in list(network.modules()):
        for name, part in list(parent.named_children()):
            if isinstance(part, StridedPointwise):
                strided = nn.Conv2d(part.in_channels, part.out_channels, 1, part.step, bias=False)
                strided.weight = part.weight
                setattr(parent, name, strided)
    return network


def step_seconds(network: nn.Module, images: Tensor) -> float:
    network.zero_grad()
    start = time.perf_counter()
    network(images).logits.square().mean().backward()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--repeats", type=int, default=15)
    args = parser.parse_args()
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {platform.machine()}")
    for name, width, pixels, batch in CASES:
        shape = (3, pixels, pixels)
        ours = build_network(name, shape=shape, num_classes=10, width=width)
        ours = ours.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        theirs = with_strided_shortcuts(ours)
        images = torch.randn(batch, *shape).contiguous(memory_format=torch.channels_last)
        step_seconds(ours, images), step_seconds(theirs, images)
        pairs = [
            (step_seconds(ours, images), step_seconds(theirs, images)) for _ in range(args.repeats)
        ]
        ratios = sorted(mine / other for mine, other in pairs)
        print(
            f"{name:16s} width {width:3d}, {pixels} pixels: "
            f"{1e3 * min(mine for mine, _ in pairs):7.1f} ms against "
            f"{1e3 * min(other for _, other in pairs):7.1f} ms strided; "
            f"median ratio {statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
        )


if __name__ == "__main__":
    main()
