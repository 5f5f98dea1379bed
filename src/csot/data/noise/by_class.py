"""Symmetric and asymmetric noise: how a label changes depends on its class alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from csot._core.errors import DataError
from csot.data.noise.base import Noise, percent, whole
from csot.data.types import TrainingData

# Symmetric noise: chosen rows get a label uniformly at random.


@dataclass(frozen=True)
class Symmetric(Noise):
    """By default as DivideMix and CSOT: exactly int(rN) rows, uniform over all C classes.

    The new label may be the old one, so that r (C - 1) / C of the labels change. With
    `exclude_true` it never is, and r of them change. With `bernoulli` each row is chosen with
    probability r, by itself.
    """

    rate: float
    exclude_true: bool = False
    bernoulli: bool = False

    def describe(self) -> str:
        chosen = f"each row with {percent(self.rate)}" if self.bernoulli else percent(self.rate)
        over = "the other classes" if self.exclude_true else "all classes, its own included"
        return f"symmetric, {chosen}, uniform over {over}"

    def _draw(
        self, labels: Tensor, rows: Tensor, data: TrainingData, generator: torch.Generator
    ) -> Tensor:
        n, classes = len(labels), len(data.class_names)
        chosen = choose(n, self.rate, self.bernoulli, generator)
        after = labels.clone()
        if self.exclude_true:
            step = torch.randint(1, classes, chosen.shape, generator=generator)
            after[chosen] = (labels[chosen] + step) % classes
        else:
            after[chosen] = torch.randint(0, classes, chosen.shape, generator=generator)
        return after


def choose(n: int, rate: float, bernoulli: bool, generator: torch.Generator) -> Tensor:
    """Row numbers: each with probability `rate`, or exactly int(rate n) of them."""
    if bernoulli:
        return (torch.rand(n, generator=generator, dtype=torch.float64) < rate).nonzero()[:, 0]
    return torch.randperm(n, generator=generator)[: whole(rate, n)]


CIFAR10 = {
    "truck": "automobile",
    "bird": "airplane",
    "deer": "horse",
    "cat": "dog",
    "dog": "cat",
}
"""9 -> 1, 2 -> 0, 4 -> 7, 3 -> 5, 5 -> 3 of Patrini et al. (2017), by name."""
CIFAR10_NAMES = {*CIFAR10, *CIFAR10.values(), "frog", "ship"}
DIGITS = {"2": "7", "3": "8", "5": "6", "6": "5", "7": "1"}
"""The look-alikes of Patrini et al. (2017) for MNIST."""
BLOCK = 5

Map = Literal["auto", "superclass", "blocks", "next"]
Pick = Literal["class", "overall", "bernoulli"]
PICKS: dict[Pick, str] = {
    "class": "{} of each class that has a target",
    "overall": "{} of all rows, of which those with a target change",
    "bernoulli": "each row with {}",
}


@dataclass(frozen=True)
class Asymmetric(Noise):
    """Rows of class c become `target(c)`.

    `pick` says which: int(r n_c) rows of each class that has a target, as ELR; int(rN) of all rows,
    as DivideMix, so that fewer change where classes have none; or each with probability r.
    """

    rate: float
    map: Map = "auto"
    pick: Pick = "class"

    def describe(self) -> str:
        kind = "pair flip" if self.map == "next" else "asymmetric"
        inside = {"superclass": ", inside superclasses", "blocks": ", inside blocks of five"}
        return f"{kind}{inside.get(self.map, '')}, {PICKS[self.pick].format(percent(self.rate))}"

    def _draw(
        self, labels: Tensor, rows: Tensor, data: TrainingData, generator: torch.Generator
    ) -> Tensor:
        target = targets(data, self.map)
        if self.pick == "class":
            chosen = self._of_each_class(labels, target, generator)
        else:
            chosen = choose(len(labels), self.rate, self.pick == "bernoulli", generator)
        after = labels.clone()
        after[chosen] = target[labels[chosen]]
        return after

    def _of_each_class(self, labels: Tensor, target: Tensor, generator: torch.Generator) -> Tensor:
        chosen = []
        for c in (target != torch.arange(len(target))).nonzero()[:, 0].tolist():
            members = (labels == c).nonzero()[:, 0]
            chosen.append(members[choose(len(members), self.rate, False, generator)])
        return torch.cat(chosen)


def targets(data: TrainingData, map: Map) -> Tensor:
    """(C,): what each class turns into; itself where it stays."""
    classes = len(data.class_names)
    own = torch.arange(classes)
    if map == "next":
        return (own + 1) % classes
    if map == "blocks":
        if classes % BLOCK:
            raise DataError(
                f"asym with blocks needs a number of classes that {BLOCK} divides; {data.name} "
                f"has {classes}"
            )
        return own - own % BLOCK + (own + 1) % BLOCK
    if map == "superclass" or data.superclasses is not None:
        return _inside_superclasses(data)
    return _look_alikes(data)


def _inside_superclasses(data: TrainingData) -> Tensor:
    """The next class of the same superclass, the last turns into the first."""
    if data.superclasses is None:
        raise DataError(
            f"asym with superclass needs superclasses, which {data.name} has not; cifar100 has"
        )
    target = torch.arange(len(data.class_names))
    for coarse in set(data.superclasses.tolist()):
        members = (data.superclasses == coarse).nonzero()[:, 0]
        target[members] = members.roll(-1)
    return target


def _look_alikes(data: TrainingData) -> Tensor:
    names: Mapping[str, str]
    if data.name == "digits":
        names = DIGITS
    elif set(data.class_names) == CIFAR10_NAMES:  # by name: also its embeddings, and folders
        names = CIFAR10
    else:
        raise DataError(
            f"asym knows which classes look alike for digits, cifar10 and cifar100, not for "
            f"{data.name}; use pair:RATE, where each class turns into the next one, or "
            "matrix:FILE with the shares of your own"
        )
    number = {name: row for row, name in enumerate(data.class_names)}
    return torch.tensor([number[names.get(name, name)] for name in data.class_names])
