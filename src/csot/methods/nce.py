"""NCE: labels are judged by the predictions of neighbours, and replaced by labels of neighbours.

D(p, y) is the Jensen-Shannon divergence (base 2) between a prediction and a smoothed label, N(i)
are the k nearest neighbours of sample i.

    noise verification   s_i = (1/k) sum_{j in N(i)} D(p_j, y_i); the label is kept if s_i < tau_v
    label correction     votes_u(c) = sum_{j in N(u), y_j = c} (1 - D(p_u, y_j)), with N(u) among
                         the kept rows of s < 1/2, features and logits summed over both networks;
                         the winner is used if (1/k) sum_{j in N(u)} D(p_u, y_j) <= tau_c

Two networks take turns (`core/networks`). A turn minimises the mixup loss of the kept rows, their
labels refined with w = 1 - s, a penalty, and the cross-entropy of strong views with corrected
labels.
"""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor

from csot.methods.core.contract import (
    Batch,
    Judgement,
    Losses,
    Method,
    Part,
    Predictions,
    Settings,
    Split,
    Steps,
)
from csot.methods.core.networks import Turns, WarmupSettings
from csot.methods.parts.losses import cross_entropy, prior_penalty, refine
from csot.methods.parts.mixing import draw_mix, mean_probs
from csot.methods.parts.neighbours import nearest_among, nearest_others

SMOOTHING = 1e-4
FEWEST_KEPT = 10
"""Labels are corrected only if more than this many times k kept rows can vote."""


class NceSettings(WarmupSettings):
    neighbours: int = Field(20, ge=1)
    """k."""
    verification: float = Field(0.75, gt=0, le=1)
    """tau_v."""
    correction: float = Field(0.002, ge=0, le=1)
    """tau_c; 0 corrects no label. D is never below about (C - 1) / 20000, by its smoothing."""
    strong_kept: bool = False
    """Whether strong views of kept rows join the last loss. The original adds them for CIFAR-100 at
    20 and 50 % noise."""
    second_look: bool = True
    """Whether labels are judged again before the second network's turn, as in the original."""
    temperature: float = Field(0.5, gt=0)
    mixup_alpha: float = Field(4.0, gt=0)
    prior_penalty: float = Field(1.0, ge=0)


class Nce(Method):
    Settings: ClassVar[type[Settings]] = NceSettings
    about = "neighbours' predictions verify labels, neighbours' labels correct them"
    reference = "Li, Li, Liu and Yu, ECCV 2022"
    network_count = 2
    settings: NceSettings

    corrected: Tensor
    """(2, N) labels for each network's turn, -1 for none."""

    def prepare(self) -> None:
        self.turns = Turns(
            self.context,
            self.settings,
            led_by_labelled=False,
            second_look=self.settings.second_look,
        )
        self.register_buffer("corrected", torch.full((2, len(self.context.labels)), -1))

    def begin_epoch(self, epoch: int) -> dict[str, float]:
        self.turns.begin_epoch(epoch)
        if self.turns.is_warmup(epoch):
            return {"stage": 0}
        self._select(self.context.rows)
        corrected = float((self.corrected >= 0).sum()) / 2
        return {"stage": 1, "clean": self.turns.mean_clean(), "corrected": corrected}

    def _select(self, rows: Tensor) -> None:
        """Set the trust in each label, which labels are kept, and the corrected labels."""
        ranks, given, turns = self.context.ranks, self.context.labels[rows], self.turns
        seen = [self.context.predict(network, rows) for network in self.networks]
        scores = torch.stack([verify(one, given, self.settings.neighbours) for one in seen])
        scores = ranks.from_first(scores)
        turns.trust[:, rows] = 1 - scores
        turns.clean[:, rows] = (scores < self.settings.verification) & (given >= 0)
        both = Predictions(seen[0].logits + seen[1].logits, seen[0].features + seen[1].features)
        for number in range(2):
            kept, trust = turns.clean[1 - number, rows], turns.trust[1 - number, rows]
            found = correct(
                both, given, kept, trust, self.settings.neighbours, self.settings.correction
            )
            self.corrected[number, rows] = ranks.from_first(found)

    def turn_count(self, epoch: int) -> int:
        return self.turns.count(epoch)

    def begin_turn(self, epoch: int, turn: int) -> None:
        self.turns.turn = turn
        self._select(self.context.rows)

    def steps(self, epoch: int) -> Steps:
        return self.turns.steps(epoch)

    def forward(self, batch: Batch) -> Losses:
        if warmup := self.turns.warmup_losses(self.networks, batch):
            return warmup
        number, labelled, unlabelled = self.turns.parts(batch)
        settings, context = self.settings, self.context
        mixed, targets = [], context.labels.new_zeros(0)
        strong, labels = [], []
        if labelled is not None:
            inputs, targets = self._mixed(number, labelled)
            mixed.append(inputs)
            if settings.strong_kept:
                strong.append(context.strong_view(labelled))
                labels.append(labelled.labels)
        if unlabelled is not None:
            strong.append(context.strong_view(unlabelled))
            labels.append(self.corrected[number, unlabelled.rows])
        logits = self.networks[number](torch.cat([*mixed, *strong])).logits
        first, rest = logits[: len(targets)], logits[len(targets) :]
        losses = Losses()
        if mixed:
            losses["mix"] = cross_entropy(first, targets)
            losses["penalty"] = settings.prior_penalty * prior_penalty(first, context.ranks)
        if strong:
            losses["consistency"] = cross_entropy(rest, torch.cat(labels))
        return losses

    def _mixed(self, number: int, part: Part) -> tuple[Tensor, Tensor]:
        """Inputs and targets (2b, C): two weak views of kept rows, labels refined, mixed."""
        context, settings = self.context, self.settings
        views = [context.weak_view(part) for _ in range(2)]
        probs = mean_probs(self.networks[number], views)
        trust = self.turns.trust[1 - number, part.rows]
        refined = refine(part.labels, probs, trust, settings.temperature)
        mix = draw_mix(2 * part.whole, settings.mixup_alpha, context.generator, context.ranks)
        return mix(torch.cat(views)), mix(refined.repeat(2, 1))

    def after_step(self, batch: Batch) -> None:
        self.turns.after_step(batch)

    def split(self) -> Split | None:
        if not bool(self.turns.has_split):
            return None
        first, second = self.corrected
        labels = torch.where(first >= 0, first, second)
        kept = self.turns.clean.all(0)
        return Split(kept, (labels >= 0) & ~kept, labels)

    def judge(self) -> Judgement:
        """Judge by the predictions of the neighbours, on average over both networks."""
        rows, given = self.context.all_rows, self.context.labels
        seen = [self.context.predict(network, rows) for network in self.networks]
        count = self.settings.neighbours
        scores = torch.stack([verify(one, given, count) for one in seen]).mean(0)
        votes = [one.probs[nearest_others(one.features, count)].mean(1) for one in seen]
        posterior = self.context.ranks.from_first(torch.stack(votes).mean(0))
        return Judgement(
            posterior=posterior,
            trusted=posterior.amax(-1) > 0.5,
            scores=self.context.ranks.from_first(1 - scores).clamp(0, 1),
        )


