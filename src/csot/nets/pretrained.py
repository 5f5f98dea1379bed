"""A pretrained backbone for fine-tuning: first only what comes after it, then its last blocks."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from csot.nets.errors import NetworkError

SLOWER = 0.1
"""Factor of the gradients in the backbone: its weights are good already."""


class Pretrained(nn.Module):
    """A module (B, 3, H, W) -> (B, dim) whose first blocks stay as they are.

    It is always in evaluation mode: the statistics of its batch normalisation come from millions of
    images. Call `begin_epoch` before each epoch.

    Parameters
    ----------
    body : nn.Module
        Its longest list of blocks is taken to be its depth, in the order of registration.
    dim : int
        Length of the output vectors.
    head_epochs : int
        Epochs in which no weight of the body changes.
    tuned : float
        Share of the blocks, the last ones, that are trained after that; what follows them is too.
    """

    def __init__(self, body: nn.Module, dim: int, head_epochs: int = 3, tuned: float = 0.25):
        super().__init__()
        if head_epochs < 0 or not 0 <= tuned <= 1:
            raise NetworkError(
                f"head_epochs {head_epochs} must not be negative, and tuned {tuned} must be "
                "between 0 and 1"
            )
        self.body = body.eval()
        self.dim = dim
        self._head_epochs = head_epochs
        self._is_tuned = False
        chosen = set(last_parameters(body, tuned))
        for name, parameter in body.named_parameters():
            parameter.requires_grad_(name in chosen)
            if name in chosen:
                parameter.register_hook(_slowed)  # type: ignore[no-untyped-call]

    def begin_epoch(self, epoch: int) -> None:
        """Decide whether the last blocks are trained; epochs count from 1."""
        self._is_tuned = epoch > self._head_epochs

    def train(self, mode: bool = True) -> Pretrained:
        super().train(mode)
        self.body.eval()
        return self

    def forward(self, inputs: Tensor) -> Tensor:
        with torch.set_grad_enabled(self._is_tuned and torch.is_grad_enabled()):
            out: Tensor = self.body(inputs)
        return out


def _slowed(gradient: Tensor) -> Tensor:
    return SLOWER * gradient


def last_parameters(body: nn.Module, share: float) -> list[str]:
    """Names of the parameters from the first of the last blocks on."""
    lists = [
        (name, part)
        for name, part in body.named_modules()
        if isinstance(part, nn.ModuleList | nn.Sequential) and len(part) > 1
    ]
    names = [name for name, _ in body.named_parameters()]
    if share == 0:
        return []
    if not lists:
        return names
    prefix, blocks = max(lists, key=lambda pair: len(pair[1]))
    first = len(blocks) - math.ceil(share * len(blocks))
    path = f"{prefix}." if prefix else ""
    starts = tuple(f"{path}{number}." for number in range(first, len(blocks)))
    positions = [place for place, name in enumerate(names) if name.startswith(starts)]
    return names[positions[0] :] if positions else []
