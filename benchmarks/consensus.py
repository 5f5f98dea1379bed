"""Consensus of several annotators against majority vote and cleanlab's CROWDLAB, in one run.

    python benchmarks/consensus.py [--data cifar10_embeddings.npz] [--rows 5000] [--seeds 0,1,2]
    python benchmarks/consensus.py --votes votes.csv --truth truth.csv [--probs probs.npz]

DATA is an .npz with train and train_labels; scikit-learn's digits without it. Annotators are
simulated on it, of unequal skill, in several regimes. CROWDLAB and csot get the same votes and the
same pred_probs: a logistic regression, cross-validated on the majority's labels. Measured are the
share of right consensus labels, AUROC of the consensus' confidence at telling right from wrong
ones, Spearman's rank correlation of annotators' quality with their real accuracy, and seconds.

With --votes, real votes (columns sample, annotator, label) are scored by --truth (columns sample,
label); --probs is an .npz with samples, pred_probs and class_names, else both do without: CROWDLAB
cannot, and is left out. No method sees a true label; true labels only score them.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from cleanlab.multiannotator import get_label_quality_multiannotator, get_majority_vote_label
from rich.console import Console
from rich.table import Table
from scipy.stats import spearmanr
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_predict
from sklearn.preprocessing import StandardScaler

from csot import find_consensus

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Regime:
    """How annotators err, and how many vote on a sample."""

    name: str
    n_annotators: int
    votes: tuple[int, int]
    """Fewest and most votes per sample."""
    skill: tuple[float, float]
    """Range of the accuracies."""
    experts: int = 0
    """Of accuracy 0.95, whatever the others' is."""
    by_class: bool = False
    """Each annotator confuses classes of their own, and neighbouring ones."""
    spammers: int = 0
    """Half of them answer at random, half always the same."""
    hard_samples: bool = False
    """All annotators err on the same samples, towards the same label."""


REGIMES = (
    Regime("few good", 30, (1, 5), (0.25, 0.45), experts=5),
    Regime("unequal", 50, (1, 5), (0.4, 0.95)),
    Regime("by class", 30, (1, 5), (0.5, 0.95), by_class=True),
    Regime("spammers", 40, (1, 5), (0.7, 0.95), spammers=16),
    Regime("sparse", 200, (1, 2), (0.4, 0.95)),
    Regime("hard samples", 40, (1, 5), (0.5, 0.95), hard_samples=True),
    Regime("five votes", 20, (5, 5), (0.5, 0.9)),
)


@dataclass(frozen=True)
class Score:
    """One method on one set of votes; NaN where it has no such figure."""

    method: str
    regime: str
    seed: int
    accuracy: float
    auroc: float
    ranking: float
    seconds: float


def confusion_matrices(regime: Regime, n_classes: int, rng: np.random.Generator) -> Floats:
    """T_a[k, j] of every annotator, (A, C, C)."""
    n = regime.n_annotators
    accuracy = rng.uniform(*regime.skill, n)
    accuracy[: regime.experts] = 0.95
    matrices = np.empty((n, n_classes, n_classes))
    for a in range(n):
        error = np.full(n_classes, 1 - accuracy[a])
        wrong = np.full((n_classes, n_classes), 1.0)
        if regime.by_class:
            error = np.clip(error * rng.gamma(1.5, 1 / 1.5, n_classes), 0, 0.7)
            wrong = rng.dirichlet(np.full(n_classes, 0.5), n_classes) + 1e-9
        np.fill_diagonal(wrong, 0)
        wrong /= wrong.sum(1, keepdims=True)
        if regime.by_class:
            wrong = 0.4 * wrong + 0.6 * np.roll(np.eye(n_classes), 1, axis=1)
        matrices[a] = error[:, None] * wrong + np.diag(1 - error)
        if regime.experts <= a < regime.experts + regime.spammers:
            constant = np.eye(n_classes)[a % n_classes]
            flat = np.full(n_classes, 1 / n_classes)
            matrices[a] = flat if a % 2 else 0.98 * constant + 0.02 * flat
    return matrices


