"""The cleaner against cleanlab 2.9 given the same cross-validated linear probe, in one run.

    python benchmarks/clean.py --data cifar10_embeddings.npz [--seeds 0,1,2] [--settings sym0.5,...]

DATA is an .npz with train, train_labels, test, test_labels. For each kind of noise and seed:
average precision of the scores at ranking the truly wrong labels (cleanlab: the better of
self_confidence and normalized_margin), the share of right labels as given, after our corrections
and after cleanlab's (its predicted label wherever it flags), test accuracy of ``predict`` and of
CleanLearning with the same linear model, the estimated noise rate, and seconds. No method sees a
true label; true labels only score them.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from cleanlab.classification import CleanLearning
from cleanlab.filter import find_label_issues
from cleanlab.rank import get_label_quality_scores
from rich.console import Console
from rich.table import Table
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import average_precision_score

import csot
from csot.clean.basis import Basis
from csot.clean.evidence import Evidence
from csot.clean.folds import Folds
from csot.clean.probe import fit_probes, held_out_logits, no_weights

Labels = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]

RESULTS = Path(__file__).parent / "results"
SETTINGS = ("none", "sym0.2", "sym0.5", "sym0.8", "asym0.4", "pair0.3", "imbalanced0.4")
CIFAR_MAP = {9: 1, 2: 0, 4: 7, 3: 5, 5: 3}
RIDGES = (3e-1, 1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 3e-4)


@dataclass(frozen=True)
class Outcome:
    setting: str
    seed: int
    precision: float
    precision_cleanlab: float
    right_given: float
    right: float
    right_cleanlab: float
    accuracy: float
    accuracy_cleanlab: float
    noise_rate: float
    noise_rate_true: float
    seconds: float

    def missed(self) -> str:
        """Letters of the goals that this run misses; empty if none."""
        clean = self.noise_rate_true == 0
        goals = {
            "A": clean or self.precision > self.precision_cleanlab,
            "a": self.setting != "asym0.4" or self.precision >= 0.90,
            "R": self.right > self.right_cleanlab
            and (self.right > 0.98 if clean else self.right > self.right_given),
            "r": self.setting != "sym0.8" or self.right >= 0.80,
            "T": self.accuracy > self.accuracy_cleanlab,
            "N": self.setting == "sym0.8" or abs(self.noise_rate - self.noise_rate_true) <= 0.05,
            "S": self.seconds < 60,
        }
        return "".join(letter for letter, met in goals.items() if not met)


def corrupt(
    setting: str, features: Floats, truth: Labels, seed: int
) -> tuple[Floats, Labels, Labels]:
    """Features, true and given labels under a kind of noise."""
    rng = np.random.default_rng(seed)
    n_classes = int(truth.max()) + 1
    kind, rate = (setting, 0.0) if setting == "none" else (setting[:-3], float(setting[-3:]))
    if kind == "imbalanced":
        largest = np.bincount(truth).max()
        kept = [
            rng.permutation(np.flatnonzero(truth == k))[
                : round(largest * 10 ** (-k / (n_classes - 1)))
            ]
            for k in range(n_classes)
        ]
        rows = np.sort(np.concatenate(kept))
        features, truth, kind = features[rows], truth[rows], "sym"
    given = truth.copy()
    chosen = rng.random(len(truth)) < rate
    if kind == "sym":
        given[chosen] = rng.integers(0, n_classes, chosen.sum())
    elif kind == "asym":
        for source, target in CIFAR_MAP.items():
            given[chosen & (truth == source)] = target
    elif kind == "pair":
        given[chosen] = (truth[chosen] + 1) % n_classes
    return features, truth, given


class LinearProbe(ClassifierMixin, BaseEstimator):
    """The cleaner's own linear probe as a plain classifier, for cleanlab to use."""

    def __init__(self, ridge: float = 1e-2, n_classes: int = 10) -> None:
        self.ridge = ridge
        self.n_classes = n_classes

    def fit(self, X: Floats, y: Labels, sample_weight: Any = None) -> LinearProbe:
        self.basis_ = Basis(torch.from_numpy(np.asarray(X, np.float32)))
        likelihood = one_hot(y, self.n_classes)
        rows, repeats = np.arange(len(y)), np.ones(len(y))
        if sample_weight is not None:
            repeats = np.asarray(sample_weight, float)
        # Weights as shares of rows: the probe takes none, cleanlab's are per class.
        folds = replace_training(Folds(torch.zeros(len(rows), dtype=torch.int64), 1), repeats)
        blank = torch.zeros(self.basis_.rows.shape[1], 1, self.n_classes)
        self.weights_ = fit_probes(
            self.basis_, folds, likelihood, self.ridge, blank, steps=80, tolerance=1e-7
        )[:, 0]
        self.basis_ = self.basis_.without_training_rows()
        self.classes_ = np.arange(self.n_classes)
        return self

    def predict_proba(self, X: Floats) -> Floats:
        rows = self.basis_(torch.from_numpy(np.asarray(X, np.float32)))
        return (rows @ self.weights_).softmax(1).numpy()

    def predict(self, X: Floats) -> Labels:
        return self.predict_proba(X).argmax(1)


