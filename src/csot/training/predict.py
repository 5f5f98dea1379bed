"""`predict`: a trained run and inputs -> a label and a probability per class."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor, nn

from csot._core.errors import naming
from csot._core.ranks import Ranks
from csot.data.augment.view_types import ImageView, View
from csot.data.readers.labelled_table import Columns
from csot.data.readers.to_predict import Inputs, Wanted
from csot.data.samples import InMemory
from csot.data.types import TrainingData
from csot.methods import find_method
from csot.methods.core.contract import Context, Method, Predictions
from csot.nets.build import seeded
from csot.runs.predicted import Predicted
from csot.training.checkpoint import Checkpoint
from csot.training.config import RunConfig
from csot.training.evaluate import Evaluator, accuracy
from csot.training.finetune import PixelFeatures, is_pretrained
from csot.training.from_config import make_views, network_factory
from csot.training.new_data import RunInputs
from csot.training.run_folder import InputFacts, RunFolder

Which = Literal["best", "last"]


def predict(
    run: str | Path,
    data: str | Path,
    *,
    checkpoint: Which = "last",
    columns: Columns | None = None,
    root: Path | None = None,
    data_dir: Path | None = None,
    allow_outside: bool = False,
    embedder: str | None = None,
) -> Predicted:
    """Predict the labels of data with a trained run.

    Parameters
    ----------
    run : str or Path
        Folder that `csot.train` wrote.
    data : str or Path
        Path of images, a table or arrays, with or without labels; or the name of a data set, for
        its test set.
    checkpoint : {"last", "best"}
        The last epoch, or the best one on the noisy held-out labels.
    columns, root : optional
        Columns of a table, and the folder that its image paths are relative to.
    data_dir : Path, optional
        Folder of the named data sets; by default `./data`.
    allow_outside : bool
        Read images that lie outside of the data folder.
    embedder : str, optional
        Of a run with an embedder `package.module:callable`: that name, if you trust it.

    Returns
    -------
    Predicted
    """
    predictor = Predictor(run, checkpoint, embedder=embedder)
    return predictor(predictor.inputs.read(data, columns, root, data_dir, allow_outside))


class Predictor:
    """A trained run, ready to predict.

    Parameters
    ----------
    run : str or Path
        Folder that `csot.train` wrote.
    checkpoint : {"last", "best"}
        The last epoch, or the best one on the noisy held-out labels.
    backbone : nn.Module, optional
        The module that was trained, if it was passed to `csot.train`.
    embedder : str, optional
        Of a run with an embedder `package.module:callable`: that name, if you trust it.
    """

    def __init__(
        self,
        run: str | Path,
        checkpoint: Which = "last",
        backbone: nn.Module | None = None,
        embedder: str | None = None,
    ) -> None:
        folder = RunFolder(Path(run))
        self._path = folder.path
        config, self._facts = folder.read_config(), folder.read_inputs()
        found = folder.checkpoints.load(checkpoint)
        if found is None:
            raise ValueError(f"{folder.path} has no checkpoint yet: train it with `resume`")
        self.epoch = found.epoch
        self._batch = config.training.evaluation_batch
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.inputs = RunInputs.of(self._path, self._facts, embedder)
        placeholder = empty_data(config.data, self._facts)
        with naming(folder.path, "a run that can be built again", "train it again"):
            if backbone is None:
                check_width(self._facts, found)
            self._plain = make_views(placeholder, config.training.views).plain
            method = rebuilt(config, placeholder, found, backbone)
            self._method = method.to(self._device).eval()

    @property
    def deployed(self) -> Deployed:
        """Inputs as stored -> probabilities, as one module on the CPU: for export.

        A run on frozen features of images takes the images, if the network that makes the features
        can be part of the module.
        """
        how, body = self.inputs.prepared, None
        if how is not None and self.inputs.pixels is not None:
            assert how.embedder is not None
            body = PixelFeatures(how.embedder, how.divisor)
        return Deployed(self._method.predicting, self._plain, body).cpu().eval()

    @property
    def wanted(self) -> Wanted:
        """The kind and shape of what its network takes, and its classes."""
        return self.inputs.wanted

    def __call__(self, inputs: Inputs) -> Predicted:
        """Predict the labels of inputs; `csot.data.read_inputs` reads them."""
        evaluator = Evaluator(self._plain, self._batch, self._device, Ranks())
        try:
            log_probs = evaluator.log_probs(self._method, self._method.predict, inputs.samples)
        except FloatingPointError as error:
            raise FloatingPointError(f"{self._path}: {error}") from error
        labels = inputs.labels
        known = labels is not None and bool((labels >= 0).any())
        return Predicted(
            ids=inputs.ids,
            class_names=list(self._facts.class_names),
            probabilities=log_probs.float().exp().cpu().numpy(),
            epoch=self.epoch,
            accuracy=accuracy(log_probs, labels) if labels is not None and known else None,
        )


class Deployed(nn.Module):
    """Preparation, networks and softmax in one module, with nothing that belongs to training.

    uint8 images (N, channels, H, W) or float32 features (N, D) -> probabilities (N, C).
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, networks: nn.ModuleList, plain: View, body: nn.Module | None = None) -> None:
        super().__init__()
        self.networks = copy.deepcopy(networks)
        self.body = body
        self._is_scaled = isinstance(plain, ImageView)
        self._steps = list(plain.steps.values()) if isinstance(plain, ImageView) else []
        if isinstance(plain, ImageView):
            for name, values in (("mean", plain.mean), ("deviation", plain.std)):
                self.register_buffer(name, 255 * torch.tensor(values).view(-1, 1, 1))

    def forward(self, inputs: Tensor) -> Tensor:
        for step in self._steps:
            inputs = step.apply(inputs, {})
        values = inputs.float()
        if self._is_scaled:
            values = (values - self.mean) / self.deviation
        if self.body is not None:
            values = self.body(values)
        logits = [network(values).logits.float() for network in self.networks]
        return torch.stack(logits).sum(0).softmax(-1)


