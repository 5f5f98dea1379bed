"""Modules of the user's."""

import copy
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from csot.nets import Adapted, NetworkError, Outputs, build_network

CLASSES = 3


class Logits(nn.Module):
    """Has a linear layer after the classifier in the order of definition, of another size."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(4, 6)
        self.classifier = nn.Linear(6, CLASSES)
        self.unused = nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.classifier(self.body(x).relu())
        return out


class Returning(nn.Module):
    """Returns whatever it is told to."""

    def __init__(self, result: Any):
        super().__init__()
        self.result = result

    def forward(self, x: Tensor) -> Any:
        return self.result


class Unused(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return x[:, :CLASSES]


def adapted(module: Any) -> nn.Module:
    return build_network(module, shape=(4,), num_classes=CLASSES)


def test_features_of_logits_are_what_the_last_linear_layer_read() -> None:
    module, x = Logits(), torch.randn(5, 4)
    network = adapted(module)
    outputs = network(x)
    assert isinstance(outputs, Outputs)
    assert torch.equal(outputs.logits, module(x))
    assert torch.equal(outputs.features, module.body(x).relu())
    outputs.features.sum().backward()
    assert module.body.weight.grad is not None
    assert not module.classifier._forward_pre_hooks


def test_a_copy_gives_its_own_features() -> None:
    network = adapted(Logits())
    other = copy.deepcopy(network)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.zero_()
    x = torch.randn(5, 4)
    assert other(x).features.abs().sum() == 0
    assert network(x).features.abs().sum() > 0


@pytest.mark.parametrize("kind", [tuple, list, lambda pair: Outputs(*pair)])
def test_a_pair_is_logits_and_features(kind: Any) -> None:
    pair = (torch.randn(5, CLASSES), torch.randn(5, 7))
    outputs = adapted(Returning(kind(pair)))(torch.randn(5, 4))
    assert torch.equal(outputs.logits, pair[0])
    assert torch.equal(outputs.features, pair[1])


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (torch.zeros(5, CLASSES), "called no linear layer whose inputs could serve"),
        ({"logits": 1}, "Returning returned a dict"),
        ((1, 2, 3), "a tuple of 3"),
        ((torch.zeros(1, CLASSES), None), "features of Returning are a NoneType"),
        ((torch.zeros(5, CLASSES), torch.zeros(5, 2, 2)), r"a tensor of shape \(5, 2, 2\)"),
        ((torch.zeros(5, 4), torch.zeros(5, 2)), "logits of 4 classes; the data has 3"),
    ],
)
def test_anything_else_is_an_error(result: Any, message: str) -> None:
    with pytest.raises(NetworkError, match=message):
        adapted(Returning(result))


def test_a_linear_layer_that_is_not_called_is_an_error() -> None:
    with pytest.raises(NetworkError, match="as features: let it return a pair"):
        adapted(Unused())


@pytest.mark.parametrize(
    ("module", "dim"),
    [(Logits(), 6), (Returning((torch.zeros(1, CLASSES), torch.zeros(1, 7))), 7)],
)
def test_the_length_of_the_features_is_found(module: nn.Module, dim: int) -> None:
    assert adapted(module).feature_dim == dim


def test_a_module_is_left_as_it_was() -> None:
    module = nn.Sequential(nn.BatchNorm1d(4), nn.Dropout(), nn.Linear(4, CLASSES))
    module[0].eval()
    before = copy.deepcopy(module.state_dict())
    adapted(module)
    assert [part.training for part in module] == [False, True, True]
    assert all(torch.equal(before[key], value) for key, value in module.state_dict().items())


def test_a_network_of_ours_is_taken_as_it_is() -> None:
    network = build_network("mlp", shape=(4,), num_classes=CLASSES)
    assert adapted(network) is network
    wrapped = adapted(Logits())
    assert adapted(wrapped) is wrapped


def test_a_callable_is_called_with_classes_and_shape() -> None:
    seen: dict[str, Any] = {}

    def build(*, num_classes: int, shape: tuple[int, ...]) -> nn.Module:
        seen.update(num_classes=num_classes, shape=shape)
        return Logits()

    assert isinstance(adapted(build), Adapted)
    assert seen == {"num_classes": CLASSES, "shape": (4,)}


def test_a_callable_by_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_own_nets.py").write_text(
        "from torch import nn\n"
        "def tiny(num_classes, shape): return nn.Sequential(nn.Linear(shape[0], num_classes))\n"
        "def wrong(num_classes, shape): return num_classes\n"
        "number = 3\n",
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(tmp_path)
    before = torch.get_rng_state()
    first, again = adapted("my_own_nets:tiny"), adapted("my_own_nets:tiny")
    assert torch.equal(before, torch.get_rng_state())
    x = torch.randn(5, 4)
    assert torch.equal(first(x).logits, again(x).logits)
    assert torch.equal(first(x).features, x)
    for path, message in (
        ("my_own_nets:wrong", "returned a int, not a torch.nn.Module"),
        ("my_own_nets:number", "has no callable 'number'"),
        ("my_own_nets:absent", "has no callable 'absent'"),
        ("no_such_nets:tiny", "no module 'no_such_nets'"),
    ):
        with pytest.raises(NetworkError, match=message):
            adapted(path)
    sys.modules.pop("my_own_nets")


def test_options_of_ours_are_not_for_yours() -> None:
    with pytest.raises(NetworkError, match="width is for the networks of csot"):
        build_network(Logits(), shape=(4,), num_classes=CLASSES, width=3)
