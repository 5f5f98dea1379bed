"""A backbone, a head and a classifier, and what they return; the predictor of SimSiam."""

from __future__ import annotations

from typing import Literal, NamedTuple, Protocol, TypeAlias, get_args, runtime_checkable

from torch import Tensor, nn

from csot.nets.errors import NetworkError, unknown
from csot.nets.layers import Norm, norm_1d


class Outputs(NamedTuple):
    """One row for each sample: logits (B, C), and the features (B, F) that the classifier read."""

    logits: Tensor
    features: Tensor


# A backbone, a head and a classifier.

Head: TypeAlias = Literal["linear", "none"]


@runtime_checkable
class Backbone(Protocol):
    """A module that turns inputs into vectors (B, dim)."""

    dim: int

    def __call__(self, inputs: Tensor) -> Tensor: ...


class Network(nn.Module):
    """inputs -> backbone -> head -> features z (B, F) -> classifier -> logits (B, C).

    The published network has a linear head, 512 -> 512, though no nonlinearity follows: z is what
    the solver compares, SimSiam predicts and the classifier reads. With head "none" the vector of
    the backbone is z.
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
                f"{type(backbone).__name__} has no attribute `dim`: a backbone says how long its "
                f"vectors are"
            )
        if head not in get_args(Head):
            raise unknown("head", head, get_args(Head))
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


# The predictor of SimSiam (Chen and He 2021): it foretells the features of the other view.


class Predictor(nn.Module):
    """(B, D) -> hidden -> (B, D), with a bottleneck: 128 units for CIFAR, 384 for WebVision.

    The first layer has no bias, as published: batch normalisation takes it away again.
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
