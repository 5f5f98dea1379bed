"""The parts of benchmarks/clean.py: cells, measures, stored results, goals and tables."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import csot
from cleaning.audit import choose
from cleaning.cells import Data, corrupt, load, make_cell
from cleaning.goals import GOALS, check, tally
from cleaning.measures import describe, measure
from cleaning.ours import judge_features
from cleaning.prototype import best_power, corrected_by_power
from cleaning.store import Store, code_version
from cleaning.tables import goal_table, measure_tables
from cleaning.weak_labels import make_weak_cell, names, sample_labels

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "clean.py"


@pytest.fixture(scope="session")
def data() -> Data:
    rng = np.random.default_rng(0)
    truth = np.arange(3000) % 10
    rows = (4 * np.eye(10, 40)[truth] + rng.normal(size=(3000, 40))).astype(np.float32)
    human = np.where(rng.random(3000) < 0.2, (truth + 1) % 10, truth)
    return Data(rows, truth, rows[:200], truth[:200], {"human": human})


# Cells --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("noise", "share"),
    [("none", 0.0), ("sym0.5", 0.45), ("asym0.4", 0.2), ("pair0.3", 0.3)],
)
def test_noise_has_the_share_it_says(data: Data, noise: str, share: float) -> None:
    rows, given = corrupt(noise, data.train_labels, 0)
    assert (given != data.train_labels[rows]).mean() == pytest.approx(share, abs=0.03)


def test_imbalanced_classes_are_thinned_to_a_tenth(data: Data) -> None:
    rows, given = corrupt("imbalanced0.4", data.train_labels, 0)
    counts = np.bincount(data.train_labels[rows])
    assert counts[0] == 10 * counts[-1]
    assert (given != data.train_labels[rows]).mean() == pytest.approx(0.36, abs=0.05)


def test_cells_know_their_kind_and_features(data: Data) -> None:
    assert make_cell(data, "none", "embeddings", 0).kind == "none"
    assert make_cell(data, "sym0.2", "embeddings", 0).kind == "class"
    human = make_cell(data.subsample(500), "human", "pca32", 0)
    assert human.kind == "sample"
    assert human.task.features.shape == (500, 32)
    assert human.task.test.shape == (200, 32)
    assert human.fingerprint() != make_cell(data, "human", "embeddings", 0).fingerprint()


def test_label_files_of_other_rows_are_refused(tmp_path: Path, data: Data) -> None:
    arrays = {"train": data.train, "train_labels": data.train_labels}
    np.savez(tmp_path / "d.npz", **arrays, test=data.test, test_labels=data.test_labels)
    np.savez(tmp_path / "l.npz", short=data.train_labels[:5])
    with pytest.raises(ValueError, match="'short' has shape"):
        load(tmp_path / "d.npz", tmp_path / "l.npz")


@pytest.mark.parametrize("rate", [0.1, 0.4])
def test_weak_labels_are_wrong_as_often_as_asked_and_where_the_row_is_hard(rate: float) -> None:
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.full(4, 0.5), 20_000)
    truth = (rng.random((20_000, 1)) > probs.cumsum(1)[:, :-1]).sum(1)
    given = sample_labels(probs, truth, rate, rng)
    wrong = given != truth
    assert wrong.mean() == pytest.approx(rate, abs=0.015)
    sure = probs[np.arange(20_000), truth]
    assert sure[wrong].mean() < sure[~wrong].mean() - 0.2


def test_weak_cells_are_made_of_rows_the_weak_model_has_not_seen() -> None:
    assert len(names()) == 9
    cell = make_weak_cell("wine-weak0.25", 0)
    assert cell.kind == "sample"
    assert 0.1 < cell.wrong.mean() < 0.4
    assert len(cell.truth) == 89


# Measures and the yardstick -----------------------------------------------------------------------


def test_measures_are_their_definitions(data: Data) -> None:
    cell = make_cell(data, "human", "embeddings", 0)
    flagged = np.zeros(3000, dtype=bool)
    flagged[:300] = True
    corrected = np.where(flagged, cell.truth, cell.task.given)
    found = measure(
        cell,
        score=1.0 - cell.wrong,
        flagged=flagged,
        corrected=corrected,
        noise_rate=0.25,
        test=cell.test_labels,
        seconds=1.0,
    )
    hits, wrong = cell.wrong[:300].sum(), cell.wrong.sum()
    precision, recall = hits / 300, hits / wrong
    assert found["ap"] == 1.0
    assert found["f1"] == pytest.approx(2 * precision * recall / (precision + recall))
    assert found["right"] == pytest.approx(1 - (wrong - hits) / 3000)
    assert found["changed"] == pytest.approx(hits / 3000)
    assert found["noise_rate_error"] == pytest.approx(0.25 - wrong / 3000)
    assert found["accuracy"] == 1.0


def test_the_power_helps_where_probabilities_are_too_soft() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 4, 4000)
    given = np.where(rng.random(4000) < 0.3, rng.integers(0, 4, 4000), truth)
    hard = np.eye(4)[np.where(rng.random(4000) < 0.1, rng.integers(0, 4, 4000), truth)]
    # Blurred so far that the labels as given are explained by overlap alone.
    soft = 0.225 + 0.1 * hard
    right, power = best_power(soft, given, truth)
    assert power > 1
    assert right > (corrected_by_power(soft, given, 1.0) == truth).mean() + 0.02


# Verified rows ------------------------------------------------------------------------------------


def test_longer_audits_begin_with_shorter_ones() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 4, 1000)
    labels = np.where(rng.random(1000) < 0.2, rng.integers(0, 4, 1000), truth)
    findings = csot.find_label_issues(labels, 0.05 + 0.8 * np.eye(4)[truth])
    chosen = choose(findings, 200, 0)
    np.testing.assert_array_equal(choose(findings, 50, 0), chosen[:50])
    assert len(np.unique(chosen)) == 200


# Stored results -----------------------------------------------------------------------------------


def test_results_of_other_code_or_data_do_not_count(tmp_path: Path) -> None:
    file = tmp_path / "r.json"
    Store(file, "one").put("cell", "data", {"right": 0.5})
    assert Store(file, "one").get("cell", "data")["right"] == 0.5
    assert Store(file, "two").get("cell", "data") is None
    assert Store(file, "one").get("cell", "other") is None
    assert Store(file, "two").any_version("cell", "data")["right"] == 0.5


def test_comments_do_not_change_the_version_of_code(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text("x = 1\n")
    before = code_version(tmp_path)
    file.write_text("# Why.\nx  =  1\n")
    assert code_version(tmp_path) == before
    file.write_text("x = 2\n")
    assert code_version(file) != before


# Goals and tables ---------------------------------------------------------------------------------


def record(**changes: object) -> dict[str, object]:
    ours = {
        "ap": 0.9, "f1": 0.8, "right": 0.9, "changed": 0.2, "noise_rate": 0.22, "accuracy": 0.8,
        "precision": 0.8, "recall": 0.8, "seconds": 1.0, "noise_rate_interval": [0.1, 0.3],
        "curve": [{"verified": 0, "right": 0.9}, {"verified": 100, "right": 0.95}],
    }  # fmt: skip
    about = {"cell": "sym0.2", "kind": "class", "features": "embeddings", "seed": 0}
    return {**about, "rows": 10, "true_rate": 0.2, "csot": {**ours, **changes}}


RIVALS = {
    "cleanlab": {"ap": 0.8, "f1": 0.7, "right": 0.85, "accuracy": 0.7},
    "knn15": {"ap": 0.85, "f1": 0.9, "right": 0.95, "accuracy": 0.75},
}
BASELINE = {"csot": {"right": 0.905, "prototype_right": 0.94}}


def test_every_goal_can_be_met() -> None:
    checks = {c.goal: c for c in check(record(), RIVALS, BASELINE)}
    assert set(checks) == set(GOALS)
    assert checks.pop("unchanged").met is None
    assert all(c.met for c in checks.values())
    assert checks["ap"].figures == "0.900 / 0.850 knn15"


@pytest.mark.parametrize(
    ("goal", "changes"),
    [
        ("ap", {"ap": 0.85}),
        ("f1", {"f1": 0.69}),
        ("right", {"right": 0.85}),
        ("baseline", {"right": 0.89}),
        ("rate", {"noise_rate": 0.27}),
        ("interval", {"noise_rate_interval": [0.0, 0.19]}),
        ("accuracy", {"accuracy": 0.75}),
        ("verified", {"curve": [{"verified": 100, "right": 0.93}]}),
        ("curve", {"curve": [{"verified": 0, "right": 0.9}, {"verified": 50, "right": 0.89}]}),
    ],
)
def test_every_goal_can_be_missed(goal: str, changes: dict[str, object]) -> None:
    checks = {c.goal: c.met for c in check(record(**changes), RIVALS, BASELINE)}
    assert checks[goal] is False


def test_without_noise_few_labels_may_change() -> None:
    clean = record(changed=0.03) | {"kind": "none", "true_rate": 0.0}
    checks = {c.goal: c.met for c in check(clean, RIVALS, None)}
    assert checks["unchanged"] is False
    assert checks["baseline"] is None


def test_the_interval_may_miss_one_cell_of_ten() -> None:
    good, bad = record(), record(noise_rate_interval=[0.0, 0.1])
    for n_bad, met in ((1, True), (2, False)):
        rows = [check(bad if i < n_bad else good, RIVALS, None) for i in range(10)]
        totals = {c.goal: c.met for c in tally(rows)}
        assert totals["interval"] is met


def test_tables_in_markdown() -> None:
    own = record()
    about = {key: own[key] for key in ("cell", "kind", "features", "seed", "true_rate")}
    theirs = {**about, "rivals": RIVALS}
    (table,) = measure_tables([(own, theirs)], ["right"])
    assert table.markdown().splitlines()[2:] == [
        "| cell | wrong | csot | cleanlab | knn15 |",
        "| --- | --- | --- | --- | --- |",
        "| sym0.2 | 0.200 | 0.900 | 0.850 | 0.950 |",
    ]
    assert "ok 0.900 / 0.850 knn15" in goal_table([(own, theirs, None)]).markdown()


def test_the_script_runs_and_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """First in a process of its own; what it left is then resumed in this one."""
    options = ["--sklearn", "--cells", "wine-weak0.25", "--seeds", "0", "--features", "probs"]
    places = {"--out": "o.json", "--rivals-out": "r.json", "--cache": "c", "--markdown": "t.md"}
    options += [text for flag, name in places.items() for text in (flag, str(tmp_path / name))]
    run = subprocess.run(
        [sys.executable, str(SCRIPT), *options], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    written = [(tmp_path / name).read_text() for name in ("o.json", "r.json")]
    (tmp_path / "t.md").unlink()
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), *options])
    runpy.run_path(str(SCRIPT), run_name="__main__")
    assert [(tmp_path / name).read_text() for name in ("o.json", "r.json")] == written
    assert "| wine-weak0.25 probs 0 |" in (tmp_path / "t.md").read_text()


def test_csot_is_measured_with_and_without_verified_rows() -> None:
    cell = make_weak_cell("wine-weak0.25", 0)
    ours = judge_features(cell, [0, 20])["csot"]
    assert {"ap", "right", "accuracy", "noise_rate_interval", "warnings"} <= set(ours)
    assert ours["prototype_right"] >= 1 - cell.wrong.mean()
    assert [point["verified"] for point in ours["curve"]] == [0, 20]


def test_describe_names_the_cell(data: Data) -> None:
    found = describe(make_cell(data, "sym0.2", "embeddings", 1))
    assert (found["cell"], found["kind"], found["seed"]) == ("sym0.2", "class", 1)
