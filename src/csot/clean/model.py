"""The latent-truth model of a noisily labelled data set, fitted end to end.

    p(y | x) = sum_k p_k(x) T[k, y],   p(x) = softmax(sum_m a_m Z_m(x))

1. A first noise matrix T from a sample, for features as given and standardised; the likelier stays.
2. Members Z_m, cross-fitted on this same likelihood: ridge probes, CSOT rounds, for small data
   Fourier features, a small network.
3. The judge (``stacking``) weighs them and fits T by the held-out likelihood of the given labels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from csot.clean.explanation import Explanation, Judgement, explain
from csot.clean.features import Basis
from csot.clean.folds import Folds, Integers
from csot.clean.likelihood import Evidence
from csot.clean.members.csot import Round, curriculum_rounds
from csot.clean.members.linear import (
    ProbeMember,
    first_noise,
    held_out_logits,
    probe_path,
    relearn,
    settle,
)
from csot.clean.members.member import Member, Predictor
from csot.clean.members.network import NetworkPredictor, fit_networks
from csot.clean.members.probes import (
    MEMBERS_PER_KIND,
    RELEARN_STEPS,
    ProbePredictor,
    as_member,
    fit_kernel_probes,
)
from csot.clean.overlap import measure_overlap
from csot.clean.stacking import SCORING_ROWS, Stack, information, stack

SAMPLE = 5_000
"""Rows on which the first noise matrix is found."""
FIRST_ROWS = 15_000
"""Rows on which the first linear probes are found."""
FOURIER_ROWS = 10_000
"""Rows up to which Fourier features are used."""

INFORMATIVE = 4.0
"""Standard errors by which held-out labels must be better predicted than by their frequencies."""
NOISE_MATRIX, PROBES, CSOT_ROUNDS = "noise matrix", "probes", "CSOT rounds"
KERNEL_PROBES, NETWORK, JUDGE = "kernel probes", "network", "judge"
STAGES = (NOISE_MATRIX, PROBES, CSOT_ROUNDS, KERNEL_PROBES, NETWORK, JUDGE)
"""What ``fit`` reports as it goes, in order; some may not apply."""


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
    probs: Tensor
    """p(x): what annotators perceive, calibrated to the given labels, from held-out models."""
    judgement: Judgement
    noise: Tensor
    informative: bool
    """Whether held-out labels are predicted better than by their frequencies, beyond chance."""
    class_prior: Tensor
    prior_ratio: Tensor
    """How much likelier than the training labels say each class is, by a given class prior."""
    loss: float
    weights: dict[str, float]
    rounds: list[Round]
    scale: Scale
    predictors: list[tuple[float, Predictor]]
    rows: Tensor
    """Coordinates of the training rows on principal axes, for distances."""
    basis: Basis

    def coordinates(self, features: Tensor) -> Tensor:
        """Coordinates of new rows on the principal axes of the training rows."""
        return self.basis.coordinates(self.scale(features))

    def logits(self, features: Tensor) -> Tensor:
        """Of what is perceived in new rows, under the training rows' class prior."""
        rows = self.scale(features)
        total = rows.new_zeros(len(rows), len(self.noise))
        for weight, predictor in self.predictors:
            total = total + weight * predictor(rows)
        return total

    def judge(self, probs: Tensor, evidence: Evidence) -> Tensor:
        """Posterior of the truth (N, C) of rows with these probabilities p(x) and labels."""
        truth = self.judgement.explanation.posterior(probs, evidence) * self.prior_ratio
        return truth / truth.sum(1, keepdim=True)


