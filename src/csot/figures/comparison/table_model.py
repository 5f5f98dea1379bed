"""A table of results, and the table as plain text, CSV, LaTeX or a page of HTML.

A row has one source; a measured figure has a note on its scale and hardware.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import groupby

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined

from csot.figures.latex import escape, group_heads, notes_below

PAPER, MEASURED = "paper", "measured"
EPOCHS = {
    "peak": "highest of all epochs, which papers call best",
    "last": "last epoch",
    "best": "epoch that was best on noisy held-out labels, or on the set that a note names",
    "reported": "as printed; the paper does not say which epoch",
}


@dataclass(frozen=True)
class Layout:
    """Which runs a table shows, and which figures of them."""

    title: str
    data: str | None = None
    """Only runs on this data."""
    only_csot: bool = False
    """Only CSOT and its ablations, with the mean of all columns."""
    tests: tuple[str, ...] = ("",)
    metrics: tuple[str, ...] = ("top1",)
    printed: str = "printed in the CSOT paper, which copied most rivals' figures from theirs"
    """Where the paper's rows come from."""


LAYOUTS = {
    "main": Layout(
        "Test accuracy in per cent",
        printed="printed in the CSOT paper, which copied rivals' figures from others; for CSOT "
        "three trials, and what it calls mean ± variance",
    ),
    "webvision": Layout(
        "Top-1 and top-5 test accuracy in per cent, trained on WebVision",
        data="webvision",
        tests=("webvision", "ilsvrc12"),
        metrics=("top1", "top5"),
    ),
    "clothing1m": Layout("Test accuracy in per cent on Clothing1M", data="clothing1m"),
    "ablations": Layout("Ablations of CSOT: test accuracy in per cent", only_csot=True),
    "hours": Layout(
        "Total training time in hours",
        metrics=("hours",),
        printed="printed in the CSOT paper, on one NVIDIA A100",
    ),
}


@dataclass(frozen=True)
class Column:
    data: str
    noise: str
    test: str = ""
    metric: str = "top1"

    @property
    def header(self) -> tuple[str, str]:
        """Two lines: data set, and noise or metric."""
        if self.metric == "hours":
            return self.data, "hours"
        if self.test:
            return self.test, {"top1": "top-1", "top5": "top-5"}[self.metric]
        return self.data, "" if self.noise == "none" else self.noise


MEAN = Column("mean", "")


@dataclass(frozen=True)
class Figure:
    """One cell."""

    value: float
    deviation: float | None = None
    digits: int = 2
    note: str = ""
    """Letter of the note; empty for the paper's figures."""

    def text(self, plus_minus: str = "±") -> str:
        shown = f"{self.value:.{self.digits}f}"
        return shown if self.deviation is None else f"{shown} {plus_minus} {self.deviation:.2f}"


@dataclass(frozen=True)
class Note:
    """What a number was measured on."""

    scale: str
    seeds: tuple[int, ...]
    hardware: str

    def text(self) -> str:
        seeds = ", ".join(map(str, self.seeds))
        many = "s" if len(self.seeds) > 1 else ""
        return f"{self.scale}; seed{many} {seeds}; {self.hardware or 'hardware not recorded'}"


@dataclass(frozen=True)
class Row:
    label: str
    method: str
    source: str
    epoch: str
    figures: dict[Column, Figure]


@dataclass(frozen=True)
class ResultTable:
    layout: Layout
    columns: list[Column]
    rows: list[Row]
    notes: dict[str, Note] = field(default_factory=dict)
    """Notes by letter."""
    remarks: list[str] = field(default_factory=list)

    @property
    def title(self) -> str:
        return self.layout.title

    def legend(self) -> list[str]:
        """Lines to print below: what epochs, sources and letters mean."""
        epochs = [name for name in EPOCHS if any(row.epoch == name for row in self.rows)]
        lines = [f"{name}: {EPOCHS[name]}" for name in epochs]
        if any(row.source == PAPER for row in self.rows):
            lines.append(f"paper: {self.layout.printed}")
        lines += [f"{letter}: measured, {note.text()}" for letter, note in self.notes.items()]
        return lines + self.remarks

    def tidy(self) -> pd.DataFrame:
        """One row per figure."""
        rows = []
        for row in self.rows:
            for column, figure in row.figures.items():
                note = self.notes.get(figure.note)
                rows.append(
                    {
                        "method": row.method,
                        "label": row.label,
                        "source": row.source,
                        "epoch": row.epoch,
                        "data": column.data,
                        "noise": column.noise,
                        "test": column.test,
                        "metric": column.metric,
                        "value": round(figure.value, 4),
                        "deviation": figure.deviation,
                        "scale": "" if note is None else note.scale,
                        "seeds": "" if note is None else " ".join(map(str, note.seeds)),
                        "hardware": "" if note is None else note.hardware,
                    }
                )
        return pd.DataFrame(rows)


