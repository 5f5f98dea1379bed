"""find_label_issues: for those who bring probabilities of their own."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, f1_score
from sklearn.model_selection import cross_val_predict

from csot.clean import DisagreementWarning, find_label_issues
from csot.clean.likelihood import log_probs
from helpers import drawn
from reference.latent_truth import softmax

NAMES = np.array(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])
COLUMNS = {
    "is_label_issue",
    "label_quality",
    "label_score",
    "given_label",
    "predicted_label",
    "corrected_label",
    "confidence",
    "status",
    "note",
    "reason",
}


@dataclass(frozen=True)
class Case:
    """Digits with noisy labels, and probabilities of a cross-validated model."""

    features: npt.NDArray[Any]
    truth: npt.NDArray[Any]
    given: npt.NDArray[Any]
    probs: npt.NDArray[Any]

    @property
    def wrong(self) -> npt.NDArray[np.bool_]:
        return np.asarray(self.given != self.truth)


def make_case(kind: str) -> Case:
    x, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    hit = rng.random(len(y)) < 0.3
    wrong = {"sym": rng.integers(0, 10, len(y)), "pair": (y + 1) % 10, "none": y}[kind]
    given = np.where(hit, wrong, y)
    model = LogisticRegression(C=0.01, max_iter=300)
    probs = cross_val_predict(model, x / 4 - 1, given, cv=5, method="predict_proba")
    return Case(x, y, given, probs)


@pytest.fixture(scope="session")
def sym() -> Case:
    return make_case("sym")


@pytest.fixture(scope="session")
def pair() -> Case:
    return make_case("pair")


def test_columns_and_order_are_cleanlabs_and_ours(sym: Case) -> None:
    findings = find_label_issues(sym.given, sym.probs)
    assert set(findings.columns) == COLUMNS
    assert findings.index.equals(pd.RangeIndex(len(sym.given)))
    assert (findings["given_label"] == sym.given).all()
    assert findings["is_label_issue"].dtype == bool
    assert findings["label_quality"].between(0, 1).all()
    flagged = findings["is_label_issue"]
    assert findings["label_quality"][flagged].max() < findings["label_quality"][~flagged].max()
    assert findings["label_quality"][flagged].mean() < 0.2
    assert (findings["label_quality"] == findings["label_score"]).all()
    assert (findings["corrected_label"] == sym.truth).mean() > 0.9


@pytest.mark.parametrize("kind", ["sym", "pair"])
def test_the_order_is_at_least_as_good_as_cleanlabs(
    kind: str, request: pytest.FixtureRequest
) -> None:
    rank = pytest.importorskip("cleanlab.rank")
    case: Case = request.getfixturevalue(kind)
    quality = find_label_issues(case.given, case.probs)["label_quality"]
    ours = average_precision_score(case.wrong, 1 - quality)
    theirs = [
        average_precision_score(
            case.wrong, 1 - rank.get_label_quality_scores(case.given, case.probs, method=method)
        )
        for method in ("self_confidence", "normalized_margin")
    ]
    assert ours >= max(theirs)


def test_honest_probabilities_raise_no_warning() -> None:
    case = make_case("none")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        findings = find_label_issues(case.given, case.probs)
    assert (findings["corrected_label"] != case.given).mean() < 0.02
    # Some more are worth a look, but not every label that the model contradicts.
    assert findings["is_label_issue"].mean() < (case.probs.argmax(1) != case.given).mean()
    assert findings.attrs["noise_rate_interval"][0] == 0.0


def test_in_sample_probabilities_raise_a_warning(sym: Case) -> None:
    forest = RandomForestClassifier(60, random_state=0).fit(sym.features, sym.given)
    with pytest.warns(UserWarning, match="look in-sample"):
        find_label_issues(sym.given, forest.predict_proba(sym.features))


def test_permuted_columns_raise_a_warning(sym: Case) -> None:
    with pytest.warns(UserWarning, match="columns are permuted.*class_names"):
        find_label_issues(sym.given, np.roll(sym.probs, 1, axis=1))
    # Names in the order of the columns put it right.
    rolled = find_label_issues(
        sym.given, np.roll(sym.probs, 1, axis=1), class_names=np.roll(np.arange(10), 1)
    )
    pd.testing.assert_frame_equal(rolled, find_label_issues(sym.given, sym.probs))


@pytest.mark.parametrize("as_names", [True, False], ids=["names", "indices"])
def test_class_names_are_those_of_the_columns(sym: Case, as_names: bool) -> None:
    expected = find_label_issues(sym.given, sym.probs)
    labels = NAMES[sym.given] if as_names else sym.given
    findings = find_label_issues(labels, sym.probs, class_names=list(NAMES))
    for column in ("given_label", "predicted_label", "corrected_label"):
        assert (findings[column] == NAMES[expected[column]]).all()
    # EM sums in another order.
    np.testing.assert_allclose(findings["label_score"], expected["label_score"], atol=1e-3)


def test_names_alone_are_in_sorted_order(sym: Case) -> None:
    order = np.argsort(NAMES)
    findings = find_label_issues(NAMES[sym.given], sym.probs[:, order])
    assert (findings["corrected_label"] == NAMES[sym.truth]).mean() > 0.9


def test_a_series_keeps_its_index(sym: Case) -> None:
    labels = pd.Series(sym.given, index=[f"row {i}" for i in range(len(sym.given))])
    assert find_label_issues(labels, sym.probs).index.equals(labels.index)


def test_missing_labels_get_a_suggestion(sym: Case) -> None:
    labels = sym.given.copy()
    labels[::7] = -1
    rows = find_label_issues(labels, sym.probs).iloc[::7]
    assert (rows["note"] == "no label given").all()
    assert not rows["is_label_issue"].any()
    assert (rows["corrected_label"] == sym.truth[::7]).mean() > 0.85


def test_few_labels_among_many_rows_are_all_used(sym: Case) -> None:
    rows = np.tile(np.arange(len(sym.given)), 40)
    labels = np.full(len(rows), -1)
    labels[: len(sym.given)] = sym.given
    few, alone = find_label_issues(labels, sym.probs[rows]), find_label_issues(sym.given, sym.probs)
    assert len(few) == len(rows)
    rates = [table.attrs["noise_rate"] for table in (few, alone)]
    assert rates[0] == pytest.approx(rates[1], abs=0.02)


def test_classes_that_no_label_names(sym: Case) -> None:
    some = sym.given != 3
    findings = find_label_issues(sym.given[some], sym.probs[some])
    threes = sym.truth[some] == 3
    assert (findings["predicted_label"][threes] == 3).mean() > 0.5
    assert np.isfinite(findings["label_score"]).all()
    with pytest.raises(ValueError, match=r"10 columns but labels has 9 classes.*class_names="):
        find_label_issues(NAMES[sym.given[some]], sym.probs[some])
    named = find_label_issues(NAMES[sym.given[some]], sym.probs[some], class_names=NAMES)
    assert (named["predicted_label"] == NAMES[findings["predicted_label"]]).all()


@pytest.mark.parametrize("without", [None, 3])
def test_features_make_it_better(sym: Case, without: int | None) -> None:
    some = np.flatnonzero(sym.given != without)[:300]
    labels = pd.Series(NAMES[sym.given[some]], index=some)
    probs = sym.probs[some]
    alone = find_label_issues(labels, probs, class_names=NAMES)
    both = find_label_issues(labels, probs, sym.features[some], class_names=NAMES)
    assert both.index.equals(labels.index)
    assert set(both.columns) == COLUMNS
    known = sym.truth[some] != without
    truth = NAMES[sym.truth[some]]
    right = [(f["corrected_label"] == truth)[known].mean() for f in (alone, both)]
    assert right[1] >= right[0]


@pytest.mark.parametrize(
    ("labels", "probs", "settings", "message"),
    [
        ([0, 1, 0], np.ones(3), {}, r"shape \(3,\); \(N, C\)"),
        ([0, 1, 0], np.ones((3, 1)), {}, "C >= 2"),
        ([0, 1], np.ones((3, 2)) / 2, {}, "labels has 2 entries but pred_probs has 3 rows"),
        ([0, 1, 0], np.ones((3, 2)), {}, "rows sum to 1"),
        ([0, 1, 0], np.full((3, 2), np.nan), {}, "finite"),
        ([0, 1, 2], np.ones((3, 2)) / 2, {}, "2 columns but labels has 3 classes"),
        ([0, 1, 0], np.ones((3, 2)) / 2, {"class_names": ["a"]}, "2 different names"),
        ([0, 1, 0], np.ones((3, 2)) / 2, {"class_names": ["a", "a"]}, "2 different names"),
        (["a", "c", "a"], np.ones((3, 2)) / 2, {"class_names": ["a", "b"]}, "'c'.*not among"),
        ([None] * 3, np.ones((3, 2)) / 2, {"class_names": ["a", "b"]}, "all missing"),
    ],
)
def test_bad_input_is_named(labels: Any, probs: Any, settings: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        find_label_issues(labels, probs, **settings)


def test_verified_rows_are_locked_and_decide() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 4, 3000)
    # Labels drawn from what the features show: where they disagree, overlap or noise?
    logits = 2.0 * np.eye(4)[truth] + rng.normal(size=(3000, 4))
    probs = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    labels = drawn(probs, rng)
    verified = np.where(np.arange(3000) % 20 == 0, truth, -1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DisagreementWarning)
        before = find_label_issues(labels, probs)
        after = find_label_issues(labels, probs, verified=verified)
    known = verified >= 0
    assert (after.corrected_label[known] == truth[known]).all()
    assert not after.is_label_issue[known].any()
    rate = (labels != truth).mean()
    low, high = after.attrs["noise_rate_interval"]
    assert low <= rate <= high
    assert high - low < np.subtract(*before.attrs["noise_rate_interval"][::-1])
    assert (after.corrected_label == truth).mean() > (before.corrected_label == truth).mean()


def test_verified_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="verified has 2 entries"):
        find_label_issues([0, 1, 0], np.eye(2)[[0, 1, 0]], verified=[0, 1])


@pytest.mark.parametrize("power", [0.5, 4.0])
def test_overconfident_and_timid_probabilities_are_read_alike(sym: Case, power: float) -> None:
    """The temperature is fitted to the labels: p^power, normalised, says the same."""
    other = sym.probs.astype(np.float64) ** power
    found = find_label_issues(sym.given, other / other.sum(1, keepdims=True))
    plain = find_label_issues(sym.given, sym.probs)
    assert (found["corrected_label"] == plain["corrected_label"]).mean() > 0.99
    assert (found["is_label_issue"] == plain["is_label_issue"]).mean() > 0.99


@pytest.mark.parametrize("trees", [50, 100])
def test_zeros_count_as_less_than_the_smallest_share(sym: Case, trees: int) -> None:
    """A forest votes 0 where it means "under one tree": zeros must not look like certainty."""
    votes = np.round(sym.probs * trees) / trees
    votes /= votes.sum(1, keepdims=True)
    assert (votes == 0).any()
    found = find_label_issues(sym.given, votes)
    smallest = votes[votes > 0].min()
    raised = np.maximum(votes, smallest / 2)
    expected = find_label_issues(sym.given, raised / raised.sum(1, keepdims=True))
    assert (found["is_label_issue"] == expected["is_label_issue"]).mean() > 0.99
    logs = log_probs(torch.from_numpy(votes))
    assert torch.isfinite(logs).all()
    assert float(logs.min()) == pytest.approx(np.log(min(smallest / 2, 0.01)))


def test_labels_that_people_confuse_are_worth_a_look() -> None:
    """Two classes that shade into one another, labelled by the other one's name near the boundary.

    No cluster says that labels are wrong, so few are changed; they are still shown.
    """
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 2000)
    margin = rng.normal(2.0 * truth - 1, 0.7)
    wrong = rng.random(2000) < 0.8 * np.exp(-1.5 * np.abs(margin))
    given = np.where(wrong, 1 - truth, truth)
    model = LogisticRegression().fit(margin[:, None], given)
    with pytest.warns(DisagreementWarning, match="Verify about 100 rows"):
        found = find_label_issues(given, model.predict_proba(margin[:, None]))
    assert f1_score(given != truth, found["is_label_issue"]) > 0.5
    assert (found["corrected_label"] == truth).mean() >= (given == truth).mean()


def test_noise_by_class_that_the_model_has_learned() -> None:
    """A model trained on pair noise predicts it: the likelihood is as high without any noise."""
    rng = np.random.default_rng(0)
    n, n_classes = 4_000, 5
    truth = rng.integers(0, n_classes, n)
    x = np.eye(n_classes)[truth] * 2.5 + rng.normal(size=(n, n_classes))
    given = np.where(rng.random(n) < 0.35, (truth + 1) % n_classes, truth)
    model = LogisticRegression(max_iter=300)
    probs = cross_val_predict(model, x, given, cv=5, method="predict_proba")
    table = find_label_issues(given, probs)
    right = (table["corrected_label"].to_numpy() == truth).mean()
    assert right > (probs.argmax(1) == truth).mean() + 0.03
    assert right > 0.85
    assert table.attrs["noise_rate"] == pytest.approx((given != truth).mean(), abs=0.06)
    assert f1_score(given != truth, table["is_label_issue"]) > 0.8
    order = rng.permutation(n)
    shuffled = find_label_issues(given[order], probs[order])
    same = shuffled["corrected_label"].to_numpy() == table["corrected_label"].to_numpy()[order]
    assert same.mean() > 0.99  # the sample that decides is another one
    verified = np.full(n, None, dtype=object)
    verified[order[:800]] = truth[order[:800]]
    checked = find_label_issues(given, probs, verified=verified)["corrected_label"].to_numpy()
    others = order[800:]
    assert (checked == truth)[others].mean() > right - 0.01


def test_swapped_arguments_are_named() -> None:
    labels, probs = ["a", "b", "a"], [[0.9, 0.1], [0.2, 0.8], [0.7, 0.3]]
    for wrong in (labels, [0, 1, 0]):
        with pytest.raises(ValueError, match=r"find_label_issues\(labels, pred_probs\)"):
            find_label_issues(probs, wrong)


def test_one_verified_row_leaves_the_others_as_they_are() -> None:
    """Pair noise of which the model has learned half: enough to doubt which model to take."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 4, 9000)
    logits = 2 * np.eye(4)[truth] + rng.normal(size=(9000, 4))
    pair = 0.8 * np.eye(4) + 0.2 * np.roll(np.eye(4), 1, axis=1)
    given = drawn(pair[truth], rng)
    own = softmax(2 * logits)
    probs = (own @ pair + own) / 2
    verified = np.full(9000, None, dtype=object)
    verified[0] = truth[0]
    one, other = (
        find_label_issues(given, probs, verified=rows)["corrected_label"].to_numpy()[1:]
        for rows in (None, verified)
    )
    assert (one != other).mean() < 0.005


@pytest.mark.parametrize("spread", [0.5, 0.8])
@pytest.mark.parametrize("n_classes", [5, 10])
def test_classes_that_overlap_are_no_noise(n_classes: int, spread: float) -> None:
    """Right labels, and their exact probabilities: a circle of clusters, most rows uncertain."""
    rng = np.random.default_rng(0)
    angles = 2 * np.pi * np.arange(n_classes) / n_classes
    centres = np.stack([np.cos(angles), np.sin(angles)], 1)
    labels = rng.integers(0, n_classes, 3000)
    rows = centres[labels] + spread * rng.normal(size=(3000, 2))
    squared = ((rows[:, None] - centres) ** 2).sum(2)
    probs = softmax(-squared / (2 * spread**2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DisagreementWarning)
        table = find_label_issues(labels, probs)
    assert (table["corrected_label"] != labels).mean() < 0.02
    low, _ = table.attrs["noise_rate_interval"]
    assert low < 0.01
