"""The loop end to end, in seconds."""

from __future__ import annotations

import csv
import dataclasses
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor

from csot._core.ranks import Ranks
from csot.data import DataError
from csot.data.augment.views import feature_views
from csot.data.datasets.core.dataset_registry import TestSet, TrainingData, read_training_data
from csot.data.samples import ImageFiles, Samples
from csot.methods.core.contract import Context, Part
from csot.nets.build import build_network
from csot.runs import Run
from csot.runs.findings import check_findings
from csot.training import Trained, train
from csot.training.evaluate import Evaluator
from csot.training.progress import Progress
from image_files import write_image
from training.quick import FEATURES, SETTINGS, assert_same_run, metrics, planted

CSOT = {"warmup": 1, "supervised_epochs": 3}


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    out = tmp_path_factory.mktemp("digits") / "run"
    return train("digits", out=out, noise="sym:0.5", settings=SETTINGS)


def test_files_and_summary(digits: Trained) -> None:
    held = {path.name for path in digits.path.iterdir()}
    assert held >= {
        "config.yaml",
        "metrics.csv",
        "checkpoints",
        "findings.csv",
        "corrected.csv",
        "probabilities.npy",
        "features.npy",
        "samples.csv",
        "images",
        "summary.json",
        "report.html",
        "curves.png",
    }
    summary = json.loads((digits.path / "summary.json").read_text())
    assert summary == digits.summary
    assert summary["n_rows"] == 200
    assert summary["epochs"] == 4
    # A wrong label is drawn among all classes, so a tenth of them is right by chance.
    assert summary["noise_rate_realised"] == pytest.approx(0.45, abs=0.06)
    for key in ("test_accuracy_best", "test_accuracy_last", "test_accuracy_peak"):
        assert 0 <= summary[key] <= 1
    assert summary["test_accuracy_peak"] >= summary["test_accuracy_last"]
    assert summary["test_accuracy_last"] <= summary["test_top5_last"] <= 1
    assert summary["further_tests"] == {}
    assert summary["hardware"]
    assert summary["seconds"] > 0
    assert 1 <= summary["best_epoch"] <= 4
    assert np.shape(summary["noise_matrix_realised"]) == (10, 10)
    page = (digits.path / "report.html").read_text(encoding="utf-8")
    last, five = (f"{summary[f'test_{name}_last']:.2%}" for name in ("accuracy", "top5"))
    assert f'<th scope="row">test set, last epoch</th><td>{last}, top 5 {five}</td>' in page


def test_metrics(digits: Trained) -> None:
    table = pd.read_csv(digits.path / "metrics.csv")
    assert table["epoch"].tolist() == [1, 2, 3, 4]
    assert table["stage"].tolist()[0] == 0
    assert {
        "learning_rate",
        "loss",
        "loss_warmup",
        "loss_mix",
        "loss_lab",
        "loss_simsiam",
        "budget",
        "selected",
        "clean",
        "corrected",
        "plan_disagreement",
        "plan_converged",
        "test_accuracy",
        "test_top5",
        "holdout_accuracy",
        "clean_accuracy",
        "corrected_accuracy",
        "clean_recall",
        "seconds",
    } <= set(table.columns)
    parts = [name for name in table if name.startswith("loss_")]
    np.testing.assert_allclose(table["loss"], table[parts].sum(axis=1), rtol=1e-5)
    best = table["holdout_accuracy"][::-1].idxmax() + 1  # the last of equals
    assert digits.summary["best_epoch"] == best
    # Old versions of pandas read the last bit wrongly.
    with open(digits.path / "metrics.csv", newline="") as file:
        accuracies = [float(row["test_accuracy"]) for row in csv.DictReader(file)]
    assert digits.summary["test_accuracy_best"] == accuracies[best - 1]
    assert digits.summary["test_accuracy_last"] == accuracies[3]


def test_findings(digits: Trained) -> None:
    findings = Run.open(digits.path).read_findings()
    check_findings(findings)
    assert len(findings) == 200
    assert (findings["note"] == "held out").sum() == 20
    assert set(findings["given_label"]) == {str(digit) for digit in range(10)}
    probabilities = np.load(digits.path / "probabilities.npy")
    np.testing.assert_allclose(probabilities.sum(1), 1, atol=1e-5)
    samples = pd.read_csv(digits.path / "samples.csv")
    assert all((digits.path / name).exists() for name in samples["image"].dropna())


def test_same_seed_same_numbers(digits: Trained, digits_run: Path) -> None:
    """From Python and by the command: the same files with the same contents."""
    assert_same_run(digits.path, digits_run)
    names = [{path.name for path in run.iterdir()} for run in (digits.path, digits_run)]
    assert names[0] == names[1]


