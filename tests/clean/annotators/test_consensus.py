"""What `find_consensus` promises: its tables, rare cases, bad input, and that it pays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr
from sklearn.datasets import load_digits

import csot
from crowds import make_crowd
from csot.clean.annotators import expectation_maximisation as model
from csot.runs.findings import FINDINGS_COLUMNS, check_findings

COUNTS = ["n_votes", "agreement"]


def right(found: csot.Consensus, truth: np.ndarray) -> float:
    return float((found.findings["corrected_label"].to_numpy() == truth).mean())


def test_tables() -> None:
    crowd = make_crowd()
    names = ["ann", "bob", "cy", "di", "ed"]
    frame = pd.DataFrame(crowd.votes, columns=names, index=[f"s{k}" for k in range(300)])
    found = csot.find_consensus(frame, pred_probs=crowd.probs)
    assert found.findings.columns.tolist() == [*FINDINGS_COLUMNS, *COUNTS]
    check_findings(found.findings[list(FINDINGS_COLUMNS)])
    assert found.findings.index.tolist() == frame.index.tolist()
    assert found.findings["corrected_label"].dtype.kind == "i"
    assert (found.findings["n_votes"] == frame.notna().sum(axis=1)).all()
    assert found.annotators.index.tolist() == names, "best first"
    assert (found.annotators["n_votes"] == frame.notna().sum()).all()
    low, high = found.annotators["quality_low"], found.annotators["quality_high"]
    real = (frame.eq(crowd.truth, axis=0) & frame.notna()).sum() / frame.notna().sum()
    assert ((low < real) & (real < high)).all()
    assert len(found.votes) == frame.notna().sum().sum()
    wrong = found.votes["label"].to_numpy() != np.repeat(crowd.truth, frame.notna().sum(axis=1))
    assert found.votes["vote_score"][wrong].mean() < 0.2
    assert found.votes["vote_score"][~wrong].mean() > 0.85
    matrix = found.confusion_matrix("ann")
    np.testing.assert_allclose(matrix.sum(axis=1), 1)
    assert np.diag(matrix).mean() == pytest.approx(0.95, abs=0.06)
    np.testing.assert_allclose(found.posterior.sum(1), 1)
    np.testing.assert_allclose(found.noise_matrix.sum(axis=1), 1)
    assert found.converged
    with pytest.raises(KeyError, match="no annotator is called 'zoe'"):
        found.confusion_matrix("zoe")


def test_agreement_with_others_by_hand() -> None:
    votes = [[0, 0, 1], [1, 1, 1], [0, 1, None], [1, None, None], [0, 0, 0], [1, 1, 0]]
    found = csot.find_consensus(np.array(votes, dtype=object)).annotators
    # Annotator 0 shares 2 + 2 + 1 + 2 + 2 votes with others, of which 1 + 2 + 0 + 2 + 1 agree.
    assert found.loc[0, "agreement_with_others"] == pytest.approx(6 / 9)
    assert found.loc[2, "agreement_with_others"] == pytest.approx(4 / 8)


@pytest.mark.parametrize("seed", range(3))
def test_it_beats_majority_and_knows_how_sure_it_is(seed: int) -> None:
    skills = (0.95, 0.9, *[0.4] * 8)
    crowd = make_crowd(800, 5, skills, 0.35, seed)
    found = csot.find_consensus(crowd.votes, class_names=range(5))
    majority = (found.findings["given_label"].to_numpy() == crowd.truth).mean()
    assert right(found, crowd.truth) > majority + 0.02
    assert found.findings["confidence"].mean() == pytest.approx(right(found, crowd.truth), abs=0.03)
    assert found.noise_rate == pytest.approx(1 - majority, abs=0.04)
    helped = csot.find_consensus(crowd.votes, pred_probs=crowd.probs)
    assert right(helped, crowd.truth) > right(found, crowd.truth)


def test_class_dependent_annotators() -> None:
    """One annotator never tells class 1 from 0; where they say 0, they are not believed."""
    crowd = make_crowd(600, 3, (0.9, 0.9, 0.9), 0.8)
    blind = np.where(crowd.truth == 1, 0, crowd.truth)
    votes = np.column_stack([crowd.votes, blind])
    found = csot.find_consensus(votes)
    row = found.annotators.loc[3]
    assert (row["worst_class"], row["confused_class"], row["confused_as"]) == (1, 1, 0)
    assert found.confusion_matrix(3).loc[1, 0] > 0.9
    assert found.confusion_matrix(0).loc[1, 0] < 0.2


def test_spammers_are_at_the_end() -> None:
    crowd = make_crowd(500, 4, (0.9, 0.85, 0.8, 0.75), 0.6)
    rng = np.random.default_rng(1)
    spam = np.column_stack([np.full(500, 2.0), rng.integers(0, 4, 500)])
    found = csot.find_consensus(np.column_stack([crowd.votes, spam]))
    assert set(found.annotators.index[-2:]) == {4, 5}
    assert (found.annotators["quality"].iloc[-2:] < 0.35).all()
    assert right(found, crowd.truth) > right(csot.find_consensus(crowd.votes), crowd.truth) - 0.01


def test_annotators_with_few_votes_are_near_the_average() -> None:
    crowd = make_crowd(400, 4, (0.9, 0.8, 0.7, 0.6), 0.7)
    one = np.full((400, 1), np.nan)
    one[0] = (crowd.truth[0] + 1) % 4
    row = csot.find_consensus(np.column_stack([crowd.votes, one])).annotators.loc[4]
    assert 0.35 < row["quality"] < 0.75
    assert row["quality_high"] - row["quality_low"] > 0.3


def test_samples_without_votes_and_verified_ones() -> None:
    crowd = make_crowd()
    votes = crowd.votes.copy()
    votes[:20] = np.nan
    verified = np.full(300, -1)
    verified[250:] = crowd.truth[250:]
    found = csot.find_consensus(votes, pred_probs=crowd.probs, verified=verified)
    first = found.findings.iloc[:20]
    assert first["given_label"].isna().all()
    assert (first["note"] == "no label given").all()
    assert (first["corrected_label"] == first["predicted_label"]).all()
    assert not first["is_label_issue"].any()
    last = found.findings.iloc[250:]
    assert (last["corrected_label"].to_numpy() == crowd.truth[250:]).all()
    assert (last["note"] == "verified").all()
    assert (last["confidence"] == 1).all()
    assert not last["is_label_issue"].any()
    check_findings(found.findings[list(FINDINGS_COLUMNS)])


def test_verified_labels_inform_the_rest() -> None:
    """Of two annotators who disagree, only verified samples say who is right."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 400)
    good = np.where(rng.random(400) < 0.95, truth, 1 - truth)
    poor = np.where(rng.random(400) < 0.6, truth, 1 - truth)
    votes = np.column_stack([poor, good])
    assert right(csot.find_consensus(votes), truth) < 0.85
    verified = pd.Series(np.where(np.arange(400) < 60, truth, -1)).replace(-1, pd.NA)
    with_some = csot.find_consensus(votes, verified=verified.astype("Int64"))
    assert right(with_some, truth) > 0.93
    assert with_some.annotators.index[0] == 1


