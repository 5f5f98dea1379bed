"""`csot methods`: which there are."""

from __future__ import annotations

import json

import typer
from rich.table import Table

from csot.commands.terminal import Terminal
from csot.data.errors import require


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
