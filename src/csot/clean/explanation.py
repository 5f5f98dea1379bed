"""Why labels disagree with their surroundings: the classes overlap, or the labels are wrong.

The stack gives p(x), calibrated to the given labels, and a noise matrix T: the annotator perceives
class c with probability p_c(x) and writes down y with probability T[c, y]. What is left open is
how the perceived class c relates to the true class k. Every explanation on this path has the same
likelihood of the given labels:

    p*(x) = p(x)^power / sum                     the truth, sharper than what is perceived
    J_x                                          joint of (k, c) with marginals p*(x) and p(x)
      = (1 - guess) * maximal coupling           annotators err as seldom as the marginals allow
      +      guess  * independent coupling       the label tells nothing beyond the features

The posterior of the perceived class is q'_c = p_c T[c, y] / sum_j p_j T[j, y], and that of the
truth q_k = sum_c J_x(k | c) q'_c.

`doubt` in [0, 1.5] is the position on the path:

    power: the least with  1 - mean max p* = (1 - doubt + doubt * b) * (1 - mean max p)
    guess = min(doubt^2, 1) * min(1, 2 excess / class noise)
    excess = mean sum_k max(p*_k - p_k, 0)

b is the share of the overlap that the clusters of the predictions support (`overlap`), the class
noise the mean of 1 - q'_y: labels are taken for guesses as far as the noise matrix does not explain
the wrong ones already. T absorbs part of the noise that depends on the sample, hence the 2. At 0
all overlap is real, p* = p and q = q'. At 1 the overlap of p* is what the clusters support and,
without class noise, the label of a row tells nothing that its features do not. Labels alone cannot
place a data set on this path: the overlap of the clusters does, and verified rows do it better.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from scipy.optimize import brentq
from torch import Tensor

from csot.clean.likelihood import Evidence, by_class, posterior, softmax_rows
from csot.clean.noise_rate_interval import (
    counted_interval,
    two_errors,
    weighted_interval,
    widened,
)
from csot.clean.overlap import Overlap

LEAST_DOUBT = 0.35
"""Where the clusters say nothing: people tell classes apart a little better than models do."""
FULL_DOUBT_EXCESS = 0.35
"""Share of the overlap that the clusters do not support from which doubt is complete."""
ABSORBED = 2.0
"""Class noise, over the excess overlap, up to which it may be noise by sample that T absorbed."""
LARGEST_DOUBT = 1.5
LARGEST_POWER = 8.0
PRIOR_DEVIATION = 0.2
"""Standard deviation of the prior on doubt that verified rows are weighed against."""
CHANGE_DOUBT = 0.8
"""Position beyond which labels are not changed unless verified rows say so. At 1 a label would
count for nothing, but mistakes at hard rows are seldom blind: where the position is not known,
keeping some trust in the labels loses less than having none."""
FLAG_DEVIATION = 0.35
"""How far off the position may be when labels are flagged. Wider, as a wrong label that is never
looked at is lost, and a right one costs a glance."""
GRID = 31
MAX_FIT_ROWS = 10_000
FLAG_ROWS = 4_000
"""Rows that determine from which chance on a label is flagged."""
LEAST_CHANCE = 0.1
"""Chance of being wrong below which no label is worth a look."""


@dataclass(frozen=True)
class Explanation:
    """One explanation: its position on the path, the power of p and the share of guesses."""

    doubt: float
    power: float
    guess: float
    noise: Tensor

    def truth_probs(self, probs: Tensor) -> Tensor:
        """p* (N, C)."""
        return sharpen(probs, self.power)

    def posterior(self, probs: Tensor, evidence: Evidence) -> Tensor:
        """q (N, C) in float64; verified rows are certain, rows without a label have p*."""
        wide = by_class(probs.double()).clamp_min(1e-30)
        wide = wide / wide.sum(1, keepdim=True)
        truth = sharpen(wide, self.power)
        regular = Evidence.of_labels(evidence.given, evidence.n_classes)
        perceived, _ = posterior(wide, regular.likelihood(self.noise.double()))
        result = (1 - self.guess) * couple(perceived, wide, truth) + self.guess * truth
        unlabelled = evidence.given < 0
        result[unlabelled] = truth[unlabelled]
        locked = evidence.verified >= 0
        result[locked] = torch.nn.functional.one_hot(
            evidence.verified[locked], evidence.n_classes
        ).double()
        return result


def sharpen(probs: Tensor, power: float) -> Tensor:
    """probs^power, normalised by row."""
    if power == 1.0:
        return probs
    return softmax_rows(power * probs.clamp_min(1e-30).log())


def couple(perceived: Tensor, probs: Tensor, truth: Tensor) -> Tensor:
    """Posterior of the truth (N, C) from that of the perceived class, by the maximal coupling.

    A perceived class c is the true one with probability min(p_c, p*_c) / p_c; otherwise the truth
    is k with probability proportional to max(p*_k - p_k, 0).
    """
    stays = (truth / probs).clamp_max(1.0)
    gains = (truth - probs).clamp_min(0.0)
    moved = (perceived * (1 - stays)).sum(1, keepdim=True)
    total = gains.sum(1, keepdim=True)
    # Gains of a saturated p may round to zero; its likeliest class, as good as all of p*, has them.
    shares = torch.where(total > 0, gains / total, truth)
    return perceived * stays + shares * moved


class Path:
    """The explanations of one data set, from doubt 0 to 1.5, on a sample of its rows."""

    def __init__(
        self,
        probs: Tensor,
        evidence: Evidence,
        noise: Tensor,
        overlap: Overlap,
        seed: int = 0,
        absorbed: float = ABSORBED,
    ) -> None:
        labelled = (evidence.given >= 0).nonzero()[:, 0]
        if len(labelled) > MAX_FIT_ROWS:
            chosen = np.random.default_rng(seed).permutation(len(labelled))[:MAX_FIT_ROWS]
            labelled = labelled[torch.from_numpy(chosen)]
        self._logs = by_class(probs[labelled].double()).clamp_min(1e-30).log()
        self._gaps = self._logs - self._logs.amax(1, keepdim=True)
        self._plain_overlap = self._mean_overlap(1.0)
        self._sharpest_overlap = self._mean_overlap(LARGEST_POWER)
        self._labels = Evidence.of_labels(evidence.given[labelled], evidence.n_classes)
        self._overlap = overlap
        self._noise = noise
        self._absorbed = absorbed
        own = Explanation(0.0, 1.0, 0.0, noise).posterior(self._logs.exp(), self._labels)
        self.class_noise = self._rate(own)
        """Noise rate by the noise matrix alone, all overlap being real."""

    def at(self, doubt: float) -> Explanation:
        """The explanation at a position."""
        if not len(self._logs):
            return Explanation(doubt, 1.0, 0.0, self._noise)
        # Of the overlap of these rows themselves, so that without doubt the power is exactly 1.
        left = 1 - doubt * (1 - self._overlap.believable / max(self._overlap.labels, 1e-12))
        power = self._power_for(max(left, 0.0) * self._plain_overlap)
        probs = self._logs.exp()
        excess = float((sharpen(probs, power) - probs).clamp_min(0).sum(1).mean())
        guess = min(doubt**2, 1.0) * unexplained_share(excess, self.class_noise, self._absorbed)
        return Explanation(doubt, power, guess, self._noise)

    def noise_rate(self, explanation: Explanation) -> float:
        """Expected share of wrong labels in the sample."""
        return self._rate(explanation.posterior(self._logs.exp(), self._labels))

    def guessing_rate(self) -> float:
        """Noise rate if no label told more than its features: mean of 1 - p_y."""
        return self._rate(self._logs.exp())

    def _rate(self, posteriors: Tensor) -> float:
        if not len(posteriors):
            return 0.0
        return 1 - float(posteriors.gather(1, self._labels.given[:, None]).mean())

    def _power_for(self, bound: float) -> float:
        """The smallest power that brings the overlap down to a bound."""
        if self._plain_overlap <= bound:
            return 1.0
        if self._sharpest_overlap >= bound:
            return LARGEST_POWER
        power = brentq(
            lambda power: self._mean_overlap(power) - bound, 1.0, LARGEST_POWER, xtol=1e-4
        )
        return float(power)

    def _mean_overlap(self, power: float) -> float:
        """1 - mean max p^power / sum: the likeliest class has a gap of 0 to itself."""
        return 1 - float((power * self._gaps).exp_().sum(1).reciprocal_().mean())


@dataclass(frozen=True)
class ChosenExplanation:
    """The explanation chosen, the overlap it rests on and the interval of the noise rate."""

    explanation: Explanation
    for_changes: Explanation
    """The one by which labels are changed: of less doubt, unless verified rows say more."""
    overlap: Overlap
    noise_rate_interval: tuple[float, float]
    possible: list[tuple[float, Explanation]]
    """Explanations that the data set may have, with their probabilities."""

    def judge(
        self, probs: Tensor, evidence: Evidence, ratio: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Posterior of the truth (N, C) for changes, and the chance that each label is right (N,).

        `ratio` (C,) are factors on the posterior for a given class prior.
        """

        def posterior_by(explanation: Explanation) -> Tensor:
            truth = explanation.posterior(probs, evidence)
            if ratio is not None:
                truth *= ratio
                truth /= truth.sum(1, keepdim=True)
            return truth

        truth = posterior_by(self.for_changes)
        own = truth if self.for_changes is self.explanation else posterior_by(self.explanation)
        return truth, own.gather(1, evidence.given.clamp(min=0)[:, None])[:, 0]


