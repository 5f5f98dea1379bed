"""The gate after training: what is not learned changes no label."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import one_hot

from csot.runs import Run
from csot.training import train
from csot.training.better_than_chance import (
    LEVEL,
    HeldOutTest,
    check_held_out,
    excess_of_other_labels,
    permutation_p_value,
)
from training.quick import FEATURES, command, planted


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def check(predicted: torch.Tensor, labels: torch.Tensor) -> HeldOutTest:
    """The test, for a network that is sure of every prediction."""
    classes = int(torch.maximum(predicted.max(), labels.max())) + 1
    return check_held_out(one_hot(predicted, classes).double(), labels, generator())


def noisy_predictions(
    right: float, noise: float, rows: int, classes: int, seed: int = 0
) -> tuple[torch.Tensor, torch.Tensor]:
    """Predictions of which a share is right, and labels of which a share is drawn anew."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(classes, size=rows)
    predicted = np.where(rng.random(rows) < right, truth, rng.integers(classes, size=rows))
    labels = np.where(rng.random(rows) < noise, rng.integers(classes, size=rows), truth)
    return torch.from_numpy(predicted), torch.from_numpy(labels)


@pytest.mark.parametrize("seed", range(3))
def test_the_p_value_is_that_of_all_orders(seed: int) -> None:
    rng = np.random.default_rng(seed)
    predicted, labels = rng.integers(3, size=7), rng.integers(3, size=7)
    orders = np.array(list(itertools.permutations(labels)))
    for probs in (np.eye(3)[predicted], rng.dirichlet(np.ones(3), 7).round(6)):
        sums = np.array([probs[np.arange(7), order].sum() for order in orders])
        exact = (sums >= probs[np.arange(7), labels].sum() - 1e-9).mean()
        found = permutation_p_value(torch.from_numpy(probs), torch.from_numpy(labels), generator())
        assert found == pytest.approx(exact, abs=4 * np.sqrt(0.25 / 9_999))


def test_sure_predictions_count_more_than_others() -> None:
    """200 rows of two classes, some 57 % right, more of the sure ones: hard to tell by counting."""
    soft, hard = [], []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        chances = 0.5 + 0.5 * rng.beta(1, 6, 200)
        predicted = torch.arange(200) % 2
        is_right = torch.from_numpy(rng.random(200) < chances)
        labels = torch.where(is_right, predicted, 1 - predicted)
        votes = one_hot(predicted, 2)
        probs = votes * (2 * torch.from_numpy(chances) - 1)[:, None]
        probs += (1 - probs.sum(1, keepdim=True)) / 2
        soft.append(permutation_p_value(probs, labels, generator()))
        hard.append(permutation_p_value(votes, labels, generator()))
    assert np.median(soft) < np.median(hard) / 3


def test_what_learned_nothing_passes_no_more_often_than_it_says() -> None:
    """Independent predictions, few rows and many classes: where a normal approximation fails."""
    results = [check(*noisy_predictions(0.0, 0.0, 60, 40, seed)) for seed in range(100)]
    values = np.array([result.p_value for result in results])
    assert not any(result.informative for result in results)
    assert (values <= 0.1).mean() <= 0.2


@pytest.mark.parametrize(
    ("right", "noise", "rows", "classes"),
    [(0.9, 0.8, 130, 10), (0.5, 0.5, 130, 10), (0.9, 0.4, 60, 2), (0.6, 0.3, 500, 100)],
)
def test_what_learned_something_passes(right: float, noise: float, rows: int, classes: int) -> None:
    result = check(*noisy_predictions(right, noise, rows, classes))
    assert result.informative
    assert result.accuracy > result.chance


def test_one_class_for_all_rows_is_chance() -> None:
    labels = torch.tensor([0] * 90 + [1] * 10)
    result = check(torch.zeros(100, dtype=torch.int64), labels)
    assert result.accuracy == result.chance == pytest.approx(0.9)
    assert result.p_value == 1.0
    assert not result.informative


def test_structure_without_the_right_names_is_not_enough() -> None:
    """Agreement far beyond chance, but most rows predicted as k carry another label."""
    rng = np.random.default_rng(0)
    labels = rng.integers(10, size=4000)
    predicted = np.where(rng.random(4000) < 0.15, labels, (labels + 1) % 10)
    predicted = np.where(rng.random(4000) < 0.1, rng.integers(10, size=4000), predicted)
    result = check(torch.from_numpy(predicted), torch.from_numpy(labels))
    assert result.p_value <= LEVEL
    assert result.excess > 10
    assert not result.informative


