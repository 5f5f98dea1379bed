"""The contract between a method and the training loop.

A method is an `nn.Module`: its networks, and whatever it remembers about each sample, are
parameters and buffers, so its `state_dict` is a complete checkpoint. Each epoch the loop calls
`begin_epoch`, then the module itself once per step of `steps`; it returns the losses to sum. Some
of the N rows may be held out: `Context.rows` are the rows to train on. A method never receives true
labels.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar, TypeAlias

import torch
from pydantic import BaseModel, ConfigDict
from torch import Tensor, nn

from csot._core.ranks import Ranks
from csot.data.augment.views import View, Views


class Settings(BaseModel):
    """Base class for the settings of a method; every field is a setting users may change.

    Instances are immutable. An unknown key is an error, and so is NaN or infinity.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    by_variant: ClassVar[frozenset[str]] = frozenset()
    """Settings that a variant decides; if one is chosen, it overrides the preset."""


class Role(Enum):
    """What the rows of a stream are used for."""

    WARMUP = "warmup"
    """The epochs before the method's own loss: the given labels of all rows, as they are."""
    TRAIN = "train"
    """The method's own loss, on all rows."""
    FINETUNE = "finetune"
    """A last stage, on all rows, with the labels that an earlier stage has learned."""
    LABELLED = "labelled"
    """Rows whose given label is kept."""
    UNLABELLED = "unlabelled"
    """Rows whose given label is not used."""
    CLEAN = "clean"
    """D_clean of CSOT."""
    CORRUPTED = "corrupted"
    """D_corrupted of CSOT."""


@dataclass(frozen=True)
class Stream:
    """One of the batches that a step takes at the same time.

    Attributes
    ----------
    role : Role
        What the rows are used for.
    network : int
        Number of the network that trains on them. Methods whose networks all train on the same
        rows leave it at 0.
    """

    role: Role
    network: int = 0


Steps: TypeAlias = Iterator[Mapping[Stream, Tensor]]
"""Row numbers by stream, for each step of an epoch."""


class Part:
    """The rows that one step takes from one stream, or this process's share of them.

    Attributes
    ----------
    rows : Tensor of shape (b,)
        Row numbers.
    inputs : Tensor of shape (b, ...)
        Inputs as stored: uint8 images or float32 features.
    labels : Tensor of shape (b,)
        Given labels, -1 for none.
    whole : int
        Number of rows over all processes.
    """

    def __init__(self, rows: Tensor, inputs: Tensor, labels: Tensor, ranks: Ranks, whole: int):
        self.rows = rows
        self.inputs = inputs
        self.labels = labels
        self.whole = whole
        self._ranks = ranks

    def __len__(self) -> int:
        return len(self.rows)

    def view(self, view: View, generator: torch.Generator) -> Tensor:
        """Return a random view of the inputs.

        It is drawn for the rows of all processes, so it does not depend on their number.
        """
        draws = view.draw(self.whole, generator)
        return view(self.inputs, draws[self._ranks.share(self.whole)])


Batch: TypeAlias = Mapping[Stream, Part]
"""The parts of one step by stream."""

Losses: TypeAlias = dict[str, Tensor]
"""Scalar losses by name, already weighted; the loop minimises their sum."""


@dataclass(frozen=True)
class Predictions:
    """Outputs of a network for n rows, in evaluation mode on the plain view.

    Attributes
    ----------
    logits : Tensor of shape (n, C)
    features : Tensor of shape (n, F)
    """

    logits: Tensor
    features: Tensor

    @property
    def probs(self) -> Tensor:
        return self.logits.softmax(-1)


