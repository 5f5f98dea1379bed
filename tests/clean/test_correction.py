"""Which labels to change: against the oracle, and what verified rows and class shares do to it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from csot.clean import class_shares, correction
from csot.clean.class_shares import balance_factors, prior_factors, reweighted
from csot.clean.correction import Correction, fit_correction, power_at, sharpen
from csot.clean.likelihood import Evidence
from csot.clean.noise_matrix import from_counts
from helpers import drawn
from reference import correction as reference
from reference.latent_truth import softmax

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


def make_rows(n: int, c: int, seed: int, sure: float = 2.5) -> tuple[Floats, Integers]:
    """Probabilities (N, C) and true classes drawn from them."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n, c))
    logits[np.arange(n), rng.integers(0, c, n)] += sure
    probs = softmax(logits)
    return probs, drawn(probs, rng)


def evidence(labels: Integers, c: int, verified: Integers | None = None) -> Evidence:
    locked = np.full(len(labels), -1) if verified is None else verified
    return Evidence(torch.from_numpy(labels), torch.from_numpy(locked), c)


def flipped(truth: Integers, c: int, rate: float, seed: int) -> Integers:
    rng = np.random.default_rng(seed)
    wrong = rng.random(len(truth)) < rate
    return np.where(wrong, (truth + rng.integers(1, c, len(truth))) % c, truth)


# Equations ----------------------------------------------------------------------------------------


@given(
    c=st.integers(2, 7),
    seed=st.integers(0, 500),
    power=st.floats(1.0, 8.0),
    spread=st.floats(0.0, 1.0),
)
@settings(max_examples=40)
def test_the_posterior_is_the_oracles(c: int, seed: int, power: float, spread: float) -> None:
    probs, truth = make_rows(20, c, seed)
    rng = np.random.default_rng(seed)
    noise = 0.7 * np.eye(c) + 0.3 * rng.dirichlet(np.ones(c), c)
    factors = np.exp(spread * rng.normal(size=c))
    labels, verified = truth.copy(), np.full(20, -1)
    labels[::6], verified[::5] = -1, probs.argmin(1)[::5]
    found = Correction(power, torch.from_numpy(noise), torch.from_numpy(factors)).posterior(
        torch.from_numpy(probs), evidence(labels, c, verified)
    )
    expected = reference.posterior(probs, power, noise, factors, labels, verified)
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("power", [1.0, 2.0, 4.0])
def test_the_refitted_noise_matrix_is_as_likely_as_any_other(power: float) -> None:
    """Up to the shrinkage of T, which many rows overrule."""
    probs, truth = make_rows(6000, 3, seed=0)
    labels = flipped(truth, 3, 0.2, seed=1)
    found = correction._refitted(torch.from_numpy(probs), evidence(labels, 3), power).double()
    best = reference.log_likelihood(probs, power, found.numpy(), labels)
    rng = np.random.default_rng(0)
    for _ in range(50):
        other = found.numpy() * np.exp(0.1 * rng.normal(size=(3, 3)))
        other /= other.sum(1, keepdims=True)
        assert reference.log_likelihood(probs, power, other, labels) < best + 2.0


@given(c=st.integers(2, 6), seed=st.integers(0, 200))
@settings(max_examples=25, deadline=None)
def test_a_given_prior_is_met_and_certain_rows_stay(c: int, seed: int) -> None:
    probs, truth = make_rows(300, c, seed)
    certain = np.arange(0, 300, 10)
    probs[certain] = np.eye(c)[truth[certain]]
    prior = 0.5 / c + 0.5 * np.random.default_rng(seed).dirichlet(np.ones(c))
    factors = prior_factors(torch.from_numpy(probs), torch.from_numpy(prior))
    assert bool((factors > 0).all())
    shares = reference.expected_shares(probs, factors.numpy())
    np.testing.assert_allclose(shares, prior, atol=1e-5)
    found = reweighted(torch.from_numpy(probs), factors)
    np.testing.assert_array_equal(found.argmax(1)[certain], truth[certain])
    np.testing.assert_allclose(found.sum(1), 1.0)


# Class shares -------------------------------------------------------------------------------------


