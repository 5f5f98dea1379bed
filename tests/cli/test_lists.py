"""`csot presets` and `csot methods`."""

from __future__ import annotations

import json

import pytest
import yaml

from csot.methods import find_method, method_names
from csot.training.config import RunConfig
from csot.training.presets import preset_names, preset_text
from training.quick import command, fails


def test_presets_are_listed() -> None:
    result = command("presets", "list")
    assert result.exit_code == 0, result.output
    assert all(name in result.stdout for name in preset_names())


def test_a_preset_is_printed_as_it_is() -> None:
    assert command("presets", "show", "digits").stdout == preset_text("digits")


@pytest.mark.parametrize(
    ("arguments", "method", "noise"),
    [
        (["--method", "cross_entropy"], "cross_entropy", "none"),
        (["--noise", "sym:0.8"], "csot", "sym:0.8"),
    ],
)
def test_a_preset_is_resolved(arguments: list[str], method: str, noise: str) -> None:
    result = command("presets", "show", "digits", *arguments)
    assert result.exit_code == 0, result.output
    config = RunConfig.model_validate(yaml.safe_load(result.stdout))
    assert (config.data, config.method, config.noise) == ("digits", method, noise)
    assert config.settings.keys() == find_method(method).Settings.model_fields.keys()


def test_an_unknown_preset() -> None:
    assert "did you mean 'digits'?" in fails("presets", "show", "digitz")
    assert "method 'csoot' is unknown" in fails("presets", "show", "digits", "--method", "csoot")


def test_methods_are_listed() -> None:
    shown = command("methods")
    assert shown.exit_code == 0, shown.output
    found = json.loads(command("methods", "--json").stdout)
    assert [row["name"] for row in found] == method_names()
    for row in found:
        assert set(row) == {"name", "networks", "about", "reference"}
        assert row["name"] in shown.stdout
        assert row["about"]
        assert row["networks"] in (1, 2)
    networks = {row["name"]: row["networks"] for row in found}
    assert networks["csot"] == 1
