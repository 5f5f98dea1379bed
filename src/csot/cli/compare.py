"""`csot compare`: run what is missing, print a table per noise."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from csot.cli.options import (
    COMPARISON,
    AllowOutside,
    AsJson,
    Backbone,
    Changes,
    DataDir,
    FeatureColumns,
    Frozen,
    IdColumn,
    ImageColumn,
    ImageRoot,
    LabelColumn,
    Preset,
    Quiet,
    TestData,
    TextColumn,
    complete_method,
    default_out,
    split_names,
)
from csot.cli.terminal import Terminal
from csot.cli.train import parse_settings, require_training

if TYPE_CHECKING:
    import pandas as pd

    from csot.figures import Comparison
    from csot.training.compare import ComparisonCell, ComparisonPlan

UNSAID = ("quiet", "as_json", "jobs")
SCORES = ("test_accuracy_last", "test_accuracy_best", "seconds")


def compare(
    context: typer.Context,
    data: Annotated[str, typer.Argument(metavar="DATA", help="As for csot train.")],
    methods: Annotated[
        str,
        typer.Option(
            help="Methods, separated by commas; csot@c is ablation (c); all; ablations.",
            autocompletion=complete_method,
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="RUN", help="Folder of all runs; by default DATA-compare."
        ),
    ] = None,
    noise: Annotated[str, typer.Option(help="Kinds of noise, separated by commas.")] = "none",
    seeds: Annotated[str, typer.Option(help="Seeds, separated by commas.")] = "0",
    preset: Preset = None,
    backbone: Backbone = None,
    frozen: Frozen = None,
    settings: Changes = None,
    data_dir: DataDir = None,
    test: TestData = None,
    label: LabelColumn = None,
    text: TextColumn = None,
    image: ImageColumn = None,
    id_column: IdColumn = None,
    features: FeatureColumns = None,
    root: ImageRoot = None,
    allow_outside: AllowOutside = False,
    vary: Annotated[
        list[str] | None,
        typer.Option(
            "--vary",
            metavar="KEY=V1,V2...",
            help="Run with each value of a setting; may be repeated: one is varied at a time.",
        ),
    ] = None,
    equal: Annotated[
        bool,
        typer.Option(
            "--equal",
            help="Use the preset's common epochs, optimiser and network for every method, instead "
            "of each method's own.",
        ),
    ] = False,
    jobs: Annotated[
        int,
        typer.Option(
            min=1, help="Number of parallel runs; with more than one, each uses one thread."
        ),
    ] = 1,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Run methods on the same data and noise, each with its own recipe, and compare them.

    Finished runs in RUN are not repeated; interrupted ones are resumed.

    Example: csot compare digits --methods cross_entropy,csot --noise sym:0.5 --seeds 0,1,2
    """
    with Terminal(quiet, as_json) as terminal:
        require_training("csot compare")
        from csot import training
        from csot.data import Columns

        chosen, noises = split_list(methods, "--methods"), split_list(noise, "--noise")
        numbers = split_numbers(seeds, "--seeds")
        varied = parse_values(vary or [])
        out = default_out(data, COMPARISON) if out is None else out
        facts: list[dict[str, Any]] = []
        with ExitStack() as stack:
            bars: list[Callable[[int], None]] = []

            def on_plan(plan: ComparisonPlan) -> None:
                say_plan(plan, terminal)
                bars.append(stack.enter_context(terminal.bar("runs", len(plan.cells))))

            def on_cell(cell: ComparisonCell, summary: dict[str, Any]) -> None:
                bars[0](1)
                terminal.say(describe_cell(cell, summary))
                facts.append(asdict(cell) | {name: summary.get(name) for name in SCORES})

            found = training.compare(
                data,
                chosen,
                out=out,
                noises=noises,
                seeds=numbers,
                vary=varied,
                preset=preset,
                backbone=backbone,
                frozen=frozen,
                settings=parse_settings(settings or []),
                source=training.Source(
                    data_dir=data_dir,
                    test=test,
                    columns=Columns(
                        label=label,
                        text=text,
                        image=image,
                        id=id_column,
                        features=split_names(features),
                    ),
                    root=root,
                    allow_outside=allow_outside,
                ),
                equal=equal,
                jobs=jobs,
                command=as_typed(context),
                on_plan=on_plan,
                on_cell=on_cell,
            )
        say_comparison(found, out, bool(varied), terminal)
        terminal.result({"run": str(out), "page": str(out / "compare.html"), "cells": facts})


def as_typed(context: typer.Context) -> str:
    """The command as it was typed, for compare.html; only options that change the results."""
    arguments, options = [], []
    for parameter in context.command.params:
        name = parameter.name or ""
        source = context.get_parameter_source(name)
        if source is None or source.name != "COMMANDLINE" or name in UNSAID:
            continue
        value = context.params[name]
        if parameter.param_type_name == "argument":
            arguments.append(str(value))
            continue
        option = max(parameter.opts, key=len)
        if value is True:
            options.append(option)
        else:
            for one in value if isinstance(value, list | tuple) else [value]:
                options += [option, str(one)]
    return shlex.join(["csot", "compare", *arguments, *options])


