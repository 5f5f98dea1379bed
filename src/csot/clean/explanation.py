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

Scores and the noise rate are those of the explanation; labels are changed by a `correction`, which
keeps some trust in them at any doubt.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from scipy.optimize import brentq
from torch import Tensor

from csot.clean.class_shares import class_factors, reweighted
from csot.clean.correction import (
    LEAST_DOUBT,
    Correction,
    fit_correction,
    sharpen,
)
from csot.clean.likelihood import Evidence, by_class, posterior, softmax_rows
from csot.clean.noise_rate_interval import (
    counted_interval,
    two_errors,
    weighted_interval,
    widened,
)
from csot.clean.overlap import MAX_ROWS, Overlap

FULL_DOUBT_EXCESS = 0.35
"""Share of the overlap that the clusters do not support from which doubt is complete."""
ABSORBED = 2.0
"""Class noise, over the excess overlap, up to which it may be noise by sample that T absorbed."""
SCORE_CAUTION, CHANGE_CAUTION = 1.5, 2.0
"""Standard errors of the overlap that are believed when labels are scored, and when changed."""
LARGEST_DOUBT = 1.5
LARGEST_POWER = 8.0
PRIOR_DEVIATION = 0.2
"""Standard deviation of the prior on doubt that verified rows are weighed against."""
FLAG_DEVIATION = 0.35
"""How far off the position may be when labels are flagged. Wider, as a wrong label that is never
looked at is lost, and a right one costs a glance."""
GRID = 31
PATH_ROWS = 5_000
"""Rows on which powers and noise rates of the path are found."""
MAX_FIT_ROWS = 10_000
"""Rows that noise matrix and class shares are fitted to."""
ROWS_AT_A_TIME = 8192
"""Rows whose arrays stay in the processor's cache while they are judged."""


@dataclass(frozen=True)
class Explanation:
    """One explanation: its position on the path, the power of p and the share of guesses."""

    doubt: float
    power: float
    guess: float
    noise: Tensor
    factors: Tensor | None = None
    """(C,): how much likelier than the labels say each class is (`class_shares`)."""

    def truth_probs(self, probs: Tensor) -> Tensor:
        """p* (N, C)."""
        return sharpen(probs, self.power)

    def posterior(self, probs: Tensor, evidence: Evidence) -> Tensor:
        """q (N, C) in float64; verified rows are certain, rows without a label have p*."""
        wide = by_class(probs.double()).clamp_min(1e-30)
        wide = wide / wide.sum(1, keepdim=True)
        result = truth = sharpen(wide, self.power)
        if self.guess < 1:
            regular = Evidence.of_labels(evidence.given, evidence.n_classes)
            perceived, _ = posterior(wide, regular.likelihood(self.noise.double()))
            coupled = perceived if self.power == 1.0 else couple(perceived, wide, truth)
            result = coupled.mul_(1 - self.guess).add_(truth, alpha=self.guess)
            unlabelled = evidence.given < 0
            if bool(unlabelled.any()):
                result[unlabelled] = truth[unlabelled]
        if self.factors is not None:
            result = reweighted(result, self.factors)
        locked = evidence.verified >= 0
        if bool(locked.any()):
            classes = evidence.verified[locked]
            result[locked] = torch.nn.functional.one_hot(classes, evidence.n_classes).double()
        return result


