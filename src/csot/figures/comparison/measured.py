"""What a finished run measured, as one row: accuracies, time, and on what it was measured."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from csot._core.errors import naming
from csot._core.files import check_file
from csot._core.text import canonical_noise
from csot.runs import Run
from csot.runs.run import SUMMARY
from csot.runs.summary import FURTHER, selected_on

EPOCHS = ("best", "last", "peak")
"""The epoch that held-out labels chose, the last one, and the highest of all."""
CELLS = "cells.csv"
LARGEST = 64 << 20
"""Bytes of cells.csv; a run has some 300."""


def run_record(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Accuracies of a summary by column: `last`, `top5_last`, `ilsvrc12_last` ...

    `best` is missing where nothing chose an epoch: it would be the last one under another name.
    """
    chosen_on = selected_on(summary)
    sources = {"": ("test_accuracy", summary), "top5_": ("test_top5", summary)}
    for test, values in (summary.get(FURTHER) or {}).items():
        sources |= {f"{test}_": ("accuracy", values), f"{test}_top5_": ("top5", values)}
    record: dict[str, Any] = {}
    for prefix, (key, values) in sources.items():
        for epoch in EPOCHS:
            value = values.get(f"{key}_{epoch}") if chosen_on or epoch != "best" else None
            if prefix in ("", "top5_") or value is not None:
                record[prefix + epoch] = value
    settings = summary["settings"]
    training = settings["training"]
    return {
        "data": Path(_text(settings["data"])).name,
        **record,
        "seconds": float(summary["seconds"]),
        "epochs": int(summary["epochs"]),
        "rows": int(summary["n_rows"]),
        "network": _network(training["network"]),
        "batch_size": int(training["batch_size"]),
        "selected_on": _text(chosen_on),
        "hardware": _text(summary.get("hardware") or ""),
    }


def _network(values: Mapping[str, Any]) -> str:
    name, width = _text(values["name"]), values.get("width")
    return name if width is None else f"{name} of width {_text(width)}"


def _text(value: Any) -> str:
    """Replace lone surrogates, which pandas cannot group by."""
    return str(value).encode("utf-8", "replace").decode("utf-8")


def read_measured(folders: Sequence[Path]) -> pd.DataFrame:
    """One row per run below `folders`, which are comparisons or single runs.

    Beside `run_record`: method, noise, seed, `run` (its folder), and `identity`, all its settings
    but the seed as text.
    """
    rows: dict[Path, dict[str, Any]] = {}
    for folder in folders:
        for method, place in _runs_of(folder):
            summary = Run.open(place).read_summary()
            with naming(place / SUMMARY, "the summary of a training run"):
                rows[place.resolve()] = {
                    "method": method or _text(summary["method"]),
                    "noise": canonical_noise(_text(summary["noise"])),
                    "seed": int(summary["seed"]),
                    **run_record(summary),
                    "run": str(place),
                    "identity": _identity(summary["settings"]),
                }
    return pd.DataFrame(list(rows.values()))


def _runs_of(folder: Path) -> Iterator[tuple[str | None, Path]]:
    """Method and folder of each run; the method of a single run is in its summary.

    Of a comparison that was interrupted, the runs that are finished.
    """
    cells = folder / CELLS
    if not cells.exists():
        finished = sorted(folder.glob("cells/*/*/seed-*/summary.json"))
        yield from ((path.parts[-4].replace("+", " "), path.parent) for path in finished)
        if not finished:
            yield None, folder
        return
    check_file(cells, LARGEST)
    with naming(cells, "the cells of a comparison", "give its command again"):
        frame = pd.read_csv(cells, dtype=str)
        if not {"method", "run"} <= set(frame.columns):
            raise ValueError("it has no columns method and run")
        pairs = list(zip(frame["method"], frame["run"], strict=True))
        for _, place in pairs:
            if not (folder / str(place) / SUMMARY).exists():
                raise ValueError(f"the run {place} is not finished")
    for method, place in pairs:
        yield str(method), folder / str(place)


def _identity(settings: Mapping[str, Any]) -> str:
    kept = {key: value for key, value in settings.items() if key not in ("seed", "machine")}
    kept["noise"] = canonical_noise(str(kept["noise"]))
    return json.dumps(kept, sort_keys=True)