def say_plan(plan: ComparisonPlan, terminal: Terminal) -> None:
    """What is going to be run, which methods are too short, and what all runs start from."""
    terminal.say(describe_plan(plan))
    early = plan.only_warm_up()
    if early:
        terminal.say(
            f"{', '.join(early)}: the epochs end within the warm-up, so the accuracy is not the "
            "method's; train longer"
        )
    if plan.recipe.words:
        terminal.say(plan.recipe.words)


def describe_plan(plan: ComparisonPlan) -> str:
    """What is going to be run, and whether all methods have the same recipe."""
    epochs = plan.epochs()
    counts = sorted(set(epochs.values()))
    if len(counts) == 1:
        said = f"all have {counts[0]} epochs"
    else:
        said = "epochs: " + ", ".join(f"{name} {count}" for name, count in epochs.items())
    if plan.recipe.equal:
        return (
            f"{len(plan.cells)} runs; --equal: every method has the preset's common epochs, "
            f"optimiser and network, not its own ({said})"
        )
    return (
        f"{len(plan.cells)} runs; each method uses its own recipe, from its section of the "
        f"preset ({said}); --equal gives all of them the same epochs, optimiser and network"
    )


def say_comparison(found: Comparison, out: Path, has_sweep: bool, terminal: Terminal) -> None:
    """One table per noise: side by side they would not fit a terminal."""
    from csot.figures.comparison.comparison import rows_for
    from csot.figures.comparison.table_model import align

    for name in found.noises:
        terminal.say()
        titles = ["method", *found.shown(), "seconds"]
        terminal.say(name)
        for line in align([titles, *rows_for(found, name)]):
            terminal.say(line)
    if has_sweep:
        say_sweep(found.sweep(), terminal)
    terminal.say()
    for title, words in found.legend().items():
        terminal.say(f"{title}: {words}")
    more = ", sweep.csv, sweep.png" if has_sweep else ""
    terminal.say(f"results are in {out}: compare.html, table.csv, table.tex, cells.csv{more}")


def say_sweep(sweep: pd.DataFrame, terminal: Terminal) -> None:
    """One table per setting and method: values down, noises across."""
    from csot.figures.comparison.comparison import cell_text
    from csot.figures.comparison.table_model import NOTHING, align

    for (setting, method), group in sweep.groupby(["setting", "method"], sort=False):
        noises, values = (list(dict.fromkeys(group[name])) for name in ("noise", "value"))
        cells = {
            (row["noise"], row["value"]): cell_text(row, "last") for _, row in group.iterrows()
        }
        lines = [[value, *(cells.get((n, value), NOTHING) for n in noises)] for value in values]
        terminal.say()
        terminal.say(f"{method}, last test accuracy over {setting}")
        for line in align([[str(setting), *noises], *lines]):
            terminal.say(line)


def describe_cell(cell: ComparisonCell, summary: dict[str, Any]) -> str:
    """One line about a finished run."""
    last, peak = summary.get("test_accuracy_last"), summary.get("test_accuracy_peak")
    scores = "no test set" if last is None else f"last {last:.2%}, peak {peak:.2%}"
    run = f"{cell.name} {cell.noise} seed {cell.seed}"
    return f"{run}: {scores}, {summary['seconds']:.0f} s"


def split_list(text: str, option: str) -> list[str]:
    """`a,b` -> [a, b]."""
    found = [part.strip() for part in text.split(",") if part.strip()]
    if not found:
        raise ValueError(f"{option} {text!r} names nothing: separate values by commas")
    return found


def parse_values(pairs: Sequence[str]) -> dict[str, list[Any]]:
    """`epsilon=0.05,0.1` -> {"epsilon": [0.05, 0.1]}; values are YAML."""
    from csot.training.config import parse_yaml

    found: dict[str, list[Any]] = {}
    for pair in pairs:
        key, equals, values = (part.strip() for part in pair.partition("="))
        if not equals or not key or not values:
            raise ValueError(
                f"--vary {pair}: write KEY=V1,V2, such as --vary csot.epsilon=0.05,0.1"
            )
        for value in parse_yaml(f"[{values}]", f"--vary {pair}"):
            found.setdefault(key, []).append(as_number(value))
    return found


def as_number(value: Any) -> Any:
    """`1e-3` is text to YAML 1.1."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


def split_numbers(text: str, option: str) -> list[int]:
    """`0,1` -> [0, 1]."""
    try:
        return [int(part) for part in split_list(text, option)]
    except ValueError as error:
        raise ValueError(f"{option} {text!r}: whole numbers separated by commas") from error
