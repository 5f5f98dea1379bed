"""Training data by the name of a data set, or by a path.

To add a data set, add a file with `NAMES` and `read` to `data/datasets/`, such as `digits.py`; see
`csot.data.datasets`. Nothing is registered by hand.
"""

from __future__ import annotations

import pkgutil
import warnings
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from csot._core.errors import DataError, listed, nearest
from csot.data import datasets
from csot.data.readers.labelled_table import Columns
from csot.data.readers.training import read_path
from csot.data.types import DATA_DIR, DatasetRequest
from csot.data.types import TestSet as TestSet
from csot.data.types import TrainingData as TrainingData

Reader = Callable[[str, DatasetRequest], TrainingData]
FIRST = "digits"
"""Listed first: it needs no files."""


@cache
def readers() -> dict[str, Reader]:
    """Every name, and the function of the file that defines it."""
    found: dict[str, Reader] = {}
    for module in pkgutil.iter_modules(datasets.__path__):
        loaded = import_module(f"{datasets.__name__}.{module.name}")
        if not module.ispkg and hasattr(loaded, "NAMES") and hasattr(loaded, "read"):
            found |= dict.fromkeys(loaded.NAMES, loaded.read)
    return found


def dataset_names() -> list[str]:
    """Names of all data sets."""
    return sorted(readers(), key=lambda name: name != FIRST)


def data_path(data: str | Path) -> Path | None:
    """The path that `data` stands for, which need not exist; None for the name of a data set.

    A name stands for its data set even where a file or folder is called the same: `./digits` is the
    folder, and so is `Path("digits")`.
    """
    return None if isinstance(data, str) and data in readers() else Path(data)


def as_text(data: str | Path) -> str:
    """`data` as a text that `data_path` understands alike."""
    return f"./{data}" if isinstance(data, Path) and str(data) in readers() else str(data)


def read_training_data(
    data: str | Path,
    *,
    data_dir: Path | None = None,
    test: Path | None = None,
    columns: Columns | None = None,
    root: Path | None = None,
    image_size: int | None = None,
    download: bool = False,
    allow_outside: bool = False,
    limit: int | None = None,
    seed_for_limit: int = 0,
    whole: bool = False,
    cache: Path | None = None,
) -> TrainingData:
    """`data` is one of `dataset_names()`, whose files are in `data_dir`, or a path.

    `test`, `columns` and `root` belong to a path. `limit` keeps that many training rows, as many
    of each class as there can be; `seed_for_limit` alone decides which ones. Images outside of the
    data folder are read only with `allow_outside`. Scaled images of a path are kept in `cache`.
    With `whole` training images that are files are not cut to squares, see `ImageFiles`.
    """
    path = data_path(data)
    columns = None if columns == Columns() else columns
    if path is None:
        name = str(data)
        given = {"`test`": test, "the columns": columns, "`root`": root}
        for parameter, value in given.items():
            if value is not None:
                raise DataError(f"{data} brings its own test set and labels: drop {parameter}")
        request = DatasetRequest(data_dir or DATA_DIR, download, image_size, allow_outside, whole)
        if Path(name).exists():
            warnings.warn(
                f"{name} is read as the data set of that name; write ./{name} for the path",
                UserWarning,
                stacklevel=2,
            )
        found = readers()[name](name, request)
    elif path.exists():
        found = read_path(path, test, columns, root, image_size, allow_outside, cache)
    else:
        raise _unknown(str(data))
    if whole and not found.train.whole:
        raise DataError(f"{data}: `whole` is for webvision and clothing1m, whose images are files")
    if image_size is not None and found.train.shape[-1] != image_size:
        raise DataError(
            f"{data} has samples of shape {found.train.shape}: `image_size` {image_size} is for "
            "image files"
        )
    if limit is None:
        return found
    labels = found.labels if found.true_labels is None else found.true_labels
    return found.take(balanced_rows(labels, limit, seed_for_limit))


def _unknown(name: str) -> DataError:
    names = dataset_names()
    variants = [known for known in names if known.startswith(f"{name.partition(':')[0]}:")]
    if variants:
        hint = f"; of {name.partition(':')[0]} there are {listed(variants)}"
    else:
        hint = nearest(name, names)
    return DataError(f"{name} is neither a path nor one of {listed(names, len(names))}{hint}")


def balanced_rows(labels: Tensor, limit: int, seed: int) -> Tensor:
    """`limit` row numbers in rising order, the same number of each class where it has them."""
    classes, counts = np.unique(labels.numpy(), return_counts=True)
    if limit < len(classes):
        raise DataError(f"`limit` {limit} is less than one row for each of {len(classes)} classes")
    shares = fair_shares(counts, limit)
    rng = np.random.default_rng(seed)
    chosen = [
        rng.permutation(np.flatnonzero(labels.numpy() == c))[:share]
        for c, share in zip(classes, shares, strict=True)
    ]
    return torch.from_numpy(np.sort(np.concatenate(chosen)))


def fair_shares(counts: np.ndarray[tuple[int], np.dtype[np.int64]], limit: int) -> list[int]:
    """Divide `limit` rows among classes as equally as their `counts` allow."""
    left, shares = limit, [0] * len(counts)
    # Small classes first: what they cannot fill goes to the larger ones.
    order = np.argsort(counts, kind="stable").tolist()
    for position, c in enumerate(order):
        shares[c] = min(int(counts[c]), left // (len(order) - position))
        left -= shares[c]
    return shares
