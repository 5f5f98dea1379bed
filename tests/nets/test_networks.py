"""Shapes, sizes, gradients and seeds of every network."""

import copy

import pytest
import torch
from torch import nn

from csot.nets import NETWORKS, Network, NetworkError, Outputs, SimSiamPredictor, build_network

SHAPES = {
    "preact_resnet18": (3, 32, 32),
    "resnet8": (1, 8, 8),
    "resnet20": (3, 32, 32),
    "resnet34": (3, 16, 16),
    "cnn9": (3, 28, 28),
    "resnet50": (3, 64, 64),
    "inception_resnet_v2": (3, 75, 75),
    "mlp": (24,),
}
NARROW = {"preact_resnet18": 8, "resnet8": 8, "resnet20": 8, "resnet50": 8, "mlp": 32}
NARROW |= {"resnet34": 8, "cnn9": 8}
LARGE = 299


def small(name: str, **options: object) -> nn.Module:
    """A narrow one of this name, for five classes."""
    options = {"width": NARROW.get(name), **options}
    return build_network(name, shape=SHAPES[name], num_classes=5, **options)  # type: ignore[arg-type]


def inputs(name: str, count: int = 4) -> torch.Tensor:
    return torch.randn((count, *SHAPES[name]), generator=torch.Generator().manual_seed(0))


def parameters(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


def test_every_network_is_tested() -> None:
    assert set(SHAPES) == set(NETWORKS)


@pytest.mark.parametrize("name", SHAPES)
def test_outputs_have_their_shapes(name: str) -> None:
    network = small(name).eval()
    assert isinstance(network, Network)
    outputs = network(inputs(name))
    assert isinstance(outputs, Outputs)
    assert outputs.logits.shape == (4, 5)
    assert outputs.features.shape == (4, network.feature_dim)
    assert outputs.logits.isfinite().all()


@pytest.mark.parametrize(
    ("name", "classes", "feature_dim", "count"),
    [
        ("preact_resnet18", 10, None, 11_171_274),
        ("preact_resnet18", 10, 512, 11_171_274 + 512 * 513),
        ("resnet20", 10, None, 272_474),  # 269,722 with shortcuts that have no parameters
        ("resnet34", 10, None, 21_282_122),
        ("cnn9", 10, None, 4_434_570),
        ("resnet50", 1000, None, 25_557_032),
        ("inception_resnet_v2", 1000, None, 55_843_464),
    ],
)
def test_sizes_are_the_known_ones(
    name: str, classes: int, feature_dim: int | None, count: int
) -> None:
    with torch.device("meta"):  # nothing is drawn, nothing takes memory
        network = build_network(
            name, shape=(3, LARGE, LARGE), num_classes=classes, feature_dim=feature_dim
        )
    assert parameters(network) == count


def test_inception_reads_images_of_299() -> None:
    with torch.device("meta"):
        network = build_network("inception_resnet_v2", shape=(3, LARGE, LARGE), num_classes=50)
        outputs = network.eval()(torch.empty(1, 3, LARGE, LARGE))
        maps = torch.empty(1, 3, LARGE, LARGE)
        for part in list(network.backbone.children()):  # type: ignore[union-attr, operator]
            maps = part(maps)
    assert outputs.logits.shape == (1, 50)
    assert maps.shape == (1, 1536, 8, 8)


@pytest.mark.parametrize("name", SHAPES)
def test_gradients_reach_every_parameter(name: str) -> None:
    network = small(name, feature_dim=12).train()
    outputs = network(inputs(name, 8))
    outputs.logits.square().sum().backward()
    for key, parameter in network.named_parameters():
        assert parameter.grad is not None, key
        # Behind a normalisation of a single pixel, or a dead ReLU, a gradient may vanish in part.
        if parameter.ndim > 1:
            assert parameter.grad.abs().sum() > 0, key


@pytest.mark.parametrize("name", SHAPES)
def test_evaluation_does_not_depend_on_the_batch(name: str) -> None:
    network = small(name).eval()
    given = inputs(name)
    with torch.no_grad():
        whole, one = network(given), network(given[1:2])
    assert torch.allclose(whole.logits[1:2], one.logits, rtol=1e-4, atol=1e-5)
    assert torch.allclose(whole.features[1:2], one.features, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["resnet8", "resnet20", "mlp"])
@pytest.mark.parametrize("norm", ["none", "group", "layer"])
def test_without_batch_norm_samples_are_alone_while_training_too(name: str, norm: str) -> None:
    network = small(name, norm=norm).train()
    given = inputs(name)
    assert torch.allclose(network(given).logits[:2], network(given[:2]).logits, atol=1e-5)
    assert not any(isinstance(part, nn.modules.batchnorm._BatchNorm) for part in network.modules())


def test_a_network_without_normalisation_starts_at_a_sound_scale() -> None:
    network = small("resnet20", norm="none", width=16)
    assert 0.05 < network(inputs("resnet20", 16)).features.std() < 5


@pytest.mark.parametrize("name", ["preact_resnet18", "resnet8", "resnet50"])
def test_channels_last_gives_the_same(name: str) -> None:
    network = small(name).eval()
    given = inputs(name)
    expected = network(given).logits
    network = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    found = network(given.to(memory_format=torch.channels_last)).logits
    assert torch.allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["resnet8", "mlp"])
