"""``predict``: a trained run and inputs -> a label and a probability for each class."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch import nn

from csot._core.errors import naming
from csot._core.ranks import Ranks
from csot.data import TableFeatures
from csot.data.datasets.registry import TrainingData
from csot.data.readers.inputs import Inputs, Wanted
from csot.data.samples import InMemory
from csot.methods import find_method
from csot.methods.core.contract import Context, Method, Predictions
from csot.nets.build import seeded
from csot.training.build import make_views, network_factory
from csot.training.checkpoint import Checkpoint
from csot.training.config import RunConfig
from csot.training.evaluate import Eyes, accuracy
from csot.training.folder import INPUTS, InputFacts, RunFolder

Which = Literal["best", "last"]
CONFIDENCE, PREDICTED = "confidence", "predicted_label"


@dataclass(frozen=True)
class Predicted:
    """Of M inputs."""

    ids: list[str]
    class_names: list[str]
    probabilities: npt.NDArray[np.float32]
    """(M, C)."""
    epoch: int
    """Of the checkpoint."""
    accuracy: float | None = None
    """Where the data brings labels."""

    def table(self) -> pd.DataFrame:
        """id, predicted_label, confidence, then prob_<class> for each class."""
        names = np.array(self.class_names, dtype=object)
        columns = {
            "id": self.ids,
            PREDICTED: names[self.probabilities.argmax(1)],
            CONFIDENCE: self.probabilities.max(1),
        }
        each = {f"prob_{name}": self.probabilities[:, c] for c, name in enumerate(names)}
        return pd.DataFrame({**columns, **each})


class Predictor:
    """The method of a run, as one of its checkpoints left it."""

    def __init__(self, run: str | Path, checkpoint: Which = "best") -> None:
        folder = RunFolder(Path(run))
        self._path = folder.path
        config, self._facts = folder.read_config(), folder.read_inputs()
        found = folder.checkpoints.load(checkpoint)
        if found is None:
            raise ValueError(f"{folder.path} has no checkpoint yet: train it with --resume")
        self.epoch = found.epoch
        self._batch = config.training.evaluation_batch
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        stand_in = empty_data(config.data, self._facts)
        with naming(folder.path, "a run that can be built again", "train it anew"):
            self._plain = make_views(stand_in, config.training.views).plain
            self._method = rebuilt(config, stand_in, found).to(self._device).eval()

    @property
    def wanted(self) -> Wanted:
        """What it can be shown."""
        facts = self._facts
        table = None
        if facts.table is not None:
            with naming(self._path / INPUTS, "a description of the inputs", "train it anew"):
                table = TableFeatures.from_dict(facts.table)
        return Wanted(facts.kind, tuple(facts.shape), list(facts.class_names), table)

    def __call__(self, inputs: Inputs) -> Predicted:
        eyes = Eyes(self._plain, self._batch, self._device, Ranks())
        log_probs = eyes.log_probs(self._method, self._method.predict, inputs.samples)
        labels = inputs.labels
        known = labels is not None and bool((labels >= 0).any())
        return Predicted(
            ids=inputs.ids,
            class_names=list(self._facts.class_names),
            probabilities=log_probs.float().exp().cpu().numpy(),
            epoch=self.epoch,
            accuracy=accuracy(log_probs, labels) if labels is not None and known else None,
        )


def empty_data(name: str, facts: InputFacts) -> TrainingData:
    """Data of the same form as those trained on, and all zero; they take no memory."""
    kind = torch.uint8 if facts.kind == "images" else torch.float32
    return TrainingData(
        name=name,
        train=InMemory(torch.zeros(1, dtype=kind).expand(facts.rows, *facts.shape)),
        # Of every class, since a method may count them; what it remembers is loaded afterwards.
        labels=torch.arange(facts.rows) % len(facts.class_names),
        class_names=list(facts.class_names),
        ids=["0"] * facts.rows,  # never asked for
        tests=[],
        mean=None if facts.mean is None else tuple(facts.mean),
        std=None if facts.std is None else tuple(facts.std),
    )


def check_size(make_network: Callable[[int], nn.Module], checkpoint: Checkpoint) -> None:
    """A configuration of a few bytes can ask for a network of any size: the checkpoint has it."""
    with torch.device("meta"):
        network = make_network(0)
    wanted = sum(value.numel() for value in network.parameters())
    held = sum(value.numel() for value in checkpoint.model.values())
    if wanted > held:
        raise ValueError(
            f"its configuration is of a network with {wanted:,} parameters, but the checkpoint "
            f"has {held:,}"
        )


def rebuilt(config: RunConfig, data: TrainingData, checkpoint: Checkpoint) -> Method:
    """The method with the networks and the memory of the checkpoint."""
    # Pretrained weights were where training began; the file may be gone.
    network = config.training.network.model_copy(update={"weights": None})
    training = config.training.model_copy(update={"network": network})

    make_network = network_factory(data, training, config.seed)
    check_size(make_network, checkpoint)

    def predict(_network: object, _rows: object) -> Predictions:
        raise AssertionError("a rebuilt method has no training data to look at")

    context = Context(
        labels=data.labels,
        rows=torch.arange(len(data)),
        num_classes=len(data.class_names),
        epochs=training.epochs,
        batch_size=training.batch_size,
        views=make_views(data, training.views),
        make_network=make_network,
        predict=predict,
    )
    kind = find_method(config.method)
    with seeded(config.seed):
        method = kind(context, kind.Settings.model_validate(config.settings))
    method.load_state_dict(checkpoint.model)
    return method
