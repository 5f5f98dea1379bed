"""The gallery shows every figure in both themes, with its command below it."""

from __future__ import annotations

import re
from pathlib import Path

from csot.figures.catalogue import FIGURES

PAGE = (Path(__file__).parents[2] / "docs" / "gallery.md").read_text(encoding="utf-8")


def test_every_figure_is_shown_with_its_command() -> None:
    shown = re.findall(r"\(gallery/([\w-]+)\.png#only-(light|dark)\)", PAGE)
    wanted = [(name, "light") for name in FIGURES]
    wanted += [(f"{name}-dark", "dark") for name in FIGURES]
    assert sorted(shown) == sorted(wanted)
    for name in FIGURES:
        picture = PAGE.index(f"gallery/{name}.png")
        assert f"    csot figures {name} " in PAGE[picture:], name


def test_every_command_names_a_figure() -> None:
    named = set(re.findall(r"^ {4}csot figures ([\w-]+)", PAGE, re.MULTILINE))
    assert named - {"list", "all"} == set(FIGURES)
