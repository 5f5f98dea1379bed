"""The latent-truth model against slow float64 oracles written from its equations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest
import torch

from csot.clean import noise_matrix, stacking
from csot.clean.features import Basis
from csot.clean.folds import Folds
from csot.clean.likelihood import Evidence, posterior
from csot.clean.members.probe import fit_probes, held_out_logits, logit_gradient, no_weights
from csot.clean.members.small_network import DROPOUT, _gradients, fit_networks
from csot.clean.stacking import PRIOR_STRENGTH, calibrate, held_out_loss, information, stack
from helpers import drawn
from reference import latent_truth as reference

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Problem:
    """Blobs with noisy, some missing and some verified labels."""

    features: Floats
    truth: Integers
    given: Integers
    verified: Integers
    noise: Floats

    @property
    def evidence(self) -> Evidence:
        return Evidence(
            torch.from_numpy(self.given), torch.from_numpy(self.verified), len(self.noise)
        )

    @property
    def known(self) -> Floats:
        return reference.likelihood(self.given, self.verified, self.noise)


def make_problem(n: int = 240, c: int = 4, dim: int = 6, seed: int = 0) -> Problem:
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, c, n)
    noise = 0.6 * np.eye(c) + 0.4 * rng.dirichlet(np.ones(c), c)
    given = drawn(noise[truth], rng)
    given[rng.random(n) < 0.1] = -1
    verified = np.where(rng.random(n) < 0.1, truth, -1)
    features = 1.5 * rng.normal(size=(c, dim))[truth] + rng.normal(size=(n, dim))
    return Problem(features, truth, given, verified, noise)


def some_probs(problem: Problem, seed: int = 1) -> Floats:
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(len(problem.truth), len(problem.noise)))
    logits[np.arange(len(logits)), problem.truth] += 2
    return reference.softmax(logits)


def as_float32(array: Floats) -> torch.Tensor:
    return torch.from_numpy(array).float()


# Evidence -----------------------------------------------------------------------------------------


def test_likelihood_and_posterior_are_bayes() -> None:
    problem = make_problem()
    probs = some_probs(problem)
    known = problem.evidence.likelihood(torch.from_numpy(problem.noise))
    np.testing.assert_array_equal(known, problem.known)
    truth, marginal = posterior(torch.from_numpy(probs), known)
    np.testing.assert_allclose(truth, reference.posterior(probs, problem.known), atol=1e-14)
    expected = reference.log_likelihood(probs, problem.known)
    np.testing.assert_allclose(marginal.log(), expected, atol=1e-12)
    unknown = (problem.given < 0) & (problem.verified < 0)
    np.testing.assert_allclose(truth[unknown], probs[unknown], atol=1e-14)


def test_counts_are_those_of_the_posterior() -> None:
    problem = make_problem()
    truth = reference.posterior(some_probs(problem), problem.known)
    counts = problem.evidence.counts(torch.from_numpy(truth))
    np.testing.assert_allclose(counts, reference.counts(truth, problem.given), atol=1e-12)
    assert float(counts.sum()) == pytest.approx((problem.given >= 0).sum())


@pytest.mark.parametrize("n_folds", [None, 3])
def test_logit_gradient_is_the_finite_difference(n_folds: int | None) -> None:
    problem = make_problem(n=12)
    middle = () if n_folds is None else (n_folds,)
    logits = np.random.default_rng(2).normal(size=(*middle, 4, 12))

    def loss(at: Floats) -> float:
        probs = reference.softmax(np.swapaxes(at, -1, -2))
        return float(-reference.log_likelihood(probs, problem.known).sum())

    losses, slopes = logit_gradient(
        torch.from_numpy(logits.copy()), torch.from_numpy(problem.known)
    )
    assert float(losses.sum()) == pytest.approx(loss(logits), abs=1e-12)
    np.testing.assert_allclose(slopes, reference.finite_differences(loss, logits), atol=1e-8)


# The noise matrix ---------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_the_order_restricted_row_is_the_optimum(seed: int) -> None:
    rng = np.random.default_rng(seed)
    c = int(rng.integers(2, 7))
    free = rng.dirichlet(np.full(c, 0.8), c) + 1e-3
    free /= free.sum(1, keepdims=True)
    found = noise_matrix.keep_diagonal_largest(torch.from_numpy(free)).numpy()
    expected = np.array([reference.restricted_row(row, k) for k, row in enumerate(free)])
    np.testing.assert_allclose(found, expected, atol=2e-5)
    np.testing.assert_allclose(found.sum(1), 1.0)
    assert (np.diag(found) >= found.max(1) - 1e-12).all()
    untouched = np.diag(free) >= free.max(1)
    np.testing.assert_array_equal(found[untouched], free[untouched])


@pytest.mark.parametrize("strength", [None, 1.0, 100.0])
def test_from_counts_shrinks_as_the_evidence_says(strength: float | None) -> None:
    n = np.array([[80.0, 5, 0], [2, 40, 1], [9, 0, 30]])
    kappa = reference.strength_by_evidence(n) if strength is None else strength
    expected = n + kappa * reference.prior_mean(n)
    expected /= expected.sum(1, keepdims=True)
    found = noise_matrix.from_counts(torch.from_numpy(n), strength)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_a_class_without_rows_gets_the_common_rate() -> None:
    n = torch.tensor([[90.0, 10, 0], [10, 90, 0], [0, 0, 0]])
    found = noise_matrix.from_counts(n)
    assert float(found[2, 2]) == pytest.approx(1 - 21 / 202, abs=1e-3)
    assert float(found[2, 0]) == pytest.approx(float(found[2, 1]))


@pytest.mark.parametrize("strength", [None, 1.0])
def test_em_is_the_oracles(strength: float | None) -> None:
    problem = make_problem()
    nobody = Evidence.of_labels(torch.from_numpy(problem.given), 4)
    probs = some_probs(problem)
    guess = noise_matrix.first_guess(4)
    found = noise_matrix.estimate(
        torch.from_numpy(probs), nobody, guess.double(), rounds=7, strength=strength, tolerance=0
    )
    expected = reference.noise_by_em(probs, problem.given, guess.double().numpy(), strength, 7)
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("strength", [None, 1.0, 30.0])
@pytest.mark.parametrize("seed", range(3))
def test_no_em_step_lowers_the_penalised_likelihood(strength: float | None, seed: int) -> None:
    problem = make_problem(seed=seed)
    labelled = problem.given >= 0
    given = problem.given[labelled]
    probs = some_probs(problem)[labelled]
    evidence = Evidence.of_labels(torch.from_numpy(given), 4)
    nobody = np.full(len(given), -1)
    noise = noise_matrix.first_guess(4).double()
    for _ in range(15):
        before = noise.numpy()
        truth = reference.posterior(probs, reference.likelihood(given, nobody, before))
        n = reference.counts(truth, given)
        kappa = reference.strength_by_evidence(n) if strength is None else strength
        noise = noise_matrix.estimate(
            torch.from_numpy(probs), evidence, noise, rounds=1, strength=strength
        ).double()
        # An empirical prior follows the counts; a step ascends under the prior it was taken with.
        scores = [
            reference.penalised_log_likelihood(probs, given, t, kappa, reference.prior_mean(n))
            for t in (before, noise.numpy())
        ]
        assert scores[1] >= scores[0] - 1e-3


def test_em_finds_the_noise_that_was_put_in() -> None:
    problem = make_problem(n=20_000, seed=5)
    nobody = Evidence.of_labels(torch.from_numpy(problem.given), 4)
    # Calibrated probabilities: one-hot truths, blurred as if one in ten were wrong.
    rng = np.random.default_rng(0)
    seen = np.where(rng.random(20_000) < 0.1, rng.integers(0, 4, 20_000), problem.truth)
    probs = torch.from_numpy(0.9 * np.eye(4)[seen] + 0.025)
    found = noise_matrix.estimate(probs, nobody, noise_matrix.first_guess(4), rounds=200)
    np.testing.assert_allclose(found, problem.noise, atol=0.02)


# Probes -------------------------------------------------------------------------------------------


def test_surest_rows_have_the_noise_by_class() -> None:
    """Pair noise everywhere, and mistakes at hard rows, which the surest rows do not have."""
    rng = np.random.default_rng(0)
    truth, n = rng.integers(0, 4, 8_000), 8_000
    hardness = rng.random(n)
    given = np.where(rng.random(n) < 0.25, (truth + 1) % 4, truth)
    guessed = rng.random(n) < hardness**4
    given = np.where(guessed, rng.integers(0, 4, n), given)
    sure = (1 - hardness[:, None]) * np.eye(4)[truth] * 0.7 + 0.3 / 4 + 1e-6
    probs = torch.from_numpy(sure / sure.sum(1, keepdims=True)).float()
    evidence = Evidence.of_labels(torch.from_numpy(given), 4)
    found = noise_matrix.of_surest_rows(probs, evidence)
    np.testing.assert_allclose(found, 0.75 * np.eye(4) + 0.25 * np.roll(np.eye(4), 1, 1), atol=0.05)
    half, quarter = (
        noise_matrix.from_counts(
            torch.from_numpy(reference.surest_counts(probs.numpy(), given, share))
        )
        for share in (0.5, 0.25)
    )
    others = ~torch.eye(4, dtype=torch.bool)
    expected = (2 * quarter - half).clamp_min(1e-4)[others]
    np.testing.assert_allclose(found[others], expected, atol=1e-6)
    permuted = torch.from_numpy(rng.permutation(n))
    again = noise_matrix.of_surest_rows(probs[permuted], evidence.take(permuted))
    np.testing.assert_allclose(again, found, atol=0.02)  # ties are broken by order


def test_deconvolution_undoes_the_noise() -> None:
    rng = np.random.default_rng(1)
    noise = 0.7 * np.eye(5) + 0.3 * rng.dirichlet(np.ones(5), 5)
    truth = rng.dirichlet(np.full(5, 2.0), 40)
    probs = truth @ noise
    found = noise_matrix.deconvolve(torch.from_numpy(probs), torch.from_numpy(noise)).numpy()
    np.testing.assert_allclose(found.sum(1), 1, atol=1e-12)
    before = reference.divergence(probs, probs, noise)
    after = reference.divergence(probs, found, noise)
    assert (after <= before).all()
    assert after.max() < 0.02 * before.max()
    # Probabilities that no truth explains: the closest one, at the border of the simplex.
    odd = np.full((1, 5), 0.01) + np.eye(5)[:1] * 0.95
    closest = reference.closest_truth(odd[0], noise)
    found = noise_matrix.deconvolve(torch.from_numpy(odd), torch.from_numpy(noise)).numpy()
    np.testing.assert_allclose(found[0], closest, atol=0.02)


@pytest.mark.parametrize("temperature", [0.4, 1.0, 2.5])
def test_calibration_finds_the_temperature(temperature: float) -> None:
    rng = np.random.default_rng(2)
    logits = rng.normal(0, 2, (20_000, 3))
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(1)
    evidence = Evidence.of_labels(torch.from_numpy(labels), 3)
    found = calibrate(torch.from_numpy(logits / temperature).float(), evidence)
    assert float(found.weights) == pytest.approx(temperature, rel=0.05)


@pytest.mark.parametrize("ridge", [3e-2, 3e-3])
def test_probes_reach_the_optimum_of_each_fold(ridge: float) -> None:
    problem = make_problem()
    basis = Basis(as_float32(problem.features))
    folds = Folds.stratified(torch.from_numpy(problem.given), 3, seed=0)
    known = problem.evidence.likelihood(as_float32(problem.noise))
    start = no_weights(basis, folds, 4)
    weights = fit_probes(basis, folds, known, ridge, start, steps=300, tolerance=1e-9)
    rows = basis.rows.double().numpy()
    informative = (problem.given >= 0) | (problem.verified >= 0)
    for k in range(3):
        train = (folds.fold.numpy() != k) & informative
        here = weights[:, k].double().numpy()
        best = reference.probe_optimum(
            rows[train], problem.known[train], ridge, np.zeros_like(here)
        )
        losses = [
            reference.probe_loss(w, rows[train], problem.known[train], ridge) for w in (here, best)
        ]
        assert losses[0] <= losses[1] + 1e-4


def test_no_row_is_judged_by_a_probe_that_saw_its_label() -> None:
    problem = make_problem()
    basis = Basis(as_float32(problem.features))
    folds = Folds.stratified(torch.from_numpy(problem.given), 5, seed=0)

    def logits(given: Integers) -> torch.Tensor:
        known = Evidence.of_labels(torch.from_numpy(given), 4).likelihood(as_float32(problem.noise))
        weights = fit_probes(basis, folds, known, 1e-2, no_weights(basis, folds, 4), steps=1)
        return held_out_logits(basis, folds, weights)

    before = logits(problem.given)
    fold_mates = folds.fold == folds.fold[7]
    changed = problem.given.copy()
    changed[fold_mates.numpy()] = (problem.truth[fold_mates.numpy()] + 1) % 4
    after = logits(changed)
    # One step, one direction for all folds, but a step length in common: directions are compared.
    one, other = before[fold_mates], after[fold_mates]
    cosine = torch.nn.functional.cosine_similarity(one, other, dim=1)
    np.testing.assert_allclose(cosine, 1.0, atol=1e-5)
    assert not torch.allclose(before[~fold_mates], after[~fold_mates], atol=1e-3)


def test_changing_a_held_out_label_leaves_the_optimum_of_its_judge() -> None:
    problem = make_problem()
    basis = Basis(as_float32(problem.features))
    folds = Folds.stratified(torch.from_numpy(problem.given), 5, seed=0)
    changed = problem.given.copy()
    changed[7] = (max(changed[7], 0) + 1) % 4
    found = []
    for given in (problem.given, changed):
        known = Evidence.of_labels(torch.from_numpy(given), 4).likelihood(as_float32(problem.noise))
        start = no_weights(basis, folds, 4)
        weights = fit_probes(basis, folds, known, 3e-2, start, steps=500, tolerance=1e-10)
        found.append(held_out_logits(basis, folds, weights)[7])
    np.testing.assert_allclose(found[0], found[1], atol=0.02)


def test_rows_that_say_nothing_train_nothing() -> None:
    problem = make_problem()
    basis = Basis(as_float32(problem.features))
    folds = Folds(torch.zeros(240, dtype=torch.int64), 2)
    given = torch.full((240,), -1)
    known = Evidence.of_labels(given, 4).likelihood(as_float32(problem.noise))
    weights = fit_probes(basis, folds, known, 1e-2, no_weights(basis, folds, 4))
    assert float(weights.abs().max()) == 0.0


# The judge ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_the_judge_finds_the_optimal_weights(seed: int) -> None:
    problem = make_problem(seed=seed)
    rng = np.random.default_rng(seed)
    good = np.log(some_probs(problem, seed))
    members = np.stack([0.4 * good, 0.3 * good + rng.normal(size=good.shape), -good])
    judged = stack([as_float32(z) for z in members], problem.evidence, as_float32(problem.noise))
    known = reference.likelihood(problem.given, problem.verified, judged.noise.double().numpy())
    best = reference.stack_optimum(members, known, PRIOR_STRENGTH)
    losses = [
        reference.stack_loss(a, members, known, PRIOR_STRENGTH)
        for a in (judged.weights.double().numpy(), best)
    ]
    assert losses[0] <= losses[1] + 1e-4
    assert float(judged.weights[2]) == 0.0
    assert bool((judged.weights >= 0).all())
    labelled = (problem.given >= 0) | (problem.verified >= 0)
    expected = -reference.log_likelihood(judged.probs.double().numpy(), known)[labelled].mean()
    assert judged.loss == pytest.approx(expected, abs=1e-5)
    assert held_out_loss(judged.probs, problem.evidence, judged.noise) == judged.loss


@pytest.mark.parametrize("seed", range(3))
def test_the_curvature_of_the_judge_is_that_of_the_loss(seed: int) -> None:
    problem = make_problem(n=60, seed=seed)
    rng = np.random.default_rng(seed)
    members = rng.normal(size=(2, 60, 4))
    known = reference.likelihood(problem.given, problem.verified, problem.noise)
    weights = np.array([0.6, 0.2])

    def slope(a: Floats) -> Floats:
        return reference.finite_differences(
            lambda b: reference.stack_loss(b, members, known, 0.0), a, 1e-4
        )

    expected = np.stack(
        [(slope(weights + step) - slope(weights - step)) / 2e-3 for step in 1e-3 * np.eye(2)]
    )
    probs = reference.softmax(np.einsum("m,mnc->nc", weights, members))
    truth = reference.posterior(probs, known)
    found, _ = stacking._curvatures(*map(torch.from_numpy, (members, probs, truth)))
    # Where it is not positive definite, a small share of that of EM's bound is kept.
    bound = stacking._covariance(torch.from_numpy(members), torch.from_numpy(probs)).numpy()
    if np.linalg.eigvalsh(expected - stacking.LEAST_CURVATURE * bound)[0] > 0:
        np.testing.assert_allclose(found, expected, atol=2e-3 * np.abs(bound).max())
    assert np.linalg.eigvalsh(found.numpy())[0] > 0


def test_the_judge_sees_through_heavy_noise() -> None:
    """Logits at a fifteenth of their scale, and labels four fifths of which are drawn at random."""
    rng = np.random.default_rng(0)
    truth, n = rng.integers(0, 4, 20_000), 20_000
    logits = 3.0 * np.eye(4)[truth] + rng.normal(size=(n, 4))
    given = np.where(rng.random(n) < 0.8, rng.integers(0, 4, n), truth)
    labels = Evidence.of_labels(torch.from_numpy(given), 4)
    judged = stack([as_float32(0.2 * logits)], labels, noise_matrix.first_guess(4))
    true_noise = 0.2 * torch.eye(4) + 0.2
    best = held_out_loss(as_float32(reference.softmax(3 * logits)), labels, true_noise)
    assert judged.loss == pytest.approx(best, abs=2e-4)
    assert float(judged.noise.diag().mean()) == pytest.approx(0.4, abs=0.02)


def test_separable_members_keep_finite_weights() -> None:
    truth = torch.arange(40) % 2
    logits = torch.nn.functional.one_hot(truth).float()
    judged = stack([logits], Evidence.of_labels(truth, 2), noise_matrix.first_guess(2))
    assert float(judged.weights) < 100
    assert bool((judged.probs.argmax(1) == truth).all())


# Networks -----------------------------------------------------------------------------------------


def test_back_propagation_by_hand_is_autograd() -> None:
    problem = make_problem(n=16, dim=5)
    generator = torch.Generator().manual_seed(0)
    x = torch.from_numpy(problem.features)
    known = problem.evidence.likelihood(torch.from_numpy(problem.noise))
    mask = (torch.arange(16)[:, None] % 3 != torch.arange(3)).double()
    shapes = [(3, 5, 8), (3, 1, 8), (3, 8, 4), (3, 1, 4)]
    parts = [torch.randn(s, generator=generator, dtype=torch.float64) for s in shapes]
    keep = torch.zeros(8)
    keep[torch.randperm(8, generator=torch.Generator().manual_seed(7))[: int(8 * DROPOUT)]] = 1
    leaves = [part.clone().requires_grad_() for part in parts]
    hidden = (x @ leaves[0] + leaves[1]).relu() * keep / (1 - DROPOUT)
    probs = (hidden @ leaves[2] + leaves[3]).softmax(-1)
    losses = -(probs * known).sum(-1).log() * mask.T
    (losses.sum() / 16).backward()
    found = _gradients(parts, x, mask, known, torch.Generator().manual_seed(7))
    for gradient, leaf in zip(found, leaves, strict=True):
        assert leaf.grad is not None
        np.testing.assert_allclose(gradient, leaf.grad, atol=1e-12)


def test_networks_learn_and_are_a_function_of_the_seed() -> None:
    problem = make_problem(n=300)
    x = Basis(as_float32(problem.features)).rows[:, :-1]
    folds = Folds.stratified(torch.from_numpy(problem.given), 3, seed=0)
    known = problem.evidence.likelihood(as_float32(problem.noise))
    one, same = (fit_networks(x, folds, known, 0) for _ in range(2))
    assert torch.equal(one.inner, same.inner)
    right = one.held_out_logits(x, folds).argmax(1).numpy() == problem.truth
    assert right.mean() > 0.75
    assert one.mean_logits(x).shape == (300, 4)


# Whether the features say anything ----------------------------------------------------------------


def test_the_score_test_is_the_oracles() -> None:
    problem = make_problem()
    probs, open_ = some_probs(problem), (problem.given >= 0) & (problem.verified < 0)
    found = information(torch.from_numpy(probs), problem.evidence, torch.from_numpy(problem.noise))
    expected = reference.score_of_independence(probs[open_], problem.given[open_], problem.noise)
    assert found == pytest.approx(expected, rel=1e-9)
    assert found > 5.5


def test_labels_that_do_not_depend_on_the_predictions_have_standard_scores() -> None:
    problem = make_problem()
    probs, noise = torch.from_numpy(some_probs(problem)), torch.from_numpy(problem.noise)
    rng = np.random.default_rng(0)
    shuffled = [torch.from_numpy(rng.permutation(problem.truth)) for _ in range(400)]
    scores = [information(probs, Evidence.of_labels(given, 4), noise) for given in shuffled]
    assert np.mean(scores) == pytest.approx(0, abs=0.2)
    assert np.std(scores) == pytest.approx(1, abs=0.15)


@pytest.mark.parametrize("c", [2, 5])
def test_predictions_that_are_equal_everywhere_say_nothing(c: int) -> None:
    labels = Evidence.of_labels(torch.arange(200) % c, c)
    assert abs(information(torch.full((200, c), 1 / c), labels, torch.eye(c))) < 0.1
