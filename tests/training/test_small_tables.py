"""Tables of a few hundred rows: scaled, held out, and compared with the cleaner."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_wine

from csot.runs import Run
from csot.training.presets import make_config, read_preset
from training.quick import command

Truth = np.ndarray


@pytest.fixture
def wine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Truth:
    """wine.csv: columns of very different scales, 30 % of the labels flipped; and the truth."""
    monkeypatch.chdir(tmp_path)
    found = load_wine(as_frame=True)
    rng = np.random.default_rng(0)
    truth = found.target.to_numpy()
    flipped = rng.random(len(truth)) < 0.3
    kind = np.where(flipped, (truth + rng.integers(1, 3, len(truth))) % 3, truth)
    table = found.data.assign(bottle=[f"b-{k}" for k in range(len(truth))], kind=kind)
    table.to_csv("wine.csv", index=False)
    return truth


def test_a_small_table_is_learned(wine: Truth) -> None:
    result = command("train", "wine.csv", "--label", "kind", "--out", "run")
    assert result.exit_code == 0, result.output
    assert "uses alcohol, malic_acid" in result.stdout
    assert "ignores bottle (looks like an id" in result.stdout
    assert "ignores" not in result.stderr, "it is no warning"
    found = Run.open(Path("run")).read_findings()["corrected_label"].to_numpy()
    assert (found.astype(int) == wine).mean() > 0.93
    summary = json.loads(Path("run/summary.json").read_text())
    assert summary["informative"]
    assert summary["held_out"]["rows"] == int(0.35 * len(wine))
    assert not summary["against_cleaner"]["better"]
    assert "predicts held-out labels better" not in result.output


@pytest.mark.usefixtures("wine")
def test_it_is_said_where_the_cleaner_is_better() -> None:
    options = ("--method", "cross_entropy", "--set", "epochs=1", "--set", "learning_rate=1e-9")
    result = command("train", "wine.csv", "--label", "kind", "--out", "run", *options)
    assert result.exit_code == 0, result.output
    assert "csot clean predicts held-out labels better here" in " ".join(result.stderr.split())
    against = json.loads(Path("run/summary.json").read_text())["against_cleaner"]
    assert against["better"]
    assert against["for_cleaner"] > against["for_network"]


@pytest.mark.usefixtures("wine")
def test_the_classifier_is_found_behind_the_scaling_of_columns() -> None:
    """The network of a table is wrapped; MOIT+ initialises its last layer again."""
    short = ("--set", "epochs=3", "--set", "plus_epochs=1")
    result = command(
        "train", "wine.csv", "--label", "kind", "--method", "moit_plus", *short, "--out", "run"
    )
    assert result.exit_code == 0, result.output


def test_a_preset_may_be_like_another(tmp_path: Path) -> None:
    base, tables = read_preset("features"), read_preset("tables")
    assert tables.training.network == base.training.network
    assert set(tables.methods) == set(base.methods)
    assert make_config("t.csv", "csot", preset="tables").settings["class_prior"] == "plan"
    own = tmp_path / "own.yaml"
    own.write_text("about: mine\nlike: tables\ntraining: {epochs: 3}\n")
    with pytest.raises(ValueError, match="like is 'tables', which is itself like another"):
        read_preset(str(own))
    own.write_text("about: mine\nlike: digit\n")
    read_preset.cache_clear()
    with pytest.raises(ValueError, match="like is 'digit': name a preset of the package"):
        read_preset(str(own))
    own.write_text("about: mine\nlike: features\ntraining: {epochs: 3}\n")
    read_preset.cache_clear()
    assert read_preset(str(own)).training.epochs == 3
