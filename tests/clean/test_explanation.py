"""Overlap or wrong labels: the explanations against the oracle, and where data sets are placed."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from csot.clean import explanation as module
from csot.clean.correction import power_at
from csot.clean.explanation import (
    Explanation,
    Path,
    doubt_by_clusters,
    explain,
    find_explanation,
)
from csot.clean.likelihood import Evidence
from csot.clean.likelihood import posterior as plain_posterior
from csot.clean.overlap import Overlap
from csot.clean.verdicts import LEAST_CHANCE, flag_threshold
from helpers import drawn
from reference import explanation as reference
from reference.latent_truth import softmax

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Problem:
    """Probabilities (N, C), a noise matrix, and labels drawn by p(y | x) = sum_c p_c T[c, y]."""

    probs: Floats
    noise: Floats
    given: Integers
    verified: Integers

    @property
    def evidence(self) -> Evidence:
        labels = torch.from_numpy(self.given), torch.from_numpy(self.verified)
        return Evidence(*labels, self.probs.shape[1])

    @property
    def overlap(self) -> Overlap:
        """As if the clusters supported a third of the labels' overlap."""
        labels = float(1 - self.probs.max(1).mean())
        return Overlap(labels, labels / 3, labels / 3, trusted=True)

    def path(self) -> Path:
        tensors = torch.from_numpy(self.probs), torch.from_numpy(self.noise)
        return Path(tensors[0], self.evidence, tensors[1], self.overlap)

    def posterior(self, explanation: Explanation) -> Floats:
        found = explanation.posterior(torch.from_numpy(self.probs), self.evidence)
        return np.asarray(found)

    def explanation(self, power: float, guess: float) -> Explanation:
        return Explanation(1.0, power, guess, torch.from_numpy(self.noise))


def make_problem(n: int, c: int, seed: int, error: float = 0.2, missing: float = 0.1) -> Problem:
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n, c))
    logits[np.arange(n), rng.integers(0, c, n)] += 2.5
    probs = softmax(logits)
    noise = (1 - error) * np.eye(c) + error * rng.dirichlet(np.ones(c), c)
    labels = drawn(probs @ noise, rng)
    absent = rng.random(n) < missing
    return Problem(probs, noise, np.where(absent, -1, labels), np.full(n, -1))


def with_verified(problem: Problem, rows: Integers, truth: Integers) -> Problem:
    verified = problem.verified.copy()
    verified[rows] = truth[rows]
    return replace(problem, verified=verified)


def drawn_truth(problem: Problem, doubt: float, seed: int) -> Integers:
    """True classes drawn from the posterior of the explanation at a doubt."""
    rng = np.random.default_rng(seed)
    posteriors = problem.posterior(problem.path().at(doubt))
    return drawn(np.asarray(posteriors), rng)


def judge(problem: Problem, overlap: Overlap | None = None) -> module.ChosenExplanation:
    tensors = torch.from_numpy(problem.probs), torch.from_numpy(problem.noise)
    return explain(tensors[0], problem.evidence, tensors[1], overlap or problem.overlap)


