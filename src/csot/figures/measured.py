"""What a finished run measured, as one row: accuracies, time, and on what it was measured."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from csot._core.errors import naming
from csot._core.files import check_file
from csot._core.noise_text import canonical_noise
from csot.runs import Run
from csot.runs.accuracies import FURTHER

EPOCHS = ("best", "last", "peak")
"""At the epoch that held-out labels chose, at the last one, and the highest of all."""
CELLS = "cells.csv"
LARGEST = 64 << 20
"""Bytes of cells.csv; a run has some 300."""


def run_record(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Accuracies of a summary by column: `last`, `top5_last`, `ilsvrc12_last` ...

    `best` is missing where no rows were held out: it would be the last epoch under another name.
    """
    held = summary.get("held_out") is not None
    sources = {"": ("test_accuracy", summary), "top5_": ("test_top5", summary)}
    for test, values in (summary.get(FURTHER) or {}).items():
        sources |= {f"{test}_": ("accuracy", values), f"{test}_top5_": ("top5", values)}
    record: dict[str, Any] = {}
    for prefix, (key, values) in sources.items():
        for epoch in EPOCHS:
            value = values.get(f"{key}_{epoch}") if held or epoch != "best" else None
            if prefix in ("", "top5_") or value is not None:
                record[prefix + epoch] = value
    settings = summary.get("settings") or {}
    training = settings.get("training") or {}
    return {
        "data": Path(str(settings.get("data", ""))).name,
        **record,
        "seconds": summary.get("seconds"),
        "epochs": summary.get("epochs"),
        "rows": summary.get("n_rows"),
        "network": _network(training.get("network") or {}),
        "batch_size": training.get("batch_size"),
        "hardware": summary.get("hardware") or "",
    }


def _network(values: Mapping[str, Any]) -> str:
    width = values.get("width")
    name = str(values.get("name", "network"))
    return name if width is None else f"{name} of width {width}"


def read_measured(folders: Sequence[Path]) -> pd.DataFrame:
    """One row per run below `folders`, which are comparisons or single runs.

    Beside `run_record`: method, noise, seed, `run` (its folder), and `identity`, all its settings
    but the seed as text.
    """
    rows: dict[Path, dict[str, Any]] = {}
    for folder in folders:
        for method, place in _runs_of(folder):
            summary = Run.open(place).read_summary()
            rows[place.resolve()] = {
                "method": method or str(summary.get("method", "")),
                "noise": canonical_noise(str(summary.get("noise", "none"))),
                "seed": summary.get("seed", 0),
                **run_record(summary),
                "run": str(place),
                "identity": _identity(summary.get("settings") or {}),
            }
    return pd.DataFrame(list(rows.values()))


def _runs_of(folder: Path) -> Iterator[tuple[str | None, Path]]:
    """Method and folder of each run; the method of a single run is in its summary."""
    cells = folder / CELLS
    if not cells.exists():
        yield None, folder
        return
    check_file(cells, LARGEST)
    with naming(cells, "the cells of a comparison", "give its command again"):
        frame = pd.read_csv(cells, dtype=str)
        if not {"method", "run"} <= set(frame.columns):
            raise ValueError("it has no columns method and run")
        pairs = list(zip(frame["method"], frame["run"], strict=True))
    for method, place in pairs:
        yield str(method), folder / str(place)


def _identity(settings: Mapping[str, Any]) -> str:
    kept = {key: value for key, value in settings.items() if key not in ("seed", "machine")}
    kept["noise"] = canonical_noise(str(kept.get("noise", "none")))
    return json.dumps(kept, sort_keys=True)
