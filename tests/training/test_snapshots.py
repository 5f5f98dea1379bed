"""What a run keeps for figures: features and predictions of some rows, and the true labels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from csot.runs import Run
from csot.runs.snapshots import Snapshot, read_snapshot, snapshot_epochs, write_snapshot
from csot.runs.truth import judged_labels
from csot.training.run_folder import epochs_to_snapshot, snapshot_rows


def test_a_run_keeps_snapshots(digits_run: Path) -> None:
    assert snapshot_epochs(digits_run) == [1, 2, 3, 4]
    seen = read_snapshot(digits_run)
    # 200 rows, of which a tenth is held out: all the others are kept.
    assert seen.pred_probs.shape == (180, 10)
    np.testing.assert_allclose(seen.pred_probs.sum(1), 1, atol=1e-5)
    assert seen.class_names == [str(digit) for digit in range(10)]
    assert seen.labels is not None
    assert seen.truth is not None
    findings = Run.open(digits_run).read_findings()
    trained = findings[findings["note"] != "held out"]
    assert trained["given_label"].astype(int).tolist() == seen.labels.tolist()
    known = judged_labels(Run.open(digits_run))["true_label"].astype(int)
    assert known.loc[trained.index.astype(str)].tolist() == seen.truth.tolist()
    summary = Run.open(digits_run).read_summary()
    wrong = (known.to_numpy() != findings["given_label"].astype(int).to_numpy()).mean()
    assert wrong == pytest.approx(summary["noise_rate_realised"])


def test_bounded_in_number() -> None:
    epochs = epochs_to_snapshot(450)
    assert len(epochs) == 12
    assert {1, 450} <= epochs
    assert epochs_to_snapshot(1) == {1}
    rows = torch.arange(10, 5000)
    chosen = snapshot_rows(rows, 200, torch.Generator().manual_seed(0))
    assert len(set(chosen.tolist())) == 200
    assert set(chosen.tolist()) <= set(rows.tolist())
    assert len(snapshot_rows(rows, 0, torch.Generator())) == 0


def test_written_and_read_again(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    features = 1e6 * rng.normal(size=(6, 4))
    probs = rng.dirichlet(np.ones(3), 6)
    write_snapshot(tmp_path, 3, Snapshot(probs, features, np.array([0, 1, 2, -1, 0, 0])))
    again = read_snapshot(tmp_path, 3)
    assert again.truth is None
    assert again.labels is not None
    assert again.labels.tolist() == [0, 1, 2, -1, 0, 0]
    np.testing.assert_array_equal(again.pred_probs, probs.astype(np.float32))
    # Only the unit is lost: angles and ratios are those of the features.
    scale = np.abs(features).max()
    np.testing.assert_allclose(again.features * scale, features, atol=1e-3 * scale)


def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has no snapshots: train it again with `snapshot_rows`"):
        read_snapshot(tmp_path)
    write_snapshot(tmp_path, 3, Snapshot(np.ones((2, 2)), np.ones((2, 2))))
    with pytest.raises(ValueError, match=r"no snapshot of epoch 4: it has \[3\]"):
        read_snapshot(tmp_path, 4)
    (tmp_path / "snapshots" / "epoch-3.npz").write_bytes(b"broken")
    with pytest.raises(ValueError, match=r"epoch-3.npz is not a snapshot of a training run"):
        read_snapshot(tmp_path)


def test_true_labels_that_do_not_fit(digits_run: Path, tmp_path: Path) -> None:
    run = Run.open(digits_run)
    pd.DataFrame({"id": ["x"], "true_label": ["3"]}).to_csv(tmp_path / "truth.csv", index=False)
    with pytest.raises(ValueError, match=r"truth.csv has no id of .*: ids there are such as"):
        judged_labels(run, tmp_path / "truth.csv")
    pd.DataFrame({"id": ["x"], "truth": ["3"]}).to_csv(tmp_path / "truth.csv", index=False)
    with pytest.raises(ValueError, match="needs the columns id and true_label, it has id, truth"):
        judged_labels(run, tmp_path / "truth.csv")
    first = run.read_findings().index[0]
    assert judged_labels(run, {first: 3})["true_label"].tolist() == ["3"]