def test_the_seed_decides_and_the_global_generator_is_left_alone(name: str) -> None:
    before = torch.get_rng_state()
    first, again, other = small(name, seed=1), small(name, seed=1), small(name, seed=2)
    assert torch.equal(before, torch.get_rng_state())
    pairs = list(zip(first.parameters(), again.parameters(), strict=True))
    assert all(torch.equal(one, two) for one, two in pairs)
    assert not torch.equal(next(first.parameters()), next(other.parameters()))


def test_the_published_preact_resnet_has_no_last_normalisation() -> None:
    published, original = small("preact_resnet18"), small("preact_resnet18", final_norm=True)
    assert published(inputs("preact_resnet18")).features.min() < 0
    assert original(inputs("preact_resnet18")).features.min() >= 0
    assert parameters(original) == parameters(published) + 2 * 64


def test_a_head_is_linear_and_its_output_is_the_feature() -> None:
    network = small("mlp", feature_dim=7).eval()
    assert isinstance(network, Network)
    given = inputs("mlp")
    features = network(given).features
    assert features.shape == (4, 7)
    assert torch.allclose(network.classifier(features), network(given).logits)
    assert torch.allclose(network.head(network.backbone(given)), features)
    assert isinstance(small("mlp", head="linear").head, nn.Linear)


def test_mlp_takes_any_hidden_layers() -> None:
    network = small("mlp", width=None, hidden=(9, 6, 3), dropout=0.5, input_dropout=0.1)
    assert network(inputs("mlp")).features.shape == (4, 3)
    assert sum(isinstance(part, nn.Dropout) for part in network.modules()) == 4


def test_predictor() -> None:
    predictor = SimSiamPredictor(512, 128)
    assert predictor(torch.randn(4, 512)).shape == (4, 512)
    assert parameters(predictor) == 512 * 128 + 2 * 128 + 128 * 512 + 512
    assert not any(
        isinstance(p, nn.BatchNorm1d) for p in SimSiamPredictor(8, 4, norm="none").modules()
    )


def test_a_copy_is_another_network() -> None:
    network = small("resnet8")
    other = copy.deepcopy(network)
    with torch.no_grad():
        next(other.parameters()).zero_()
    assert next(network.parameters()).abs().sum() > 0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"name": "preact_resnet"}, "did you mean 'preact_resnet18'"),
        ({"name": "zebra"}, r"no network 'zebra'\. There are: preact_resnet18"),
        ({"name": "resnet8", "nrm": "none"}, "no option of resnet8 called 'nrm'; did you mean"),
        ({"name": "resnet8", "norm": "bach"}, "no normalisation 'bach'; did you mean 'batch'"),
        ({"name": "mlp", "norm": "bach"}, "did you mean 'batch'"),
        ({"name": "resnet8", "shape": (64,)}, "use 'mlp' for vectors"),
        ({"name": "resnet8", "width": 0}, "width is 0"),
        ({"name": "resnet8", "num_classes": 1}, "at least two"),
        ({"name": "resnet8", "head": "liner", "feature_dim": 3}, "did you mean 'linear'"),
        ({"name": "resnet8", "head": "none", "feature_dim": 3}, "use head='linear'"),
        ({"name": "mlp", "hidden": ()}, "at least one layer"),
        ({"name": "inception_resnet_v2", "shape": (3, 32, 32)}, "it needs 75"),
    ],
)
def test_errors_name_the_value_and_the_remedy(given: dict[str, object], message: str) -> None:
    given = {"shape": (3, 8, 8), "num_classes": 5, **given}
    with pytest.raises(NetworkError, match=message):
        build_network(given.pop("name"), **given)  # type: ignore[arg-type]


def test_a_backbone_must_say_how_long_its_vectors_are() -> None:
    with pytest.raises(NetworkError, match="no attribute `dim`"):
        Network(nn.Linear(3, 4), 2)
