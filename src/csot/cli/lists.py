"""`csot methods`, `csot presets` and `csot ablations`: what there is."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer
from rich.table import Table

from csot._core.text import printable
from csot.cli.terminal import Terminal
from csot.cli.train import require_training

presets = typer.Typer(help="Recipes for training.", no_args_is_help=True)


def methods(
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """List the methods of training."""
    with Terminal() as terminal:
        require_training("csot methods")
        from csot.methods import find_method, method_names

        found = {name: find_method(name) for name in method_names()}
        if as_json:
            facts = [
                {
                    "name": name,
                    "networks": kind.network_count,
                    "about": kind.about,
                    "reference": kind.reference,
                }
                for name, kind in found.items()
            ]
            typer.echo(json.dumps(facts, indent=2, ensure_ascii=False))
            return
        table = Table(box=None, pad_edge=False)
        table.add_column("method", no_wrap=True)
        table.add_column("networks", justify="right")
        table.add_column("")
        table.add_column("reference")
        for name, kind in found.items():
            table.add_row(name, str(kind.network_count), kind.about, kind.reference)
        terminal.say(table)


def ablations() -> None:
    """List the paper's ablations of CSOT."""
    with Terminal() as terminal:
        require_training("csot ablations")
        from csot.methods.core.registry import ABLATIONS, PLUS

        table = Table(box=None, pad_edge=False)
        for name in ("letter", "what is different", "settings"):
            table.add_column(name)
        for ablation in (*ABLATIONS, PLUS):
            settings = ", ".join(f"{key}={value}" for key, value in ablation.settings.items())
            table.add_row(ablation.letter, ablation.about, settings)
        terminal.say(table)
        terminal.say()
        command = "csot compare DATA --methods ablations --noise sym:0.5 --out RUN"
        terminal.say(f"run them with: {command}")


@presets.command("list")
def presets_list() -> None:
    """List the presets."""
    with Terminal() as terminal:
        require_training("csot presets")
        from csot.training import preset_names, read_preset

        table = Table(box=None, pad_edge=False)
        for name in ("preset", "epochs", "network", ""):
            table.add_column(name)
        for name in preset_names():
            preset = read_preset(name)
            training = preset.training
            table.add_row(name, str(training.epochs), training.network.name, preset.about)
        terminal.say(table)


@presets.command("show")
def presets_show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A preset, or a .yaml file.")],
    method: Annotated[
        str | None, typer.Option(help="Resolve it for this method, defaults and all.")
    ] = None,
    noise: Annotated[str | None, typer.Option(help="And for this noise: sym:0.5 ...")] = None,
) -> None:
    """Print a preset as it is, or the fully resolved configuration."""
    with Terminal():
        require_training("csot presets")
        import yaml

        from csot.training.presets import make_config, preset_text, read_preset

        if method is None and noise is None:
            text = preset_text(name)
        else:
            data = read_preset(name).data or "DATA"
            config = make_config(data, method or "csot", preset=name, noise=noise or "none")
            text = yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False)
        # Not by rich: if it is written to a file, it must be unchanged.
        typer.echo(printable(text) if sys.stdout.isatty() else text, nl=False)
