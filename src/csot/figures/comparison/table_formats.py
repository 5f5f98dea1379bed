"""A table of results as plain text, CSV, LaTeX or a page of HTML."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby

from jinja2 import Environment, PackageLoader, StrictUndefined

from csot.figures.comparison.table_model import MEASURED, ResultTable, Row
from csot.figures.latex import escape, group_heads, notes_below

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
