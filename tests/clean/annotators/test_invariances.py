"""What must not matter: the order of samples, annotators, votes and classes, and the form."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import csot
from crowds import Crowd, make_crowd

SAME = 1e-6
"""Sums in another order may end EM a rounding apart."""


def crowd_of(seed: int) -> Crowd:
    rng = np.random.default_rng(seed)
    skills = tuple(rng.uniform(0.3, 0.95, rng.integers(2, 6)))
    return make_crowd(int(rng.integers(30, 80)), int(rng.integers(2, 5)), skills, 0.6, seed)


def long_table(votes: np.ndarray) -> pd.DataFrame:
    sample, annotator = np.nonzero(~np.isnan(votes))
    labels = votes[sample, annotator].astype(int)
    return pd.DataFrame({"sample": sample, "annotator": annotator, "label": labels})


@given(seed=st.integers(0, 10_000), with_probs=st.booleans())
@settings(max_examples=15)
def test_order_of_samples_and_annotators(seed: int, with_probs: bool) -> None:
    crowd = crowd_of(seed)
    rng = np.random.default_rng(seed + 1)
    rows = rng.permutation(len(crowd.votes))
    columns = rng.permutation(crowd.votes.shape[1])
    probs = crowd.probs if with_probs else None
    names = np.arange(crowd.probs.shape[1])
    one = csot.find_consensus(crowd.votes, pred_probs=probs, class_names=names)
    other = csot.find_consensus(
        crowd.votes[rows][:, columns],
        pred_probs=None if probs is None else probs[rows],
        class_names=names,
    )
    np.testing.assert_allclose(other.posterior, one.posterior[rows], atol=SAME)
    quality = one.annotators["quality"].to_numpy()[np.argsort(one.annotators.index)]
    back = other.annotators["quality"].to_numpy()[np.argsort(other.annotators.index)]
    np.testing.assert_allclose(back, quality[columns], atol=SAME)


@given(seed=st.integers(0, 10_000))
@settings(max_examples=15)
def test_names_and_order_of_classes(seed: int) -> None:
    crowd = crowd_of(seed)
    n_classes = crowd.probs.shape[1]
    order = np.random.default_rng(seed + 2).permutation(n_classes)
    renamed = np.where(np.isnan(crowd.votes), np.nan, order[np.nan_to_num(crowd.votes).astype(int)])
    probs = np.empty_like(crowd.probs)
    probs[:, order] = crowd.probs
    names = np.arange(n_classes)
    one = csot.find_consensus(crowd.votes, pred_probs=crowd.probs, class_names=names)
    other = csot.find_consensus(renamed, pred_probs=probs, class_names=names)
    np.testing.assert_allclose(other.posterior[:, order], one.posterior, atol=SAME)
    np.testing.assert_allclose(
        other.confusion_matrix(0).to_numpy()[order][:, order],
        one.confusion_matrix(0).to_numpy(),
        atol=SAME,
    )


@given(seed=st.integers(0, 10_000))
@settings(max_examples=10)
def test_long_table_and_matrix_agree(seed: int) -> None:
    crowd = crowd_of(seed)
    n = len(crowd.votes)
    table = long_table(crowd.votes).sample(frac=1, random_state=seed)
    names = np.arange(crowd.probs.shape[1])
    one = csot.find_consensus(crowd.votes, class_names=names)
    other = csot.find_consensus(table, samples=range(n), class_names=names)
    np.testing.assert_allclose(other.posterior, one.posterior, atol=SAME)
    pd.testing.assert_frame_equal(other.findings, one.findings, check_dtype=False, atol=SAME)
    assert len(other.votes) == len(table)


def test_classes_may_be_words_and_columns_in_any_order() -> None:
    crowd = make_crowd()
    words = np.array(["ape", "bee", "cat", "dog"])
    votes = np.full(crowd.votes.shape, None, dtype=object)
    known = ~np.isnan(crowd.votes)
    votes[known] = words[crowd.votes[known].astype(int)]
    one = csot.find_consensus(crowd.votes, pred_probs=crowd.probs)
    back = [3, 1, 0, 2]
    other = csot.find_consensus(votes, pred_probs=crowd.probs[:, back], class_names=words[back])
    np.testing.assert_allclose(other.posterior, one.posterior, atol=SAME)
    assert other.classes.tolist() == words.tolist()
    expected = words[one.findings["corrected_label"].to_numpy()]
    assert other.findings["corrected_label"].tolist() == expected.tolist()


@pytest.mark.parametrize("gap", [None, -1, pd.NA, float("nan")])
def test_every_kind_of_gap(gap: object) -> None:
    crowd = make_crowd(80)
    one = csot.find_consensus(crowd.votes)
    votes = crowd.votes.astype(object)
    votes[np.isnan(crowd.votes)] = gap
    other = csot.find_consensus(votes)
    np.testing.assert_allclose(other.posterior, one.posterior, atol=SAME)