def test_shares_go_half_of_the_way_to_balance_where_mistakes_could_have_moved_them() -> None:
    c = 4
    probs, truth = make_rows(4000, c, seed=0)
    # Every third row of class 0 got the label 1.
    labels = np.where((truth == 0) & (np.arange(4000) % 3 == 0), 1, truth)
    seen = reference.posterior(
        probs, 1.0, 0.8 * np.eye(c) + 0.2 / c, np.ones(c), labels, np.full(4000, -1)
    )
    factors = balance_factors(torch.from_numpy(seen), torch.from_numpy(labels))
    believed = reference.belief_in_balance(seen, labels, class_shares.BALANCE)
    assert 0.2 < believed < 0.5
    whole = prior_factors(torch.from_numpy(seen), torch.full((c,), 1 / c))
    expected = whole**believed
    np.testing.assert_allclose(factors, expected / expected.log().mean().exp(), rtol=1e-2)
    assert factors[0] > 1 > factors[1]


@pytest.mark.parametrize("labelled", [True, False])
def test_classes_that_are_clearly_unequal_stay_so(labelled: bool) -> None:
    rng = np.random.default_rng(0)
    truth = rng.choice(3, 2000, p=[0.7, 0.2, 0.1])
    seen = 0.9 * np.eye(3)[truth] + 0.1 / 3
    labels = torch.from_numpy(truth) if labelled else torch.full((2000,), -1)
    np.testing.assert_array_equal(balance_factors(torch.from_numpy(seen), labels), torch.ones(3))


def test_no_class_is_pushed_further_than_the_largest_factor() -> None:
    """Not even a class that has no row."""
    rng = np.random.default_rng(0)
    seen = np.concatenate([rng.dirichlet(np.ones(9), 3000), np.full((3000, 1), 1e-9)], 1)
    labels = torch.from_numpy(rng.integers(0, 10, 3000))
    factors = balance_factors(torch.from_numpy(seen), labels)
    assert float(factors.max()) == class_shares.LARGEST_FACTOR
    assert float(factors.min()) >= 1 / class_shares.LARGEST_FACTOR


# Fitting ------------------------------------------------------------------------------------------


def test_the_power_grows_with_the_doubt() -> None:
    middle = (correction.LEAST_DOUBT + correction.FULL_DOUBT) / 2
    steps = [power_at(doubt) for doubt in (correction.LEAST_DOUBT, middle, correction.FULL_DOUBT)]
    assert steps == pytest.approx([1.25, 1.25 + 3.15 * 0.5**1.5, 4.4])
    powers = [power_at(doubt) for doubt in np.linspace(0, 1.5, 16)]
    assert powers[0] == correction.LEAST_POWER
    assert powers[-1] == correction.LARGEST_POWER
    assert (np.diff(powers) >= 0).all()


@pytest.mark.parametrize("c", [2, 5])
def test_rows_and_classes_can_be_permuted(c: int) -> None:
    probs, truth = make_rows(400, c, seed=3)
    labels = flipped(truth, c, 0.2, seed=1)
    verified = np.full(400, -1)
    verified[:30] = truth[:30]
    rng = np.random.default_rng(0)
    rows, classes = rng.permutation(400), rng.permutation(c)
    renamed = np.append(np.argsort(classes), -1)
    found = fit_correction(torch.from_numpy(probs), evidence(labels, c, verified), 0.6)
    moved = fit_correction(
        torch.from_numpy(probs[rows][:, classes]),
        evidence(renamed[labels[rows]], c, renamed[verified[rows]]),
        0.6,
    )
    assert moved.power == pytest.approx(found.power)
    np.testing.assert_allclose(moved.noise, found.noise[classes][:, classes], atol=1e-4)
    np.testing.assert_allclose(moved.factors, found.factors[classes], rtol=1e-3)


@pytest.mark.parametrize("sharp", [False, True])
def test_verified_rows_choose_the_power(sharp: bool) -> None:
    """The truth is what the labels say, or what the probabilities say wherever they differ."""
    probs, labels = make_rows(3000, 4, seed=0, sure=1.5)
    truth = probs.argmax(1) if sharp else labels
    verified = np.full(3000, -1)
    verified[:200] = truth[:200]
    start = power_at(0.6)
    before = fit_correction(torch.from_numpy(probs), evidence(labels, 4), 0.6)
    after = fit_correction(torch.from_numpy(probs), evidence(labels, 4, verified), 0.6)
    assert before.power == start
    assert after.power > 2 * start if sharp else after.power < 0.7 * start
    rest = slice(200, None)

    def right(found: Correction) -> float:
        corrected = found.posterior(torch.from_numpy(probs), evidence(labels, 4)).argmax(1)
        return float((corrected.numpy()[rest] == truth[rest]).mean())

    assert right(after) > right(before)


