"""Load parameters from a local file into a network.

A file holds either a whole network of this package, or a backbone with its own classifier as
torchvision, timm and others save them. Files of pickles are read with `weights_only=True`: nothing
in them is executed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from csot._core.errors import FileError, NetworkError, NetworkWarning, naming
from csot.nets.adapter import Adapted
from csot.nets.network import Network
from csot.nets.tensor_files import read_safetensors, read_torch

CLASSIFIERS = ("classifier", "fc", "last_linear", "classif", "linear")
"""Names of the last layer, here and in other packages."""
WRAPPERS = ("state_dict", "model", "model_state_dict")
"""Keys under which a file may hold its parameters."""


def load_weights(network: nn.Module, path: Path) -> None:
    """Load the parameters into the network, in place.

    A classifier of another number of classes is skipped, with a warning. Any other parameter that
    is missing, left over or of another shape is an error.
    """
    found = _renamed(network, _without_prefix(read_weights(path)))
    wanted = network.state_dict()
    classifier = {key for key in wanted if _is_classifier(network, key)}
    skipped = {
        key
        for key in found
        if key in classifier and key in wanted and found[key].shape != wanted[key].shape
    }
    # The classifier of the file was trained without the head.
    is_foreign = isinstance(network, Network) and not any(key.startswith("head.") for key in found)
    heads = {key for key in wanted if is_foreign and key.startswith("head.")}
    if heads:
        skipped |= {key for key in found if key in classifier}
    found = {key: value for key, value in found.items() if key not in skipped}
    missing = set(wanted) - set(found) - classifier - heads
    # Files of old versions of torch have no counters of batch normalisation.
    missing = {key for key in missing if not key.endswith("num_batches_tracked")}
    _raise_for(path, "lacks", missing)
    _raise_for(path, "has, but the network has not,", set(found) - set(wanted))
    other = {key for key in found if found[key].shape != wanted[key].shape}
    _raise_for(path, "has another shape for", other)
    network.load_state_dict(found, strict=False)
    if fresh := sorted((classifier | heads) - set(found)):
        warnings.warn(
            f"{path}: its classifier does not fit, so these start at random: {', '.join(fresh)}",
            NetworkWarning,
            stacklevel=3,
        )


def read_weights(path: Path) -> dict[str, Tensor]:
    """Names and tensors of a `.safetensors`, `.pt` or `.pth` file, on the CPU."""
    if not path.is_file():
        raise NetworkError(f"there is no file of weights at {path}")
    if path.suffix == ".safetensors":
        with naming(path, "a safetensors file", kind=NetworkError):
            return read_safetensors(path)
    if path.suffix not in (".pt", ".pth"):
        raise NetworkError(f"{path}: weights are read from .safetensors, .pt and .pth files")
    try:
        content: Any = read_torch(path, legacy=True)
    except FileError as error:
        raise NetworkError(
            f"{error}; it cannot be read as tensors alone: save its state_dict with safetensors"
        ) from error
    for key in WRAPPERS:
        if isinstance(content, Mapping) and isinstance(content.get(key), Mapping):
            content = content[key]
    if not isinstance(content, Mapping) or not all(isinstance(v, Tensor) for v in content.values()):
        raise NetworkError(f"{path} holds no state_dict: save `model.state_dict()`")
    return {str(key): value for key, value in content.items()}


def network_of(path: Path, candidates: Mapping[str, Callable[[], nn.Module]]) -> str:
    """The name of the first candidate whose parameters a file holds, the classifier left aside."""
    content = _without_prefix(read_weights(path))
    for name, build in candidates.items():
        with torch.device("meta"):
            network = build()
        found = _renamed(network, content)
        wanted = {
            key: value.shape
            for key, value in network.state_dict().items()
            if not _is_classifier(network, key) and not key.endswith("num_batches_tracked")
        }
        if all(key in found and found[key].shape == shape for key, shape in wanted.items()):
            return name
    raise NetworkError(
        f"{path} holds the weights of none of {', '.join(candidates)} in their usual width: name "
        "the network with network.name, and the file with network.weights"
    )


def _without_prefix(found: dict[str, Tensor]) -> dict[str, Tensor]:
    """DataParallel writes `module.` before every name, torch.compile `_orig_mod.`."""
    for prefix in ("module.", "_orig_mod."):
        if found and all(key.startswith(prefix) for key in found):
            found = {key.removeprefix(prefix): value for key, value in found.items()}
    return found


def _renamed(network: nn.Module, found: dict[str, Tensor]) -> dict[str, Tensor]:
    """Rename the parameters as in the network: a file may hold the backbone only."""
    if isinstance(network, Adapted) and not any(key.startswith("module.") for key in found):
        return {f"module.{key}": value for key, value in found.items()}
    if isinstance(network, Network) and not any(key.startswith("backbone.") for key in found):
        renamed = {}
        for key, value in found.items():
            owner, _, rest = key.rpartition(".")
            is_last = owner in CLASSIFIERS
            renamed[f"classifier.{rest}" if is_last else f"backbone.{key}"] = value
        return renamed
    return found


def _is_classifier(network: nn.Module, key: str) -> bool:
    owner = key.rpartition(".")[0]
    if isinstance(network, Network):
        return owner == "classifier"
    return owner.removeprefix("module.") in CLASSIFIERS


def _raise_for(path: Path, what: str, keys: set[str], limit: int = 5) -> None:
    if keys:
        named = ", ".join(sorted(keys)[:limit])
        more = f" and {len(keys) - limit} more" if len(keys) > limit else ""
        raise NetworkError(f"{path} {what} {named}{more}: it is for another network")
