"""The same tables for the terminal and for a page of the documentation."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console
from rich.table import Table as RichTable

from cleaning.goals import GOALS, check, tally
from cleaning.measures import Record
from rivals.judge import NAMES

MEASURES = {
    "ap": "Average precision of the score",
    "f1": "F1 of the flags",
    "precision": "Precision of the flags",
    "recall": "Recall of the flags",
    "right": "Share of labels right after correction",
    "changed": "Share of labels changed",
    "noise_rate": "Estimated noise rate",
    "accuracy": "Test accuracy",
    "seconds": "Seconds",
}


@dataclass(frozen=True)
class Table:
    title: str
    header: list[str]
    rows: list[list[str]]

    def markdown(self) -> str:
        lines = [f"**{self.title}**", "", _line(self.header), _line(["---"] * len(self.header))]
        return "\n".join([*lines, *map(_line, self.rows)]) + "\n"

    def show(self, console: Console) -> None:
        table = RichTable(title=self.title, title_justify="left")
        for position, column in enumerate(self.header):
            table.add_column(column, justify="right" if position else "left")
        for row in self.rows:
            table.add_row(*row)
        console.print(table)


def _line(entries: list[str]) -> str:
    return "| " + " | ".join(entries) + " |"


def _figure(value: float | None, measure: str) -> str:
    if value is None:
        return ""
    return f"{value:.1f}" if measure == "seconds" else f"{value:.3f}"


def measure_tables(
    records: list[tuple[Record | None, Record | None]], measures: list[str]
) -> list[Table]:
    """One table for each kind of features and measure: a row per cell, means over seeds."""
    tables = []
    for space in _in_order(_about(pair)["features"] for pair in records):
        here = [pair for pair in records if _about(pair)["features"] == space]
        for measure in measures:
            rows = [_measure_row(here, cell, measure) for cell in
                    _in_order(_about(pair)["cell"] for pair in here)]  # fmt: skip
            used = [i for i in range(len(rows[0])) if i < 2 or any(row[i] for row in rows)]
            if len(used) == 2:  # no method has this measure here
                continue
            header = ["cell", "wrong", "csot", *NAMES]
            tables.append(
                Table(
                    f"{MEASURES[measure]}, {space}",
                    [header[i] for i in used],
                    [[row[i] for i in used] for row in rows],
                )
            )
    return tables


def _measure_row(
    records: list[tuple[Record | None, Record | None]], cell: str, measure: str
) -> list[str]:
    here = [pair for pair in records if _about(pair)["cell"] == cell]
    wrong = _mean([_about(pair)["true_rate"] for pair in here])
    ours = _mean([own["csot"][measure] for own, _ in here if own is not None])
    row = [cell, _figure(wrong, "true_rate"), _figure(ours, measure)]
    for name in NAMES:
        values = [r["rivals"][name][measure] for _, r in here if r and name in r["rivals"]]
        row.append(_figure(_mean(values), measure))
    return row


def goal_table(records: list[tuple[Record, Record | None, Record | None]]) -> Table:
    """csot / rival or bound, for each record of csot with its rivals' and baseline's."""
    checks = [check(own, (r or {}).get("rivals", {}), base) for own, r, base in records]
    rows = [
        [f"{own['cell']} {own['features']} {own['seed']}", *map(str, line)]
        for (own, _, _), line in zip(records, checks, strict=True)
    ]
    rows.append(["all", *map(str, tally(checks))])
    used = [0, *(i for i in range(1, len(rows[0])) if any(row[i] for row in rows[:-1]))]
    header = ["cell", *GOALS]
    return Table("Goals", [header[i] for i in used], [[row[i] for i in used] for row in rows])


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _about(pair: tuple[Record | None, Record | None]) -> Record:
    record = pair[0] or pair[1]
    assert record is not None
    return record


def _in_order(values: object) -> list[str]:
    return list(dict.fromkeys(values))  # type: ignore[call-overload]
