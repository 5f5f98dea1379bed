"""Finished runs with made-up figures: as much as tables and pages read of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from csot.runs import Run


def write_run(
    folder: Path,
    method: str = "csot",
    *,
    data: str = "cifar10",
    noise: str = "sym:0.5",
    seed: int = 0,
    last: float = 0.9,
    epochs: int = 20,
    hardware: str = "Abacus, 2 threads",
    settings: dict[str, Any] | None = None,
    **more: Any,
) -> Path:
    """Accuracy rises to one point above `last` and falls back to it."""
    run = Run.create(folder)
    (folder / "findings.csv").write_text("id\n")
    rising = last + 0.01 - 0.5 * np.exp(-np.arange(1, epochs + 1) / 3)
    rising[-1] = last
    frame = pd.DataFrame({"epoch": np.arange(1, epochs + 1), "test_accuracy": rising})
    if method != "cross_entropy":
        frame["clean_accuracy"] = np.clip(frame["test_accuracy"] + 0.05, 0, 1)
        frame["clean_recall"] = np.linspace(0.2, last, epochs)
    frame.to_csv(folder / "metrics.csv", index=False)
    training = {"network": {"name": "resnet8", "width": 16}, "batch_size": 64}
    run.write_summary(
        {
            "n_rows": 1000,
            "class_names": ["a", "b"],
            "method": method,
            "noise": noise,
            "seed": seed,
            "epochs": epochs,
            "best_epoch": epochs,
            "held_out": {"rows": 10},
            "test_accuracy_best": last - 0.01,
            "test_accuracy_last": last,
            "test_accuracy_peak": last + 0.01,
            "test_top5_last": 0.99,
            "seconds": 36.0,
            "hardware": hardware,
            "settings": {
                "data": data,
                "method": method,
                "noise": noise,
                "seed": seed,
                "training": training,
                "settings": settings or {},
                "machine": {"accelerator": "cpu"},
            },
            **more,
        }
    )
    return folder


def write_cells(
    out: Path, methods: dict[str, float], noises: list[str], seeds: range
) -> dict[tuple[str, str, int], Path]:
    """A comparison's runs: methods and the accuracies that they reach without noise."""
    places = {}
    for method, reached in methods.items():
        for number, noise in enumerate(noises):
            for seed in seeds:
                place = out / "cells" / method / noise.replace(":", "-") / f"seed-{seed}"
                place.parent.mkdir(parents=True, exist_ok=True)
                last = reached - 0.1 * number + 0.004 * seed
                name = method.partition("@")[0]
                write_run(place, name, noise=noise, seed=seed, last=last)
                places[method, noise, seed] = place
    return places