def test_callbacks_are_called_in_order(tmp_path: Path) -> None:
    calls: list[tuple[str, int]] = []
    progress = Progress(
        on_start=lambda config: calls.append(("start", config.training.epochs)),
        on_step=lambda step: calls.append(("step", step)),
        on_epoch=lambda history: calls.append(("epoch", len(history))),
    )
    settings = {**FEATURES, "epochs": 2, "batch_size": 54}
    train(
        planted(),
        out=tmp_path / "run",
        method="cross_entropy",
        settings=settings,
        progress=progress,
    )
    epoch = [("step", 1), ("step", 2)]
    assert calls == [("start", 2), *epoch, ("epoch", 1), *epoch, ("epoch", 2)]


def test_another_seed_other_numbers(digits: Trained, tmp_path: Path) -> None:
    train("digits", out=tmp_path / "run", noise="sym:0.5", seed=1, settings=SETTINGS)
    other = metrics(tmp_path / "run")
    assert (other["loss"] != metrics(digits.path)["loss"]).all()


@pytest.mark.parametrize("method", ["csot", "cross_entropy"])
def test_features_of_ones_own(tmp_path: Path, method: str) -> None:
    settings = {**FEATURES, "epochs": 12}
    if method == "csot":
        settings |= {"warmup": 4, "supervised_epochs": 9}
    run = train(planted(), out=tmp_path / "run", method=method, settings=settings)
    assert run.summary["test_accuracy_last"] > 0.8
    assert run.summary["n_unlabelled"] == 1
    assert run.summary["noise_rate_realised"] == pytest.approx(24 / 119)
    last = run.findings.iloc[-1]
    assert last["given_label"] is None
    assert last["status"] == "uncertain"
    assert last["note"] == "no label given"
    check_findings(run.findings)


class Watched(Samples):
    """Remembers the rows that are asked for while gradients are on: those trained on."""

    def __init__(self, inner: Samples) -> None:
        self.inner, self.kind, self.shape = inner, inner.kind, inner.shape
        self.trained: set[int] = set()

    def __len__(self) -> int:
        return len(self.inner)

    def batch(self, rows: Tensor) -> Tensor:
        if torch.is_grad_enabled() and len(rows) < len(self):
            self.trained |= set(rows.tolist())
        return self.inner.batch(rows)


@pytest.mark.parametrize("method", ["csot", "cross_entropy"])
def test_held_out_rows_are_never_trained_on(tmp_path: Path, method: str) -> None:
    data = planted()
    watched = Watched(data.train)
    settings = {**FEATURES, "holdout": 0.3, **(CSOT if method == "csot" else {})}
    run = train(
        dataclasses.replace(data, train=watched),
        out=tmp_path / "run",
        method=method,
        settings=settings,
    )
    held = np.flatnonzero(run.findings["note"] == "held out")
    assert len(held) == int(0.3 * 119)
    assert watched.trained
    assert not watched.trained & set(held.tolist())
    assert watched.trained | set(held.tolist()) == set(range(120))


def test_a_method_knows_no_true_labels() -> None:
    """Neither what it is made with nor what it is called with has a place for them."""
    for kind in (Context, TrainingData):
        names = {field.name for field in dataclasses.fields(kind)}
        assert ("true_labels" in names) == (kind is TrainingData)
    assert not {"data", "truth", "tests"} & {field.name for field in dataclasses.fields(Context)}
    given = vars(Part(*[torch.zeros(1)] * 3, None, 1))  # type: ignore[arg-type]
    assert {name.strip("_") for name in given} == {"rows", "inputs", "labels", "ranks", "whole"}


def test_true_labels_change_no_number(tmp_path: Path) -> None:
    data = planted()
    settings = {**FEATURES, **CSOT}
    known = train(data, out=tmp_path / "known", settings=settings)
    hidden = dataclasses.replace(data, true_labels=None)
    unknown = train(hidden, out=tmp_path / "unknown", settings=settings)
    curves = ["clean_accuracy", "corrected_accuracy", "clean_recall"]
    times = ["seconds", "relabel_seconds"]
    first = known.history.drop(columns=[*times, *curves])
    pd.testing.assert_frame_equal(first, unknown.history.drop(columns=times))
    pd.testing.assert_frame_equal(known.findings, unknown.findings)
    assert "noise_rate_realised" not in unknown.summary


def test_no_holdout_no_test_set(tmp_path: Path) -> None:
    data = dataclasses.replace(planted(), tests=[])
    settings = {**FEATURES, "holdout": 0, "epochs": 3, "checkpoint_every": 2}
    seen: list[int] = []

    def on_epoch(history: list[dict[str, float]]) -> None:
        seen.append(len(history))
        saved = {path.name for path in (tmp_path / "run" / "checkpoints").glob("epoch-*")}
        assert saved == ({f"epoch-{len(history)}"} if len(history) > 1 else set())

    run = train(
        data,
        out=tmp_path / "run",
        method="cross_entropy",
        settings=settings,
        progress=Progress(on_epoch=on_epoch),
    )
    assert seen == [1, 2, 3]
    assert run.summary["best_epoch"] == 3
    assert "test_accuracy_last" not in run.summary