def explain(
    probs: Tensor,
    evidence: Evidence,
    noise: Tensor,
    overlap: Overlap,
    seed: int = 0,
    absorbed: float = ABSORBED,
) -> ChosenExplanation:
    """Place a data set on the path: by the clusters of its predictions, and by verified rows.

    `absorbed` is 1 for a noise matrix that is known to hold noise by class alone.
    """
    path = Path(probs, evidence, noise, overlap, seed, absorbed)
    checked = ((evidence.verified >= 0) & (evidence.given >= 0)).nonzero()[:, 0]
    rows = max(int((evidence.given >= 0).sum()), 1)
    prior = doubt_by_clusters(overlap, path.class_noise, rows, absorbed)
    before = path.at(prior)
    rates = [path.noise_rate(path.at(0.0)), path.noise_rate(before), path.guessing_rate()]
    blind = widened(min(rates), max(rates), rows)
    if not len(checked):
        for_changes = before if prior <= CHANGE_DOUBT else path.at(CHANGE_DOUBT)
        return ChosenExplanation(before, for_changes, overlap, blind, _possible(path, prior))
    grid = np.linspace(0.0, LARGEST_DOUBT, GRID)
    explanations = [path.at(float(doubt)) for doubt in grid]
    scores = _scores_by_verified(explanations, probs[checked], evidence.take(checked))
    weights = _posterior_of_doubt(scores, grid, prior)
    for_changes = explanations[
        int(_posterior_of_doubt(scores, grid, min(prior, CHANGE_DOUBT)).argmax())
    ]
    rates = [path.noise_rate(explanation) for explanation in explanations]
    chosen = explanations[int(weights.argmax())]
    low, high = weighted_interval(rates, weights)
    wrong, *extremes = (
        1 - own_posterior(explanation, probs, evidence)
        for explanation in (chosen, explanations[0], explanations[-1])
    )
    counted = counted_interval(wrong, (extremes[0], extremes[1]), evidence)
    if blind[0] <= sum(counted) / 2 <= blind[1]:
        # Few verified rows count to a wide interval: they must not make it vaguer than none would.
        counted = max(counted[0], blind[0]), min(counted[1], blind[1])
    interval = widened(min(low, counted[0]), max(high, counted[1]), rows)
    likely = np.flatnonzero(weights >= 0.01 * weights.max())
    shares = weights[likely] / weights[likely].sum()
    possible = [(float(w), explanations[k]) for w, k in zip(shares, likely, strict=True)]
    return ChosenExplanation(chosen, for_changes, overlap, interval, possible)


