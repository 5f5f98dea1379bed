"""The latent-truth model of a noisily labelled data set, fitted end to end.

    p(y | x) = sum_k p_k(x) T[k, y],   p(x) = softmax(sum_m a_m Z_m(x))

1. A first noise matrix T from a sample, for features as given and standardised; the likelier stays.
2. Members Z_m, cross-fitted on this same likelihood: ridge probes, CSOT rounds, for small data
   Fourier features, a small network. For the rows of small data also the votes of their neighbours.
3. The judge (`stacking`) weighs them and fits T by the held-out likelihood of the given labels.
4. For predictions, where members have learned mistakes that T does not know: a probe that trains
   once more, on the labels as corrected.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from csot._core.array_types import Ints
from csot.clean.explanation import ChosenExplanation, Judged, explain
from csot.clean.features import Basis
from csot.clean.folds import Folds
from csot.clean.likelihood import Evidence, log_probs
from csot.clean.members.csot import CsotFit, CsotRounds, Round
from csot.clean.members.fourier import FourierProbes
from csot.clean.members.linear import LinearProbes
from csot.clean.members.member import (
    FirstPass,
    Learner,
    Member,
    MemberPredictor,
    TrainingSet,
)
from csot.clean.members.neighbour_votes import NeighbourVotes
from csot.clean.members.probe import ProbePredictor, first_noise, fit_probes, probe_path
from csot.clean.members.small_network import NetworkMember
from csot.clean.overlap import measure_overlap, spread_of_features
from csot.clean.stacking import Stack, information, stack

SAMPLE = 5_000
"""Rows on which the first noise matrix is found."""

STUDENT_CONFIDENCE = 0.8
"""How sure the correction is of a row from which the model for predictions learns its label."""
STUDENT_STEPS = 30
INFORMATIVE = 5.5
"""Standard errors by which held-out labels must be better predicted than by their frequencies;
random labels reach nearly five, as they choose temperature and weights."""
NOISE_MATRIX, JUDGE = "noise matrix", "judge"
LEARNERS: tuple[Learner, ...] = (CsotRounds(), FourierProbes(), NetworkMember())
"""What may follow the linear probes, in order."""
MEMBERS = (LinearProbes.name, *(learner.name for learner in LEARNERS), NeighbourVotes.name)
STAGES = (
    NOISE_MATRIX,
    LinearProbes.stage,
    *(learner.stage for learner in LEARNERS),
    NeighbourVotes.stage,
    JUDGE,
)
"""What `fit` reports as it goes, in order; some may not apply."""


@dataclass(frozen=True)
class Scale:
    """Columns that vary, centred, and divided by their deviation if that predicts better."""

    columns: Tensor
    mean: Tensor
    divisor: Tensor

    def __call__(self, features: Tensor) -> Tensor:
        dtype = features.dtype
        centred = features[:, self.columns] - self.mean.to(dtype)
        return centred / self.divisor.to(dtype)


@dataclass(frozen=True)
class FittedModel:
    """The posterior of the truth (N, C), what it rests on, and the classifier it came with."""

    posterior: Tensor
    corrected: Tensor
    """(N,): the label that each row should have; rare classes are left to `verdicts`."""
    probs: Tensor
    """p(x): what annotators perceive, calibrated to the given labels, from held-out models."""
    judgement: ChosenExplanation
    noise: Tensor
    informative: bool
    """Whether held-out labels are predicted better than by their frequencies, beyond chance."""
    class_prior: Tensor
    loss: float
    weights: dict[str, float]
    rounds: list[Round]
    scale: Scale
    predictors: list[tuple[float, MemberPredictor]]
    student: MemberPredictor | None
    """Trained on the corrected labels; predicts the truth."""
    rows: Tensor
    """Coordinates of the training rows on principal axes, for distances."""
    basis: Basis

    def coordinates(self, features: Tensor) -> Tensor:
        """Coordinates of new rows on the principal axes of the training rows."""
        return self.basis.coordinates(self.scale(features))

    def logits(self, features: Tensor) -> Tensor:
        """Logits of the perceived class of new rows, under the class prior of the training rows."""
        return self._logits(self.scale(features))

    def truth_logits(self, features: Tensor) -> Tensor:
        """Logits of the true class, which is sharper than what annotators perceive.

        Class factors are on the members alone: the student learned labels that have them already.
        """
        rows, explanation = self.scale(features), self.judgement.explanation
        assert explanation.factors is not None
        factors = explanation.factors.clamp_min(1e-12).log()
        by_members = explanation.power * self._logits(rows) + factors
        return by_members if self.student is None else (by_members + self.student(rows)) / 2

    def _logits(self, rows: Tensor) -> Tensor:
        total = rows.new_zeros(len(rows), len(self.noise))
        for weight, predictor in self.predictors:
            total = total + weight * predictor(rows)
        return total


def fit_model(
    features: Tensor,
    evidence: Evidence,
    *,
    seed: int,
    n_folds: int,
    members: tuple[str, ...],
    pred_probs: Tensor | None,
    class_prior: Tensor | None,
    report: Callable[[str], None],
    groups: Ints | None = None,
    csot: CsotRounds | None = None,
) -> FittedModel:
    """Fit everything. `report` is called with each stage as it begins; `groups` share a fold."""
    folds = Folds.stratified(evidence.labels_to_stratify(), n_folds, seed, groups)
    report(NOISE_MATRIX)
    scale, noise = _first_scale_and_noise(features, evidence, seed, groups)
    report(LinearProbes.stage)
    scaled = scale(features)
    basis = Basis(scaled)
    # Only with two classes must the clusters be told from a single one.
    two = evidence.n_classes == 2
    spread = spread_of_features(scaled, basis.row_coordinates) if two else 0.0
    training = TrainingSet(basis, basis.without_training_rows(), folds, evidence, seed, spread)
    first = LinearProbes().fit(training, noise)
    fitted = LinearProbes().members(training, first)
    noise, rounds = first.judged.noise, []
    for default in LEARNERS:
        learner = csot if csot is not None and csot.name == default.name else default
        if learner.name in members and learner.applies(training):
            report(learner.stage)
            fit = learner.fit(training, first, noise)
            fitted, noise = [*fitted, *fit.members], fit.noise
            if isinstance(fit, CsotFit):
                rounds = fit.rounds
    held_out = first.trusted.gather(1, folds.fold[:, None])[:, 0]
    start = _start_weights(first.judged.weights, len(fitted))
    own = judged = _weigh(fitted, evidence, held_out, noise, start)
    all_members = fitted
    if pred_probs is not None:
        all_members = [*fitted, Member("pred_probs", log_probs(pred_probs), None)]
        start = torch.cat([own.weights / 2, torch.full((1,), 0.5)])
        judged = _weigh(all_members, evidence, held_out, own.noise, start)
    final = judged
    if NeighbourVotes.name in members and NeighbourVotes().applies(training):
        report(NeighbourVotes.stage)
        votes = NeighbourVotes().fit(training, judged.noise)
        all_members = [*all_members, votes]
        final = _with_votes(judged, votes, evidence)
    report(JUDGE)
    verdict = _verdict(final, judged, training, class_prior)
    return FittedModel(
        posterior=verdict.judged.posterior,
        corrected=verdict.judged.corrected,
        probs=final.probs,
        judgement=verdict.judgement,
        noise=verdict.noise,
        informative=verdict.informative,
        class_prior=_shares(verdict, class_prior),
        loss=final.loss,
        weights={v.name: float(w) for v, w in zip(all_members, final.weights, strict=True)},
        rounds=rounds,
        scale=scale,
        predictors=[
            (float(weight), member.predictor)
            for member, weight in zip(fitted, own.weights, strict=True)
            if float(weight) > 0 and member.predictor is not None
        ],
        student=_student(training, first, verdict),
        rows=basis.row_coordinates,
        basis=training.light,
    )


@dataclass(frozen=True)
class Verdict:
    """What is said of the rows, and what was assumed."""

    judged: Judged
    judgement: ChosenExplanation
    noise: Tensor
    informative: bool


def _verdict(
    final: Stack, without_votes: Stack, training: TrainingSet, class_prior: Tensor | None
) -> Verdict:
    """The verdict by all members; what it assumes, by those whose predictions are smooth in x.

    Votes come in whole numbers: their logarithms form no elliptical clusters.
    """
    evidence, seed = training.evidence, training.seed
    informative = information(without_votes.probs, evidence, without_votes.noise) >= INFORMATIVE
    overlap = measure_overlap(without_votes.probs, seed, training.spread)
    # Noisy labels and features that say nothing look alike: then believe the labels.
    noise = final.noise if informative else torch.eye(evidence.n_classes)
    judgement = explain(final.probs, evidence, noise, overlap, seed, class_prior=class_prior)
    if not informative:
        judgement = judgement.believing_labels(noise)
    judged = judgement.judge(final.probs, evidence)
    return Verdict(judged, judgement, noise, informative)


def _shares(verdict: Verdict, class_prior: Tensor | None) -> Tensor:
    """Shares of the true classes (C,): the given ones, where they were used."""
    if class_prior is None or not verdict.informative:
        return verdict.judged.shares
    return class_prior.double()


def _student(training: TrainingSet, first: FirstPass, verdict: Verdict) -> MemberPredictor | None:
    """A probe trained on the corrected labels of the rows whose truth is nearly certain.

    None without evidence that more is wrong than T knows: the members have then learned nothing
    that would have to be unlearned.
    """
    if not verdict.informative or not verdict.judgement.has_evidence:
        return None
    judged = verdict.judged
    known = Evidence.of_labels(
        torch.where(judged.correction_confidence >= STUDENT_CONFIDENCE, judged.corrected, -1),
        training.evidence.n_classes,
    )
    learned, present = (
        torch.unique(labels[labels >= 0]) for labels in (known.given, training.evidence.given)
    )
    if len(learned) < len(present):  # a class that is not learned would never be predicted
        return None
    probe = first.probes[0]
    weights = fit_probes(
        training.basis,
        Folds.nothing_held_out(len(known)),
        known.likelihood(torch.eye(known.n_classes)),
        probe.ridge,
        probe.weights.mean(1, keepdim=True),
        steps=STUDENT_STEPS,
    )
    return ProbePredictor(training.light, weights[:, 0])


def _weigh(
    members: list[Member], evidence: Evidence, trusted: Tensor, noise: Tensor, start: Tensor
) -> Stack:
    """Weights from the rows whose labels are believable; temperature and T from all of them.

    Members that have learned the mistakes predict the other rows best.
    """
    logits = [member.logits for member in members]
    if bool(trusted.all()):
        return stack(logits, evidence, noise, start)
    believable = replace(evidence, given=torch.where(trusted, evidence.given, -1))
    weights = stack(logits, believable, noise, start).weights
    combined = torch.tensordot(weights, torch.stack(logits), 1)
    scaled = stack([combined], evidence, noise, torch.ones(1))
    return replace(scaled, weights=weights * scaled.weights)


def _with_votes(judged: Stack, votes: Member, evidence: Evidence) -> Stack:
    """The stack and the votes of neighbours, weighed by all rows.

    Not by the believable ones, which agree with the models that chose them.
    """
    logs = judged.probs.clamp_min(1e-30).log()  # sure ones round to zero
    both = stack([logs, votes.logits], evidence, judged.noise)
    return replace(both, weights=torch.cat([judged.weights * both.weights[0], both.weights[1:]]))


def _first_scale_and_noise(
    features: Tensor, evidence: Evidence, seed: int, groups: Ints | None
) -> tuple[Scale, Tensor]:
    """Features as given or standardised, whichever predicts held-out labels of a sample better."""
    deviation = features.std(0)
    columns = (deviation > 0).nonzero()[:, 0]
    mean, deviation = features[:, columns].mean(0), deviation[columns]
    sample = torch.from_numpy(np.random.default_rng(seed).permutation(len(features))[:SAMPLE])
    part = evidence.take(sample)
    together = None if groups is None else groups[sample.numpy()]
    folds = Folds.stratified(part.labels_to_stratify(), 5, seed, together)
    best: tuple[float, Scale, Tensor] | None = None
    for divisor in (torch.ones_like(deviation), deviation):
        scale = Scale(columns, mean, divisor)
        basis = Basis(scale(features[sample]))
        # T is a property of the labels: that of the first scale is a good start for the other.
        found = first_noise(basis, folds, part, None if best is None else best[2])
        loss = found.loss
        if len(features) <= SAMPLE:
            loss = probe_path(basis, folds, part, found.noise, found.weights)[0].loss
        if best is None or loss < best[0]:
            best = loss, scale, found.noise
    assert best is not None
    return best[1], best[2]


def _start_weights(judged: Tensor, n_members: int) -> Tensor:
    """Half of the weight for the probes already judged, half for the others."""
    known = len(judged)
    if n_members == known:
        return judged
    others = torch.full((n_members - known,), 0.5 / (n_members - known))
    return torch.cat([judged / 2, others])