def test_too_few_rows_to_tell() -> None:
    """Ten rows of two classes have 252 orders: even perfect predictions could be chance."""
    labels = torch.arange(10) % 2
    result = check(labels, labels)
    assert result.least_p_value == pytest.approx(1 / 252)
    assert not result.informative
    assert result.words().startswith("10 held-out labels are too few to tell")


def test_no_labels_among_the_held_out_rows() -> None:
    none = torch.full((5,), -1)
    assert not check(torch.zeros(5, dtype=torch.int64), none).informative


@settings(max_examples=25)
@given(st.permutations(range(4)), st.integers(0, 10))
def test_names_of_the_classes_do_not_matter(names: list[int], seed: int) -> None:
    predicted, labels = noisy_predictions(0.5, 0.5, 40, 4, seed)
    renamed = torch.tensor(names)
    one = check(predicted, labels)
    other = check(renamed[predicted], renamed[labels])
    assert one.p_value == other.p_value
    assert one.chance == pytest.approx(other.chance)
    assert excess_of_other_labels(predicted, labels) == pytest.approx(
        excess_of_other_labels(renamed[predicted], renamed[labels])
    )


def test_a_run_that_learns_nothing_changes_nothing(tmp_path: Path) -> None:
    out = tmp_path / "run"
    short = ("--set=epochs=1", "--set=warmup=0", "--set=supervised_epochs=1")
    result = command(
        *("train", "digits", "--noise", "sym:0.5", "--out", out, "--limit", "600"),
        *("--set=network.width=4", "--set=learning_rate=1e-9", *short),
    )
    assert result.exit_code == 0, result.output
    assert "does not predict held-out labels clearly better than chance" in result.stderr
    assert "review" not in result.stdout
    run = Run.open(out)
    summary, findings = run.read_summary(), run.read_findings()
    assert summary["informative"] is False
    assert summary["noise_rate"] is None
    assert summary["held_out"]["rows"] == 60
    assert summary["n_corrected"] == summary["n_issues"] == 0
    assert summary["n_uncertain"] == len(findings) == 600
    assert (findings["status"] == "uncertain").all()
    assert (findings["corrected_label"] == findings["given_label"]).all()
    assert findings["note"].value_counts().to_dict() == {
        "held-out labels are not predicted": 540,
        "held out": 60,
    }
    assert findings["reason"].str.contains("cannot be judged").all()
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "does not predict held-out labels clearly better than chance" in page
    assert "The features do not predict" not in page


def test_rows_without_a_label_get_a_suggestion_all_the_same(tmp_path: Path) -> None:
    settings = {**FEATURES, "epochs": 1, "learning_rate": 1e-9}
    run = train(planted(), out=tmp_path / "run", method="cross_entropy", settings=settings)
    assert run.summary["informative"] is False
    last = run.findings.iloc[-1]
    assert last["status"] == "uncertain"
    assert last["corrected_label"] == last["predicted_label"]


def test_a_run_that_learns_is_judged(tmp_path: Path) -> None:
    settings = {**FEATURES, "epochs": 20, "holdout": 0.3}
    run = train(planted(), out=tmp_path / "run", method="cross_entropy", settings=settings)
    assert run.summary["informative"] is True
    assert run.summary["warning"] == ""
    assert run.summary["held_out"]["p_value"] <= LEVEL
    assert run.summary["n_corrected"] > 0


def test_what_the_command_says_of_a_run_that_learned(tmp_path: Path) -> None:
    data = planted()
    features = data.train.batch(torch.arange(119)).numpy()
    np.savez(tmp_path / "d.npz", features=features, labels=data.labels[:119].numpy())
    settings = {**FEATURES, "epochs": 20, "holdout": 0.3}
    chosen = [f"--set={key}={value}" for key, value in settings.items()]
    result = command(
        *("train", tmp_path / "d.npz", "--method", "cross_entropy"),
        *("--out", tmp_path / "run", *chosen),
    )
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    assert "csot predict" in result.stdout
    assert "csot review" in result.stdout


def test_without_held_out_rows_it_is_not_known(tmp_path: Path) -> None:
    settings = {**FEATURES, "epochs": 1, "holdout": 0.0}
    run = train(planted(), out=tmp_path / "run", method="cross_entropy", settings=settings)
    assert run.summary["informative"] is None
    assert run.summary["held_out"] is None
