"""The small parts of the loop."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn

from csot._core.ranks import Ranks
from csot.data.samples import InMemory
from csot.methods.core.contract import Judgement, Split
from csot.runs.findings import check_findings
from csot.runs.summary import measured_accuracies
from csot.training.config import (
    OptimiserConfig,
    RunConfig,
    ScheduleConfig,
    TrainingConfig,
    learning_rate,
)
from csot.training.evaluate import accuracy, average_statistics, split_accuracy
from csot.training.from_config import (
    balanced_subset,
    generator_for,
    make_optimiser,
    mean_and_spread,
    rows_to_train_on,
)
from csot.training.loop import best_epoch, selection_key
from csot.training.method_inputs import prefetch
from csot.training.progress import Record
from csot.training.results import (
    accuracies,
    estimated_noise_matrix,
    estimated_noise_rate,
    findings_of,
    principal_axes,
)
from training.quick import planted


def rates(epochs: int = 10, **schedule: object) -> list[float]:
    made = ScheduleConfig.model_validate(schedule)
    return [learning_rate(2.0, made, epoch, epochs) for epoch in range(1, epochs + 1)]


def test_cosine_is_torchs() -> None:
    optimiser = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=2.0)
    theirs = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, T_max=10, eta_min=0.2)
    wanted = []
    for _ in range(10):
        wanted.append(optimiser.param_groups[0]["lr"])
        optimiser.step()
        theirs.step()
    assert rates(name="cosine", floor=0.2) == pytest.approx(wanted)


def test_other_schedules() -> None:
    assert rates(name="constant") == [2.0] * 10
    steps = rates(name="steps", milestones=[3, 8], factor=0.1)
    assert steps == pytest.approx([2.0] * 3 + [0.2] * 5 + [0.02] * 2)
    line = rates(name="linear", linear_from=6)
    assert line == pytest.approx([2.0] * 6 + [2.0, 1.5, 1.0, 0.5])
    again = rates(name="restarts", period=5)
    assert again[:5] == pytest.approx(again[5:])
    assert again[0] == 2.0
    rising = rates(name="constant", warmup_epochs=3)
    assert rising == pytest.approx([0.5, 1.0, 1.5, *[2.0] * 7])
    assert all(math.isfinite(rate) for rate in rates(epochs=1, name="linear", linear_from=5))


def test_optimisers() -> None:
    groups = [{"params": [nn.Parameter(torch.zeros(2))]}]
    sgd = make_optimiser(groups, OptimiserConfig(nesterov=True, momentum=0.8))
    assert isinstance(sgd, torch.optim.SGD)
    assert sgd.defaults["nesterov"]
    adam = make_optimiser(groups, OptimiserConfig(name="adam", momentum=0.8))
    assert adam.defaults["betas"] == (0.8, 0.999)


def test_held_out_rows_have_labels() -> None:
    labels = torch.arange(100) % 4
    labels[::5] = -1
    rows = rows_to_train_on(labels, TrainingConfig(holdout=0.25), generator_for(0, 1))
    held = sorted(set(range(100)) - set(rows.tolist()))
    assert len(held) == 20
    assert (labels[held] >= 0).all()
    assert rows.tolist() == sorted(rows.tolist())
    kept = rows_to_train_on(labels, TrainingConfig(), generator_for(0, 1))
    assert kept.tolist() == list(range(100))


def test_streams_of_random_numbers_differ() -> None:
    paths = [(0, 1), (1, 0), (0, 1, 1), (0, 1, 2), (0, 2, 1), (1, 1, 1)]
    first = {float(torch.rand((), generator=generator_for(*path))) for path in paths}
    assert len(first) == len(paths)
    assert generator_for(7, 1, 2).initial_seed() == generator_for(7, 1, 2).initial_seed()


def test_accuracy_counts_labelled_rows() -> None:
    log_probs = torch.log(torch.tensor([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]]))
    assert accuracy(log_probs, torch.tensor([0, 0, -1])) == 0.5
    assert math.isnan(accuracy(log_probs, torch.tensor([-1, -1, -1])))


def test_top_five() -> None:
    """Against ranks counted one by one; of equals the first class counts as more probable."""
    generator = torch.Generator().manual_seed(0)
    log_probs = torch.randn(40, 8, generator=generator).round()
    labels = torch.randint(-1, 8, (40,), generator=generator)
    hits = []
    for row, label in zip(log_probs.tolist(), labels.tolist(), strict=True):
        if label >= 0:
            ahead = sum(
                value > row[label] or (value == row[label] and c < label)
                for c, value in enumerate(row)
            )
            hits.append(ahead < 5)
    assert accuracy(log_probs, labels, 5) == pytest.approx(sum(hits) / len(hits))
    assert accuracy(log_probs, labels, 8) == 1


def test_accuracies_of_several_test_sets() -> None:
    history: list[Record] = [
        {"epoch": 1, "test_accuracy": 0.5, "test_top5": 0.9, "test_accuracy_other": 0.3},
        {"epoch": 2},
        {"epoch": 3, "test_accuracy": 0.4, "test_top5": 0.95, "test_accuracy_other": 0.35},
    ]
    assert accuracies(history, 1) == {
        "test_accuracy_best": 0.5,
        "test_accuracy_last": 0.4,
        "test_accuracy_peak": 0.5,
        "test_top5_best": 0.9,
        "test_top5_last": 0.95,
        "test_top5_peak": 0.95,
        "further_tests": {
            "other": {"accuracy_best": 0.3, "accuracy_last": 0.35, "accuracy_peak": 0.35}
        },
    }
    assert accuracies([{"epoch": 1}], 1) == {}


def test_accuracies_in_words() -> None:
    summary = {
        **accuracies([{"epoch": 1, "test_accuracy": 0.5, "test_accuracy_other": 0.25}], 1),
        "test_top5_last": 0.75,
        "best_epoch": 1,
    }
    found = list(measured_accuracies(summary))
    assert [(one.test, one.text()) for one in found] == [
        ("test set", "50.00%, top 5 75.00%"),
        ("test set", "50.00%"),
        ("other", "25.00%"),
        ("other", "25.00%"),
    ], "last and highest, but not best: no rows were held out"
    words = [one.when for one in measured_accuracies({**summary, "held_out": {"rows": 3}})]
    assert words[1] == "epoch 1 (best on held-out labels)"
    words = [one.when for one in measured_accuracies({**summary, "selected_on": "clean_val"})]
    assert words[1] == "epoch 1 (best on clean_val)"


def test_the_three_curves() -> None:
    """Six rows: four are trained on and have a known truth."""
    split = Split(
        clean=torch.tensor([True, True, False, False, True, True]),
        corrected=torch.tensor([False, False, True, True, False, False]),
        labels=torch.tensor([0, 1, 1, 0, 0, 0]),
    )
    given = torch.tensor([0, 0, 0, 1, 1, -1])
    truth = torch.tensor([0, 1, 1, 1, 1, -1])
    found = split_accuracy(split, torch.tensor([0, 1, 2, 3, 5]), given, truth)
    # Trusted: rows 0 and 1, the first is right. Replaced: 2 and 3, the first rightly. Right labels
    # have rows 0 and 3, of which 0 is trusted.
    assert found == {"clean_accuracy": 0.5, "corrected_accuracy": 0.5, "clean_recall": 0.5}
    empty = Split(*[torch.zeros(6, dtype=torch.bool)] * 2, split.labels)
    none = split_accuracy(empty, torch.arange(6), given, truth)
    assert math.isnan(none["clean_accuracy"])
    assert none["clean_recall"] == 0


class Fellows(Ranks):
    """Another process that always has zeros."""

    def __init__(self) -> None:
        super().__init__(0, 2)

    def mean(self, local: Tensor) -> Tensor:
        return local / 2


def test_statistics_of_processes_are_averaged() -> None:
    module = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.BatchNorm1d(3, affine=False))
    module(torch.randn(8, 3, generator=torch.Generator().manual_seed(0)))
    before = {name: value.clone() for name, value in module.state_dict().items()}
    average_statistics(module, Ranks())
    assert all(value.equal(before[name]) for name, value in module.state_dict().items())
    average_statistics(module, Fellows())
    for name, value in module.state_dict().items():
        wanted = before[name] / 2 if "running" in name else before[name]
        assert value.equal(wanted), name


@pytest.mark.parametrize("count", [1, 7, 12, 20, 100])
def test_a_subset_is_balanced_and_random(count: int) -> None:
    """The rule of DivideMix's code, row by row: a class is full at count / C rows."""
    labels = torch.tensor([0] * 3 + [1] * 20 + [2] * 30 + [-1] * 5)
    rows = torch.arange(2, 58)
    found = balanced_subset(rows, labels, count, torch.Generator().manual_seed(1))
    order = rows[torch.randperm(len(rows), generator=torch.Generator().manual_seed(1))].tolist()
    taken: list[int] = []
    each = [0, 0, 0]
    for row in order:
        label = int(labels[row])
        if label >= 0 and each[label] < count / 3 and len(taken) < count:
            taken.append(row)
            each[label] += 1
    assert found.tolist() == sorted(taken)
    other = balanced_subset(rows, labels, count, torch.Generator().manual_seed(2))
    assert count == 100 or found.tolist() != other.tolist()


