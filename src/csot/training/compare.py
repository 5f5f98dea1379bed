"""Compare methods: many runs that differ in method, noise, seed or one setting, one folder each.

Finished runs are kept and interrupted ones are resumed, so a comparison can be repeated at any
time, with more methods, values or seeds.
"""

from __future__ import annotations

import multiprocessing
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from itertools import product
from multiprocessing.context import BaseContext
from pathlib import Path
from typing import Any, TypeVar

import torch

from csot.data.datasets.core.dataset_registry import data_path
from csot.data.noise import parse_noise
from csot.data.readers.labelled_table import Columns
from csot.figures import Comparison, write_comparison
from csot.figures.comparison.comparison import Change
from csot.methods import find_method, method_names
from csot.methods.core.method_registry import ABLATIONS, find_ablation
from csot.report import write_report
from csot.runs import Run
from csot.training.config import RunConfig
from csot.training.data_source import read_outline, record_content, record_knowledge
from csot.training.embedded_data import EMBEDDED
from csot.training.presets import make_config, noise_under
from csot.training.run_folder import RunFolder
from csot.training.starting_network import EMBEDDER, choose_start
from csot.training.train import Source, train_configured

CELLS = "cells"
T = TypeVar("T")


@dataclass(frozen=True)
class ComparisonCell:
    """One run of a comparison. `csot@c` is the ablation (c) of CSOT."""

    method: str
    noise: str
    seed: int
    change: Change | None = None
    """A setting that is varied, and its value here."""

    @property
    def name(self) -> str:
        """`csot`, `csot@c`, or `csot epsilon=0.05`."""
        return self.method if self.change is None else f"{self.method} {self.change}"

    def folder(self, out: Path) -> Path:
        parts = (self.name.replace(" ", "+"), self.noise)
        method, noise = (re.sub(r"[^\w.@+=,-]", "-", part) for part in parts)
        return out / CELLS / method / noise / f"seed-{self.seed}"


def list_cells(
    methods: Sequence[str],
    noises: Sequence[str],
    seeds: Sequence[int],
    vary: Mapping[str, Sequence[Any]] | None = None,
) -> list[ComparisonCell]:
    """List the cells; each value of a varied setting gives one, in place of the plain method."""
    for noise in noises:
        parse_noise(noise)
    names = expand_methods(methods)
    changes = [
        Change.of(key, value, owner)
        for (owner, key), values in by_owner(vary or {}).items()
        for value in values
    ]
    compared = {name.partition("@")[0] for name in names}
    for change in changes:
        if change.method is not None and change.method not in compared:
            raise ValueError(
                f"`vary` {change.method}.{change.key}: {change.method} is not compared; add it to "
                "`methods`"
            )
    variants: list[tuple[str, Change | None]] = []
    for name in names:
        mine = [c for c in changes if c.method in (None, name.partition("@")[0])]
        variants += [(name, change) for change in mine] or [(name, None)]
    cells = [
        ComparisonCell(name, noise, seed, change)
        for (name, change), noise, seed in product(variants, noises, seeds)
    ]
    return list(dict.fromkeys(cells))


def by_owner(settings: Mapping[str, T]) -> dict[tuple[str | None, str], T]:
    """`csot.epsilon` -> (csot, epsilon); a key of all methods has no owner."""
    found: dict[tuple[str | None, str], T] = {}
    for key, value in settings.items():
        owner, dot, rest = key.partition(".")
        is_owned = dot and owner in method_names()
        found[(owner, rest) if is_owned else (None, key)] = value
    return found


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


