"""The cells of a comparison: methods, noises, seeds and varied settings, and their folders."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

from csot.data.noise import parse_noise
from csot.figures.comparison.comparison import Change
from csot.methods import find_method, method_names
from csot.methods.core.registry import ABLATIONS, find_ablation

CELLS = "cells"
T = TypeVar("T")


@dataclass(frozen=True)
class ComparisonCell:
    """One run of a comparison. `csot@c` is the ablation (c) of CSOT."""

    method: str
    noise: str
    seed: int
    change: Change | None = None
    """A setting that is varied, and its value here."""

    @property
    def name(self) -> str:
        """`csot`, `csot@c`, or `csot epsilon=0.05`."""
        return self.method if self.change is None else f"{self.method} {self.change}"

    def folder(self, out: Path) -> Path:
        parts = (self.name.replace(" ", "+"), self.noise)
        method, noise = (re.sub(r"[^\w.@+=,-]", "-", part) for part in parts)
        return out / CELLS / method / noise / f"seed-{self.seed}"


def list_cells(
    methods: Sequence[str],
    noises: Sequence[str],
    seeds: Sequence[int],
    vary: Mapping[str, Sequence[Any]] | None = None,
) -> list[ComparisonCell]:
    """List the cells of a comparison; a setting that is varied takes the place of its method."""
    for noise in noises:
        parse_noise(noise)
    names = expand_methods(methods)
    changes = [
        Change.of(key, value, owner)
        for (owner, key), values in by_owner(vary or {}).items()
        for value in values
    ]
    compared = {name.partition("@")[0] for name in names}
    for change in changes:
        if change.method is not None and change.method not in compared:
            raise ValueError(
                f"`vary` {change.method}.{change.key}: {change.method} is not compared; add it to "
                "`methods`"
            )
    variants: list[tuple[str, Change | None]] = []
    for name in names:
        mine = [c for c in changes if c.method in (None, name.partition("@")[0])]
        variants += [(name, change) for change in mine] or [(name, None)]
    cells = [
        ComparisonCell(name, noise, seed, change)
        for (name, change), noise, seed in product(variants, noises, seeds)
    ]
    return list(dict.fromkeys(cells))


def by_owner(settings: Mapping[str, T]) -> dict[tuple[str | None, str], T]:
    """`csot.epsilon` -> (csot, epsilon); a key of all methods has no owner."""
    found: dict[tuple[str | None, str], T] = {}
    for key, value in settings.items():
        owner, dot, rest = key.partition(".")
        is_owned = dot and owner in method_names()
        found[(owner, rest) if is_owned else (None, key)] = value
    return found


def expand_methods(names: Sequence[str]) -> list[str]:
    """Replace "all" and "ablations" by what they stand for; check all names."""
    found: list[str] = []
    for name in names:
        if name == "all":
            found += method_names()
        elif name == "ablations":
            found += ["csot", *(f"csot@{ablation.letter}" for ablation in ABLATIONS)]
        else:
            method, _, letter = name.partition("@")
            find_method(method)
            if letter:
                find_ablation(letter)
            found.append(name)
    return list(dict.fromkeys(found))
