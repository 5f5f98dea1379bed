"""`csot.load`: runs of training and of cleaning, and every kind of input that they take."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

import csot
from image_files import write_image
from remembered_fits import remembered_fits  # noqa: F401
from training.quick import FEATURES, planted

pytestmark = pytest.mark.usefixtures("remembered_fits")
EMBEDDERS = '''
import numpy as np
from PIL import Image

def images(paths):
    """Mean colour."""
    return np.stack([np.asarray(Image.open(p).convert("RGB"), float).mean((0, 1)) for p in paths])

def texts(texts):
    """How often some letters occur."""
    return np.array([[text.count(letter) for letter in "abcxyz"] for text in texts], float)
'''
CLASSES = ["dark", "light"]
SMALL = {"batch_size": 8, "epochs": 3, "network.name": "resnet8", "network.width": 8}


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Dark and light pictures of 8 pixels, and a module of embedders."""
    place = tmp_path_factory.mktemp("loading")
    rng = np.random.default_rng(0)
    for row in range(60):
        value = int((200 if row % 2 else 20) + rng.integers(30))
        write_image(place / "data" / CLASSES[row % 2] / f"{row}.png", value=value)
    (place / "loading_embedders.py").write_text(EMBEDDERS)
    return place


@pytest.fixture(scope="session")
def trained_on_images(folder: Path) -> Path:
    return csot.train(
        folder / "data", out=folder / "trained", method="cross_entropy", settings=SMALL
    ).path


@pytest.fixture
def cleaned_images(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(folder))
    out = folder / "cleaned"
    if not out.exists():
        csot.clean_dataset(folder / "data", out=out, embedder="loading_embedders:images")
    return out


def pictures(folder: Path) -> list[Path]:
    return [folder / "data" / "dark" / "0.png", folder / "data" / "light" / "1.png"]


def check_images(model: csot.LoadedRun, folder: Path) -> np.ndarray:
    """One answer, however the pictures are passed."""
    paths = pictures(folder)
    opened = [Image.open(path) for path in paths]
    pixels = np.stack([np.asarray(image) for image in opened])
    expected = model.predict_proba(paths)
    assert model.medium == "images"
    assert expected.shape == (2, 2)
    np.testing.assert_allclose(expected.sum(1), 1, atol=1e-5)
    for inputs in (
        [str(path) for path in paths],
        opened,
        [paths[0], opened[1]],
        pixels,
        pixels.transpose(0, 3, 1, 2),
        torch.from_numpy(pixels),
    ):
        np.testing.assert_allclose(model.predict_proba(inputs), expected, atol=1e-6)
    one = model.predict_proba(opened[0])
    np.testing.assert_allclose(one, expected[:1], atol=1e-5)
    np.testing.assert_allclose(model.predict_proba(pixels[0]), one, atol=1e-6)
    np.testing.assert_allclose(model.predict_proba(str(paths[0])), one, atol=1e-6)
    whole = model.predict_proba(folder / "data")
    assert whole.shape == (60, 2)
    np.testing.assert_allclose(whole[0], expected[0], atol=1e-5)
    return expected


def test_a_training_run_on_images(trained_on_images: Path, folder: Path) -> None:
    model = csot.load(trained_on_images)
    check_images(model, folder)
    best = csot.load(trained_on_images, checkpoint="best")
    assert best.class_names == model.class_names == CLASSES
    large = Image.new("RGBA", (40, 30), (20, 10, 235, 255))
    assert model.predict_proba(large).shape == (1, 2), "scaled as in training"


def test_a_cleaning_run_on_images(cleaned_images: Path, folder: Path) -> None:
    model = csot.load(cleaned_images, embedder="loading_embedders:images")
    check_images(model, folder)
    assert model.predict(pictures(folder)).tolist() == CLASSES


def test_grey_images(tmp_path: Path) -> None:
    """Digits are arrays of one channel: PIL images of the same pixels are the same input."""
    run = csot.train(
        "digits",
        out=tmp_path / "run",
        method="cross_entropy",
        settings={"dataset.limit": 100, "epochs": 1, "network.width": 4},
    )
    model = csot.load(run.path)
    pixels = np.random.default_rng(0).integers(0, 256, (3, 8, 8), dtype=np.uint8)
    expected = model.predict_proba(pixels[:, None])
    np.testing.assert_allclose(model.predict_proba(pixels), expected)
    images = [Image.fromarray(one) for one in pixels]
    np.testing.assert_allclose(model.predict_proba(images), expected, atol=1e-6)


def test_a_training_run_on_arrays(tmp_path: Path) -> None:
    data = planted()
    run = csot.train(data, out=tmp_path / "run", method="cross_entropy", settings=FEATURES)
    model = csot.load(run.path)
    features = data.train.batch(torch.arange(5))
    expected = model.predict_proba(features)
    np.testing.assert_allclose(model.predict_proba(features.numpy()), expected)
    np.testing.assert_allclose(model.predict_proba(features.tolist()), expected, atol=1e-6)
    np.savez(tmp_path / "d.npz", features=features.numpy())
    np.testing.assert_allclose(model.predict_proba(tmp_path / "d.npz"), expected, atol=1e-6)
    assert set(model.predict(features)) <= {"class 0", "class 1", "class 2"}


