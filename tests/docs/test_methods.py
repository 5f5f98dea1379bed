"""The table of methods in the docs is that of the folder."""

from __future__ import annotations

from pathlib import Path

from csot.methods import find_method, method_names
from csot.methods.core.method_registry import ABLATIONS

PAGE = Path(__file__).parents[2] / "docs" / "compare.md"


def test_every_method_has_its_row() -> None:
    section = PAGE.read_text(encoding="utf-8").partition("## Methods")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("|`")]
    known = [(name, find_method(name)) for name in method_names()]
    assert rows == [f"|`{name}`|{m.about}|{m.network_count}|" for name, m in known]


def test_ablations_have_the_papers_letters() -> None:
    assert "".join(ablation.letter for ablation in ABLATIONS) == "abcdefghij"
