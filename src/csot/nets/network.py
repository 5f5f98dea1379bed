"""A network of backbone, head and classifier, its outputs, and the predictor of SimSiam."""

from __future__ import annotations

from typing import Literal, NamedTuple, Protocol, TypeAlias, get_args, runtime_checkable

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
