"""`sym:0.5` -> the noise that it names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from csot._core.errors import DataError, listed, nearest
from csot.data.noise.from_file import LabelFile, Transition
from csot.data.noise.models import (
    Asymmetric,
    InstanceDependent,
    Map,
    Noise,
    NoNoise,
    Pick,
    Symmetric,
)

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
