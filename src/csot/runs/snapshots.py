"""Snapshots: predictions and features of a few samples after some epochs of training.

A training run keeps some of them, bounded in number and size, in `snapshots/epoch-N.npz`. The plans
of the relabelling can be solved again from them, and features drawn.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from csot._core.errors import FileError, naming
from csot._core.files import atomic_write, open_zip, read_member, remove_partials

FOLDER = "snapshots"
FILE = re.compile(r"epoch-(\d{1,9})\.npz")
WHAT = "a snapshot of a training run"
ARRAYS = ("pred_probs", "features", "labels", "truth", "class_names")
NO_LABEL = -1


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Predictions and features of N samples, C classes.

    Attributes
    ----------
    pred_probs : (N, C) array
        Predicted probabilities.
    features : (N, D) array
    labels : (N,) array of int, optional
        Given labels, -1 for none.
    truth : (N,) array of int, optional
        True labels, -1 where unknown: for colours and shares only, no plan sees them.
    class_names : list of str
        By default the numbers of the classes.
    """

    pred_probs: npt.NDArray[Any]
    features: npt.NDArray[Any]
    labels: npt.NDArray[Any] | None = None
    truth: npt.NDArray[Any] | None = None
    class_names: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        probs = np.asarray(self.pred_probs, dtype=np.float32)
        features = np.asarray(self.features, dtype=np.float32)
        if probs.ndim != 2 or features.ndim != 2 or len(probs) != len(features) or not len(probs):
            raise ValueError(
                f"`pred_probs` must be (N, C) and `features` (N, D) of the same N samples, got "
                f"shapes {probs.shape} and {features.shape}"
            )
        if not np.isfinite(probs).all() or not np.isfinite(features).all():
            raise ValueError("`pred_probs` and `features` must be finite: leave such samples out")
        names = [str(name) for name in self.class_names] or [str(k) for k in range(probs.shape[1])]
        if len(names) != probs.shape[1]:
            raise ValueError(
                f"`class_names` has {len(names)} names for {probs.shape[1]} classes of `pred_probs`"
            )
        values = {"pred_probs": probs, "features": features, "class_names": names}
        for name in ("labels", "truth"):
            given = getattr(self, name)
            values[name] = None if given is None else _classes(name, given, *probs.shape)
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return len(self.pred_probs)


def _classes(name: str, given: Any, rows: int, classes: int) -> npt.NDArray[np.int64]:
    found = np.asarray(given)
    if found.shape != (rows,) or found.dtype.kind not in "iu":
        raise ValueError(
            f"`{name}` must be {rows} whole numbers, one per sample, got {found.dtype} of shape "
            f"{found.shape}"
        )
    if found.min() < NO_LABEL or found.max() >= classes:
        raise ValueError(f"`{name}` must be from -1 to {classes - 1}, got {found.max()}")
    return found.astype(np.int64)


def snapshot_path(run: Path, epoch: int) -> Path:
    """Where the snapshot of an epoch is."""
    return run / FOLDER / f"epoch-{epoch}.npz"


def snapshot_epochs(run: Path) -> list[int]:
    """Epochs that have a snapshot, in order."""
    folder = run / FOLDER
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    return sorted(int(found[1]) for name in names if (found := FILE.fullmatch(name)))


def clear_snapshots(run: Path) -> None:
    """Delete the snapshots of an earlier run."""
    for epoch in snapshot_epochs(run):
        snapshot_path(run, epoch).unlink()


def clear_partials(run: Path) -> None:
    """Delete what a killed process left half-written."""
    remove_partials(run / FOLDER)


def write_snapshot(run: Path, epoch: int, snapshot: Snapshot) -> Path:
    """Features are kept in half precision: they are for drawing and for cosines."""
    path = snapshot_path(run, epoch)
    path.parent.mkdir(parents=True, exist_ok=True)
    length = np.abs(snapshot.features).max(initial=0.0)
    arrays: dict[str, npt.NDArray[Any]] = {
        "pred_probs": snapshot.pred_probs,
        # Scaled, so that no feature overflows: neither cosines nor t-SNE depend on the unit.
        "features": (snapshot.features / (length or 1.0)).astype(np.float16),
        "class_names": np.array(snapshot.class_names, dtype=np.str_),
    }
    for name in ("labels", "truth"):
        if getattr(snapshot, name) is not None:
            arrays[name] = getattr(snapshot, name)
    with atomic_write(path) as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
    return path


def read_snapshot(run: Path, epoch: int | None = None) -> Snapshot:
    """The snapshot of an epoch, by default the last; an error says which epochs there are."""
    epochs = snapshot_epochs(run)
    if not epochs:
        raise FileError(
            f"{run} has no {FOLDER}: train it again with `snapshot_rows` above 0 (the default)"
        )
    chosen = epochs[-1] if epoch is None else epoch
    if chosen not in epochs:
        raise FileError(f"{run} has no snapshot of epoch {chosen}: it has {epochs}")
    path = snapshot_path(run, chosen)
    with (
        naming(path, WHAT, "train it again"),
        open_zip(path, WHAT, "train it again") as archive,
    ):
        held = [name.removesuffix(".npy") for name in archive.namelist()]
        arrays = {name: read_member(archive, name, path) for name in ARRAYS if name in held}
        names, probs = arrays["class_names"], arrays["pred_probs"]
        if names.ndim != 1 or names.shape != probs.shape[1:]:
            raise ValueError(f"names of shape {names.shape} for probabilities {probs.shape}")
        return Snapshot(
            probs,
            arrays["features"],
            arrays.get("labels"),
            arrays.get("truth"),
            [str(name) for name in names],
        )