def test_an_epoch_may_be_chosen_by_a_clean_set() -> None:
    data = planted()
    assert selection_key(None, data) == "holdout_accuracy"
    with pytest.raises(ValueError, match="'clean_val' is not a further set"):
        selection_key("clean_val", data)
    further = replace(data, tests=[*data.tests, replace(data.tests[0], name="clean_val")])
    key = selection_key("clean_val", further)
    history = [
        {"epoch": 1.0, "holdout_accuracy": 0.9, key: 0.1},
        {"epoch": 2.0, "holdout_accuracy": 0.1, key: 0.9},
    ]
    assert (best_epoch(history), best_epoch(history, key)) == (1, 2)


def test_the_best_epoch() -> None:
    history = [{"epoch": 1.0}, {"epoch": 2.0, "holdout_accuracy": 0.5}]
    assert best_epoch(history[:1]) == 1
    assert best_epoch(history) == 2
    history += [{"epoch": 3.0, "holdout_accuracy": 0.5}, {"epoch": 4.0, "holdout_accuracy": 0.4}]
    assert best_epoch(history) == 3, "the last of equals"


def test_ahead_keeps_order_and_reads_one_in_advance() -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for number in range(5):
            taken.append(number)
            yield number

    stream = prefetch(items())
    assert next(stream) == 0
    time.sleep(0.05)
    assert taken == [0, 1]
    assert list(stream) == [1, 2, 3, 4]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("prefetch")]


