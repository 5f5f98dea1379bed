"""Photographs, texts and mixed tables: embedded once, trained on, predicted and loaded again."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import csot
from csot.data import Columns, DataError
from csot.data.samples import StoredViews
from csot.embed.embedder import resolve_embedder
from csot.embed.images import read_pixels
from csot.nets import NetworkError, build_network
from csot.training import Source
from csot.training.config import DataConfig
from csot.training.embedded_data import Place, read_pending
from csot.training.starting_network import choose_start
from image_files import write_image, write_noise_image
from training.quick import command, fails, planted

EMBEDDERS = '''
import numpy as np
from PIL import Image

CALLS = []

def images(paths):
    """Mean colour."""
    CALLS.extend(paths)
    return np.stack([np.asarray(Image.open(p).convert("RGB"), float).mean((0, 1)) for p in paths])

def texts(texts):
    """How often some letters occur."""
    return np.array([[text.count(letter) for letter in "abcxyz"] for text in texts], float)
'''
QUICK = {"epochs": 6, "batch_size": 16, "network.width": 16, "warmup": 2, "supervised_epochs": 4}
SHORT = {"epochs": 1, "batch_size": 4, "stored_views": 1}
OPTIONS = [f"--set={key}={value}" for key, value in QUICK.items()]
NOTHING: dict[str, Any] = {
    "preset": None,
    "backbone": None,
    "frozen": None,
    "settings": {},
    "accelerator": "cpu",
}


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures in two classes with a test folder, a table of texts, and a module of embedders."""
    folder = tmp_path_factory.mktemp("prepared")
    rng = np.random.default_rng(0)
    for row in range(120):
        kind = "train" if row < 100 else "test"
        name = ("dark", "light")[row % 2]
        value = int((200 if row % 2 else 20) + rng.integers(30))
        write_image(folder / "photos" / kind / name / f"{row}.png", value=value)
    words = ["abc abc", "xyz xyz"]
    table = pd.DataFrame(
        {
            "id": [f"r{row}" for row in range(100)],
            "review": [f"{words[row % 2]} {row}" for row in range(100)],
            "price": rng.normal(size=100).round(2),
            "stars": [1 + 4 * (row % 2) for row in range(100)],
        }
    )
    table.to_csv(folder / "reviews.csv", index=False)
    (folder / "prepared_embedders.py").write_text(EMBEDDERS)
    return folder


@pytest.fixture(autouse=True)
def embedders(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(place))


@pytest.fixture(scope="session")
def photo_run(place: Path) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(place))
        trained = csot.train(
            place / "photos",
            out=place / "photo-run",
            backbone="prepared_embedders:images",
            frozen=True,
            settings=QUICK,
        )
    assert trained.summary["informative"]
    assert trained.summary["test_accuracy_last"] == 1.0
    return trained.path


@pytest.fixture(scope="session")
def text_run(place: Path) -> Path:
    arguments = ("--text", "review", "--label", "stars", "--features", "price", *OPTIONS)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(place))
        result = command(
            "train",
            place / "reviews.csv",
            *("--backbone", "prepared_embedders:texts", "--out", place / "text-run"),
            *arguments,
        )
    assert result.exit_code == 0, result.output
    assert "features of prepared_embedders:texts, and a small network on them" in result.stdout
    return place / "text-run"


def test_a_photo_run_predicts(place: Path, photo_run: Path) -> None:
    own = "prepared_embedders:images"
    model = csot.load(photo_run, embedder=own)
    assert model.medium == "images"
    paths = sorted((place / "photos" / "test" / "light").glob("*.png"))
    assert set(model.predict(paths)) == {"light"}
    pixels = np.full((2, 8, 8, 3), (20, 10, 235), dtype=np.uint8)
    assert set(model.predict(pixels)) == {"dark"}
    out = place / "p.csv"
    arguments = ("predict", photo_run, place / "photos" / "test", "--out", out)
    result = command(*arguments, "--embedder", own, "--force")
    assert "accuracy 100.00%" in result.stdout, result.output


