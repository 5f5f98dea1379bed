"""Groups share a fold, and the labels are spread over the folds as evenly as groups allow."""

from __future__ import annotations

import time

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import make_blobs
from sklearn.model_selection import StratifiedGroupKFold

from csot.clean import LabelCleaner, find_label_issues
from csot.clean.folds import Folds, check_groups, encode_groups, join_groups

QUICK = ("linear",)


@given(st.integers(2, 10), st.lists(st.tuples(st.integers(0, 30), st.integers(-1, 3)), min_size=4))
@settings(deadline=None)
def test_a_group_is_never_divided(n_folds: int, rows: list[tuple[int, int]]) -> None:
    groups, labels = (np.array(column) for column in zip(*rows, strict=True))
    n_groups = len(np.unique(groups))
    folds = Folds.stratified(torch.from_numpy(labels), n_folds, 0, groups)
    if n_groups == 1:
        return  # one group cannot be divided: check_groups refuses it
    assert folds.n_folds == (min(n_folds, n_groups) if n_groups < len(rows) else n_folds)
    if n_groups < len(rows):
        used = {(group, int(f)) for group, f in zip(groups, folds.fold, strict=True)}
        assert len(used) == n_groups
        assert len(torch.unique(folds.fold)) == folds.n_folds, "no fold is empty"


def test_without_groups_nothing_changes() -> None:
    labels = torch.arange(100) % 3
    plain = Folds.stratified(labels, 5, 1).fold
    assert torch.equal(Folds.stratified(labels, 5, 1, np.arange(100)[::-1].copy()).fold, plain)


def unevenness(fold: np.ndarray, labels: np.ndarray, n_folds: int) -> float:
    counts = np.zeros((n_folds, labels.max() + 1))
    np.add.at(counts, (fold, labels), 1)
    return float(((counts / counts.sum(0)).std(0)).mean())


def test_as_even_as_scikit_learn() -> None:
    found = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        groups = rng.integers(0, 60, 600)
        labels = np.where(rng.random(600) < 0.6, groups % 4, rng.integers(0, 4, 600))
        ours = Folds.stratified(torch.from_numpy(labels), 5, seed, groups).fold.numpy()
        theirs = np.empty(600, dtype=np.int64)
        splitter = StratifiedGroupKFold(5, shuffle=True, random_state=seed)
        for k, (_, held_out) in enumerate(splitter.split(labels, labels, groups)):
            theirs[held_out] = k
        found.append([unevenness(fold, labels, 5) for fold in (ours, theirs)])
    ours_mean, theirs_mean = np.mean(found, axis=0)
    assert ours_mean <= 1.05 * theirs_mean


def test_single_rows_even_out_what_groups_leave_uneven() -> None:
    labels = np.array([0] * 7 + [1] * 7 + [0, 1] * 43)
    groups = np.array([0] * 7 + [1] * 7 + list(range(2, 88)))
    fold = Folds.stratified(torch.from_numpy(labels), 5, 0, groups).fold.numpy()
    for label in (0, 1):
        counts = np.bincount(fold[labels == label], minlength=5)
        assert counts.max() - counts.min() <= 1


def test_many_small_groups_are_fast() -> None:
    rng = np.random.default_rng(0)
    labels = torch.from_numpy(rng.integers(0, 10, 50_000))
    groups = np.concatenate([np.arange(25_000), rng.integers(0, 25_000, 25_000)])
    start = time.process_time()
    fold = Folds.stratified(labels, 5, 0, groups).fold.numpy()
    assert time.process_time() - start < 2.0
    counts = np.zeros((5, 10))
    np.add.at(counts, (fold, labels.numpy()), 1)
    assert np.ptp(counts, axis=0).max() <= 10


# Joining and checking -----------------------------------------------------------------------------


def test_groups_of_any_type_with_gaps() -> None:
    numbers = encode_groups(pd.Series(["a", None, "b", "a"], dtype="string"), 4)
    assert numbers is not None
    assert numbers.tolist() == [0, -1, 1, 0]
    assert encode_groups(None, 4) is None
    with pytest.raises(ValueError, match=r"groups has shape \(3,\) but there are 4 rows"):
        encode_groups([1, 2, 3], 4)


def test_near_duplicates_join_groups() -> None:
    given_, copies = np.array([0, 0, 1, 1, -1, -1]), np.array([-1, 0, 0, -1, 1, 1])
    joint = join_groups(given_, copies, n_folds=1)
    assert joint is not None
    assert joint.tolist() == [0, 0, 0, 0, 1, 1]
    assert join_groups(None, np.full(6, -1), n_folds=5) is None


def test_joining_does_not_swallow_the_given_groups() -> None:
    given_ = np.repeat(np.arange(10), 10)
    copies = np.where(np.arange(100) % 10 == 0, 0, -1)
    joint = join_groups(given_, copies, n_folds=5)
    assert joint is not None
    assert joint.tolist() == given_.tolist()


def test_what_groups_leave_nothing_to_learn_from() -> None:
    labels, classes = np.array([0, 0, 1, 1]), np.array(["ant", "bee"])
    with pytest.raises(ValueError, match="puts all 4 rows in one group; at least 2"):
        check_groups(np.zeros(4, dtype=np.int64), labels, classes, 5)
    with pytest.warns(UserWarning, match="2 groups for 5 folds; 2 folds are used"):
        check_groups(np.array([0, 1, 0, 1]), labels, classes, 5)
    with pytest.warns(UserWarning, match="labelled 'ant', 'bee' are in one group each"):
        check_groups(np.array([0, 0, 1, 1]), labels, classes, 2)


# The cleaner --------------------------------------------------------------------------------------


def shared_background() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two classes told apart a little by x, and 40 groups, each with a look of its own.

    The label of a whole group is wrong together, so its look gives away the wrong label.
    """
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(40), 10)
    look = np.repeat(rng.normal(size=(40, 60)), 10, axis=0)
    truth = groups % 2
    x = np.c_[truth * 2.0 + rng.normal(size=400) * 0.7, look + 0.5 * rng.normal(size=look.shape)]
    wrong = np.isin(groups, rng.choice(40, 6, replace=False))
    return x, np.where(wrong, 1 - truth, truth), groups


@pytest.mark.filterwarnings("ignore::csot.clean.DisagreementWarning")
def test_no_model_sees_the_group_it_judges() -> None:
    x, labels, groups = shared_background()
    found = {
        name: LabelCleaner(members=QUICK).fit(x, labels, groups=used).log_likelihood_
        for name, used in {"without": None, "with": groups}.items()
    }
    # The looks predict the labels of their own group perfectly, and those of others not at all.
    assert found["without"] > -0.2
    assert found["with"] < -0.35


def test_find_label_issues_takes_groups() -> None:
    x, y = make_blobs(90, n_features=3, centers=3, random_state=0)
    probs = np.full((90, 3), 0.1) + 0.7 * np.eye(3)[y]
    probs[:9] = 1 / 3
    groups = np.arange(90) // 3
    table = find_label_issues(y, probs, x, groups=groups)
    assert len(table) == 90
    with pytest.raises(ValueError, match="groups is given without features"):
        find_label_issues(y, probs, groups=groups)
    with pytest.raises(ValueError, match="groups has shape"):
        LabelCleaner(members=QUICK).fit(x, y, groups=groups[1:])
