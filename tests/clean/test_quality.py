"""How well wrong labels are found and put right, on small real data. No true label is shown."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch
from sklearn.datasets import load_breast_cancer, load_digits, make_moons
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from sklearn.tree import DecisionTreeClassifier

from csot.clean import LabelCleaner
from helpers import drawn

Data = tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]


@cache
def digits() -> Data:
    x, y = load_digits(return_X_y=True)
    return x, y


@cache
def moons() -> Data:
    x, y = make_moons(600, noise=0.2, random_state=0)
    return x, y


@cache
def cancer() -> Data:
    x, y = load_breast_cancer(return_X_y=True)
    return x, y


def corrupt(y: npt.NDArray[np.int64], kind: str, rate: float) -> npt.NDArray[np.int64]:
    """Symmetric noise includes the true class; pair noise names the next."""
    rng = np.random.default_rng(0)
    classes = int(y.max()) + 1
    wrong = rng.integers(0, classes, len(y)) if kind == "sym" else (y + 1) % classes
    return np.where(rng.random(len(y)) < rate, wrong, y)


@pytest.mark.parametrize(
    ("data", "kind", "rate", "members", "right"),
    [
        (digits, "sym", 0.3, ("linear", "fourier"), 0.97),
        (digits, "pair", 0.3, ("linear", "fourier"), 0.97),
        (digits, "sym", 0.7, ("linear",), 0.90),
        (moons, "sym", 0.4, ("linear", "csot", "fourier", "network"), 0.94),
        (moons, "pair", 0.3, ("linear", "fourier"), 0.93),
        (cancer, "sym", 0.4, ("linear", "csot", "fourier", "network"), 0.94),
        (cancer, "pair", 0.2, ("linear", "fourier"), 0.94),
    ],
)
def test_wrong_labels_are_found_and_put_right(
    data: Callable[[], Data], kind: str, rate: float, members: tuple[str, ...], right: float
) -> None:
    x, y = data()
    given = corrupt(y, kind, rate)
    wrong = given != y
    cleaner = LabelCleaner(members=members).fit(x, given)
    findings = cleaner.findings_
    corrected = (findings["corrected_label"] == y).mean()
    assert corrected > max(right, 1 - wrong.mean())
    assert average_precision_score(wrong, 1 - findings["label_score"]) > 0.9
    assert cleaner.noise_rate_ == pytest.approx(wrong.mean(), abs=0.05)
    # As a classifier it survives the labels it was given.
    assert cleaner.score(x, y) > right - 0.02
    # Confidence means what it says.
    sure = (findings["confidence"] > 0.95).to_numpy()
    assert (findings["corrected_label"] == y)[sure].mean() > 0.95


def labels_of_a_weak_model(kind: str, seed: int) -> npt.NDArray[np.int64]:
    """Digits as a model sees them that was trained on some columns of 300 rows.

    ``tree``: the likeliest class; ``drawn``: drawn from the probabilities of a linear model.
    """
    x, y = digits()
    rng = np.random.default_rng(seed)
    rows, columns = rng.permutation(len(y))[:300], rng.permutation(64)[:24]
    seen = x[:, columns]
    if kind == "tree":
        tree = DecisionTreeClassifier(random_state=0).fit(seen[rows], y[rows])
        return np.asarray(tree.predict(seen))
    linear = LogisticRegression(C=0.01, max_iter=500).fit(seen[rows[:150]], y[rows[:150]])
    return drawn(linear.predict_proba(seen), rng)


@cache
def fitted_to_a_weak_model(kind: str, seed: int) -> LabelCleaner:
    x, _ = digits()
    return LabelCleaner(members=("linear",)).fit(x, labels_of_a_weak_model(kind, seed))


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("kind", "gain", "order"), [("tree", 0.06, 0.83), ("drawn", 0.2, 0.94)])
def test_wrong_labels_that_depend_on_the_sample_are_found(
    kind: str, gain: float, order: float, seed: int
) -> None:
    _, y = digits()
    given = labels_of_a_weak_model(kind, seed)
    wrong = given != y
    assert wrong.mean() > 0.2
    cleaner = fitted_to_a_weak_model(kind, seed)
    findings = cleaner.findings_
    assert (findings["corrected_label"] == y).mean() > (given == y).mean() + gain
    assert average_precision_score(wrong, 1 - findings["label_score"]) > order
    low, high = cleaner.noise_rate_interval_
    assert low <= wrong.mean() <= high
    # Confidence means what it says, as far as that can be known.
    right = (findings["corrected_label"] == y).mean()
    assert abs(findings["confidence"].mean() - right) < 0.1
    # What is flagged is mostly wrong.
    assert wrong[findings["is_label_issue"]].mean() > 0.7


@pytest.mark.parametrize("seed", [0, 1])
def test_two_classes_that_are_two_clusters_are_put_right(seed: int) -> None:
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 2, 1500)
    rows = rng.normal(size=(1500, 20)) + 3.2 / np.sqrt(20) * truth[:, None]
    # Wrong where it is hard to tell: drawn from odds that are less sharp than they could be.
    odds = LogisticRegression().fit(rows, truth).decision_function(rows) / 3
    given = (rng.random(1500) < 1 / (1 + np.exp(-odds))).astype(np.int64)
    members = ("linear",)
    cleaner = LabelCleaner(members=members).fit(rows, given)
    wrong = given != truth
    assert wrong.mean() > 0.15
    assert (cleaner.findings_.corrected_label == truth).mean() > 1 - 0.5 * wrong.mean()
    assert cleaner.noise_rate_ == pytest.approx(wrong.mean(), abs=0.06)
    # The same rows with right labels: their overlap is believed.
    unharmed = LabelCleaner(members=members).fit(rows, truth).findings_
    assert (unharmed.corrected_label != truth).mean() < 0.02


def test_predictions_learn_from_the_corrected_labels(tmp_path: Path) -> None:
    """Only where mistakes depend on the sample; the same after saving."""
    x, y = digits()
    cleaner = fitted_to_a_weak_model("tree", 0)
    model = cleaner.model_
    assert model.student is not None
    rows = torch.from_numpy(cleaner.units_(x, np.float64))
    explanation = model.judgement.explanation
    by_members = explanation.power * model.logits(rows) + explanation.factors.log()
    by_student = model.student(model.scale(rows))
    np.testing.assert_allclose(model.truth_logits(rows), (by_members + by_student) / 2)
    shares = cleaner._prior_shift()
    alone = (by_members + shares).argmax(1).numpy()
    assert (cleaner.predict(x) == y).mean() > (alone == y).mean()
    cleaner.save(tmp_path / "cleaner.npz")
    again = LabelCleaner.load(tmp_path / "cleaner.npz")
    np.testing.assert_array_equal(again.predict_proba(x), cleaner.predict_proba(x))
    by_class = LabelCleaner(members=("linear",)).fit(x, corrupt(y, "sym", 0.3))
    assert by_class.model_.student is None


def test_verified_rows_tell_how_much_of_the_noise_depends_on_the_sample() -> None:
    x, y = digits()
    given = labels_of_a_weak_model("tree", 0)
    # Not the rows that the weak model was trained on: their labels are right.
    looked = np.random.default_rng(100).permutation(len(y))[:200]
    verified = np.full(len(y), -1)
    verified[looked] = y[looked]
    blind = fitted_to_a_weak_model("tree", 0)
    told = LabelCleaner(members=("linear",)).fit(x, given, verified=verified)
    widths = [high - low for low, high in (c.noise_rate_interval_ for c in (blind, told))]
    assert widths[1] < 0.5 * widths[0]
    low, high = told.noise_rate_interval_
    assert low <= (given != y).mean() <= high


@pytest.mark.parametrize("data", [digits, moons, cancer])
def test_right_labels_are_left_alone(data: Callable[[], Data]) -> None:
    x, y = data()
    cleaner = LabelCleaner(members=("linear", "fourier")).fit(x, y)
    assert cleaner.findings_["is_label_issue"].mean() < 0.02
    assert (cleaner.findings_["corrected_label"] != y).mean() < 0.01
    assert cleaner.noise_rate_ < 0.05
    assert cleaner.noise_rate_interval_[0] == 0.0


@pytest.mark.parametrize("member", ["csot", "fourier", "network"])
def test_no_label_gives_itself_away(member: str) -> None:
    """Random labels are predicted by chance, though there are columns enough to learn each one."""
    rng = np.random.default_rng(0)
    rows, given = rng.normal(size=(600, 200)), rng.integers(0, 3, 600)
    cleaner = LabelCleaner(members=("linear", member)).fit(rows, given)
    agreement = (cleaner.findings_.predicted_label == given).mean()
    assert agreement < 1 / 3 + 3 * np.sqrt(2 / 9 / 600)
    assert not cleaner.informative_


def test_the_noise_matrix_is_the_one_that_was_applied() -> None:
    x, y = digits()
    rng = np.random.default_rng(1)
    given = np.where((y % 2 == 0) & (rng.random(len(y)) < 0.35), y + 1, y)
    noise = LabelCleaner(members=("linear", "fourier")).fit(x, given).noise_matrix_.to_numpy()
    applied = np.array([[np.mean(given[y == k] == j) for j in range(10)] for k in range(10)])
    np.testing.assert_allclose(noise, applied, atol=0.12)


def test_imbalanced_classes_are_not_swallowed() -> None:
    x, y = digits()
    rng = np.random.default_rng(0)
    keep = rng.random(len(y)) < np.geomspace(1, 0.1, 10)[y]
    x, y = x[keep], y[keep]
    given = corrupt(y, "sym", 0.3)
    cleaner = LabelCleaner(members=("linear", "fourier")).fit(x, given)
    right = cleaner.findings_["corrected_label"].to_numpy() == y
    assert right.mean() > max(0.93, (given == y).mean())
    assert right[y == 9].mean() > 0.6
    np.testing.assert_allclose(cleaner.class_prior_, np.bincount(y) / len(y), atol=0.03)


@pytest.mark.parametrize("kind", ["uniform", "scattered", "shuffled pixels"])
def test_rows_that_no_class_fits_say_so(kind: str) -> None:
    x, y = digits()
    rng = np.random.default_rng(0)
    strange = {
        "uniform": rng.uniform(0, 16, (12, 64)),
        "scattered": rng.normal(8, 12, (12, 64)),
        "shuffled pixels": rng.permuted(x[:12], axis=1),
    }[kind]
    labels = np.concatenate([y, rng.integers(0, 10, 12)])
    cleaner = LabelCleaner(members=("linear",)).fit(np.concatenate([x, strange]), labels)
    misfit = (cleaner.findings_["note"] == "no class fits").to_numpy()
    assert misfit[-12:].mean() > 0.9
    assert misfit[:-12].mean() < 0.01
    assert (cleaner.findings_["status"][misfit] == "uncertain").all()


@pytest.mark.parametrize("data", [digits, moons, cancer])
def test_ordinary_rows_fit_some_class(data: Callable[[], Data]) -> None:
    x, y = data()
    findings = LabelCleaner(members=("linear",)).fit(x, corrupt(y, "sym", 0.2)).findings_
    assert (findings["note"] == "no class fits").mean() < 0.01