def test_what_is_embedded_is_kept(place: Path, photo_run: Path) -> None:
    """In the run, and in a folder that several runs share: nothing is embedded twice."""
    import prepared_embedders  # type: ignore[import-not-found]

    pending = Place(place / "photos", photo_run, Columns())
    config = DataConfig(embedder="prepared_embedders:images")
    before = len(prepared_embedders.CALLS)
    data = read_pending(pending, config).embed()
    assert len(data) == 100
    assert len(prepared_embedders.CALLS) == before
    counts = []
    for out in ("one", "two"):
        shared = Place(place / "photos", place / out, Columns(), cache=place / "cache")
        assert len(read_pending(shared, config).embed()) == 100
        counts.append(len(prepared_embedders.CALLS) - before)
    assert counts[0] == counts[1] > 0
    taken = Place(place / "photos", place / "three", Columns(), known=photo_run)
    read_pending(taken, config).embed()
    assert len(prepared_embedders.CALLS) - before - counts[1] <= 20  # the test set only


def test_fewer_rows_are_embedded_where_a_limit_is_set(place: Path, tmp_path: Path) -> None:
    config = DataConfig(embedder="prepared_embedders:images", limit=10)
    data = read_pending(Place(place / "photos", tmp_path, Columns()), config).embed()
    assert len(data) == 10
    assert data.labels.bincount().tolist() == [5, 5]


def test_code_that_only_a_run_names_is_not_imported(photo_run: Path, tmp_path: Path) -> None:
    run, marker = tmp_path / "run", tmp_path / "imported"
    shutil.copytree(photo_run, run)
    (tmp_path / "hostile.py").write_text(f"open({str(marker)!r}, 'w').close()\nembed = len\n")
    text = (run / "inputs.yaml").read_text()
    (run / "inputs.yaml").write_text(text.replace("prepared_embedders:images", "hostile:embed"))
    pixels = np.zeros((1, 8, 8, 3), dtype=np.uint8)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(tmp_path))
        with pytest.raises(DataError, match="if you trust it, name it with `embedder` hostile:emb"):
            csot.load(run).predict(pixels)
        assert not marker.exists()
        with pytest.raises(DataError, match=r"`embedder` prepared_.*: .* used hostile:embed"):
            csot.load(run, embedder="prepared_embedders:images").predict(pixels)


def test_a_text_run_predicts(place: Path, text_run: Path) -> None:
    own = "prepared_embedders:texts"
    model = csot.load(text_run, embedder=own)
    assert model.medium == "texts"
    new = pd.DataFrame({"review": ["abc", "xyz xyz"], "price": [0.1, -0.2]})
    assert model.predict(new).tolist() == ["1", "5"]
    with pytest.raises(DataError, match="no column 'price'"):
        model.predict(["abc"])
    new.to_csv(place / "new.csv", index=False)
    arguments = ("predict", text_run, place / "new.csv", "--out", place / "t.csv")
    assert command(*arguments, "--embedder", own).exit_code == 0
    assert pd.read_csv(place / "t.csv")["predicted_label"].tolist() == [1, 5]
    samples = pd.read_csv(text_run / "samples.csv")
    assert samples["text"][1] == "xyz xyz 1"


def test_another_medium_is_refused(place: Path, photo_run: Path, text_run: Path) -> None:
    line = fails("predict", text_run, place / "photos" / "test", "--out", place / "x.csv")
    assert "holds no texts" in line
    line = fails("predict", photo_run, place / "reviews.csv", "--out", place / "x.csv")
    assert "name their column with --image" in line


def test_a_plain_table_needs_no_preset(place: Path, tmp_path: Path) -> None:
    arguments = ("--label", "stars", "--features", "price", "--out", tmp_path / "run", *OPTIONS)
    result = command("train", place / "reviews.csv", *arguments)
    assert result.exit_code == 0, result.output
    assert "preset tables" in result.stdout
    # The price says nothing about the stars, and the gate says so.
    assert "does not predict held-out labels" in result.stderr


