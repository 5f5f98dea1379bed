"""The files that the benchmark of training on features writes."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import train_features


def test_texts_are_flipped_in_training_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(train_features, "ROWS", 40)
    monkeypatch.setattr(train_features, "TEST_ROWS", 20)
    rng = np.random.default_rng(0)
    ratings = rng.choice([-2.0, -0.5, 0.0, 1.5], 120)
    lines = [f"{row}\t{rating}\tsentence {rating}" for row, rating in enumerate(ratings)]
    content = "\n".join(lines).encode("latin-1")
    archive = tmp_path / "ratings.tar.gz"
    with tarfile.open(archive, "w:gz") as whole:
        member = tarfile.TarInfo("x/movieReviewSnippets_GroundTruth.txt")
        member.size = len(content)
        whole.addfile(member, io.BytesIO(content))
    (path,) = train_features.write_texts(archive, tmp_path).values()
    train, test = pd.read_csv(path), pd.read_csv(tmp_path / "test.csv")
    assert (len(train), len(test)) == (40, 20)

    def wrong(table: pd.DataFrame) -> float:
        rating = table["text"].str.removeprefix("sentence ").astype(float)
        assert (rating != 0).all()
        return float(((rating > 0) != (table["label"] == "positive")).mean())

    assert wrong(test) == 0
    assert 0.1 < wrong(train) < 0.5


def test_the_best_epoch_counts_for_cross_entropy(capsys: pytest.CaptureFixture[str]) -> None:
    records = [
        {"accuracy": 0.5, "peak": 0.7, "seconds": 2.0},
        {"accuracy": 0.5, "peak": 0.8, "seconds": 4.0},
    ]
    train_features.show({("noise", "cross_entropy"): records, ("noise", "csot"): records})
    printed = capsys.readouterr().out
    assert "|noise|cross_entropy, best epoch|75.00 ± 7.07|3|" in printed
    assert "|noise|csot|50.00 ± 0.00|3|" in printed
