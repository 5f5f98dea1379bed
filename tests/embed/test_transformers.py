"""Models of transformers: tiny ones with random weights, written to disk as the library does."""

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_sample_images
from typer.testing import CliRunner

from csot.cli.app import app
from csot.data import DataError, MissingExtraError
from csot.embed import resolve_embedder
from csot.embed.hub import embed_by_transformers

transformers: Any = pytest.importorskip("transformers")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

SMALL: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "image_size": 32,
    "patch_size": 8,
}
PROCESSOR: dict[str, Any] = {
    "do_resize": True,
    "do_normalize": True,
    "do_rescale": True,
    "rescale_factor": 1 / 255,
    "image_mean": [0.4, 0.5, 0.6],
    "image_std": [0.2, 0.25, 0.3],
    "resample": 3,
}


def save(network: Any, folder: Path, kind: str, size: dict[str, int], **more: Any) -> Path:
    network.save_pretrained(folder)
    processor = {"image_processor_type": kind, "size": size, **PROCESSOR, **more}
    (folder / "preprocessor_config.json").write_text(json.dumps(processor))
    return folder


@pytest.fixture
def vit(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    network = transformers.ViTModel(transformers.ViTConfig(**SMALL))
    return save(network, tmp_path / "vit", "ViTImageProcessor", {"height": 32, "width": 32})


@pytest.fixture
def dinov2(tmp_path: Path) -> Path:
    torch.manual_seed(1)
    network = transformers.Dinov2Model(transformers.Dinov2Config(**SMALL))
    crop = {"do_center_crop": True, "crop_size": {"height": 32, "width": 32}}
    return save(network, tmp_path / "dino", "BitImageProcessor", {"shortest_edge": 40}, **crop)


@pytest.fixture
def pictures(tmp_path: Path) -> list[Path]:
    """Sixteen cuts of a temple and of a flower."""
    paths = []
    for name, pixels in zip(("temple", "flower"), load_sample_images().images, strict=True):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for k in range(16):
            top, left = 20 * k, 35 * k
            paths.append(tmp_path / "photos" / name / f"{k:02d}.png")
            Image.fromarray(pixels[top : top + 60, left : left + 90]).save(paths[-1])
    return sorted(paths)


def by_hand(folder: Path, paths: list[Path]) -> Any:
    """What transformers itself returns, one image at a time."""
    settings = json.loads((folder / "preprocessor_config.json").read_text())
    network = transformers.AutoModel.from_pretrained(folder).eval()
    outputs = []
    for path in paths:
        image = Image.open(path).convert("RGB")
        size = settings["size"]
        if "shortest_edge" in size:
            scale = size["shortest_edge"] / min(image.size)
            width, height = (int(side * scale) for side in image.size)
            image = image.resize((width, height), Image.Resampling.BICUBIC)
            left, top = (width - 32) // 2, (height - 32) // 2
            image = image.crop((left, top, left + 32, top + 32))
        else:
            image = image.resize((32, 32), Image.Resampling.BICUBIC)
        pixels = torch.from_numpy(np.asarray(image, dtype=np.float32) / 255).permute(2, 0, 1)
        mean, deviation = (torch.tensor(settings[f"image_{s}"]) for s in ("mean", "std"))
        pixels = (pixels - mean[:, None, None]) / deviation[:, None, None]
        with torch.inference_mode():
            outputs.append(network(pixel_values=pixels[None]))
    return outputs


@pytest.mark.parametrize("name", ["vit", "dinov2"])
def test_the_command_line_embeds_as_transformers_does(
    name: str, pictures: list[Path], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    folder = request.getfixturevalue(name)
    command = ["clean", str(tmp_path / "photos"), "--out", str(tmp_path / "run")]
    result = CliRunner().invoke(app, [*command, "--embedder", f"hf:{folder}"])
    assert result.exit_code == 0, result.output
    index = json.loads((tmp_path / "run" / "embeddings.json").read_text())
    rows = np.load(tmp_path / "run" / "embeddings.npy")
    assert len(index["rows"]) == len(pictures) == len(rows)
    expected = torch.cat([output.pooler_output for output in by_hand(folder, pictures)])
    np.testing.assert_allclose(rows, expected, atol=2e-4)
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["settings"]["embedder"] == f"hf:{folder}"


def test_without_a_trained_pooler_the_class_token(tmp_path: Path, pictures: list[Path]) -> None:
    """As in the checkpoints of classifiers: the library would draw random weights."""
    network = transformers.ViTModel(transformers.ViTConfig(**SMALL), add_pooling_layer=False)
    folder = save(network, tmp_path / "m", "ViTImageProcessor", {"height": 32, "width": 32})
    rows = embed_by_transformers(pictures[:3], str(folder))
    expected = torch.cat([out.last_hidden_state[:, 0] for out in by_hand(folder, pictures[:3])])
    np.testing.assert_allclose(rows, expected, atol=2e-4)


def test_without_a_class_token_the_mean(tmp_path: Path, pictures: list[Path]) -> None:
    config = transformers.SwinConfig(
        image_size=32, patch_size=4, embed_dim=8, depths=[1, 1], num_heads=[1, 2], window_size=4
    )
    network = transformers.SwinModel(config, add_pooling_layer=False)
    folder = save(network, tmp_path / "swin", "ViTImageProcessor", {"height": 32, "width": 32})
    rows = embed_by_transformers(pictures[:3], str(folder))
    expected = torch.cat([out.last_hidden_state.mean(1) for out in by_hand(folder, pictures[:3])])
    np.testing.assert_allclose(rows, expected, atol=2e-4)


def test_convolutional_networks(tmp_path: Path, pictures: list[Path]) -> None:
    config = transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic"
    )
    network = transformers.ResNetModel(config)
    folder = save(network, tmp_path / "r", "ViTImageProcessor", {"height": 32, "width": 32})
    rows = embed_by_transformers(pictures[:3], str(folder))
    expected = [out.last_hidden_state.mean((2, 3)) for out in by_hand(folder, pictures[:3])]
    np.testing.assert_allclose(rows, torch.cat(expected), atol=2e-4)


def test_models_of_images_and_texts(tmp_path: Path, pictures: list[Path]) -> None:
    text = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 50}
    config = transformers.CLIPConfig(text_config=text, vision_config=SMALL, projection_dim=12)
    network = transformers.CLIPModel(config)
    folder = save(network, tmp_path / "clip", "ViTImageProcessor", {"height": 32, "width": 32})
    rows = embed_by_transformers(pictures[:3], str(folder))
    assert rows.shape == (3, 12)
    np.testing.assert_array_equal(rows, embed_by_transformers(pictures[:3], str(folder)))


