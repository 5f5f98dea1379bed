"""Embeddings are kept by content."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from csot.data import DataError
from csot.embed import Embedder, EmbeddingCache
from image_files import write_image


class Counting:
    """Embeds by length and sum of bytes, and remembers what it was asked for."""

    def __init__(self, fail_at_call: int | None = None) -> None:
        self.calls: list[list[object]] = []
        self.fail_at_call = fail_at_call

    def __call__(self, samples: Sequence[Path | str]) -> npt.NDArray[np.float64]:
        if self.fail_at_call == len(self.calls):
            raise KeyboardInterrupt
        self.calls.append(list(samples))
        held = [s.read_bytes() if isinstance(s, Path) else s.encode() for s in samples]
        return np.array([[len(content), sum(content)] for content in held], dtype=float)

    @property
    def count(self) -> int:
        return sum(len(call) for call in self.calls)


def cache(folder: Path, function: Counting, root: Path, version: str = "1") -> EmbeddingCache:
    return EmbeddingCache(folder, Embedder("counting", version, function, chunk=3), root)


@pytest.fixture
def images(tmp_path: Path) -> list[Path]:
    return [write_image(tmp_path / "data" / f"{k}.png", value=20 * k) for k in range(8)]


def test_second_call_embeds_nothing(tmp_path: Path, images: list[Path]) -> None:
    root = tmp_path / "data"
    first, second = Counting(), Counting()
    one = cache(tmp_path / "run", first, root).embed(images)
    assert one.dtype == np.float32
    assert first.count == 8
    assert [len(call) for call in first.calls] == [3, 3, 2]
    again = cache(tmp_path / "run", second, root)
    assert all(again.knows(path) for path in images)
    np.testing.assert_array_equal(again.embed(images), one)
    assert second.count == 0
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [
        "embeddings.json",
        "embeddings.npy",
    ]
    assert str(tmp_path) not in (tmp_path / "run" / "embeddings.json").read_text()


def test_only_a_changed_file_is_embedded_again(tmp_path: Path, images: list[Path]) -> None:
    root = tmp_path / "data"
    cache(tmp_path / "run", Counting(), root).embed(images)
    write_image(images[4], value=99, size=(16, 16))
    second = Counting()
    again = cache(tmp_path / "run", second, root)
    assert not again.knows(images[4])
    rows = again.embed(images)
    assert second.calls == [[images[4]]]
    np.testing.assert_array_equal(rows, Counting()(images).astype(np.float32))


def test_moved_and_touched_files_are_known_by_content(tmp_path: Path, images: list[Path]) -> None:
    one = cache(tmp_path / "run", Counting(), tmp_path / "data").embed(images)
    (tmp_path / "data").rename(tmp_path / "elsewhere")
    moved = [tmp_path / "elsewhere" / path.name for path in reversed(images)]
    moved[0].touch()
    second = Counting()
    rows = cache(tmp_path / "run", second, tmp_path / "elsewhere").embed(moved)
    assert second.count == 0
    np.testing.assert_array_equal(rows, one[::-1])


def test_another_embedder_or_version_starts_anew(tmp_path: Path, images: list[Path]) -> None:
    cache(tmp_path / "run", Counting(), tmp_path / "data").embed(images)
    second = Counting()
    cache(tmp_path / "run", second, tmp_path / "data", version="2").embed(images)
    assert second.count == 8


def test_an_interrupted_call_is_taken_up(tmp_path: Path, images: list[Path]) -> None:
    broken, second = Counting(fail_at_call=2), Counting()
    with pytest.raises(KeyboardInterrupt):
        cache(tmp_path / "run", broken, tmp_path / "data").embed(images)
    assert not (tmp_path / "run" / "embeddings.json").exists()
    (tmp_path / "run" / "embeddings.parts" / "cut.npz").write_bytes(b"cut off")
    steps: list[int] = []
    rows = cache(tmp_path / "run", second, tmp_path / "data").embed(images, steps.append)
    assert second.calls == [images[6:]]
    assert steps == [6, 2]
    np.testing.assert_array_equal(rows, Counting()(images).astype(np.float32))
    assert not (tmp_path / "run" / "embeddings.parts").exists()


def test_equal_texts_are_embedded_once(tmp_path: Path) -> None:
    function, steps = Counting(), list[int]()
    texts = ["a", "bb", "a", "a", "ccc", "bb"]
    rows = cache(tmp_path / "run", function, tmp_path).embed(texts, steps.append)
    assert function.count == 3
    assert sum(steps) == 6
    np.testing.assert_array_equal(rows[:, 0], [1, 2, 1, 1, 3, 2])


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"embedder": ["counting", "1"]'])
def test_a_broken_index_is_no_index(tmp_path: Path, content: str) -> None:
    cache(tmp_path / "run", Counting(), tmp_path).embed(["a", "b"])
    (tmp_path / "run" / "embeddings.json").write_text(content)
    second = Counting()
    cache(tmp_path / "run", second, tmp_path).embed(["a", "b"])
    assert second.count == 2
    assert json.loads((tmp_path / "run" / "embeddings.json").read_text())["rows"]


def test_rows_of_different_lengths(tmp_path: Path) -> None:
    wide = iter([2, 3])
    embedder = Embedder("odd", "1", lambda samples: np.ones((len(samples), next(wide))), chunk=1)
    with pytest.raises(DataError, match="different lengths"):
        EmbeddingCache(tmp_path / "run", embedder, tmp_path).embed(["a", "b"])


def test_a_shared_folder_keeps_other_samples(tmp_path: Path) -> None:
    calls: list[str] = []

    def embed(texts: list[str]) -> npt.NDArray[np.float64]:
        calls.extend(texts)
        return np.array([[len(text), 1.0] for text in texts])

    embedder = Embedder("own", "1", embed, 2)

    def cache() -> EmbeddingCache:
        return EmbeddingCache(tmp_path, embedder, tmp_path, keep=True)

    cache().embed(["a", "bb", "ccc"])
    assert cache().embed(["bb", "dddd"])[:, 0].tolist() == [2.0, 4.0]
    assert calls == ["a", "bb", "ccc", "dddd"]
    assert cache().embed(["ccc", "a", "dddd"])[:, 0].tolist() == [3.0, 1.0, 4.0]
    assert calls == ["a", "bb", "ccc", "dddd"]


def test_runs_that_share_a_folder_at_the_same_time(tmp_path: Path) -> None:
    calls: list[str] = []

    def embed(texts: list[str]) -> npt.NDArray[np.float64]:
        calls.extend(texts)
        if "5" in texts:  # another run writes while this one embeds
            cache().embed(["9", "8"])
        return np.array([[float(text)] for text in texts])

    def cache() -> EmbeddingCache:
        return EmbeddingCache(tmp_path, Embedder("own", "1", embed, 10), tmp_path, keep=True)

    cache().embed(["1", "2", "3", "4"])
    one = cache()
    cache().embed(["4", "3", "9"])
    assert one.embed(["1", "2", "3", "4"])[:, 0].tolist() == [1, 2, 3, 4]
    assert one.embed(["1", "2", "3", "4", "5"])[:, 0].tolist() == [1, 2, 3, 4, 5]
    everything = ["9", "1", "8", "5", "3", "2", "4"]
    assert cache().embed(everything)[:, 0].tolist() == [9, 1, 8, 5, 3, 2, 4]
    assert sorted(calls) == sorted(everything)
    assert len(list(tmp_path.glob("*.npy"))) == 1
