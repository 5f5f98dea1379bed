"""A network of backbone, head and classifier, its outputs; and modules of users in that form."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, get_args, runtime_checkable

import torch
from torch import Tensor, nn

from csot._core.errors import NetworkError, unknown_choice
from csot.nets.layers import Norm, norm_1d


class Outputs(NamedTuple):
    """Outputs of a network for B samples.

    Attributes
    ----------
    logits : Tensor of shape (B, C)
    features : Tensor of shape (B, F)
        The input of the classifier.
    """

    logits: Tensor
    features: Tensor


Head: TypeAlias = Literal["linear", "none"]


@runtime_checkable
class Backbone(Protocol):
    """A module that maps inputs to vectors (B, dim)."""

    dim: int

    def __call__(self, inputs: Tensor) -> Tensor: ...


class Network(nn.Module):
    """inputs -> backbone -> head -> features z (B, F) -> classifier -> logits (B, C).

    The solver compares z, SimSiam predicts z and the classifier reads z. The published network has
    a linear head, 512 -> 512, although no nonlinearity follows. With head "none", z is the output
    of the backbone.

    Parameters
    ----------
    backbone : nn.Module
        Maps inputs to vectors of length `backbone.dim`.
    num_classes : int
    feature_dim : int, optional
        Output size of the head; by default `backbone.dim`.
    head : {"none", "linear"}
    """

    backbone: nn.Module
    head: nn.Module

    def __init__(
        self,
        backbone: nn.Module,
        num_classes: int,
        feature_dim: int | None = None,
        head: Head = "none",
    ):
        super().__init__()
        if not isinstance(backbone, Backbone):
            raise NetworkError(
                f"{type(backbone).__name__} has no attribute `dim`: set it to the length of the "
                f"backbone's output vectors"
            )
        if head not in get_args(Head):
            raise unknown_choice("head", head, get_args(Head))
        if head == "none" and feature_dim not in (None, backbone.dim):
            raise NetworkError(
                f"feature_dim is {feature_dim}, but the backbone gives {backbone.dim} and there is "
                f"no head: use head='linear'"
            )
        self.backbone = backbone
        self.feature_dim = backbone.dim if feature_dim is None else feature_dim
        self.num_classes = num_classes
        if head == "linear":
            self.head = nn.Linear(backbone.dim, self.feature_dim)
        else:
            self.head = nn.Identity()
        self.classifier = nn.Linear(self.feature_dim, num_classes)

    def forward(self, inputs: Tensor) -> Outputs:
        features = self.head(self.backbone(inputs))
        return Outputs(self.classifier(features), features)


class SimSiamPredictor(nn.Module):
    """The predictor of SimSiam (Chen and He 2021): predicts the features of the other view.

    (B, D) -> hidden -> (B, D), with a bottleneck: 128 units for CIFAR, 384 for WebVision. The first
    layer has no bias, as published, because batch normalisation removes it.
    """

    def __init__(self, dim: int, hidden: int = 128, norm: Norm = "batch"):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(dim, hidden, bias=False),
            norm_1d(norm, hidden),
            nn.ReLU(),
            nn.Linear(hidden, dim),
        )

    def forward(self, features: Tensor) -> Tensor:
        out: Tensor = self.layers(features)
        return out


# Wrap a module of the user so that it returns logits and features.

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