@dataclass
class Context:
    """What the loop gives to a method.

    Attributes
    ----------
    labels : Tensor of shape (N,)
        Given labels, -1 for none.
    rows : Tensor of shape (n,)
        Rows to train on; the others are held out.
    num_classes, epochs, batch_size : int
    views : Views
        The plain, weak and strong views.
    make_network : callable
        Number of a network -> a new network, which has a `feature_dim`. Networks with different
        numbers are initialised differently.
    predict : callable
        Network and row numbers -> `Predictions`.
    predict_weak : callable, optional
        The same on random weak views, see `predict_augmented`.
    ranks : Ranks
        Communication between processes.
    locked : Tensor of shape (N,), bool, optional
        Rows whose label a person has verified.
    posterior : Tensor of shape (N, C), optional
        What a cleaner or several annotators say about the rows, to start from.
    generator : torch.Generator
        For random choices. Seeded again every epoch, identically on every process.
    order : torch.Generator
        The same for `Method.steps`, which may run ahead of the losses.
    """

    labels: Tensor
    rows: Tensor
    num_classes: int
    epochs: int
    batch_size: int
    views: Views
    make_network: Callable[[int], nn.Module]
    predict: Callable[[nn.Module, Tensor], Predictions]
    ranks: Ranks = field(default_factory=Ranks)
    locked: Tensor | None = None
    posterior: Tensor | None = None
    generator: torch.Generator = field(default_factory=torch.Generator)
    order: torch.Generator = field(default_factory=torch.Generator)
    predict_weak: Callable[[nn.Module, Tensor], Predictions] | None = None

    @property
    def device(self) -> torch.device:
        return self.labels.device

    @property
    def all_rows(self) -> Tensor:
        """Numbers of all N rows, held out or not."""
        return torch.arange(len(self.labels))

    def predict_augmented(self, network: nn.Module, rows: Tensor) -> Predictions:
        """Return predictions for random weak views, or plain ones where there is no other way."""
        return (self.predict_weak or self.predict)(network, rows)

    def weak_view(self, part: Part) -> Tensor:
        """Return a random weak view of a part."""
        return part.view(self.views.weak, self.generator)

    def strong_view(self, part: Part) -> Tensor:
        """Return a random strong view of a part."""
        return part.view(self.views.strong, self.generator)


@dataclass(frozen=True)
class Judgement:
    """The verdict of a method on each given label, at the end of the training.

    Attributes
    ----------
    posterior : Tensor of shape (N, C)
        Probability that each class is the right one.
    trusted : Tensor of shape (N,), bool
        Rows whose verdict the method relies on; the others are reported as `uncertain`.
    scores : Tensor of shape (N,)
        How plausible the given label is, from 0 to 1.
    features : Tensor of shape (N, F), optional
        Used to show the neighbours of a row.
    """

    posterior: Tensor
    trusted: Tensor
    scores: Tensor
    features: Tensor | None = None

    @classmethod
    def from_probs(cls, probs: Tensor, labels: Tensor, features: Tensor | None = None) -> Judgement:
        """Judge by class probabilities, (N, C).

        A verdict is relied on where one class has more than half of the probability.
        """
        return cls(
            posterior=probs,
            trusted=probs.amax(-1) > 0.5,
            scores=label_probs(probs, labels),
            features=features,
        )


@dataclass(frozen=True)
class Split:
    """Which given labels a method trusts and which it replaces at present.

    The loop compares it with the true labels, where they are known, for the curves of the paper.

    Attributes
    ----------
    clean : Tensor of shape (N,), bool
        The given label is trusted.
    corrected : Tensor of shape (N,), bool
        The given label is replaced.
    labels : Tensor of shape (N,)
        Replacements.
    """

    clean: Tensor
    corrected: Tensor
    labels: Tensor

    @classmethod
    def from_labels(cls, labels: Tensor, chosen: Tensor, given: Tensor) -> Split:
        """Split the `chosen` rows, (N,) bool, by whether their label is the given one."""
        kept = labels == given
        return cls(chosen & kept, chosen & ~kept, labels)


