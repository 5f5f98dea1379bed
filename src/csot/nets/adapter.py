"""Wrap a module of the user so that it returns logits and features."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from csot._core.errors import NetworkError
from csot.nets.network import Outputs

REMEDY = "let it return a pair (logits, features)"


class Adapted(nn.Module):
    """A module that returns logits (B, C), or a pair of logits and features (B, F).

    In the first case the features are the inputs of its last linear layer. Their length is found by
    passing zeros through the module once, so a module that does not fit fails before the training.

    Parameters
    ----------
    module : nn.Module
    num_classes : int
    shape : tuple of int
        Shape of one input.
    """

    def __init__(self, module: nn.Module, num_classes: int, shape: tuple[int, ...]):
        super().__init__()
        self.module = module
        self.num_classes = num_classes
        self.feature_dim = self._probe(shape)

    def forward(self, inputs: Tensor) -> Outputs:
        seen: list[Tensor] = []
        last = last_linear(self.module, self.num_classes)
        # Hooks for one call only: a copy of this network must not write into this one.
        hooks = [
            part.register_forward_pre_hook(lambda _, given: seen.append(given[0])) for part in last
        ]
        try:
            result = self.module(inputs)
        finally:
            for hook in hooks:
                hook.remove()
        name = type(self.module).__name__
        if isinstance(result, Tensor):
            if not seen:
                raise NetworkError(
                    f"{name} returned logits, but called no linear layer whose inputs could serve "
                    f"as features: {REMEDY}"
                )
            return self._checked(result, seen[-1])
        if isinstance(result, tuple | list) and len(result) == 2:
            return self._checked(*result)
        raise NetworkError(f"{name} returned {_described(result)}: {REMEDY}")

    def _probe(self, shape: tuple[int, ...]) -> int:
        """Find the length of the features; leaves the module unchanged, running means included."""
        modes = {part: part.training for part in self.module.modules()}
        first = next(self.module.parameters(), torch.empty(0))
        self.module.eval()
        try:
            with torch.no_grad():
                features = self.forward(torch.zeros((1, *shape), device=first.device)).features
        finally:
            for part, mode in modes.items():
                part.training = mode
        return features.shape[1]

    def _checked(self, logits: Any, features: Any) -> Outputs:
        name = type(self.module).__name__
        for kind, value in (("logits", logits), ("features", features)):
            if not isinstance(value, Tensor) or value.ndim != 2:
                raise NetworkError(
                    f"the {kind} of {name} are {_described(value)}, not a matrix with one row "
                    f"per sample: {REMEDY}"
                )
        if logits.shape[1] != self.num_classes:
            raise NetworkError(
                f"{name} returned logits of {logits.shape[1]} classes; the data has "
                f"{self.num_classes}"
            )
        return Outputs(logits, features)


def last_linear(module: nn.Module, num_classes: int) -> list[nn.Linear]:
    """The classifier: the linear layer defined last, among those with one output per class.

    Empty if there is no linear layer; such a module may still return a pair.
    """
    linear = [part for part in module.modules() if isinstance(part, nn.Linear)]
    fitting = [part for part in linear if part.out_features == num_classes]
    return (fitting or linear)[-1:]


def _described(value: object) -> str:
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__} of {len(value)}"
    return f"a {type(value).__name__}"