def _possible(path: Path, prior: float) -> list[tuple[float, Explanation]]:
    """Positions up to two standard deviations from the prior's, with their weights."""
    steps = np.linspace(-2.0, 2.0, 5)
    weights = np.exp(-0.5 * steps**2)
    doubts = np.clip(prior + FLAG_DEVIATION * steps, 0.0, LARGEST_DOUBT)
    return [
        (float(weight), path.at(float(doubt)))
        for weight, doubt in zip(weights / weights.sum(), doubts, strict=True)
    ]


def flag_threshold(
    judgement: ChosenExplanation, probs: Tensor, evidence: Evidence, ratio: Tensor | None = None
) -> float:
    """The chance of being wrong, by the chosen explanation, from which a label is worth a look.

    Flagging the k likeliest rows under an explanation e has an expected F1 of about
    2 sum_{i<=k} w_ei / (k + sum_i w_ei), w_ei the chance that label i is wrong. The threshold
    maximises its mean over the possible explanations, since the right one is not known: too few
    flags would miss most of the noise where there is more than the chosen one says. A label that
    is right with nine chances in ten is never flagged: a set without errors has no issues.

    `probs` (N, C) and `evidence` are of rows that are to be judged; `ratio` (C,) are factors
    on the posterior for a given class prior.
    """
    rows = (evidence.given >= 0).nonzero()[:, 0]
    rows = rows[:: max(1, len(rows) // FLAG_ROWS)]
    if not len(rows):
        return 0.5
    labels = Evidence.of_labels(evidence.given[rows], evidence.n_classes)

    def wrong(explanation: Explanation) -> Tensor:
        truth = explanation.posterior(probs[rows], labels)
        if ratio is not None:
            truth = truth * ratio
            truth /= truth.sum(1, keepdim=True)
        return 1 - truth.gather(1, labels.given[:, None])[:, 0]

    chances, order = wrong(judgement.explanation).sort(descending=True, stable=True)
    flagged = torch.arange(1, len(rows) + 1, dtype=chances.dtype)
    score, mean = torch.zeros_like(chances), torch.zeros_like(chances)
    for weight, explanation in judgement.possible:
        other = wrong(explanation)[order]
        found = other.cumsum(0)
        score += weight * 2 * found / (flagged + found[-1])
        mean += weight * other
    is_likely = mean >= LEAST_CHANCE
    if not bool(is_likely.any()):
        return 1.0
    return float(chances[int(torch.where(is_likely, score, -1.0).argmax())])


def doubt_by_clusters(
    overlap: Overlap, class_noise: float, rows: int, absorbed: float = ABSORBED
) -> float:
    """How much of the overlap is not believable, as a position on the path.

    The overlap of the labels is only as sure as a share of so many labelled rows: two standard
    errors of it are believed. Weighed by the share of the noise that the noise matrix does not
    explain already.
    """
    excess = overlap.labels - overlap.assignment - two_errors(overlap.labels, rows)
    if not overlap.trusted or excess <= 0:
        return LEAST_DOUBT
    doubt = min(excess / overlap.labels / FULL_DOUBT_EXCESS, 1.0)
    unexplained = unexplained_share(excess, class_noise, absorbed)
    return LEAST_DOUBT + max(doubt - LEAST_DOUBT, 0.0) * unexplained


def unexplained_share(excess: float, class_noise: float, absorbed: float = ABSORBED) -> float:
    """1 where noise beyond the noise matrix dominates, falling to 0 where T explains it all."""
    return min(1.0, absorbed * excess / max(class_noise, 1e-9))


def _scores_by_verified(
    explanations: list[Explanation], probs: Tensor, checked: Evidence
) -> npt.NDArray[np.float64]:
    """Log-likelihood of the verified labels given x and y, by each explanation."""
    unlocked = Evidence.of_labels(checked.given, checked.n_classes)
    scores = []
    for explanation in explanations:
        truth = explanation.posterior(probs, unlocked)
        # A verified label that the model holds impossible must not decide alone.
        likelihood = truth.gather(1, checked.verified[:, None]) * 0.99 + 0.01 / truth.shape[1]
        scores.append(float(likelihood.log().sum()))
    return np.asarray(scores)


def _posterior_of_doubt(
    scores: npt.NDArray[np.float64], doubts: npt.NDArray[np.float64], prior: float
) -> npt.NDArray[np.float64]:
    """Weights of the doubts by their log-likelihoods and a Gaussian prior."""
    total = scores - 0.5 * ((doubts - prior) / PRIOR_DEVIATION) ** 2
    weights = np.exp(total - total.max())
    return np.asarray(weights / weights.sum())


def own_posterior(explanation: Explanation, probs: Tensor, evidence: Evidence) -> Tensor:
    """Probability (N,) that each given label is right, before anything was verified; 1 for none."""
    unlocked = Evidence.of_labels(evidence.given, evidence.n_classes)
    own = explanation.posterior(probs, unlocked).gather(1, evidence.given.clamp(min=0)[:, None])
    return torch.where(evidence.given >= 0, own[:, 0], 1.0)


def rate_of_new_rows(
    explanation: Explanation, probs: Tensor, evidence: Evidence
) -> tuple[float, float]:
    """Interval of the noise rate of rows that the explanation was not chosen on.

    As for a data set without verified rows: from all overlap being real to labels that tell
    nothing beyond the features.
    """
    labelled = evidence.given >= 0
    part, wide = evidence.take(labelled), probs[labelled].double()
    plain = Explanation(0.0, 1.0, 0.0, explanation.noise)
    candidates = [plain.posterior(wide, part), explanation.posterior(wide, part), wide]
    rates = [
        1 - float(q.gather(1, part.given[:, None]).mean()) if len(q) else 0.0 for q in candidates
    ]
    return widened(min(rates), max(rates), max(len(part), 1))
