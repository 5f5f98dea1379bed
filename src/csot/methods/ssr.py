"""SSR+: the network relabels where it is sure, and a vote of neighbours selects. One network.

Before every epoch, with p the predictions and N(i) the k nearest rows by cosine, row i included,

    relabel    y'_i = argmax p_i if max p_i > theta_r, else the given label
    vote       q_i(c) ~ (1/k) #{j in N(i): y'_j = c} / share of class c among all y'
    select     q_i(y'_i) / max_c q_i(c) >= theta_s

There is no warm-up. Selected rows are repeated until all classes have the same number of them. With
x a strong view and w a weak view of the same row, f and h small heads,

    L = mixup cross-entropy of two strong views of selected rows
        + lambda_fc * -(1/B) sum cos(h(f(x)), stopgrad(f(w))), over all rows

SSR has lambda_fc = 0. Every epoch the network is evaluated on weak views, as in the original.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from csot.methods.core.batches import side_by_side
from csot.methods.core.contract import (
    Batch,
    Judgement,
    Losses,
    Method,
    Part,
    Predictions,
    Role,
    Settings,
    Split,
    Steps,
    Stream,
    feature_dim,
    label_probs,
)
from csot.methods.parts.losses import cross_entropy, negative_cosine, one_hot
from csot.methods.parts.mixing import draw_mix
from csot.methods.parts.neighbours import judge_by_votes, nearest_among, neighbour_votes
from csot.nets.layers import Norm, norm_1d

TRAIN, LABELLED = Stream(Role.TRAIN), Stream(Role.LABELLED)
ROUNDING = 1e-6
"""Votes closer than this share are equal."""


class SsrSettings(Settings):
    neighbours: int = Field(200, ge=1)
    """k."""
    relabel_threshold: float = Field(0.9, ge=0, le=1)
    """theta_r; 1 relabels no row. The original has 0.8 for CIFAR-100 from 50 % noise on."""
    selection_threshold: float = Field(1.0, ge=0, le=1)
    """theta_s; 1 selects rows whose label wins the vote."""
    consistency_weight: float = Field(1.0, ge=0)
    """lambda_fc."""
    mixup_alpha: float = Field(4.0, gt=0)
    head_hidden: int = Field(256, ge=1)
    head_dim: int = Field(128, ge=1)
    head_norm: Norm = "batch"


class Ssr(Method):
    Settings: ClassVar[type[Settings]] = SsrSettings
    about = "neighbours' votes select labels, the network replaces them where it is sure"
    reference = "Feng, Tzimiropoulos and Patras, BMVC 2022"
    settings: SsrSettings

    labels: Tensor
    """(N,) y'; -1 where no label is given and the network is not sure."""
    selected: Tensor
    """(N,) bool."""
    has_split: Tensor

    def prepare(self) -> None:
        context, settings = self.context, self.settings
        hidden, dim, norm = settings.head_hidden, settings.head_dim, settings.head_norm
        self.projector = two_layers(feature_dim(self.network), hidden, dim, norm)
        self.predictor = two_layers(dim, hidden, dim, norm)
        self.register_buffer("labels", context.labels.clone())
        self.register_buffer("selected", torch.zeros_like(context.labels, dtype=torch.bool))
        self.register_buffer("has_split", torch.zeros((), dtype=torch.bool))

    def begin_epoch(self, epoch: int) -> dict[str, float]:
        context, rows = self.context, self.context.rows
        given = context.labels[rows]
        seen = context.predict_augmented(self.network, rows)
        labels, votes = self._relabel(seen, given)
        selected = select(votes, labels, self.settings.selection_threshold)
        self.labels[rows] = context.ranks.from_first(labels)
        self.selected[rows] = context.ranks.from_first(selected)
        self.has_split.fill_(True)
        changed = self.selected[rows] & (self.labels[rows] != given)
        clean = self.selected[rows] & ~changed
        return {"clean": float(clean.sum()), "corrected": float(changed.sum())}

    def _relabel(self, seen: Predictions, given: Tensor) -> tuple[Tensor, Tensor]:
        """(n,) y' and (n, C) q."""
        sure, predicted = seen.probs.max(-1)
        labels = torch.where(sure > self.settings.relabel_threshold, predicted, given)
        votes = balanced_votes(
            seen.features, labels, self.settings.neighbours, self.context.num_classes
        )
        return labels, votes

    def steps(self, epoch: int) -> Steps:
        """One pass over all rows, each batch together with a batch of selected rows."""
        rows, order = self.context.rows, self.context.order
        chosen = rows[self.selected.cpu()[rows]]
        sets = {LABELLED: repeat_rare(chosen, self.labels.cpu()[chosen], order), TRAIN: rows}
        return side_by_side(sets, self.context.batch_size, order, led_by=TRAIN)

    def forward(self, batch: Batch) -> Losses:
        losses, weight = Losses(), self.settings.consistency_weight
        if LABELLED in batch:
            losses["mix"] = self._mix_loss(batch[LABELLED])
        if weight:
            losses["consistency"] = weight * self._consistency(batch[TRAIN])
        return losses

    def _mix_loss(self, part: Part) -> Tensor:
        context = self.context
        strong = torch.cat([context.strong_view(part) for _ in range(2)])
        targets = one_hot(self.labels[part.rows], context.num_classes).repeat(2, 1)
        alpha = self.settings.mixup_alpha
        mix = draw_mix(2 * part.whole, alpha, context.generator, context.ranks)
        return cross_entropy(self.network(mix(strong)).logits, mix(targets))

    def _consistency(self, part: Part) -> Tensor:
        """A pass per view, as the original: each has its own batch statistics."""
        weak = self.projector(self.network(self.context.weak_view(part)).features)
        strong = self.projector(self.network(self.context.strong_view(part)).features)
        return negative_cosine(self.predictor(strong), weak)

    def split(self) -> Split | None:
        if not bool(self.has_split):
            return None
        return Split.from_labels(self.labels, self.selected, self.context.labels)

    def judge(self) -> Judgement:
        """Judge by a last vote among all rows; trusted where network and vote agree."""
        context = self.context
        seen = context.predict(self.network, context.all_rows)
        _, votes = self._relabel(seen, context.labels)
        return judge_by_votes(votes, seen, context.labels, context.ranks)


