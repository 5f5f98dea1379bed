"""OT-Filter: a label is kept if the sample is transported to the centre of its class.

Every epoch after the warm-up, centres of the given classes are matched with the samples by optimal
transport (`class_plan`), first with all labels, then with centres of the samples whose label
agreed; labels that agree with the second plan are kept. One network then trains by MixMatch
(`parts/mixing`) on strong views: kept labels as they are, the others guessed from its own
predictions for two weak views, sharpened.
"""

from __future__ import annotations

import warnings
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor

from csot.methods.core.batches import one_stream, side_by_side
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
    label_probs,
)
from csot.methods.core.networks import WarmupSettings, warmup_loss
from csot.methods.parts.losses import one_hot
from csot.methods.parts.mixing import Side, guess, linear_ramp, mean_probs, mixmatch
from csot.ot.array_adapter import as_tensor
from csot.ot.numerics import ConvergenceWarning, widest_float
from csot.ot.solve import solve

WARMUP = Stream(Role.WARMUP)
LABELLED, UNLABELLED = Stream(Role.LABELLED), Stream(Role.UNLABELLED)
OFFSET = 1e-6
"""e: keeps the slope at an empty entry finite."""


class OtFilterSettings(WarmupSettings):
    warmup_batch_factor: int = Field(1, ge=1)
    epsilon: float = Field(10.0, gt=0)
    """Weight of the plan's entropy."""
    power: float = Field(0.5, gt=0, lt=1)
    """p of the concave term."""
    rounds: int = Field(5, ge=1)
    """Linearisations of the concave term."""
    unlabelled_weight: float = Field(25.0, ge=0)
    """lambda_u."""
    ramp_epochs: float = Field(0.0, ge=0)
    """Epochs over which lambda_u rises, counted from the run's first."""
    temperature: float = Field(0.5, gt=0)
    mixup_alpha: float = Field(4.0, gt=0)


class OtFilter(Method):
    Settings: ClassVar[type[Settings]] = OtFilterSettings
    about = "keep labels that optimal transport to class centres confirms, then MixMatch"
    reference = "Feng, Ren and Xie, CVPR 2023"
    settings: OtFilterSettings

    labels: Tensor
    """(N,) labels of the plan."""
    clean: Tensor
    """(N,) bool: the plan agrees with the given label."""
    has_plan: Tensor

    def prepare(self) -> None:
        self.register_buffer("labels", self.context.labels.clone())
        self.register_buffer("clean", self.context.labels >= 0)
        self.register_buffer("has_plan", torch.zeros((), dtype=torch.bool))
        self.epoch = 0

    def begin_epoch(self, epoch: int) -> dict[str, float]:
        self.epoch = epoch
        if epoch <= self.settings.warmup:
            return {"stage": 0}
        rows = self.context.rows
        # As in the original, features are those of training views.
        seen = self.context.predict_augmented(self.network, rows)
        plan = self._plan(seen, self.context.labels[rows])
        self.labels[rows] = self.context.ranks.from_first(plan.argmax(-1))
        self.clean[rows] = self.labels[rows] == self.context.labels[rows]
        self.has_plan.fill_(True)
        return {"stage": 1, "clean": float(self.clean[rows].sum())}

    def _plan(self, seen: Predictions, given: Tensor) -> Tensor:
        """(n, C): the plan to centres of all labels, then to those of the labels that agree."""
        features, settings = seen.features, self.settings
        features = features.to(widest_float(features.device))
        centres = features.mean(0).expand(self.context.num_classes, -1)
        labels = given
        plan = torch.empty(0)
        for _ in range(2):
            centres = class_centres(features, labels, centres)
            plan = class_plan(
                features,
                centres,
                epsilon=settings.epsilon,
                power=settings.power,
                rounds=settings.rounds,
            )
            labels = torch.where(plan.argmax(-1) == given, given, -1)
        return plan

    def steps(self, epoch: int) -> Steps:
        context, factor = self.context, self.settings.warmup_batch_factor
        if epoch <= self.settings.warmup:
            return one_stream(context, WARMUP, batch_factor=factor)
        kept = self.clean.cpu()[context.rows]
        sets = {LABELLED: context.rows[kept], UNLABELLED: context.rows[~kept]}
        return side_by_side(sets, context.batch_size, context.order, led_by=LABELLED)

    def forward(self, batch: Batch) -> Losses:
        settings, context = self.settings, self.context
        if WARMUP in batch:
            entropy = settings.warmup_entropy
            return {"warmup": warmup_loss(self.network, batch[WARMUP], context, entropy)}
        labelled, unlabelled = batch.get(LABELLED), batch.get(UNLABELLED)
        return mixmatch(
            self.network,
            None if labelled is None else self._kept(labelled),
            None if unlabelled is None else self._guessed(unlabelled),
            context,
            alpha=settings.mixup_alpha,
            weight=settings.unlabelled_weight * linear_ramp(self.epoch, settings.ramp_epochs),
            penalty=0.0,
        )

    def _kept(self, part: Part) -> Side:
        return Side(self._strong_views(part), one_hot(part.labels, self.context.num_classes))

    def _guessed(self, part: Part) -> Side:
        weak = [self.context.weak_view(part) for _ in range(2)]
        targets = guess([mean_probs(self.network, weak)], self.settings.temperature)
        return Side(self._strong_views(part), targets)

    def _strong_views(self, part: Part) -> list[Tensor]:
        return [self.context.strong_view(part) for _ in range(2)]

    def split(self) -> Split | None:
        if not bool(self.has_plan):
            return None
        return Split(self.clean, ~self.clean, self.labels)

    def judge(self) -> Judgement:
        """Judge by a last plan over all rows; trusted where network and plan agree."""
        given = self.context.labels
        seen = self.context.predict(self.network, self.context.all_rows)
        plan = self._plan(seen, given)
        posterior = (plan / plan.sum(-1, keepdim=True)).to(seen.logits)
        posterior = self.context.ranks.from_first(posterior)
        return Judgement(
            posterior=posterior,
            trusted=posterior.argmax(-1) == seen.logits.argmax(-1),
            scores=label_probs(posterior, given),
        )


