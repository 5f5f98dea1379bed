"""The overlap of clusters of predictions: against the oracle, then invariances and odd data."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from csot.clean import overlap as module
from csot.clean.features import Basis
from csot.clean.overlap import (
    Overlap,
    cluster_responsibilities,
    measure_overlap,
    spread_of_features,
)
from reference import overlap as reference
from reference.latent_truth import softmax

Floats = npt.NDArray[np.float64]


def made_logits(n: int, c: int, seed: int, separation: float = 3.0) -> Floats:
    """Logits of c elliptical clusters, some larger than others."""
    rng = np.random.default_rng(seed)
    truth = rng.choice(c, n, p=rng.dirichlet(np.full(c, 20.0)))
    mixing = np.eye(c) + 0.3 * rng.normal(size=(c, c))
    return separation * np.eye(c)[truth] + rng.normal(size=(n, c)) @ mixing


def fitted(logits: Floats, start: Floats) -> Floats:
    return cluster_responsibilities(torch.from_numpy(logits), torch.from_numpy(start)).numpy()


def even_spread(n: int, seed: int) -> torch.Tensor:
    """Probabilities of two classes whose log odds form a single cluster."""
    odds = 2.0 * np.random.default_rng(seed).normal(size=n)
    return torch.from_numpy(softmax(np.stack([np.zeros(n), odds], 1)))


def two_gaussians(n: int, seed: int, apart: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Features (N, 12) of two classes, and the exact probabilities, flattened by wrong labels."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, 12))
    rows[:, 0] += apart * (rng.integers(0, 2, n) - 0.5)
    odds = 0.3 * apart * rows[:, 0]
    probs = softmax(np.stack([np.zeros(n), odds], 1))
    turned = rows @ np.linalg.qr(rng.normal(size=(12, 12)))[0]
    return torch.from_numpy(turned.astype(np.float32)), torch.from_numpy(probs)


def spread_beside_axes(features: torch.Tensor) -> float:
    return spread_of_features(features, Basis(features).row_coordinates)


# Equations ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "c"), [(80, 2), (120, 3), (150, 6)])
@pytest.mark.parametrize("pooled", [False, True])
def test_responsibilities_are_the_oracles(
    n: int, c: int, pooled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "POOLED_FROM", c if pooled else c + 1)
    monkeypatch.setattr(module, "MAX_STEPS", 12)
    logits = made_logits(n, c, seed=c)
    start = softmax(logits)
    expected = reference.responsibilities(
        logits,
        start,
        df=module.DEGREES_OF_FREEDOM,
        shrinkage=module.SHRINKAGE,
        pooled=pooled,
        steps=12,
        tolerance=module.TOLERANCE,
    )
    np.testing.assert_allclose(fitted(logits, start), expected, atol=1e-8)


@pytest.mark.parametrize("pooled", [False, True])
def test_steps_on_a_part_of_the_rows_lead_to_the_same_clusters(
    pooled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "POOLED_FROM", 3 if pooled else 4)
    logits = made_logits(4000, 3, seed=1)
    start = softmax(0.3 * logits)
    monkeypatch.setattr(module, "FIRST_ROWS", 10**6)
    whole = fitted(logits, start)
    monkeypatch.setattr(module, "FIRST_ROWS", 1500)
    assert np.abs(fitted(logits, start) - whole).mean() < 0.01


def test_the_three_measures_are_means_over_rows() -> None:
    probs = softmax(made_logits(200, 3, seed=1))
    r = fitted(np.log(np.maximum(probs, module.SMALLEST_PROB)), probs)
    found = measure_overlap(torch.from_numpy(probs))
    assert found.trusted
    assert found.labels == pytest.approx(np.mean([1 - row.max() for row in probs]))
    assert found.clusters == pytest.approx(np.mean([1 - row.max() for row in r]))
    assert found.assignment == pytest.approx(
        np.mean([1 - row[np.argmax(p)] for row, p in zip(r, probs, strict=True)])
    )
    assert found.believable <= min(found.labels, found.clusters)
    assert found.assignment >= found.clusters


def test_clusters_are_found_that_the_labels_blur() -> None:
    # Separate clusters whose probabilities were flattened, as wrong labels flatten them.
    probs = torch.from_numpy(softmax(0.2 * made_logits(900, 3, 0, separation=10.0)))
    found = measure_overlap(probs)
    assert found.labels > 0.15
    assert found.assignment < 0.02


@pytest.mark.parametrize("shape", ["Gaussian", "even", "two points", "heavy tails"])
def test_the_spread_of_features_is_the_oracles(shape: str) -> None:
    rng = np.random.default_rng(0)
    columns = {
        "Gaussian": rng.normal(size=(500, 7)),
        "even": rng.uniform(size=(500, 7)),
        "two points": rng.integers(0, 2, (500, 7)) + 1e-3 * rng.normal(size=(500, 7)),
        "heavy tails": rng.standard_t(2, size=(500, 7)),
    }[shape]
    axes = Basis(torch.from_numpy(columns.astype(np.float32))).row_coordinates
    found = spread_of_features(torch.from_numpy(columns), axes)
    assert found == pytest.approx(reference.spread_of_features(columns, axes.numpy()), rel=2e-3)


# Invariances --------------------------------------------------------------------------------------


@given(
    c=st.integers(2, 6),
    seed=st.integers(0, 1000),
    factor=st.floats(0.05, 20.0),
    offset=st.floats(-50.0, 50.0),
)
@settings(max_examples=25)
def test_the_temperature_of_the_logits_does_not_matter(
    c: int, seed: int, factor: float, offset: float
) -> None:
    logits = made_logits(40 * c, c, seed)
    start = softmax(logits)
    np.testing.assert_allclose(
        fitted(factor * logits + offset, start), fitted(logits, start), atol=1e-6
    )


@given(c=st.integers(2, 6), seed=st.integers(0, 1000))
@settings(max_examples=25)
def test_rows_and_classes_can_be_permuted(c: int, seed: int) -> None:
    logits = made_logits(40 * c, c, seed)
    rng = np.random.default_rng(seed)
    rows, classes = rng.permutation(40 * c), rng.permutation(c)
    plain = fitted(logits, softmax(logits))
    moved = logits[rows][:, classes]
    np.testing.assert_allclose(fitted(moved, softmax(moved)), plain[rows][:, classes], atol=1e-6)
    one, other = (measure_overlap(torch.from_numpy(softmax(z))) for z in (logits, moved))
    assert other.clusters == pytest.approx(one.clusters, abs=1e-6)
    assert other.assignment == pytest.approx(one.assignment, abs=1e-6)
    assert other.trusted == one.trusted


# Odd data -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("c", [2, 3, 10, 40, 200])
@pytest.mark.parametrize("kind", ["certain", "even", "half of the classes", "one class"])
def test_odd_probabilities_have_an_overlap(c: int, kind: str) -> None:
    n = module.MIN_ROWS_PER_CLASS * c
    classes = torch.arange(n) % c
    one_hot = torch.nn.functional.one_hot
    probs = {
        "certain": one_hot(classes, c).float(),
        "even": torch.full((n, c), 1 / c),
        "half of the classes": one_hot(classes % max(c // 2, 1), c).float(),
        "one class": one_hot(torch.zeros(n, dtype=torch.int64), c).float(),
    }[kind]
    found = measure_overlap(probs)
    expected = 1 - 1 / c if kind == "even" else 0.0
    for value in (found.labels, found.clusters, found.assignment):
        assert value == pytest.approx(expected, abs=1e-5)


def test_certain_and_doubtful_rows_together() -> None:
    probs = softmax(made_logits(300, 3, seed=0))
    probs[::2] = np.eye(3)[probs[::2].argmax(1)]
    found = measure_overlap(torch.from_numpy(probs))
    assert 0 <= found.clusters <= found.assignment < 1


@pytest.mark.parametrize("n", [1, 5, 89])
def test_few_rows_are_not_trusted(n: int) -> None:
    probs = torch.from_numpy(softmax(made_logits(n, 3, seed=0)))
    found = measure_overlap(probs)
    labels = float(1 - probs.amax(1).mean())
    assert found == Overlap(labels, labels, labels, trusted=False, measured=False)


@pytest.mark.parametrize("n", [60, 300, 3000])
def test_two_classes_are_trusted_only_if_there_are_two_clusters(n: int) -> None:
    spread = [measure_overlap(even_spread(n, seed)).trusted for seed in range(30)]
    logits = [made_logits(n, 2, seed, separation=6.0) for seed in range(30)]
    apart = [measure_overlap(torch.from_numpy(softmax(z))).trusted for z in logits]
    assert sum(spread) <= (3 if n == 60 else 1)
    assert sum(apart) >= 28


@pytest.mark.parametrize("n", [1000, 4000])
def test_features_show_two_clusters_that_have_no_two_peaks(n: int) -> None:
    with_features, alone = [], []
    for seed in range(10):
        features, probs = two_gaussians(n, seed, apart=2.4)
        spread = spread_beside_axes(features)
        with_features.append(measure_overlap(probs, 0, spread).trusted)
        alone.append(measure_overlap(probs).trusted)
    assert sum(alone) <= 3
    assert sum(with_features) >= 9


@pytest.mark.parametrize("n", [60, 300, 3000])
def test_one_cluster_is_not_taken_for_two_whatever_the_features(n: int) -> None:
    spread = [
        measure_overlap(even_spread(n, seed), 0, module.GAUSSIAN_SPREAD).trusted
        for seed in range(30)
    ]
    assert sum(spread) <= (3 if n == 60 else 1)


@pytest.mark.parametrize("dim", [1, 2, 4, 10])
def test_features_that_are_spread_evenly_themselves_show_nothing(dim: int) -> None:
    for seed in range(10):
        features = torch.from_numpy(np.random.default_rng(seed).uniform(-1, 1, (2000, dim)))
        odds = 2 * features[:, :1]
        probs = torch.cat([torch.zeros_like(odds), odds], 1).softmax(1)
        assert not measure_overlap(probs, 0, spread_beside_axes(features.float())).trusted


@pytest.mark.parametrize("n", [2, 50])
def test_a_spread_of_odd_features(n: int) -> None:
    mostly_zero = torch.zeros(n, 3)
    mostly_zero[0] = 1.0
    assert spread_of_features(mostly_zero, mostly_zero) <= module.GAUSSIAN_SPREAD
    assert spread_of_features(mostly_zero, mostly_zero[:, :0]) == 0.0


def test_many_rows_are_sampled_and_the_sample_is_a_function_of_the_seed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    probs = torch.from_numpy(softmax(made_logits(2000, 3, seed=0)))
    whole = measure_overlap(probs)
    monkeypatch.setattr(module, "MAX_ROWS", 1000)
    one, same, other = (measure_overlap(probs, seed) for seed in (1, 1, 2))
    assert one == same
    assert one != other
    assert one.labels == whole.labels
    assert one.clusters == pytest.approx(whole.clusters, abs=0.03)