def empty_data(name: str, facts: InputFacts) -> TrainingData:
    """Zeros of the same form as the training data; they take no memory."""
    kind = torch.uint8 if facts.kind == "images" else torch.float32
    return TrainingData(
        name=name,
        train=InMemory(torch.zeros(1, dtype=kind).expand(facts.rows, *facts.shape)),
        # Labels of every class, as a method may count them; its state is loaded afterwards.
        labels=torch.arange(facts.rows) % len(facts.class_names),
        class_names=list(facts.class_names),
        ids=["0"] * facts.rows,  # never used
        tests=[],
        mean=None if facts.mean is None else tuple(facts.mean),
        std=None if facts.std is None else tuple(facts.std),
    )


def check_width(facts: InputFacts, checkpoint: Checkpoint) -> None:
    """Raise if a row has more features than the network parameters: zeros may not fit in memory."""
    width, held = math.prod(facts.shape), sum(value.numel() for value in checkpoint.model.values())
    if facts.kind == "features" and width > held:
        raise ValueError(
            f"it describes rows of {width:,} features, but the checkpoint has {held:,} parameters"
        )


def check_size(make_network: Callable[[int], nn.Module], checkpoint: Checkpoint) -> None:
    """Raise if the configured network is larger than the checkpoint: it may not fit in memory."""
    with torch.device("meta"):
        network = make_network(0)
    wanted = sum(value.numel() for value in network.parameters())
    held = sum(value.numel() for value in checkpoint.model.values())
    if wanted > held:
        raise ValueError(
            f"its configuration is for a network with {wanted:,} parameters, but the checkpoint "
            f"has {held:,}"
        )


def rebuilt(
    config: RunConfig,
    data: TrainingData,
    checkpoint: Checkpoint,
    module: nn.Module | None = None,
) -> Method:
    """Build the method again, with the parameters and the state of the checkpoint."""
    # The file of pretrained weights is not needed, and may be gone.
    network = config.training.network.model_copy(update={"weights": None})
    training = config.training.model_copy(update={"network": network})

    make_network = network_factory(data, training, config.seed, module=module)
    if module is None and not is_pretrained(network.name):  # whose size is its own
        check_size(make_network, checkpoint)

    def predict(_network: object, _rows: object) -> Predictions:
        raise AssertionError("a rebuilt method has no training data to predict")

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
    fit_buffers(method, checkpoint)
    method.load_state_dict(checkpoint.model)
    return method


def fit_buffers(method: Method, checkpoint: Checkpoint) -> None:
    """Give buffers the shape that they have in the checkpoint.

    Some hold a row per row that was trained on, and how many were held out is not known here.
    """
    for prefix, module in method.named_modules():
        for name, value in module.named_buffers(recurse=False):
            saved = checkpoint.model.get(f"{prefix}.{name}" if prefix else name)
            if saved is not None and saved.shape != value.shape and saved.ndim == value.ndim:
                setattr(module, name, torch.empty_like(saved))
