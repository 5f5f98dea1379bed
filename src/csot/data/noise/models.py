"""Models of label noise: the base class, and noise that depends on the class or on the input.

Symmetric and asymmetric noise depend on the class alone. Instance-dependent noise is algorithm 2 of
Xia et al., Part-dependent label noise, NeurIPS 2020. With x the standardised input and y its class:

    q ~ N(r, 0.1^2) within [0, 1]            how likely this row is to be mislabelled
    W_y ~ N(0, 1), (D, C)                    one projection for each class
    p = q softmax(x W_y without column y)    p_y = 1 - q
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from csot._core.errors import DataError
from csot.data.samples import Samples
from csot.data.types import TrainingData


@dataclass(frozen=True)
class NoisyLabels:
    """Labels after the noise, and the noise as it came out."""

    labels: Tensor
    """int64 (N,); -1 where there was no label before."""
    rate: float
    """Share of the labels that are others than before."""
    matrix: npt.NDArray[np.float64]
    """(C, C), rows sum to one: share of class i that became j. A class without rows stays."""
    description: str


class Noise(ABC):
    """One kind of label noise with its settings."""

    def apply(self, data: TrainingData, generator: torch.Generator) -> NoisyLabels:
        """Noise on the given labels of `data`. The same generator state gives the same labels."""
        classes = len(data.class_names)
        rows = (data.labels >= 0).nonzero()[:, 0]
        before = data.labels[rows]
        if classes < 2 or not len(rows):
            raise DataError(
                f"{data.name} has {classes} classes and {len(rows)} labelled rows: noise needs at "
                "least two classes and one row"
            )
        after = self._draw(before, rows, data, generator)
        labels = data.labels.clone()
        labels[rows] = after
        changed = int((before != after).sum())
        rate = changed / len(rows)
        outcome = f"{changed:,} of {len(rows):,} labels changed ({100 * rate:.2f} %)"
        return NoisyLabels(
            labels, rate, realised_matrix(before, after, classes), f"{self.describe()}: {outcome}"
        )

    @abstractmethod
    def describe(self) -> str:
        """The convention in words, without what came out."""

    @abstractmethod
    def _draw(
        self, labels: Tensor, rows: Tensor, data: TrainingData, generator: torch.Generator
    ) -> Tensor:
        """New labels (n,) for the labelled rows of `data`, whose labels are `labels`."""


@dataclass(frozen=True)
class NoNoise(Noise):
    """The labels as they are."""

    def describe(self) -> str:
        return "no noise"

    def _draw(
        self, labels: Tensor, rows: Tensor, data: TrainingData, generator: torch.Generator
    ) -> Tensor:
        return labels


def realised_matrix(before: Tensor, after: Tensor, classes: int) -> npt.NDArray[np.float64]:
    counts = torch.bincount(before * classes + after, minlength=classes**2)
    matrix = counts.view(classes, classes).double().numpy()
    empty = matrix.sum(1) == 0
    matrix[empty, empty] = 1.0
    share: npt.NDArray[np.float64] = matrix / matrix.sum(1, keepdims=True)
    return share


def whole(rate: float, n: int) -> int:
    """int(rate * n) of the decimal rate: 0.29 * 100 is 29, though floats make it 28.999."""
    return int(rate * n + 1e-9)


def percent(rate: float) -> str:
    return f"{100 * rate:g} %"


# Symmetric noise: chosen rows get a label uniformly at random.


@dataclass(frozen=True)
class Symmetric(Noise):
    """New labels for int(rN) rows, uniform over all C classes, as in DivideMix and CSOT.

    The new label may be the old one, so that r (C - 1) / C of the labels change. With
    `exclude_true` it never is, and r of them change. With `bernoulli` each row is chosen
    independently with probability r.
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


DEVIATION = 0.1
ROWS = 1024
"""Inputs held at once: images may be on disk."""


@dataclass(frozen=True)
class InstanceDependent(Noise):
    """About r of the labels change."""

    rate: float

    def describe(self) -> str:
        return f"instance-dependent, {percent(self.rate)} on average"

    def _draw(
        self, labels: Tensor, rows: Tensor, data: TrainingData, generator: torch.Generator
    ) -> Tensor:
        n, classes = len(labels), len(data.class_names)
        rates = truncated_normal(n, self.rate, generator)
        draws = torch.rand(n, generator=generator, dtype=torch.float64)
        shift, scale = _standardise(data)
        after = labels.clone()
        for c in range(classes):
            # One class at a time: all projections of large images would not fit in memory.
            weights = torch.randn(shift.numel(), classes, generator=generator).double()
            for part in torch.split((labels == c).nonzero()[:, 0], ROWS):
                x = (data.train.batch(rows[part]).flatten(1) - shift) / scale
                # In float64, so that other threads or machines hardly ever draw another label.
                logits = x.double() @ weights
                logits[:, c] = -torch.inf
                wrong = rates[part, None] * logits.softmax(1)
                after[part] = _pick(wrong, draws[part], c)
        return after


def truncated_normal(n: int, mean: float, generator: torch.Generator) -> Tensor:
    """N(mean, 0.1^2) within [0, 1], by the inverse of its distribution function."""
    bounds = (torch.tensor([0.0, 1.0], dtype=torch.float64) - mean) / DEVIATION
    low, high = torch.special.ndtr(bounds)
    draws = torch.rand(n, generator=generator, dtype=torch.float64)
    normal: Tensor = torch.special.ndtri(low + draws * (high - low))
    return (mean + DEVIATION * normal).clamp(0, 1)


def _pick(wrong: Tensor, draws: Tensor, own: int) -> Tensor:
    """The class on whose share of [0, 1) the draw falls; the rest belongs to `own`."""
    shares = wrong.cumsum(1)
    chosen = (shares <= draws[:, None]).sum(1)
    return torch.where(draws < shares[:, -1], chosen, own)


def _standardise(data: TrainingData) -> tuple[Tensor, Tensor]:
    """Mean and deviation of each number of an input, (D,): by channel, or by feature."""
    if data.train.kind == "images":
        channels, height, width = data.train.shape
        mean = 255 * torch.tensor(data.mean or (0.5,) * channels)
        std = 255 * torch.tensor(data.std or (0.25,) * channels)
        return mean.repeat_interleave(height * width), std.repeat_interleave(height * width)
    return _moments(data.train)


def _moments(features: Samples) -> tuple[Tensor, Tensor]:
    total = torch.zeros(2, *features.shape, dtype=torch.float64)
    for part in torch.split(torch.arange(len(features)), ROWS):
        x = features.batch(part).double()
        total += torch.stack([x.sum(0), x.square().sum(0)])
    mean, square = total / len(features)
    std = (square - mean.square()).clamp(min=0).sqrt()
    return mean.float(), torch.where(std > 0, std, 1.0).float()
