"""CSOT rounds: probes refitted on the rows whose given label the curriculum's plan confirms.

Each round allocates a larger share of the rows, from probabilities, the features and the given
labels; the selected rows whose plan agrees with their label train the next probes. A round is
one more candidate for the judge, never more: on easy data its few easy rows teach less than all.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal, TypeAlias

import torch
from torch import Tensor

from csot.allocation import allocate
from csot.clean.likelihood import Evidence, softmax_rows
from csot.clean.members.member import FirstPass, Fit, Member, TrainingSet
from csot.clean.members.probe import ProbePredictor, fit_probes, held_out_logits
from csot.clean.stacking import SCORING_ROWS, Stack, stack
from csot.ot import ConvergenceWarning, solve

CoherenceScale: TypeAlias = Literal["absolute", "classes"]
BUDGETS = (0.5, 1.0)
MANY_ROWS = 15_000
"""Rows beyond which only the last budget is tried: each costs a plan for every fold."""
STEPS = 5


@dataclass(frozen=True)
class Round:
    """One round: its budget, how many labels it confirmed, and how likely it makes the labels."""

    budget: float
    clean_rows: int
    weights: Tensor
    logits: Tensor
    loss: float


@dataclass(frozen=True)
class CsotFit(Fit):
    """The best round as a member, and all of them for the record."""

    rounds: list[Round]


@dataclass(frozen=True)
class CsotRounds:
    """Probes on the rows that the plan confirms, at growing budgets.

    `coherence` and `coherence_scale` are those of `csot.solve`.
    """

    coherence: float = 1.0
    coherence_scale: CoherenceScale = "absolute"
    name: ClassVar[str] = "csot"
    stage: ClassVar[str] = "CSOT rounds"

    def applies(self, training: TrainingSet) -> bool:
        """Always."""
        return True

    def fit(self, training: TrainingSet, first: FirstPass, noise: Tensor) -> CsotFit:
        """The round whose probes make the held-out labels likeliest, as one more member."""
        rounds = curriculum_rounds(training, first, self.coherence, self.coherence_scale)
        if not rounds:
            return CsotFit([], noise, rounds)
        best = min(rounds, key=lambda round_: round_.loss)
        predictor = ProbePredictor(training.light, best.weights.mean(1))
        member = Member(f"csot budget {best.budget:g}", best.logits, predictor)
        return CsotFit([member], noise, rounds)


def curriculum_rounds(
    training: TrainingSet,
    first: FirstPass,
    coherence: float = 1.0,
    coherence_scale: CoherenceScale = "absolute",
) -> list[Round]:
    """One candidate for each budget, each starting from the probes of the one before.

    Every fold has a plan of its own, by its own probe and of the other rows: rows that were chosen
    because they agree with the label of a held-out row would give that label away.
    """
    folds, evidence, best = training.folds, training.evidence, first.probes[0]
    allocation = partial(
        _confirmed,
        training,
        first,
        class_prior=first.explanation.posterior(first.judged.probs, evidence).mean(0).float(),
        coherence=coherence,
        coherence_scale=coherence_scale,
    )
    labels = evidence.labels_to_learn()
    likelihood = Evidence.of_labels(labels, evidence.n_classes).likelihood(
        torch.eye(evidence.n_classes)
    )
    rounds: list[Round] = []
    weights, logits = best.weights, best.logits
    for budget in BUDGETS if len(evidence) <= MANY_ROWS else BUDGETS[-1:]:
        temperature = _scaled(logits, first, evidence).weights
        confirmed = torch.zeros(len(evidence), folds.n_folds, dtype=torch.bool)
        for k in range(folds.n_folds):
            confirmed[:, k] = allocation(temperature * weights[:, k], folds.fold != k, budget)
        if any(len(torch.unique(labels[chosen])) < 2 for chosen in confirmed.T):
            continue
        weights = fit_probes(
            training.basis,
            folds,
            likelihood,
            best.ridge,
            weights,
            steps=STEPS,
            trusted=confirmed,
        )
        logits = held_out_logits(training.basis, folds, weights)
        loss = _scaled(logits, first, evidence).loss
        rounds.append(Round(budget, int(confirmed.any(1).sum()), weights, logits, loss))
    return rounds


def _confirmed(
    training: TrainingSet,
    first: FirstPass,
    weights: Tensor,
    chosen: Tensor,
    budget: float,
    *,
    class_prior: Tensor,
    coherence: float,
    coherence_scale: CoherenceScale,
) -> Tensor:
    """(N,): which of the `chosen` rows the plan gives their own label, by one probe (D, C)."""
    rows = chosen.nonzero()[:, 0]
    labels = training.evidence.labels_to_learn()[rows]
    probs = softmax_rows(training.basis.rows[rows] @ weights)
    with warnings.catch_warnings():
        # A plan that is nearly optimal serves as well here.
        warnings.simplefilter("ignore", ConvergenceWarning)
        plan = solve(
            first.explanation.truth_probs(probs),
            features=training.basis.row_coordinates[rows],
            labels=labels,
            budget=budget,
            class_prior=class_prior,
            coherence=coherence,
            coherence_scale=coherence_scale,
            tolerance=1e-4,
        )
    confirmed = torch.zeros_like(chosen)
    confirmed[rows] = torch.as_tensor(allocate(plan, labels).clean)
    return confirmed


def _scaled(logits: Tensor, first: FirstPass, evidence: Evidence) -> Stack:
    """Temperature, noise matrix and loss of one member's logits (N, C)."""
    start = torch.ones(1)
    return stack([logits], evidence, first.judged.noise, start, rounds=5, max_rows=SCORING_ROWS)
