"""Folds, bases, maps, units and labels: the small parts of the cleaner."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.exceptions import DataConversionWarning

from csot.clean.features import Basis, Units
from csot.clean.folds import Folds
from csot.clean.inputs import encode_labels, missing
from csot.clean.likelihood import Evidence
from csot.clean.members.fourier import N_FEATURES, FourierMap

# Folds --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_folds", [2, 5, 10])
def test_folds_are_stratified_and_even(n_folds: int) -> None:
    labels = torch.from_numpy(
        np.random.default_rng(0).choice(5, 503, p=[0.5, 0.3, 0.1, 0.08, 0.02])
    )
    folds = Folds.stratified(labels, n_folds, seed=3)
    sizes = torch.bincount(folds.fold, minlength=n_folds)
    assert int(sizes.max() - sizes.min()) <= 1
    for label in range(5):
        share = torch.bincount(folds.fold[labels == label], minlength=n_folds)
        assert int(share.max() - share.min()) <= 1


def test_folds_are_a_function_of_the_seed() -> None:
    labels = torch.arange(100) % 3
    one, same, other = (Folds.stratified(labels, 5, seed).fold for seed in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_a_row_trains_every_fold_but_its_own() -> None:
    folds = Folds.stratified(torch.arange(23) % 4 - 1, 5, seed=0)
    mask = folds.training_mask()
    assert torch.equal(mask.sum(1), torch.full((23,), 4.0))
    held_out = torch.cat([folds.held_out(k) for k in range(5)])
    assert torch.equal(held_out.sort().values, torch.arange(23))
    for k in range(5):
        assert float(mask[folds.held_out(k), k].sum()) == 0.0


def test_verified_rows_leave_the_folds_of_the_others_alone() -> None:
    given = torch.arange(60) % 3
    verified = torch.full_like(given, -1)
    verified[::7] = 2
    before = Evidence.of_labels(given, 3).labels_to_stratify()
    assert torch.equal(Evidence(given, verified, 3).labels_to_stratify(), before)


def test_a_class_or_row_that_only_verified_labels_name_is_stratified_by_them() -> None:
    given = torch.tensor([0, 0, 1, 1, -1, -1])
    verified = torch.tensor([-1, 2, 0, -1, 1, -1])
    found = Evidence(given, verified, 3).labels_to_stratify()
    assert found.tolist() == [0, 2, 1, 1, 1, -1]


# Bases --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(200, 12), (30, 80)])
def test_a_basis_is_orthogonal_and_of_mean_variance_one(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    mixing = rng.normal(size=(shape[1], shape[1]))
    x = torch.from_numpy(rng.normal(size=shape) @ mixing + 5).float()
    basis = Basis(x)
    turned = basis.rows[:, :-1].double()
    covariance = turned.T @ turned / len(x)
    np.testing.assert_allclose(covariance, covariance.diag().diag(), atol=2e-4)
    assert float(covariance.diag().mean()) == pytest.approx(1.0, abs=1e-3)
    np.testing.assert_allclose(basis.variances[:-1], covariance.diag(), rtol=1e-2, atol=1e-4)
    assert bool((basis.variances[:-1].diff() <= 1e-6).all()), "largest first"
    assert torch.equal(basis.rows[:, -1], torch.ones(len(x)))
    assert turned.shape[1] == min(shape[1], shape[0] - 1)


def test_a_basis_keeps_distances_up_to_one_factor() -> None:
    x = torch.randn(100, 7, generator=torch.Generator().manual_seed(0)) * torch.arange(1.0, 8)
    turned = Basis(x).rows[:, :-1]
    ratio = torch.pdist(turned) / torch.pdist(x)
    np.testing.assert_allclose(ratio, ratio[0].item(), rtol=1e-4)


def test_a_basis_maps_new_rows_as_it_mapped_its_own() -> None:
    x = torch.randn(60, 9, generator=torch.Generator().manual_seed(0))
    basis = Basis(x)
    np.testing.assert_allclose(basis(x), basis.rows)
    np.testing.assert_allclose(basis(x.double()), basis.rows, atol=1e-5)
    light = basis.without_training_rows()
    assert len(light.rows) == 0
    np.testing.assert_allclose(light(x), basis.rows)


def test_copies_of_a_column_add_no_direction() -> None:
    x = torch.randn(60, 3, generator=torch.Generator().manual_seed(0))
    assert Basis(torch.cat([x, x], 1)).rows.shape == (60, 4)


# Fourier features ---------------------------------------------------------------------------------


def test_fourier_features_are_a_kernel_of_the_distance() -> None:
    x = torch.randn(400, 3, generator=torch.Generator().manual_seed(0))
    fourier = FourierMap.draw(x, seed=0)
    mapped = fourier(x)
    assert mapped.shape == (400, N_FEATURES + 3)
    np.testing.assert_allclose(mapped[:, N_FEATURES:] * fourier.width, x, atol=1e-5)
    waves = mapped[:, :N_FEATURES]
    found = 2 / N_FEATURES * waves @ waves.T
    squared = torch.cdist(x, x) ** 2 / fourier.width**2
    expected = sum(torch.exp(-squared * w**2 / 2) for w in (0.5, 1.0, 2.0)) / 3
    assert float((found - expected).abs().mean()) < 0.05


def test_fourier_features_are_a_function_of_the_seed_and_of_any_precision() -> None:
    x = torch.randn(50, 3, generator=torch.Generator().manual_seed(0))
    one, same, other = (FourierMap.draw(x, seed) for seed in (0, 0, 1))
    assert torch.equal(one(x), same(x))
    assert not torch.equal(one(x), other(x))
    np.testing.assert_allclose(one(x.double()), one(x), atol=1e-4)


def test_fourier_features_of_mostly_equal_rows_are_finite() -> None:
    x = torch.zeros(50, 3)
    x[:5] = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    assert bool(torch.isfinite(FourierMap.draw(x, 0)(x)).all())


# Units --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("factor", [1e-200, 1e-30, 1.0, 1e30, 1e200])
def test_units_do_not_matter(factor: float) -> None:
    x = np.random.default_rng(0).normal(size=(50, 4))
    expected = Units.of(x)(x, np.float32)
    np.testing.assert_allclose(Units.of(x * factor)(x * factor, np.float32), expected, rtol=1e-5)


def test_dates_keep_their_differences() -> None:
    x = np.random.default_rng(0).normal(size=(50, 2)) * 1e4
    expected = Units.of(x)(x, np.float32)
    np.testing.assert_allclose(Units.of(x + 1.7e9)(x + 1.7e9, np.float32), expected, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_constant_columns_are_seen_through_rounding(dtype: type[np.floating]) -> None:
    x = np.random.default_rng(0).normal(size=(1000, 3)).astype(dtype)
    x[:, 1] = 0.1
    x[::2, 2] = 1e6 + 0.1
    x[1::2, 2] = np.nextafter(dtype(1e6 + 0.1), dtype(np.inf))
    units = Units.of(x)
    np.testing.assert_array_equal(units.varies, [True, False, False])
    assert not units(x, np.float32)[:, 1:].any()


# Labels -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "index", "classes"),
    [
        (["b", "a", None, "b"], [1, 0, -1, 1], ["a", "b"]),
        ([3, 1, 2, -1], [2, 0, 1, -1], [1, 2, 3]),
        ([-1, 1, 1, -1], [0, 1, 1, 0], [-1, 1]),
        ([-2, -1, 0, 1], [0, 1, 2, 3], [-2, -1, 0, 1]),
        ([0.0, 1.0, np.nan, 1.0], [0, 1, -1, 1], [0, 1]),
        ([0, 1, 2, -1, None], [0, 1, 2, -1, -1], [0, 1, 2]),
        ([True, False, True], [1, 0, 1], [False, True]),
        (pd.Series([2, 0, None, 1, -1], dtype="Int64"), [2, 0, -1, 1, -1], [0, 1, 2]),
        (pd.Categorical(["x", None, "w"], categories=["z", "x", "w"]), [1, -1, 0], ["w", "x"]),
        (pd.Series(["x", pd.NA, "w"], dtype="string"), [1, -1, 0], ["w", "x"]),
        (np.array([b"u", b"v"]), [0, 1], [b"u", b"v"]),
    ],
)
def test_labels_of_many_kinds(labels: object, index: list[int], classes: list[object]) -> None:
    encoded = encode_labels("labels", labels)
    assert encoded.index.tolist() == index
    assert encoded.classes.tolist() == classes
    decoded = encoded.decode(encoded.index)
    assert [label is None for label in decoded] == [i < 0 for i in index]
    assert [label for label in decoded if label is not None] == [
        classes[i] for i in index if i >= 0
    ]


def test_nullable_integers_stay_integers() -> None:
    classes = encode_labels("labels", pd.Series([2, None, 1], dtype="Int64")).classes
    assert all(isinstance(label, (int, np.integer)) for label in classes)


def test_minus_one_is_missing_where_it_is_no_known_class() -> None:
    labels = np.array([-1, 3, -1])
    np.testing.assert_array_equal(missing(labels, np.arange(5)), [True, False, True])
    np.testing.assert_array_equal(missing(labels, np.array([-1, 3])), [False, False, False])


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0.5, 1.0], "continuous"),
        ([0.0, np.inf], "infinity"),
        (np.zeros((3, 2)), "one label per row"),
        (np.array(["a", 1, "b"], dtype=object), "mixes types.*int, str"),
    ],
)
def test_labels_that_are_none(labels: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        encode_labels("labels", labels)


def test_labels_outside_of_the_known_classes() -> None:
    with pytest.raises(ValueError, match=r"'abcd'.*not among the classes \['abc', 'b'\]"):
        encode_labels("labels", ["b", "abcd"], np.array(["abc", "b"]))


def test_a_column_of_labels_is_read_with_a_warning() -> None:
    with pytest.warns(DataConversionWarning, match="column-vector"):
        assert encode_labels("labels", np.array([[1], [0]])).index.tolist() == [1, 0]