def verify(seen: Predictions, labels: Tensor, count: int) -> Tensor:
    """(n,) s: how far neighbours' predictions are from the given label."""
    divergence = js_to_labels(seen.probs, SMOOTHING)
    neighbours = nearest_others(seen.features, count)
    return divergence[neighbours, labels.clamp(min=0)[:, None]].mean(-1)


def correct(
    seen: Predictions, labels: Tensor, kept: Tensor, trust: Tensor, count: int, bound: float
) -> Tensor:
    """(n,) labels by vote for the rows that are not kept; -1 for the others and for a poor vote."""
    found = torch.full_like(labels, -1)
    voters = kept & (trust > 0.5)
    if bound == 0 or int(voters.sum()) <= FEWEST_KEPT * count or bool(kept.all()):
        return found
    neighbours = nearest_among(seen.features[~kept], seen.features[voters], count)
    ballots = labels[voters][neighbours]
    divergence = js_to_labels(seen.probs[~kept], SMOOTHING).gather(1, ballots)
    votes = seen.probs.new_zeros(len(ballots), seen.probs.shape[-1])
    votes.scatter_add_(1, ballots, 1 - divergence)
    is_good = divergence.mean(-1) <= bound
    found[~kept] = torch.where(is_good, votes.argmax(-1), -1)
    return found


def js_to_labels(probs: Tensor, smoothing: float) -> Tensor:
    """(N, C) -> (N, C): Jensen-Shannon divergence of each row from each smoothed one-hot vector.

        JS(p, q) = (1/2) sum_k (p_k log p_k/m_k + q_k log q_k/m_k),    m = (p + q) / 2

    to base 2: 0 for equal distributions, 1 for disjoint ones. The vector of a class has
    1 - smoothing at the class and `smoothing` everywhere else; NCE does not normalise it. So all
    but one of the C terms are the same for every class.
    """
    off = _terms(probs, torch.full_like(probs, smoothing))
    on = _terms(probs, torch.full_like(probs, 1 - smoothing))
    return off.sum(-1, keepdim=True) - off + on


def _terms(p: Tensor, q: Tensor) -> Tensor:
    """(..., C): the term of each class in JS(p, q)."""
    mean = (p + q) / 2
    nats = torch.xlogy(p, p) - torch.xlogy(p, mean) + torch.xlogy(q, q) - torch.xlogy(q, mean)
    return nats / (2 * math.log(2))
