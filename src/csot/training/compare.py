"""Compare methods: many runs that differ only in method, noise and seed, one folder each.

Finished runs are kept and interrupted ones are resumed, so a comparison can be repeated at any
time, with more methods or seeds.
"""

from __future__ import annotations

import multiprocessing
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import torch

from csot.figures import Comparison, write_comparison
from csot.methods import find_method, method_names
from csot.methods.core.registry import ABLATIONS, find_ablation
from csot.runs import Run
from csot.training.config import RunConfig
from csot.training.folder import RunFolder
from csot.training.presets import make_config, preset_for
from csot.training.train import Source, train_configured

CELLS = "cells"


@dataclass(frozen=True)
class Cell:
    """One run of a comparison. `csot@c` is the ablation (c) of CSOT."""

    method: str
    noise: str
    seed: int

    def folder(self, out: Path) -> Path:
        return out / CELLS / self.method / self.noise.replace(":", "-") / f"seed-{self.seed}"


@dataclass(frozen=True)
class Recipe:
    """What all cells have in common."""

    data: str
    out: Path
    preset: str | None = None
    settings: Mapping[str, Any] | None = None
    source: Source = field(default_factory=Source)
    machine: Mapping[str, Any] | None = None
    own_recipes: bool = False

    def config(self, cell: Cell) -> RunConfig:
        method, _, letter = cell.method.partition("@")
        extra = find_ablation(letter).settings if letter else {}
        if letter and method != "csot":
            raise ValueError(f"method {cell.method!r}: only csot has ablations")
        # `csot.epsilon` is for csot alone, `epochs` for every method.
        given = {
            key.removeprefix(f"{method}."): value
            for key, value in (self.settings or {}).items()
            if key.partition(".")[0] in (method, "training", "dataset") or "." not in key
        }
        return make_config(
            self.data,
            method,
            preset=self.preset,
            noise=cell.noise,
            seed=cell.seed,
            overrides={**given, **extra},
            machine=self.machine,
            own_training=self.own_recipes,
        )


def compare(
    data: str,
    methods: Sequence[str],
    *,
    out: str | Path,
    noises: Sequence[str] = ("none",),
    seeds: Sequence[int] = (0,),
    preset: str | None = None,
    settings: Mapping[str, Any] | None = None,
    source: Source | None = None,
    machine: Mapping[str, Any] | None = None,
    own_recipes: bool = False,
    jobs: int = 1,
    command: str = "",
    on_cell: Callable[[Cell, dict[str, Any]], None] = lambda cell, summary: None,
) -> Comparison:
    """Train several methods on the same data, noise, network and budget.

    Parameters
    ----------
    data : str
        Name or path, as for `csot.train`.
    methods : sequence of str
        Names of methods; "csot@c" is an ablation, "all" is every method, "ablations" is CSOT and
        all its ablations.
    out : str or Path
        Folder for compare.html, table.csv, table.tex, cells.csv and the runs.
    noises : sequence of str
        Kinds of noise to add to the labels.
    seeds : sequence of int
    preset : str, optional
        A preset or a .yaml file; by default the one named like the data, if any.
    settings : dict, optional
        Changes to the preset; a key such as "csot.epsilon" is for one method only.
    source, machine : optional
        As for `csot.train`.
    own_recipes : bool
        Use the epochs, optimiser and network of each method's own section of the preset.
    jobs : int
        Runs at the same time, each on one thread if there are several.
    command : str
        Command to repeat the comparison, shown in compare.html.
    on_cell : callable
        Called with each cell and its summary as it is finished.

    Returns
    -------
    Comparison
        Tables of all runs.
    """
    recipe = Recipe(
        data=data,
        out=Path(out),
        preset=preset or preset_for(data),
        settings=settings,
        source=source or Source(),
        machine=machine,
        own_recipes=own_recipes,
    )
    cells = list_cells(methods, noises, seeds)
    for cell, summary in run_cells(recipe, cells, jobs):
        on_cell(cell, summary)
    found = Comparison.read({(c.method, c.noise, c.seed): c.folder(recipe.out) for c in cells})
    write_comparison(found, recipe.out, command)
    return found


def list_cells(methods: Sequence[str], noises: Sequence[str], seeds: Sequence[int]) -> list[Cell]:
    """List the cells of a comparison."""
    return [Cell(*parts) for parts in product(expand_methods(methods), noises, seeds)]


def expand_methods(names: Sequence[str]) -> list[str]:
    """Replace "all" and "ablations" by what they stand for; check all names."""
    found: list[str] = []
    for name in names:
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


def run_cells(
    recipe: Recipe, cells: Sequence[Cell], jobs: int
) -> Iterator[tuple[Cell, dict[str, Any]]]:
    """Yield each cell with its summary as it is finished; `jobs` processes of one thread each."""
    # All settings are checked before the first run begins.
    configs = {cell: recipe.config(cell) for cell in cells}
    missing = []
    for cell, config in configs.items():
        summary = finished_summary(cell.folder(recipe.out), config)
        if summary is None:
            missing.append(cell)
        else:
            yield cell, summary
    if jobs == 1:
        for cell in missing:
            yield cell, _run(recipe, cell, None)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        running = {pool.submit(_run, recipe, cell, 1): cell for cell in missing}
        try:
            for future in as_completed(running):
                yield running[future], future.result()
        finally:
            # After an error or Ctrl-C, runs that have not begun are cancelled.
            pool.shutdown(wait=False, cancel_futures=True)


def finished_summary(folder: Path, config: RunConfig) -> dict[str, Any] | None:
    """Return the summary of a finished run of the same configuration, if there is one."""
    if not (folder / "summary.json").exists():
        return None
    kept = RunFolder(folder).read_config()
    if kept.identity() != config.identity():
        raise ValueError(
            f"{folder} holds a run with other settings: choose another `out`, or delete that folder"
        )
    return Run.open(folder).read_summary()


def _run(recipe: Recipe, cell: Cell, threads: int | None) -> dict[str, Any]:
    if threads is not None:
        torch.set_num_threads(threads)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trained = train_configured(
            recipe.config(cell),
            out=cell.folder(recipe.out),
            source=recipe.source,
            resume=True,
        )
    return trained.summary
