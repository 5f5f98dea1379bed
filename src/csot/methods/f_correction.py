"""F-correction (forward): estimate how labels were confused, then use that in the loss.

Stage one minimises CE on the given labels. The network of lowest loss on the held-out rows (see
`keep`) gives the transition matrix

    T[k, :] = p(x_k),   x_k the row of largest p_k among those with p_k below its quantile q

whose entry T[k, j] estimates p(given j | true k): for a row that is certainly of class k, the
network predicts how that class is labelled. Stage two trains a new network with -log (p(x) T)_y.
"""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from csot.methods.core.batches import one_stream
from csot.methods.core.contract import (
    Batch,
    Judgement,
    Losses,
    Method,
    Role,
    Settings,
    Steps,
    Stream,
)
from csot.methods.parts.losses import cross_entropy


class FCorrectionSettings(Settings):
    first_stage: int | None = Field(None, ge=1)
    """Epochs of plain cross-entropy; by default half of all epochs."""
    keep: Literal["loss", "accuracy", "last"] = "loss"
    """Which epoch of stage one gives T: the best on the held-out rows, by loss (as in the original)
    or by accuracy, or the last one (always, if no rows are held out). On a few noisy rows the loss
    is lowest before the network has become confident."""
    quantile: float | None = Field(0.97, gt=0, lt=1)
    """q: rows at or above it count as outliers. None takes the largest (CIFAR-100)."""


class FCorrection(Method):
    Settings: ClassVar[type[Settings]] = FCorrectionSettings
    about = "estimate the noise matrix by a first network, train a second one through it"
    reference = "Patrini et al., CVPR 2017"
    settings: FCorrectionSettings

    transition: Tensor
    """(C, C) T."""
    best: Tensor
    """Best score on the held-out rows so far."""
    has_transition: Tensor

    def prepare(self) -> None:
        self.register_buffer("transition", torch.eye(self.context.num_classes))
        self.register_buffer("best", torch.tensor(-torch.inf))
        self.register_buffer("has_transition", torch.zeros((), dtype=torch.bool))
        held = torch.ones(len(self.context.labels), dtype=torch.bool)
        held[self.context.rows] = False
        # Found here, as an epoch may have a subset of the rows.
        self.held_rows = held.nonzero()[:, 0]

    @property
    def first(self) -> int:
        """The last epoch of stage one."""
        chosen = self.settings.first_stage
        return max(1, self.context.epochs // 2) if chosen is None else chosen

    def schedule_epoch(self, epoch: int) -> tuple[int, int]:
        """Each stage has its own schedule."""
        epochs, first = self.context.epochs, self.first
        return (epoch, min(first, epochs)) if epoch <= first else (epoch - first, epochs - first)

    def begin_epoch(self, epoch: int) -> dict[str, float]:
        if 1 < epoch <= self.first + 1:
            self._update_transition(is_last=epoch == self.first + 1)
        if epoch == self.first + 1:
            fresh = self.context.make_network(1)
            self.network.load_state_dict(fresh.state_dict())
        record = {"stage": 1.0 + (epoch > self.first)}
        if bool(self.has_transition):
            record["kept_labels"] = float(self.transition.diag().mean())
        return record

    def _update_transition(self, *, is_last: bool) -> None:
        """Estimate T again if the network is better on the held-out rows than ever before."""
        context, rows = self.context, self.held_rows
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
        self.has_transition.fill_(True)

    def _score(self, rows: Tensor) -> Tensor:
        """Agreement of the network with the given labels of some rows; higher is better."""
        logits, given = self.context.predict(self.network, rows).logits, self.context.labels[rows]
        if self.settings.keep == "loss":
            return -cross_entropy(logits, given)
        return (logits.argmax(-1) == given).float().mean()

    def steps(self, epoch: int) -> Steps:
        """Rows without a label are left out."""
        role = Role.WARMUP if epoch <= self.first else Role.TRAIN
        return one_stream(self.context, Stream(role), only_labelled=True)

    def forward(self, batch: Batch) -> Losses:
        [(stream, part)] = batch.items()
        logits = self.network(self.context.weak_view(part)).logits
        if stream.role is Role.WARMUP:
            return {"cross_entropy": cross_entropy(logits, part.labels)}
        return {"corrected": -self._joint(logits, part.labels).logsumexp(-1).mean()}

    def _joint(self, logits: Tensor, labels: Tensor) -> Tensor:
        """(b, C): log p(k | x) + log T[k, y]."""
        # Avoids log(0): a rate of exactly zero would make the loss of a label infinite.
        rates = self.transition.clamp(min=1e-12).log()[:, labels].T
        joint: Tensor = logits.float().log_softmax(-1) + rates
        return joint

    def judge(self) -> Judgement:
        """Judge by p(true k | x, given y), proportional to p(k | x) T[k, y]."""
        labels = self.context.labels
        logits = self.context.predict(self.network, self.context.all_rows).logits
        posterior = logits.softmax(-1)
        if bool(self.has_transition):
            known = (labels >= 0)[:, None]
            joint = self._joint(logits, labels.clamp(min=0)).softmax(-1)
            posterior = torch.where(known, joint, posterior)
        return Judgement.from_probs(posterior, labels)


def estimate_transition(probs: Tensor, quantile: float | None) -> Tensor:
    """(n, C) predictions -> (C, C); each class reads the unaltered predictions."""
    scores = probs
    if quantile is not None:
        # The quantile is the value of some row; if it excludes every row, no row is excluded.
        place = math.ceil(quantile * (len(probs) - 1))
        bound = probs.sort(0).values[place]
        scores = torch.where(probs < bound, probs, -1.0)
        scores = torch.where((scores >= 0).any(0), scores, probs)
    chosen = scores.argmax(0)
    return probs[chosen] / probs[chosen].sum(-1, keepdim=True)
