"""`apply_corrections` writes the data again in the form it came in, and never over it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import csot
from csot.clean import apply_corrections, clean_dataset
from csot.data import Columns, DataError
from csot.review.domain.session import Session
from csot.training import Source
from small_data import blobs

pytestmark = pytest.mark.usefixtures("remembered_fits")


def write_photos(folder: Path, n: int = 60) -> None:
    """Dark and light squares; three of each are in the wrong folder, all names occur twice."""
    rng = np.random.default_rng(0)
    for row in range(n):
        light = row % 2
        name = ["dark", "light"][light if row >= 6 else 1 - light]
        pixels = rng.integers(150 * light, 100 + 150 * light, (4, 4), dtype=np.uint8)
        path = folder / name / f"{row // 2}-{light if row < 6 else 2}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(path)


def test_class_folders(tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    write_photos(photos)
    before = {path: path.read_bytes() for path in photos.rglob("*.png")}
    run = clean_dataset(photos, tmp_path / "run", embedder="small_data:embed")
    done = run.apply(tmp_path / "fixed")
    assert len(done.changes) >= 5
    written = sorted((tmp_path / "fixed").rglob("*.png"))
    assert len(written) == 60
    right = [
        path.parent.name == ["dark", "light"][int(np.asarray(Image.open(path)).mean() > 125)]
        for path in written
    ]
    assert sum(right) == 54 + len(done.changes)
    assert {path: path.read_bytes() for path in photos.rglob("*.png")} == before
    assert list(pd.read_csv(done.changes_path)) == [
        *("id", "given_label", "new_label", "confidence", "source")
    ]
    with pytest.raises(DataError, match="exists"):
        run.apply(tmp_path / "fixed")
    with pytest.raises(DataError, match="lies in the data"):
        run.apply(photos / "fixed")
    run.apply(tmp_path / "linked", link=True)
    assert all(path.is_symlink() for path in (tmp_path / "linked").rglob("*.png"))


@pytest.mark.parametrize("suffix", ["csv", "parquet", "jsonl"])
def test_tables(tmp_path: Path, suffix: str) -> None:
    features, labels = blobs()
    frame = pd.DataFrame(features.round(3), columns=list("abcd")).assign(kind=labels)
    path = tmp_path / f"t.{suffix}"
    if suffix == "csv":
        frame.to_csv(path, index=False)
    elif suffix == "parquet":
        frame.to_parquet(path)
    else:
        frame.to_json(path, orient="records", lines=True)
    run = clean_dataset(path, tmp_path / "run", label="kind")
    done = run.apply(tmp_path / f"fixed.{suffix}")
    read = {
        "csv": pd.read_csv,
        "parquet": pd.read_parquet,
        "jsonl": lambda path: pd.read_json(path, lines=True),
    }[suffix]
    fixed = read(done.path)
    assert list(fixed) == list(frame)
    truth = np.array(["ape", "bee"])[np.arange(120) % 2]
    assert (fixed["kind"] == truth).mean() > (frame["kind"] == truth).mean()
    np.testing.assert_allclose(fixed[list("abcd")].astype(float), frame[list("abcd")])


def test_a_training_run(tmp_path: Path) -> None:
    features, labels = blobs()
    frame = pd.DataFrame(features.round(3), columns=list("abcd")).assign(kind=labels)
    frame.to_csv(tmp_path / "t.csv", index=False)
    source = Source(columns=Columns(label="kind"))
    settings = {"epochs": 3}
    run = csot.train(tmp_path / "t.csv", out=tmp_path / "run", source=source, settings=settings)
    done = apply_corrections(run.path, tmp_path / "fixed.csv")
    fixed = pd.read_csv(done.path)
    assert list(fixed) == list(frame)
    assert fixed["kind"].tolist() == run.findings["corrected_label"].tolist()
    noisy = csot.train(
        tmp_path / "t.csv",
        out=tmp_path / "noisy",
        source=source,
        noise="sym:0.2",
        settings=settings,
    )
    with pytest.raises(DataError, match="noise added to the labels"):
        apply_corrections(noisy.path, tmp_path / "other.csv")


def test_a_table_in_memory(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    truth = np.arange(120) % 2
    table = pd.DataFrame(rng.normal(size=(120, 3)) + 5 * truth[:, None], columns=list("abc"))
    table["kind"] = np.where(np.arange(120) < 8, 1 - truth, truth)
    run = clean_dataset(table, tmp_path / "run", label="kind")
    applied = run.save(tmp_path / "kept").apply(tmp_path / "fixed.csv")
    assert len(applied.changes) == 8
    fixed = pd.read_csv(tmp_path / "fixed.csv")
    assert fixed["kind"].tolist() == truth.tolist()
    assert fixed.columns.tolist() == table.columns.tolist()
    again = type(run).open(tmp_path / "run")
    with pytest.raises(DataError, match="given again as `data`"):
        again.apply(tmp_path / "other.csv")
    again.apply(tmp_path / "other.parquet", data=table)
    assert pd.read_parquet(tmp_path / "other.parquet")["kind"].tolist() == truth.tolist()
    with pytest.raises(DataError, match="was labelled"):
        again.apply(tmp_path / "third.csv", data=table.assign(kind=truth))


def test_arrays_keep_names_and_types(tmp_path: Path) -> None:
    features, labels = blobs()
    codes = (labels == "bee").astype(np.int16)
    np.savez(tmp_path / "d.npz", X=features, y=codes)
    run = clean_dataset(tmp_path / "d.npz", tmp_path / "run")
    done = run.apply(tmp_path / "fixed.npz")
    with np.load(done.path) as written:
        assert sorted(written) == ["X", "y"]
        assert written["y"].dtype == np.int16
        assert (written["y"] != codes).sum() == len(done.changes) > 0
        np.testing.assert_array_equal(written["X"], features)


def test_decisions_come_first_and_are_not_bound_by_confidence(tmp_path: Path) -> None:
    features, labels = blobs()
    np.savez(tmp_path / "d.npz", features=features, labels=labels)
    run = clean_dataset(tmp_path / "d.npz", tmp_path / "run")
    session = Session(run, "ann")
    keep = session.catalogue.row_of["0"]  # the run would change it
    other = session.catalogue.row_of["50"]  # the run would keep it
    given = int(session.catalogue.given[keep])
    flipped = 1 - int(session.catalogue.given[other])
    session.decide([keep], "choose", given, "one", "a")
    session.decide([other], "choose", flipped, "one", "b")
    session.decide([session.catalogue.row_of["60"]], "discard", None, "one", "c")
    session.close()
    done = apply_corrections(run.path, tmp_path / "fixed.npz", min_confidence=1.0)
    changed = done.changes.set_index("id")
    assert "0" not in changed.index
    assert changed.loc["50", "source"] == "reviewed"
    assert set(changed["source"]) == {"reviewed"}
    assert pd.isna(changed.loc["60", "new_label"])
    with np.load(done.path) as written:
        assert written["labels"][60] == ""


def test_changed_data_is_refused(tmp_path: Path) -> None:
    features, labels = blobs()
    np.savez(tmp_path / "d.npz", features=features, labels=labels)
    run = clean_dataset(tmp_path / "d.npz", tmp_path / "run")
    labels[20] = "bee" if labels[20] == "ape" else "ape"
    np.savez(tmp_path / "d.npz", features=features, labels=labels)
    with pytest.raises(DataError, match="has changed since"):
        run.apply(tmp_path / "fixed.npz")
    assert not (tmp_path / "fixed.npz").exists()
    with pytest.raises(DataError, match="from 0 to 1"):
        run.apply(tmp_path / "fixed.npz", min_confidence=2)


def test_labels_that_differ_by_case_are_known_again(tmp_path: Path) -> None:
    features, labels = blobs()
    frame = pd.DataFrame(features, columns=list("abcd")).assign(kind=labels)
    frame.loc[20, "kind"] = str(frame.loc[20, "kind"]).upper()
    frame.to_csv(tmp_path / "t.tsv", sep="\t", index=False)
    run = clean_dataset(tmp_path / "t.tsv", tmp_path / "run", label="kind", merge_variants=True)
    done = run.apply(tmp_path / "fixed.tsv")
    fixed = pd.read_csv(done.path, sep="\t")
    assert list(fixed) == list(frame)
    assert fixed.loc[20, "kind"] == frame.loc[20, "kind"], "a cell that is not changed"
    assert (fixed["kind"] != frame["kind"]).sum() == len(done.changes) > 0


def test_a_discarded_row_of_numbers_has_no_label(tmp_path: Path) -> None:
    features, labels = blobs()
    frame = pd.DataFrame(features, columns=list("abcd")).assign(kind=(labels == "bee") + 0)
    frame.to_parquet(tmp_path / "t.parquet")
    run = clean_dataset(tmp_path / "t.parquet", tmp_path / "run", label="kind")
    session = Session(run, "ann")
    session.decide([session.catalogue.row_of["60"]], "discard", None, "one", "a")
    session.close()
    done = run.apply(tmp_path / "fixed.parquet")
    fixed = pd.read_parquet(done.path)
    assert fixed["kind"].isna().tolist() == [row == 60 for row in range(120)]
    # Whole numbers beside a missing one stay whole, and who changed them is said.
    changed = pd.read_csv(done.changes_path, dtype=str, keep_default_na=False)
    assert set(changed["new_label"]) <= {"", "0", "1"}
    status = run.findings["status"].astype(str)
    for name, source in zip(changed["id"], changed["source"], strict=True):
        assert source == (
            "reviewed" if name == "60" else status[status.index.astype(str) == name].iloc[0]
        )
    with pytest.raises(DataError, match=r"data is a ndarray: pass a path or .*csot\.load"):
        run.predict(features)  # type: ignore[arg-type]


def test_nothing_is_left_where_writing_fails(tmp_path: Path) -> None:
    features, labels = blobs()
    pd.DataFrame(features, columns=list("abcd")).assign(kind=labels).to_csv(
        tmp_path / "t.csv", index=False
    )
    run = clean_dataset(tmp_path / "t.csv", tmp_path / "run", label="kind")
    with pytest.raises(DataError, match=r"not as '\.doc'"):
        run.apply(tmp_path / "new" / "fixed.doc")
    assert list((tmp_path / "new").iterdir()) == []
