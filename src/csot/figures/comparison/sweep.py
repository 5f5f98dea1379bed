"""A setting that is varied: accuracy over its values, as a table, a picture and a curve."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pandas as pd

from csot.figures.style import LIGHT, new_figure, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARKERS = "os^Dv<>"
HEAD = ("setting", "method", "noise")


@dataclass(frozen=True)
class Change:
    """One value of a setting; equal where key and text are."""

    key: str
    """Of the setting: `epsilon`, `training.epochs`."""
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
