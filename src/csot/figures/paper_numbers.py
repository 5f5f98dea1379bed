"""The numbers that the paper printed: paper.csv, a row for each.

`label` is the paper's name of a method and `method` ours. Two names differ on purpose: the paper's
"ELR" on CIFAR is ELR+, and of its two rows "ELR+" on Clothing1M the first is ELR.
`epoch` is `peak` for CSOT's "best" and `reported` where the paper does not say which epoch it is.
"""

from __future__ import annotations

from functools import cache
from importlib import resources

import pandas as pd


@cache
def _paper() -> pd.DataFrame:
    with (resources.files("csot.figures") / "paper.csv").open(encoding="utf-8") as file:
        return pd.read_csv(file, dtype=str, keep_default_na=False)


def paper_table(name: str) -> pd.DataFrame:
    """Rows of one table: main, webvision, clothing1m, ablations, hours or solver.

    All columns are text, so that a value has the digits that were printed.
    """
    frame = _paper()
    known = list(dict.fromkeys(frame["table"]))
    if name not in known:
        raise ValueError(f"`name` is {name!r}; the paper's tables are {', '.join(known)}")
    return frame[frame["table"] == name].drop(columns="table").reset_index(drop=True)


def paper_hours() -> dict[str, float]:
    """Hours of training on CIFAR-10 on an A100, by method."""
    table = paper_table("hours")
    return dict(zip(table["method"], table["value"].astype(float), strict=True))


def paper_solver_seconds() -> dict[tuple[int, int], tuple[float, float]]:
    """Seconds of VDA and ESI by (N, C), on an A100."""
    table = paper_table("solver").pivot(index="label", columns="method", values="value")
    found = {}
    for label in dict.fromkeys(paper_table("solver")["label"]):
        rows, classes = (int(number) for number in label.strip("()").split(","))
        found[rows, classes] = (float(table["vda"][label]), float(table["esi"][label]))
    return found