# Equations ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("power", [1.0, 1.3, 4.0])
@pytest.mark.parametrize("guess", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("c", [2, 3, 7])
def test_the_posterior_is_the_oracles(c: int, power: float, guess: float) -> None:
    problem = make_problem(40, c, seed=c)
    problem = with_verified(problem, np.arange(0, 40, 7), problem.probs.argmin(1))
    expected = reference.posterior(
        problem.probs, problem.noise, problem.given, problem.verified, power, guess
    )
    found = problem.posterior(problem.explanation(power, guess))
    np.testing.assert_allclose(found, expected, atol=1e-12)
    truth = problem.explanation(power, guess).truth_probs(torch.from_numpy(problem.probs))
    expected = np.array([reference.sharpened(p, power) for p in problem.probs])
    np.testing.assert_allclose(truth, expected, atol=1e-12)


@given(
    c=st.integers(2, 8),
    seed=st.integers(0, 1000),
    power=st.floats(1.0, 8.0),
    guess=st.floats(0.0, 1.0),
)
@settings(max_examples=40)
def test_every_explanation_has_the_same_likelihood_of_the_labels(
    c: int, seed: int, power: float, guess: float
) -> None:
    """sum_k p*_k T_x[k, y] = sum_c p_c T[c, y], and T_x is a noise matrix."""
    problem = make_problem(6, c, seed)
    marginal = problem.probs @ problem.noise
    explanation = problem.explanation(power, guess)
    truth = explanation.truth_probs(torch.from_numpy(problem.probs)).numpy()
    # By Bayes the posterior holds T_x: p*_k T_x[k, y] = q_k(y) p(y | x).
    joint = np.stack(
        [
            problem_y.posterior(explanation) * marginal[:, y, None]
            for y in range(c)
            for problem_y in [replace(problem, given=np.full(6, y))]
        ],
        axis=2,
    )
    np.testing.assert_allclose(joint.sum(1), marginal, atol=1e-12)
    np.testing.assert_allclose(joint.sum(2), truth, atol=1e-12)
    for i, p in enumerate(problem.probs):
        noise = reference.noise_of_row(reference.coupling(p, power, guess), problem.noise)
        np.testing.assert_allclose(truth[i] @ noise, marginal[i], atol=1e-12)
        np.testing.assert_allclose(joint[i], truth[i, :, None] * noise, atol=1e-12)


@pytest.mark.parametrize("doubt", [0.0, 0.35, 0.8, 1.0, 1.5])
def test_a_position_on_the_path_is_the_oracles(doubt: float) -> None:
    problem = make_problem(300, 4, seed=1, error=0.1)
    overlap, path = problem.overlap, problem.path()
    labelled = problem.given >= 0
    probs, labels = problem.probs[labelled], problem.given[labelled]
    nothing = np.full(len(labels), -1)
    left = 1 - doubt + doubt * overlap.believable / overlap.labels
    bound = max(left, 0.0) * reference.mean_overlap(probs, 1.0)
    power = reference.power_for(probs, bound, module.LARGEST_POWER)
    found = path.at(doubt)
    assert found.power == pytest.approx(power, abs=1e-3)
    own = reference.posterior(probs, problem.noise, labels, nothing, 1.0, 0.0)
    class_noise = reference.noise_rate(own, labels)
    assert path.class_noise == pytest.approx(class_noise, abs=1e-12)
    share = min(1.0, 3 * reference.excess_overlap(probs, found.power) / class_noise)
    assert found.guess == pytest.approx(min(doubt**2, 1.0) * share, abs=1e-12)
    rate = reference.noise_rate(
        reference.posterior(probs, problem.noise, labels, nothing, found.power, found.guess), labels
    )
    assert path.noise_rate(found) == pytest.approx(rate, abs=1e-10)
    assert path.guessing_rate() == pytest.approx(reference.noise_rate(probs, labels), abs=1e-12)


@pytest.mark.parametrize("verified", [0, 40])
@pytest.mark.parametrize("c", [2, 5])
def test_the_rows_worth_a_look_are_the_oracles(c: int, verified: int) -> None:
    problem = make_problem(200, c, seed=3 + c, missing=0.0)
    problem = with_verified(problem, np.arange(verified), drawn_truth(problem, 0.7, seed=0))
    judgement = judge(problem)
    weights = np.array([weight for weight, _ in judgement.possible])
    assert weights.sum() == pytest.approx(1.0)
    given, nothing = problem.given, np.full(200, -1)
    factors = np.asarray(judgement.explanation.factors)

    def wrong(explanation: Explanation) -> Floats:
        found = (explanation.power, explanation.guess)
        truth = reference.posterior(problem.probs, problem.noise, given, nothing, *found) * factors
        return 1 - truth[np.arange(200), given] / truth.sum(1)

    chosen = wrong(judgement.explanation)
    possible = np.array([wrong(explanation) for _, explanation in judgement.possible])
    expected = reference.flagged_rows(chosen, possible, weights / weights.sum(), LEAST_CHANCE)
    threshold = flag_threshold(judgement, torch.from_numpy(problem.probs), problem.evidence)
    assert 0 < len(expected) < 200
    assert set(np.flatnonzero(chosen >= threshold - 1e-12).tolist()) == expected


def test_nothing_is_worth_a_look_where_no_label_is_likely_wrong() -> None:
    problem = make_problem(100, 3, seed=0, error=0.0, missing=0.0)
    sure = replace(problem, probs=np.eye(3)[problem.given] * 0.99 + 0.01 / 3)
    judgement = judge(sure)
    assert flag_threshold(judgement, torch.from_numpy(sure.probs), sure.evidence) == 1.0


def test_labels_are_scored_by_the_explanation_and_changed_by_the_correction() -> None:
    problem = make_problem(1000, 4, seed=2, error=0.02, missing=0.1)
    judgement = judge(problem)
    probs = torch.from_numpy(problem.probs)
    judged = judgement.judge(probs, problem.evidence)
    changes = judgement.correction.posterior(probs, problem.evidence)
    np.testing.assert_array_equal(judged.corrected, changes.argmax(1))
    np.testing.assert_array_equal(judged.correction_confidence, changes.amax(1))
    np.testing.assert_array_equal(judged.posterior, problem.posterior(judgement.explanation))
    # The position alone, as members are told it, is the same one.
    tensors = probs, problem.evidence, torch.from_numpy(problem.noise), problem.overlap
    alone = find_explanation(*tensors)
    assert (alone.doubt, alone.power) == (judgement.explanation.doubt, judgement.explanation.power)


def test_labels_are_changed_with_more_caution_than_they_are_scored() -> None:
    problem = make_problem(1000, 4, seed=2, error=0.02, missing=0.1)
    labels = problem.overlap.labels
    judgement = judge(problem, Overlap(labels, 0.7 * labels, 0.7 * labels, trusted=True))
    assert judgement.explanation.doubt > module.LEAST_DOUBT
    assert judgement.correction.power < power_at(judgement.explanation.doubt)


@pytest.mark.parametrize("trusted", [True, False])
def test_a_known_class_prior_is_met(trusted: bool) -> None:
    problem = make_problem(2000, 3, seed=1, missing=0.0)
    prior = torch.tensor([0.5, 0.3, 0.2])
    tensors = torch.from_numpy(problem.probs), torch.from_numpy(problem.noise)
    overlap = replace(problem.overlap, trusted=trusted)
    judgement = explain(tensors[0], problem.evidence, tensors[1], overlap, class_prior=prior)
    for found in (judgement.explanation, judgement.correction):
        shares = found.posterior(tensors[0], problem.evidence).mean(0)
        np.testing.assert_allclose(shares, prior, atol=1e-5)


def test_a_known_class_prior_is_met_although_all_verified_rows_are_of_one_class(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MAX_FIT_ROWS", 1000)
    problem = make_problem(6000, 3, seed=1, missing=0.0)
    rows = np.flatnonzero(problem.probs.argmax(1) == 0)[:500]
    problem = with_verified(problem, rows, np.zeros(6000, dtype=np.int64))
    prior = torch.tensor([0.5, 0.3, 0.2])
    tensors = torch.from_numpy(problem.probs), torch.from_numpy(problem.noise)
    judgement = explain(
        tensors[0], problem.evidence, tensors[1], problem.overlap, class_prior=prior
    )
    for found in (judgement.explanation, judgement.correction):
        shares = found.posterior(tensors[0], problem.evidence).mean(0)
        np.testing.assert_allclose(shares, prior, atol=0.03)


@pytest.mark.parametrize("doubt", [0.0, 0.5, 1.0])
def test_rows_are_judged_alike_in_parts(doubt: float, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = make_problem(500, 4, seed=2)
    judgement = replace(judge(problem), explanation=problem.path().at(doubt))
    probs = torch.from_numpy(problem.probs)
    whole = judgement.judge(probs, problem.evidence)
    monkeypatch.setattr(module, "ROWS_AT_A_TIME", 64)
    parts = judgement.judge(probs, problem.evidence)
    np.testing.assert_array_equal(parts.corrected, whole.corrected)
    np.testing.assert_allclose(parts.posterior, whole.posterior, atol=1e-12)
    np.testing.assert_allclose(parts.correction_confidence, whole.correction_confidence)
    np.testing.assert_allclose(parts.shares, whole.shares)


def test_where_the_features_say_nothing_the_labels_are_believed() -> None:
    problem = make_problem(200, 3, seed=0, missing=0.0)
    judgement = judge(problem).believing_labels(torch.eye(3))
    impossible = np.eye(3)[(problem.given + 1) % 3]
    probs = np.where(np.arange(200)[:, None] % 2, problem.probs, impossible)
    judged = judgement.judge(torch.from_numpy(probs), problem.evidence)
    np.testing.assert_array_equal(judged.corrected, problem.given)
    np.testing.assert_array_equal(judged.posterior, np.eye(3)[problem.given])


def test_a_tie_does_not_change_a_label() -> None:
    problem = make_problem(50, 4, seed=0, missing=0.1)
    judgement = judge(problem).believing_labels(torch.full((4, 4), 0.25))
    judged = judgement.judge(torch.full((50, 4), 0.25), problem.evidence)
    expected = np.where(problem.given >= 0, problem.given, 0)
    np.testing.assert_array_equal(judged.corrected, expected)


# Invariances --------------------------------------------------------------------------------------


@given(c=st.integers(2, 8), seed=st.integers(0, 500), power=st.floats(1, 8), guess=st.floats(0, 1))
@settings(max_examples=40)
def test_rows_and_classes_can_be_permuted(c: int, seed: int, power: float, guess: float) -> None:
    problem = make_problem(12, c, seed)
    problem = with_verified(problem, np.array([0, 5]), problem.probs.argmin(1))
    rng = np.random.default_rng(seed)
    rows, classes = rng.permutation(12), rng.permutation(c)
    renamed = np.append(np.argsort(classes), -1)
    other = Problem(
        problem.probs[rows][:, classes],
        problem.noise[classes][:, classes],
        renamed[problem.given[rows]],
        renamed[problem.verified[rows]],
    )
    found = problem.posterior(problem.explanation(power, guess))
    moved = other.posterior(other.explanation(power, guess))
    np.testing.assert_allclose(moved, found[rows][:, classes], atol=1e-12)


@given(c=st.integers(2, 8), seed=st.integers(0, 500))
@settings(max_examples=30)
def test_without_doubt_the_posterior_is_the_plain_one(c: int, seed: int) -> None:
    problem = make_problem(20, c, seed)
    at_zero = problem.path().at(0.0)
    assert (at_zero.power, at_zero.guess) == (1.0, 0.0)
    likelihood = problem.evidence.likelihood(torch.from_numpy(problem.noise))
    expected, _ = plain_posterior(torch.from_numpy(problem.probs), likelihood)
    np.testing.assert_allclose(problem.posterior(at_zero), expected, atol=1e-15)


@pytest.mark.parametrize("error", [0.0, 0.1, 0.4])
@pytest.mark.parametrize("c", [2, 4, 10])
def test_more_doubt_means_more_wrong_labels(c: int, error: float) -> None:
    path = make_problem(2000, c, seed=0, error=error).path()
    explanations = [path.at(doubt) for doubt in np.linspace(0, 1.5, 16)]
    rates = np.array([path.noise_rate(explanation) for explanation in explanations])
    # Beyond 1 nothing but the power grows: the truth is surer, and labels agree with it or not.
    assert (np.diff(rates[:11]) > 0).all()
    assert (np.abs(np.diff(rates[10:])) < 0.01).all()
    powers = np.array([explanation.power for explanation in explanations])
    assert (np.diff(powers) >= 0).all()


@given(
    labels=st.lists(st.floats(0.0, 0.9), min_size=2, max_size=2).map(sorted),
    assignment=st.floats(0.0, 0.9),
    class_noise=st.lists(st.floats(0.0, 0.9), min_size=2, max_size=2).map(sorted),
    rows=st.lists(st.integers(10, 100_000), min_size=2, max_size=2).map(sorted),
)
def test_doubt_grows_with_the_overlap_that_nothing_else_explains(
    labels: list[float], assignment: float, class_noise: list[float], rows: list[int]
) -> None:
    def doubt(overlap: float, noise: float, n: int) -> float:
        return doubt_by_clusters(Overlap(overlap, assignment, assignment, True), noise, n)

    found = doubt(labels[0], class_noise[0], rows[0])
    assert module.LEAST_DOUBT <= found <= 1.0
    if labels[1] <= 0.5 and rows[0] >= 100:
        assert doubt(labels[1], class_noise[0], rows[0]) >= found - 1e-12
    assert doubt(labels[0], class_noise[1], rows[0]) <= found + 1e-12
    assert doubt(labels[0], class_noise[0], rows[1]) >= found - 1e-12
    untrusted = Overlap(labels[0], assignment, assignment, trusted=False)
    assert doubt_by_clusters(untrusted, class_noise[0], rows[0]) == module.LEAST_DOUBT


# Posteriors are distributions ---------------------------------------------------------------------


@pytest.mark.parametrize("c", [2, 3, 20, 200])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", ["ordinary", "certain", "nearly certain", "even"])
def test_posteriors_are_distributions(c: int, dtype: torch.dtype, kind: str) -> None:
    problem = make_problem(60, c, seed=c)
    best = np.eye(c)[problem.probs.argmax(1)]
    probs = {
        "ordinary": problem.probs,
        "certain": best,
        "nearly certain": (1 - 1e-13) * best + 1e-13 * problem.probs,
        "even": np.full((60, c), 1 / c),
    }[kind]
    problem = with_verified(problem, np.arange(0, 60, 9), (problem.given + 1) % c)
    given_probs = torch.from_numpy(probs).to(dtype)
    locked, absent = problem.verified >= 0, (problem.given < 0) & (problem.verified < 0)
    for noise in (problem.noise, np.eye(c), (1 - 1e-12) * np.eye(c) + 1e-12 / c):
        for power, guess in ((1.0, 0.0), (1.5, 0.3), (8.0, 0.0), (8.0, 1.0)):
            explanation = Explanation(1.0, power, guess, torch.from_numpy(noise))
            found = explanation.posterior(given_probs, problem.evidence).numpy()
            assert (found >= 0).all()
            np.testing.assert_allclose(found.sum(1), 1.0, atol=1e-12)
            np.testing.assert_array_equal(found[locked], np.eye(c)[problem.verified[locked]])
            expected = explanation.truth_probs(given_probs).double().numpy()[absent]
            np.testing.assert_allclose(found[absent], expected, atol=1e-6)


@pytest.mark.parametrize("c", [2, 3, 20, 200])
@pytest.mark.parametrize("n", [1, 2, 50])
def test_small_and_certain_data_get_a_judgement(c: int, n: int) -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, c, n)
    for probs in (np.eye(c)[labels], np.eye(c)[(labels + 1) % c], np.full((n, c), 1 / c)):
        for verified in (np.full(n, -1), labels):
            problem = Problem(probs, np.full((c, c), 0.1 / c) + 0.9 * np.eye(c), labels, verified)
            judgement = judge(problem)
            assert np.isfinite(problem.posterior(judgement.explanation)).all()
            low, high = judgement.noise_rate_interval
            assert 0 <= low <= high <= 1


def test_rows_without_any_label_get_the_truth_of_the_predictions() -> None:
    problem = make_problem(30, 3, seed=0)
    problem = replace(problem, given=np.full(30, -1))
    explanation = judge(problem).explanation
    truth = explanation.truth_probs(torch.from_numpy(problem.probs))
    np.testing.assert_allclose(problem.posterior(explanation), truth, atol=1e-12)


# Placing a data set -------------------------------------------------------------------------------


@pytest.mark.parametrize("trusted", [True, False])
@pytest.mark.parametrize("error", [0.0, 0.3])
def test_the_interval_contains_the_rate(trusted: bool, error: float) -> None:
    problem = make_problem(600, 4, seed=3, error=error)
    judgement = judge(problem, replace(problem.overlap, trusted=trusted))
    path = problem.path()
    low, high = judgement.noise_rate_interval
    assert low <= path.noise_rate(judgement.explanation) <= high
    assert low <= path.noise_rate(path.at(0.0)) <= high
    assert judgement.overlap.trusted == trusted
    if not trusted:
        least = module.least_doubt_of_scores(problem.overlap, path.class_noise)
        assert judgement.explanation.doubt == least


def test_the_least_doubt_is_what_the_noise_matrix_does_not_explain() -> None:
    overlap = replace(make_problem(600, 4, seed=3).overlap, labels=0.2)
    doubts = [module.least_doubt_of_scores(overlap, noise) for noise in (0.0, 0.14, 0.28, 0.7)]
    assert doubts == pytest.approx([0.35, 0.35, 0.175, 0.07])
    assert module.least_doubt_of_scores(overlap, 0.14, absorbed=1.0) == pytest.approx(0.175)
    for noise, doubt in zip((0.0, 0.28), (doubts[0], doubts[2]), strict=True):
        arguments = replace(overlap, trusted=False), noise, 600, module.ABSORBED
        assert module.doubt_by_clusters(*arguments, module.SCORE_CAUTION, doubt) == doubt
        assert module.doubt_by_clusters(*arguments) == module.LEAST_DOUBT


def test_a_noise_matrix_with_hardly_any_noise_does_not_exclude_zero() -> None:
    problem = make_problem(50_000, 4, seed=0, error=5e-4)
    low, high = judge(problem).noise_rate_interval
    assert low == 0.0
    assert high > 0.0


@pytest.mark.parametrize("doubt", [0.0, 0.5, 1.0])
def test_verified_rows_narrow_the_interval_around_the_truth(doubt: float) -> None:
    problem = make_problem(3000, 4, seed=5, error=0.05, missing=0.0)
    truth = drawn_truth(problem, doubt, seed=1)
    rows = np.random.default_rng(0).permutation(3000)
    widths = []
    for count in (0, 100, 1000):
        told = with_verified(problem, rows[:count], truth)
        judgement = judge(told)
        low, high = judgement.noise_rate_interval
        assert low <= (truth != problem.given).mean() <= high
        assert low <= problem.path().noise_rate(judgement.explanation) <= high
        widths.append(high - low)
    assert widths[0] > widths[1] > widths[2]


@pytest.mark.parametrize("order", ["random", "worst first"])
@pytest.mark.parametrize("doubt", [0.0, 0.7])
def test_few_verified_rows_do_not_make_the_rate_vaguer(doubt: float, order: str) -> None:
    widths, covered = [], []
    for seed in range(10):
        problem = make_problem(300, 4, seed, error=0.05, missing=0.0)
        truth = drawn_truth(problem, doubt, seed)
        rows = np.random.default_rng(seed).permutation(300)
        if order == "worst first":
            rows = problem.probs[np.arange(300), problem.given].argsort()
        for count in (0, 10, 25, 50):
            low, high = judge(with_verified(problem, rows[:count], truth)).noise_rate_interval
            widths.append(high - low)
            covered.append(low <= (truth != problem.given).mean() <= high)
    by_count = np.reshape(widths, (10, 4)).mean(0)
    assert (by_count[1:] < 1.1 * by_count[0]).all()
    assert np.mean(covered) > 0.9


@pytest.mark.parametrize("doubt", [0.0, 0.3, 0.7, 1.0])
def test_verified_rows_find_the_doubt_that_labels_were_drawn_with(doubt: float) -> None:
    blind, told = [], []
    for seed in range(8):
        problem = make_problem(1000, 4, seed, error=0.05, missing=0.0)
        truth = drawn_truth(problem, doubt, seed)
        blind.append(judge(problem).explanation.doubt)
        rows = np.random.default_rng(seed).permutation(1000)[:200]
        told.append(judge(with_verified(problem, rows, truth)).explanation.doubt)
    before, after = abs(np.mean(blind) - doubt), abs(np.mean(told) - doubt)
    assert after < 0.2
    assert after < before or before < 0.1


@pytest.mark.parametrize("c", [2, 5])
def test_verified_rows_overrule_clusters_that_support_all_of_the_overlap(c: int) -> None:
    problem = make_problem(1000, c, seed=0, error=0.02, missing=0.0)
    labels = problem.overlap.labels
    believed = Overlap(labels, labels, labels, trusted=True)
    predicted = problem.probs.argmax(1)
    differs = np.flatnonzero(predicted != problem.given)[:60]
    told = judge(with_verified(problem, differs, predicted), believed).explanation
    assert told.doubt >= 1.0
    rest = np.setdiff1d(np.flatnonzero(predicted != problem.given), differs)
    changed = problem.posterior(told)[rest].argmax(1) == predicted[rest]
    assert changed.mean() > 0.9
    kept = judge(with_verified(problem, differs, problem.given), believed).explanation
    assert kept.doubt < module.LEAST_DOUBT


def test_a_verified_label_that_looks_impossible_does_not_decide_alone() -> None:
    problem = make_problem(500, 3, seed=0, missing=0.0)
    before = judge(problem).explanation.doubt
    truth = problem.probs.argmin(1)
    after = judge(with_verified(problem, np.array([0]), truth)).explanation.doubt
    assert abs(after - before) < module.PRIOR_DEVIATION


def test_a_sample_of_many_rows_places_them_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = make_problem(4000, 3, seed=0)
    whole = problem.path().at(0.8)
    monkeypatch.setattr(module, "PATH_ROWS", 1000)
    sampled = problem.path().at(0.8)
    assert sampled.power == pytest.approx(whole.power, abs=0.15)
    assert sampled.guess == pytest.approx(whole.guess, abs=0.1)
