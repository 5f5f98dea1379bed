"""Presets: YAML files of the package or of the user, and how they become a configuration.

In increasing priority: `training` of the preset, the section of the method, the part of that
section for the kind of noise, `--set`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, Field, ValidationError

from csot._core.errors import FileError, clip, listed, nearest
from csot._core.files import read_text
from csot._core.text import canonical_noise
from csot.methods import find_method, method_names
from csot.training.config import LARGEST, DataConfig, RunConfig, Strict, TrainingConfig, parse_yaml

M = TypeVar("M", bound=BaseModel)
SAME_IMAGES = {"cifar10n": "cifar10", "cifar100n": "cifar100"}
"""Data sets that differ from another one in their labels only, and take its preset."""


class Section(Strict):
    """The section of one method."""

    settings: dict[str, Any] = Field(default_factory=dict)
    training: dict[str, Any] = Field(default_factory=dict)
    by_noise: dict[str, Section] = Field(default_factory=dict)
    """Settings by kind of noise (`sym`, `asym`), or by kind and rate (`sym:0.8`)."""


class Preset(Strict):
    """Contents of a preset file."""

    about: str
    """One line for lists."""
    like: str | None = None
    """A preset of the package that all other values are taken from."""
    data: str | None = None
    dataset: DataConfig = DataConfig()
    noise: dict[str, str] = Field(default_factory=dict)
    """Default options by kind of noise: `asym: overall`."""
    training: TrainingConfig = TrainingConfig()
    methods: dict[str, Section] = Field(default_factory=dict)


def preset_names() -> list[str]:
    """List the presets of the package."""
    folder = resources.files("csot") / "presets"
    return sorted(
        file.name.removesuffix(".yaml") for file in folder.iterdir() if ".yaml" in file.name
    )


def preset_for(data: str) -> str | None:
    """Return the preset named like the data, `embeddings` for arrays, else None."""
    name = data.partition(":")[0]
    name = SAME_IMAGES.get(name, name)
    if name in preset_names():
        return name
    return "embeddings" if data.endswith(".npz") or Path(data, "features.npy").exists() else None


def preset_text(name: str) -> str:
    """Return the YAML of a preset of the package, or of the file `name`."""
    if name.endswith((".yaml", ".yml")):
        return read_text(Path(name), LARGEST)
    known = preset_names()
    if name not in known:
        raise ValueError(
            f"preset {name!r} is unknown{nearest(name, known)}; there are {listed(known, 20)}; "
            "a file of your own ends in .yaml"
        )
    return (resources.files("csot") / "presets" / f"{name}.yaml").read_text(encoding="utf-8")


@cache
def read_preset(name: str) -> Preset:
    """Read and validate a preset; an unknown key is an error that names the nearest known one.

    Parameters
    ----------
    name : str
        A preset of the package, or a file that ends in .yaml.

    Returns
    -------
    Preset
    """
    values = parse_yaml(preset_text(name), f"preset {name}")
    if isinstance(values, dict) and values.get("like") is not None:
        values = merged(_like(name, values["like"]), values)
    preset = checked(Preset, values, f"preset {name}")
    for method in preset.methods:
        if method not in method_names():
            raise FileError(
                f"preset {name}: methods.{clip(method)} is not a method"
                f"{nearest(method, method_names())}"
            )
    return preset


def _like(name: str, base: Any) -> Mapping[str, Any]:
    """The values of the preset that `name` is like."""
    known = [other for other in preset_names() if other != name]
    if base not in known:
        raise FileError(
            f"preset {name}: like is {clip(repr(base))}: name a preset of the package "
            f"({listed(known, 20)})"
        )
    values = parse_yaml(preset_text(base), f"preset {base}")
    if not isinstance(values, dict) or "like" in values:
        raise FileError(f"preset {name}: like is {base!r}, which is itself like another preset")
    return values


def noise_under(preset: str | None, noise: str) -> str:
    """The noise that a text means under a preset, written in one way.

    `sym:.90` is `sym:0.9`. Where the preset has options for a kind of noise and the text has none,
    they are added: under `cifar10`, `asym:0.4` is `asym:0.4:overall`, as in the papers.
    """
    found = canonical_noise(noise)
    kind, *rest = found.split(":")
    options = {} if preset is None else read_preset(preset).noise
    if len(rest) == 1 and kind in options:
        found = canonical_noise(f"{found}:{options[kind]}")
    return found


def make_config(
    data: str,
    method: str,
    *,
    preset: str | None = None,
    noise: str = "none",
    seed: int = 0,
    overrides: Mapping[str, Any] | None = None,
    machine: Mapping[str, Any] | None = None,
    own_training: bool = True,
) -> RunConfig:
    """Make the complete configuration of a run.

    Parameters
    ----------
    data : str
        Name or path of the data.
    method : str
        One of `csot.methods.method_names()`.
    preset : str, optional
        A preset of the package, or a .yaml file.
    noise : str
        Noise to add to the labels.
    seed : int
    overrides : dict, optional
        Changes by key: `training.epochs`, or its end, `epochs`, if that is unambiguous.
    machine : dict, optional
        Accelerator, devices, precision, compile.
    own_training : bool
        Whether to use the epochs, optimiser and network in the method's own section of the preset;
        else only its settings.

    Returns
    -------
    RunConfig
    """
    chosen = Preset(about="") if preset is None else read_preset(preset)
    noise = noise_under(preset, noise)
    section = chosen.methods.get(method, Section())
    layers = [section, *(part for key, part in section.by_noise.items() if _fits(key, noise))]
    # Only keys that the preset sets: defaults are filled in once, at the end.
    training = chosen.training.model_dump(exclude_unset=True)
    settings: dict[str, Any] = {}
    for layer in layers:
        training = merged(training, layer.training if own_training else {})
        settings = merged(settings, layer.settings)
    values = {
        "data": data,
        "method": method,
        "preset": preset,
        "noise": noise,
        "seed": seed,
        "dataset": chosen.dataset.model_dump(exclude_unset=True),
        "training": training,
        "settings": settings,
        "machine": dict(machine or {}),
    }
    changes = [(_path_of(key, method), value) for key, value in (overrides or {}).items()]
    if ["settings", "variant"] in [path for path, _ in changes]:
        decided = find_method(method).Settings.by_variant
        values["settings"] = {key: settings[key] for key in settings if key not in decided}
    for path, value in changes:
        _put(values, path, value)
    config = checked(RunConfig, values, "configuration")
    complete = checked(find_method(method).Settings, config.settings, f"settings of {method}")
    return config.model_copy(update={"settings": complete.model_dump(mode="json")})


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Merge `over` into `base`, recursively."""
    result = dict(base)
    for key, value in over.items():
        old = result.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            value = merged(old, value)
        result[key] = value
    return result


