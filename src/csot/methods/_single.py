"""Methods that train one network and judge labels by its predictions."""

from __future__ import annotations

from torch import Tensor

from csot.methods._base import Judgement, Method


class SingleNetwork(Method):
    """One network; a label looks as good as the network finds it likely."""

    def prepare(self) -> None:
        self.network = self.context.make_network(0)

    def predict(self, inputs: Tensor) -> Tensor:
        log_probs: Tensor = self.network(inputs).logits.float().log_softmax(-1)
        return log_probs

    def judge(self) -> Judgement:
        seen = self.context.predict(self.network, self.context.everyone)
        return judge_by_probabilities(seen.probs, self.context.labels, seen.features)


def judge_by_probabilities(
    probs: Tensor, labels: Tensor, features: Tensor | None = None
) -> Judgement:
    """A verdict is relied on where one class has more than half of the probability."""
    return Judgement(
        posterior=probs,
        trusted=probs.amax(-1) > 0.5,
        scores=probs.gather(1, labels.clamp(min=0)[:, None])[:, 0],
        features=features,
    )
