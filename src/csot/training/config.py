"""The configuration of a training run. Presets use the same keys; unknown keys are errors.

YAML is parsed in bounded time and memory.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, model_validator

from csot._core.errors import FileError, naming
from csot._core.files import read_text
from csot._core.text import canonical_noise
from csot.data.augment.views import Policy

LARGEST = 1 << 20
"""Bytes; presets have about 4,000, and ten thousand class names need 200,000."""
EVENTS = 100_000
"""Scalars and brackets, as written."""
NODES = 200_000
"""The same after every alias has been expanded."""
DEPTH = 50
SCALAR = 20_000
"""Characters of one value: parsing long numbers of YAML 1.1 takes quadratic time."""
NUMBER = 1000
"""Characters of a number; Python does not print integers of more than 4,300 digits."""
NUMBER_KEY = 18
"""Characters of a number that is a key: longer ones can all have the same hash, and take quadratic
time."""
TEXT = "tag:yaml.org,2002:str"
LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_yaml(path: Path) -> Any:
    """Parse a file; errors name it."""
    return parse_yaml(read_text(path, LARGEST), str(path))


def parse_yaml(text: str, where: str) -> Any:
    """Parse text into plain data; `where` names the source in errors."""
    with naming(where, "valid YAML"):
        if len(text) > LARGEST:
            raise ValueError(f"{len(text):,} characters; at most {LARGEST:,} are read")
        _check_events(text)
        loader = LOADER(text)
        try:
            node = loader.get_single_node()
            if node is None:
                return None
            if _expanded(node, {}) > NODES:
                raise FileError(f"{where}: its aliases stand for more than {NODES:,} values")
            return loader.construct_document(node)
        finally:
            loader.dispose()


def _check_events(text: str) -> None:
    """Check depth and counts before anything is built, as composing is recursive."""
    depth = 0
    for count, event in enumerate(yaml.parse(text, Loader=LOADER)):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        elif isinstance(event, yaml.ScalarEvent) and len(event.value) > SCALAR:
            raise ValueError(f"a value of {len(event.value):,} characters")
        if depth > DEPTH or count > EVENTS:
            raise ValueError(f"more than {DEPTH} levels or {EVENTS:,} values")


def _expanded(node: yaml.Node, known: dict[int, int]) -> int:
    """Number of nodes with every alias expanded; more than NODES if an alias contains itself."""
    if id(node) not in known:
        known[id(node)] = NODES + 1  # stays so if the node contains itself
        parts: list[yaml.Node] = []
        if isinstance(node, yaml.MappingNode):
            parts = [part for pair in node.value for part in pair]
            for key, _ in node.value:
                _check_number(key, NUMBER_KEY)
        elif isinstance(node, yaml.SequenceNode):
            parts = node.value
        else:
            _check_number(node, NUMBER)
        known[id(node)] = 1 + sum(_expanded(part, known) for part in parts)
    return known[id(node)]


def _check_number(node: yaml.Node, limit: int) -> None:
    if isinstance(node, yaml.ScalarNode) and node.tag != TEXT and len(node.value) > limit:
        raise ValueError(f"a number of {len(node.value):,} characters")


WIDEST = 65_536
"""Channels or units; the widest network of the paper has 2,048."""
LARGEST_SIDE = 8192
"""Pixels; the largest images of the paper have 320."""
MOST_VIEWS = 100
MOST = 10_000_000
"""Epochs, and rows of a batch."""


class Strict(BaseModel):
    """Immutable; unknown keys, NaN and infinity are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class NetworkConfig(Strict):
    """See `csot.nets.build_network`."""

    name: str = "preact_resnet18"
    """A network of csot, a pretrained one (`efficientnet-lite0`, `hf:NAME`, `timm:NAME`), or your
    own as `package.module:callable`."""
    width: int | None = Field(None, ge=1, le=WIDEST)
    feature_dim: int | None = Field(None, ge=1, le=WIDEST)
    weights: str | None = None
    """Local file of pretrained weights."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Options of the backbone: norm, hidden, dropout ..."""


