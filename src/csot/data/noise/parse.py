"""`sym:0.5` -> the noise that it names; and noise from a file: a matrix, or the labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from csot._core.errors import DataError, listed, naming, nearest
from csot._core.files import check_file, read_json, read_npy
from csot.data.labels import checked_class_numbers
from csot.data.noise.models import (
    Asymmetric,
    InstanceDependent,
    Map,
    Noise,
    NoNoise,
    Pick,
    Symmetric,
)
from csot.data.types import TrainingData

MATRIX_BYTES = 64 << 20
"""Bytes: a thousand classes need 25 MB as a CSV."""

ROW_SUM = 1e-3
"""How far a row may be from a sum of one: figures in a CSV are rounded. It is then scaled."""


@dataclass(frozen=True)
class Transition(Noise):
    """T from a .npy file, or from a CSV of numbers without a header; (C, C), rows sum to one."""

    path: Path

    def describe(self) -> str:
        return f"transition matrix {self.path.name}"

    def _draw(
        self, labels: Tensor, rows: Tensor, data: TrainingData, generator: torch.Generator
    ) -> Tensor:
        matrix = torch.from_numpy(read_matrix(self.path, len(data.class_names)))
        return draw_rows(matrix, labels, generator)


def draw_rows(matrix: Tensor, labels: Tensor, generator: torch.Generator) -> Tensor:
    """Draw a class j for each label i, with the probabilities of row i."""
    shares = matrix.cumsum(1)
    shares = shares / shares[:, -1:]  # ends with exactly one, above every draw
    draws = torch.rand(len(labels), generator=generator, dtype=torch.float64)
    after = labels.clone()
    for c in range(len(matrix)):
        members = labels == c
        after[members] = torch.searchsorted(shares[c], draws[members], right=True)
    return after


def read_matrix(path: Path, classes: int) -> npt.NDArray[np.float64]:
    """Checked, and scaled to sums of one to the last digit."""
    if not path.exists():
        raise DataError(f"{path} does not exist (noise matrix:{path})")
    remedy = "write it with numpy.save, or as a CSV without a header"
    with naming(path, "a matrix of numbers", remedy, DataError):
        check_file(path, MATRIX_BYTES)
        if path.suffix.lower() == ".npy":
            matrix = np.asarray(read_npy(path), dtype=np.float64)
        else:
            matrix = np.loadtxt(path, delimiter=",", ndmin=2, encoding="utf-8-sig")
    if matrix.shape != (classes, classes):
        raise DataError(
            f"{path} has shape {matrix.shape}; ({classes}, {classes}) is needed: row i holds the "
            "share of class i that becomes each class"
        )
    # Written so that NaN is wrong too.
    wrong = ~((matrix >= 0).all(1) & (np.abs(matrix.sum(1) - 1) <= ROW_SUM))
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise DataError(
            f"{path}: row {row} (from 0) sums to {matrix[row].sum():g} and its smallest entry is "
            f"{matrix[row].min():g}; shares are not negative and sum to 1"
        )
    scaled: npt.NDArray[np.float64] = matrix / matrix.sum(1, keepdims=True)
    return scaled


# Noise from a file of labels, such as DivideMix and NCE write: `0.5_sym.json`.
#
# One file gives every method the same wrong labels, whatever the seed.

LABEL_BYTES = 256 << 20
"""Bytes: ten million labels need 60 MB as JSON."""


@dataclass(frozen=True)
class LabelFile(Noise):
    """A label for every training row, as a JSON list or a .npy array of class numbers from 0."""

    path: Path

    def describe(self) -> str:
        return f"labels of {self.path.name}"

    def _draw(
        self, labels: Tensor, rows: Tensor, data: TrainingData, generator: torch.Generator
    ) -> Tensor:
        found = read_label_file(self.path, len(data.class_names))
        if len(found) == len(data):
            return torch.from_numpy(found)[rows]
        # A part of the data: its ids are row numbers of the whole, as those of CIFAR are.
        numbers = [int(name) if name.isdecimal() else len(found) for name in data.ids]
        if max(numbers) >= len(found):
            raise DataError(
                f"{self.path} has {len(found):,} labels, {data.name} has {len(data):,} training "
                "rows: the file needs one label per row, in the same order"
            )
        return torch.from_numpy(found)[torch.tensor(numbers)[rows]]


def read_label_file(path: Path, classes: int) -> npt.NDArray[np.int64]:
    """(N,) class numbers within the classes."""
    if not path.exists():
        raise DataError(f"{path} does not exist (noise file:{path})")
    remedy = "a JSON list or a .npy array of class numbers is needed"
    with naming(path, "a list of labels", remedy, DataError):
        values = read_npy(path) if path.suffix.lower() == ".npy" else read_json(path, LABEL_BYTES)
    if not isinstance(values, np.ndarray | list):
        raise DataError(f"{path} holds a {type(values).__name__}: {remedy}")
    return checked_class_numbers(values, len(values), classes, path, "label")


FORMS = (
    "none, sym:RATE, sym-exclude:RATE, asym:RATE, pair:RATE, instance:RATE, matrix:FILE or "
    "file:LABELS"
)
COUNT = {"exact", "bernoulli"}
PICK: dict[str, Pick] = {"class": "class", "overall": "overall", "bernoulli": "bernoulli"}
MAP: dict[str, Map] = {"superclass": "superclass", "blocks": "blocks"}


def parse_noise(text: str) -> Noise:
    """KIND, KIND:RATE or KIND:RATE:OPTION...; an error names what is wrong and what there is."""
    kind, _, rest = text.strip().partition(":")
    if kind == "none" and not rest:
        return NoNoise()
    if kind == "matrix" and rest:
        return Transition(Path(rest))  # the path may hold colons
    if kind == "file" and rest:
        return LabelFile(Path(rest))
    makers: dict[str, Callable[[str, float, list[str]], Noise]] = {
        "sym": _symmetric,
        "sym-exclude": _symmetric,
        "asym": _asymmetric,
        "pair": _asymmetric,
        "instance": _instance,
    }
    if kind not in makers:
        known = [*makers, "matrix", "file", "none"]
        raise DataError(f"noise {text!r} is not known: {FORMS}{nearest(kind, known)}")
    number, *options = rest.split(":")
    try:
        rate = float(number)
    except ValueError as error:
        raise DataError(f"noise {text!r}: {number!r} is not a rate; write {kind}:0.4") from error
    if not 0 <= rate <= 1:
        hint = f"; write {kind}:{rate / 100:g}" if 1 < rate <= 100 else ""
        raise DataError(f"noise {text!r}: the rate {rate:g} is not within 0 and 1{hint}")
    return makers[kind](kind, rate, options)


def _symmetric(kind: str, rate: float, options: list[str]) -> Noise:
    _check(kind, options, [COUNT])
    return Symmetric(rate, exclude_true=kind == "sym-exclude", bernoulli="bernoulli" in options)


def _asymmetric(kind: str, rate: float, options: list[str]) -> Noise:
    _check(kind, options, [set(PICK), set(MAP)] if kind == "asym" else [set(PICK)])
    pick: Pick = next((PICK[option] for option in options if option in PICK), "class")
    found: Map = next((MAP[option] for option in options if option in MAP), "auto")
    return Asymmetric(rate, "next" if kind == "pair" else found, pick)


def _instance(kind: str, rate: float, options: list[str]) -> Noise:
    _check(kind, options, [])
    return InstanceDependent(rate)


def _check(kind: str, options: list[str], groups: list[set[str]]) -> None:
    """Every option is known, and none rules out another."""
    known = sorted(set().union(*groups))
    for option in options:
        if option not in known:
            there = listed(known) or "none"
            raise DataError(
                f"{kind} has no option {option!r}; it has {there}{nearest(option, known)}"
            )
    for group in groups:
        given = [option for option in options if option in group]
        if len(given) > 1:
            raise DataError(f"{kind} has the options {listed(given)} at once: keep one")
