"""The contract between a method and the loop.

A method is an `nn.Module`: its networks, and whatever it remembers of each sample, are parameters
and buffers, so that a checkpoint of its `state_dict` is whole. Once an epoch the loop calls
`begin_epoch`, then for each of `steps` the module itself, which returns the losses to sum. Of the N
rows of a data set some may be held out: `Context.rows` are those to train on. True labels never
come this way.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from pydantic import BaseModel, ConfigDict
from torch import Tensor, nn

from csot._core.ranks import Ranks
from csot.data.augment.views import View, Views


class Settings(BaseModel):
    """What a user may set of a method. Unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Part:
    """This process's share of the rows that one step takes from one stream."""

    def __init__(self, rows: Tensor, inputs: Tensor, labels: Tensor, ranks: Ranks, whole: int):
        self.rows = rows
        """(b,) row numbers."""
        self.inputs = inputs
        """(b, ...) as stored: uint8 images or float32 features."""
        self.labels = labels
        """(b,) given labels, -1 for none."""
        self.whole = whole
        """Rows over all processes."""
        self._ranks = ranks

    def __len__(self) -> int:
        return len(self.rows)

    def view(self, view: View, generator: torch.Generator) -> Tensor:
        """A random view; drawn for the whole batch, so that it is the same on any process."""
        draws = view.draw(self.whole, generator)
        return view(self.inputs, draws[self._ranks.share(self.whole)])


Batch = Mapping[str, Part]
"""Parts by the name of their stream."""

Losses = dict[str, Tensor]
"""Scalars by name, weights applied; their sum is minimised."""


@dataclass(frozen=True)
class Predictions:
    """Of n rows, in evaluation mode on the plain view."""

    logits: Tensor
    """(n, C)."""
    features: Tensor
    """(n, F)."""

    @property
    def probs(self) -> Tensor:
        return self.logits.softmax(-1)


@dataclass
class Context:
    """What a method may know and use. Made by the loop."""

    labels: Tensor
    """(N,) given labels, -1 for none."""
    rows: Tensor
    """(n,) the rows to train on; the others are held out."""
    num_classes: int
    epochs: int
    batch_size: int
    views: Views
    make_network: Callable[[int], nn.Module]
    """A new network with a `feature_dim`; another number gives another initialisation."""
    predict: Callable[[nn.Module, Tensor], Predictions]
    """What a network says of some rows."""
    ranks: Ranks = field(default_factory=Ranks)
    generator: torch.Generator = field(default_factory=torch.Generator)
    """For random choices; the loop seeds it anew every epoch, alike on every process."""
    order: torch.Generator = field(default_factory=torch.Generator)
    """Likewise, for `steps`, which may run ahead of the losses."""

    @property
    def device(self) -> torch.device:
        return self.labels.device

    @property
    def everyone(self) -> Tensor:
        """All N rows."""
        return torch.arange(len(self.labels))


@dataclass(frozen=True)
class Judgement:
    """What a method thinks of each label in the end."""

    posterior: Tensor
    """(N, C): how likely each class is the right one."""
    trusted: Tensor
    """(N,) bool: rows whose verdict the method relies on; the others are `uncertain`."""
    scores: Tensor
    """(N,) in [0, 1]: how good the given label looks, low is bad."""
    features: Tensor | None = None
    """(N, F), for showing a row's neighbours."""


def feature_dim(network: nn.Module) -> int:
    """How long its feature vectors are."""
    dim = network.feature_dim
    assert isinstance(dim, int)
    return dim


class Method(nn.Module, ABC):
    """What a new method has to say. Its name is that of its file."""

    Settings: ClassVar[type[Settings]] = Settings
    about: ClassVar[str]
    """One line for lists."""
    reference: ClassVar[str] = ""
    """Where it was published."""
    network_count: ClassVar[int] = 1
    """Networks that it trains."""

    def __init__(self, context: Context, settings: Any) -> None:
        super().__init__()
        self.context = context
        self.settings = settings
        self.prepare()

    @abstractmethod
    def prepare(self) -> None:
        """Make networks and per-sample state."""

    def begin_epoch(self, epoch: int) -> dict[str, float]:
        """Look at the data, decide on labels. Returns what to record. Epochs count from 1."""
        return {}

    @abstractmethod
    def steps(self, epoch: int) -> Iterator[Mapping[str, Tensor]]:
        """Row numbers by stream, for each step of the epoch."""

    @abstractmethod
    def forward(self, batch: Batch) -> Losses:
        """Losses of one step."""

    def after_step(self, batch: Batch) -> None:
        """What remains to be done when the weights have been updated."""

    @abstractmethod
    def predict(self, inputs: Tensor) -> Tensor:
        """(B, ...) plain views -> (B, C) log-probabilities, in evaluation mode."""

    @abstractmethod
    def judge(self) -> Judgement:
        """Of all N rows, after the last epoch."""

    def parameter_groups(self) -> list[dict[str, Any]]:
        """For the optimiser."""
        return [{"params": [p for p in self.parameters() if p.requires_grad]}]

    def clock(self, epoch: int) -> tuple[int, int]:
        """Epoch and number of epochs as the learning rate's schedule counts them."""
        return epoch, self.context.epochs

    def tune(self, epoch: int, group: dict[str, Any]) -> None:
        """Change what a method has of its own in a parameter group: rate, momentum."""

    def split(self) -> Split | None:
        """Which labels are trusted and which replaced at present; None before the first look."""
        return None


@dataclass(frozen=True)
class Split:
    """For the curves of the paper, which need true labels and are drawn by the loop."""

    clean: Tensor
    """(N,) bool: the given label is trusted."""
    corrected: Tensor
    """(N,) bool: the label is replaced."""
    labels: Tensor
    """(N,) what it is replaced by."""
