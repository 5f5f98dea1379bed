"""`load`: a finished run, of training or of cleaning -> a classifier for new samples."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch import Tensor, nn

from csot._core.errors import DataError, listed, require
from csot._core.pictures import channels_last, fault, picture_files
from csot._core.text import check_texts
from csot.clean.saved_cleaner import DESCRIPTIONS, SavedCleaner, predict_with_saved
from csot.data.readers.labelled_table import Columns
from csot.data.readers.to_predict import Inputs
from csot.data.readers.training import to_float32
from csot.data.samples import ImageFiles, InMemory, Samples, read_square
from csot.runs import Run
from csot.runs.predicted import SHOWN_CLASSES, Predicted
from csot.training.predict import Predictor, Which

Probabilities: TypeAlias = npt.NDArray[np.float32]


def load(
    run: str | Path,
    *,
    checkpoint: Which = "last",
    backbone: nn.Module | None = None,
    embedder: str | None = None,
) -> LoadedRun:
    """Load a finished run to predict new samples with it.

    Parameters
    ----------
    run : str or Path
        Folder that `csot.train` or `csot.clean_dataset` wrote.
    checkpoint : {"last", "best"}
        Checkpoint of a training run: the last epoch, or the best on the noisy held-out labels.
    backbone : nn.Module, optional
        The module that a training run started from, if it was passed in memory.
    embedder : str, optional
        The embedder `package.module:callable` of the run, to confirm that it may be imported.

    Returns
    -------
    LoadedRun

    Examples
    --------
    >>> model = csot.load("run")                                     # doctest: +SKIP
    >>> model.predict(["a.jpg", "b.jpg"])                            # doctest: +SKIP
    """
    if checkpoint not in ("last", "best"):
        raise ValueError(f"checkpoint must be 'last' or 'best', got {checkpoint!r}")
    if not Path(run).is_dir():
        raise FileNotFoundError(f"{run} does not exist: pass the folder of a finished run")
    if Run(Path(run)).cleaner_path.exists():
        return _CleaningRun(SavedCleaner.open(Path(run), embedder))
    require("lightning_fabric", "train", "loading a training run")
    return _TrainingRun(Predictor(run, checkpoint, backbone, embedder))


class LoadedRun(ABC):
    """A classifier that prepares samples as the run did.

    Attributes
    ----------
    class_names : list of str
        The classes, in the order of the probabilities.
    medium : str
        Kind of inputs: "images", "texts", "columns" of a table, or "arrays" of features.
    """

    class_names: list[str]
    medium: str

    def __repr__(self) -> str:
        return f"LoadedRun(takes {self.medium}; classes {listed(self.class_names, SHOWN_CLASSES)})"

    def predict(self, inputs: Any) -> npt.NDArray[np.object_]:
        """Return the likeliest class of each sample, (N,); see `predict_proba`."""
        names = np.array(self.class_names, dtype=object)
        return np.asarray(names[self.predict_proba(inputs).argmax(1)])

    def predict_proba(self, inputs: Any) -> Probabilities:
        """Return the probability of each class for each sample, (N, C).

        Parameters
        ----------
        inputs : path, list, array, tensor or DataFrame
            The path of a folder, a table or arrays, as `csot predict` takes it; or, by what the
            run takes: image files or PIL images (a list, or one), uint8 images (N, H, W, 3) or
            (N, 3, H, W), or one (H, W, 3); texts (a list, or one); features (N, D); rows of a
            table.
        """
        if isinstance(inputs, pd.DataFrame):
            return self._frame(inputs)
        if isinstance(inputs, np.ndarray | Tensor):
            array = np.asarray(inputs.cpu() if isinstance(inputs, Tensor) else inputs)
            # One image in colour, not grey images of three columns.
            is_one = self.medium == "images" and array.ndim == 3 and array.shape[-1] == 3
            return self._array(array[None] if is_one else array)
        if isinstance(inputs, str | Path):
            if self.medium == "texts" and not _exists(inputs):
                return self._frame_of([str(inputs)])
            if not _is_picture(inputs):
                return self._path(Path(inputs))
        samples = list(inputs) if isinstance(inputs, list | tuple) else [inputs]
        if not samples:
            raise ValueError("inputs is empty: pass at least one sample")
        if self.medium == "texts":
            return self._frame_of(check_texts(samples, "inputs"))
        if self.medium == "images":
            with ExitStack() as stack:
                return self._images(picture_files(samples, stack))
        try:
            return self._array(np.asarray(samples))
        except ValueError as error:
            raise self._refused(samples[0]) from error

    @abstractmethod
    def _path(self, path: Path) -> Probabilities: ...

    @abstractmethod
    def _frame(self, table: pd.DataFrame) -> Probabilities: ...

    @abstractmethod
    def _array(self, array: npt.NDArray[Any]) -> Probabilities: ...

    @abstractmethod
    def _images(self, paths: list[Path]) -> Probabilities: ...

    def _frame_of(self, texts: list[str]) -> Probabilities:
        raise self._refused(texts[0])

    def _pixels(self, array: npt.NDArray[Any]) -> Probabilities:
        """uint8 images of any size, by way of files."""
        with ExitStack() as stack:
            return self._images(picture_files(list(channels_last(array)), stack))

    def _refused(self, given: object) -> ValueError:
        return ValueError(
            f"inputs holds a {type(given).__name__}, but the run takes {DESCRIPTIONS[self.medium]}"
        )


class _TrainingRun(LoadedRun):
    def __init__(self, predictor: Predictor) -> None:
        self._predictor = predictor
        self._inputs = self._predictor.inputs
        self._wanted = self._predictor.wanted
        self.class_names = self._wanted.class_names
        self.medium = self._inputs.medium

    def _path(self, path: Path) -> Probabilities:
        return self._predictor(self._inputs.read(path)).probabilities

    def _frame(self, table: pd.DataFrame) -> Probabilities:
        if self._inputs.prepared is not None:
            return self._embedded(table)
        columns = self._wanted.table_features
        if columns is None:
            raise self._refused(table)
        encoded = columns.encode(table, "inputs")
        return self._features(encoded if columns.is_plain else columns.scale(encoded))

    def _embedded(
        self, table: pd.DataFrame, columns: Columns | None = None, allow_outside: bool = False
    ) -> Probabilities:
        rows = table.reset_index(drop=True)
        found = self._predictor(self._inputs.read(rows, columns, allow_outside=allow_outside))
        return _complete(found, len(rows))

    def _frame_of(self, texts: list[str]) -> Probabilities:
        if self.medium != "texts":
            raise self._refused(texts[0])
        return self._embedded(pd.DataFrame({"text": texts}), Columns(text="text"))

    def _array(self, array: npt.NDArray[Any]) -> Probabilities:
        columns = self._wanted.table_features
        if columns is not None and not columns.is_plain:
            raise ValueError(f"inputs must be a DataFrame with the columns {listed(columns.names)}")
        if self._inputs.prepared is not None:
            if self.medium != "images":
                raise self._refused(array)
            return self._pixels(array)
        if self.medium == "images":
            return self._predicted(InMemory(_as_images(array, self._wanted.shape)))
        return self._features(array)

    def _features(self, array: npt.NDArray[Any]) -> Probabilities:
        size = self._wanted.shape[0]
        if array.ndim != 2 or array.shape[1] != size or array.dtype.kind not in "fiub":
            raise ValueError(
                f"inputs has shape {array.shape} and type {array.dtype}; numbers of shape "
                f"(N, {size}) are needed"
            )
        return self._predicted(InMemory(to_float32(array, "inputs")))

    def _images(self, paths: list[Path]) -> Probabilities:
        if self._inputs.prepared is not None:
            return self._embedded(_table_of(paths), Columns(image="image"), allow_outside=True)
        channels, height, width = self._wanted.shape
        if height != width:
            raise ValueError(f"inputs must be arrays of shape (N, {channels}, {height}, {width})")
        if channels == 3:
            return self._predicted(ImageFiles(paths, height))
        images = require("PIL.Image", "train", "reading images")
        squares = (images.fromarray(read_square(path, height)).convert("L") for path in paths)
        return self._array(np.stack([np.asarray(image)[None] for image in squares]))

    def _predicted(self, samples: Samples) -> Probabilities:
        ids = [str(row) for row in range(len(samples))]
        return self._predictor(Inputs(samples, ids)).probabilities


class _CleaningRun(LoadedRun):
    def __init__(self, saved: SavedCleaner) -> None:
        self._saved = saved
        self.class_names = [str(name) for name in saved.cleaner.classes_]
        self.medium = saved.inputs.medium

    def _path(self, path: Path) -> Probabilities:
        return predict_with_saved(self._saved, path).probabilities

    def _frame(
        self, table: pd.DataFrame, columns: Columns | None = None, allow_outside: bool = False
    ) -> Probabilities:
        rows = table.reset_index(drop=True)
        found = predict_with_saved(self._saved, rows, columns=columns, allow_outside=allow_outside)
        return _complete(found, len(rows))

    def _array(self, array: npt.NDArray[Any]) -> Probabilities:
        if self.medium == "images":
            return self._pixels(array)
        if self.medium != "arrays":
            raise self._refused(array)
        found = self._saved.cleaner.predict_proba(array)
        return np.asarray(found, dtype=np.float32)

    def _images(self, paths: list[Path]) -> Probabilities:
        return self._frame(_table_of(paths), Columns(image="image"), allow_outside=True)

    def _frame_of(self, texts: list[str]) -> Probabilities:
        return self._frame(pd.DataFrame({"text": texts}), Columns(text="text"))


def _table_of(paths: list[Path]) -> pd.DataFrame:
    return pd.DataFrame({"image": [str(path.absolute()) for path in paths]})


def _complete(found: Predicted, rows: int) -> Probabilities:
    """The probabilities, if no row was left out."""
    if len(found.ids) != rows:
        raise DataError(
            f"{rows - len(found.ids)} of {rows} rows cannot be used: their text or image is missing"
        )
    return found.probabilities


def _exists(path: str | Path) -> bool:
    try:
        return Path(path).exists()
    except (OSError, ValueError):  # too long for a path, or with a zero byte
        return False


def _is_picture(path: str | Path) -> bool:
    return Path(path).is_file() and fault(Path(path)) is None


def _as_images(array: npt.NDArray[Any], shape: tuple[int, ...]) -> Tensor:
    """uint8 (N, channels, H, W) of the shape that the network was trained on."""
    pixels = array
    if pixels.dtype == np.uint8 and pixels.shape[1:] != shape and pixels.ndim in (3, 4):
        pixels = channels_last(pixels)
        pixels = pixels[:, None] if pixels.ndim == 3 else pixels.transpose(0, 3, 1, 2)
    if pixels.dtype != np.uint8 or pixels.shape[1:] != shape:
        raise ValueError(
            f"inputs has shape {array.shape} and type {array.dtype}; uint8 images of shape "
            f"(N, {', '.join(map(str, shape))}) are needed: pass PIL images to have them scaled"
        )
    return torch.from_numpy(np.ascontiguousarray(pixels))
