"""What is judged: data, kinds of noise and kinds of features."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.decomposition import PCA

from rivals.verdict import Floats, Labels, Mask, Task

CLASS_NOISE = ("none", "sym0.2", "sym0.5", "sym0.8", "asym0.4", "pair0.3", "imbalanced0.4")
LOOK_ALIKE = {9: 1, 2: 0, 4: 7, 3: 5, 5: 3}
WEAK_COMPONENTS = 32


@dataclass(frozen=True)
class Data:
    """True labels of all rows, and label files (name -> labels of the training rows)."""

    train: Floats
    train_labels: Labels
    test: Floats
    test_labels: Labels
    files: dict[str, Labels]

    def subsample(self, n_rows: int) -> Data:
        """A random part of the training rows, the same one every time."""
        chosen = np.random.default_rng(0).permutation(len(self.train))[:n_rows]
        rows = np.sort(chosen)
        files = {name: labels[rows] for name, labels in self.files.items()}
        return Data(self.train[rows], self.train_labels[rows], self.test, self.test_labels, files)


@dataclass(frozen=True)
class Cell:
    """One noise on one kind of features with one seed."""

    name: str
    kind: str
    """"none", "class" (noise depends on the class alone) or "sample"."""
    space: str
    """Kind of features: embeddings, pca32 or probs."""
    truth: Labels
    test_labels: Labels
    task: Task

    @property
    def wrong(self) -> Mask:
        return self.task.given != self.truth

    @property
    def key(self) -> str:
        return f"{self.name} {self.space} seed {self.task.seed} rows {len(self.truth)}"

    def fingerprint(self) -> str:
        """Of what a method sees: labels, and the spread of each column of the features.

        Not of the features themselves, as principal components differ in their last bits, and in
        their signs, between machines.
        """
        task = self.task
        spreads = [
            np.round(rows.std(0, dtype=np.float64), 2) for rows in (task.features, task.test)
        ]
        return digest(*spreads, task.given)


def digest(*arrays: Floats | Labels) -> str:
    found = hashlib.sha1(usedforsecurity=False)
    for array in arrays:
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()[:16]


def load(data: Path, labels: Path | None) -> Data:
    with np.load(data) as held:
        arrays = [
            held[name].astype(dtype)
            for name, dtype in (
                ("train", np.float32),
                ("train_labels", np.int64),
                ("test", np.float32),
                ("test_labels", np.int64),
            )
        ]
    files = {}
    if labels is not None:
        with np.load(labels) as held:
            files = {name: held[name].astype(np.int64) for name in held.files}
    for name, given in files.items():
        if given.shape != arrays[1].shape:
            raise ValueError(
                f"labels file entry {name!r} has shape {given.shape} but there are "
                f"{len(arrays[1])} training rows; pass the file that belongs to the data"
            )
    return Data(*arrays, files)


def corrupt(noise: str, truth: Labels, seed: int) -> tuple[Labels, Labels]:
    """Rows that are kept, and their given labels, under noise that depends on the class alone."""
    rng = np.random.default_rng(seed)
    n_classes = int(truth.max()) + 1
    kind, rate = (noise, 0.0) if noise == "none" else (noise[:-3], float(noise[-3:]))
    rows = np.arange(len(truth))
    if kind == "imbalanced":
        largest = np.bincount(truth).max()
        sizes = [round(largest * 10 ** (-k / (n_classes - 1))) for k in range(n_classes)]
        kept = [rng.permutation(np.flatnonzero(truth == k))[:size] for k, size in enumerate(sizes)]
        rows, kind = np.sort(np.concatenate(kept)), "sym"
    truth = truth[rows]
    given = truth.copy()
    chosen = rng.random(len(truth)) < rate
    if kind == "sym":
        given[chosen] = rng.integers(0, n_classes, chosen.sum())
    elif kind == "asym":
        for source, target in LOOK_ALIKE.items():
            given[chosen & (truth == source)] = target
    elif kind == "pair":
        given[chosen] = (truth[chosen] + 1) % n_classes
    return rows, given


def make_cell(data: Data, name: str, space: str, seed: int) -> Cell:
    if name in data.files:
        rows, given, kind = np.arange(len(data.train)), data.files[name], "sample"
    else:
        rows, given = corrupt(name, data.train_labels, seed)
        kind = "none" if name == "none" else "class"
    features, test = data.train[rows], data.test
    if space == "pca32":
        components = min(WEAK_COMPONENTS, *features.shape)
        axes = PCA(components, svd_solver="covariance_eigh").fit(features)
        features = axes.transform(features).astype(np.float32)
        test = axes.transform(test).astype(np.float32)
    task = Task(features, given, test, int(data.train_labels.max()) + 1, seed)
    return Cell(name, kind, space, data.train_labels[rows], data.test_labels, task)
