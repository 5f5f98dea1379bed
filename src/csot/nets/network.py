"""A backbone, a head and a classifier."""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias, get_args, runtime_checkable

from torch import Tensor, nn

from csot.nets.errors import NetworkError, unknown
from csot.nets.outputs import Outputs

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