@dataclass(frozen=True)
class WeightedRows(Folds):
    """One probe that trains on every row, with weights."""

    weights: torch.Tensor = torch.zeros(0)  # noqa: RUF009

    def training_mask(self) -> torch.Tensor:
        return self.weights[:, None]


def replace_training(folds: Folds, weights: npt.NDArray[np.float64]) -> Folds:
    return WeightedRows(folds.fold, folds.n_folds, torch.from_numpy(weights).float())


def one_hot(labels: Labels, n_classes: int) -> torch.Tensor:
    evidence = Evidence.of_labels(torch.from_numpy(np.asarray(labels, np.int64)), n_classes)
    return evidence.likelihood(torch.eye(n_classes))


def plain_probe(features: Floats, given: Labels, seed: int) -> tuple[float, Floats]:
    """The ridge and held-out probabilities of the cross-validated probe that cleanlab gets."""
    labels = torch.from_numpy(given)
    n_classes = int(given.max()) + 1
    basis, folds = Basis(torch.from_numpy(features)), Folds.stratified(labels, 5, seed)
    weights = no_weights(basis, folds, n_classes)
    likelihood = one_hot(given, n_classes)
    best: tuple[float, float, Floats] | None = None
    for ridge in RIDGES:
        weights = fit_probes(basis, folds, likelihood, ridge, weights, steps=60)
        logs = held_out_logits(basis, folds, weights).double().log_softmax(1)
        loss = -float(logs.gather(1, labels[:, None]).mean())
        if best is not None and loss > best[0]:
            break
        best = loss, ridge, logs.exp().numpy()
    assert best is not None
    return best[1], best[2]


def measure(setting: str, seed: int, data: tuple[Floats, Labels, Floats, Labels]) -> Outcome:
    train, train_labels, test, test_labels = data
    features, truth, given = corrupt(setting, train, train_labels, seed)
    wrong = given != truth
    start = time.perf_counter()
    cleaner = csot.LabelCleaner(random_state=seed).fit(features, given)
    seconds = time.perf_counter() - start
    findings = cleaner.findings_
    ridge, probs = plain_probe(features, given, seed)
    flagged = find_label_issues(given, probs, n_jobs=1)
    rival = CleanLearning(LinearProbe(ridge, int(truth.max()) + 1))
    rival.fit(features, given, pred_probs=probs)
    scores = [
        get_label_quality_scores(given, probs, method=method)
        for method in ("self_confidence", "normalized_margin")
    ]
    return Outcome(
        setting=setting,
        seed=seed,
        precision=ranking(wrong, findings["label_score"].to_numpy()),
        precision_cleanlab=max(ranking(wrong, score) for score in scores),
        right_given=float(1 - wrong.mean()),
        right=float((findings["corrected_label"].to_numpy() == truth).mean()),
        right_cleanlab=float((np.where(flagged, probs.argmax(1), given) == truth).mean()),
        accuracy=float((cleaner.predict(test) == test_labels).mean()),
        accuracy_cleanlab=float((rival.predict(test) == test_labels).mean()),
        noise_rate=cleaner.noise_rate_,
        noise_rate_true=float(wrong.mean()),
        seconds=seconds,
    )


def ranking(wrong: npt.NDArray[np.bool_], score: npt.NDArray[np.floating]) -> float:
    return float(average_precision_score(wrong, -score)) if wrong.any() else float("nan")


def show(outcomes: list[Outcome], console: Console) -> None:
    table = Table(title="csot | cleanlab 2.9; three figures: as given | csot | cleanlab")
    for column in ("noise", "seed", "average precision", "right labels", "test accuracy",
                   "noise rate (true)", "seconds", "missed"):  # fmt: skip
        table.add_column(column, justify="right")
    for o in outcomes:
        table.add_row(
            o.setting,
            str(o.seed),
            f"{o.precision:.4f} | {o.precision_cleanlab:.4f}",
            f"{o.right_given:.4f} | {o.right:.4f} | {o.right_cleanlab:.4f}",
            f"{o.accuracy:.4f} | {o.accuracy_cleanlab:.4f}",
            f"{o.noise_rate:.4f} ({o.noise_rate_true:.4f})",
            f"{o.seconds:.1f}",
            o.missed() or "-",
        )
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--settings", default=",".join(SETTINGS))
    arguments = parser.parse_args()
    with np.load(arguments.data) as held:
        data = (
            held["train"].astype(np.float32),
            held["train_labels"].astype(np.int64),
            held["test"].astype(np.float32),
            held["test_labels"].astype(np.int64),
        )
    console = Console(width=150)
    outcomes = []
    for setting in arguments.settings.split(","):
        for seed in (int(seed) for seed in arguments.seeds.split(",")):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                outcomes.append(measure(setting, seed, data))
            console.print(f"{setting} seed {seed}: {outcomes[-1].seconds:.1f} s", style="dim")
    show(outcomes, console)
    RESULTS.mkdir(exist_ok=True)
    target = RESULTS / "clean.json"
    record = {
        "command": " ".join(["clean.py", *sys.argv[1:]]),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "outcomes": [asdict(o) | {"missed": o.missed()} for o in outcomes],
    }
    target.write_text(json.dumps(record, indent=2) + "\n")
    console.print(f"written to {target.relative_to(Path(__file__).parent.parent)}")


if __name__ == "__main__":
    main()
