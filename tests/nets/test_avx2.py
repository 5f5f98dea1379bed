"""Narrow networks train on CPUs with AVX2 but not AVX-512, where oneDNN corrupts the heap.

`ONEDNN_MAX_CPU_ISA=AVX2` makes any x86-64 machine take that path. The damage kills the interpreter,
so training happens in a process of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import csot.nets
from csot.nets import NETWORKS, build_network
from csot.nets.layers import StridedPointwise, conv

SOURCE = Path(csot.nets.__file__).parents[2]
SHAPES = {"inception_resnet_v2": (3, 75, 75), "mlp": (24,)}
TRAINED = ["resnet8", "preact_resnet18", "resnet50"]
TRAIN = """
import sys, torch
from csot.nets import build_network
torch.set_num_threads(1)
for name in sys.argv[1:]:
    for width in (1, 2, 4, 6):
        network = build_network(name, shape=(3, 16, 16), num_classes=5, width=width)
        network = network.to(memory_format=torch.channels_last)
        images = torch.randn(16, 3, 16, 16).to(memory_format=torch.channels_last)
        for _ in range(15):
            network(images).logits.square().sum().backward()
    print(name, flush=True)
"""


@pytest.fixture(scope="module")
def training() -> subprocess.CompletedProcess[str]:
    """One process for all networks: what takes most of its time is to import torch."""
    return subprocess.run(
        [sys.executable, "-c", TRAIN, *TRAINED],
        env={**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2", "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("name", TRAINED)
def test_narrow_networks_train(name: str, training: subprocess.CompletedProcess[str]) -> None:
    assert name in training.stdout.splitlines(), training.stderr


def test_training_ends_well(training: subprocess.CompletedProcess[str]) -> None:
    """Damage to the heap may show no earlier than when the interpreter ends."""
    assert training.returncode == 0, training.stderr


@pytest.mark.parametrize("name", NETWORKS)
def test_no_network_has_a_strided_pointwise_convolution(name: str) -> None:
    """As torch has it: the kernel that corrupts the heap is never asked for."""
    with torch.device("meta"):
        network = build_network(name, shape=SHAPES.get(name, (3, 32, 32)), num_classes=5)
    found = [part for part in network.modules() if isinstance(part, nn.Conv2d)]
    assert not [part for part in found if part.kernel_size == (1, 1) and part.stride != (1, 1)]


@pytest.mark.parametrize("layout", [torch.channels_last, torch.contiguous_format])
@pytest.mark.parametrize(("size", "step"), [(8, 2), (7, 2), (9, 3), (1, 2)])
def test_subsampled_equals_strided(layout: torch.memory_format, size: int, step: int) -> None:
    """Up to the order of oneDNN's sums; to the bit in channels_last at most sizes."""
    generator = torch.Generator().manual_seed(0)
    ours = conv(16, 24, 1, step, bias=True)
    assert isinstance(ours, StridedPointwise)
    theirs = nn.Conv2d(16, 24, 1, stride=step)
    theirs.load_state_dict(ours.state_dict())
    images = torch.randn(5, 16, size, size, generator=generator).contiguous(memory_format=layout)
    grads = []
    outputs = []
    for layer in (ours, theirs):
        given = images.clone().requires_grad_()
        outputs.append(layer(given))
        outputs[-1].square().sum().backward()
        assert given.grad is not None
        grads.append([given.grad, *(p.grad for p in layer.parameters())])
    torch.testing.assert_close(*outputs)
    torch.testing.assert_close(*grads)