def couple(perceived: Tensor, probs: Tensor, truth: Tensor) -> Tensor:
    """Posterior of the truth (N, C) from that of the perceived class, by the maximal coupling.

    A perceived class c is the true one with probability min(p_c, p*_c) / p_c; otherwise the truth
    is k with probability proportional to max(p*_k - p_k, 0).
    """
    stays = (truth / probs).clamp_max_(1.0)
    gains = (truth - probs).clamp_min_(0.0)
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
        if len(labelled) > PATH_ROWS:
            chosen = np.random.default_rng(seed).permutation(len(labelled))[:PATH_ROWS]
            labelled = labelled[torch.from_numpy(chosen)]
        self._logs = by_class(probs[labelled].double()).clamp_min(1e-30).log()
        self._probs = self._logs.exp()
        # For means over thousands of rows single precision is enough.
        self._gaps = (self._logs - self._logs.amax(1, keepdim=True)).float()
        self._plain_overlap = self._mean_overlap(1.0)
        self._sharpest_overlap = self._mean_overlap(LARGEST_POWER)
        self._labels = Evidence.of_labels(evidence.given[labelled], evidence.n_classes)
        self._overlap = overlap
        self._noise = noise
        self._absorbed = absorbed
        self.class_noise = self.noise_rate(Explanation(0.0, 1.0, 0.0, noise))
        """Noise rate by the noise matrix alone, all overlap being real."""

    def at(self, doubt: float) -> Explanation:
        """The explanation at a position."""
        if not len(self._logs):
            return Explanation(doubt, 1.0, 0.0, self._noise)
        # Of the overlap of these rows themselves, so that without doubt the power is exactly 1.
        left = 1 - doubt * (1 - self._overlap.believable / max(self._overlap.labels, 1e-12))
        power = self._power_for(max(left, 0.0) * self._plain_overlap)
        truth = self._probs if power == 1.0 else softmax_rows(power * self._logs)
        excess = float((truth - self._probs).clamp_min_(0).sum(1).mean())
        guess = min(doubt**2, 1.0) * unexplained_share(excess, self.class_noise, self._absorbed)
        return Explanation(doubt, power, guess, self._noise)

    def noise_rate(self, explanation: Explanation) -> float:
        """Expected share of wrong labels in the sample."""
        return self._rate(explanation.posterior(self._probs, self._labels))

    def guessing_rate(self) -> float:
        """Noise rate if no label told more than its features: mean of 1 - p_y."""
        return self._rate(self._probs)

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
class Judged:
    """What is said of rows: corrected labels (N,), and the posterior of the truth (N, C).

    The posterior is that of the explanation, whose probabilities are calibrated. The correction
    decides better which label to change and is too sure of it: how sure (N,), and its class
    `shares` (C,), serve only for training once more.
    """

    corrected: Tensor
    correction_confidence: Tensor
    shares: Tensor
    posterior: Tensor


@dataclass(frozen=True)
class ChosenExplanation:
    """The explanation chosen, the overlap it rests on and the interval of the noise rate."""

    explanation: Explanation
    correction: Correction
    """By which labels are changed."""
    overlap: Overlap
    noise_rate_interval: tuple[float, float]
    possible: list[tuple[float, Explanation]]
    """Explanations that the data set may have, with their probabilities."""
    has_evidence: bool = False
    """Whether something speaks for more mistakes than the noise matrix explains."""

    def believing_labels(self, noise: Tensor) -> ChosenExplanation:
        """The same, but with a noise matrix (C, C) that explains all there is to explain."""
        factors = self.correction.factors.new_ones(len(noise))
        plain = Explanation(0.0, 1.0, 0.0, noise, factors)
        return replace(
            self,
            explanation=plain,
            correction=Correction(1.0, noise, factors),
            possible=[(1.0, plain)],
            has_evidence=False,
        )

    def judge(self, probs: Tensor, evidence: Evidence) -> Judged:
        """Judge rows (N, C): labels by the correction, their chances by the explanation."""
        n, n_classes = probs.shape
        corrected, confidence = evidence.given.clone(), probs.new_empty(n, dtype=torch.float64)
        posterior = probs.new_empty(n_classes, n, dtype=torch.float64).T
        shares = posterior.new_zeros(n_classes)
        for start in range(0, n, ROWS_AT_A_TIME):
            some = slice(start, start + ROWS_AT_A_TIME)
            part, given = evidence.take(some), evidence.given[some]
            chances = self.correction.posterior(probs[some], part)
            confidence[some], best = chances.max(1)
            # A tie does not change a label.
            own = chances.gather(1, given.clamp(min=0)[:, None])[:, 0]
            kept = (own >= confidence[some]) & (given >= 0)
            corrected[some] = torch.where(kept, given, best)
            shares += chances.sum(0) / n
            posterior[some] = self.explanation.posterior(probs[some], part)
        return Judged(corrected, confidence, shares, posterior)


