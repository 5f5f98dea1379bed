"""Near-duplicates: found where they are copies, left alone where features are merely discrete."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

from csot.clean import LabelCleaner
from csot.clean.duplicates import (
    FARTHEST,
    NOTE,
    DuplicateCounts,
    Duplicates,
    count_duplicates,
    find_duplicates,
)
from csot.clean.folds import components
from csot.clean.near_pairs import CELL, near_pairs
from reference.duplicates import near_duplicate_pairs


def groups_of(x: np.ndarray, labels: np.ndarray | None = None, seed: int = 0) -> np.ndarray:
    if labels is None:
        labels = np.arange(len(x)) % 2
    return find_duplicates(torch.from_numpy(x.astype(np.float32)), labels, seed).group


def partition(group: np.ndarray) -> set[frozenset[int]]:
    numbers = np.unique(group[group >= 0])
    return {frozenset(np.flatnonzero(group == number).tolist()) for number in numbers}


def with_copies(x: np.ndarray, rows: np.ndarray, jitter: float = 0.0) -> np.ndarray:
    """The rows appended, each moved by ``jitter`` in a random direction."""
    rng = np.random.default_rng(1)
    move = rng.normal(size=(len(rows), x.shape[1]))
    return np.concatenate([x, x[rows] + jitter * move / np.linalg.norm(move, axis=1)[:, None]])


@pytest.mark.parametrize("dim", [2, 5, 20, 60])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_definition(dim: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(CELL - 40, dim)).astype(np.float32).astype(np.float64)
    x = with_copies(x, np.arange(40), jitter=0.02 * dim**0.5).astype(np.float32)
    pairs = near_duplicate_pairs(x.astype(np.float64), FARTHEST)
    first, second = np.array(sorted(pairs), dtype=np.int64).reshape(-1, 2).T
    joined = components(len(x), first, second)
    expected = {part for part in partition(joined) if len(part) > 1}
    assert partition(groups_of(x)) == expected
    assert len(expected) <= 3 if dim == 2 else len(expected) >= 5


def test_equal_rows_always() -> None:
    x = np.random.default_rng(0).normal(size=(5000, 20))
    found = groups_of(with_copies(x, np.arange(700)))
    assert {frozenset({i, 5000 + i}) for i in range(700)} <= partition(found)
    assert (found >= 0).sum() <= 1402
    assert found[0] == found[5000] == 0, "numbered by first appearance"


@pytest.mark.parametrize("dim", [30, 200])
def test_near_copies_beyond_one_cell(dim: int) -> None:
    """The stated bound: nearly all pairs at a tenth of the distance to the surroundings."""
    x = np.random.default_rng(0).normal(size=(6000, dim))
    rows = np.arange(1000)
    found = groups_of(with_copies(x, rows, jitter=0.1 * (dim**0.5)))
    assert (found[rows] == found[6000 + rows])[found[rows] >= 0].mean() > 0.95
    assert (found[rows] >= 0).mean() > 0.95
    assert (found[1000:6000] >= 0).sum() == 0


RNG = np.random.default_rng(0)
DISCRETE = {
    "three categories": RNG.integers(0, 3, (3000, 3)),
    "one of twenty": np.eye(20)[RNG.integers(0, 20, 3000)],
    "one of two, twice": np.eye(2)[RNG.integers(0, 2, 3000)],
    "five small numbers": RNG.integers(0, 10, (3000, 5)),
    "five large numbers": RNG.integers(0, 100, (3000, 5)),
    "twelve answers": RNG.integers(0, 2, (3000, 12)),
    "thirty answers": RNG.integers(0, 2, (3000, 30)),
    "two hundred places": RNG.normal(size=(200, 2))[RNG.integers(0, 200, 3000)],
    "one number and a constant": np.c_[RNG.normal(size=3000), np.ones(3000)],
    "one column": RNG.integers(0, 50, (3000, 1)),
}


@pytest.mark.parametrize("name", DISCRETE)
def test_discrete_features_are_not_copies(name: str) -> None:
    assert (groups_of(DISCRETE[name]) < 0).all()


CONTINUOUS = {
    "plane": RNG.normal(size=(3000, 2)),
    "curve": np.c_[np.sin(t := np.sort(RNG.random(3000) * 6)), np.cos(t), t],
    "tight class": np.r_[RNG.normal(size=(1500, 20)), 5 + 1e-3 * RNG.normal(size=(1500, 20))],
    "high-dimensional": RNG.normal(size=(3000, 300)),
    "category and number": np.c_[np.eye(5)[RNG.integers(0, 5, 3000)], RNG.normal(size=3000)],
    "sparse counts": (RNG.random((3000, 500)) < 0.02) * 1.0,
}


@pytest.mark.parametrize("name", CONTINUOUS)
def test_chance_pairs_are_few(name: str) -> None:
    assert (groups_of(CONTINUOUS[name]) >= 0).sum() <= 6


def scaled(x: np.ndarray) -> np.ndarray:
    return (x - x.mean(0)) / x.std(0)


IRIS, WINE, CANCER = (load().data for load in (load_iris, load_wine, load_breast_cancer))
ROUNDED = {
    "iris": IRIS,
    "iris, three columns": IRIS[:, :3],
    "iris, two columns": IRIS[:, :2],
    "wine": WINE,
    "wine, three columns": WINE[:, :3],
    "breast cancer": CANCER,
    "breast cancer, three columns in whole numbers": CANCER[:, :3].round(),
    "age, price, city": np.c_[
        RNG.integers(20, 70, 200), RNG.gamma(2, 20, 200).round(), np.eye(4)[RNG.integers(0, 4, 200)]
    ],
    "age, price, city, month": np.c_[
        RNG.integers(20, 70, 200),
        RNG.gamma(2, 2000, 200).round(2),
        np.eye(4)[RNG.integers(0, 4, 200)],
        np.eye(12)[RNG.integers(0, 12, 200)],
    ],
}


@pytest.mark.parametrize("name", ROUNDED)
def test_rows_of_few_or_rounded_columns_are_close_by_chance(name: str) -> None:
    assert (groups_of(scaled(ROUNDED[name])) >= 0).sum() <= 2


@pytest.mark.parametrize("name", ["iris", "wine", "breast cancer"])
@pytest.mark.parametrize("jitter", [0.0, 0.002])
def test_planted_copies_of_table_rows(name: str, jitter: float) -> None:
    x = scaled(ROUNDED[name])
    rows = np.random.default_rng(0).permutation(len(x))[:20]
    found = groups_of(with_copies(x, rows, jitter))
    copies = np.arange(len(x), len(x) + len(rows))
    assert ((found[rows] == found[copies]) & (found[rows] >= 0)).mean() >= 0.9
    assert (found >= 0).sum() <= 2 * len(rows) + 4


def test_a_common_value_is_not_a_group() -> None:
    x = np.random.default_rng(0).normal(size=(2000, 10))
    x[100:200] = 0.0
    found = groups_of(with_copies(x, np.arange(20)))
    assert (found[100:200] < 0).all()
    assert (found[:20] >= 0).all()


def test_copies_of_sparse_rows() -> None:
    x = (np.random.default_rng(0).random((3000, 500)) < 0.02) * 1.0
    found = groups_of(with_copies(x, np.arange(300)))
    assert (found[:300] == found[3000:]).all()
    assert (found[:300] >= 0).all()


def test_a_class_is_not_hidden_from_every_model() -> None:
    x = np.random.default_rng(0).normal(size=(60, 8))
    x[:3] = x[0]
    labels = np.array([2, 2, 2] + [0, 1, 0] * 19)
    assert (groups_of(x, labels) < 0).all()


@given(st.integers(0, 1000), st.floats(1e-3, 1e3), st.integers(0, 5))
@settings(deadline=None, max_examples=25)
def test_order_scale_and_constant_columns_do_not_matter(
    seed: int, scale: float, constants: int
) -> None:
    rng = np.random.default_rng(seed)
    x = with_copies(rng.normal(size=(150, 12)), np.arange(15), jitter=0.05)
    x[20] = x[30]
    expected = partition(groups_of(x))
    order = rng.permutation(len(x))
    changed = np.c_[x[order] * scale, np.ones((len(x), constants))]
    moved = {frozenset(int(order[i]) for i in part) for part in partition(groups_of(changed))}
    assert moved == expected


def test_too_few_rows_for_surroundings() -> None:
    assert near_pairs(torch.randn(16, 3), 0.25, 0) is None
    x = np.random.default_rng(0).normal(size=(9, 4))
    x[1] = x[0]
    assert groups_of(x, np.array([0, 1, 0, 1, 0, 1, 0, 1, 0])).tolist() == [0, 0] + [-1] * 7


def test_pairs_and_their_labels() -> None:
    group = np.array([0, 0, 0, 1, 1, -1, 2, 2])
    labels = pd.Series(["e", "e", "f", "a", "a", "a", None, "c"])
    assert count_duplicates(group, labels) == DuplicateCounts(7, 3, 4, 2)
    none = Duplicates.none(3).group
    assert count_duplicates(none, pd.Series([0, 1, 0])) == DuplicateCounts(0, 0, 0, 0)


# The cleaner --------------------------------------------------------------------------------------


def copied_digits() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Each of 500 digits three times, with one label for all three: 30 % are wrong."""
    pixels, truth = (part[:500] for part in load_digits(return_X_y=True))
    rng = np.random.default_rng(0)
    wrong = rng.random(500) < 0.3
    labels = np.where(wrong, (truth + rng.integers(1, 10, 500)) % 10, truth)
    return np.tile(pixels, (3, 1)), np.tile(labels, 3), np.tile(truth, 3)


