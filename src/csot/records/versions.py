"""Versions of what a run was made with."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

PACKAGES = ("csot", "torch", "numpy", "scipy", "scikit-learn", "pandas")


def versions(*more: str) -> dict[str, str]:
    """Python's, those of the packages that every run uses, and of `more`."""
    found = {name: _version(name) for name in (*PACKAGES, *more)}
    return {"python": platform.python_version(), **found}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
