"""Methods that train two networks, which differ in their initialisation."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from csot.methods._base import Judgement, Method
from csot.methods._single import judge_by_probabilities


class TwoNetworks(Method):
    """Two networks; both together predict, by the sum of their logits."""

    network_count = 2

    def prepare(self) -> None:
        make = self.context.make_network
        self.networks = nn.ModuleList([make(0), make(1)])

    def predict(self, inputs: Tensor) -> Tensor:
        logits = [network(inputs).logits.float() for network in self.networks]
        return torch.stack(logits).sum(0).log_softmax(-1)

    def judge(self) -> Judgement:
        rows = self.context.everyone
        logits = [self.context.predict(network, rows).logits for network in self.networks]
        return judge_by_probabilities(torch.stack(logits).sum(0).softmax(-1), self.context.labels)