def balanced_votes(features: Tensor, labels: Tensor, count: int, classes: int) -> Tensor:
    """(n, C) q; uniform for a row without labelled neighbours."""
    votes = neighbour_votes(labels, nearest_among(features, features, count), classes)
    sizes = one_hot(labels, classes).sum(0)
    votes = votes / sizes.clamp(min=1)
    total = votes.sum(-1, keepdim=True)
    return torch.where(total > 0, votes / total.clamp(min=1e-30), 1 / classes)


def select(votes: Tensor, labels: Tensor, threshold: float) -> Tensor:
    """(n,) bool: rows with a label whose vote is at least `threshold` times the largest one."""
    ratio = label_probs(votes, labels) / votes.amax(-1)
    return (ratio >= threshold - ROUNDING) & (labels >= 0)


def repeat_rare(rows: Tensor, labels: Tensor, generator: torch.Generator) -> Tensor:
    """Rows of rarer classes repeated, until every class is as frequent as the most frequent one.

    The rows repeated once more than others of their class are chosen at random.
    """
    sizes = labels.bincount()
    found = []
    for number in sizes.nonzero()[:, 0]:
        members = rows[labels == number]
        times, rest = divmod(int(sizes.max()), len(members))
        extra = members[torch.randperm(len(members), generator=generator)[:rest]]
        found.append(torch.cat([members.repeat(times), extra]))
    return torch.cat(found) if found else rows


def two_layers(inputs: int, hidden: int, outputs: int, norm: Norm) -> nn.Sequential:
    """Linear, normalisation, ReLU, linear."""
    return nn.Sequential(
        nn.Linear(inputs, hidden),
        norm_1d(norm, hidden),
        nn.ReLU(),
        nn.Linear(hidden, outputs),
    )
