"""One door to every source of training data: by name, or by path."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from csot._core.errors import DataError, listed, nearest
from csot.data.datasets.cifar import FORMS, read_cifar
from csot.data.datasets.cifar_n import LABELS, read_cifar_n
from csot.data.datasets.clothing1m import read_clothing1m
from csot.data.datasets.digits import read_digits
from csot.data.datasets.webvision import read_webvision
from csot.data.readers.table import Columns
from csot.data.readers.training import read_path
from csot.data.types import TestSet as TestSet
from csot.data.types import TrainingData as TrainingData

DATA_DIR = Path("data")
NAMES = ("digits", *FORMS, *LABELS, "webvision", "clothing1m")


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
) -> TrainingData:
    """`data` is one of `NAMES`, whose files are in `data_dir`, or a path.

    `test`, `columns` and `root` belong to a path. `limit` keeps that many training rows, as many
    of each class as there can be; which ones is said by `seed_for_limit` alone. Images outside of
    the data folder are read only with `allow_outside`.
    """
    path = Path(data)
    columns = None if columns == Columns() else columns
    if isinstance(data, str) and data in NAMES:
        given = {"--test": test, "the columns": columns, "--root": root}
        for option, value in given.items():
            if value is not None:
                raise DataError(f"{data} brings its own test set and labels: drop {option}")
        found = _read_known(data, data_dir or DATA_DIR, image_size, download, allow_outside)
    elif path.exists():
        found = read_path(path, test, columns, root, image_size, allow_outside)
    else:
        raise _unknown(str(data))
    if image_size is not None and found.train.shape[-1] != image_size:
        raise DataError(
            f"{data} has samples of shape {found.train.shape}: --image-size {image_size} is for "
            "image files"
        )
    return found if limit is None else found.take(balanced_rows(found, limit, seed_for_limit))


def _read_known(
    name: str, data_dir: Path, image_size: int | None, download: bool, allow_outside: bool
) -> TrainingData:
    if name in FORMS:
        return read_cifar(name, data_dir, download)
    if name in LABELS:
        return read_cifar_n(name, data_dir, download)
    if name == "webvision":
        return read_webvision(data_dir, image_size, allow_outside=allow_outside)
    if name == "clothing1m":
        return read_clothing1m(data_dir, image_size, allow_outside=allow_outside)
    return read_digits()


def _unknown(name: str) -> DataError:
    variants = [known for known in NAMES if known.startswith(f"{name.partition(':')[0]}:")]
    if variants:
        hint = f"; of {name.partition(':')[0]} there are {listed(variants)}"
    else:
        hint = nearest(name, NAMES)
    return DataError(f"{name} is neither a path nor one of {listed(NAMES, len(NAMES))}{hint}")


def balanced_rows(data: TrainingData, limit: int, seed: int) -> Tensor:
    """`limit` row numbers in rising order, the same number of each class where it has them.

    Classes are those of the true labels where they are known, else of the given ones.
    """
    labels = data.labels if data.true_labels is None else data.true_labels
    classes, counts = np.unique(labels.numpy(), return_counts=True)
    if limit < len(classes):
        raise DataError(f"--limit {limit} is less than one row for each of {len(classes)} classes")
    shares = fair_shares(counts, limit)
    rng = np.random.default_rng(seed)
    chosen = [
        rng.permutation(np.flatnonzero(labels.numpy() == c))[:share]
        for c, share in zip(classes, shares, strict=True)
    ]
    return torch.from_numpy(np.sort(np.concatenate(chosen)))


def fair_shares(counts: np.ndarray[tuple[int], np.dtype[np.int64]], limit: int) -> list[int]:
    """At most `counts`, in all `limit` (or everything), and as equal as that allows."""
    left, shares = limit, [0] * len(counts)
    # Small classes first: what they cannot fill goes to the larger ones.
    order = np.argsort(counts, kind="stable").tolist()
    for position, c in enumerate(order):
        shares[c] = min(int(counts[c]), left // (len(order) - position))
        left -= shares[c]
    return shares
