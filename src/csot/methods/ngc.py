"""NGC: labels are propagated on a graph of neighbours; the largest component of a class is clean.

Every epoch, with p the predictions averaged over the epochs and z embeddings of a linear head,

    seeds        the given labels at first; then p, but the labels of clean rows as they are
    soft labels  the seeds propagated on the graph of k nearest rows by z (`parts/neighbours`)
    given label  kept, as one-hot vector, if its soft label is above `low`
    clean        max of the soft label above `high`, and in the largest connected component of the
                 class, among edges between mutual neighbours

In the warm-up the network learns given labels, weak and strong views mixed with one another. Then

    L = mixup cross-entropy of clean rows + w_inst * contrast of weak views with their strong ones
        + w_sup * contrast with all clean rows of the same label

The original's second view is AugMix, its supervised contrast has no temperature.
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
from csot.methods.parts.losses import contrast, one_hot, pair_contrast, whole_batch
from csot.methods.parts.mixing import mixup_among
from csot.methods.parts.neighbours import keep_given, largest_components, nearest_others, propagate

WARMUP, TRAIN = Stream(Role.WARMUP), Stream(Role.TRAIN)


class NgcSettings(Settings):
    warmup: int = Field(5, ge=0)
    """Epochs. The original has 30 for CIFAR-100 and for asymmetric noise."""
    neighbours: int = Field(30, ge=1)
    """k. The original has 10 for asymmetric noise, 200 for CIFAR-100."""
    low: float = Field(0.1, ge=0, le=1)
    """The original has 0.01 for CIFAR-100."""
    high: float = Field(0.7, ge=0, le=1)
    """The original has 0.6 for CIFAR-100."""
    momentum: float = Field(0.6, ge=0, lt=1)
    """Share of the averaged logits that is kept every epoch."""
    temperature: float = Field(0.3, gt=0)
    supervised_temperature: float = Field(1.0, gt=0)
    instance_weight: float = Field(1.0, ge=0)
    """w_inst."""
    supervised_weight: float = Field(1.0, ge=0)
    """w_sup."""
    mixup_alpha: float = Field(8.0, gt=0)
    head_dim: int = Field(64, ge=1)


class Ngc(Method):
    Settings: ClassVar[type[Settings]] = NgcSettings
    about = "labels propagated on a graph of neighbours; largest components are clean"
    reference = "Wu, Wei, Jiang, Mao, Tang and Li, ICCV 2021"
    settings: NgcSettings

    logits: Tensor
    """(N, C) averaged logits, without the correction for their start at zero."""
    labels: Tensor
    """(N,) labels to learn."""
    clean: Tensor
    """(N,) bool: which of them are learned."""
    updates: Tensor
    """Number of epochs averaged so far."""

    def prepare(self) -> None:
        context = self.context
        self.head = nn.Linear(feature_dim(self.network), self.settings.head_dim)
        self.register_buffer("logits", torch.zeros(len(context.labels), context.num_classes))
        self.register_buffer("labels", context.labels.clone())
        self.register_buffer("clean", context.labels >= 0)
        self.register_buffer("updates", torch.zeros((), dtype=torch.long))

    def begin_epoch(self, epoch: int) -> dict[str, float]:
        context, rows, settings = self.context, self.context.rows, self.settings
        given, from_first = context.labels[rows], context.ranks.from_first
        seen = context.predict(self.network, rows)
        embeddings = self.head(seen.features)
        self.logits[rows] = torch.lerp(seen.logits.float(), self.logits[rows], settings.momentum)
        neighbours = nearest_others(embeddings, settings.neighbours)
        is_first = not int(self.updates)
        self.updates += 1
        seeds = one_hot(given, context.num_classes) if is_first else self._seeds(rows)
        soft = propagate(embeddings, neighbours, seeds)
        sure, labels = keep_given(soft, given, settings.low).max(-1)
        clean = largest_components(neighbours, labels, sure > settings.high)
        self.labels[rows] = from_first(labels)
        self.clean[rows] = from_first(clean)
        stage = float(epoch > settings.warmup)
        return {"stage": stage, "clean": float(self.clean[rows].sum())}

    def _seeds(self, rows: Tensor) -> Tensor:
        """(n, C) averaged predictions; labels of clean rows."""
        hot = one_hot(self.labels[rows], self.context.num_classes)
        weight = 1 - self.settings.momentum ** int(self.updates)
        probs = (self.logits[rows] / weight).softmax(-1)
        return torch.where(self.clean[rows][:, None], hot, probs)

    def steps(self, epoch: int) -> Steps:
        return one_stream(self.context, WARMUP if epoch <= self.settings.warmup else TRAIN)

    def forward(self, batch: Batch) -> Losses:
        [(stream, part)] = batch.items()
        context = self.context
        weak, strong = context.weak_view(part), context.strong_view(part)
        if stream == WARMUP:
            given = part.labels
            return {"warmup": self._mixed([weak, strong], given, given >= 0)}
        clean, labels = self.clean[part.rows], self.labels[part.rows]
        losses = {"mix": self._mixed([weak, strong], labels, clean)}
        return losses | self._contrasts(part, weak, strong)

    def _mixed(self, views: list[Tensor], labels: Tensor, chosen: Tensor) -> Tensor:
        def logits(inputs: Tensor) -> Tensor:
            seen: Tensor = self.network(inputs).logits
            return seen

        return mixup_among(views, labels, chosen, logits, self.context, self.settings.mixup_alpha)

    def _contrasts(self, part: Part, weak: Tensor, strong: Tensor) -> Losses:
        settings, ranks = self.settings, self.context.ranks
        features = [self.network(view).features for view in (weak, strong)]
        units = [F.normalize(self.head(one).float(), dim=-1) for one in features]
        first, second = (whole_batch(one, ranks) for one in units)
        instance = pair_contrast(first, second, settings.temperature, both=False)
        rows = ranks.gather(part.rows)
        positives, allowed = supervised_masks(self.labels[rows], self.clean[rows])
        supervised = contrast(
            first, torch.cat([first, second]), positives, allowed, settings.supervised_temperature
        )
        return {
            "instance": settings.instance_weight * instance,
            "supervised": settings.supervised_weight * supervised,
        }

    def split(self) -> Split | None:
        if not int(self.updates):
            return None
        return Split.from_labels(self.labels, self.clean, self.context.labels)

    def judge(self) -> Judgement:
        """Judge by a last propagation among all rows."""
        context, rows = self.context, self.context.all_rows
        seen = context.predict(self.network, rows)
        seeds = seen.probs.clone()
        seeds[context.rows] = self._seeds(context.rows)
        embeddings = self.head(seen.features)
        neighbours = nearest_others(embeddings, self.settings.neighbours)
        posterior = context.ranks.from_first(propagate(embeddings, neighbours, seeds))
        return Judgement.from_probs(posterior, context.labels, seen.features)


def supervised_masks(labels: Tensor, clean: Tensor) -> tuple[Tensor, Tensor]:
    """Weights of the positives (B, 2B), and allowed keys: both views of B rows but the query.

    Positives are the other view of the row, and for a clean row all clean rows of its label.
    """
    own = torch.eye(len(labels), dtype=torch.bool, device=labels.device)
    same = (labels[:, None] == labels) & clean[:, None] & clean
    positives = torch.cat([same & ~own, same | own], 1).float()
    allowed = torch.cat([~own, torch.ones_like(own)], 1)
    return positives / positives.sum(-1, keepdim=True), allowed
