"""A fitted `LabelCleaner` as one .npz file, without pickle."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch

from csot._core.errors import FileError, clip, reason
from csot._core.files import atomic_write, open_zip, read_member, write_npz
from csot.clean.correction import Correction
from csot.clean.explanation import ChosenExplanation, Explanation
from csot.clean.features import Basis, Units
from csot.clean.members.fourier import FourierMap, FourierPredictor
from csot.clean.members.probe import ProbePredictor
from csot.clean.members.small_network import NetworkPredictor, Networks
from csot.clean.model import FittedModel, Scale
from csot.clean.overlap import Overlap
from csot.clean.verdicts import ClassDistances, Rules

# A tree of plain values, arrays, tables and known dataclasses as one .npz file, without pickle.
#
# `header` holds the tree as JSON, in UTF-8 bytes; its leaves name the arrays `a0`, `a1`, ...
# Numbers come back to the last bit. Nothing in the file can name code to run: types are looked up
# among those that the caller knows.

HEADER = "header"
NUMERIC = "biufMmU"
"""Kinds of NumPy types that are stored as they are."""
MOST_FEATURES = 10_000_000
Types = Mapping[str, type[Any]]


def write_archive(path: Path, kind: str, version: int, value: Any, types: Types) -> None:
    """Write atomically; `kind` and `version` are what a reader asks for."""
    packer = _Packer(types)
    tree = {"kind": kind, "version": version, "value": packer.pack(value, kind)}
    header = np.frombuffer(json.dumps(tree).encode(), dtype=np.uint8)
    with atomic_write(path) as file:
        write_npz(file, {HEADER: header, **packer.arrays})


def read_archive(path: Path, kind: str, version: int, types: Types) -> Any:
    """The value; ValueError, naming the file, if it is damaged or something else."""
    path.stat()  # a missing file is an error of its own
    what = f"a saved {kind}, or it is damaged"
    with open_zip(path, what) as archive:
        try:
            names = [Path(name).stem for name in archive.namelist()]
            arrays = {name: read_member(archive, name, path) for name in names}
            tree = json.loads(arrays[HEADER].tobytes())
            found, number = tree["kind"], tree["version"]
        except Exception as error:  # a damaged file can fail anywhere in the readers
            raise FileError(f"{path} is not {what}: {reason(error, path)}") from error
    if found != kind:
        raise FileError(f"{path} is a saved {clip(str(found))}, not a {kind}")
    if number != version:
        raise FileError(
            f"{path} has version {clip(str(number))} and this csot reads version {version}: use "
            "the csot that wrote it, or fit again"
        )
    try:
        return _Unpacker(types, arrays).unpack(tree["value"])
    except Exception as error:
        raise FileError(
            f"{path} is damaged or of another version of csot ({reason(error, path)}): fit again"
        ) from error


class _Packer:
    def __init__(self, types: Types) -> None:
        self.arrays: dict[str, npt.NDArray[Any]] = {}
        self._types = {known: name for name, known in types.items()}
        self._tensors: dict[int, tuple[torch.Tensor, str]] = {}

    def pack(self, value: Any, where: str) -> Any:
        """A node of JSON; `where` names it in errors."""
        if value is None or isinstance(value, (bool, int, float, str)):
            return value.item() if isinstance(value, np.generic) else value
        if isinstance(value, np.generic):
            return self.pack(value.item(), where)
        if isinstance(value, torch.Tensor):
            # Members share tensors; each is stored once.
            if id(value) not in self._tensors:
                self._tensors[id(value)] = value, self._store(value.numpy())
            return {"tensor": self._tensors[id(value)][1]}
        if isinstance(value, np.ndarray):
            if value.dtype.kind in NUMERIC:
                return {"array": self._store(value)}
            return {"objects": self._scalars(value, where)}
        if isinstance(value, (list, tuple)):
            name = "list" if isinstance(value, list) else "tuple"
            return {name: [self.pack(item, where) for item in value]}
        if isinstance(value, dict):
            return {"dict": {str(k): self.pack(item, f"{where}.{k}") for k, item in value.items()}}
        if isinstance(value, pd.DataFrame):
            columns = [self.pack(value.iloc[:, k], where) for k in range(value.shape[1])]
            return {"frame": columns, "index": self.pack(value.index, f"the index of {where}")} | {
                "columns": self.pack(value.columns, f"the columns of {where}")
            }
        if isinstance(value, (pd.Series, pd.Index)):
            return self._pack_values(value, where)
        if type(value) in self._types:
            known = {name: self.pack(item, f"{where}.{name}") for name, item in _parts(value)}
            return {"type": self._types[type(value)], "fields": known}
        raise ValueError(f"{where} cannot be saved: it holds a {type(value).__name__}")

    def _pack_values(self, values: pd.Series[Any] | pd.Index[Any], where: str) -> dict[str, Any]:
        node: dict[str, Any] = {"name": self.pack(values.name, f"the name of {where}")}
        if isinstance(values, pd.RangeIndex):
            return node | {"range": [values.start, values.stop, values.step]}
        if isinstance(values, pd.Series):
            node["of"] = self.pack(values.index, f"the index of {where}")
        array = values.to_numpy()
        if array.dtype.kind not in NUMERIC:
            array = values.to_numpy(dtype=object)
        return node | {"values": self.pack(array, where), "dtype": values.dtype.name}

    def _scalars(self, array: npt.NDArray[Any], where: str) -> list[Any]:
        for value in array.ravel().tolist():
            if value is not None and not isinstance(value, (bool, int, float, str, np.generic)):
                raise ValueError(
                    f"{where} holds {value!r}, a {type(value).__name__}: only text and numbers can "
                    "be saved; pass sample_ids and labels of these types"
                )
        if array.ndim != 1:
            raise ValueError(f"{where} cannot be saved: objects of shape {array.shape}")
        return [self.pack(value, where) for value in array.tolist()]

    def _store(self, array: npt.NDArray[Any]) -> str:
        name = f"a{len(self.arrays)}"
        self.arrays[name] = array
        return name


class _Unpacker:
    def __init__(self, types: Types, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        self._types = types
        self._arrays = arrays
        self._tensors: dict[str, torch.Tensor] = {}

    def unpack(self, node: Any) -> Any:
        """The value of a node."""
        if not isinstance(node, dict):
            return node
        if "type" in node:
            parts = {name: self.unpack(item) for name, item in node["fields"].items()}
            return _whole(self._types[node["type"]], parts)
        if "tensor" in node:
            name = node["tensor"]
            if name not in self._tensors:
                # A copy of torch's own, aligned as at fit: products are equal to the last bit.
                self._tensors[name] = torch.from_numpy(self._arrays[name]).clone()
            return self._tensors[name]
        if "array" in node:
            return self._arrays[node["array"]]
        if "objects" in node:
            return _objects(node["objects"])
        if "list" in node:
            return [self.unpack(item) for item in node["list"]]
        if "tuple" in node:
            return tuple(self.unpack(item) for item in node["tuple"])
        if "dict" in node:
            return {name: self.unpack(item) for name, item in node["dict"].items()}
        return self._unpack_table(node)

    def _unpack_table(self, node: dict[str, Any]) -> Any:
        if "frame" in node:
            columns = [self.unpack(column) for column in node["frame"]]
            index = self.unpack(node["index"])
            table = pd.DataFrame(dict(enumerate(columns)), index=index)
            return table.set_axis(self.unpack(node["columns"]), axis=1)
        if "range" in node:
            rows = range(*node["range"])
            # A range takes no room in the file; the rows that it numbers do.
            if len(rows) > sum(array.nbytes for array in self._arrays.values()):
                raise ValueError(f"a table of {len(rows):,} rows")
            return pd.RangeIndex(rows, name=self.unpack(node["name"]))
        values, name, dtype = self.unpack(node["values"]), self.unpack(node["name"]), node["dtype"]
        if "of" in node:
            return pd.Series(values, index=self.unpack(node["of"]), name=name, dtype=dtype)
        return pd.Index(values, name=name, dtype=dtype)


def _objects(values: list[Any]) -> npt.NDArray[np.object_]:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _parts(value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, Basis):
        return list(value.parameters().items())
    assert is_dataclass(value)
    return [(part.name, getattr(value, part.name)) for part in fields(value)]


def _whole(known: type[Any], parts: dict[str, Any]) -> Any:
    return Basis.restore(parts) if known is Basis else known(**parts)


# A fitted `LabelCleaner` as a file: its settings and everything that `fit` learned.
#
# Left out are the training rows themselves: coordinates, held-out logits and probabilities.
# Verdicts on the training rows are in `findings_` and `posterior_`, which are kept.

KIND = "LabelCleaner"
VERSION = 6
TYPES = {
    known.__name__: known
    for known in (
        Basis,
        ClassDistances,
        Correction,
        Explanation,
        FittedModel,
        FourierMap,
        FourierPredictor,
        ChosenExplanation,
        NetworkPredictor,
        Networks,
        Overlap,
        ProbePredictor,
        Rules,
        Scale,
        Units,
    )
}


def save_state(path: Path, state: dict[str, Any]) -> None:
    """Write the attributes of a fitted cleaner to one file."""
    model: FittedModel = state["model_"]
    light = replace(
        model,
        posterior=model.posterior[:0],
        corrected=model.corrected[:0],
        probs=model.probs[:0],
        rows=model.rows[:0],
        rounds=[],
    )
    seed = state["random_state"]
    if isinstance(seed, np.random.RandomState):
        seed = None
    progress = None if callable(state["progress"]) else state["progress"]
    kept = {**state, "model_": light, "random_state": seed, "progress": progress}
    write_archive(path, KIND, VERSION, kept, TYPES)


def load_state(path: Path) -> dict[str, Any]:
    """The attributes; ValueError if the file is not one of `save_state`, whole and consistent."""
    state = read_archive(path, KIND, VERSION, TYPES)
    try:
        _check(state)
    except Exception as error:
        # Whatever is missing or does not fit: the reader can only say that the file is not whole.
        raise FileError(
            f"{path} is damaged: its parts do not fit together ({reason(error, path)})"
        ) from error
    return dict(state)


def _check(state: dict[str, Any]) -> None:
    """One row of zeros goes through every part, so shapes and types fit together."""
    n_classes, n_rows = len(state["classes_"]), len(state["findings_"])
    model, units = state["model_"], state["units_"]
    if state["n_features_in_"] > MOST_FEATURES:
        raise ValueError(f"{state['n_features_in_']:,} features")
    zeros = np.zeros((1, state["n_features_in_"]))
    with torch.no_grad():
        rows = torch.from_numpy(units(zeros, np.float64))
        logits = model.truth_logits(rows)
        misfit = state["class_distances_"].misfits(model.coordinates(rows).numpy())
    explanation, correction = model.judgement.explanation, model.judgement.correction
    if explanation.factors is None:
        raise ValueError("class factors are missing")
    shapes = {
        "logits": (logits.shape, (1, n_classes)),
        "misfits": (misfit.shape, (1,)),
        "noise matrix": (explanation.noise.shape, (n_classes, n_classes)),
        "noise matrix for changes": (correction.noise.shape, (n_classes, n_classes)),
        "class factors": (explanation.factors.shape, (n_classes,)),
        "class factors for changes": (correction.factors.shape, (n_classes,)),
        "class shares": (model.class_prior.shape, (n_classes,)),
        "rare classes": (state["rules_"].rare.shape, (n_classes,)),
        "posterior": (state["posterior_"].shape, (n_rows, n_classes)),
        "duplicates": (state["duplicate_groups_"].shape, (n_rows,)),
    }
    for name, (found, wanted) in shapes.items():
        if tuple(found) != wanted:
            raise ValueError(f"{name} of shape {tuple(found)} instead of {wanted}")
    if not bool(torch.isfinite(logits).all()):
        raise ValueError("weights are not finite")
