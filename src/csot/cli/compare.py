"""`csot compare`: run what is missing, then tables and curves. `csot ablations`: the list."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from rich.table import Table

from csot._core.errors import require
from csot.cli.terminal import Terminal
from csot.cli.train import parse_settings
from csot.data import Columns


@dataclass(frozen=True)
class CompareOptions:
    """What the user asked for."""

    data: str
    out: Path
    methods: str
    noise: str
    seeds: str
    preset: str | None
    settings: Sequence[str]
    data_dir: Path | None
    test: Path | None
    columns: Columns
    root: Path | None
    jobs: int
    own_recipes: bool
    allow_outside: bool = False

    def again(self) -> str:
        """The command as it would be typed."""
        words = ["csot", "compare", self.data, "--methods", self.methods, "--noise", self.noise]
        words += ["--seeds", self.seeds, "--out", str(self.out)]
        words += [word for setting in self.settings for word in ("--set", setting)]
        words += ["--allow-outside"] if self.allow_outside else []
        if self.preset is not None:
            words += ["--preset", self.preset]
        return shlex.join(words)


def run_compare(options: CompareOptions, terminal: Terminal) -> None:
    for module in ("yaml", "pydantic", "lightning_fabric", "safetensors"):
        require(module, "train", "csot compare")
    from csot import figures
    from csot.figures.comparison import rows_for
    from csot.training.compare import Cell, Comparison, run_cells
    from csot.training.presets import preset_for
    from csot.training.train import Source

    methods = chosen_methods(options.methods)
    noises, seeds = _listed(options.noise, "--noise"), _numbers(options.seeds)
    cells = [Cell(*parts) for parts in product(methods, noises, seeds)]
    comparison = Comparison(
        data=options.data,
        out=options.out,
        preset=options.preset or preset_for(options.data),
        settings=parse_settings(options.settings),
        source=Source(
            options.data_dir,
            options.test,
            options.columns,
            options.root,
            allow_outside=options.allow_outside,
        ),
        own_recipes=options.own_recipes,
    )
    with terminal.bar("runs", len(cells)) as advance:
        for cell, summary in run_cells(comparison, cells, options.jobs):
            advance(1)
            terminal.say(_line(cell.method, cell.noise, cell.seed, summary))
    places = {(c.method, c.noise, c.seed): c.place(options.out) for c in cells}
    found = figures.Comparison.read(places)
    figures.write_comparison(found, options.out, options.again())
    for noise in found.noises:
        # A table each: side by side they would not fit a terminal.
        table = Table(title=noise, title_justify="left", box=None, pad_edge=False)
        for name in ("method", "best", "last", "seconds"):
            table.add_column(name, justify="left" if name == "method" else "right", no_wrap=True)
        for row in rows_for(found, noise):
            table.add_row(*row)
        terminal.say()
        terminal.say(table)
    terminal.say()
    terminal.say(f"results are in {options.out}: compare.html, table.csv, table.tex, cells.csv")


def chosen_methods(text: str) -> list[str]:
    """`a,b`; `all` is every method, `ablations` is csot and its ablations."""
    from csot.methods import find_method, method_names
    from csot.methods.core.registry import ABLATIONS, find_ablation

    found: list[str] = []
    for name in _listed(text, "--methods"):
        if name == "all":
            found += method_names()
        elif name == "ablations":
            found += ["csot", *(f"csot@{ablation.letter}" for ablation in ABLATIONS)]
        else:
            method, _, letter = name.partition("@")
            find_method(method)
            if letter:
                find_ablation(letter)
            found.append(name)
    return list(dict.fromkeys(found))


def show_ablations(terminal: Terminal) -> None:
    from csot.methods.core.registry import ABLATIONS

    table = Table(box=None, pad_edge=False)
    for name in ("letter", "what is different", "settings"):
        table.add_column(name)
    for ablation in ABLATIONS:
        settings = ", ".join(f"{key}={value}" for key, value in ablation.settings.items())
        table.add_row(ablation.letter, ablation.about, settings)
    terminal.say(table)
    terminal.say()
    terminal.say("run them with: csot compare DATA --methods ablations --noise sym:0.5 --out RUN")


def _line(method: str, noise: str, seed: int, summary: dict[str, Any]) -> str:
    last, best = summary.get("test_accuracy_last"), summary.get("test_accuracy_best")
    scores = "no test set" if last is None else f"last {last:.2%}, best {best:.2%}"
    return f"{method} {noise} seed {seed}: {scores}, {summary['seconds']:.0f} s"


def _listed(text: str, option: str) -> list[str]:
    found = [part.strip() for part in text.split(",") if part.strip()]
    if not found:
        raise ValueError(f"{option} {text!r} names nothing: separate values by commas")
    return found


def _numbers(text: str) -> list[int]:
    try:
        return [int(part) for part in _listed(text, "--seeds")]
    except ValueError as error:
        raise ValueError(f"--seeds {text!r}: whole numbers separated by commas") from error
