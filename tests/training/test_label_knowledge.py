"""Verified rows, a cleaner's run and several annotators, as a start for training."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import csot
from csot.data import Columns, DataError
from csot.methods.csot import WARMUP
from csot.training import Source, train
from csot.training.config import TrainingConfig
from csot.training.from_config import rows_to_train_on
from csot.training.label_knowledge import (
    CleanedRun,
    compare_predictions,
    starting_posterior,
    unverified,
    with_consensus,
)
from methods import tiny
from training.quick import FEATURES, fails, planted

QUICK = {**FEATURES, "epochs": 5, "warmup": 2, "supervised_epochs": 4}
CLASSES = ["class 0", "class 1", "class 2"]


@pytest.fixture(scope="session")
def verified(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows 0 and 1 are wrong and corrected, row 50 is confirmed, row 119 had no label."""
    path = tmp_path_factory.mktemp("verified") / "verified.csv"
    truth = planted().true_labels
    assert truth is not None
    rows = [0, 1, 50, 119]
    labels = [CLASSES[int(truth[row])] for row in rows]
    pd.DataFrame({"id": [f"row {row}" for row in rows], "label": labels}).to_csv(path, index=False)
    return path


@pytest.fixture(scope="session")
def cleaned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cleaning run of the same rows."""
    folder, data = tmp_path_factory.mktemp("cleaned"), planted()
    features = data.train.batch(torch.arange(len(data))).numpy()
    labels = [CLASSES[label] if label >= 0 else None for label in data.labels.tolist()]
    table = pd.DataFrame(features, columns=list("abcde")).assign(id=data.ids, label=labels)
    table.to_csv(folder / "table.csv", index=False)
    return csot.clean_dataset(folder / "table.csv", folder / "run", label="label").path


def test_verified_rows_are_final(verified: Path, tmp_path: Path) -> None:
    header, *lines = verified.read_text().splitlines(keepends=True)
    files = [tmp_path / "first.csv", tmp_path / "second.csv"]
    for path, some in zip(files, (lines[:3], lines[2:]), strict=True):
        path.write_text("".join([header, *some]))
    run = train(
        planted(), out=tmp_path / "run", settings=QUICK, source=Source(verified=files)
    ).findings
    rows = run.loc[["row 0", "row 1", "row 50", "row 119"]]
    truth = [CLASSES[int(planted().true_labels[row])] for row in (0, 1, 50, 119)]  # type: ignore[index]
    assert rows["corrected_label"].tolist() == truth
    assert rows["note"].tolist() == ["verified"] * 4
    assert rows["confidence"].tolist() == [1.0] * 4
    assert rows["status"].tolist() == ["corrected", "corrected", "clean", "corrected"]
    assert not rows["is_label_issue"].any()  # as csot clean has it: a person has decided
    with pytest.raises(ValueError, match=r"was begun with dataset\.verified='.*', now it is None"):
        train(planted(), out=tmp_path / "run", settings=QUICK, resume=True)


def test_a_run_goes_on_with_the_same_labels_only(tmp_path: Path) -> None:
    noise = tmp_path / "noise.npy"
    np.save(noise, np.arange(120) % 3)
    given: dict[str, Any] = {
        "out": tmp_path / "run",
        "settings": {**FEATURES, "epochs": 1},
        "method": "cross_entropy",
        "noise": f"file:{noise}",
    }
    train(planted(), **given)
    other = Source(columns=Columns(label="z"))
    with pytest.raises(ValueError, match=r"dataset\.columns\.label=None, now it is 'z'"):
        train(planted(), resume=True, source=other, **given)
    with pytest.raises(ValueError, match=r"was begun with dataset\.content="):
        train(planted(wrong=23), resume=True, **given)
    np.save(noise, np.arange(120) % 2)
    with pytest.raises(ValueError, match=r"was begun with dataset\.noise_file="):
        train(planted(), resume=True, **given)


def test_verified_rows_are_trained_on_their_labels() -> None:
    data = planted()
    decided = torch.full((len(data),), -1)
    decided[:2] = data.true_labels[:2]  # type: ignore[index]
    data = replace(data, verified=decided, posterior=torch.full((len(data), 3), 1 / 3))
    assert data.targets[:2].tolist() == decided[:2].tolist()
    assert data.targets[2:].tolist() == data.labels[2:].tolist()
    posterior = starting_posterior(data)
    assert posterior is not None
    assert posterior[0, int(decided[0])] == 1
    assert posterior[5].tolist() == pytest.approx([1 / 3] * 3)
    for seed in range(5):
        generator = torch.Generator().manual_seed(seed)
        rows = rows_to_train_on(unverified(data), TrainingConfig(holdout=0.4), generator).tolist()
        assert {0, 1} <= set(rows)


@pytest.mark.parametrize(
    ("rows", "share", "least", "most", "held"),
    [
        (1000, 0.05, 200, 0.2, 200),
        (500, 0.05, 200, 0.2, 100),
        (500, 0.05, 200, 0.35, 175),
        (8000, 0.05, 200, 0.2, 400),
        (50, 0.1, 0, 0.2, 5),
    ],
)
def test_enough_rows_are_held_out(
    rows: int, share: float, least: int, most: float, held: int
) -> None:
    config = TrainingConfig(holdout=share, holdout_least=least, holdout_most=most)
    kept = rows_to_train_on(torch.zeros(rows, dtype=torch.int64), config, torch.Generator())
    assert rows - len(kept) == held


def test_csot_keeps_locked_rows_and_starts_from_the_posterior() -> None:
    where = tiny.context(epochs=4)
    where.locked = torch.arange(tiny.ROWS) < 3
    where.posterior = 0.05 + 0.85 * torch.nn.functional.one_hot(where.labels, tiny.CLASSES)
    method = tiny.make_csot(where, warmup=2, supervised_epochs=4)
    assert method.budget(2) >= 0.9 - 1e-6  # in place of 0.3
    with torch.no_grad():
        method.begin_epoch(3)
    assert bool(method.clean[:3].all())
    assert bool(method.selected[:3].all())
    assert method.labels[:3].tolist() == where.labels[:3].tolist()


def test_the_warmup_learns_the_posterior() -> None:
    """-<q, log p> on the weak view, by hand."""
    where = tiny.context()
    where.posterior = torch.rand(tiny.ROWS, 3, generator=torch.Generator().manual_seed(0))
    where.posterior /= where.posterior.sum(1, keepdim=True)
    method = tiny.make_csot(where, warmup=4)
    rows = torch.arange(6)
    part = tiny.part(method, rows)
    with torch.no_grad():
        loss = float(method({WARMUP: part})["warmup"])
        weak = tiny.given_views(where.views.weak)[0]
        logits = method.network(torch.from_numpy(weak).float()).logits.double()
    expected = -(where.posterior[rows].double() * logits.log_softmax(1)).sum(1).mean()
    assert loss == pytest.approx(float(expected), abs=1e-5)


def test_a_run_starts_from_a_cleaner(cleaned: Path, tmp_path: Path) -> None:
    data = planted()
    run = train(data, out=tmp_path / "run", settings=QUICK, source=Source(from_clean=cleaned))
    found = run.summary["from_clean"]
    assert found["believe"] in ("network", "cleaner", "neither")
    assert "cleaner and network" in found["words"]
    said = run.findings["reason"].str.contains("The cleaner predicts").sum()
    assert said == found["rows"]
    read = CleanedRun.read(cleaned, data)
    assert read.posterior.shape == (120, 3)
    torch.testing.assert_close(read.posterior.sum(1), torch.ones(120))
    assert (read.predicted == data.true_labels).float().mean() > 0.9


def test_another_cleaner_is_refused(cleaned: Path, tmp_path: Path) -> None:
    data = planted()
    other = replace(data, ids=[f"x{row}" for row in range(len(data))])
    with pytest.raises(DataError, match="knows none of the ids"):
        CleanedRun.read(cleaned, other)
    with pytest.raises(DataError, match="has the classes class 0"):
        CleanedRun.read(cleaned, replace(data, class_names=["a", "b", "c"]))
    line = fails(
        "train", "digits", "--method", "elr", "--from-clean", cleaned, "--out", tmp_path / "r"
    )
    assert "elr cannot start from probabilities" in line
    trained = tmp_path / "trained"
    shutil.copytree(cleaned, trained)
    (trained / "config.yaml").touch()
    line = fails("train", "digits", "--from-clean", trained, "--out", tmp_path / "r")
    assert "is a training run: give a run of csot clean" in line
    assert not (tmp_path / "r").exists()


def test_noise_is_not_undone_by_what_is_known(cleaned: Path, tmp_path: Path) -> None:
    """Votes and a cleaner saw the labels before the noise."""
    votes = pd.DataFrame({"sample": planted().ids, "annotator": "a", "label": "class 0"})
    for data, source in (
        (planted(), Source(from_clean=cleaned)),
        (planted(), Source(columns=Columns(annotator="who"))),
        (replace(planted(), votes=votes), Source()),
    ):
        with pytest.raises(DataError, match=r"noise sym:0\.5 and `\w+`: what is known"):
            train(data, out=tmp_path / "r", noise="sym:0.5", settings=QUICK, source=source)
    assert not (tmp_path / "r").exists()


def test_which_of_two_to_believe() -> None:
    labels = torch.zeros(100, dtype=torch.int64)
    network, cleaner = labels.clone(), labels.clone()
    cleaner[:30] = 1  # the labels side with the network
    network[30:35] = 1
    difference = compare_predictions(network, cleaner, labels, torch.arange(50, 100))
    assert (difference.rows, difference.for_network, difference.for_cleaner) == (35, 30, 5)
    assert difference.believe == "network"
    assert "believe the network" in difference.words()
    few = compare_predictions(network, cleaner, labels, torch.arange(2, 100))
    assert few.believe == "neither"
    assert "agree on every row" in compare_predictions(labels, labels, labels, labels).words()


def test_annotators_become_a_posterior() -> None:
    """Two careful annotators and one who guesses: the careful ones are believed."""
    data = planted()
    assert data.true_labels is not None
    truth = data.true_labels.numpy()
    rng = np.random.default_rng(0)
    votes = []
    for name, wrong in (("a", 0.05), ("b", 0.05), ("c", 0.6)):
        given = np.where(rng.random(len(truth)) < wrong, (truth + 1) % 3, truth)
        votes += [(key, name, CLASSES[k]) for key, k in zip(data.ids, given, strict=True)]
    table = pd.DataFrame(votes, columns=["sample", "annotator", "label"])
    found = with_consensus(replace(data, votes=table)).posterior
    assert found is not None
    assert (found.argmax(1).numpy() == truth).mean() > 0.97
    assert with_consensus(data).posterior is None
