"""Values that the shell completes. Only file names are read: completion should not wait."""

from __future__ import annotations

from importlib.resources import files

NOISE = ("none", "sym:0.2", "sym:0.5", "asym:0.4", "pair:0.3", "instance:0.3")


def _names(folder: str, ending: str) -> list[str]:
    found = (file.name for file in (files("csot") / folder).iterdir())
    return sorted(
        name.removesuffix(ending)
        for name in found
        if name.endswith(ending) and not name.startswith("_")
    )


def complete_method(incomplete: str) -> list[str]:
    """Methods of training."""
    return [name for name in _names("methods", ".py") if name.startswith(incomplete)]


def complete_preset(incomplete: str) -> list[str]:
    """Presets of the package."""
    return [name for name in _names("presets", ".yaml") if name.startswith(incomplete)]


def complete_embedder(incomplete: str) -> list[str]:
    """Embedders of images that ship in wheels, and how a model of the hub begins."""
    known = ("efficientnet-lite0", "efficientnet-lite2", "hf:")
    return [name for name in known if name.startswith(incomplete)]


def complete_noise(incomplete: str) -> list[str]:
    """Kinds of noise with a usual rate."""
    return [name for name in NOISE if name.startswith(incomplete)]
