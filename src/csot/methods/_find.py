"""From a name to a method: the files of this folder are the list."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from pathlib import Path

from csot.data.errors import listed, nearest
from csot.methods._base import Method


def method_names() -> list[str]:
    """Every file of the folder that does not start with an underscore."""
    found = pkgutil.iter_modules([str(Path(__file__).parent)])
    return sorted(module.name for module in found if not module.name.startswith("_"))


def find_method(name: str) -> type[Method]:
    """The one sub-class of `Method` that the file `name` defines."""
    known = method_names()
    if name not in known:
        raise ValueError(
            f"method {name!r} is unknown{nearest(name, known)}; there are {listed(known, 20)}"
        )
    module = import_module(f"csot.methods.{name}")
    defined = [
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, Method)
        and value.__module__ == module.__name__
    ]
    if len(defined) != 1:
        raise TypeError(f"csot/methods/{name}.py must define one Method, it has {len(defined)}")
    return defined[0]
