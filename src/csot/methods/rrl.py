"""RRL: embeddings of few dimensions, drawn to class prototypes; neighbours clean the labels.

h is a linear projection of the features v, z = h / |h|, and relu(W h) has to reconstruct v. After a
warm-up by cross-entropy, with weak and strong views of each row,

    L = cross-entropy of clean rows + reconstruction errors of both views
        + w_inst * contrast of weak views with their strong ones
        + w_proto * cross-entropy of softmax(<z~, prototypes> / tau) for mixed clean rows

Prototypes are normalised class means of z. At first all given labels are clean. From then on soft
labels q are kept for all rows, at the beginning the predictions p; every epoch

    q_i <- (weighted mean of q over the k nearest rows + p_i) / 2,    weights exp(cos / tau)
    q_i <- onehot(y_i) if q_i(y_i) > low

and rows with max q_i > high are clean, with the label argmax q_i. The original's second view is
AugMix (the policy `augmix`).
"""

from __future__ import annotations

from typing import ClassVar

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from csot.methods.core.batches import one_stream
from csot.methods.core.contract import (
    Batch,
    Judgement,
    Losses,
    Method,
    Part,
    Role,
    Settings,
    Split,
    Steps,
    Stream,
    feature_dim,
)
from csot.methods.parts.losses import (
    cross_entropy,
    each_cross_entropy,
    one_hot,
    pair_contrast,
    whole_batch,
)
from csot.methods.parts.mixing import mixup_among
from csot.methods.parts.neighbours import keep_given, soft_votes
from csot.methods.parts.small_loss import mean_over

WARMUP, TRAIN = Stream(Role.WARMUP), Stream(Role.TRAIN)


class RrlSettings(Settings):
    warmup_epochs: int = Field(1, ge=0)
    """Epochs of cross-entropy and reconstruction only; the original has 101 steps."""
    first_stage: int = Field(5, ge=1)
    """Epochs before labels are cleaned. The original has 15 for CIFAR-100."""
    neighbours: int = Field(200, ge=1)
    """k."""
    low: float = Field(0.1, ge=0, le=1)
    """The original has 0.4 for asymmetric noise, 0.02 for CIFAR-100."""
    high: float = Field(0.9, ge=0, le=1)
    temperature: float = Field(0.3, gt=0)
    """tau."""
    instance_weight: float = Field(1.0, ge=0)
    """w_inst."""
    prototype_weight: float = Field(5.0, ge=0)
    """w_proto."""
    prototype_ramp: int = Field(0, ge=0)
    """Epochs over which w_proto rises from 1."""
    reconstruction_weight: float = Field(1.0, ge=0)
    mixup_alpha: float = Field(8.0, gt=0)
    head_dim: int = Field(50, ge=1)
    restart_soft: bool = False
    """Whether soft labels start from the predictions in every epoch. The original does so for
    Clothing1M, where an epoch has rows of its own."""