def test_weights_and_preparation_are_the_version(vit: Path) -> None:
    before = resolve_embedder("images", f"hf:{vit}").version
    assert resolve_embedder("images", f"hf:{vit}").version == before
    processor = vit / "preprocessor_config.json"
    processor.write_text(processor.read_text().replace("0.25", "0.26"))
    other = resolve_embedder("images", f"hf:{vit}").version
    assert other != before
    network = transformers.ViTModel.from_pretrained(vit)
    with torch.no_grad():
        next(network.parameters()).add_(1e-3)
    network.save_pretrained(vit)
    assert resolve_embedder("images", f"hf:{vit}").version not in (before, other)


def test_a_model_with_random_parts_is_refused(vit: Path, pictures: list[Path]) -> None:
    config = vit / "config.json"
    changed = json.loads(config.read_text()) | {"num_hidden_layers": 3}
    config.write_text(json.dumps(changed))
    with pytest.raises(DataError, match=r"lacks .* weights of its own architecture"):
        embed_by_transformers(pictures[:1], str(vit))


def test_what_is_not_a_vision_model(tmp_path: Path, pictures: list[Path]) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="cannot be loaded"):
        embed_by_transformers(pictures[:1], str(tmp_path / "empty"))
    with pytest.raises(DataError, match=r"folder .* does not exist"):
        resolve_embedder("images", f"hf:{tmp_path / 'none'}")


@pytest.mark.parametrize("medium", ["images", "texts"])
def test_a_hub_that_cannot_be_reached_is_said_at_once(
    medium: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if medium == "texts":
        pytest.importorskip("sentence_transformers")
    hub = pytest.importorskip("huggingface_hub")
    monkeypatch.setattr(hub.constants, "ENDPOINT", "http://127.0.0.1:9")
    start = time.perf_counter()
    with pytest.raises(DataError, match=r"neither a folder nor in the cache.*127\.0\.0\.1:9"):
        resolve_embedder(medium, "hf:no-such-owner/no-such-model")
    assert time.perf_counter() - start < 10


def test_the_cache_of_the_hub_needs_no_network(
    vit: Path, pictures: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model that was downloaded before, in the layout of the hub's cache."""
    hub = pytest.importorskip("huggingface_hub")
    commit = "0123456789abcdef0123456789abcdef01234567"
    cache = tmp_path / "cache" / "models--me--vit"
    (cache / "snapshots").mkdir(parents=True)
    (cache / "refs").mkdir()
    (cache / "refs" / "main").write_text(commit)
    expected = embed_by_transformers(pictures[:2], str(vit))
    vit.rename(cache / "snapshots" / commit)
    monkeypatch.setattr(hub.constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(hub.constants, "HF_HUB_OFFLINE", True)
    embedder = resolve_embedder("images", "hf:me/vit")
    assert embedder.version == f"{commit}-pil-1"
    np.testing.assert_array_equal(embedder(pictures[:2]), expected)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingExtraError, match=r"transformers: pip install 'csot\[hf\]'"):
        resolve_embedder("images", f"hf:{tmp_path}")