def class_centres(features: Tensor, labels: Tensor, fallback: Tensor) -> Tensor:
    """(n, F), (n,) -> (C, F) means; a class without a sample keeps its row of `fallback`.

    A centre is the entropic Wasserstein barycentre of its class with one support point. From one
    point there is a single plan, which sends the same mass to every sample, so the fixed point of
    the barycentre's iteration is the mean, whatever the regularisation.
    """
    hot = one_hot(labels, len(fallback)).to(features)
    counts = hot.sum(0)[:, None]
    return torch.where(counts > 0, hot.T @ features / counts.clamp(min=1), fallback)


def class_plan(
    features: Tensor, centres: Tensor, *, epsilon: float, power: float, rounds: int
) -> Tensor:
    """(n, C) plan between samples and one centre per class, after `rounds` linearisations.

        min_Q  <D, Q> + epsilon <Q, log Q> + sum_ik (Q_ik + e)^p      Q1 = 1/N,  Q'1 = 1/C

    D holds Euclidean distances. The last term is concave (p < 1): it favours plans that send each
    sample to few classes. It is linearised repeatedly: D + p (Q + e)^(p - 1). The first round is
    without it.
    """
    cost = torch.cdist(features, centres)
    plan, slope = torch.empty(0), torch.zeros_like(cost)
    for _ in range(rounds):
        plan = _transport((cost + slope) / epsilon)
        slope = power * (plan + OFFSET) ** (power - 1)
    return plan


def _transport(cost: Tensor) -> Tensor:
    """Entropic OT of weight 1 with uniform marginals; constants per row do not matter."""
    with warnings.catch_warnings():
        # A feasible plan is good enough for one epoch; non-convergence is expected here.
        warnings.simplefilter("ignore", ConvergenceWarning)
        plan = solve(log_probs=(-cost).log_softmax(-1), epsilon=1.0)
    return as_tensor("coupling", plan.coupling)
