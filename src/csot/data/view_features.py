"""Views of embeddings: noise in proportion to each feature's spread, and features left out."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from csot.data.view_base import Draws, View, check_rows


@dataclass(frozen=True)
class FeatureView(View):
    """x -> x + noise * scale * N(0, 1), each feature set to its `centre` at the rate `dropout`.

    What is kept is not enlarged: the spread of a feature stays what it is in the plain view.
    """

    scale: Tensor
    centre: Tensor
    noise: float = 0.0
    dropout: float = 0.0

    def draw(self, count: int, generator: torch.Generator) -> Draws:
        values = {}
        size = (count, len(self.scale))
        if self.noise:
            values["noise"] = torch.randn(size, generator=generator) * (self.noise * self.scale)
        if self.dropout:
            values["dropped"] = torch.rand(size, generator=generator) < self.dropout
        return Draws(values, count)

    def __call__(self, inputs: Tensor, draws: Draws) -> Tensor:
        check_rows(inputs, draws)
        outputs = inputs.float()
        if self.noise:
            outputs = outputs + draws.values["noise"].to(inputs.device)
        if self.dropout:
            dropped = draws.values["dropped"].to(inputs.device)
            outputs = torch.where(dropped, self.centre.to(inputs.device), outputs)
        return outputs