@dataclass(frozen=True)
class Recipe:
    """What all cells have in common."""

    data: str
    out: Path
    preset: str | None = None
    settings: Mapping[str, Any] | None = None
    source: Source = field(default_factory=Source)
    machine: Mapping[str, Any] | None = None
    equal: bool = False
    words: str = ""
    """What all runs start from, for the terminal."""

    def config(self, cell: ComparisonCell) -> RunConfig:
        method, _, letter = cell.method.partition("@")
        extra = find_ablation(letter).settings if letter else {}
        if letter and method != "csot":
            raise ValueError(f"method {cell.method!r}: only csot has ablations")
        # `csot.epsilon` is for csot alone, `epochs` for every method.
        given = {
            key: value
            for (owner, key), value in by_owner(self.settings or {}).items()
            if owner in (None, method)
        }
        varied = {} if cell.change is None else {cell.change.key: cell.change.value}
        config = make_config(
            self.data,
            method,
            preset=self.preset,
            noise=cell.noise,
            seed=cell.seed,
            overrides={**given, **extra, **varied},
            machine=self.machine,
            own_training=not self.equal,
        )
        return record_knowledge(config, self.source)


@dataclass(frozen=True)
class ComparisonPlan:
    """The recipe of a comparison and its cells, before anything is run."""

    recipe: Recipe
    cells: list[ComparisonCell]

    def epochs(self) -> dict[str, int]:
        """Number of epochs by method, of the first noise and seed."""
        found: dict[str, int] = {}
        for cell in self.cells:
            if cell.name not in found:
                found[cell.name] = self.recipe.config(cell).training.epochs
        return found

    def only_warm_up(self) -> list[str]:
        """Methods whose training ends before their warm-up does."""
        names = [cell.name for cell in self.cells if self.recipe.config(cell).only_warms_up]
        return list(dict.fromkeys(names))


def compare(
    data: str,
    methods: Sequence[str],
    *,
    out: str | Path,
    noises: Sequence[str] = ("none",),
    seeds: Sequence[int] = (0,),
    vary: Mapping[str, Sequence[Any]] | None = None,
    preset: str | None = None,
    backbone: str | None = None,
    frozen: bool | None = None,
    settings: Mapping[str, Any] | None = None,
    source: Source | None = None,
    machine: Mapping[str, Any] | None = None,
    equal: bool = False,
    jobs: int = 1,
    command: str = "",
    on_plan: Callable[[ComparisonPlan], None] = lambda plan: None,
    on_cell: Callable[[ComparisonCell, dict[str, Any]], None] = lambda cell, summary: None,
) -> Comparison:
    """Train several methods on the same data and noise.

    Parameters
    ----------
    data : str
        Name or path, as for `csot.train`.
    methods : sequence of str
        Names of methods; "csot@c" is an ablation, "all" is every method, "ablations" is CSOT and
        all its ablations.
    out : str or Path
        Folder for compare.html, table.csv, table.tex, cells.csv and the runs; with `vary` also
        sweep.csv and sweep.png.
    noises : sequence of str
        Kinds of noise to add to the labels. Equal ones ("sym:.5" and "sym:0.50") count once.
    seeds : sequence of int
    vary : dict, optional
        Values of settings, each varied while the others stay as they are:
        `{"csot.epsilon": [0.05, 0.1]}`. A key such as "csot.epsilon" is for one method only;
        other methods are then run once.
    preset : str, optional
        A preset or a .yaml file; by default the one named like the data, if any. A method that it
        has no section for takes its common part.
    backbone, frozen : optional
        As for `csot.train`: what every method starts from.
    settings : dict, optional
        Changes to the preset; a key such as "csot.epsilon" is for one method only.
    source, machine : optional
        As for `csot.train`; embeddings are kept in `out` for all runs, unless `source` has a
        `cache`.
    equal : bool
        Give all methods the epochs, optimiser and network of the preset instead of their own.
    jobs : int
        Number of runs at the same time; with more than one, each uses a single thread.
    command : str
        Command to repeat the comparison, shown in compare.html.
    on_plan : callable
        Called with the plan before the first run.
    on_cell : callable
        Called with each cell and its summary as it is finished.

    Returns
    -------
    Comparison
        Tables of all runs.
    """
    source = source or Source()
    chosen = by_owner({**(settings or {}), **(vary or {})})
    start = choose_start(
        data,
        source.columns or Columns(),
        preset=preset,
        backbone=backbone,
        frozen=frozen,
        settings={key: value for (owner, key), value in chosen.items() if owner is None},
        accelerator=str((machine or {}).get("accelerator", "auto")),
    )
    if source.cache is None and EMBEDDER in start.settings:
        source = replace(source, cache=Path(out) / EMBEDDED)
    recipe = Recipe(
        data=data,
        out=Path(out),
        preset=start.preset,
        settings={**start.settings, **(settings or {})},
        source=source,
        machine=start.on_machine(machine),
        equal=equal,
        words=start.words,
    )
    meant = [noise_under(recipe.preset, noise) for noise in noises]
    cells = list_cells(methods, meant, seeds, vary)
    on_plan(ComparisonPlan(recipe, cells))
    for cell, summary in run_cells(recipe, cells, jobs):
        on_cell(cell, summary)
    found = Comparison.read(
        {(cell.name, cell.noise, cell.seed): cell.folder(recipe.out) for cell in cells},
        {cell.name: (cell.method, cell.change) for cell in cells if cell.change is not None},
    )
    write_comparison(found, recipe.out, command)
    return found


