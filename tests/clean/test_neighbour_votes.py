"""Votes of neighbours: the oracle, who has a vote, and what they add to the cleaner."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given as cases
from hypothesis import strategies as st
from sklearn.datasets import load_digits

import csot
from csot.clean.folds import Folds
from csot.clean.likelihood import Evidence
from csot.clean.members.neighbour_votes import neighbour_votes
from csot.clean.noise_matrix import first_guess
from helpers import LOSS_TOLERANCE
from reference.neighbour_votes import neighbour_votes as by_hand

CLASSES = 3


def problem(seed: int, n: int = 60) -> tuple[torch.Tensor, Folds, Evidence]:
    """Rows with the constant column, some without a label, some verified."""
    rng = np.random.default_rng(seed)
    rows = torch.from_numpy(np.c_[rng.normal(size=(n, 4)), np.ones(n)]).float()
    given = torch.from_numpy(rng.integers(-1, CLASSES, n))
    verified = torch.from_numpy(np.where(rng.random(n) < 0.2, rng.integers(0, CLASSES, n), -1))
    return rows, Folds.stratified(given, 4, seed), Evidence(given, verified, CLASSES)


@cases(seed=st.integers(0, 10_000), count=st.integers(1, 80))
def test_votes_are_those_of_the_oracle(seed: int, count: int) -> None:
    rows, folds, evidence = problem(seed)
    noise = first_guess(CLASSES)
    votes = neighbour_votes(rows, folds, evidence, noise, count)
    expected = by_hand(
        rows.double().numpy(),
        folds.fold.numpy(),
        evidence.given.numpy(),
        evidence.verified.numpy(),
        noise.double().numpy(),
        count,
    )
    np.testing.assert_allclose(votes, expected, atol=LOSS_TOLERANCE)


def test_the_order_of_rows_and_the_names_of_classes_do_not_matter() -> None:
    rows, folds, evidence = problem(0)
    noise = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.0, 0.3, 0.7]])
    votes = neighbour_votes(rows, folds, evidence, noise, 9)
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))
    mixed = neighbour_votes(
        rows[order], Folds(folds.fold[order], 4), evidence.take(order), noise, 9
    )
    np.testing.assert_allclose(mixed, votes[order], atol=LOSS_TOLERANCE)
    name = torch.tensor([2, 0, 1])  # new name of each class
    given, verified = (
        torch.where(labels >= 0, name[labels.clamp(min=0)], -1)
        for labels in (evidence.given, evidence.verified)
    )
    old = name.argsort()
    renamed = neighbour_votes(
        rows, folds, Evidence(given, verified, CLASSES), noise[old][:, old], 9
    )
    np.testing.assert_allclose(renamed[:, name], votes, atol=LOSS_TOLERANCE)


def test_rows_of_the_same_fold_have_no_vote() -> None:
    rows, folds, evidence = problem(1)
    plain = Evidence.of_labels(evidence.given.clamp(min=0), CLASSES)
    before = neighbour_votes(rows, folds, plain, torch.eye(CLASSES), 7)
    same = folds.fold == 2
    # Labels change places within the fold, so that the label shares stay as they are.
    given = plain.given.clone()
    given[same] = given[same].roll(1)
    after = neighbour_votes(rows, folds, Evidence.of_labels(given, CLASSES), torch.eye(CLASSES), 7)
    assert torch.equal(before[same], after[same])
    assert not torch.equal(before[~same], after[~same])


def test_one_column_is_enough() -> None:
    x = torch.linspace(-1, 1, 200)[:, None]
    rows = torch.cat([x, torch.ones_like(x)], 1)
    labels = (x[:, 0] > 0).long()
    votes = neighbour_votes(
        rows, Folds.stratified(labels, 5, 0), Evidence.of_labels(labels, 2), torch.eye(2), 10
    )
    far = x[:, 0].abs() > 0.2
    assert bool((votes.argmax(1) == labels)[far].all())


def test_equal_rows_and_rows_without_any_label() -> None:
    rows = torch.ones(30, 3)
    labels = torch.arange(30) % 2
    votes = neighbour_votes(
        rows, Folds.stratified(labels, 3, 0), Evidence.of_labels(labels, 2), torch.eye(2), 5
    )
    assert bool(votes.isfinite().all())
    verified = torch.full((30,), -1)
    verified[:10] = 1
    only_verified = Evidence(torch.full((30,), -1), verified, 2)
    found = neighbour_votes(rows, Folds.stratified(verified, 3, 0), only_verified, torch.eye(2), 5)
    np.testing.assert_allclose(found, torch.tensor([[0.0, 1.0]]).expand(30, 2), atol=LOSS_TOLERANCE)


def test_the_cleaner_weighs_votes_and_predicts_without_them() -> None:
    pixels, truth = load_digits(return_X_y=True)
    pixels, truth = pixels[:900], truth[:900]
    rng = np.random.default_rng(0)
    wrong = rng.random(len(truth)) < 0.3
    labels = np.where(wrong, (truth + rng.integers(1, 10, len(truth))) % 10, truth)
    both = csot.LabelCleaner(members=("linear", "neighbours")).fit(pixels, labels)
    alone = csot.LabelCleaner(members=("linear",)).fit(pixels, labels)
    assert both.member_weights_["neighbours"] > 0
    right = [(c.findings_.corrected_label == truth).mean() for c in (both, alone)]
    assert right[0] > right[1]
    # The same models; only the class shares that they were judged with differ a little.
    probs = [cleaner.predict_proba(pixels) for cleaner in (both, alone)]
    assert np.abs(probs[0] - probs[1]).mean() < 0.01
    np.testing.assert_array_equal(
        *(c.model_.logits(torch.from_numpy(c.units_(pixels, np.float64))) for c in (both, alone))
    )


@pytest.mark.parametrize("rows", [200, 299])
def test_few_rows_per_class_have_no_votes(rows: int) -> None:
    pixels, truth = load_digits(return_X_y=True)
    cleaner = csot.LabelCleaner(members=("linear", "neighbours")).fit(pixels[:rows], truth[:rows])
    assert "neighbours" not in cleaner.member_weights_
