"""CSOT rounds: probes refitted on the rows whose given label the curriculum's plan confirms.

Each round allocates a larger share of the rows, from held-out probabilities, the features and the
given labels; the selected rows whose plan agrees with their label train the next probes. A round is
one more candidate for the judge, never more: on easy data its few easy rows teach less than all.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

import torch
from torch import Tensor

from csot.allocation import allocate
from csot.clean.likelihood import Evidence
from csot.clean.members.member import FirstPass, Fit, Member, TrainingSet
from csot.clean.members.probe import ProbePredictor, fit_probes, held_out_logits
from csot.clean.stacking import SCORING_ROWS, stack
from csot.ot import ConvergenceWarning, solve

CoherenceScale: TypeAlias = Literal["absolute", "classes"]
BUDGETS = (0.5, 1.0)
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
    """One candidate for each budget, each starting from the probes of the one before."""
    basis, folds, evidence = training.basis, training.folds, training.evidence
    judged, best = first.judged, first.probes[0]
    probs = first.explanation.truth_probs(judged.probs)
    class_prior = first.explanation.posterior(judged.probs, evidence).mean(0).float()
    rounds: list[Round] = []
    weights = best.weights
    labels = evidence.labels_to_learn()
    for budget in BUDGETS:
        with warnings.catch_warnings():
            # A plan that is nearly optimal serves as well here.
            warnings.simplefilter("ignore", ConvergenceWarning)
            plan = solve(
                probs,
                features=basis.row_coordinates,
                labels=labels,
                budget=budget,
                class_prior=class_prior,
                coherence=coherence,
                coherence_scale=coherence_scale,
                tolerance=1e-4,
            )
        clean = torch.as_tensor(allocate(plan, labels).clean)
        confirmed = torch.where(clean, labels, -1)
        if not len(torch.unique(confirmed[clean])) > 1:
            continue
        likelihood = Evidence.of_labels(confirmed, evidence.n_classes).likelihood(
            torch.eye(evidence.n_classes)
        )
        weights = fit_probes(basis, folds, likelihood, best.ridge, weights, steps=STEPS)
        logits = held_out_logits(basis, folds, weights)
        own = stack(
            [logits], evidence, judged.noise, torch.ones(1), rounds=5, max_rows=SCORING_ROWS
        )
        probs = own.probs
        rounds.append(Round(budget, int(clean.sum()), weights, logits, own.loss))
    return rounds