@pytest.mark.parametrize("doubt", [0.0, 0.5, 1.0])
def test_rows_that_every_power_judges_alike_leave_it_where_it_is(doubt: float) -> None:
    probs, labels = make_rows(1000, 3, seed=0)
    sure = probs.max(1).argsort()[-5:]
    labels[sure] = probs[sure].argmax(1)
    verified = np.full(1000, -1)
    verified[sure] = labels[sure]  # confirmed
    verified[sure[0]] = probs[sure[0]].argmin()  # impossible
    found = fit_correction(torch.from_numpy(probs), evidence(labels, 3, verified), doubt)
    assert found.power == pytest.approx(power_at(doubt))


def test_verified_rows_beyond_a_fair_sample_do_not_move_the_shares() -> None:
    probs, truth = make_rows(3000, 3, seed=0)
    verified = np.full(3000, -1)
    checked = np.flatnonzero(truth == 0)[:400]
    verified[checked] = 0
    rows = torch.from_numpy(np.sort(np.random.default_rng(0).permutation(3000)[:1000]))
    prior = torch.tensor([0.5, 0.3, 0.2])
    known = evidence(truth, 3, verified)
    found = fit_correction(torch.from_numpy(probs), known, 0.5, prior, rows)
    shares = found.posterior(torch.from_numpy(probs), known).mean(0)
    np.testing.assert_allclose(shares, prior, atol=0.03)


def test_an_impossible_label_is_kept_where_no_mistakes_are_known() -> None:
    plain = Correction(1.0, torch.eye(2), torch.ones(2).double())
    probs = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    truth = plain.posterior(probs, evidence(np.array([1, 1]), 2))
    np.testing.assert_array_equal(truth, [[0.0, 1.0], [0.0, 1.0]])


@pytest.mark.parametrize("n", [1, 2, 30])
@pytest.mark.parametrize("c", [2, 3, 200])
def test_small_and_certain_data_get_a_correction(n: int, c: int) -> None:
    labels = np.random.default_rng(0).integers(0, c, n)
    for probs in (np.eye(c)[labels], np.eye(c)[(labels + 1) % c], np.full((n, c), 1 / c)):
        for known in (None, labels):
            given_labels = evidence(labels, c, known)
            found = fit_correction(torch.from_numpy(probs), given_labels, 1.0)
            truth = found.posterior(torch.from_numpy(probs), given_labels)
            assert bool(torch.isfinite(truth).all())
            np.testing.assert_allclose(truth.sum(1), 1.0)
    nothing = evidence(np.full(n, -1), c)
    found = fit_correction(torch.from_numpy(probs), nothing, 1.0)
    expected = sharpen(torch.from_numpy(probs), found.power)
    np.testing.assert_allclose(found.posterior(torch.from_numpy(probs), nothing), expected)


def test_single_precision_gives_the_same_verdicts() -> None:
    probs, truth = make_rows(2000, 5, seed=0)
    labels = evidence(flipped(truth, 5, 0.3, seed=1), 5)
    wide = fit_correction(torch.from_numpy(probs), labels, 0.6)
    narrow = fit_correction(torch.from_numpy(probs).float(), labels, 0.6)
    by = [
        found.posterior(torch.from_numpy(probs).to(dtype), labels)
        for found, dtype in ((wide, torch.float64), (narrow, torch.float32))
    ]
    np.testing.assert_allclose(by[0], by[1], atol=1e-4)


def test_counts_of_a_known_truth_are_the_noise_matrix() -> None:
    """Probabilities that are certain leave nothing to EM but counting."""
    truth = np.repeat(np.arange(3), 500)
    labels = flipped(truth, 3, 0.3, seed=0)
    found = fit_correction(torch.from_numpy(np.eye(3)[truth]), evidence(labels, 3), 0.35)
    counts = np.zeros((3, 3))
    np.add.at(counts, (truth, labels), 1)
    expected = from_counts(torch.from_numpy(counts))
    np.testing.assert_allclose(found.noise, expected, atol=1e-6)
