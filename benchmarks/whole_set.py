"""Batches of 1024 against the whole data set as one problem: how many labels exact totals spoil.

    python benchmarks/whole_set.py [--rows 50000] [--figure docs/images/whole_set.png]

A nearly perfect network is made up: for each row the logit of the true class is raised by a margin
above standard normal noise, such that the argmax is right on more than 99 % of the rows. Classes
are exactly balanced over all rows. In a random batch they are not, but the plan gives each class
the same total: with a hundred classes a batch of 1024 has ten rows per class, give or take three,
and the surplus rows of a class go to others. Printed is the share of right labels among the
selected rows, by batch size (``csot.solve`` without coherence, as in ``relabel_batch``).
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import Tensor

from csot.methods.core.contract import Predictions
from csot.methods.parts.csot_settings import CsotSettings
from csot.methods.parts.relabel import relabel

RESULTS = Path(__file__).parent / "results" / "whole_set.json"
SIZES = (256, 1024, 4096, 0)
CLASSES = (10, 100)
BUDGETS = (0.5, 0.8, 1.0)
MARGINS = {10: 4.5, 100: 5.5}


def nearly_perfect(rows: int, classes: int, seed: int) -> tuple[Predictions, Tensor]:
    """Predictions of a made-up network, and the true labels."""
    generator = torch.Generator().manual_seed(seed)
    truth = torch.arange(rows) % classes
    noise = torch.randn(rows, classes, generator=generator)
    logits = 2 * (MARGINS[classes] * torch.nn.functional.one_hot(truth, classes) + noise)
    return Predictions(logits, logits), truth


def share_right(seen: Predictions, truth: Tensor, budget: float, size: int) -> float:
    """Share of right labels among the rows that the plan selects."""
    settings = CsotSettings(relabel_batch=size, coherence=0.0)
    # Given labels play no part without coherence.
    found = relabel(seen, truth, budget, settings, torch.Generator().manual_seed(0))
    return float((found.labels == truth)[found.selected].float().mean())


def draw(results: dict[str, float], path: Path) -> None:
    """Right labels by batch size, one line per number of classes, at a budget of one."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 3.2), layout="constrained")
    axes = figure.subplots()
    for classes in CLASSES:
        shares = [100 * results[f"{classes}/1/{size}"] for size in SIZES]
        (line,) = axes.plot(range(len(SIZES)), shares, marker="o", label=f"{classes} classes")
        network = 100 * results[f"{classes}/network"]
        axes.axhline(network, color=line.get_color(), linewidth=0.8, linestyle=":")
    axes.set_xticks(range(len(SIZES)), [str(size) if size else "all 50,000" for size in SIZES])
    axes.set_xlabel("rows solved together")
    axes.set_ylabel("right labels in per cent")
    axes.set_title(
        "Plan of a nearly perfect network, budget 1 (dotted: the network itself)", size=10
    )
    axes.legend(frameon=False)
    figure.savefig(path, format="png", dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--figure", type=Path, help="also draw it, into this .png")
    arguments = parser.parse_args()
    names = [str(size) if size else "all rows" for size in SIZES]
    table = Table("classes", "network", "budget", *names)
    results: dict[str, float] = {}
    begun = time.perf_counter()
    for classes in track(CLASSES, description="classes"):
        seen, truth = nearly_perfect(arguments.rows, classes, seed=0)
        network = float((seen.logits.argmax(-1) == truth).float().mean())
        results[f"{classes}/network"] = network
        for budget in BUDGETS:
            shares = [share_right(seen, truth, budget, size) for size in SIZES]
            found = zip(SIZES, shares, strict=True)
            results |= {f"{classes}/{budget:g}/{size}": share for size, share in found}
            row = (f"{100 * share:.1f}" for share in (network, *shares))
            first, *rest = row
            table.add_row(str(classes), first, f"{budget:g}", *rest)
    results["seconds"] = time.perf_counter() - begun
    Console().print(table)
    RESULTS.write_text(json.dumps(results, indent=1))
    if arguments.figure:
        draw(results, arguments.figure)


if __name__ == "__main__":
    main()