def table(rows: int = 90) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    truth = np.arange(rows) % 2
    return pd.DataFrame(
        {
            "size": 3.0 * truth + rng.normal(size=rows),
            "colour": np.where(rng.random(rows) < 0.9, truth, 1 - truth).astype(str),
            "kind": np.array(["small", "large"])[truth],
        }
    ).replace({"colour": {"0": "red", "1": "blue"}})


@pytest.mark.parametrize("command", ["train", "clean"])
def test_rows_of_a_table(tmp_path: Path, command: str) -> None:
    rows, out = table(), tmp_path / "run"
    rows.to_csv(tmp_path / "t.csv", index=False)
    if command == "train":
        from csot.data import Columns
        from csot.training import Source

        rows.assign(key=[f"k{row}" for row in range(len(rows))]).to_csv(
            tmp_path / "t.csv", index=False
        )
        source = Source(columns=Columns(label="kind", id="key"))
        settings = {**FEATURES, "epochs": 8}
        csot.train(
            tmp_path / "t.csv",
            out=out,
            method="cross_entropy",
            source=source,
            settings=settings,
        )
        # Label and ids are in the columns that the run was trained with.
        again = csot.training.predict(out, tmp_path / "t.csv")
        assert list(again.ids[:2]) == ["k0", "k1"]
        assert again.accuracy is not None
    else:
        csot.clean_dataset(tmp_path / "t.csv", label="kind", out=out)
    model = csot.load(out)
    assert model.medium == "columns"
    unlabelled = rows.drop(columns="kind")[:7]
    found = model.predict_proba(unlabelled)
    np.testing.assert_allclose(model.predict_proba(rows[:7]), found, atol=1e-6)
    unlabelled.to_csv(tmp_path / "new.csv", index=False)
    np.testing.assert_allclose(model.predict_proba(tmp_path / "new.csv"), found, atol=1e-5)
    assert (model.predict(unlabelled) == rows["kind"][:7]).mean() > 0.5
    with pytest.raises(ValueError, match=r"DataFrame|columns of a table"):
        model.predict(np.zeros((2, 3)))


def test_a_cleaning_run_on_texts(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(folder))
    rng = np.random.default_rng(0)
    texts = ["".join(rng.choice(list("abc" if row % 2 else "xyz"), 8)) for row in range(80)]
    names = np.array(["end", "start"])[np.arange(80) % 2]
    pd.DataFrame({"review": texts, "stars": names}).to_csv(tmp_path / "t.csv", index=False)
    csot.clean_dataset(
        tmp_path / "t.csv",
        text="review",
        label="stars",
        out=tmp_path / "run",
        embedder="loading_embedders:texts",
    )
    model = csot.load(tmp_path / "run", embedder="loading_embedders:texts")
    assert model.medium == "texts"
    assert model.predict(["abcabcab", "xyzzyxyz"]).tolist() == ["start", "end"]
    assert model.predict("abcabcab").tolist() == ["start"]
    frame = pd.DataFrame({"review": ["abcabcab"]})
    np.testing.assert_allclose(model.predict_proba(frame), model.predict_proba(["abcabcab"]))
    with pytest.raises(ValueError, match=r"inputs\[1\] must be a text, got 3"):
        model.predict(["a", 3])
    with pytest.raises(ValueError, match="but the run takes texts"):
        model.predict(np.zeros((2, 3)))


def test_a_cleaning_run_on_arrays(tmp_path: Path) -> None:
    data = planted()
    features, labels = data.train.batch(torch.arange(119)).numpy(), data.labels[:119].numpy()
    np.savez(tmp_path / "d.npz", features=features, labels=labels)
    csot.clean_dataset(tmp_path / "d.npz", out=tmp_path / "run")
    model = csot.load(tmp_path / "run")
    right = model.predict(features) == data.true_labels[:119].numpy().astype(str)
    assert right.mean() > 0.9
    np.testing.assert_allclose(
        model.predict_proba(tmp_path / "d.npz"), model.predict_proba(features), atol=1e-6
    )


def test_wrong_inputs(trained_on_images: Path, folder: Path, tmp_path: Path) -> None:
    model = csot.load(trained_on_images)
    (tmp_path / "broken.png").write_bytes(b"broken")
    for inputs, message in [
        ([], "inputs is empty"),
        ([pictures(folder)[0], tmp_path / "broken.png"], r"inputs\[1\], .*broken.png: unreadable"),
        ([3.5], r"inputs\[0\] must be a path, a PIL image or an array, got float"),
        (np.zeros((2, 3, 8, 8)), "uint8 images of shape"),
        (np.zeros((2, 9, 9, 3), dtype=np.uint8), "pass PIL images to have them scaled"),
        (pd.DataFrame({"a": [1]}), "inputs holds a DataFrame, but the run takes images"),
        ("nowhere", "is neither a path nor"),
    ]:
        with pytest.raises(ValueError, match=message):
            model.predict(inputs)
    with pytest.raises(ValueError, match="checkpoint must be 'last' or 'best', got 'first'"):
        csot.load(trained_on_images, checkpoint="first")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="is not a training run"):
        csot.load(tmp_path)
    with pytest.raises(FileNotFoundError, match="nowhere does not exist: pass the folder of"):
        csot.load(tmp_path / "nowhere")


def test_the_representation_is_one_short_line(trained_on_images: Path) -> None:
    shown = repr(csot.load(trained_on_images))
    assert shown.startswith("LoadedRun(takes images; classes ")
    assert len(shown) < 200
