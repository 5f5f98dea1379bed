"""Random views of pictures: the same wherever the picture lies."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from csot.data import DataError
from csot.embed import timm_models
from csot.embed.embedder import has_views, resolve_embedder
from csot.embed.images import LEAST_AREA, window


@pytest.fixture
def picture() -> Image.Image:
    pixels = np.random.default_rng(0).integers(0, 256, (60, 90, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def test_a_view_depends_on_pixels_and_number(picture: Image.Image) -> None:
    assert window(picture, 0) is picture
    for number in (1, 2):
        first, again = window(picture, number), window(picture.copy(), number)
        assert first.tobytes() == again.tobytes()
    assert window(picture, 1).tobytes() != window(picture, 3).tobytes()


def test_windows_are_parts_of_the_picture() -> None:
    """Red grows to the right: the odd views are mirrored, so there it falls."""
    ramp = np.zeros((100, 200, 3), dtype=np.uint8)
    ramp[..., 0] = np.arange(200)
    for number in range(1, 30):
        # The blue value only changes what is drawn.
        ramp[..., 2] = number
        part = np.asarray(window(Image.fromarray(ramp), number)).astype(int)
        height, width = part.shape[:2]
        assert height <= 100
        assert width <= 200
        assert height * width >= 0.9 * LEAST_AREA * 100 * 200 * 0.75
        steps = np.diff(part[0, :, 0])
        assert (steps == (-1 if number % 2 else 1)).all()


def test_a_single_pixel_has_views() -> None:
    assert window(Image.new("RGB", (1, 1)), 4).size == (1, 1)


def test_only_our_own_embedders_have_views() -> None:
    assert has_views("images", None)
    assert has_views("images", "hf:facebook/dinov2-small")
    assert not has_views("images", "package.module:embed")
    assert not has_views("texts", None)
    with pytest.raises(DataError, match="has no views"):
        resolve_embedder("images", "package.module:embed", view=1)


def test_models_of_timm_see_each_view_once(
    tmp_path: Path, picture: Image.Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model of our own in the place of one of timm, which is not needed for it."""
    picture.save(tmp_path / "a.png")
    seen: list[bytes] = []

    def prepare(image: Image.Image) -> torch.Tensor:
        seen.append(image.tobytes())
        return torch.ones(4)

    monkeypatch.setitem(timm_models._LOADED, "own", (torch.nn.Linear(4, 2), prepare))
    timm_models.embed_by_timm([tmp_path / "a.png"], "own", view=1)
    assert seen == [window(picture, 1).tobytes()]
