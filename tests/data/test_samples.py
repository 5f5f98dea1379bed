"""Inputs by row number."""

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from csot.data import DataError
from csot.data.samples import ImageFiles, InMemory, StoredViews, read_square
from image_files import write_image


def test_images_and_features_in_memory() -> None:
    images = InMemory(torch.arange(48, dtype=torch.uint8).view(4, 3, 2, 2))
    assert (images.kind, images.shape, len(images)) == ("images", (3, 2, 2), 4)
    assert images.batch(torch.tensor([3, 0]))[:, 0, 0, 0].tolist() == [36, 0]
    features = InMemory(torch.ones(3, 5, dtype=torch.float16))
    assert (features.kind, features.shape) == ("features", (5,))
    assert features.batch(torch.tensor([1])).dtype == torch.float32


def test_subset_of_subset_keeps_the_order() -> None:
    samples = InMemory(torch.arange(10.0).view(10, 1))
    part = samples.subset([5, 3, 8]).subset(torch.tensor([2, 0]))
    assert len(part) == 2
    assert (part.kind, part.shape) == ("features", (1,))
    assert part.batch(torch.tensor([0, 1])).view(-1).tolist() == [8.0, 5.0]
    with pytest.raises(IndexError, match="of 10 samples"):
        samples.subset([10])


@pytest.mark.parametrize("tensor", [torch.zeros(3), torch.zeros(2, 3, 4, 4)])
def test_other_tensors_are_refused(tensor: torch.Tensor) -> None:
    with pytest.raises(DataError, match="uint8"):
        InMemory(tensor)


@pytest.mark.parametrize(("size", "side"), [((40, 20), 10), ((20, 40), 10), ((7, 9), 16)])
def test_files_are_scaled_and_cut_to_squares(
    tmp_path: Path, size: tuple[int, int], side: int
) -> None:
    path = write_image(tmp_path / "a.png", 100, size)
    samples = ImageFiles([path, write_image(tmp_path / "b.png", 200)], side)
    assert (samples.kind, samples.shape, len(samples)) == ("images", (3, side, side), 2)
    batch = samples.batch(torch.tensor([1, 0, 0]))
    assert (batch.shape, batch.dtype) == ((3, 3, side, side), torch.uint8)
    assert batch[:, 0].flatten(1).unique(dim=1).tolist() == [[200], [100], [100]]


def test_the_cut_is_the_centre_and_images_stand_upright(tmp_path: Path) -> None:
    pixels = np.zeros((8, 16, 3), dtype=np.uint8)
    pixels[:, 4:12] = 255
    image = Image.fromarray(pixels)
    image.save(tmp_path / "wide.png")
    assert (read_square(tmp_path / "wide.png", 8) == 255).all()
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by a quarter
    pixels = np.zeros((8, 8, 3), dtype=np.uint8)
    pixels[:4] = 255
    Image.fromarray(pixels).save(tmp_path / "turned.png", exif=exif)
    turned = read_square(tmp_path / "turned.png", 8)
    assert (turned[:, 4:] == 255).all()
    assert (turned[:, :4] == 0).all()


@pytest.mark.parametrize("size", [(40, 20), (21, 33), (10, 10), (95, 20)])
def test_whole_images_lie_around_the_square_that_would_be_cut_out(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    wide, high = size
    pixels = np.random.default_rng(0).integers(1, 256, (high, wide, 3)).astype(np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    side = min(size)
    samples = ImageFiles([tmp_path / "a.png"], side, whole=True)
    assert (samples.shape, samples.whole) == ((3, side, side), True)
    assert samples.subset([0]).whole
    canvas = samples.batch(torch.tensor([0]))[0].permute(1, 2, 0).numpy()
    assert canvas.shape == (2 * side, 2 * side, 4)
    start = (2 * side - side) // 2
    square = canvas[start : start + side, start : start + side]
    assert (square[..., :3] == read_square(tmp_path / "a.png", side)).all()
    mask = canvas[..., 3] == 255
    assert mask.sum() == side * min(max(size), 2 * side)
    assert (canvas[..., :3][mask] > 0).all()
    assert (canvas[~mask] == 0).all()
    if max(size) <= 2 * side:
        assert (canvas[..., :3][mask].reshape(high, wide, 3) == pixels).all()


def test_files_outlive_pickling(tmp_path: Path) -> None:
    samples = ImageFiles([write_image(tmp_path / "a.png")], 4)
    samples.batch(torch.tensor([0]))
    again = pickle.loads(pickle.dumps(samples))
    assert torch.equal(again.batch(torch.tensor([0])), samples.batch(torch.tensor([0])))


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.png").write_text("no image")
    with pytest.raises(DataError, match=r"x\.png cannot be read as an image"):
        ImageFiles([tmp_path / "x.png"], 4).batch(torch.tensor([0]))
    with pytest.raises(DataError, match="size of 0"):
        ImageFiles([], 0)


def test_stored_views() -> None:
    views = [torch.full((4, 2), float(view)).half() for view in range(3)]
    samples = StoredViews(views)
    assert (len(samples), samples.shape, samples.stored_views) == (4, (2,), 3)
    found = samples.subset([3, 0]).batch(torch.tensor([1]))
    assert found.dtype == torch.float32
    assert found.tolist() == [[[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]]
    assert samples.subset([1]).stored_views == 3
    with pytest.raises(DataError, match="all must be the same"):
        StoredViews([torch.zeros(2, 3), torch.zeros(3, 3)])


def test_scaled_copies_are_kept_by_content(tmp_path: Path) -> None:
    first = write_image(tmp_path / "a.png", value=90, size=(12, 8))
    cache = tmp_path / "cache"
    plain = ImageFiles([first], 4).batch(torch.tensor([0]))
    assert ImageFiles([first], 4, cache).batch(torch.tensor([0])).equal(plain)
    (kept,) = cache.rglob("*.npy")
    # What was kept is what is read, wherever the same content lies.
    marked = np.full((4, 4, 3), 7, dtype=np.uint8)
    np.save(kept, marked)
    again = tmp_path / "b.png"
    again.write_bytes(first.read_bytes())
    assert ImageFiles([again], 4, cache).batch(torch.tensor([0])).eq(7).all()
    # Another size, other content and a damaged copy are made anew.
    assert ImageFiles([first], 3, cache).batch(torch.tensor([0])).shape == (1, 3, 3, 3)
    kept.write_bytes(b"cut off")
    assert ImageFiles([first], 4, cache).batch(torch.tensor([0])).equal(plain)
    write_image(first, value=30, size=(12, 8))
    assert not ImageFiles([first], 4, cache).batch(torch.tensor([0])).equal(plain)