class Method(nn.Module, ABC):
    """Base class of all methods. The name of a method is the name of its file.

    A method must define `about`, `steps` and `forward`; the rest has defaults.

    Parameters
    ----------
    context : Context
        Data, networks and random generators.
    settings : Settings
        An instance of the class's own `Settings`.

    Attributes
    ----------
    networks : nn.ModuleList
        The `network_count` networks that are trained.
    network : nn.Module
        The first of them.
    """

    Settings: ClassVar[type[Settings]] = Settings
    about: ClassVar[str]
    """One line for lists of methods."""
    reference: ClassVar[str] = ""
    """Where it was published."""
    network_count: ClassVar[int] = 1
    """Number of networks to train."""
    separate: ClassVar[bool] = False
    """Whether networks are reported one by one, as the original does; the first one predicts."""
    uses_posterior: ClassVar[bool] = False
    """Whether it starts from `Context.posterior`."""

    def __init__(self, context: Context, settings: Any) -> None:
        super().__init__()
        self.context = context
        self.settings = settings
        self.networks = nn.ModuleList(map(context.make_network, range(self.network_count)))
        self.prepare()

    @property
    def network(self) -> nn.Module:
        return self.networks[0]

    def prepare(self) -> None:
        """Register per-sample state and further modules. The networks exist already."""

    def begin_epoch(self, epoch: int) -> dict[str, float]:
        """Evaluate the networks and decide on labels, before the steps of an epoch.

        Parameters
        ----------
        epoch : int
            Counted from 1.

        Returns
        -------
        dict
            Numbers to record in metrics.csv.
        """
        return {}

    def turn_count(self, epoch: int) -> int:
        """Return how many turns the epoch has; `begin_turn` precedes all but the first."""
        return 1

    def begin_turn(self, epoch: int, turn: int) -> None:
        """Evaluate the networks again, before the steps of a turn, counted from 0."""

    @abstractmethod
    def steps(self, epoch: int) -> Steps:
        """Yield the row numbers of each step of the epoch, or of the present turn, by stream."""

    @abstractmethod
    def forward(self, batch: Batch) -> Losses:
        """Return the losses of one step."""

    def after_step(self, batch: Batch) -> None:
        """Update what depends on the new parameters, after the optimiser's step."""

    @property
    def predicting(self) -> nn.ModuleList:
        """The networks that predict: all, or the first if they are `separate`."""
        return self.networks[:1] if self.separate else self.networks

    def predict(self, inputs: Tensor) -> Tensor:
        """Return log-probabilities (B, C) of plain views (B, ...), in evaluation mode.

        By default those of the sum of the logits of the networks that are `predicting`.
        """
        logits = [network(inputs).logits.float() for network in self.predicting]
        return torch.stack(logits).sum(0).log_softmax(-1)

    def judge(self) -> Judgement:
        """Judge all N given labels after the last epoch.

        By default by the sum of all networks' logits.
        """
        rows = self.context.all_rows
        seen = [self.context.predict(network, rows) for network in self.networks]
        probs = torch.stack([one.logits for one in seen]).sum(0).softmax(-1)
        features = seen[0].features if len(seen) == 1 else None
        return Judgement.from_probs(probs, self.context.labels, features)

    def split(self) -> Split | None:
        """Return the present split of the rows, or None if there is none yet."""
        return None

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Return the parameter groups for the optimiser."""
        return [{"params": [p for p in self.parameters() if p.requires_grad]}]

    def schedule_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the epoch and the number of epochs for the learning-rate schedule.

        A method with several stages may start the schedule again in each of them.
        """
        return epoch, self.context.epochs

    def update_param_group(self, epoch: int, group: dict[str, Any]) -> None:
        """Change a parameter group of the optimiser for this epoch: learning rate, momentum."""


def label_probs(probs: Tensor, labels: Tensor) -> Tensor:
    """(N, C) probabilities, (N,) labels -> (N,) probability of each label; -1 is read as 0."""
    return probs.gather(1, labels.clamp(min=0)[:, None])[:, 0]


def feature_dim(network: nn.Module) -> int:
    """Return the length of a network's feature vectors."""
    dim = network.feature_dim
    assert isinstance(dim, int)
    return dim
