"""The latent-truth model of a noisily labelled data set, fitted end to end.

    p(y | x) = sum_k p_k(x) T[k, y],   p(x) = softmax(sum_m a_m Z_m(x))

1. A first noise matrix T from a sample, for features as given and standardised; the likelier stays.
2. Members Z_m, cross-fitted on this same likelihood: ridge probes, CSOT rounds, for small data
   Fourier features, a small network.
3. The judge (``stacking``) weighs them and fits T by the held-out likelihood of the given labels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from csot.clean.basis import Basis
from csot.clean.evidence import Evidence, posterior
from csot.clean.folds import Folds, Integers
from csot.clean.fourier import FourierMap
from csot.clean.network import Networks, fit_networks
from csot.clean.rounds import Round, curriculum_rounds
from csot.clean.search import ProbeMember, first_noise, probe_path, settle
from csot.clean.stacking import Stack, information, stack

SAMPLE = 10_000
"""Rows on which the first noise matrix is found, and up to which Fourier features are used."""

LINEAR_MEMBERS = 3
INFORMATIVE = 4.0
"""Standard errors by which held-out labels must be better predicted than by their frequencies."""
STAGES = ("noise matrix", "probes", "CSOT rounds", "kernel probes", "network", "judge")
"""What ``fit`` reports as it goes, in order; some may not apply."""


class Predictor(Protocol):
    """Logits (N, C) for new rows, already standardised."""

    def __call__(self, rows: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class ProbePredictor:
    """The mean of the folds' probes, on principal axes, of Fourier features if there is a map."""

    basis: Basis
    weights: Tensor
    outer_basis: Basis | None = None
    fourier: FourierMap | None = None

    def __call__(self, rows: Tensor) -> Tensor:
        if self.fourier is not None and self.outer_basis is not None:
            rows = self.fourier(self.outer_basis(rows)[:, :-1])
        return self.basis(rows) @ self.weights.to(rows.dtype)


@dataclass(frozen=True)
class NetworkPredictor:
    basis: Basis
    networks: Networks

    def __call__(self, rows: Tensor) -> Tensor:
        return self.networks.mean_logits(self.basis(rows)[:, :-1])


@dataclass(frozen=True)
class Member:
    """One voice of the stack: held-out logits (N, C), and how to ask it about new rows."""

    name: str
    logits: Tensor
    predictor: Predictor | None


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
    noise: Tensor
    informative: bool
    """Whether held-out labels are predicted better than by their frequencies, beyond chance."""
    class_prior: Tensor
    tilt: Tensor
    """How much likelier than the training labels say each class is, by a given class prior."""
    loss: float
    weights: dict[str, float]
    rounds: list[Round]
    scale: Scale
    predictors: list[tuple[float, Predictor]]
    rows: Tensor
    """Coordinates of the training rows on principal axes, for distances."""

    def logits(self, features: Tensor) -> Tensor:
        """Of new rows, under the training rows' class prior."""
        rows = self.scale(features)
        total = self.tilt.clamp_min(1e-12).log().to(rows.dtype).repeat(len(rows), 1)
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
    groups: Integers | None = None,
) -> FittedModel:
    """Fit everything. ``report`` is told each stage as it begins; ``groups`` share a fold."""
    labels = evidence.labels_to_learn()
    folds = Folds.stratified(labels, n_folds, seed, groups)
    report(STAGES[0])
    scale, noise = _first_scale_and_noise(features, evidence, seed, groups)
    report(STAGES[1])
    basis = Basis(scale(features))
    weights, noise = settle(basis, folds, evidence, noise, rounds=6)
    path = probe_path(basis, folds, evidence, noise, weights)
    light = basis.without_training_rows()
    voices = [_probe_voice("linear", member, light) for member in path[:LINEAR_MEMBERS]]
    judged = stack([voice.logits for voice in voices], evidence, path[0].noise)
    rounds: list[Round] = []
    if "csot" in members:
        report(STAGES[2])
        best = path[0]
        shares = posterior(judged.probs, evidence.likelihood(judged.noise))[0].mean(0)
        rounds = curriculum_rounds(
            basis, folds, evidence, judged.probs, judged.noise, shares, best.ridge, best.weights
        )
        if rounds:
            kept = min(rounds, key=lambda round_: round_.loss)
            predictor = ProbePredictor(light, kept.weights.mean(1))
            voices.append(Member(f"csot budget {kept.budget:g}", kept.logits, predictor))
    noise, loss = judged.noise, judged.loss
    if "fourier" in members and len(features) <= SAMPLE:
        report(STAGES[3])
        kernel_path, fourier, kernel_basis = _kernel_probes(basis, folds, evidence, seed)
        if kernel_path[0].loss < loss:
            noise = kernel_path[0].noise
        kernel_light = kernel_basis.without_training_rows()
        voices += [
            _probe_voice("fourier", member, kernel_light, light, fourier)
            for member in kernel_path[:2]
        ]
    if "network" in members:
        report(STAGES[4])
        networks = fit_networks(basis.rows[:, :-1], folds, evidence.likelihood(noise), seed)
        logits = networks.held_out_logits(basis.rows[:, :-1], folds)
        voices.append(Member("network", logits, NetworkPredictor(light, networks)))
    report(STAGES[5])
    start = _start_weights(judged, len(voices))
    own = stack([voice.logits for voice in voices], evidence, noise, start)
    final, everyone = own, voices
    if pred_probs is not None:
        everyone = [*voices, Member("pred_probs", pred_probs.clamp_min(1e-12).log(), None)]
        start = torch.cat([own.weights / 2, torch.full((1,), 0.5)])
        final = stack([voice.logits for voice in everyone], evidence, own.noise, start)
    informative = information(final.probs, evidence, final.noise) >= INFORMATIVE
    # Noisy labels and features that say nothing look alike: then believe the labels.
    noise = final.noise if informative else torch.eye(evidence.n_classes)
    truth, shares, tilt = posterior_with_prior(final.probs, evidence, noise, class_prior)
    return FittedModel(
        posterior=truth,
        probs=final.probs,
        noise=noise,
        informative=informative,
        class_prior=shares,
        tilt=tilt,
        loss=final.loss,
        weights={v.name: float(w) for v, w in zip(everyone, final.weights, strict=True)},
        rounds=rounds,
        scale=scale,
        predictors=[
            (float(weight), voice.predictor)
            for voice, weight in zip(voices, own.weights, strict=True)
            if float(weight) > 0 and voice.predictor is not None
        ],
        rows=basis.rows[:, :-1],
    )


