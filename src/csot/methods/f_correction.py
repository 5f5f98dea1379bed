"""F-correction (forward): estimate how labels were confused, then put that inside the loss.

Stage one minimises CE on the given labels. From its weights of lowest loss on the held-out rows, or
as `keep` says, comes the transition matrix

    T[k, :] = p(x_k),   x_k the row of largest p_k among those with p_k below its quantile q

whose entry T[k, j] estimates p(given j | true k): at a row that surely is a k, the network predicts
how labels of class k are given. Stage two trains a fresh network with -log (p(x) T)_y.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from csot.methods.core.batches import full_batches, labelled
from csot.methods.core.contract import Batch, Judgement, Losses, Settings
from csot.methods.core.networks import SingleNetwork, judge_by_probabilities
from csot.methods.parts.losses import cross_entropy


class FCorrectionSettings(Settings):
    first_stage: int | None = Field(None, ge=1)
    """Epochs of plain cross-entropy; half of them, if not set."""
    keep: Literal["loss", "accuracy", "last"] = "loss"
    """Which weights of stage one count: the best on the held-out rows, by the loss (original) or by
    the accuracy, or the last, as always when no rows are held out. On a few noisy rows the loss is
    lowest before the network is sure of anything."""
    quantile: float | None = Field(0.97, gt=0, lt=1)
    """q: rows at or above it count as outliers. None takes the largest (CIFAR-100)."""


class FCorrection(SingleNetwork):
    Settings: ClassVar[type[Settings]] = FCorrectionSettings
    about = "estimate the noise matrix by a first network, train a second one through it"
    reference = "Patrini et al., CVPR 2017"
    settings: FCorrectionSettings

    transition: Tensor
    best: Tensor
    estimated: Tensor

    def prepare(self) -> None:
        super().prepare()
        self.register_buffer("transition", torch.eye(self.context.num_classes))
        self.register_buffer("best", torch.tensor(-torch.inf))
        self.register_buffer("estimated", torch.zeros((), dtype=torch.bool))

    @property
    def first(self) -> int:
        """The last epoch of stage one."""
        chosen = self.settings.first_stage
        return max(1, self.context.epochs // 2) if chosen is None else chosen

    def clock(self, epoch: int) -> tuple[int, int]:
        """Both stages have a schedule of their own."""
        epochs, first = self.context.epochs, self.first
        return (epoch, min(first, epochs)) if epoch <= first else (epoch - first, epochs - first)

    def begin_epoch(self, epoch: int) -> dict[str, float]:
        if 1 < epoch <= self.first + 1:
            self._look(is_last=epoch == self.first + 1)
        if epoch == self.first + 1:
            fresh = self.context.make_network(1)
            self.network.load_state_dict(fresh.state_dict())
        record = {"stage": 1.0 + (epoch > self.first)}
        if bool(self.estimated):
            record["kept_labels"] = float(self.transition.diag().mean())
        return record

    def _look(self, *, is_last: bool) -> None:
        """Estimate T if the network has never been better on the held-out rows."""
        context = self.context
        held = torch.ones(len(context.labels), dtype=torch.bool)
        held[context.rows] = False
        rows = held.nonzero()[:, 0]
        if len(rows) and self.settings.keep != "last":
            score = self._score(rows)
            if not bool(score > self.best):
                return
            self.best.copy_(score)
        elif not is_last:
            return
        probs = context.predict(self.network, context.rows).probs
        found = estimate_transition(probs, self.settings.quantile)
        self.transition.copy_(context.ranks.from_first(found))
        self.estimated.fill_(True)

    def _score(self, rows: Tensor) -> Tensor:
        """How well the network does on the given labels of some rows; more is better."""
        logits, given = self.context.predict(self.network, rows).logits, self.context.labels[rows]
        if self.settings.keep == "loss":
            return -cross_entropy(logits, given)
        return (logits.argmax(-1) == given).float().mean()

    def steps(self, epoch: int) -> Iterator[Mapping[str, Tensor]]:
        rows = labelled(self.context.rows, self.context.labels)
        name = "plain" if epoch <= self.first else "corrected"
        for batch in full_batches(rows, self.context.batch_size, self.context.order):
            yield {name: batch}

    def forward(self, batch: Batch) -> Losses:
        (name, part) = next(iter(batch.items()))
        weak = part.view(self.context.views.weak, self.context.generator)
        logits = self.network(weak).logits
        if name == "plain":
            return {"cross_entropy": cross_entropy(logits, part.labels)}
        return {"corrected": -self._joint(logits, part.labels).logsumexp(-1).mean()}

    def _joint(self, logits: Tensor, labels: Tensor) -> Tensor:
        """(b, C): log p(k | x) + log T[k, y]."""
        # A rate of exactly zero would make a label impossible, and its loss infinite.
        rates = self.transition.clamp(min=1e-12).log()[:, labels].T
        joint: Tensor = logits.float().log_softmax(-1) + rates
        return joint

    def judge(self) -> Judgement:
        """p(true k | x, given y), in proportion to p(k | x) T[k, y]."""
        labels = self.context.labels
        logits = self.context.predict(self.network, self.context.everyone).logits
        posterior = logits.softmax(-1)
        if bool(self.estimated):
            known = (labels >= 0)[:, None]
            joint = self._joint(logits, labels.clamp(min=0)).softmax(-1)
            posterior = torch.where(known, joint, posterior)
        return judge_by_probabilities(posterior, labels)


def estimate_transition(probs: Tensor, quantile: float | None) -> Tensor:
    """(n, C) predictions -> (C, C); each class reads the unaltered predictions."""
    scores = probs
    if quantile is not None:
        # The value of a row, not one between two rows; if it excludes every row, none is excluded.
        place = math.ceil(quantile * (len(probs) - 1))
        bound = probs.sort(0).values[place]
        scores = torch.where(probs < bound, probs, -1.0)
        scores = torch.where((scores >= 0).any(0), scores, probs)
    chosen = scores.argmax(0)
    return probs[chosen] / probs[chosen].sum(-1, keepdim=True)