def checked(model: type[M], values: Any, where: str) -> M:
    """Validate values; the error describes the first problem in one sentence."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise FileError(f"{where}: {_describe(model, error)}") from None


def _describe(model: type[BaseModel], error: ValidationError) -> str:
    first = error.errors()[0]
    path = ".".join(clip(str(part)) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        return (
            f"{path} is not a key{nearest(str(first['loc'][-1]), _siblings(model, first['loc']))}"
        )
    message = str(first["msg"]).removeprefix("Value error, ")
    return f"{path} is {clip(repr(first['input']), 200)}: {message}" if path else message


def _siblings(model: type[BaseModel], path: tuple[int | str, ...]) -> list[str]:
    """Known keys at the level of the last part of `path`."""
    fields = model.model_fields
    for part in path[:-1]:
        # In a mapping (the methods of a preset) the key is a name, and the values are models.
        if str(part) in fields:
            inner = _models(fields[str(part)].annotation)
            fields = inner[0].model_fields if inner else {}
    return list(fields)


def _models(annotation: Any) -> list[type[BaseModel]]:
    """The models in a type: `dict[str, Section]` -> [Section]."""
    found = [annotation, *get_args(annotation)]
    return [kind for kind in found if isinstance(kind, type) and issubclass(kind, BaseModel)]


def _keys(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Dotted names of all keys below a model."""
    for name, field in model.model_fields.items():
        yield prefix + name
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _keys(field.annotation, f"{prefix}{name}.")


def _fits(key: str, noise: str) -> bool:
    """`sym` fits `sym:0.5` but not `sym-exclude:0.5`; `sym:0.5` fits any options of that rate."""
    kind, _, rest = noise.partition(":")
    return canonical_noise(key) in (kind, f"{kind}:{rest.partition(':')[0]}")


def _path_of(key: str, method: str) -> list[str]:
    """Complete a key: `epochs` is `training.epochs`, `epsilon` is `settings.epsilon`."""
    settings = [f"settings.{name}" for name in _keys(find_method(method).Settings)]
    known = [*_keys(RunConfig), *settings]
    before, options, option = key.partition("options.")
    if options and option and before in ("", "network.", "training.network."):
        return ["training", "network", "options", option]
    found = [name for name in known if name == key or name.endswith("." + key)]
    if key in found:
        return key.split(".")
    if not found:
        ends = [name.rpartition(".")[2] for name in known]
        raise ValueError(f"`settings` {key}: there is no such key{nearest(key, [*known, *ends])}")
    if len(found) > 1:
        raise ValueError(f"`settings` {key} is ambiguous: say {listed(found)}")
    return found[0].split(".")


def _put(values: dict[str, Any], path: list[str], value: Any) -> None:
    *folders, last = path
    for folder in folders:
        values = values.setdefault(folder, {})
    values[last] = value
