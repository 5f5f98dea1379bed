"""Two to five classes and few rows, where noise depends on the sample: csot and cleanlab.

    python benchmarks/few_classes.py --data EMBEDDINGS.npz --labels NOISE.npz

Of the rows of DATA those whose true and given label are among a few classes, at most so many. DATA
and LABELS are those of ``clean.py``. Printed is, by number of classes and noise, the mean over the
sets of classes of the shares of labels right: given, after csot's correction, and after cleanlab's,
which changes what it flags to the likeliest class of a cross-validated linear probe; and means of
the F1 score of the flags and of the error of the noise rates. No constant was chosen on these sets
of classes.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from cleanlab.filter import find_label_issues
from rich.console import Console
from rich.progress import track
from rich.table import Table

import csot
from cleaning.cells import Data, load
from rivals.probe import cross_validate
from rivals.verdict import Floats, Labels, Mask

RESULTS = Path(__file__).parent / "results" / "few_classes.json"
CLASSES = ((0, 2), (2, 4), (5, 7), (1, 8), (0, 2, 8), (4, 5, 7), (1, 4, 6, 7, 8))
ROWS = (1000, 4000)
FLIPPED = 0.2
NOISES = ("none", f"sym{FLIPPED}", "idn-0.2", "idn-0.4", "pmd-0.35", "semantic-vgg")

Subset = tuple[Floats, Labels, Labels]


def subset(data: Data, classes: tuple[int, ...], noise: str, n_rows: int) -> Subset:
    """Features, given labels and true labels of rows that are of these classes by both."""
    truth, rng = data.train_labels, np.random.default_rng(0)
    given = data.files.get(noise, truth)
    rows = np.flatnonzero(np.isin(truth, classes) & np.isin(given, classes))
    rows = np.sort(rng.permutation(rows)[:n_rows])
    features, truth, given = data.train[rows], truth[rows], given[rows]
    truth, given = (np.searchsorted(classes, labels) for labels in (truth, given))
    if noise.startswith("sym"):
        flipped = rng.random(len(given)) < FLIPPED
        given[flipped] = rng.integers(0, len(classes), flipped.sum())
    return features, given, truth


def by_cleanlab(features: Floats, given: Labels, n_classes: int) -> tuple[Labels, Mask]:
    """Corrected labels and flags."""
    probs = cross_validate(features, given, n_classes, seed=0).probs
    flagged = find_label_issues(given, probs, n_jobs=1)
    return np.where(flagged, probs.argmax(1), given), flagged


def measured(features: Floats, given: Labels, truth: Labels, n_classes: int) -> dict[str, float]:
    cleaner = csot.LabelCleaner(progress=False).fit(features, given)
    ours = cleaner.findings_["corrected_label"].to_numpy()
    theirs, flagged = by_cleanlab(features, given, n_classes)
    low, high = cleaner.noise_rate_interval_
    wrong = given != truth
    return {
        "rows": len(truth),
        "given": float((given == truth).mean()),
        "csot": float((ours == truth).mean()),
        "cleanlab": float((theirs == truth).mean()),
        "f1": _f1(cleaner.findings_["is_label_issue"].to_numpy(), wrong),
        "cleanlab_f1": _f1(flagged, wrong),
        "rate": cleaner.noise_rate_,
        "cleanlab_rate": float(flagged.mean()),
        "inside": float(low <= wrong.mean() <= high),
    }


def _f1(flagged: Mask, wrong: Mask) -> float:
    return float(2 * (flagged & wrong).sum() / max(flagged.sum() + wrong.sum(), 1))


def cells(data: Data) -> Iterator[tuple[tuple[int, ...], str, int]]:
    for classes in CLASSES:
        for noise in NOISES:
            if noise in data.files or noise == "none" or noise.startswith("sym"):
                yield from ((classes, noise, n_rows) for n_rows in ROWS)


def table(found: dict[str, dict[str, float]]) -> Table:
    groups: dict[tuple[str, str], list[dict[str, float]]] = defaultdict(list)
    for key, record in found.items():
        classes, noise, _ = key.split(" ")
        groups[str(len(classes.split(","))), noise].append(record)
    shown = Table(
        "classes", "noise", "right: given, csot, cleanlab", "F1: csot, cleanlab",
        "error of the rate: csot, cleanlab", "truth in the interval",
    )  # fmt: skip
    for (count, noise), records in groups.items():
        mean = {name: float(np.mean([r[name] for r in records])) for name in records[0]}
        errors = (
            float(np.mean([abs(r[name] - 1 + r["given"]) for r in records]))
            for name in ("rate", "cleanlab_rate")
        )
        inside = sum(int(r["inside"]) for r in records)
        right = (mean[name] for name in ("given", "csot", "cleanlab"))
        flags = (mean[name] for name in ("f1", "cleanlab_f1"))
        shown.add_row(
            count, noise, _figures(right), _figures(flags), _figures(errors),
            f"{inside} of {len(records)}",
        )  # fmt: skip
    return shown


def _figures(values: Iterable[float]) -> str:
    return ", ".join(f"{value:.3f}" for value in values)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--labels", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    data = load(arguments.data, arguments.labels)
    found = {}
    for classes, noise, n_rows in track(list(cells(data)), "cells"):
        part = subset(data, classes, noise, n_rows)
        name = f"{','.join(map(str, classes))} {noise} {n_rows}"
        found[name] = measured(*part, len(classes))
    arguments.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    Console(width=120).print(table(found))
    ahead = sum(record["csot"] > record["cleanlab"] for record in found.values())
    level = sum(record["csot"] == record["cleanlab"] for record in found.values())
    print(f"csot ahead in {ahead} of {len(found)} cells, level in {level}; all in {arguments.out}")


if __name__ == "__main__":
    main()
