"""A multi-layer perceptron for embeddings: linear, normalisation, ReLU, dropout per layer."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from csot.nets.errors import NetworkError
from csot.nets.layers import Norm, norm_1d


class MLP(nn.Module):
    """(B, D) -> features (B, hidden[-1])."""

    def __init__(
        self,
        inputs: int,
        hidden: Sequence[int] = (512, 512),
        norm: Norm = "batch",
        dropout: float = 0.0,
        input_dropout: float = 0.0,
    ):
        super().__init__()
        if not hidden or min(hidden) < 1:
            raise NetworkError(
                f"hidden is {list(hidden)}: an mlp needs at least one layer, of at least one unit"
            )
        layers: list[nn.Module] = [nn.Dropout(input_dropout)] if input_dropout else []
        for size in hidden:
            linear = nn.Linear(inputs, size, bias=norm != "batch")
            nn.init.kaiming_normal_(linear.weight, nonlinearity="relu")
            if linear.bias is not None:
                nn.init.zeros_(linear.bias)
            layers += [linear, norm_1d(norm, size), nn.ReLU()]
            if dropout:
                layers.append(nn.Dropout(dropout))
            inputs = size
        self.layers = nn.Sequential(*layers)
        self.dim = inputs

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layers(x.flatten(1))
        return out
