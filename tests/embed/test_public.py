"""`csot.embed_images` and `csot.embed_texts`: samples of every kind, by one's own embedder."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import csot
from csot.data import DataError

OWN = """
from PIL import Image

def corners(paths):
    return [Image.open(path).convert("RGB").getpixel((0, 0)) for path in paths]

def lengths(texts):
    return [[len(text)] for text in texts]
"""


@pytest.fixture(autouse=True)
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "public_embedder.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return tmp_path


def embed(images: Any) -> list[list[float]]:
    found = csot.embed_images(images, "public_embedder:corners", progress=False)
    assert found.dtype == np.float32
    return found.tolist()


def test_images_as_paths_pictures_and_arrays(own: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (70, 6, 5, 3), dtype=np.uint8)
    pictures = [Image.fromarray(one) for one in pixels]
    for row, picture in enumerate(pictures):
        picture.save(own / f"{row}.png")
    wanted = pixels[:, 0, 0].tolist()
    paths = [own / f"{row}.png" for row in range(70)]
    for images in (paths, list(map(str, paths)), pictures, pixels, pixels.transpose(0, 3, 1, 2)):
        assert embed(images) == wanted
    mixed = [paths[0], pictures[1], pixels[2], pixels[3, :, :, 0]]
    assert embed(mixed)[:3] == wanted[:3]
    assert embed(mixed)[3] == [pixels[3, 0, 0, 0]] * 3


def test_texts(own: Path) -> None:
    for texts in (["a", "bb"], pd.Series(["a", "bb"], index=[7, 3]), np.array(["a", "bb"])):
        found = csot.embed_texts(texts, "public_embedder:lengths", progress=False)
        np.testing.assert_array_equal(found, [[1], [2]])


@pytest.mark.parametrize(
    ("images", "message"),
    [
        ("a.png", "`images` must be a list of images, got str; put a single one into a list"),
        ([], "`images` is empty"),
        (["none.png"], r"images\[0\], none.png"),
        ([3], r"images\[0\] must be a path, a PIL image or an array, got int"),
        ([np.zeros((4, 4, 3))], r"images\[0\] has shape .* and type float64; uint8"),
    ],
)
def test_unusable_images(images: Any, message: str) -> None:
    with pytest.raises((ValueError, DataError), match=message):
        embed(images)


@pytest.mark.parametrize(
    ("texts", "message"),
    [("one", "`texts` must be a list"), (["a", None], r"texts\[1\] must be a text, got None")],
)
def test_unusable_texts(texts: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        csot.embed_texts(texts, "public_embedder:lengths", progress=False)
