"""A comparison as a table and curves: CSV, LaTeX, PNG and one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from matplotlib.figure import Figure
import base64
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from csot._core.atomic import atomic_write, write_text
from csot.figures.history import read_history
from csot.runs import Run
from csot.runs.tables import write_csv

CURVES = {
    "test_accuracy": "Test accuracy",
    "clean_accuracy": "Clean accuracy: right labels among those trusted",
    "corrected_accuracy": "Corrected accuracy: right labels among those replaced",
    "clean_recall": "Clean recall: share of the right labels that are trusted",
}


def draw_curves(
    histories: Mapping[tuple[str, str, int], pd.DataFrame], column: str, title: str
) -> Figure | None:
    """Mean over the seeds with the range behind it; None where no run measured it."""
    from matplotlib import colormaps
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    shown = {key: frame for key, frame in histories.items() if column in frame}
    if not shown:
        return None
    noises = list(dict.fromkeys(noise for _, noise, _ in shown))
    # A method has the same colour in every figure, shown there or not.
    methods = list(dict.fromkeys(method for method, _, _ in histories))
    colours = colormaps["tab10" if len(methods) <= 10 else "tab20"]
    figure = Figure(figsize=(4.2 * len(noises) + 2.2, 3.6), layout="constrained")
    panels = np.atleast_1d(figure.subplots(1, len(noises), sharey=True))
    for panel, noise in zip(panels, noises, strict=True):
        for number, method in enumerate(methods):
            runs = [f for (m, n, _), f in shown.items() if (m, n) == (method, noise)]
            if not runs:
                continue
            joined = pd.concat([run.set_index("epoch")[column] for run in runs], axis=1)
            joined = 100 * joined.dropna(how="all")
            colour = colours(number)
            panel.plot(joined.index, joined.mean(axis=1), color=colour, label=method, lw=1.6)
            if len(runs) > 1:
                panel.fill_between(
                    joined.index, joined.min(axis=1), joined.max(axis=1), color=colour, alpha=0.15
                )
        panel.set_title(noise)
        panel.set_xlabel("epoch")
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        panel.grid(alpha=0.3)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("per cent")
    figure.suptitle(title)
    lines = {line.get_label(): line for panel in panels for line in panel.get_lines()}
    figure.legend(list(lines.values()), list(lines), loc="outside right upper", frameon=False)
    return figure


# A comparison as a table and curves: CSV, LaTeX, PNG and one self-contained HTML page.

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
        return cls(pd.DataFrame(rows), histories)

    def table(self) -> pd.DataFrame:
        """By method and noise: mean and standard deviation over the seeds, in per cent."""
        grouped = self.cells.groupby(["method", "noise"], sort=False)
        parts: dict[str, Any] = {"seeds": grouped["seed"].count()}
        for name in MEASURES:
            parts[f"{name}_mean"] = 100 * grouped[name].mean()
            parts[f"{name}_sd"] = 100 * grouped[name].std(ddof=1)
        parts["seconds_mean"] = grouped["seconds"].mean()
        return pd.DataFrame(parts).reset_index()

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


def write_comparison(comparison: Comparison, out: Path, command: str) -> list[Path]:
    """cells.csv, table.csv, table.tex, one PNG for each curve, compare.html."""
    table = comparison.table()
    write_csv(out / "cells.csv", comparison.cells)
    write_csv(out / "table.csv", table)
    write_text(out / "table.tex", latex(table, comparison))
    pictures: dict[str, bytes] = {}
    for name, title in CURVES.items():
        figure = draw_curves(comparison.histories, name, title)
        if figure is None:
            continue
        buffer = BytesIO()
        figure.savefig(buffer, format="png", dpi=110)
        pictures[title] = buffer.getvalue()
        with atomic_write(out / f"{name}.png") as file:
            file.write(buffer.getvalue())
    write_text(out / "compare.html", page(comparison, table, pictures, command))
    names = ["cells.csv", "table.csv", "table.tex", "compare.html"]
    return [out / name for name in names]


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


def page(
    comparison: Comparison, table: pd.DataFrame, pictures: Mapping[str, bytes], command: str
) -> str:
    winners = best_last(table)
    rows = [
        (method, [_shown(find(table, method, noise), winners) for noise in comparison.noises])
        for method in comparison.methods
    ]
    environment = Environment(
        loader=PackageLoader("csot.figures"), autoescape=True, undefined=StrictUndefined
    )
    images = {title: base64.b64encode(data).decode("ascii") for title, data in pictures.items()}
    return environment.get_template("compare.html").render(
        noises=comparison.noises,
        rows=rows,
        images=images,
        command=command,
        seeds=sorted(set(comparison.cells["seed"])),
    )


def _shown(row: pd.Series[Any] | None, winners: Mapping[str, str]) -> dict[str, Any]:
    if row is None:
        return {"best": NOTHING, "last": NOTHING, "seconds": NOTHING, "wins": False}
    return {
        "best": cell_text(row, "best"),
        "last": cell_text(row, "last"),
        "seconds": _seconds(row),
        "wins": winners.get(row["noise"]) == row["method"],
    }


def _escape(text: str) -> str:
    return text.replace("_", r"\_").replace("%", r"\%")


def rows_for(comparison: Comparison, noise: str) -> list[list[str]]:
    """Of one noise: method, best, last and seconds, the highest last accuracy first."""
    table = comparison.table()
    ranked = table[table["noise"] == noise].sort_values("last_mean", ascending=False, kind="stable")
    return [
        [row["method"], *(cell_text(row, name) for name in ("best", "last")), _seconds(row)]
        for _, row in ranked.iterrows()
    ]


def _seconds(row: pd.Series[Any]) -> str:
    return f"{row['seconds_mean']:.0f}"
