"""The numbers behind the figures of verdicts, against counts by hand and scikit-learn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from scipy.stats import binomtest
from sklearn.metrics import average_precision_score, confusion_matrix, precision_recall_curve

from csot.figures import (
    Drawing,
    confusion,
    noise_matrix,
    precision_recall,
    reliability,
    suspects,
    verified,
)
from csot.runs import Run
from csot.runs.noise import wilson_interval
from figures.made_runs import CORRECTED, GIVEN, ISSUE, MATRIX, NAMES, SCORE, TRUE, made_run


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return made_run(tmp_path_factory.mktemp("made") / "run")


def shares(table: pd.DataFrame) -> np.ndarray:
    return table["share"].to_numpy().reshape(3, 3)


def test_confusion_of_given_and_corrected_labels(run: Run) -> None:
    table = confusion([run]).data
    given, corrected = (table[table["labels"] == name] for name in ("given", "corrected"))
    counts = confusion_matrix(TRUE[:-1], GIVEN[:-1])  # the last row has no label
    assert given["count"].to_numpy().reshape(3, 3).tolist() == counts.tolist()
    expected = confusion_matrix(TRUE, CORRECTED, normalize="true")
    assert shares(corrected) == pytest.approx(expected)


def test_precision_and_recall_over_the_score(run: Run) -> None:
    drawing = precision_recall([run])
    ranking, verdicts = drawing.tables["ranking"], drawing.tables["verdicts"]
    wrong = np.array(TRUE[:-1]) != np.array(GIVEN[:-1])
    precision, recall, thresholds = precision_recall_curve(wrong, -np.array(SCORE[:-1]))
    reached = recall[:-1] > 0
    first = dict(zip(-thresholds[reached], precision[:-1][reached], strict=True))
    for score, value in ranking.set_index("score")["precision"].items():
        if score in first:
            assert value == pytest.approx(first[score])
    assert ranking["recall"].tolist() == pytest.approx([2 / 3, 1, 1, 1, 1, 1])
    expected = average_precision_score(wrong, -np.array(SCORE[:-1]))
    verdict = verdicts.iloc[0]
    assert verdict["average_precision"] == pytest.approx(expected)
    flagged = np.array(ISSUE[:-1])
    assert verdict["precision"] == pytest.approx((flagged & wrong).sum() / flagged.sum())
    assert verdict["recall"] == pytest.approx((flagged & wrong).sum() / wrong.sum())


def test_reliability_in_bins(run: Run) -> None:
    table = reliability([run]).data
    assert table["rows"].tolist() == [1, 2, 1, 6]
    assert table["from"].tolist() == pytest.approx([0.4, 0.5, 0.8, 0.9])
    assert table["confidence"].tolist()[:2] == pytest.approx([0.4, 0.535])
    assert table["right"].tolist() == pytest.approx([1, 0.5, 1, 1])


@pytest.mark.parametrize(("hits", "count"), [(0, 4), (3, 4), (50, 70), (9, 9)])
def test_interval_of_wilson(hits: int, count: int) -> None:
    expected = binomtest(hits, count).proportion_ci(0.95, method="wilson")
    assert wilson_interval(hits, count) == pytest.approx((expected.low, expected.high), abs=1e-6)


def test_noise_matrices(run: Run) -> None:
    table = noise_matrix(run).data
    estimated, true = (table[table["matrix"] == name] for name in ("estimated", "true"))
    assert shares(estimated).tolist() == MATRIX
    assert shares(true) == pytest.approx(confusion_matrix(TRUE[:-1], GIVEN[:-1], normalize="true"))


def test_an_estimate_needs_no_truth(tmp_path: Path) -> None:
    found = made_run(tmp_path / "run", truth=False)
    assert set(noise_matrix(found).data["matrix"]) == {"estimated"}
    with pytest.raises(ValueError, match="does not know the true labels: give them as `truth`"):
        confusion([found])
    truth = {f"row {row}": NAMES[k] for row, k in enumerate(TRUE)}
    assert confusion([found], truth).data["count"].sum() == 19


def test_what_verified_rows_buy(tmp_path: Path) -> None:
    made_run(tmp_path / "none")
    made_run(tmp_path / "five", verified=5, summary={"noise_rate": 0.35})
    table = verified([tmp_path]).data
    assert table["verified"].tolist() == [0, 5]
    assert table["noise_rate"].tolist() == [0.3, 0.35]
    assert table["noise_rate_true"].tolist() == pytest.approx([3 / 9, 3 / 9])
    # Rows 5 to 8: one of two wrong labels is flagged, three are right after correction.
    last = table.iloc[1]
    assert last[["right_before", "right_after", "precision", "recall"]].tolist() == [
        0.5,
        0.75,
        1.0,
        0.5,
    ]
    with pytest.raises(ValueError, match="the same number of verified rows"):
        verified([tmp_path / "none"])


def test_the_most_suspicious_first(run: Run) -> None:
    table = suspects(run).data
    assert table["id"].tolist() == ["row 1", "row 8", "row 4"]
    assert table["given"].tolist() == ["bee", "ape", "bee"]
    assert table["suggested"].tolist() == ["ape", "cat", "bee"]
    assert table["true"].tolist() == ["ape", "cat", "bee"]


def test_a_gallery_of_pictures(tmp_path: Path) -> None:
    found = made_run(tmp_path / "run")
    (tmp_path / "run" / "images").mkdir()
    Image.new("RGB", (300, 200), "red").save(tmp_path / "run" / "images" / "1.png")
    names = pd.DataFrame(
        {"image": ["images/1.png" if row == 1 else "images/gone.png" for row in range(10)]},
        index=found.read_findings().index,
    )
    found.write_samples(names)
    figure = suspects(found).draw("light")
    shown = [axis for axis in figure.axes if axis.images]
    assert len(shown) == 1
    assert max(np.asarray(shown[0].images[0].get_array()).shape) == 160
    assert shown[0].get_title() == "bee → ape ✓"


def test_names_that_look_like_formulas(tmp_path: Path) -> None:
    frame = confusion([made_run(tmp_path / "run")]).data
    odd = frame.replace({"ape": r"$\frac{", "bee": "$5\n$6", "cat": "猫"})
    drawing = Drawing("odd", {"shares": odd}, confusion([tmp_path / "run"]).paint)
    (picture, _) = drawing.save(tmp_path, themes=("light",), formats=("svg",))
    assert picture.stat().st_size > 1000


def test_every_figure_of_verdicts_is_drawn(run: Run, tmp_path: Path) -> None:
    made_run(tmp_path / "other", verified=4)
    runs = [run, tmp_path / "other"]
    for make in (confusion, precision_recall, reliability, verified):
        assert make(runs).draw("dark").axes
    for single in (noise_matrix, suspects):
        assert single(run).draw("dark").axes


def test_one_run_and_the_name_of_a_file(tmp_path: Path) -> None:
    made_run(tmp_path / "run", truth=False)
    truth = pd.DataFrame(
        {"id": [f"row {row}" for row in range(10)], "true_label": [NAMES[k] for k in TRUE]}
    )
    truth.to_csv(tmp_path / "truth.csv", index=False)
    by_name = confusion(str(tmp_path / "run"), str(tmp_path / "truth.csv")).data
    assert by_name.equals(confusion([tmp_path / "run"], tmp_path / "truth.csv").data)
