"""Load parameters from a local file into a network.

A file holds either a whole network of this package, or a backbone with its own classifier as
torchvision, timm and others save them. Files of pickles are read with `weights_only=True`: nothing
in them is executed.
"""

from __future__ import annotations

import io
import pickletools
import re
import warnings
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from pickle import UnpicklingError
from typing import IO, Any

import torch
from torch import Tensor, nn

from csot._core.errors import FileError, NetworkError, NetworkWarning, naming
from csot._core.files import check_file, open_zip
from csot.nets.network import Adapted, Network

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


# Read tensors from untrusted files: no code is executed, and no tensor exceeds its file.

HEADER = 32 << 20
"""Bytes that describe the tensors of a safetensors file; ten thousand tensors need 2 MB."""
VALUES = 2_000_000
"""Numbers, texts and tensors of a file; a long training run has ten thousand."""
DEPTH = 64
LONG_INTEGERS = 1000
"""Integers of 8 bytes and more; states of random generators have a few. As keys they can all have
the same hash, and take quadratic time."""
LONG_PATTERN = re.compile(rb"\x8a[\x08-\xff]")
"""How a pickle of torch writes them; other bytes can look the same."""
LEGACY_PICKLES = 5
REPEATS = 4
"""How often a byte of the file may occur in its tensors, as tensors may share memory."""


def read_safetensors(path: Path) -> dict[str, Tensor]:
    """Read the tensors of a safetensors file, by name."""
    try:
        from safetensors.torch import load_file
    except ModuleNotFoundError as error:
        raise ImportError(
            f"reading {path} needs the package safetensors: pip install 'csot[train]'"
        ) from error
    check_file(path)
    with naming(path, "a safetensors file"):
        with open(path, "rb") as file:
            length = int.from_bytes(file.read(8), "little")
        if length > HEADER:
            raise FileError(f"{path} has a header of {length:,} bytes; at most {HEADER:,} are read")
        found: dict[str, Tensor] = load_file(path)
        return found


def read_torch(path: Path, legacy: bool = False) -> Any:
    """Read what `torch.save` wrote: tensors, numbers, text, lists and dicts, on the CPU.

    `legacy` also accepts files of torch before 1.6, which are not zip archives.
    """
    size = check_file(path)
    what = "a file of tensors that torch.save wrote"
    with naming(path, what):
        if zipfile.is_zipfile(path):
            with open_zip(path, what) as archive:
                if any(info.compress_type for info in archive.infolist()):
                    raise FileError(f"{path} is compressed, which torch.save never does")
                for info in archive.infolist():
                    if info.filename.endswith("data.pkl"):
                        content = archive.read(info)
                        if len(LONG_PATTERN.findall(content)) > LONG_INTEGERS:
                            _check_integers(io.BytesIO(content), 1)
        elif not legacy:
            raise ValueError("it is not a zip archive")
        else:
            with open(path, "rb") as file:
                _check_integers(file, LEGACY_PICKLES)
        try:
            value = torch.load(path, map_location="cpu", weights_only=True)
        except UnpicklingError as error:  # its own message recommends executing the file
            raise ValueError("it is damaged, or holds more than tensors and numbers") from error
        _Checked(path, REPEATS * size).check(value, DEPTH)
        return value


def _check_integers(file: IO[bytes], pickles: int) -> None:
    """Refuse many long integers in the first ``pickles`` of the file."""
    count = 0
    for _ in range(pickles):
        for opcode, argument, _ in pickletools.genops(file):
            count += opcode.name == "LONG1" and abs(int(argument or 0)) >= 1 << 55
            if count > LONG_INTEGERS:
                raise ValueError(f"it holds more than {LONG_INTEGERS:,} long integers")


class _Checked:
    """Counts values and bytes recursively; a value that occurs twice counts twice."""

    def __init__(self, path: Path, bytes_left: int) -> None:
        self._path = path
        self._bytes_left = bytes_left
        self._values_left = VALUES

    def check(self, value: Any, depth: int) -> None:
        self._values_left -= 1
        if self._values_left < 0 or depth < 0:
            raise FileError(
                f"{self._path} holds more than {VALUES:,} values or {DEPTH} levels of lists"
            )
        if isinstance(value, Tensor):
            self._bytes_left -= value.numel() * value.element_size()
            if self._bytes_left < 0 or value.layout is not torch.strided:
                raise FileError(f"{self._path} has tensors of more bytes than the file")
        elif isinstance(value, dict):
            for key, entry in value.items():
                self.check(key, depth - 1)
                self.check(entry, depth - 1)
        elif isinstance(value, list | tuple | set | frozenset):
            for entry in value:
                self.check(entry, depth - 1)