def test_copies_do_not_confirm_each_other() -> None:
    pixels, labels, truth = copied_digits()
    right, likelihood = {}, {}
    for duplicates in ("ignore", "group"):
        cleaner = LabelCleaner(members=("linear", "fourier"), duplicates=duplicates)
        cleaner.fit(pixels, labels)
        right[duplicates] = (cleaner.findings_["corrected_label"] == truth).mean()
        likelihood[duplicates] = cleaner.log_likelihood_
    assert (labels == truth).mean() < 0.75
    assert right["ignore"] < 0.8
    assert right["group"] > 0.9
    once = LabelCleaner(members=("linear", "fourier")).fit(pixels[:500], labels[:500])
    # Held-out likelihood is that of new digits, which copies would make look far better.
    assert abs(likelihood["group"] - once.log_likelihood_) < 0.1
    assert likelihood["ignore"] > once.log_likelihood_ + 0.3


def test_what_is_said_about_duplicates() -> None:
    x, y = load_iris(return_X_y=True)
    x = np.c_[x, np.random.default_rng(0).normal(size=(150, 4))]
    x[[10, 60]] = x[[0, 51]]
    y[10] = 1
    cleaner = LabelCleaner(members=("linear",)).fit(x, y)
    assert (cleaner.duplicate_groups_ >= 0).sum() == 4
    assert "4 rows have a near-duplicate; 1 of 2 such pairs carry different labels" in (
        cleaner.report()
    )
    assert cleaner.findings_["note"].iloc[[0, 10, 51, 60]].tolist() == [NOTE, NOTE, "", ""]
    ignored = LabelCleaner(members=("linear",), duplicates="ignore").fit(x, y)
    assert (ignored.duplicate_groups_ < 0).all()
    assert "near-duplicate" not in ignored.report()
    with pytest.raises(ValueError, match="duplicates must be one of"):
        LabelCleaner(duplicates="drop").fit(x, y)