def test_one_annotator_and_a_classifier() -> None:
    crowd = make_crowd(600, 4, (0.8,), 1.0)
    found = csot.find_consensus(crowd.votes, pred_probs=crowd.probs)
    assert right(found, crowd.truth) > (crowd.votes[:, 0] == crowd.truth).mean()


def test_one_vote_each_and_nothing_else() -> None:
    votes = np.full((30, 3), np.nan)
    votes[np.arange(30), np.arange(30) % 3] = np.arange(30) % 2
    with pytest.warns(UserWarning, match="nothing can tell a good annotator from a bad one"):
        found = csot.find_consensus(votes)
    assert (found.findings["corrected_label"] == found.findings["given_label"]).all()


def test_annotators_of_no_use_do_not_break_it() -> None:
    rng = np.random.default_rng(0)
    votes = rng.integers(0, 3, (200, 4)).astype(float)
    found = csot.find_consensus(votes)
    assert np.isfinite(found.posterior).all()
    perfect = np.repeat(rng.integers(0, 3, (200, 1)), 3, axis=1)
    found = csot.find_consensus(perfect)
    assert (found.findings["corrected_label"].to_numpy() == perfect[:, 0]).all()
    assert (found.annotators["quality"] > 0.97).all()


def test_an_annotator_may_vote_twice() -> None:
    table = pd.DataFrame(
        [["a", "x", 1], ["a", "x", 1], ["a", "y", 0], ["b", "x", 0], ["b", "y", 0]],
        columns=["sample", "annotator", "label"],
    )
    found = csot.find_consensus(table)
    assert found.findings["n_votes"].tolist() == [3, 2]
    assert found.annotators.loc["x", "n_votes"] == 3
    assert found.annotators.loc["x", "agreement_with_others"] == pytest.approx(1 / 3)