@dataclass(frozen=True)
class FirstPass:
    """What linear probes say before anything else is trained."""

    probes: list[ProbeMember]
    judged: Stack
    explanation: Explanation
    trusted: Tensor
    """(N, K), see ``trusted_rows``."""


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
    groups: Integers | None = None,
) -> FittedModel:
    """Fit everything. ``report`` is told each stage as it begins; ``groups`` share a fold."""
    folds = Folds.stratified(evidence.labels_to_learn(), n_folds, seed, groups)
    report(NOISE_MATRIX)
    scale, noise = _first_scale_and_noise(features, evidence, seed, groups)
    report(PROBES)
    basis = Basis(scale(features))
    light = basis.without_training_rows()
    first = _first_pass(basis, folds, evidence, noise, seed)
    fitted = [as_member("linear", probe, light) for probe in first.probes]
    noise, rounds = first.judged.noise, []
    if "csot" in members:
        report(CSOT_ROUNDS)
        rounds = _csot_rounds(basis, folds, evidence, first)
        if rounds:
            kept = min(rounds, key=lambda round_: round_.loss)
            predictor = ProbePredictor(light, kept.weights.mean(1))
            fitted.append(Member(f"csot budget {kept.budget:g}", kept.logits, predictor))
    if "fourier" in members and len(features) <= FOURIER_ROWS:
        report(KERNEL_PROBES)
        kernel = fit_kernel_probes(basis, folds, evidence, seed)
        if kernel.probes[0].loss < first.judged.loss:
            noise = kernel.probes[0].noise
        fitted += kernel.members(folds, evidence, first.trusted, light)
    if "network" in members:
        report(NETWORK)
        networks = fit_networks(
            basis.row_coordinates, folds, evidence.likelihood(noise), seed, first.trusted
        )
        logits = networks.held_out_logits(basis.row_coordinates, folds)
        fitted.append(Member("network", logits, NetworkPredictor(light, networks)))
    report(JUDGE)
    held_out = first.trusted.gather(1, folds.fold[:, None])[:, 0]
    start = _start_weights(first.judged.weights, len(fitted))
    own = final = _weigh(fitted, evidence, held_out, noise, start)
    all_members = fitted
    if pred_probs is not None:
        all_members = [*fitted, Member("pred_probs", pred_probs.clamp_min(1e-12).log(), None)]
        start = torch.cat([own.weights / 2, torch.full((1,), 0.5)])
        final = _weigh(all_members, evidence, held_out, own.noise, start)
    verdict = _verdict(final, evidence, class_prior, seed)
    return FittedModel(
        posterior=verdict.truth,
        probs=final.probs,
        judgement=verdict.judgement,
        noise=verdict.noise,
        informative=verdict.informative,
        class_prior=verdict.truth.mean(0) if class_prior is None else class_prior.double(),
        prior_ratio=verdict.prior_ratio,
        loss=final.loss,
        weights={v.name: float(w) for v, w in zip(all_members, final.weights, strict=True)},
        rounds=rounds,
        scale=scale,
        predictors=[
            (float(weight), member.predictor)
            for member, weight in zip(fitted, own.weights, strict=True)
            if float(weight) > 0 and member.predictor is not None
        ],
        rows=basis.row_coordinates,
        basis=light,
    )


def _first_pass(
    basis: Basis, folds: Folds, evidence: Evidence, noise: Tensor, seed: int
) -> FirstPass:
    """Linear probes, and what the labels' disagreement means as far as they can tell.

    It is decided here for the first time, so that what is trained from now on does not learn the
    mistakes. Of many rows a sample has the first say; then the probes train on all that they trust.
    """
    n = len(evidence)
    some = evidence.sample(FIRST_ROWS) if n > FIRST_ROWS else torch.arange(n)
    part = basis.take(some), folds.take(some), evidence.take(some)
    weights, noise = settle(*part, noise, rounds=2)
    # With many rows neighbouring ridges differ little.
    path = probe_path(*part, noise, weights)[: MEMBERS_PER_KIND if len(some) == n else 1]
    # The ridge is a prior of fixed strength: its share of a mean falls as rows are added.
    probes = [
        replace(
            probe,
            ridge=probe.ridge * len(some) / n,
            logits=held_out_logits(basis, folds, probe.weights),
        )
        for probe in path
    ]
    judged = stack([probe.logits for probe in probes], evidence, probes[0].noise)
    overlap = measure_overlap(judged.probs, seed)
    explanation = explain(judged.probs, evidence, judged.noise, overlap, seed).explanation
    trusted = trusted_rows(basis, folds, evidence, probes[0], explanation)
    if len(some) < n or not bool(trusted.all()):
        probes = relearn(basis, folds, evidence, probes, trusted, steps=RELEARN_STEPS)
    return FirstPass(probes, judged, explanation, trusted)


def _csot_rounds(basis: Basis, folds: Folds, evidence: Evidence, first: FirstPass) -> list[Round]:
    judged, best = first.judged, first.probes[0]
    return curriculum_rounds(
        basis,
        folds,
        evidence,
        first.explanation.truth_probs(judged.probs),
        judged.noise,
        first.explanation.posterior(judged.probs, evidence).mean(0).float(),
        best.ridge,
        best.weights,
    )