def test_views_of_real_features(tmp_path: Path) -> None:
    """The plain view is the embedding of the picture; the others are of its windows."""
    pytest.importorskip("efficientnet_lite_pytorch")
    paths = [write_noise_image(tmp_path / "a" / "x" / f"{row}.png", row) for row in range(2)]
    paths += [write_noise_image(tmp_path / "a" / "y" / f"{row}.png", 9 + row) for row in range(2)]
    config = DataConfig(embedder="efficientnet-lite0", stored_views=3)
    data = read_pending(Place(tmp_path / "a", tmp_path / "out", Columns()), config).embed()
    assert isinstance(data.train, StoredViews)
    found = data.train.batch(torch.arange(4))
    assert found.shape == (4, 3, 1280)
    for view in range(3):
        expected = resolve_embedder("images", "efficientnet-lite0", view=view)(paths)
        torch.testing.assert_close(found[:, view], torch.from_numpy(expected), atol=2e-3, rtol=2e-3)
    assert not torch.allclose(found[:, 0], found[:, 1], atol=0.1)


def test_frozen_features_are_exported_with_their_network(tmp_path: Path) -> None:
    """The file takes pixels: the network of the features is inside."""
    pytest.importorskip("efficientnet_lite_pytorch")
    for row in range(12):
        name = "light" if row % 2 else "dark"
        write_image(tmp_path / "photos" / name / f"{row}.png", value=20 + 180 * (row % 2) + row)
    run = csot.train(
        tmp_path / "photos", out=tmp_path / "run", method="cross_entropy", settings=SHORT
    )
    exported = csot.training.export(run.path, torch_export=tmp_path / "model.pt2")
    assert exported.real
    assert exported.difference < 1e-4
    module = torch.export.load(tmp_path / "model.pt2").module()
    paths = sorted((tmp_path / "photos").rglob("*.png"))
    pixels = np.stack([read_pixels(path, 224) for path in paths[:3]]).transpose(0, 3, 1, 2)
    with torch.no_grad():
        found = module(torch.from_numpy(np.ascontiguousarray(pixels)))
    np.testing.assert_allclose(found, csot.load(run.path).predict_proba(paths[:3]), atol=1e-3)
    card = (tmp_path / "model.md").read_text()
    assert "uint8 images (N, 3, 224, 224): the whole image scaled" in card
    assert "mlp on features of efficientnet-lite0" in card


@pytest.mark.parametrize(
    ("given", "preset", "settings"),
    [
        ({}, "features", {"dataset.embedder": "efficientnet-lite0"}),
        ({"frozen": False}, "finetune", {"network.name": "efficientnet-lite0"}),
        ({"backbone": "hf:a/b"}, "features", {"dataset.embedder": "hf:a/b"}),
        ({"backbone": "preact_resnet18"}, None, {"network.name": "preact_resnet18"}),
        ({"preset": "cifar10"}, "cifar10", {}),
        ({"preset": "cifar10", "backbone": "resnet8"}, "cifar10", {"network.name": "resnet8"}),
        ({"settings": {"network.name": "resnet8"}}, None, {}),
    ],
)
def test_what_photographs_start_from(
    place: Path, given: dict[str, Any], preset: str | None, settings: dict[str, Any]
) -> None:
    start = choose_start(str(place / "photos"), Columns(), **{**NOTHING, **given})
    assert (start.preset, start.settings) == (preset, settings)


def test_a_file_of_weights_names_its_network(place: Path, tmp_path: Path) -> None:
    """As another package saves a backbone with a classifier of its own."""
    network = build_network("resnet8", shape=(3, 32, 32), num_classes=7)
    state = {
        key.replace("classifier.", "fc.").removeprefix("backbone."): value
        for key, value in network.state_dict().items()
    }
    torch.save(state, tmp_path / "mine.pt")
    given = {**NOTHING, "backbone": str(tmp_path / "mine.pt")}
    start = choose_start(str(place / "photos"), Columns(), **given)
    assert start.settings["network.name"] == "resnet8"
    torch.save({"x": torch.zeros(3)}, tmp_path / "mine.pt")
    with pytest.raises(NetworkError, match="holds the weights of none of"):
        choose_start(str(place / "photos"), Columns(), **given)


