"""Presets, layers of settings, and what is said of a wrong one."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from csot._core.text import canonical_noise
from csot.cli.train import parse_settings
from csot.methods import find_method, method_names
from csot.methods.parts.csot_settings import CsotSettings
from csot.training.presets import (
    make_config,
    merged,
    noise_under,
    preset_for,
    preset_names,
    preset_text,
    read_preset,
)

OWN = """
about: a test
training: {epochs: 10, batch_size: 32, optimiser: {learning_rate: 0.1}}
methods:
  csot:
    settings: {epsilon: 0.2, warmup: 3}
    training: {epochs: 20, optimiser: {momentum: 0.5}}
    by_noise:
      sym: {settings: {epsilon: 0.3}, training: {clip: 1.0}}
      sym:0.8: {settings: {warmup: 7}}
      asym: {settings: {warmup_entropy: 1.0}}
"""


@pytest.fixture
def own(tmp_path: Path) -> str:
    path = tmp_path / "own.yaml"
    path.write_text(OWN)
    return str(path)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("sym:.90", "sym:0.9"),
        (" sym-exclude:0.50 ", "sym-exclude:0.5"),
        ("asym:4e-1:superclass:overall", "asym:0.4:overall:superclass"),
        ("none", "none"),
        ("matrix:0.50", "matrix:0.50"),
        ("file:a:.5", "file:a:.5"),
        ("sym:half", "sym:half"),
    ],
)
def test_noise_is_written_in_one_way(text: str, canonical: str) -> None:
    assert canonical_noise(text) == canonical
    assert canonical_noise(canonical) == canonical


def test_noise_is_compared_by_value(own: str) -> None:
    one, other = (
        make_config("digits", "csot", preset=own, noise=n) for n in ("sym:.80", "sym:0.8")
    )
    assert one == other
    assert one.settings["warmup"] == 7
    kept = one.model_copy(update={"noise": "sym:.80"})  # as an earlier version wrote it
    assert kept.identity() == one.identity()


def test_asym_is_the_papers_under_its_preset() -> None:
    assert noise_under("cifar10", "asym:.4") == "asym:0.4:overall"
    assert noise_under("cifar10", "asym:0.4:class") == "asym:0.4:class"
    assert noise_under("cifar10", "sym:0.4") == "sym:0.4"
    assert noise_under("digits", "asym:0.4") == noise_under(None, "asym:0.4") == "asym:0.4"
    config = make_config("cifar10", "dividemix", preset="cifar10", noise="asym:0.4")
    assert config.noise == "asym:0.4:overall"
    assert config.settings["warmup_entropy"] == 1


def test_labels_by_people_take_the_preset_of_their_images() -> None:
    assert preset_for("cifar10n:worse") == "cifar10"
    assert preset_for("cifar100n") == preset_for("cifar100n:coarse") == "cifar100"


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_is_valid(name: str) -> None:
    preset = read_preset(name)
    assert preset.about
    assert "\n" not in preset.about
    for method, section in preset.methods.items():
        for noise in ("none", "sym:0.5", *section.by_noise):
            config = make_config(preset.data or "data.npz", method, preset=name, noise=noise)
            find_method(method).Settings.model_validate(config.settings)
    assert make_config("digits", "csot", preset=name).method == "csot"


def test_digits_is_there() -> None:
    assert "digits" in preset_names()
    assert preset_for("digits") == "digits"
    assert preset_for("some/folder") is None
    assert yaml.safe_load(preset_text("digits"))["data"] == "digits"


@pytest.mark.parametrize(
    ("noise", "epsilon", "warmup", "clip"),
    [("none", 0.2, 3, None), ("sym:0.5", 0.3, 3, 1.0), ("sym:0.8", 0.3, 7, 1.0)],
)
def test_layers(own: str, noise: str, epsilon: float, warmup: int, clip: float | None) -> None:
    config = make_config("digits", "csot", preset=own, noise=noise)
    assert config.settings["epsilon"] == epsilon
    assert config.settings["warmup"] == warmup
    assert config.training.clip == clip
    assert config.training.epochs == 20
    assert config.training.batch_size == 32
    # Deep keys are merged and not replaced.
    assert config.training.optimiser.learning_rate == 0.1
    assert config.training.optimiser.momentum == 0.5


def test_other_kinds_of_noise_have_their_own_layer(own: str) -> None:
    assert make_config("d", "csot", preset=own, noise="asym:0.4").settings["warmup_entropy"] == 1
    excluded = make_config("d", "csot", preset=own, noise="sym-exclude:0.8").settings
    assert (excluded["epsilon"], excluded["warmup"]) == (0.2, 3)


def test_set_wins(own: str) -> None:
    chosen = {"epochs": 3, "epsilon": 0.9, "training.clip": 2.0, "options.norm": "none"}
    config = make_config("digits", "csot", preset=own, noise="sym:0.8", overrides=chosen)
    assert config.training.epochs == 3
    assert config.settings["epsilon"] == 0.9
    assert config.training.clip == 2.0
    assert config.training.network.options == {"norm": "none"}


def test_another_method_takes_the_common_part_only(own: str) -> None:
    config = make_config("digits", "cross_entropy", preset=own, noise="sym:0.8")
    assert config.training.epochs == 10
    assert config.settings == {}


def test_settings_are_complete(own: str) -> None:
    """Defaults of another version must not change what a run is resumed with."""
    settings = make_config("digits", "csot", preset=own).settings
    assert settings.keys() == find_method("csot").Settings.model_fields.keys()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("about: x\ntraning: {}", "traning is not a key; did you mean 'training'?"),
        ("about: x\ntraining: {epocs: 3}", "training.epocs is not a key; did you mean 'epochs'?"),
        ("about: x\ntraining: {optimiser: {learning_rat: 1}}", "did you mean 'learning_rate'?"),
        ("about: x\nmethods: {csot: {setings: {}}}", "did you mean 'settings'?"),
        (
            "about: x\nmethods: {csot: {by_noise: {sym: {trainig: {}}}}}",
            "methods.csot.by_noise.sym.trainig is not a key; did you mean 'training'?",
        ),
        ("about: x\nmethods: {csto: {}}", "methods.csto is not a method; did you mean 'csot'?"),
        ("training: {epochs: 3}", "about is"),
        ("about: x\ntraining: {epochs: 0}", "training.epochs is 0: "),
        ("about: x\ntraining: {epochs: many}", "training.epochs is 'many': "),
        ("about: [x", "not valid YAML"),
        ("- a list", "preset"),
    ],
)
def test_a_wrong_preset(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"wrong\.yaml") as error:
        read_preset(str(path))
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("section", "message"),
    [
        (
            "settings: {epsilom: 1}",
            "settings of csot: epsilom is not a key; did you mean 'epsilon'?",
        ),
        ("settings: {variant: mine}", "variant is 'mine'"),
        ("training: {batchsize: 1}", "training.batchsize is not a key; did you mean 'batch_size'?"),
    ],
)
def test_a_wrong_section(tmp_path: Path, section: str, message: str) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(f"about: x\nmethods: {{csot: {{{section}}}}}")
    with pytest.raises(ValueError, match="is") as error:
        make_config("digits", "csot", preset=str(path))
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("epocs", "`settings` epocs: there is no such key; did you mean 'epochs'?"),
        ("training.epocs", "did you mean 'training.epochs'?"),
        (
            "name",
            "`settings` name is ambiguous: say training.network.name, training.optimiser.name",
        ),
        (
            "weights",
            "`settings` weights is ambiguous: say training.network.weights, settings.weights",
        ),
        ("xyz", "`settings` xyz: there is no such key"),
    ],
)
def test_a_wrong_key_to_set(key: str, message: str) -> None:
    with pytest.raises(ValueError, match="`settings`") as error:
        make_config("digits", "csot", preset="digits", overrides={key: 1})
    assert message in str(error.value)


def test_unknown_names() -> None:
    with pytest.raises(ValueError, match="preset 'digit' is unknown; did you mean 'digits'"):
        make_config("digits", "csot", preset="digit")
    with pytest.raises(ValueError, match="method 'cross-entropy' is unknown; did you mean 'cross_"):
        make_config("digits", "cross-entropy")


def test_pairs_of_the_command_line() -> None:
    pairs = ["epochs=20", " clip = 1.5", "variant=paper", "options={norm: none}", "clip=null"]
    assert parse_settings(pairs[:4]) == {
        "epochs": 20,
        "clip": 1.5,
        "variant": "paper",
        "options": {"norm": "none"},
    }
    assert parse_settings(pairs)["clip"] is None
    for wrong in ("epochs", "=3", " =3"):
        with pytest.raises(ValueError, match="write key=value"):
            parse_settings([wrong])
    with pytest.raises(ValueError, match="not valid YAML"):
        parse_settings(["options={norm: "])


def test_numbers_as_yaml_reads_them() -> None:
    """1e9 is text in YAML, which must not matter."""
    chosen = parse_settings(["learning_rate=1e-3", "epsilon=1e-1"])
    config = make_config("digits", "csot", preset="digits", overrides=chosen)
    assert config.training.optimiser.learning_rate == 1e-3
    assert config.settings["epsilon"] == 0.1


def test_merged_leaves_its_parts_alone() -> None:
    base, over = {"a": {"b": 1, "c": 2}}, {"a": {"b": 3}}
    assert merged(base, over) == {"a": {"b": 3, "c": 2}}
    assert base == {"a": {"b": 1, "c": 2}}


@pytest.mark.parametrize("preset", ["cifar10", "cifar100", "webvision", "clothing1m"])
def test_the_papers_presets_have_a_section_for_every_method(preset: str) -> None:
    """Cross-entropy on CIFAR has none: it is the preset itself."""
    missing = set(method_names()) - set(read_preset(preset).methods)
    assert missing <= {"cross_entropy"}


def test_views_of_the_originals() -> None:
    policies = {
        name: make_config("cifar10", name, preset="cifar10").training.views.policy
        for name in ("moit", "moit_plus", "rrl", "ngc", "unicon", "csot")
    }
    assert policies == {
        "moit": "simclr",
        "moit_plus": "simclr",
        "rrl": "augmix",
        "ngc": "augmix",
        "unicon": "cifar10",
        "csot": "cifar10",
    }
    clothing = make_config("clothing1m", "csot", preset="clothing1m")
    assert (clothing.training.subset, clothing.training.views.cutout) == (1000, 112)
    assert (clothing.dataset.whole, clothing.training.select_on) == (True, None)


@pytest.mark.parametrize("preset", ["digits", "embeddings", "cifar10-small", "features"])
@pytest.mark.parametrize("variant", ["paper", "published"])
def test_a_variant_that_is_asked_for_decides(preset: str, variant: str) -> None:
    found = make_config("digits", "csot", preset=preset, overrides={"variant": variant}).settings
    plain = CsotSettings.model_validate({"variant": variant}).model_dump(mode="json")
    assert {key: found[key] for key in CsotSettings.by_variant} == {
        key: plain[key] for key in CsotSettings.by_variant
    }
    own = make_config("digits", "csot", preset=preset).settings
    assert found["warmup"] == own["warmup"]
    assert own["variant"] == "default"


@pytest.mark.parametrize(
    ("warmup", "ends", "only"), [(3, "before", False), (4, "before", True), (3, "after", True)]
)
def test_epochs_that_end_within_the_warmup(warmup: int, ends: str, only: bool) -> None:
    """Epochs 1 and 2 of a warm-up of 3 that ends before it, all three of one that ends after."""
    changes = {"epochs": 3, "warmup": warmup, "warmup_ends": ends}
    assert make_config("digits", "csot", preset="digits", overrides=changes).only_warms_up is only


@pytest.mark.parametrize("method", method_names())
def test_every_method_gets_past_its_warmup_on_features(method: str) -> None:
    """Stages of the originals last for hundreds of epochs; the preset has thirty."""
    config = make_config("rows.npz", method, preset="features")
    stages = [config.settings.get(name) or 0 for name in ("first_stage", "second_stage", "plain")]
    assert not config.only_warms_up
    assert sum(stages) < config.training.epochs
