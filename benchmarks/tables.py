"""Mixed tables: labels right after correction, by csot and by a hand-made pipeline.

Three tables made from data that comes with scikit-learn. Some measurements are written as grades
(a category), as days (a date), as money or as percentages; cells are missing; ids and postal codes
say nothing. Some labels are flipped. The same cleaner gets three kinds of features:

    numbers     the columns that pandas reads as numbers, mean for missing cells, standardised
    by hand     a ColumnTransformer by somebody who knows what every column is
    csot        what `csot clean table.csv --label kind` makes of the file

    python benchmarks/tables.py --seeds 3
"""

from __future__ import annotations

import argparse
import json
import platform
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import sklearn
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from csot import LabelCleaner
from csot.data import Columns, read_data

GRADES = np.array(["very low", "low", "medium", "high", "very high"])
GAPS = 0.05
FIRST_DAY = pd.Timestamp("2018-01-01")
Labels = npt.NDArray[Any]


@dataclass(frozen=True)
class Case:
    """Columns by what they become; all others stay numbers."""

    name: str
    load: Any
    noise: float
    columns: int
    """The first so many of the data; the rest is left out."""
    rows: int | None = None
    """So many at random, other ones for each seed; by default all."""


CASES = (
    Case("breast cancer", load_breast_cancer, 0.3, 12),
    Case("wine", load_wine, 0.2, 13),
    Case("digits", load_digits, 0.3, 64, rows=600),
)


@dataclass(frozen=True)
class Made:
    table: pd.DataFrame
    truth: Labels
    given: Labels
    categories: list[str]
    dates: list[str]
    amounts: list[str]
    numbers: list[str]


def make(case: Case, rng: np.random.Generator) -> Made:
    """Every third column is a category; one each is a date, money and a percentage."""
    values, target = case.load(return_X_y=True)
    if case.rows is not None:
        chosen = rng.permutation(len(values))[: case.rows]
        values, target = values[chosen], target[chosen]
    values = values[:, : case.columns]
    values = values[:, values.std(0) > 0]
    n, d = values.shape
    names = [f"m{k}" for k in range(d)]
    table = pd.DataFrame(index=range(n))
    categories, dates, amounts, numbers = names[0::3], names[1:2], names[2:6:3], []
    for k, name in enumerate(names):
        column = values[:, k]
        ranks = pd.Series(column).rank(pct=True).to_numpy()
        if name in categories:
            table[name] = GRADES[np.minimum((ranks * 5).astype(int), 4)]
        elif name in dates:
            table[name] = (
                FIRST_DAY + pd.to_timedelta((ranks * 900).astype(int), unit="D")
            ).strftime("%d/%m/%Y")
        elif name == amounts[0]:
            table[name] = [f"€{cell:,.2f}" for cell in column * 100]
        elif name in amounts:
            table[name] = [f"{cell:.1f} %" for cell in 100 * ranks]
        else:
            table[name] = column.round(6).astype(str)
            numbers.append(name)
    table = table.mask(rng.random((n, d)) < GAPS, "")
    table["zip"] = [f"{code:05d}" for code in rng.integers(1000, 99999, n)]
    table["customer_id"] = rng.permutation(10 * n)[:n]
    classes = len(np.unique(target))
    other = (target + rng.integers(1, classes, n)) % classes
    given = np.where(rng.random(n) < case.noise, other, target)
    return Made(table, target, given, categories, dates, amounts, numbers)


def only_numbers(made: Made) -> npt.NDArray[np.float64]:
    """With `zip` and the id, which look like numbers."""
    names = [*made.numbers, "zip", "customer_id"]
    values = made.table[names].apply(pd.to_numeric, errors="coerce")
    steps = make_pipeline(SimpleImputer(), StandardScaler())
    return np.asarray(steps.fit_transform(values))


def by_hand(made: Made) -> npt.NDArray[np.float64]:
    table = made.table.copy()
    for name in made.dates:
        days = pd.to_datetime(table[name], format="%d/%m/%Y", errors="coerce")
        table[name] = (days - FIRST_DAY).dt.days
    for name in made.amounts:
        table[name] = table[name].str.replace(r"[€,% ]", "", regex=True)
    numbers = [*made.numbers, *made.amounts, *made.dates]
    table[numbers] = table[numbers].apply(pd.to_numeric, errors="coerce")
    scaled = make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler())
    words = OneHotEncoder(
        min_frequency=5, handle_unknown="infrequent_if_exist", sparse_output=False
    )
    parts = [("numbers", scaled, numbers), ("words", words, made.categories)]
    return np.asarray(ColumnTransformer(parts).fit_transform(table))


def by_csot(made: Made, folder: Path) -> npt.NDArray[np.float64]:
    path = folder / "table.csv"
    made.table.assign(kind=made.given).to_csv(path, index=False)
    data = read_data(path, Columns(label="kind"))
    assert data.table_features is not None
    assert data.features is not None
    return data.table_features.scale(data.features)


def right_after(features: npt.NDArray[np.float64], made: Made, seed: int) -> float:
    cleaner = LabelCleaner(random_state=seed, progress=False).fit(features, made.given)
    return float((cleaner.findings_["corrected_label"].to_numpy() == made.truth).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, help="JSON of all numbers")
    args = parser.parse_args()
    print(f"scikit-learn {sklearn.__version__}, {platform.machine()}; {args.seeds} seeds")
    heads = ("given", "numbers", "by hand", "csot")
    print(f"{'labels right, mean (deviation)':32}" + "".join(f"{head:>16}" for head in heads))
    results: dict[str, dict[str, list[float]]] = {}
    for case in CASES:
        found: dict[str, list[float]] = {head: [] for head in heads}
        for seed in range(args.seeds):
            made = make(case, np.random.default_rng(seed))
            with tempfile.TemporaryDirectory() as folder:
                ours = by_csot(made, Path(folder))
            found["given"].append(float((made.given == made.truth).mean()))
            found["numbers"].append(right_after(only_numbers(made), made, seed))
            found["by hand"].append(right_after(by_hand(made), made, seed))
            found["csot"].append(right_after(ours, made, seed))
        shown = [f"{np.mean(one):.3f} ({np.std(one):.3f})" for one in found.values()]
        print(f"{case.name:32}" + "".join(f"{one:>16}" for one in shown), flush=True)
        results[case.name] = found
    if args.out is not None:
        args.out.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
