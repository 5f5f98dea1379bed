"""A folder of images, one sub-folder per class."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from csot._core.pictures import fault, open_rgb
from csot.data import DataError, DataWarning, read_data
from image_files import write_image, write_noise_image


def cats_and_dogs(root: Path) -> Path:
    for name in (
        "cat/1.png",
        "cat/2.jpg",
        "cat/more/3.webp",
        "dog/1.bmp",
        "dog/2.gif",
        "dog/3.TIF",
    ):
        write_image(root / name)
    return root


def test_ids_are_paths_and_labels_are_folders(tmp_path: Path) -> None:
    data = read_data(cats_and_dogs(tmp_path / "pets"))
    assert data.kind == "images"
    assert data.ids == [
        "cat/1.png",
        "cat/2.jpg",
        "cat/more/3.webp",
        "dog/1.bmp",
        "dog/2.gif",
        "dog/3.TIF",
    ]
    assert data.labels.tolist() == ["cat"] * 3 + ["dog"] * 3
    assert data.images == [tmp_path / "pets" / name for name in data.ids]
    assert data.skipped == []


def test_hidden_and_foreign_files_are_ignored(tmp_path: Path) -> None:
    root = cats_and_dogs(tmp_path)
    write_image(root / ".cache" / "x.png")
    write_image(root / "cat" / "._1.png")
    write_image(root / "cat" / ".thumbnails" / "x.png")
    (root / "cat" / "notes.txt").write_text("no image")
    data = read_data(root)
    assert len(data) == 6
    assert data.skipped == []


def test_broken_images_are_listed_not_fatal(tmp_path: Path) -> None:
    root = cats_and_dogs(tmp_path)
    (root / "cat" / "empty.png").write_bytes(b"")
    (root / "cat" / "text.png").write_text("not a png")
    whole = write_noise_image(root / "dog" / "cut.jpg", seed=0).read_bytes()
    (root / "dog" / "cut.jpg").write_bytes(whole[: len(whole) // 2])
    whole = write_noise_image(root / "dog" / "cut.png", seed=0).read_bytes()
    (root / "dog" / "cut.png").write_bytes(whole[: len(whole) // 2])
    write_image(root / "loose.png")
    data = read_data(root)
    assert len(data) == 6
    reasons = {skipped.id: skipped.reason for skipped in data.skipped}
    assert set(reasons) == {
        "loose.png",
        "cat/empty.png",
        "cat/text.png",
        "dog/cut.jpg",
        "dog/cut.png",
    }
    assert reasons["cat/empty.png"] == "empty file"
    assert reasons["loose.png"] == "in no class folder"
    assert "truncated" in reasons["dog/cut.jpg"]
    assert str(tmp_path) not in reasons["cat/text.png"]


def test_numbers_as_folder_names_are_numbers(tmp_path: Path) -> None:
    for name in ("2/a.png", "10/a.png", "2/b.png", "10/b.png"):
        write_image(tmp_path / name)
    assert read_data(tmp_path).labels.tolist() == [10, 10, 2, 2]


def test_an_empty_class_is_left_out_with_a_warning(tmp_path: Path) -> None:
    (cats_and_dogs(tmp_path) / "bird").mkdir()
    with pytest.warns(DataWarning, match="bird has no readable image"):
        assert len(read_data(tmp_path)) == 6


def test_a_class_of_one_image_is_kept_with_a_warning(tmp_path: Path) -> None:
    write_image(cats_and_dogs(tmp_path) / "bird" / "1.png")
    with pytest.warns(DataWarning, match=r"one row only \(bird\)"):
        assert len(read_data(tmp_path)) == 7


def test_no_sub_folders(tmp_path: Path) -> None:
    write_image(tmp_path / "1.png")
    with pytest.raises(DataError, match="no sub-folders and 1 images directly in it"):
        read_data(tmp_path)


def test_splits_instead_of_classes(tmp_path: Path) -> None:
    cats_and_dogs(tmp_path / "train")
    cats_and_dogs(tmp_path / "val")
    with pytest.raises(DataError, match=r"holds splits \(train, val\).*pass one of them"):
        read_data(tmp_path)


def test_one_class(tmp_path: Path) -> None:
    write_image(tmp_path / "cat" / "1.png")
    write_image(tmp_path / "cat" / "2.png")
    with pytest.raises(DataError, match=r"one class \('cat', 2 times\)"):
        read_data(tmp_path)


def test_no_images(tmp_path: Path) -> None:
    (tmp_path / "cat").mkdir()
    (tmp_path / "dog").mkdir()
    with (
        pytest.warns(DataWarning, match="no readable image"),
        pytest.raises(DataError, match="no readable image in its sub-folders cat, dog"),
    ):
        read_data(tmp_path)


def test_a_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nowhere does not exist"):
        read_data(tmp_path / "nowhere")


def test_table_options_are_refused(tmp_path: Path) -> None:
    from csot.data import Columns

    with pytest.raises(DataError, match="is not a table"):
        read_data(cats_and_dogs(tmp_path), Columns(label="x"))


def test_pixels_of_odd_modes(tmp_path: Path) -> None:
    """Transparent is white, 16 bits are stretched, a phone's photograph stands upright."""
    Image.new("RGBA", (4, 4), (0, 0, 0, 0)).save(tmp_path / "clear.png")
    assert open_rgb(tmp_path / "clear.png", 4).getpixel((0, 0)) == (255, 255, 255)
    deep = np.array([[0, 40000], [20000, 40000]], dtype=np.uint16)
    Image.fromarray(deep).save(tmp_path / "deep.png")
    assert [open_rgb(tmp_path / "deep.png", 4).getpixel((x, 0))[0] for x in (0, 1)] == [0, 255]
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (8, 4)).save(tmp_path / "turned.jpg", exif=exif)
    assert open_rgb(tmp_path / "turned.jpg", 4).size == (4, 8)
    Image.new("P", (4, 4)).save(tmp_path / "palette.gif")
    assert open_rgb(tmp_path / "palette.gif", 4).mode == "RGB"


def test_fault_of_what_is_no_file(tmp_path: Path) -> None:
    assert fault(tmp_path / "none.png") == "no such file"
    (tmp_path / "folder.png").mkdir()
    assert fault(tmp_path / "folder.png") == "a folder, not an image"