def test_features_are_judged_by_a_cleaner() -> None:
    pixels, truth = load_digits(n_class=4, return_X_y=True)
    pixels, truth = pixels[:240], truth[:240]
    rng = np.random.default_rng(0)
    skills = np.array([0.9, 0.6, 0.5, 0.4])
    votes = np.where(
        rng.random((240, 4)) < skills, truth[:, None], rng.integers(0, 4, (240, 4))
    ).astype(float)
    votes[rng.random((240, 4)) < 0.5] = np.nan
    cleaner = csot.LabelCleaner(members=("linear",))
    found = csot.find_consensus(votes, pixels, cleaner=cleaner, n_fits=1)
    assert right(found, truth) > 0.95
    assert right(csot.find_consensus(votes), truth) < 0.85
    assert found.cleaner is not None
    assert (found.cleaner.predict(pixels) == truth).mean() > 0.95
    assert not hasattr(cleaner, "model_"), "the user's own is not touched"
    assert spearmanr(found.annotators["quality"].sort_index(), skills)[0] == pytest.approx(1)
    assert found.findings["given_label"].isna().any()


def test_features_of_a_class_that_no_consensus_names() -> None:
    crowd = make_crowd(120, 3, (0.9, 0.9), 1.0)
    votes = crowd.votes.copy()
    features = np.eye(3)[crowd.truth] + np.random.default_rng(0).normal(0, 0.1, (120, 3))
    found = csot.find_consensus(
        votes,
        features,
        pred_probs=np.full((120, 4), 0.25),
        class_names=[0, 1, 2, 9],
        cleaner=csot.LabelCleaner(members=("linear",)),
        n_fits=1,
    )
    assert 9 not in found.findings["corrected_label"].to_numpy()
    assert found.posterior.shape == (120, 4)
    assert right(found, crowd.truth) > 0.95


def test_non_convergence_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "MAX_ROUNDS", 2)
    with pytest.warns(csot.ConvergenceWarning, match="still moves after 2 rounds"):
        found = csot.find_consensus(make_crowd().votes)
    assert not found.converged


LONG = pd.DataFrame({"sample": [0, 0, 1], "annotator": ["a", "b", "a"], "label": [0, 1, 1]})
TWO = np.array([[0, 1], [1, 1], [0, 0]])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"votes": [0, 1, 1]}, r"votes has shape \(3,\); pass a matrix \(N, A\)"),
        ({"votes": LONG.drop(columns="annotator")}, "votes has no column 'annotator'"),
        ({"votes": LONG.assign(annotator=["a", None, "b"])}, "no annotator in row 1"),
        ({"votes": LONG.assign(sample=[0, None, 1])}, "no sample in row 1"),
        ({"votes": LONG, "samples": [0, 2]}, "votes name the sample 1, which samples does not"),
        ({"votes": LONG, "samples": [0, 1, 1]}, "samples holds 1 twice"),
        ({"votes": TWO, "samples": [0, 1]}, "samples has 2 entries for 3 rows"),
        ({"votes": pd.DataFrame(TWO, columns=["a", "a"])}, "annotators holds 'a' twice"),
        ({"votes": np.full((2, 2), np.nan)}, "votes are all missing"),
        ({"votes": np.zeros((3, 2))}, "votes contain one class"),
        ({"votes": TWO + 0.5}, "must be class labels"),
        ({"votes": TWO, "class_names": [1, 2]}, "votes contains .*0.*, which is not among"),
        ({"votes": TWO, "class_names": [1, 1]}, "class_names must hold at least 2 different"),
        ({"votes": TWO, "features": np.zeros((2, 2))}, "features has 2 rows but votes are on 3"),
        ({"votes": TWO, "pred_probs": np.ones((3, 1))}, "pred_probs has shape"),
        ({"votes": TWO, "pred_probs": np.full((2, 2), 0.5)}, "pred_probs has 2 rows"),
        ({"votes": TWO, "pred_probs": np.ones((3, 2))}, "rows sum to 1"),
        ({"votes": TWO, "verified": [0, 5, None]}, "verified contains 5"),
        ({"votes": TWO, "verified": [0]}, "verified has 1 rows"),
        ({"votes": TWO, "n_fits": 0}, "n_fits must be at least 1, got 0"),
        (
            {"votes": [[0, 0], [0, 1], [0, 0]], "features": np.arange(6.0).reshape(3, 2)},
            "the consensus of the votes is one class, 0",
        ),
    ],
)
def test_bad_input(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        csot.find_consensus(**arguments)
