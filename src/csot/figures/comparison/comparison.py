"""A comparison of methods: its runs, tables of them, and settings that are varied."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from csot.figures.comparison.measured import run_record
from csot.figures.comparison.table_model import NOTHING
from csot.figures.latex import escape, group_heads
from csot.figures.records import read_history
from csot.figures.style import LIGHT, new_figure, plain
from csot.runs import Run
from csot.runs.summary import HELD_OUT

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARKERS = "os^Dv<>"
HEAD = ("setting", "method", "noise")


@dataclass(frozen=True)
class Change:
    """One value of a setting; equal where key and text are."""

    key: str
    """Key of the setting: `epsilon`, `training.epochs`."""
    text: str
    """The value, written in one way."""
    value: Any = field(compare=False, repr=False)
    method: str | None = None
    """The only method that it is for."""

    @classmethod
    def of(cls, key: str, value: Any, method: str | None = None) -> Change:
        is_float = isinstance(value, float)
        text = f"{value:g}" if is_float else value if isinstance(value, str) else json.dumps(value)
        return cls(key, text, value, method)

    def __str__(self) -> str:
        return f"{self.key.rpartition('.')[2]}={self.text}"

    @property
    def order(self) -> tuple[bool, float, str]:
        """Numbers in rising order, then texts."""
        is_number = isinstance(self.value, int | float) and not isinstance(self.value, bool)
        return not is_number, float(self.value) if is_number else 0.0, self.text


def sweep_table(
    table: pd.DataFrame, changes: Mapping[str, tuple[str, Change]], measures: Sequence[str]
) -> pd.DataFrame:
    """Rows of a comparison's table by setting, method, noise and rising value.

    `changes` has the method and the change behind each name that the table calls a method.
    """
    rows = []
    for row in table.to_dict("records"):
        if row["method"] not in changes:
            continue
        method, change = changes[str(row["method"])]
        means = {f"{m}_{part}": row[f"{m}_{part}"] for m in measures for part in ("mean", "sd")}
        head = {"setting": change.key, "method": method, "noise": row["noise"]}
        rows.append((change, {**head, "value": change.text, "seeds": row["seeds"], **means}))
    # Settings, methods and noises in the order in which they were given.
    groups = dict.fromkeys(tuple(row[name] for name in HEAD) for _, row in rows)
    places = {group: number for number, group in enumerate(groups)}
    rows.sort(key=lambda pair: (places[tuple(pair[1][name] for name in HEAD)], pair[0].order))
    return pd.DataFrame([row for _, row in rows])


def draw_sweep(sweep: pd.DataFrame, measure: str = "last") -> Figure:
    """A panel for each setting and method, a line for each noise: mean and deviation over seeds.

    Values are equally spaced, whatever their size.
    """
    groups = list(sweep.groupby(["setting", "method"], sort=False))
    figure = new_figure(1.6 + 2.6 * len(groups), 2.4)
    axes = figure.subplots(1, len(groups), squeeze=False)[0]
    for axis, ((setting, method), group) in zip(axes, groups, strict=True):
        _draw_setting(axis, group, measure)
        axis.set_title(str(method))
        axis.set_xlabel(str(setting))
    axes[0].set_ylabel("test accuracy, last epoch (%)")
    lines, names = axes[0].get_legend_handles_labels()
    figure.legend(lines, names, title="noise", loc="outside right upper", frameon=False)
    return figure


def _draw_setting(axis: Axes, group: pd.DataFrame, measure: str) -> None:
    values = list(dict.fromkeys(group["value"]))
    for number, (noise, rows) in enumerate(group.groupby("noise", sort=False)):
        axis.errorbar(
            [values.index(value) for value in rows["value"]],
            rows[f"{measure}_mean"],
            yerr=rows[f"{measure}_sd"].fillna(0.0),
            color=LIGHT.colour(number),
            marker=MARKERS[number % len(MARKERS)],
            capsize=2.5,
            label=str(noise),
        )
    axis.set_xticks(range(len(values)), values)
    axis.margins(x=0.08)
    plain(axis)


FACTS = (
    *("method", "noise", "seed", "data", "seconds", "epochs", "rows", "network", "batch_size"),
    *("selected_on", "hardware"),
)
"""Columns of the cells that are not accuracies."""
LEGEND = {
    "last": "at the last epoch",
    "peak": "the highest of all epochs, which papers call best",
    "best": "at the epoch that was best on {}",
    "top-5": "label among the five most probable classes, at the last epoch",
}


@dataclass(frozen=True)
class Comparison:
    """Finished cells: one row each with method, noise, seed, best, last, peak and seconds."""

    cells: pd.DataFrame
    histories: Mapping[tuple[str, str, int], pd.DataFrame]
    """metrics.csv by (method, noise, seed)."""
    places: Mapping[tuple[str, str, int], Path] = field(default_factory=dict)
    """The folder of each run."""
    changes: Mapping[str, tuple[str, Change]] = field(default_factory=dict)
    """Where a setting is varied: the method and the change that a name stands for."""

    @classmethod
    def read(
        cls,
        places: Mapping[tuple[str, str, int], Path],
        changes: Mapping[str, tuple[str, Change]] | None = None,
    ) -> Comparison:
        """From the folders of the cells."""
        rows, histories = [], {}
        for (method, noise, seed), place in places.items():
            record = run_record(Run.open(place).read_summary())
            rows.append({"method": method, "noise": noise, "seed": seed, **record})
            histories[method, noise, seed] = read_history(place)
        return cls(pd.DataFrame(rows), histories, dict(places), dict(changes or {}))

    @property
    def measures(self) -> list[str]:
        """Columns of the cells that hold accuracies: `last`, `top5_last`, `ilsvrc12_last` ..."""
        cells = self.cells
        return [str(c) for c in cells.columns if c not in FACTS and cells[c].notna().any()]

    def shown(self) -> dict[str, str]:
        """Titles of the columns of a table, and the measures that they show."""
        found: dict[str, str] = {
            name: name for name in ("last", "peak", "best") if name in self.measures
        }
        for measure in self.measures:
            test = measure.removesuffix("last").removesuffix("top5_").rstrip("_")
            if measure.endswith("last") and measure != "last":
                title = "top-5" if measure.endswith("top5_last") else ""
                found[f"{test} {title}".strip()] = measure
        return found

    def legend(self) -> dict[str, str]:
        """What the titles of `shown` mean, in words."""
        chosen = self.cells.get("selected_on", [HELD_OUT])
        sets = " or ".join(dict.fromkeys(name for name in chosen if name))
        return {title: LEGEND[title].format(sets) for title in self.shown() if title in LEGEND}

    def table(self) -> pd.DataFrame:
        """Mean and standard deviation over the seeds in per cent, by method and noise."""
        grouped = self.cells.groupby(["method", "noise"], sort=False)
        parts: dict[str, Any] = {"seeds": grouped["seed"].count()}
        for name in dict.fromkeys(["last", *self.measures]):
            values = (
                self.cells[name]
                .astype(float)
                .groupby([self.cells["method"], self.cells["noise"]], sort=False)
            )
            parts[f"{name}_mean"] = 100 * values.mean()
            parts[f"{name}_sd"] = 100 * values.std(ddof=1)
        parts["seconds_mean"] = grouped["seconds"].mean()
        return pd.DataFrame(parts).reset_index()

    def sweep(self) -> pd.DataFrame:
        """The rows of `table` by setting and rising value; empty where no setting is varied."""
        if not self.changes:
            return pd.DataFrame()
        return sweep_table(self.table(), self.changes, self.measures)

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
    """A booktabs table with the same columns for each noise; the best last accuracy is bold."""
    noises, shown = comparison.noises, comparison.shown()
    count = len(shown)
    lines = [
        rf"\begin{{tabular}}{{l{'c' * count * len(noises)}}}",
        r"\toprule",
        *group_heads([(noise, count) for noise in noises], 1),
        rf"Method & {' & '.join([escape(title) for title in shown] * len(noises))} \\",
        r"\midrule",
    ]
    winners = best_last(table)
    for method in comparison.methods:
        cells = []
        for noise in noises:
            row = find(table, method, noise)
            for name in shown.values():
                text = "--" if row is None else escape(cell_text(row, name))
                is_winner = name == "last" and winners.get(noise) == method
                cells.append(rf"\textbf{{{text}}}" if is_winner else text)
        lines.append(rf"{escape(method)} & {' & '.join(cells)} \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def best_last(table: pd.DataFrame) -> dict[str, str]:
    """The method of the highest last accuracy, by noise."""
    found = {}
    for noise, group in table.groupby("noise", sort=False):
        known = group.dropna(subset=["last_mean"])
        if len(known):
            found[str(noise)] = str(known["method"].iloc[int(known["last_mean"].argmax())])
    return found


def find(table: pd.DataFrame, method: str, noise: str) -> pd.Series[Any] | None:
    rows = table[(table["method"] == method) & (table["noise"] == noise)]
    return rows.iloc[0] if len(rows) else None


def rows_for(comparison: Comparison, noise: str) -> list[list[str]]:
    """Rows of one noise: method, measures, seconds; the highest last accuracy first."""
    names = list(comparison.shown().values())
    return [row_texts(row, names) for _, row in comparison.ranked(noise).iterrows()]


def row_texts(row: pd.Series[Any], names: list[str]) -> list[str]:
    """Method, accuracies and seconds of a row of the table."""
    cells = [cell_text(row, name) for name in names]
    return [row["method"], *cells, f"{row['seconds_mean']:.0f}"]