def test_an_error_in_the_reading_thread_is_raised() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise OSError("the disk is gone")

    stream = prefetch(items())
    with pytest.raises(OSError, match="the disk is gone"):
        list(stream)


def test_mean_and_spread() -> None:
    values = np.random.default_rng(0).normal(3, 2, (50, 3))
    values[:, 2] = 7
    mean, spread = mean_and_spread(InMemory(torch.from_numpy(values)))
    np.testing.assert_allclose(mean, values.mean(0), rtol=1e-5)
    np.testing.assert_allclose(spread[:2], values.std(0)[:2], rtol=1e-5)
    assert spread[2] == 1


def test_findings_of_a_judgement() -> None:
    """Corrected where trusted and another class; uncertain where not trusted or without a label."""
    data = planted(rows=6, wrong=2)
    posterior = torch.eye(3)[data.true_labels] * 0.7 + 0.1
    trusted = torch.tensor([True, False, True, True, False, True])
    judged = Judgement(posterior, trusted, scores=posterior[:, 0])
    findings = check_findings(findings_of(data, judged, torch.tensor([0, 1, 2, 3, 5])))
    status = ["corrected", "uncertain", "clean", "clean", "uncertain", "uncertain"]
    assert findings["status"].tolist() == status
    assert findings["is_label_issue"].tolist() == [True, *[False] * 5]
    assert findings["note"].tolist() == ["", "", "", "", "held out", "no label given"]
    assert findings["corrected_label"].iloc[0] == "class 0"
    assert findings["corrected_label"].iloc[1] == findings["given_label"].iloc[1]
    assert pd.isna(findings["given_label"].iloc[5])
    assert findings["corrected_label"].iloc[5] == findings["predicted_label"].iloc[5]


def test_estimates_of_the_noise() -> None:
    posterior = np.array([[0.9, 0.1], [0.2, 0.8], [0.4, 0.6], [0.5, 0.5]])
    labels = np.array([0, 0, 1, -1])
    assert estimated_noise_rate(posterior, labels) == pytest.approx(1 - (0.9 + 0.2 + 0.6) / 3)
    matrix = estimated_noise_matrix(posterior, labels)
    wanted = np.array([[1.1, 0.4], [0.9, 0.6]])
    np.testing.assert_allclose(matrix, wanted / wanted.sum(1, keepdims=True))
    assert estimated_noise_rate(posterior, np.full(4, -1)) == 0


def test_principal_axes_keep_distances() -> None:
    features = np.random.default_rng(0).normal(size=(20, 4))
    axes = principal_axes(features)
    np.testing.assert_allclose(
        np.linalg.norm(axes[3] - axes[7]), np.linalg.norm(features[3] - features[7])
    )
    assert principal_axes(features, 2).shape == (20, 2)
    assert axes.var(0).tolist() == sorted(axes.var(0), reverse=True)


def test_what_makes_a_run_the_same() -> None:
    one = RunConfig(data="digits", method="csot")
    other = one.model_copy(update={"machine": one.machine.model_copy(update={"devices": 4})})
    assert one.identity() == other.identity()
    assert one.identity() != one.model_copy(update={"seed": 1}).identity()