def test_verified_labels_are_checked_before_anything_is_embedded(
    place: Path, tmp_path: Path
) -> None:
    """Else the corrected file would be another one than the run was begun with."""
    verified = tmp_path / "verified.csv"
    verified.write_text("id,label\ntrain/dark/0.png,drak\n")
    with pytest.raises(DataError, match="the verified label 'drak'"):
        csot.train(
            place / "photos",
            out=tmp_path / "run",
            backbone="prepared_embedders:images",
            frozen=True,
            source=Source(verified=verified),
        )
    assert not (tmp_path / "run").exists()


def test_methods_are_compared_from_one_start(place: Path, tmp_path: Path) -> None:
    """Photographs are embedded once for all methods."""
    import prepared_embedders  # type: ignore[import-not-found]

    given: dict[str, Any] = {
        "out": tmp_path / "all",
        "backbone": "prepared_embedders:images",
        "frozen": True,
        "settings": {"epochs": 1, "batch_size": 16, "network.width": 8},
    }
    csot.training.compare(str(place / "photos"), ["cross_entropy"], **given)
    embedded = len(prepared_embedders.CALLS)
    found = csot.training.compare(str(place / "photos"), ["cross_entropy", "co_teaching"], **given)
    assert found.methods == ["cross_entropy", "co_teaching"]
    assert len(prepared_embedders.CALLS) == embedded


def test_names_keep_their_recipes() -> None:
    start = choose_start("cifar10", Columns(), **NOTHING)
    assert (start.preset, start.settings) == ("cifar10", {})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"backbone": "efficientnet-lite9"}, "is not one of efficientnet-lite0"),
        ({"backbone": "resnet8", "frozen": True}, "trained from scratch: nothing is frozen"),
        ({"backbone": "resnet8", "settings": {"network.name": "mlp"}}, "both given: drop one"),
    ],
)
def test_wrong_starts_say_what_is_wrong(place: Path, given: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        choose_start(str(place / "photos"), Columns(), **{**NOTHING, **given})


@pytest.mark.parametrize(
    ("data", "given"),
    [
        ("reviews.csv", {"columns": Columns(text="review"), "frozen": False}),
        ("reviews.csv", {"frozen": True}),
        ("photos", {"preset": "cifar10", "frozen": True}),
        ("photos", {"settings": {"network.name": "resnet8"}, "frozen": True}),
        ("photos", {"backbone": "mine.pt", "frozen": False}),
    ],
)
def test_frozen_is_refused_where_there_is_no_choice(
    place: Path, data: str, given: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.pt").touch()
    given = {**NOTHING, "columns": Columns(), **given}
    with pytest.raises(DataError, match=r"`frozen`.* cannot be given"):
        choose_start(str(place / data), **given)


def test_frozen_is_refused_for_names_and_what_is_in_memory(tmp_path: Path) -> None:
    line = fails("train", "digits", "--frozen", "--out", tmp_path / "run")
    assert (
        "--frozen cannot be given: the preset digits does not start from a pretrained network"
        in line
    )
    for backbone in (None, torch.nn.Linear(5, 3)):
        with pytest.raises(DataError, match=r"`frozen` False .* cannot be given"):
            csot.train(planted(), out=tmp_path / "run", backbone=backbone, frozen=False)


def test_what_features_cannot_have(place: Path, tmp_path: Path) -> None:
    own = {"embedder": "prepared_embedders:images"}
    where = Place(place / "photos", tmp_path, Columns())
    with pytest.raises(DataError, match="has a size of its own"):
        read_pending(where, DataConfig(**own, image_size=32))
    with pytest.raises(DataError, match="by one process: leave out `devices`"):
        read_pending(where, DataConfig(**own), devices=2)
    with pytest.raises(DataError, match="stored_views 2: only images"):
        read_pending(where, DataConfig(**own, stored_views=2))
    with pytest.raises(DataError, match="is for images and texts"):
        csot.train(
            place / "reviews.csv",
            out=tmp_path / "run",
            backbone="efficientnet-lite0",
            source=Source(columns=Columns(label="stars")),
        )