def run_cells(
    recipe: Recipe, cells: Sequence[ComparisonCell], jobs: int
) -> Iterator[tuple[ComparisonCell, dict[str, Any]]]:
    """Yield each cell with its summary as it is finished; `jobs` processes of one thread each."""
    # All settings are checked before the first run begins.
    configs = {cell: recipe.config(cell) for cell in cells}
    missing = []
    contents: dict[int | None, str | None] = {}
    for cell, config in configs.items():
        folder, limit = cell.folder(recipe.out), config.dataset.limit
        if limit not in contents and is_finished(folder):
            contents[limit] = read_content(config, recipe.source, folder)
        summary = finished_summary(folder, config, contents.get(limit))
        if summary is None:
            missing.append(cell)
        else:
            yield cell, summary
    if jobs == 1:
        for cell in missing:
            yield cell, _run(recipe, cell, None)
        return
    with ProcessPoolExecutor(jobs, mp_context=_processes()) as pool:
        running = {pool.submit(_run, recipe, cell, 1): cell for cell in missing}
        try:
            for future in as_completed(running):
                yield running[future], future.result()
        finally:
            # After an error or Ctrl-C, runs that have not begun are cancelled.
            pool.shutdown(wait=False, cancel_futures=True)


def _processes() -> BaseContext:
    """How processes are started: forks of one that has imported csot, where the system can.

    That one has computed nothing, so it has no threads or GPU that a fork could not use. Importing
    takes each process seconds otherwise.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, "lightning_fabric"])
    return context


def is_finished(folder: Path) -> bool:
    """Whether there is a finished run."""
    return (folder / "summary.json").exists()


def read_content(config: RunConfig, source: Source, folder: Path) -> str | None:
    """The digest of ids, labels and classes as they are now; None for a data set with a name."""
    if data_path(config.data) is None:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return record_content(config, read_outline(config, source, folder)).dataset.content


def finished_summary(folder: Path, config: RunConfig, content: str | None) -> dict[str, Any] | None:
    """Return the summary of a finished run of the same configuration, if there is one.

    `content` is the digest of the data, None if that is not compared.
    """
    if not is_finished(folder):
        return None
    kept = RunFolder(folder).read_config()
    theirs, ours = kept.identity(), config.identity()
    ours["dataset"]["content"] = theirs["dataset"]["content"] if content is None else content
    if theirs != ours:
        raise ValueError(
            f"{folder} holds a run with other settings or data: choose another `out`, or delete "
            "that folder"
        )
    return Run.open(folder).read_summary()


def _run(recipe: Recipe, cell: ComparisonCell, threads: int | None) -> dict[str, Any]:
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
        write_report(Run.open(trained.path), allow_outside=recipe.source.allow_outside)
    return trained.summary