class ViewsConfig(Strict):
    """Random views; the first group of keys is for images, the second for features."""

    policy: Policy = "cifar10"
    padding: int = Field(4, ge=0, le=LARGEST_SIDE)
    flip: bool = True
    crop: int | None = Field(None, ge=1, le=LARGEST_SIDE)
    cutout: int = Field(0, ge=0, le=LARGEST_SIDE)
    crop_scale: float | None = Field(None, gt=0, le=1)
    """Smallest share of the image in a random resized crop, in place of a window."""
    strong_crop_scale: float | None = Field(None, gt=0, le=1)
    """The same for strong views; by default as weak ones."""

    weak_noise: float = Field(0.1, ge=0)
    strong_noise: float = Field(0.3, ge=0)
    strong_dropout: float = Field(0.2, ge=0, lt=1)


class OptimiserConfig(Strict):
    name: Literal["sgd", "adam"] = "sgd"
    learning_rate: float = Field(0.02, gt=0)
    momentum: float = Field(0.9, ge=0, lt=1)
    """Momentum of SGD, or first beta of Adam."""
    weight_decay: float = Field(5e-4, ge=0)
    nesterov: bool = False


class ScheduleConfig(Strict):
    """Learning rate by epoch, as a factor of the optimiser's."""

    name: Literal["cosine", "steps", "linear", "restarts", "constant"] = "cosine"
    milestones: list[int] = Field(default_factory=list)
    """`steps`: epochs after which the rate is multiplied by `factor`."""
    factor: float = Field(0.1, gt=0, le=1)
    linear_from: int = Field(0, ge=0)
    """`linear`: the epoch after which it falls linearly to 0."""
    period: int = Field(10, ge=1)
    """`restarts`: epochs of one cosine."""
    floor: float = Field(0.0, ge=0)
    """Smallest learning rate of `cosine` and `restarts`."""
    warmup_epochs: int = Field(0, ge=0)
    """Epochs at the beginning over which the rate rises linearly."""


class TrainingConfig(Strict):
    """Common to all methods."""

    epochs: int = Field(450, ge=1, le=MOST)
    batch_size: int = Field(128, ge=1, le=MOST)
    holdout: float = Field(0.0, ge=0, lt=1)
    """Share of the rows held out, with their noisy labels, to choose the best epoch."""
    select_on: str | None = None
    """A further, clean test set by which the best epoch is chosen (`clean_val` of clothing1m), as
    some papers do; by default the noisy held-out rows."""
    subset: int | None = Field(None, ge=1, le=MOST)
    """Batches of a class-balanced subset of the rows, drawn again every epoch; by default all."""
    holdout_least: int = Field(0, ge=0, le=MOST)
    """Least number of rows held out, limited by `holdout_most`."""
    holdout_most: float = Field(0.2, gt=0, lt=1)
    """Largest share of the rows that is held out to reach `holdout_least`."""
    network: NetworkConfig = NetworkConfig()
    scale: Literal["each", "whole"] = "each"
    """Features are divided by the deviation of each, or by one number for all of them: of an
    embedding, the small deviations are mostly noise. Columns of a table have units of their own,
    and are always scaled one by one."""
    views: ViewsConfig = ViewsConfig()
    optimiser: OptimiserConfig = OptimiserConfig()
    schedule: ScheduleConfig = ScheduleConfig()
    accumulate: int = Field(1, ge=1)
    """Steps whose gradients are averaged for one update."""
    clip: float | None = Field(None, gt=0)
    """Maximum norm of the gradient."""
    evaluate_every: int = Field(1, ge=1)
    checkpoint_every: int = Field(1, ge=1)
    evaluation_batch: int = Field(512, ge=1, le=MOST)
    channels_last: bool = True
    snapshot_rows: int = Field(200, ge=0, le=10_000)
    """Rows whose features and predictions are kept after at most 12 of the epochs, for figures."""