def simulate(regime: Regime, truth: Ints, n_classes: int, seed: int) -> Floats:
    """Votes (N, A), NaN where there is none; some annotators vote far more often than others."""
    rng = np.random.default_rng(seed)
    matrices = confusion_matrices(regime, n_classes, rng)
    n_rows, n_annotators = len(truth), regime.n_annotators
    busy = rng.gamma(1.0, 1.0, n_annotators) + 0.2
    # The first annotators of a random order, drawn by how busy they are (Gumbel's trick).
    order = np.argsort(-np.log(busy) - rng.gumbel(size=(n_rows, n_annotators)), axis=1)
    number = rng.integers(regime.votes[0], regime.votes[1] + 1, n_rows)
    votes = np.full((n_rows, n_annotators), np.nan)
    hardness = 2 * rng.random(n_rows)
    lure = (truth + rng.integers(1, n_classes, n_rows)) % n_classes
    for place in range(regime.votes[1]):
        rows = np.flatnonzero(number > place)
        who = order[rows, place]
        chances = matrices[who, truth[rows]]
        if regime.hard_samples:
            error = np.clip(
                (1 - chances[np.arange(len(rows)), truth[rows]]) * hardness[rows], 0, 0.9
            )
            at = np.arange(len(rows))
            chances = np.full_like(chances, 0.3 / n_classes) * error[:, None]
            chances[at, truth[rows]] += 1 - error
            chances[at, lure[rows]] += 0.7 * error
        steps = (chances / chances.sum(1, keepdims=True)).cumsum(1)
        drawn = (rng.random((len(rows), 1)) > steps).sum(1)
        votes[rows, who] = np.minimum(drawn, n_classes - 1)
    return votes[:, ~np.isnan(votes).all(0)]


def real_accuracy(votes: Floats, truth: Ints) -> Floats:
    """Share of right votes of each annotator, (A,); NaN counts as no vote."""
    given = ~np.isnan(votes)
    right: Floats = ((votes == truth[:, None]) & given).sum(0) / given.sum(0)
    return right


def auroc(right: npt.NDArray[np.bool_], score: npt.ArrayLike) -> float:
    return float(roc_auc_score(right, score)) if 0 < right.mean() < 1 else float("nan")


def ranking(quality: npt.ArrayLike, accuracy: Floats) -> float:
    values = np.asarray(quality, dtype=np.float64)
    known = np.isfinite(values) & np.isfinite(accuracy)
    return float(spearmanr(values[known], accuracy[known])[0])


def compare(
    regime: str, seed: int, votes: Floats, truth: Ints, probs: Floats | None, n_classes: int
) -> list[Score]:
    """All methods on the same votes and probabilities."""
    known = truth >= 0
    accuracy = real_accuracy(np.where(known[:, None], votes, np.nan), truth)
    frame = pd.DataFrame(votes).astype("Int64")
    found = []
    # cleanlab's majority vote breaks ties by the probabilities, if it has them.
    for method, given in (("majority", probs), ("majority, votes alone", None)):
        if method == "majority" and probs is None:
            continue
        start = time.perf_counter()
        majority = np.asarray(get_majority_vote_label(frame, given, verbose=False))
        seconds = time.perf_counter() - start
        right = (majority == truth)[known]
        found.append(Score(method, regime, seed, right.mean(), np.nan, np.nan, seconds))
    if probs is not None:
        start = time.perf_counter()
        theirs = get_label_quality_multiannotator(frame, probs, verbose=False)
        seconds = time.perf_counter() - start
        labels = theirs["label_quality"]
        right = (labels["consensus_label"].to_numpy() == truth)[known]
        quality = theirs["annotator_stats"]["annotator_quality"].reindex(frame.columns)
        found.append(
            Score(
                "CROWDLAB",
                regime,
                seed,
                right.mean(),
                auroc(right, labels["consensus_quality_score"].to_numpy()[known]),
                ranking(quality, accuracy),
                seconds,
            )
        )
    for method, given in (("csot", probs), ("csot, votes alone", None)):
        if method == "csot" and probs is None:
            continue
        start = time.perf_counter()
        ours = find_consensus(votes, pred_probs=given, class_names=np.arange(n_classes))
        seconds = time.perf_counter() - start
        right = (ours.findings["corrected_label"].to_numpy() == truth)[known]
        found.append(
            Score(
                method,
                regime,
                seed,
                right.mean(),
                auroc(right, ours.findings["confidence"].to_numpy()[known]),
                ranking(ours.annotators["quality"].reindex(range(votes.shape[1])), accuracy),
                seconds,
            )
        )
    return found


def cross_validated(features: Floats, labels: Ints, n_classes: int) -> Floats:
    """Probabilities (N, C) of a logistic regression that has not seen the row's label."""
    scaled = StandardScaler().fit_transform(features)
    model = LogisticRegression(C=0.01, max_iter=300)
    held_out = cross_val_predict(model, scaled, labels, cv=5, method="predict_proba")
    probs = np.full((len(labels), n_classes), 1e-6)
    probs[:, np.unique(labels)] += held_out
    normal: Floats = probs / probs.sum(1, keepdims=True)
    return normal


