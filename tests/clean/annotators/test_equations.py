"""The parts of the model, and where EM ends, against the slow oracle."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from crowds import make_crowd
from csot.clean.annotators import confusions as fast
from csot.clean.annotators import expectation_maximisation as model
from csot.clean.annotators.confusions import Habits, Pairs
from csot.clean.annotators.votes import Votes, encode_votes
from reference import several_annotators as oracle

CLASSES = 3
SKILLS = (0.9, 0.7, 0.5, 0.4)
TIGHT = 1e-9
OPTIMUM = 1e-4
"""How near two optimisers, one of which takes a few steps per round, have to come."""


def small(n: int = 40, seed: int = 0) -> tuple[Votes, np.ndarray, Pairs, list[oracle.Vote]]:
    crowd = make_crowd(n, CLASSES, SKILLS, share=0.7, seed=seed)
    votes = encode_votes(crowd.votes)
    pairs = Pairs.of(votes.sample, votes.annotator, votes.label, (n, len(SKILLS), CLASSES))
    triples = list(zip(votes.sample, votes.annotator, votes.label, strict=True))
    return votes, crowd.probs, pairs, [(int(i), int(a), int(j)) for i, a, j in triples]


def dense(values: np.ndarray, pairs: Pairs) -> np.ndarray:
    """(P, C) -> (A, C, C), zero for pairs that do not occur."""
    full = np.zeros((pairs.n_annotators, pairs.n_classes, pairs.n_classes))
    full[pairs.annotator, :, pairs.label] = values
    return full


def random_habits(rng: np.random.Generator) -> Habits:
    return Habits(rng.normal(size=len(SKILLS)), rng.normal(size=(len(SKILLS), CLASSES)))


@pytest.mark.parametrize("seed", range(3))
def test_counts_and_common_matrix(seed: int) -> None:
    votes, probs, pairs, triples = small(seed=seed)
    counts = pairs.of_sample.T @ probs
    expected = oracle.expected_counts(probs, triples, len(SKILLS))
    np.testing.assert_allclose(dense(counts, pairs), expected, atol=TIGHT)
    np.testing.assert_allclose(pairs.sum_labels(counts), expected.sum(0), atol=TIGHT)
    np.testing.assert_allclose(pairs.sum_annotators(counts), expected.sum(2), atol=TIGHT)
    found, _ = fast.common_matrix(expected.sum(0))
    np.testing.assert_allclose(found, oracle.common_matrix(expected.sum(0)), atol=TIGHT)
    assert len(votes) == len(triples)


def test_matrices_of_habits() -> None:
    rng = np.random.default_rng(0)
    _, probs, pairs, _ = small()
    habits, common = random_habits(rng), rng.dirichlet(np.ones(CLASSES), CLASSES)
    expected = np.array(
        [
            oracle.habit_matrix(common, float(habits.theta[a]), habits.beta[a])
            for a in range(len(SKILLS))
        ]
    )
    found = dense(fast.pair_means(common, habits, pairs), pairs)
    np.testing.assert_allclose(found[found > 0], expected[found > 0], atol=TIGHT)
    counts = pairs.of_sample.T @ probs
    totals = pairs.sum_annotators(counts)
    means = fast.pair_means(common, habits, pairs)
    strength = fast.best_strength(counts, totals, means)
    assert strength == pytest.approx(oracle.own_strength(dense(counts, pairs), expected), rel=TIGHT)
    made = fast.Confusions(common, habits, fast.Strengths(1.0, 30.0), counts, totals, pairs)
    n = dense(counts, pairs)
    matrices = (n + 30 * expected) / (n.sum(2, keepdims=True) + 30)
    for a in range(len(SKILLS)):
        np.testing.assert_allclose(made.matrix(a), matrices[a], atol=TIGHT)
        np.testing.assert_allclose(made.right()[a], np.diag(matrices[a]), atol=TIGHT)
    logs = dense(made.log_matrices(), pairs)
    used = logs != 0
    np.testing.assert_allclose(logs[used], np.log(matrices)[used], atol=TIGHT)


def test_habits_are_at_their_optimum() -> None:
    _, probs, pairs, _ = small(200)
    counts = pairs.of_sample.T @ probs
    totals = pairs.sum_annotators(counts)
    common, _ = fast.common_matrix(pairs.sum_labels(counts))
    start = Habits.none(len(SKILLS), CLASSES)
    habits = start
    for _ in range(60):
        found = fast.update_habits(counts, totals, common, pairs, habits)
        habits = replace(start, theta=found.theta, beta=found.beta)
    for a in range(len(SKILLS)):
        theta, beta = oracle.habits(dense(counts, pairs)[a], common, 0.0, (1.0, 1.0))
        assert habits.theta[a] == pytest.approx(theta, abs=OPTIMUM)
        np.testing.assert_allclose(habits.beta[a], beta, atol=OPTIMUM)


@pytest.mark.parametrize("with_probs", [True, False])
def test_em_ends_where_the_equations_hold(
    with_probs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the end, each part is what the oracle makes of the others."""
    monkeypatch.setattr(model, "TOLERANCE", 1e-9)
    monkeypatch.setattr(model, "MAX_ROUNDS", 5000)
    votes, probs, pairs, triples = small(150)
    verified = np.full(150, -1)
    verified[:5] = [0, 1, 2, 0, 1]
    fit = model.fit(pairs, votes.counts(), np.log(probs) if with_probs else None, verified)
    assert fit.converged
    q, found, habits = fit.posterior, fit.confusions, fit.confusions.habits
    weights = np.exp(fit.prior.log_weights)
    pi = oracle.prior(probs if with_probs else np.ones_like(probs), fit.prior.sharpness, weights)
    counts = oracle.expected_counts(q, triples, len(SKILLS))
    one_rate = (counts.sum() - counts.trace(axis1=1, axis2=2).sum() + 1) / (counts.sum() + 2)
    assert 0 < one_rate < 1
    matrices = []
    for a in range(len(SKILLS)):
        spread = (habits.theta_variance, habits.beta_variance)
        theta, beta = oracle.habits(counts[a], found.common, habits.mean, spread)
        assert habits.theta[a] == pytest.approx(theta, abs=OPTIMUM)
        np.testing.assert_allclose(habits.beta[a], beta, atol=OPTIMUM)
        mean = oracle.habit_matrix(found.common, theta, beta)
        s = found.strengths.own
        matrices.append((counts[a] + s * mean) / (counts[a].sum(1, keepdims=True) + s))
    expected = oracle.posterior(pi, triples, np.array(matrices), verified.tolist())
    np.testing.assert_allclose(q, expected, atol=OPTIMUM)
    if with_probs:
        g, w = oracle.calibrate(q, probs, model.PRIOR_WEIGHT)
        assert fit.prior.sharpness == pytest.approx(g, abs=1e-3)
        np.testing.assert_allclose(pi, oracle.prior(probs, g, w), atol=1e-3)
    else:
        np.testing.assert_allclose(pi[0], (q.mean(0) + 1 / 150) / (1 + 3 / 150), atol=OPTIMUM)
