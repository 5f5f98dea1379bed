"""Two processes do what one does: the same split, and the same losses up to rounding."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from csot.runs import Run
from training.quick import command, finished, metrics, started

TORCHRUN = ("-m", "torch.distributed.run", "--nproc-per-node=2")
COMMON = {
    # Batch normalisation looks at the rows of its own process only.
    "training.network.options.norm": "none",
    "network.width": 8,
    "dataset.limit": 320,
    "training.epochs": 3,
    "learning_rate": 0.02,
    "batch_size": 32,
}
CSOT = {"simsiam_norm": "none", "warmup": 1, "supervised_epochs": 2}


def arguments(method: str) -> list[str]:
    chosen = {**COMMON, **(CSOT if method == "csot" else {})}
    pairs = [f"--set={key}={value}" for key, value in chosen.items()]
    return ["train", "digits", "--method", method, "--noise", "sym:0.4", *pairs]


@pytest.mark.parametrize("method", ["csot", "cross_entropy"])
def test_two_processes_are_one(method: str, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    # The one is started by torchrun, the other starts its fellow by itself.
    if method == "csot":
        processes = started(*arguments(method), "--out", two, launcher=TORCHRUN)
    else:
        processes = started(*arguments(method), "--out", two, "--devices", "2")
    with processes:  # meanwhile this one
        result = command(*arguments(method), "--out", one)
        out = finished(processes)
    assert result.exit_code == 0, result.output
    assert out.count(f"{method} on digits") == 1, "only the first process talks"
    pd.testing.assert_frame_equal(metrics(one), metrics(two), rtol=0, atol=1e-4)
    if method == "csot":
        assert {1, 2} <= set(metrics(two)["stage"])
    probabilities = [np.load(run / "probabilities.npy") for run in (one, two)]
    np.testing.assert_allclose(*probabilities, atol=1e-3)
    found = [Run.open(run).read_findings() for run in (one, two)]
    assert found[0]["corrected_label"].equals(found[1]["corrected_label"])


def test_a_batch_that_cannot_be_shared(tmp_path: Path) -> None:
    result = command(
        "train", "digits", "--out", tmp_path / "run", "--devices", "2", "--set=batch_size=33"
    )
    assert result.exit_code == 2
    assert "batch_size 33 is not divisible by 2 devices" in result.stderr
    assert not (tmp_path / "run").exists()