@dataclass(frozen=True)
class Verdict:
    """The posterior of the truth (N, C), and what was assumed for it."""

    truth: Tensor
    judgement: Judgement
    noise: Tensor
    informative: bool
    prior_ratio: Tensor


def _verdict(final: Stack, evidence: Evidence, class_prior: Tensor | None, seed: int) -> Verdict:
    informative = information(final.probs, evidence, final.noise) >= INFORMATIVE
    # Noisy labels and features that say nothing look alike: then believe the labels.
    noise = final.noise if informative else torch.eye(evidence.n_classes)
    judgement = explain(final.probs, evidence, noise, measure_overlap(final.probs, seed), seed)
    if not informative:
        judgement = replace(judgement, explanation=Explanation(0.0, 1.0, 0.0, noise))
    truth = judgement.explanation.posterior(final.probs, evidence)
    ratio = prior_ratio(truth, class_prior)
    truth = truth * ratio
    truth /= truth.sum(1, keepdim=True)
    return Verdict(truth, judgement, noise, informative, ratio)


def trusted_rows(
    basis: Basis, folds: Folds, evidence: Evidence, member: ProbeMember, explanation: Explanation
) -> Tensor:
    """(N, K): whether fold k's own probe finds row i's label believable under an explanation.

    False where the label would pass as its class by the noise matrix alone, but is more likely
    wrong once the overlap is explained by noise. Judged by fold k's probe, which has seen none of
    the labels that it is going to judge.
    """
    scale = stack(
        [member.logits], evidence, member.noise, torch.ones(1), rounds=10, max_rows=SCORING_ROWS
    ).weights
    trusted = torch.ones(len(evidence), folds.n_folds, dtype=torch.bool)
    if explanation.power == 1.0 and explanation.guess == 0.0:
        return trusted
    regular = Evidence.of_labels(evidence.given, evidence.n_classes)
    labelled = ((evidence.given >= 0) & (evidence.verified < 0)).nonzero()[:, 0]
    given = regular.given[labelled, None]
    part = regular.take(labelled)
    likelihood = part.likelihood(explanation.noise)
    for k in range(folds.n_folds):
        probs = (scale * (basis.rows @ member.weights[:, k])).softmax(1)[labelled]
        joint = probs * likelihood
        by_noise_matrix = joint.gather(1, given)[:, 0] / joint.sum(1)
        by_explanation = explanation.posterior(probs, part).gather(1, given)[:, 0]
        trusted[labelled, k] = (by_noise_matrix < 0.5) | (by_explanation >= 0.5)
    return trusted


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


def prior_ratio(truth: Tensor, class_prior: Tensor | None) -> Tensor:
    """Factors (C,) on q (N, C) that make the expected class shares those of a prior; 1 without one.

    By Bayes a class that is t_k times likelier beforehand is so afterwards, too.
    """
    ratio = truth.new_ones(truth.shape[1])
    if class_prior is None:
        return ratio
    target = class_prior.double()
    for _ in range(50):
        # Scaling the classes until their expected shares are the given ones (Saerens et al. 2002).
        shifted = truth.clamp_min(1e-30) * ratio
        shares = (shifted / shifted.sum(1, keepdim=True)).mean(0)
        if float((shares - target).abs().max()) < 1e-6:
            break
        ratio = ratio * torch.where(target > 0, target / shares.clamp_min(1e-12), 0.0)
    # A verified row may be of a class of share zero.
    return ratio.clamp_min(1e-100)


def _first_scale_and_noise(
    features: Tensor, evidence: Evidence, seed: int, groups: Integers | None
) -> tuple[Scale, Tensor]:
    """Features as given or standardised, whichever predicts held-out labels of a sample better."""
    deviation = features.std(0)
    columns = (deviation > 0).nonzero()[:, 0]
    mean, deviation = features[:, columns].mean(0), deviation[columns]
    sample = torch.from_numpy(np.random.default_rng(seed).permutation(len(features))[:SAMPLE])
    part = evidence.take(sample)
    together = None if groups is None else groups[sample.numpy()]
    folds = Folds.stratified(part.labels_to_learn(), 5, seed, together)
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
    """Half of the weight for the probes already judged, half for the newcomers."""
    known = len(judged)
    if n_members == known:
        return judged
    newcomers = torch.full((n_members - known,), 0.5 / (n_members - known))
    return torch.cat([judged / 2, newcomers])
