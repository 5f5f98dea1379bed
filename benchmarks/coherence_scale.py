"""What the coherence weight does to the plan's labels, in units of C / budget.

    python benchmarks/coherence_scale.py EMBEDDINGS.npz [--rows 10000] [--labels NOISE.npz]

EMBEDDINGS.npz holds ``train`` (N, D) and ``train_labels`` (N,), such as embeddings of CIFAR-10.
Some labels are replaced by wrong ones, a logistic regression predicts them by cross-validation, and
``csot.solve(coherence_scale="classes")`` allocates half or all of the rows with each kappa. Printed
is the share of right labels among the selected rows, with cosine and with k-NN similarity.

``--cleaner`` measures the cleaner's CSOT rounds instead: how many rows each round confirms, the
accuracy of its probes, and that of the cleaner's verdicts.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.progress import track
from rich.table import Table
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict

import csot

RESULTS = Path(__file__).parent / "results" / "coherence_scale.json"
CLEANER_RESULTS = RESULTS.with_name("coherence_scale_cleaner.json")
CLEANER_KAPPAS = (0.0, 0.1, 1.0, 3.0, 10.0)
KAPPAS = (0.0, 0.1, 1.0, 3.0, 10.0, 30.0, 100.0)
BUDGETS = (0.5, 1.0)

Floats = npt.NDArray[np.floating]
Integers = npt.NDArray[np.int64]


def wrong_labels(truth: Integers, noise: str, rng: np.random.Generator) -> Integers:
    """sym:r replaces a share r of the labels by a random class, asym:r by the next class."""
    kind, rate = noise.split(":")
    n_classes = int(truth.max()) + 1
    hit = rng.random(len(truth)) < float(rate)
    other = rng.integers(0, n_classes, len(truth)) if kind == "sym" else (truth + 1) % n_classes
    return np.where(hit, other, truth)


def shares_right(
    probs: Floats, features: Floats, labels: Integers, truth: Integers, similarity: str, k: int
) -> dict[str, float]:
    """Share of right plan labels among the selected rows, by budget and kappa."""
    found = {}
    for budget in BUDGETS:
        for kappa in KAPPAS:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", csot.ConvergenceWarning)
                plan = csot.solve(
                    probs,
                    features=features,
                    labels=labels,
                    budget=budget,
                    coherence=kappa,
                    coherence_scale="classes",
                    similarity=similarity,
                    neighbours=k,
                    max_outer=30,
                )
            right = (plan.labels == truth)[plan.selected]
            found[f"{budget:g}/{kappa:g}"] = float(right.mean())
    return found


def rounds_of_the_cleaner(
    features: Floats, labels: Integers, truth: Integers, kappa: float
) -> dict[str, float]:
    """Right labels by the probes of each round, and by the posterior of the whole cleaner."""
    cleaner = csot.LabelCleaner(
        members=("linear", "csot"), coherence=kappa, coherence_scale="classes"
    ).fit(features, labels)
    rounds = cleaner.model_.rounds
    found = {
        f"budget {one.budget:g}": float((one.logits.argmax(1).numpy() == truth).mean())
        for one in rounds
    }
    confirmed = {f"rows {one.budget:g}": float(one.clean_rows) for one in rounds}
    right = float((cleaner.posterior_.argmax(1) == truth).mean())
    return {**found, **confirmed, "verdict": right}


def show_rounds(features: Floats, truth: Integers, noises: dict[str, Integers]) -> None:
    """Print the cleaner's table."""
    columns = ("budget 0.5", "rows 0.5", "budget 1", "rows 1", "verdict")
    table = Table("noise", "kappa", *columns)
    results = {}
    for noise, labels in noises.items():
        for kappa in CLEANER_KAPPAS:
            found = rounds_of_the_cleaner(features, labels, truth, kappa)
            results[f"{noise}/{kappa:g}"] = found
            row = (f"{found.get(name, float('nan')):.4g}" for name in columns)
            table.add_row(noise, f"{kappa:g}", *row)
    Console().print(table)
    CLEANER_RESULTS.write_text(json.dumps(results, indent=1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("embeddings", type=Path)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--neighbours", type=int, default=10)
    parser.add_argument("--noise", nargs="+", default=["sym:0.5", "sym:0.8", "asym:0.4"])
    parser.add_argument("--labels", type=Path, help=".npz of wrong labels, by the names in --noise")
    parser.add_argument("--similarity", nargs="+", default=["cosine", "knn"])
    parser.add_argument("--cleaner", action="store_true", help="measure the cleaner's rounds")
    arguments = parser.parse_args()
    stored = np.load(arguments.embeddings)
    rng = np.random.default_rng(0)
    rows = rng.permutation(len(stored["train"]))[: arguments.rows]
    features = stored["train"][rows].astype(np.float32)
    features /= features.std()
    truth = stored["train_labels"][rows].astype(np.int64)
    noises = {
        noise: wrong_labels(truth, noise, rng)
        if ":" in noise
        else np.load(arguments.labels)[noise][rows].astype(np.int64)
        for noise in arguments.noise
    }
    if arguments.cleaner:
        show_rounds(features, truth, noises)
        return
    table = Table("noise", "similarity", "budget", *(f"kappa {kappa:g}" for kappa in KAPPAS))
    results = {}
    for noise, labels in track(noises.items(), description="noise"):
        begun = time.perf_counter()
        model = LogisticRegression(C=1e-2, max_iter=100)
        probs = cross_val_predict(model, features, labels, cv=3, method="predict_proba")
        probs = probs.astype(np.float32)
        for similarity in arguments.similarity:
            found = shares_right(probs, features, labels, truth, similarity, arguments.neighbours)
            results[f"{noise}/{similarity}"] = found
            for budget in BUDGETS:
                shares = (f"{found[f'{budget:g}/{kappa:g}']:.3f}" for kappa in KAPPAS)
                table.add_row(noise, similarity, f"{budget:g}", *shares)
        results[f"{noise}/seconds"] = {"all": time.perf_counter() - begun}
    Console().print(table)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
