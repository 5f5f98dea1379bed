"""What a run starts from: a pretrained network, its features, or nothing.

|Data|CPU|GPU|
|-|-|-|
|photographs|frozen features, a small network on them|the head, then the last blocks|
|texts|frozen features|frozen features|
|columns, arrays|a small network|a small network|

A preset, a network by `network.name` or `--backbone preact_resnet18` train from scratch. A callable
of the user's own is a network, or, with `frozen`, an embedder: paths -> (N, D).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch

from csot._core.errors import DataError
from csot.data.datasets.core.dataset_registry import data_path
from csot.data.readers.labelled_table import Columns
from csot.embed import images as image_models
from csot.embed import texts as text_models
from csot.embed.preparation import medium_of
from csot.nets.build import NETWORKS, build_network
from csot.nets.weights import network_of
from csot.training.finetune import is_pretrained
from csot.training.presets import preset_for

FEATURES, TABLES, FINETUNE = "features", "tables", "finetune"
"""Presets: a small network on features, or on columns, and a pretrained one that is fine-tuned."""
EMBEDDER = "dataset.embedder"
"""Setting of runs on features."""
SUFFIXES = (".safetensors", ".pt", ".pth")
SIDE = 299
"""Pixels for which every network can be built."""
NAMES = ("network.name", "training.network.name")
"""Settings that choose a network."""


@dataclass(frozen=True)
class Start:
    """Preset and settings of a run, before the user's own settings."""

    preset: str | None
    settings: dict[str, Any] = field(default_factory=dict)
    words: str = ""
    """Message for the terminal: what was chosen, and how to choose otherwise."""
    precision: str | None = None
    """Unless the user names one."""

    def on_machine(self, machine: Mapping[str, Any] | None) -> dict[str, Any]:
        """The user's own settings of the machine, and the precision where they have none."""
        return {**({"precision": self.precision} if self.precision else {}), **(machine or {})}


def choose_start(
    data: str,
    columns: Columns,
    *,
    preset: str | None,
    backbone: str | None,
    frozen: bool | None,
    settings: Mapping[str, Any],
    accelerator: str,
) -> Start:
    """Choose by the data, the machine and the user's arguments.

    Parameters
    ----------
    data : str
        Name or path.
    columns : Columns
        Of a table.
    preset, backbone : str, optional
        As given by the user.
    frozen : bool, optional
        Whether the weights of a pretrained network stay as they are.
    settings : mapping
        Changes of the user.
    accelerator : str
        "auto", "cpu", "cuda" or "mps".
    """
    own = preset or preset_for(data)
    if any(name in settings for name in NAMES):
        if backbone is not None:
            raise DataError(f"`backbone` {backbone} and network.name are both given: drop one")
        refuse_frozen(frozen, "network.name is given; name a pretrained network with `backbone`")
        return Start(own)
    path = data_path(data)
    medium = medium_of(path, columns) if path is not None and path.exists() else "name"
    if medium == "texts":
        if frozen is not True:
            refuse_frozen(frozen, "texts are trained on as features, which stay as they are")
        embedder = backbone or text_models.DEFAULT_MODEL
        return Start(preset or FEATURES, {EMBEDDER: embedder}, _frozen_words(embedder))
    if medium in ("columns", "arrays"):
        refuse_frozen(frozen, f"{data} holds features, and the network on them is trained")
    if medium == "columns":
        own = preset or TABLES
    if backbone is None and (medium != "images" or own is not None):
        named = f"the preset {own}" if own else data
        refuse_frozen(
            frozen, f"{named} does not start from a pretrained network without `backbone`"
        )
        return Start(own)
    name = backbone or image_models.NAME
    if Path(name).suffix in SUFFIXES and Path(name).is_file():
        refuse_frozen(frozen, f"all weights of `backbone` {name} are trained")
        return Start(own, {"network.name": find_network(Path(name)), "network.weights": name})
    if medium in ("columns", "arrays"):
        raise DataError(f"`backbone` {name} is for images and texts; {data} holds features")
    check_backbone(name)
    if not is_pretrained(name) and not (frozen and ":" in name):
        if frozen is not None:
            raise DataError(f"`backbone` {name} is trained from scratch: nothing is frozen in it")
        return Start(own, {"network.name": name})
    if frozen is None:
        frozen = medium == "images" and not _has_gpu(accelerator)
    if frozen:
        if medium != "images":
            raise DataError(f"frozen features are made of image files; {data} is not of files")
        return Start(preset or FEATURES, {EMBEDDER: name}, _frozen_words(name, True))
    words = f"fine-tuning {name}: the head first, then the last blocks"
    return Start(preset or FINETUNE, {"network.name": name}, words, precision="auto")


def refuse_frozen(frozen: bool | None, why: str) -> None:
    """Raise if `frozen` is given where there is no choice."""
    if frozen is not None:
        asked = "`frozen`" if frozen else "`frozen` False (--fine-tune)"
        raise DataError(f"{asked} cannot be given: {why}")


def find_network(weights: Path) -> str:
    """The network of csot that a file of weights is of."""
    shape = (3, SIDE, SIDE)
    candidates = {
        name: partial(build_network, name, shape=shape, num_classes=2)
        for name in NETWORKS
        if name != "mlp"
    }
    return network_of(weights, candidates)


def check_backbone(name: str) -> None:
    """Raise if there is no such network."""
    if not is_pretrained(name) and name not in NETWORKS and ":" not in name:
        known = [*image_models.NETWORKS, *NETWORKS]
        raise DataError(
            f"`backbone` {name} is not one of {', '.join(known)}, nor hf:NAME, timm:NAME or "
            "package.module:callable"
        )


def _has_gpu(accelerator: str) -> bool:
    return accelerator in ("auto", "cuda", "gpu") and torch.cuda.is_available()


def _frozen_words(name: str, images: bool = False) -> str:
    if not images:
        return f"features of {name}, and a small network on them"
    return (
        f"frozen features of {name}, and a small network on them: fine-tuning would take hours "
        "without a GPU (--fine-tune does it anyway; --backbone preact_resnet18 starts from "
        "scratch)"
    )