class DataConfig(Strict):
    limit: int | None = Field(None, ge=2)
    """Number of training rows to use, a fixed and class-balanced subset."""
    image_size: int | None = Field(None, ge=1, le=LARGEST_SIDE)
    whole: bool = False
    """Whether views are cut from whole images, or from their middle square: webvision and
    clothing1m."""
    embedder: str | None = None
    """Turns images or texts into features, which are then trained on; None trains on the data."""
    stored_views: int | None = Field(None, ge=1, le=MOST_VIEWS)
    """Embedded views of each image, including the plain one; by default depends on the rows."""
    verified: str | None = None
    """SHA-256 of the file of verified labels, which `csot.train` fills in."""
    from_clean: str | None = None
    """SHA-256 of the findings that training started from, likewise."""
    columns: dict[str, str | list[str]] | None = None
    """Columns of a table by role, likewise; so are all keys below."""
    test: str | None = None
    root: str | None = None
    noise_file: str | None = None
    """SHA-256 of the file of the noise `file:LABELS` or `matrix:FILE`."""
    content: str | None = None
    """SHA-256 of the ids, labels and class names, before noise."""


class MachineConfig(Strict):
    """Where to run; results do not depend on it, except for rounding."""

    accelerator: str = "auto"
    devices: int = Field(1, ge=1)
    precision: Literal["32-true", "16-mixed", "bf16-mixed", "auto"] = "32-true"
    """`auto` is mixed precision on a GPU, else full precision."""
    compile: bool = False
    """Compile the networks with torch.compile."""


class RunConfig(Strict):
    """The complete configuration of a run: everything that its results depend on."""

    data: str
    """Name or path."""
    method: str
    preset: str | None = None
    noise: str = "none"
    seed: int = Field(0, ge=0, lt=2**63)
    dataset: DataConfig = DataConfig()
    training: TrainingConfig = TrainingConfig()
    settings: dict[str, Any] = Field(default_factory=dict)
    """Settings of the method, validated by its own `Settings`."""
    machine: MachineConfig = MachineConfig()

    @model_validator(mode="after")
    def _check_devices(self) -> RunConfig:
        devices, size = self.machine.devices, self.training.batch_size
        if size % devices:
            raise ValueError(
                f"batch_size {size} is not divisible by {devices} devices: every device gets the "
                f"same number of rows"
            )
        return self

    @property
    def only_warms_up(self) -> bool:
        """Whether training ends before the warm-up does: the method itself never begins."""
        warmup = int(self.settings.get("warmup", self.settings.get("warmup_epochs", 0)))
        is_whole = self.settings.get("warmup_ends") == "after"
        return warmup + is_whole > self.training.epochs

    def identity(self) -> dict[str, Any]:
        """Return what must be equal for a run to be resumed; noise is compared by value."""
        values = self.model_dump(mode="json", exclude={"machine"})
        return {**values, "noise": canonical_noise(self.noise)}


def learning_rate(base: float, schedule: ScheduleConfig, epoch: int, epochs: int) -> float:
    """Return the learning rate of an epoch, counted from 1, out of `epochs`."""
    done = epoch - 1
    if done < schedule.warmup_epochs:
        return base * epoch / (schedule.warmup_epochs + 1)
    if schedule.name == "constant":
        return base
    if schedule.name == "steps":
        passed = sum(done >= milestone for milestone in schedule.milestones)
        return base * schedule.factor**passed
    if schedule.name == "linear":
        left = (epochs - done) / max(1, epochs - schedule.linear_from)
        return base * min(1.0, left)
    whole = epochs if schedule.name == "cosine" else schedule.period
    share = (done % whole) / whole
    return schedule.floor + (base - schedule.floor) * (1 + math.cos(math.pi * share)) / 2
