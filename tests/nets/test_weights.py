"""Parameters from files: every format, every name, every way to be wrong."""

import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from csot.nets import NetworkError, NetworkWarning, build_network

SHAPE = (3, 64, 64)
State = dict[str, Tensor]


def network(name: str = "resnet50", classes: int = 5, seed: int = 0, **options: Any) -> nn.Module:
    given = {"width": 8, **options}
    return build_network(name, shape=SHAPE, num_classes=classes, seed=seed, **given)


def save(state: Any, path: Path) -> Path:
    if path.suffix == ".safetensors":
        save_file(state, path)
    else:
        torch.save(state, path)
    return path


def foreign(state: State, classifier: str = "fc") -> State:
    """As torchvision would name them."""
    return {
        key.replace("classifier.", f"{classifier}.").removeprefix("backbone."): value
        for key, value in state.items()
    }


def same(one: State, two: State, keys: set[str] | None = None) -> bool:
    return all(torch.equal(one[key], two[key]) for key in keys or set(one))


@pytest.mark.parametrize("suffix", [".safetensors", ".pt", ".pth"])
@pytest.mark.parametrize("options", [{}, {"feature_dim": 6}])
def test_a_whole_network_comes_back(tmp_path: Path, suffix: str, options: dict[str, Any]) -> None:
    state = network(seed=1, **options).state_dict()
    path = save(state, tmp_path / f"weights{suffix}")
    assert same(network(seed=0, weights=path, **options).state_dict(), state)


@pytest.mark.parametrize("classifier", ["fc", "last_linear", "classif"])
@pytest.mark.parametrize("wrapper", [None, "state_dict", "model"])
@pytest.mark.parametrize("prefix", ["", "module.", "_orig_mod.", "module._orig_mod."])
def test_names_of_others(tmp_path: Path, classifier: str, wrapper: str | None, prefix: str) -> None:
    state = network(seed=1).state_dict()
    content: Any = {prefix + key: value for key, value in foreign(state, classifier).items()}
    path = save({wrapper: content} if wrapper else content, tmp_path / "weights.pth")
    assert same(network(weights=path).state_dict(), state)


def test_a_classifier_of_other_classes_is_skipped_with_a_warning(tmp_path: Path) -> None:
    state = network(classes=9, seed=1).state_dict()
    path = save(foreign(state), tmp_path / "weights.pt")
    with pytest.warns(NetworkWarning, match=r"classifier does not fit.*classifier\.weight"):
        loaded = network(weights=path).state_dict()
    fresh = network().state_dict()
    assert same(loaded, fresh, {"classifier.weight", "classifier.bias"})
    assert same(loaded, state, {key for key in state if key.startswith("backbone.")})


def test_a_head_of_ours_starts_at_random(tmp_path: Path) -> None:
    """Even a classifier of the right shape was trained on other features: it is skipped too."""
    state = network(seed=1).state_dict()
    path = save(foreign(state), tmp_path / "weights.pt")
    dim = state["classifier.weight"].shape[1]
    with pytest.warns(NetworkWarning, match=r"head\.weight"):
        loaded = network(weights=path, feature_dim=dim).state_dict()
    fresh = network(feature_dim=dim).state_dict()
    assert same(loaded, fresh, {"classifier.weight", "head.weight", "head.bias"})
    assert same(loaded, state, {key for key in state if key.startswith("backbone.")})


def test_a_backbone_alone(tmp_path: Path) -> None:
    state = {k: v for k, v in network(seed=1).state_dict().items() if k.startswith("backbone.")}
    path = save(foreign(state), tmp_path / "weights.pt")
    with pytest.warns(NetworkWarning, match="start at random"):
        loaded = network(weights=path).state_dict()
    assert same(loaded, state, set(state))


def test_old_files_have_no_counters(tmp_path: Path) -> None:
    state = foreign(network(seed=1).state_dict())
    state = {k: v for k, v in state.items() if not k.endswith("num_batches_tracked")}
    network(weights=save(state, tmp_path / "weights.pt"))


def test_weights_of_a_module_of_yours(tmp_path: Path) -> None:
    def build(num_classes: int, shape: tuple[int, ...]) -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Linear(12, num_classes))

    def built(**options: Any) -> nn.Module:
        return build_network(build, shape=(3, 2, 2), num_classes=4, **options)

    state = built(seed=1).state_dict()
    bare = {key.removeprefix("module."): value for key, value in state.items()}
    for number, content in enumerate((state, bare)):
        path = save(content, tmp_path / f"{number}.safetensors")
        assert same(built(weights=path).state_dict(), state)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.pop("layer1.0.conv1.weight"), r"lacks backbone\.layer1\.0\.conv1\.weight"),
        (lambda s: s.update(extra=torch.zeros(1)), r"has not, backbone\.extra"),
        (lambda s: s.update({"conv1.weight": torch.zeros(1)}), r"another shape for .*conv1\."),
        (lambda s: s.clear(), "lacks .* more: it is for another network"),
    ],
)
def test_keys_that_do_not_match_are_named(tmp_path: Path, change: Any, message: str) -> None:
    state = foreign(network().state_dict())
    change(state)
    path = save(state, tmp_path / "weights.pt")
    with pytest.raises(NetworkError, match=message):
        network(weights=path)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "text.pt").write_text("no", encoding="utf-8")
    (tmp_path / "text.safetensors").write_text("no", encoding="utf-8")
    (tmp_path / "code.pth").write_bytes(pickle.dumps(Path("x")))
    torch.save({"epoch": 3}, tmp_path / "other.pt")
    for name, message in (
        ("absent.pt", "no file of weights"),
        ("text.pt", "cannot be read as tensors alone"),
        ("code.pth", "cannot be read as tensors alone"),
        ("text.safetensors", "not a safetensors file"),
        ("other.pt", "no state_dict"),
    ):
        with pytest.raises(NetworkError, match=message):
            network(weights=tmp_path / name)
    (tmp_path / "weights.h5").write_bytes(b"")
    with pytest.raises(NetworkError, match=r"\.safetensors, \.pt and \.pth"):
        network(weights=tmp_path / "weights.h5")