def test_accumulated_gradients_are_those_of_a_larger_batch(tmp_path: Path) -> None:
    """Of cross-entropy without batch normalisation, where a mean of means is the mean."""
    settings = {**FEATURES, "network.options": {"hidden": [16], "norm": "none"}, "weak_noise": 0.0}
    settings |= {"holdout": 0, "evaluate_every": 2}
    whole = {**settings, "batch_size": 24}
    parts = {**settings, "batch_size": 12, "accumulate": 2}
    data = planted(121).take(torch.arange(120))  # without the row that has no label
    runs = [
        train(data, out=tmp_path / name, method="cross_entropy", settings=chosen)
        for name, chosen in (("whole", whole), ("parts", parts))
    ]
    np.testing.assert_allclose(runs[0].history["loss"], runs[1].history["loss"], rtol=1e-4)
    assert runs[0].history["test_accuracy"].isna().tolist() == [True, False, True, False]
    assert "test_top5" not in runs[0].history, "there are three classes"


def test_clipping_and_adam(tmp_path: Path) -> None:
    settings = {**FEATURES, "clip": 0.1, "optimiser.name": "adam", "learning_rate": 0.01}
    run = train(planted(), out=tmp_path / "run", method="cross_entropy", settings=settings)
    assert run.history["loss"].iloc[-1] < run.history["loss"].iloc[0]


def test_a_subset_of_its_own_in_each_epoch_and_a_clean_set_to_choose_by(tmp_path: Path) -> None:
    data = planted()
    further = dataclasses.replace(data.tests[0], name="clean_val")
    data = dataclasses.replace(data, tests=[*data.tests, further])
    settings = {**FEATURES, "subset": 3, "select_on": "clean_val", "noise_rate": 0.2}
    run = train(data, out=tmp_path / "run", method="co_teaching", settings=settings)
    assert run.summary["selected_on"] == "clean_val"
    chosen = run.history["test_accuracy_clean_val"]
    assert chosen[run.summary["best_epoch"] - 1] == chosen.max()
    # Each network is reported by itself, and the first one predicts.
    assert {"network1_accuracy", "network2_accuracy"} <= set(run.history)
    assert (run.history["network1_accuracy"] == run.history["test_accuracy"]).all()
    with pytest.raises(ValueError, match="set `noise_rate`"):
        train(
            data,
            out=tmp_path / "unknown",
            method="co_teaching",
            settings={**FEATURES, "subset": 3},
        )


def test_predictions_of_weak_views_do_not_depend_on_the_number_of_rows_at_a_time() -> None:
    data = planted()
    views = feature_views(scale=1.0, dim=5, weak_noise=0.5)
    network = build_network("mlp", shape=(5,), num_classes=3, width=4)
    rows = torch.arange(7, 60)
    weak, again, plain = (
        Evaluator(views.plain, batch, torch.device("cpu"), Ranks()).predictions(
            network, data.train, rows, view, torch.Generator().manual_seed(0)
        )
        for view, batch in ((views.weak, 8), (views.weak, 512), (None, 8))
    )
    torch.testing.assert_close(weak.logits, again.logits)
    assert not torch.allclose(weak.logits, plain.logits)


def test_views_are_cut_from_whole_images(tmp_path: Path) -> None:
    """Training images keep their ends, test images are squares; both reach the network."""
    for row in range(16):
        size = (20 + row, 20) if row % 2 else (20, 20 + 2 * row)
        write_image(tmp_path / f"{row}.png", 60 + 100 * (row % 2), size)
    paths = [tmp_path / f"{row}.png" for row in range(16)]
    labels = torch.arange(16) % 2
    data = TrainingData(
        name="pictures",
        train=ImageFiles(paths, 20, whole=True),
        labels=labels,
        class_names=["dark", "light"],
        ids=[path.name for path in paths],
        tests=[TestSet("test", ImageFiles(paths, 20), labels)],
        mean=(0.5,) * 3,
        std=(0.25,) * 3,
    )
    settings = {
        "epochs": 3,
        "batch_size": 8,
        "network.name": "resnet8",
        "network.width": 4,
        "views.crop": 16,
        "views.crop_scale": 0.3,
        "views.policy": "simclr",
        "views.cutout": 8,
        "learning_rate": 0.05,
        **CSOT,
    }
    run = train(data, out=tmp_path / "run", settings=settings)
    assert run.history["loss"].notna().all()
    assert run.summary["test_accuracy_last"] >= 0.5


def test_only_images_in_files_can_be_whole() -> None:
    with pytest.raises(DataError, match="`whole` is for webvision and clothing1m"):
        read_training_data("digits", whole=True)