NOTHING = "-"


def row_heads(table: ResultTable) -> list[str]:
    """Titles of the columns before the figures; the epoch only where rows have one."""
    has_epochs = any(row.epoch for row in table.rows)
    return ["method", *(["epoch"] if has_epochs else []), "source"]


def _head_cells(row: Row, heads: list[str]) -> list[str]:
    values = {"method": row.label, "epoch": row.epoch, "source": row.source}
    return [values[name] for name in heads]


def as_text(table: ResultTable) -> str:
    """Aligned columns, two lines of titles, the legend below."""
    heads = row_heads(table)
    lines = [
        [""] * len(heads) + [column.header[0] for column in table.columns],
        heads + [column.header[1] for column in table.columns],
    ]
    for row in table.rows:
        cells = []
        for column in table.columns:
            figure = row.figures.get(column)
            mark = f" {figure.note}" if figure is not None and figure.note else ""
            cells.append(NOTHING if figure is None else figure.text() + mark)
        lines.append(_head_cells(row, heads) + cells)
    drawn = align(lines, len(heads))
    return "\n".join([table.title, "", *drawn, "", *table.legend(), ""])


def align(lines: list[list[str]], left: int = 1) -> list[str]:
    """Cells in columns as wide as they need; the first `left` columns start at the left."""
    widths = [max(len(line[n]) for line in lines) for n in range(len(lines[0]))]
    return [
        "  ".join(
            cell.ljust(width) if n < left else cell.rjust(width)
            for n, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]


def as_csv(table: ResultTable) -> str:
    """One line per figure, with its source, scale, seeds and hardware."""
    return table.tidy().to_csv(index=False, lineterminator="\n")


def as_latex(table: ResultTable) -> str:
    """A booktabs table; the paper's rows are slanted, letters refer to the notes below."""
    heads = row_heads(table)
    groups = [
        (name, len(list(members)))
        for name, members in groupby(column.header[0] for column in table.columns)
    ]
    names = [escape(name) for name in heads] + [escape(c.header[1]) for c in table.columns]
    lines = [
        "% " + table.title,
        rf"\begin{{tabular}}{{{'l' * len(heads)}{'r' * len(table.columns)}}}",
        r"\toprule",
        *group_heads(groups, len(heads)),
        rf"{' & '.join(names)} \\",
        r"\midrule",
    ]
    for row in table.rows:
        cells = [escape(cell) for cell in _head_cells(row, heads)]
        for column in table.columns:
            figure = row.figures.get(column)
            # Letters stand beside the column, so that the digits stay below each other.
            mark = rf"\rlap{{$^{{{figure.note}}}$}}" if figure is not None and figure.note else ""
            cells.append("--" if figure is None else figure.text(r"$\pm$") + mark)
        if row.source != MEASURED:
            cells = [rf"\textsl{{{cell}}}" for cell in cells]
        lines.append(rf"{' & '.join(cells)} \\")
    notes = notes_below([escape(note) for note in table.legend()])
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", *notes, ""])


def as_html(table: ResultTable) -> str:
    """A page that needs no other file."""
    return page_environment().get_template("table.html").render(table=table, heads=row_heads(table))


def page_environment() -> Environment:
    """The templates of this package; text is escaped."""
    return Environment(
        loader=PackageLoader("csot.figures"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


FORMATS: dict[str, Callable[[ResultTable], str]] = {
    "text": as_text,
    "csv": as_csv,
    "latex": as_latex,
    "html": as_html,
}