def explain(
    probs: Tensor,
    evidence: Evidence,
    noise: Tensor,
    overlap: Overlap,
    seed: int = 0,
    absorbed: float = ABSORBED,
    class_prior: Tensor | None = None,
    fair: Tensor | slice | None = None,
) -> ChosenExplanation:
    """Place a data set on the path, and fit the correction that changes labels.

    `absorbed` is 1 for a noise matrix that is known to hold noise by class alone; `class_prior`
    (C,) are shares of the true classes, if they are known; `fair` are rows that are a fair sample,
    where verified ones were added to the others.
    """
    path = Path(probs, evidence, noise, overlap, seed, absorbed)
    position = _position(path, probs, evidence, overlap, absorbed)
    if fair is None:
        fair = slice(None)
        if len(evidence) > MAX_FIT_ROWS:
            order = np.random.default_rng(seed).permutation(len(evidence))
            fair = torch.from_numpy(np.sort(order[:MAX_FIT_ROWS]))
    truth = position.explanation.posterior(probs[fair], evidence.take(fair))
    factors = class_factors(truth, evidence.given[fair], class_prior)
    # Changes are more cautious: the clusters are known from no more rows than were looked at.
    rows = min(_labelled(evidence), MAX_ROWS)
    doubt = doubt_by_clusters(overlap, path.class_noise, rows, absorbed, CHANGE_CAUTION)
    return ChosenExplanation(
        replace(position.explanation, factors=factors),
        fit_correction(probs, evidence, doubt, class_prior, fair),
        overlap,
        position.noise_rate_interval,
        [(weight, replace(other, factors=factors)) for weight, other in position.possible],
        has_evidence=position.explanation.doubt > position.least_doubt,
    )


def find_explanation(
    probs: Tensor, evidence: Evidence, noise: Tensor, overlap: Overlap, seed: int = 0
) -> Explanation:
    """The position of a data set on the path alone."""
    path = Path(probs, evidence, noise, overlap, seed)
    return _position(path, probs, evidence, overlap, ABSORBED).explanation


@dataclass(frozen=True)
class _Position:
    explanation: Explanation
    noise_rate_interval: tuple[float, float]
    possible: list[tuple[float, Explanation]]
    least_doubt: float


def _position(
    path: Path, probs: Tensor, evidence: Evidence, overlap: Overlap, absorbed: float
) -> _Position:
    """By the clusters of the predictions, and by verified rows."""
    checked = ((evidence.verified >= 0) & (evidence.given >= 0)).nonzero()[:, 0]
    rows = _labelled(evidence)
    least = least_doubt_of_scores(overlap, path.class_noise, absorbed)
    prior = doubt_by_clusters(overlap, path.class_noise, rows, absorbed, SCORE_CAUTION, least)
    before = path.at(prior)
    rates = [path.class_noise, path.noise_rate(before), path.guessing_rate()]
    blind = widened(min(rates), max(rates), rows)
    if not len(checked):
        return _Position(before, blind, _possible(path, prior), least)
    grid = np.linspace(0.0, LARGEST_DOUBT, GRID)
    explanations = [path.at(float(doubt)) for doubt in grid]
    scores = _scores_by_verified(explanations, probs[checked], evidence.take(checked))
    weights = _posterior_of_doubt(scores, grid, prior)
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
    return _Position(chosen, interval, possible, least)


def _labelled(evidence: Evidence) -> int:
    """Number of rows that have a label, at least 1."""
    return max(int((evidence.given >= 0).sum()), 1)


def _possible(path: Path, prior: float) -> list[tuple[float, Explanation]]:
    """Positions up to two standard deviations from the prior's, with their weights."""
    steps = np.linspace(-2.0, 2.0, 5)
    weights = np.exp(-0.5 * steps**2)
    doubts = np.clip(prior + FLAG_DEVIATION * steps, 0.0, LARGEST_DOUBT)
    return [
        (float(weight), path.at(float(doubt)))
        for weight, doubt in zip(weights / weights.sum(), doubts, strict=True)
    ]


def doubt_by_clusters(
    overlap: Overlap,
    class_noise: float,
    rows: int,
    absorbed: float = ABSORBED,
    errors: float = CHANGE_CAUTION,
    least: float = LEAST_DOUBT,
) -> float:
    """How much of the overlap is not believable, as a position on the path, from `least` on.

    The overlap of the labels is only as sure as a share of so many labelled rows: so many standard
    `errors` of it are believed. Weighed by the share of the noise that the noise matrix does not
    explain already.
    """
    margin = errors / 2 * two_errors(overlap.labels, rows)
    excess = overlap.labels - overlap.assignment - margin
    if not overlap.trusted or excess <= 0:
        return least
    doubt = min(excess / overlap.labels / FULL_DOUBT_EXCESS, 1.0)
    return least + max(doubt - least, 0.0) * unexplained_share(excess, class_noise, absorbed)


def least_doubt_of_scores(
    overlap: Overlap, class_noise: float, absorbed: float = ABSORBED
) -> float:
    """LEAST_DOUBT, as far as the noise matrix does not explain more than that already."""
    return LEAST_DOUBT * unexplained_share(LEAST_DOUBT * overlap.labels, class_noise, absorbed)


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
