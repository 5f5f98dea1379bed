"""`csot methods`, `csot presets` and `csot ablations`: lists of what is available."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from csot._core.text import printable
from csot.cli.options import AsJson, complete_method, complete_preset
from csot.cli.terminal import Terminal
from csot.cli.train import require_training

presets = typer.Typer(help="Recipes for training.", no_args_is_help=True)


NamesOnly = Annotated[bool, typer.Option("--quiet", "-q", help="Print only the names.")]


def methods(quiet: NamesOnly = False, as_json: AsJson = False) -> None:
    """List the methods of training.

    Example: csot methods --json
    """
    with Terminal(as_json=as_json) as terminal:
        require_training("csot methods")
        from csot.methods import find_method, method_names

        found = [(name, find_method(name)) for name in method_names()]
        facts = [
            {
                "name": name,
                "networks": kind.network_count,
                "about": kind.about,
                "reference": kind.reference,
            }
            for name, kind in found
        ]
        headers = {"name": "method", "networks": "networks", "about": "", "reference": "reference"}
        _show(facts, headers, quiet, terminal)


def ablations(quiet: NamesOnly = False, as_json: AsJson = False) -> None:
    """List the paper's ablations of CSOT.

    Example: csot compare digits --methods ablations --noise sym:0.5
    """
    with Terminal(as_json=as_json) as terminal:
        require_training("csot ablations")
        from csot.methods.core.method_registry import ABLATIONS, PLUS

        facts = [
            {
                "letter": one.letter,
                "about": one.about,
                "settings": ", ".join(f"{key}={value}" for key, value in one.settings.items()),
            }
            for one in (*ABLATIONS, PLUS)
        ]
        headers = {"letter": "letter", "about": "what is different", "settings": "settings"}
        _show(facts, headers, quiet, terminal)
        if not quiet:
            terminal.say()
            command = "csot compare DATA --methods ablations --noise sym:0.5 --out RUN"
            terminal.say(f"run them with: {command}")


@presets.command("list")
def presets_list(quiet: NamesOnly = False, as_json: AsJson = False) -> None:
    """List the presets.

    Example: csot presets list
    """
    with Terminal(as_json=as_json) as terminal:
        require_training("csot presets")
        from csot.training import preset_names, read_preset

        found = [(name, read_preset(name)) for name in preset_names()]
        facts = [
            {
                "name": name,
                "epochs": preset.training.epochs,
                "network": preset.training.network.name,
                "about": preset.about,
            }
            for name, preset in found
        ]
        headers = {"name": "preset", "epochs": "epochs", "network": "network", "about": ""}
        _show(facts, headers, quiet, terminal)


def _show(
    facts: Sequence[dict[str, Any]], headers: dict[str, str], quiet: bool, terminal: Terminal
) -> None:
    """A table with a row for each entry, or only the first cell of each."""
    first = next(iter(headers))
    if quiet:
        for entry in facts:
            terminal.say(str(entry[first]))
    else:
        table = Table(box=None, pad_edge=False)
        for key, header in headers.items():
            is_number = bool(facts) and isinstance(facts[0][key], int)
            table.add_column(header, no_wrap=key == first, justify="right" if is_number else "left")
        for entry in facts:
            table.add_row(*(Text(str(entry[key])) for key in headers))
        terminal.say(table)
    terminal.result(list(facts))


@presets.command("show")
def presets_show(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="A preset, or a .yaml file.", autocompletion=complete_preset
        ),
    ],
    method: Annotated[
        str | None,
        typer.Option(
            help="Resolve it for this method, including all defaults.",
            autocompletion=complete_method,
        ),
    ] = None,
    noise: Annotated[
        str | None, typer.Option(help="Resolve it for this noise: sym:0.5 ...")
    ] = None,
    quiet: Annotated[
        bool,
        typer.Option(
            "--quiet", "-q", help="Print nothing; the exit code tells whether it is valid."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Print a preset as it is, or the fully resolved configuration.

    Example: csot presets show cifar10 --method csot --noise sym:0.5
    """
    with Terminal(quiet, as_json) as terminal:
        require_training("csot presets")
        import yaml

        from csot.training.config import parse_yaml
        from csot.training.presets import make_config, preset_text, read_preset

        if method is None and noise is None:
            text = preset_text(name)
        else:
            data = read_preset(name).data or "DATA"
            config = make_config(data, method or "csot", preset=name, noise=noise or "none")
            text = yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False)
        if as_json:
            terminal.result(parse_yaml(text, name))
            return
        # Not by rich: if it is written to a file, it must be unchanged.
        if not quiet:
            typer.echo(printable(text) if sys.stdout.isatty() else text, nl=False)
