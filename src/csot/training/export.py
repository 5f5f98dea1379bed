"""`export`: the network of a training run as ONNX or `torch.export`, checked, with a model card."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from csot._core.errors import DataError, require
from csot._core.files import atomic_write, write_text
from csot.runs import Run
from csot.training.model_card import model_card
from csot.training.new_data import RunInputs
from csot.training.predict import Predictor, Which
from csot.training.run_folder import RunFolder

ROWS = 64
"""Rows that an exported file is checked with."""
TOLERANCE = 1e-4
"""Largest difference of a probability."""
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Exported:
    """What was written.

    Attributes
    ----------
    files : list of Path
        The models.
    cards : list of Path
        A model card next to each of them.
    difference : float
        Largest difference between a probability of the files and of the run.
    rows : int
        Rows that were compared.
    real : bool
        Whether these are rows of the run's data; else the data could not be read, and they are
        random.
    """

    files: list[Path]
    cards: list[Path]
    difference: float
    rows: int
    real: bool


def export(
    run: str | Path,
    *,
    onnx: str | Path | None = None,
    torch_export: str | Path | None = None,
    checkpoint: Which = "last",
    data_dir: Path | None = None,
    force: bool = False,
) -> Exported:
    """Write the network of a training run for use without csot.

    The file takes inputs as they are stored, uint8 images (N, channels, H, W) or float32 features
    (N, D), for any N, and returns probabilities (N, C): normalisation is inside, and so is the
    EfficientNet-Lite that the features of images were made with. Features of texts, of mixed tables
    and of other embedders have to be made by csot. It is compared
    with the run before it is written. A model card in Markdown is written next to it.

    Parameters
    ----------
    run : str or Path
        Folder that `csot.train` wrote.
    onnx, torch_export : str or Path, optional
        Files to write, .onnx and .pt2; at least one.
    checkpoint : {"last", "best"}
        The last epoch, or the best one on the noisy held-out labels.
    data_dir : Path, optional
        Folder of the named data sets, to check with; by default `./data`.
    force : bool
        Replace files.

    Returns
    -------
    Exported
    """
    wanted = [
        (Path(path), suffix, make)
        for path, suffix, make in (
            (onnx, ".onnx", onnx_bytes),
            (torch_export, ".pt2", torch_bytes),
        )
        if path is not None
    ]
    if not wanted:
        raise ValueError("nothing to export: pass `onnx` or `torch_export`")
    for path, suffix, _ in wanted:
        check_target(path, suffix, force)
    if onnx is not None:
        for module in ("onnx", "onnxscript", "onnxruntime"):
            require(module, "onnx", "exporting to ONNX")
    if Run(Path(run)).cleaner_path.exists():
        raise DataError(
            f"{run} is a run of csot clean, which has no network to export: csot.load predicts "
            "with it"
        )
    predictor = Predictor(run, checkpoint)
    inputs, real = rows_to_check(Path(run), predictor.inputs, data_dir)
    network = predictor.deployed
    with torch.no_grad():
        expected: Floats = network(inputs).numpy()
    with quiet():
        # Two rows: a dimension of one would be taken for a constant.
        program = torch.export.export(
            network, (inputs[:2],), dynamic_shapes=({0: torch.export.Dim("batch")},), strict=False
        )
        made = [(path, *make(program, inputs)) for path, _, make in wanted]
    differences = [float(np.abs(found - expected).max()) for _, _, found in made]
    for (path, _, _), difference in zip(made, differences, strict=True):
        if not difference <= TOLERANCE:
            raise ValueError(
                f"{path} was not written: its probabilities differ from those of the run by up to "
                f"{difference:.2g}, more than {TOLERANCE:g}"
            )
    paths = [path for path, _, _ in made]
    cards = list(dict.fromkeys(path.with_suffix(".md") for path in paths))
    done = Exported(paths, cards, max(differences), len(inputs), real)
    for path, content, _ in made:
        with atomic_write(path) as file:
            file.write(content)
    for card in cards:
        write_text(card, card_of(Path(run), card, predictor, done))
    return done


def card_of(run: Path, card: Path, predictor: Predictor, result: Exported) -> str:
    """The model card of the exported files, written next to them."""
    files = [path.name for path in result.files if path.with_suffix(".md") == card]
    rows = "rows of the data of the run" if result.real else "random rows"
    return model_card(
        " and ".join(files),
        Run.open(run).read_summary(),
        RunFolder(run).read_config(),
        predictor.inputs,
        epoch=predictor.epoch,
        checked=f"{result.rows} {rows}, largest difference in probability {result.difference:.1g}",
    )


def check_target(path: Path, suffix: str, force: bool) -> None:
    """Raise if a file cannot be written, before any work is done."""
    if path.suffix.lower() != suffix:
        raise DataError(f"{path}: the name of the file must end in {suffix}")
    if not path.absolute().parent.is_dir():
        raise DataError(f"{path}: there is no folder {path.parent}")
    for target in (path, path.with_suffix(".md")):
        if target.is_dir() or (target.exists() and not force):
            raise DataError(f"{target} exists: `force` replaces it, another name leaves it alone")


def rows_to_check(run: Path, takes: RunInputs, data_dir: Path | None) -> tuple[Tensor, bool]:
    """Rows of the data of the run, and True; random ones and False if it cannot be read."""
    config, wanted, side = RunFolder(run).read_config(), takes.wanted, takes.pixels
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of rows that are left out
            if side is not None:
                found = takes.read_pixels(config.data, ROWS)
            else:
                samples = takes.read(config.data, data_dir=data_dir).samples
                found = samples.batch(torch.arange(len(samples))[:ROWS])
    except (ValueError, OSError, ImportError):
        generator = torch.Generator().manual_seed(0)
        if wanted.kind == "images" or side is not None:
            size = (ROWS, *wanted.shape) if side is None else (ROWS, 3, side, side)
            return torch.randint(256, size, dtype=torch.uint8, generator=generator), False
        return torch.randn(ROWS, *wanted.shape, generator=generator), False
    # At least two: see `export`.
    return (found.repeat(2, *(1,) * (found.ndim - 1)) if len(found) == 1 else found), True


def onnx_bytes(program: torch.export.ExportedProgram, inputs: Tensor) -> tuple[bytes, Floats]:
    """The ONNX file, and what onnxruntime makes of the inputs with it."""
    made: Any = torch.onnx.export(
        program,
        (inputs[:2],),
        input_names=["inputs"],
        output_names=["probabilities"],
        dynamo=True,
        verbose=False,
    )
    content: bytes = made.model_proto.SerializeToString()
    runtime = require("onnxruntime", "onnx", "checking an ONNX file")
    session = runtime.InferenceSession(content, providers=["CPUExecutionProvider"])
    return content, session.run(None, {"inputs": inputs.numpy()})[0]


def torch_bytes(program: torch.export.ExportedProgram, inputs: Tensor) -> tuple[bytes, Floats]:
    """The file of `torch.export`, and what it makes of the inputs once it is loaded again."""
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    content = buffer.getvalue()
    module: Callable[[Tensor], Tensor] = torch.export.load(io.BytesIO(content)).module()
    with torch.no_grad():
        return content, module(inputs).numpy()


@contextmanager
def quiet() -> Iterator[None]:
    """Silence the messages of the torch exporters."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
