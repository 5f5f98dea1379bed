"""A comparison of methods: its runs, and tables of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from csot.figures.history import read_history
from csot.runs import Run

MEASURES = {
    "best": "test_accuracy_best",
    "last": "test_accuracy_last",
    "peak": "test_accuracy_peak",
}


NOTHING = "-"


@dataclass(frozen=True)
class Comparison:
    """Finished cells: one row each with method, noise, seed, best, last, peak and seconds."""

    cells: pd.DataFrame
    histories: Mapping[tuple[str, str, int], pd.DataFrame]
    """metrics.csv by (method, noise, seed)."""
    places: Mapping[tuple[str, str, int], Path] = field(default_factory=dict)
    """The folder of each run."""

    @classmethod
    def read(cls, places: Mapping[tuple[str, str, int], Path]) -> Comparison:
        """From the folders of the cells."""
        rows, histories = [], {}
        for (method, noise, seed), place in places.items():
            summary = Run.open(place).read_summary()
            row: dict[str, Any] = {"method": method, "noise": noise, "seed": seed}
            row |= {name: summary.get(key) for name, key in MEASURES.items()}
            rows.append({**row, **{name: summary.get(name) for name in ("seconds", "epochs")}})
            histories[method, noise, seed] = read_history(place)
        return cls(pd.DataFrame(rows), histories, dict(places))

    def table(self) -> pd.DataFrame:
        """By method and noise: mean and standard deviation over the seeds, in per cent."""
        grouped = self.cells.groupby(["method", "noise"], sort=False)
        parts: dict[str, Any] = {"seeds": grouped["seed"].count()}
        for name in MEASURES:
            parts[f"{name}_mean"] = 100 * grouped[name].mean()
            parts[f"{name}_sd"] = 100 * grouped[name].std(ddof=1)
        parts["seconds_mean"] = grouped["seconds"].mean()
        return pd.DataFrame(parts).reset_index()

    def ranked(self, noise: str) -> pd.DataFrame:
        """The rows of `table` of one noise, the highest last accuracy first."""
        table = self.table()
        rows = table[table["noise"] == noise]
        return rows.sort_values("last_mean", ascending=False, kind="stable")

    @property
    def methods(self) -> list[str]:
        return list(dict.fromkeys(self.cells["method"]))

    @property
    def noises(self) -> list[str]:
        return list(dict.fromkeys(self.cells["noise"]))


def cell_text(row: pd.Series[Any], name: str) -> str:
    """`98.3 ± 0.4`; without a deviation where there is one seed."""
    mean, deviation = row[f"{name}_mean"], row[f"{name}_sd"]
    if pd.isna(mean):
        return NOTHING
    return f"{mean:.2f}" if pd.isna(deviation) else f"{mean:.2f} ± {deviation:.2f}"


def latex(table: pd.DataFrame, comparison: Comparison) -> str:
    """A booktabs table: a column of best and one of last for each noise; the best last is bold."""
    noises = comparison.noises
    head = " & ".join(rf"\multicolumn{{2}}{{c}}{{{_escape(noise)}}}" for noise in noises)
    lines = [
        rf"\begin{{tabular}}{{l{'cc' * len(noises)}}}",
        r"\toprule",
        rf"Method & {head} \\",
        rf" & {' & '.join(['best', 'last'] * len(noises))} \\",
        r"\midrule",
    ]
    winners = best_last(table)
    for method in comparison.methods:
        cells = []
        for noise in noises:
            row = find(table, method, noise)
            for name in ("best", "last"):
                text = "--" if row is None else cell_text(row, name).replace("±", r"$\pm$")
                is_winner = name == "last" and winners.get(noise) == method
                cells.append(rf"\textbf{{{text}}}" if is_winner else text)
        lines.append(rf"{_escape(method)} & {' & '.join(cells)} \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def best_last(table: pd.DataFrame) -> dict[str, str]:
    """By noise, the method of the highest last accuracy."""
    found = {}
    for noise, group in table.groupby("noise", sort=False):
        known = group.dropna(subset=["last_mean"])
        if len(known):
            found[str(noise)] = str(known["method"].iloc[int(known["last_mean"].argmax())])
    return found


def find(table: pd.DataFrame, method: str, noise: str) -> pd.Series[Any] | None:
    rows = table[(table["method"] == method) & (table["noise"] == noise)]
    return rows.iloc[0] if len(rows) else None


def _escape(text: str) -> str:
    return text.replace("_", r"\_").replace("%", r"\%")


def rows_for(comparison: Comparison, noise: str) -> list[list[str]]:
    """Of one noise: method, best, last and seconds, the highest last accuracy first."""
    return [row_texts(row) for _, row in comparison.ranked(noise).iterrows()]


def row_texts(row: pd.Series[Any]) -> list[str]:
    """Method, best, last and seconds of a row of the table."""
    cells = [cell_text(row, name) for name in ("best", "last")]
    return [row["method"], *cells, f"{row['seconds_mean']:.0f}"]