class Rrl(Method):
    Settings: ClassVar[type[Settings]] = RrlSettings
    about = "contrast and class prototypes in few dimensions; neighbours' soft labels clean"
    reference = "Li, Xiong and Hoi, ICCV 2021"
    settings: RrlSettings

    soft: Tensor
    """(N, C) q."""
    labels: Tensor
    """(N,) labels to learn."""
    clean: Tensor
    """(N,) bool: which of them are learned."""
    prototypes: Tensor
    """(C, D) unit vectors."""
    has_split: Tensor

    def prepare(self) -> None:
        context, dim = self.context, self.settings.head_dim
        features, classes = feature_dim(self.network), context.num_classes
        self.head = nn.Linear(features, dim)
        self.decoder = nn.Linear(dim, features)
        self.register_buffer("soft", torch.full((len(context.labels), classes), 1 / classes))
        self.register_buffer("labels", context.labels.clone())
        self.register_buffer("clean", context.labels >= 0)
        self.register_buffer("prototypes", torch.zeros(classes, dim))
        self.register_buffer("has_split", torch.zeros((), dtype=torch.bool))
        self.epoch = 0

    def begin_epoch(self, epoch: int) -> dict[str, float]:
        self.epoch = epoch
        if epoch <= self.settings.warmup_epochs:
            return {"stage": 0}
        context, rows = self.context, self.context.rows
        seen = context.predict(self.network, rows)
        units, from_first = self._embed(seen.features), context.ranks.from_first
        if epoch > self.settings.first_stage:
            goes_on = bool(self.has_split) and not self.settings.restart_soft
            before = self.soft[rows] if goes_on else self._first(seen.probs, rows)
            self.soft[rows] = from_first(self._cleaned(units, seen.probs, before, rows))
            sure, self.labels[rows] = self.soft[rows].max(-1)
            self.clean[rows] = sure > self.settings.high
            self.has_split.fill_(True)
        labels = torch.where(self.clean, self.labels, -1)[rows]
        means = one_hot(labels, context.num_classes).T @ units
        self.prototypes.copy_(from_first(F.normalize(means, dim=-1)))
        record = {"stage": 1.0 + (epoch > self.settings.first_stage)}
        return {**record, "clean": float(self.clean[rows].sum())}

    def _embed(self, features: Tensor) -> Tensor:
        """(n, D) unit vectors."""
        return F.normalize(self.head(features).float(), dim=-1)

    def _first(self, probs: Tensor, rows: Tensor) -> Tensor:
        return keep_given(probs, self.context.labels[rows], self.settings.low)

    def _cleaned(self, units: Tensor, probs: Tensor, soft: Tensor, rows: Tensor) -> Tensor:
        settings = self.settings
        votes = soft_votes(units, soft, settings.neighbours, settings.temperature)
        return keep_given((votes + probs) / 2, self.context.labels[rows], settings.low)

    def steps(self, epoch: int) -> Steps:
        is_warmup = epoch <= self.settings.warmup_epochs
        return one_stream(self.context, WARMUP if is_warmup else TRAIN)

    def forward(self, batch: Batch) -> Losses:
        [(stream, part)] = batch.items()
        settings, context = self.settings, self.context
        weak = context.weak_view(part)
        seen = self.network(weak)
        first = self._embed(seen.features)
        error = self._error(seen.features)
        if stream == WARMUP:
            loss = cross_entropy(seen.logits, part.labels)
            return {"warmup": loss, "reconstruction": settings.reconstruction_weight * error}
        strong = context.strong_view(part)
        features = self.network(strong).features
        second = self._embed(features)
        error = error + self._error(features)
        clean, labels = self.clean[part.rows], self.labels[part.rows]
        first, second = (whole_batch(one, context.ranks) for one in (first, second))
        instance = pair_contrast(first, second, settings.temperature, both=False)
        each = each_cross_entropy(seen.logits, labels)
        return {
            "clean": mean_over(each, clean, context.ranks),
            "reconstruction": settings.reconstruction_weight * error,
            "instance": settings.instance_weight * instance,
            "prototype": self._prototype_weight() * self._prototype(part, weak, strong),
        }

    def _error(self, features: Tensor) -> Tensor:
        """Reconstruction error, before normalisation: a unit vector has lost the length of v."""
        error: Tensor = self.decoder(self.head(features)).relu() - features
        return error.square().mean()

    def _prototype_weight(self) -> float:
        weight, ramp = self.settings.prototype_weight, self.settings.prototype_ramp
        if not ramp:
            return weight
        return min(1 + (self.epoch - 1) * (weight - 1) / ramp, weight)

    def _prototype(self, part: Part, weak: Tensor, strong: Tensor) -> Tensor:
        def logits(inputs: Tensor) -> Tensor:
            units = self._embed(self.network(inputs).features)
            return units @ self.prototypes.T / self.settings.temperature

        rows, alpha = part.rows, self.settings.mixup_alpha
        views = [weak, strong]
        return mixup_among(views, self.labels[rows], self.clean[rows], logits, self.context, alpha)

    def split(self) -> Split | None:
        if not bool(self.has_split):
            return None
        return Split.from_labels(self.labels, self.clean, self.context.labels)

    def judge(self) -> Judgement:
        """Judge by soft labels of a last vote among all rows."""
        context, rows = self.context, self.context.all_rows
        seen = context.predict(self.network, rows)
        soft = self._first(seen.probs, rows)
        if bool(self.has_split) and not self.settings.restart_soft:
            soft[context.rows] = self.soft[context.rows]
        settings = self.settings
        votes = soft_votes(
            self._embed(seen.features), soft, settings.neighbours, settings.temperature
        )
        posterior = context.ranks.from_first((votes + seen.probs) / 2)
        return Judgement.from_probs(posterior, context.labels, seen.features)
