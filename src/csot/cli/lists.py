"""`csot methods` and `csot presets`: what there is."""

from __future__ import annotations

import json
import sys

import typer
from rich.table import Table

from csot._core.errors import require
from csot._core.text import printable
from csot.cli.terminal import Terminal


def list_methods(terminal: Terminal, as_json: bool) -> None:
    """Name, networks, one line and reference each."""
    for module in ("yaml", "pydantic"):
        require(module, "train", "csot methods")
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


# `csot presets`: which there are, and what is in one.


def list_presets(terminal: Terminal) -> None:
    """Name and one line each."""
    _require()
    from csot.training.presets import preset_names, read_preset

    table = Table(box=None, pad_edge=False)
    for name in ("preset", "epochs", "network", ""):
        table.add_column(name)
    for name in preset_names():
        preset = read_preset(name)
        training = preset.training
        table.add_row(name, str(training.epochs), training.network.name, preset.about)
    terminal.say(table)


def show_preset(name: str, method: str | None, noise: str | None) -> None:
    """The file as it is; or, for a method or a noise, the whole configuration that it comes to."""
    _require()
    import yaml

    from csot.training.presets import make_config, preset_text, read_preset

    if method is None and noise is None:
        text = preset_text(name)
    else:
        config = make_config(
            read_preset(name).data or "DATA", method or "csot", preset=name, noise=noise or "none"
        )
        text = yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False)
    # Not by rich: this is meant to become a file, which gets it unchanged.
    typer.echo(printable(text) if sys.stdout.isatty() else text, nl=False)


def _require() -> None:
    for module in ("yaml", "pydantic"):
        require(module, "train", "csot presets")
