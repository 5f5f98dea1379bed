"""Tables of docs/benchmarks-cleaning.md, from the stored results of ``clean.py`` and others.

    python benchmarks/page.py

A test compares them with the page, so that it shows what was measured.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from cleaning.measures import Record
from few_classes import table as few_classes_table
from rivals.judge import BY_PROBE, NAMES

RESULTS = Path(__file__).parent / "results"
SMALL, WHOLE = "10,000 rows", "50,000 rows"
SPACES = {"embeddings": "embeddings", "pca32": "pca32", "probs": "probabilities alone"}

Cells = dict[str, Record]


def cells_of(space: str, size: str, seed: int = 0) -> list[tuple[Record, Record]]:
    """Records of csot and of the rivals, in the order of the file."""
    ours, theirs = (_stored(name) for name in ("clean", "clean_rivals"))
    found = []
    for key, record in ours.items():
        is_whole = record["rows"] > 10_000
        wanted = record["features"] == space and record["seed"] == seed
        if wanted and is_whole == (size == WHOLE):
            found.append((record, theirs[key]))
    return found


def _stored(name: str) -> Cells:
    cells: Cells = json.loads((RESULTS / f"{name}.json").read_text("utf-8"))["cells"]
    return cells


def comparison(space: str, size: str) -> str:
    """One table: ranking, flags, corrections, predictions and noise rate of each cell."""
    names = NAMES if size == SMALL else BY_PROBE
    predicts = space != "probs"
    header = ["noise", "average precision: csot, best rival", "F1: csot, cleanlab",
              "labels right: given, csot, cleanlab", "test accuracy: csot, best rival",
              "noise rate: true, csot, interval"]  # fmt: skip
    rows = []
    for record, rival in cells_of(space, size):
        ours, cleanlab = record["csot"], rival["rivals"]["cleanlab"]
        best = {
            measure: max(
                (r[measure] for name, r in rival["rivals"].items()
                 if name in names and r[measure] is not None),
                default=None,
            )
            for measure in ("ap", "accuracy")
        }  # fmt: skip
        low, high = ours["noise_rate_interval"]
        cells = [
            record["cell"],
            _figures(ours["ap"], best["ap"]),
            _figures(ours["f1"], cleanlab["f1"]),
            _figures(1 - record["true_rate"], ours["right"], cleanlab["right"]),
            _figures(ours["accuracy"], best["accuracy"]),
            f"{_figures(record['true_rate'], ours['noise_rate'])}, {low:.2f} to {high:.2f}",
        ]
        rows.append([cell for i, cell in enumerate(cells) if predicts or i != 4])
    return _table([name for i, name in enumerate(header) if predicts or i != 4], rows)


def three_seeds() -> str:
    """Labels right, mean and deviation of the seeds 0, 1 and 2, by kind of features."""
    header = ["noise", *(f"{name}: csot, cleanlab" for name in SPACES.values())]
    rows = []
    for name in (record["cell"] for record, _ in cells_of("embeddings", SMALL)):
        row = [name]
        for space in SPACES:
            pairs = [
                (record["csot"]["right"], rival["rivals"]["cleanlab"]["right"])
                for seed in (0, 1, 2)
                for record, rival in cells_of(space, SMALL, seed)
                if record["cell"] == name
            ]
            mean, deviation = np.mean(pairs, 0), np.std(pairs, 0, ddof=1)
            row.append(
                ", ".join(f"{m:.3f} ± {d:.3f}" for m, d in zip(mean, deviation, strict=True))
            )
        rows.append(row)
    return _table(header, rows)


def verified_rows(space: str) -> str:
    """Labels right by number of verified rows, beside the best power of the prototype."""
    rows, counts = [], []
    for record, _ in cells_of(space, SMALL):
        ours = record["csot"]
        counts = [str(point["verified"]) for point in ours["curve"]]
        shares = [ours["prototype_right"], *(point["right"] for point in ours["curve"])]
        rows.append([record["cell"], *(f"{share:.3f}" for share in shares)])
    return _table(["noise", "best power", *counts], rows)


def few_classes() -> str:
    """Means over sets of a few classes, as ``few_classes.py`` prints them."""
    shown = few_classes_table(json.loads((RESULTS / "few_classes.json").read_text("utf-8")))
    columns = [[str(cell) for cell in column.cells] for column in shown.columns]
    header = [str(column.header) for column in shown.columns]
    return _table(header, [list(row) for row in zip(*columns, strict=True)])


def _figures(*values: float | None) -> str:
    return ", ".join(f"{value:.3f}" for value in values if value is not None)


def _table(header: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(line) + " |" for line in (header, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(header), *lines[1:]])


def tables() -> dict[str, str]:
    """All tables of the page, by what they show."""
    compared = {
        f"{SPACES[space]}, {size}": comparison(space, size)
        for size in (SMALL, WHOLE)
        for space in SPACES
    }
    verified = {f"verified rows, {SPACES[s]}": verified_rows(s) for s in ("embeddings", "probs")}
    others = {"three seeds": three_seeds(), "few classes": few_classes()}
    return {**compared, **others, **verified}


def main() -> None:
    for title, table in tables().items():
        print(f"{title}\n\n{table}\n")


if __name__ == "__main__":
    main()