def simulated(data: Path | None, rows: int, seeds: list[int], console: Console) -> list[Score]:
    if data is None:
        features, truth = load_digits(return_X_y=True)
    else:
        with np.load(data) as held:
            features, truth = held["train"][:rows], held["train_labels"][:rows].astype(np.int64)
    features, n_classes = features.astype(np.float64), int(truth.max()) + 1
    scores = []
    for regime in REGIMES:
        for seed in seeds:
            votes = simulate(regime, truth, n_classes, seed)
            majority = np.asarray(get_majority_vote_label(pd.DataFrame(votes).astype("Int64")))
            probs = cross_validated(features, majority, n_classes)
            scores += compare(regime.name, seed, votes, truth, probs, n_classes)
        console.print(f"{regime.name}: done", style="dim")
    return scores


def real(votes: Path, truth: Path, probs: Path | None) -> list[Score]:
    """Votes of a file; what is not in the truth is not scored."""
    table, right = pd.read_csv(votes, dtype=str), pd.read_csv(truth, dtype=str)
    names = sorted({*table["label"].dropna(), *right["label"].dropna()})
    samples = list(dict.fromkeys(table["sample"]))
    given = None
    if probs is not None:
        with np.load(probs) as held:
            names = [str(name) for name in held["class_names"]]
            samples = [str(sample) for sample in held["samples"]]
            given = held["pred_probs"].astype(np.float64)
    number = {name: k for k, name in enumerate(names)}
    annotators = {name: a for a, name in enumerate(sorted(set(table["annotator"])))}
    place = {sample: i for i, sample in enumerate(samples)}
    matrix = np.full((len(samples), len(annotators)), np.nan)
    for sample, name, label in zip(
        table["sample"], table["annotator"], table["label"], strict=True
    ):
        matrix[place[sample], annotators[name]] = number[label]
    codes = dict(zip(right["sample"], right["label"].map(number), strict=True))
    answers = np.array([codes.get(sample, -1) for sample in samples], dtype=np.int64)
    return compare(votes.stem, 0, matrix, answers, given, len(names))


def show(scores: list[Score], console: Console) -> None:
    table = Table(title="mean (standard deviation) over the seeds; csot minus CROWDLAB in brackets")
    for column in ("regime", "method", "right", "AUROC", "annotators' rank", "seconds"):
        table.add_column(column, justify="left" if column in ("regime", "method") else "right")
    frame = pd.DataFrame([asdict(score) for score in scores])
    for regime, of_regime in frame.groupby("regime", sort=False):
        rival = of_regime[of_regime["method"] == "CROWDLAB"]
        for method, rows in of_regime.groupby("method", sort=False):
            cells = [str(regime), str(method)]
            for figure in ("accuracy", "auroc", "ranking"):
                mean, spread = rows[figure].mean(), rows[figure].std(ddof=0)
                text = "-" if np.isnan(mean) else f"{mean:.4f} ({spread:.4f})"
                if method == "csot" and len(rival):
                    text += f" [{mean - rival[figure].mean():+.4f}]"
                cells.append(text)
            seconds = f"{rows['seconds'].mean():.2f}"
            if method == "csot" and len(rival):
                seconds += f" [x {rows['seconds'].mean() / rival['seconds'].mean():.2f}]"
            table.add_row(*cells, seconds)
        table.add_section()
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--votes", type=Path)
    parser.add_argument("--truth", type=Path)
    parser.add_argument("--probs", type=Path)
    arguments = parser.parse_args()
    if (arguments.votes is None) != (arguments.truth is None):
        parser.error("--votes and --truth belong together")
    console = Console(width=140)
    seeds = [int(seed) for seed in arguments.seeds.split(",")]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if arguments.votes is not None:
            scores = real(arguments.votes, arguments.truth, arguments.probs)
        else:
            scores = simulated(arguments.data, arguments.rows, seeds, console)
    show(scores, console)
    name = (arguments.votes or arguments.data or Path("digits")).stem
    record: dict[str, Any] = {
        "command": " ".join(["annotators.py", *map(_basename, sys.argv[1:])]),
        "machine": platform.machine(),
        "scores": [asdict(score) for score in scores],
    }
    RESULTS.mkdir(exist_ok=True)
    target = RESULTS / f"annotators_{name}.json"
    text = json.dumps(record, indent=1).replace("NaN", "null")
    target.write_text(text + "\n")
    console.print(f"written to benchmarks/results/{target.name}")


def _basename(argument: str) -> str:
    return Path(argument).name if "/" in argument else argument


if __name__ == "__main__":
    main()