def posterior_with_prior(
    probs: Tensor, evidence: Evidence, noise: Tensor, class_prior: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """q_ik in float64, class shares and the tilt that led to them: 1 unless a prior is given.

    The shares are estimated, or given and then enforced on average.
    """
    likelihood = evidence.likelihood(noise.double())
    # A class of probability zero may still be a verified row's.
    wide = probs.double().clamp_min(1e-30)
    truth, _ = posterior(wide, likelihood)
    tilt = wide.new_ones(wide.shape[1])
    if class_prior is None:
        return truth, truth.mean(0), tilt
    target = class_prior.double()
    for _ in range(50):
        # Scaling the classes until their expected shares are the given ones (Saerens et al. 2002).
        shares = truth.mean(0)
        tilt = tilt * torch.where(target > 0, target / shares.clamp_min(1e-12), 0.0)
        truth, _ = posterior(wide * tilt, likelihood)
        if float((truth.mean(0) - target).abs().max()) < 1e-6:
            break
    return truth, target, tilt


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
        noise = first_noise(basis, folds, part)
        member = probe_path(basis, folds, part, noise)[0]
        if best is None or member.loss < best[0]:
            best = member.loss, scale, noise
    assert best is not None
    return best[1], best[2]


def _kernel_probes(
    basis: Basis, folds: Folds, evidence: Evidence, seed: int
) -> tuple[list[ProbeMember], FourierMap, Basis]:
    fourier = FourierMap.draw(basis.rows[:, :-1], seed)
    kernel_basis = Basis(fourier(basis.rows[:, :-1]))
    noise = first_noise(kernel_basis, folds, evidence)
    return probe_path(kernel_basis, folds, evidence, noise), fourier, kernel_basis


def _probe_voice(
    kind: str,
    member: ProbeMember,
    basis: Basis,
    outer_basis: Basis | None = None,
    fourier: FourierMap | None = None,
) -> Member:
    predictor = ProbePredictor(basis, member.weights.mean(1), outer_basis, fourier)
    return Member(f"{kind} ridge {member.ridge:.3g}", member.logits, predictor)


def _start_weights(judged: Stack, n_members: int) -> Tensor:
    """Half of the weight for the probes already judged, half for the newcomers."""
    known = len(judged.weights)
    if n_members == known:
        return judged.weights
    newcomers = torch.full((n_members - known,), 0.5 / (n_members - known))
    return torch.cat([judged.weights / 2, newcomers])
