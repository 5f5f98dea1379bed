"""One confusion matrix per annotator, shrunk in three steps: the M-step of the EM algorithm.

    n_a[k, j]   expected number of votes for j by annotator a on samples of true class k
    O           one rate for all: the right label with probability 1 - e, else any other evenly
    T           common matrix,    rows  T[k] ~ Dirichlet(kappa O[k])
    M_a         the common matrix with the annotator's own error odds and preferred labels,
                M_a[k, j] = T[k, j] exp(theta_a [j != k] + beta_aj) / Z_ak
                theta_a ~ N(mu, tau^2), beta_aj ~ N(0, sigma^2)
    T_a         rows  T_a[k] ~ Dirichlet(s M_a[k])

A few votes tell how often an annotator errs and which labels they overuse (theta_a and beta_a,
pooled over the true classes); many tell the rest (T_a). kappa and s maximise the
Dirichlet-multinomial evidence of the counts; mu, tau^2 and sigma^2 are those of the population of
annotators. Only what was voted is stored: arrays (P, C) over the P pairs of an annotator with a
label they used, and (A, C), never (A, C, C).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import gammaln

from csot._core.array_types import Floats, Ints

STRENGTHS: Floats = 10.0 ** np.arange(0, 6.5, 0.5)
"""Prior votes per class among which the evidence chooses kappa and s."""
NEGLIGIBLE = 1e-6
"""Expected votes below which a cell is left out of the evidence: with many classes, most are."""
NEWTON_STEPS = 5
LEAST_VARIANCE = 0.1
"""Lower bound of tau^2 and sigma^2: annotators always differ, and EM is slow to reach zero."""


@dataclass(frozen=True, eq=False)
class Pairs:
    """The P pairs (annotator, label) that occur, and which pair each vote is."""

    annotator: Ints
    label: Ints
    of_sample: sparse.csr_array
    """(N, P): how often each sample was voted on by each pair."""
    n_annotators: int
    n_classes: int

    @staticmethod
    def of(sample: Ints, annotator: Ints, label: Ints, shape: tuple[int, int, int]) -> Pairs:
        """`shape` is (N, A, C)."""
        n_samples, n_annotators, n_classes = shape
        codes, pair = np.unique(annotator * n_classes + label, return_inverse=True)
        of_sample = sparse.coo_array(
            (np.ones(len(sample)), (sample, pair)), shape=(n_samples, len(codes))
        ).tocsr()
        return Pairs(codes // n_classes, codes % n_classes, of_sample, n_annotators, n_classes)

    def sum_annotators(self, values: Floats) -> Floats:
        """(P, C) -> (A, C)."""
        total = np.zeros((self.n_annotators, values.shape[1]))
        np.add.at(total, self.annotator, values)
        return total

    def sum_labels(self, values: Floats) -> Floats:
        """(P, C) over the true class -> (C, C), rows true, columns voted."""
        total = np.zeros((self.n_classes, values.shape[1]))
        np.add.at(total, self.label, values)
        return total.T


@dataclass(frozen=True, eq=False)
class Habits:
    """theta (A,) and beta (A, C), with the population they come from."""

    theta: Floats
    beta: Floats
    mean: float = 0.0
    """mu"""
    theta_variance: float = 1.0
    """tau^2"""
    beta_variance: float = 1.0
    """sigma^2"""

    @staticmethod
    def none(n_annotators: int, n_classes: int) -> Habits:
        """All annotators follow the common matrix."""
        return Habits(np.zeros(n_annotators), np.zeros((n_annotators, n_classes)))


class Strengths(NamedTuple):
    """Prior votes per class."""

    common: float
    """kappa"""
    own: float
    """s"""


@dataclass(frozen=True, eq=False)
class Confusions:
    """The matrices T_a, stored as the entries that the votes need."""

    common: Floats
    """T (C, C)."""
    habits: Habits
    strengths: Strengths
    counts: Floats
    """n_a[k, label] of each pair, (P, C)."""
    totals: Floats
    """sum_j n_a[k, j], (A, C)."""
    pairs: Pairs

    def log_matrices(self) -> Floats:
        """log T_a[k, label] of each pair, (P, C)."""
        s = self.strengths.own
        top = self.counts + s * pair_means(self.common, self.habits, self.pairs)
        logs: Floats = np.log(top) - np.log(self.totals + s)[self.pairs.annotator]
        return logs

    def right(self) -> Floats:
        """T_a[k, k], (A, C)."""
        own = np.zeros_like(self.totals)
        rows = np.arange(len(self.counts))
        own[self.pairs.annotator, self.pairs.label] = self.counts[rows, self.pairs.label]
        means = np.exp(self.habits.beta) * np.diag(self.common)
        means /= normalisers(self.common, self.habits)
        s = self.strengths.own
        right: Floats = (own + s * means) / (self.totals + s)
        return right

    def matrix(self, annotator: int) -> Floats:
        """T_a (C, C) of one annotator, as the posterior mean."""
        own = self.pairs.annotator == annotator
        counts = np.zeros_like(self.common)
        counts[:, self.pairs.label[own]] = self.counts[own].T
        logits = np.log(self.common) + self.habits.beta[annotator]
        logits += self.habits.theta[annotator] * (1 - np.eye(len(self.common)))
        mean = np.exp(logits - logits.max(1, keepdims=True))
        mean /= mean.sum(1, keepdims=True)
        s = self.strengths.own
        matrix: Floats = (counts + s * mean) / (counts.sum(1, keepdims=True) + s)
        return matrix


def normalisers(common: Floats, habits: Habits) -> Floats:
    """Z_ak = sum_j T[k, j] exp(theta_a [j != k] + beta_aj), (A, C)."""
    liked, odds = np.exp(habits.beta), np.exp(habits.theta)[:, None]
    z: Floats = odds * (liked @ common.T) + (1 - odds) * liked * np.diag(common)
    return z


def pair_means(common: Floats, habits: Habits, pairs: Pairs) -> Floats:
    """M_a[k, label] of each pair, (P, C)."""
    a, j = pairs.annotator, pairs.label
    logits = np.log(common.T)[j] + habits.theta[a, None] + habits.beta[a, j][:, None]
    logits[np.arange(len(j)), j] -= habits.theta[a]
    means: Floats = np.exp(logits - np.log(normalisers(common, habits))[a])
    return means


def estimate(
    counts: Floats, pairs: Pairs, habits: Habits, strengths: Strengths | None = None
) -> Confusions:
    """From expected counts (P, C); `habits` are those of the last estimate.

    Without `strengths` the evidence chooses them.
    """
    totals = pairs.sum_annotators(counts)
    kappa = None if strengths is None else strengths.common
    common, kappa = common_matrix(pairs.sum_labels(counts), kappa)
    habits = update_habits(counts, totals, common, pairs, habits)
    if strengths is None:
        means = pair_means(common, habits, pairs)
        strengths = Strengths(kappa, best_strength(counts, totals, means))
    return Confusions(common, habits, strengths, counts, totals, pairs)


def common_matrix(counts: Floats, kappa: float | None = None) -> tuple[Floats, float]:
    """T from counts (C, C), and the kappa that shrinks it; the right label stays the likeliest."""
    n_classes = len(counts)
    rows = counts.sum(1, keepdims=True)
    # Laplace's rule of succession: a rate is never exactly zero.
    rate = (counts.sum() - np.trace(counts) + 1) / (counts.sum() + 2)
    prior = np.full_like(counts, rate / (n_classes - 1))
    np.fill_diagonal(prior, 1 - rate)
    if kappa is None:
        kappa = best_strength(counts, rows, prior)
    matrix = (counts + kappa * prior) / (rows + kappa)
    # Without this, classes could swap names.
    matrix = np.minimum(matrix, np.diag(matrix)[:, None])
    return matrix / matrix.sum(1, keepdims=True), kappa


def update_habits(
    counts: Floats, totals: Floats, common: Floats, pairs: Pairs, habits: Habits
) -> Habits:
    """MAP theta and beta by Newton steps with a diagonal Hessian, then mu, tau^2 and sigma^2.

    Votes of annotator a on true class k are multinomial with probabilities M_a[k].
    """
    votes, right = np.zeros_like(totals), np.zeros_like(totals)
    where = (pairs.annotator, pairs.label)
    votes[where] = counts.sum(1)
    right[where] = counts[np.arange(len(counts)), pairs.label]
    errors = (totals - right).sum(1)
    theta, beta = habits.theta.copy(), habits.beta.copy()
    tight, loose = 1 / habits.theta_variance, 1 / habits.beta_variance
    for _ in range(NEWTON_STEPS):
        now = Habits(theta, beta)
        odds, share = np.exp(theta)[:, None], totals / normalisers(common, now)
        as_right = np.exp(beta) * share * np.diag(common)
        expected = odds * np.exp(beta) * (share @ common) + (1 - odds) * as_right
        correct = as_right / np.maximum(totals, 1e-300)
        theta_bend = (as_right * (1 - correct)).sum(1) + tight
        theta_slope = errors - (totals - as_right).sum(1) - tight * (theta - habits.mean)
        theta = theta + np.clip(theta_slope / theta_bend, -1.0, 1.0)
        beta_slope = votes - expected - loose * beta
        beta_bend = expected + loose
        beta = beta + np.clip(beta_slope / beta_bend, -1.0, 1.0)
    return Habits(
        theta,
        beta,
        float(theta.mean()),
        max(float(((theta - theta.mean()) ** 2 + 1 / theta_bend).mean()), LEAST_VARIANCE),
        max(float((beta**2 + 1 / beta_bend).mean()), LEAST_VARIANCE),
    )


def best_strength(counts: Floats, totals: Floats, means: Floats) -> float:
    """The s that maximises the evidence of counts whose probabilities are Dirichlet(s means).

    Cells without counts may be left out of `counts` and `means`; `totals` are whole rows'.
    """
    used = counts > NEGLIGIBLE
    means, counts = means[used], counts[used]
    evidence = [
        (gammaln(s) - gammaln(s + totals)).sum()
        + (gammaln(s * means + counts) - gammaln(s * means)).sum()
        for s in STRENGTHS
    ]
    return float(STRENGTHS[int(np.argmax(evidence))])
