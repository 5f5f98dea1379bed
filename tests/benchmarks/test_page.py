"""The page of the cleaner's benchmarks shows what was measured."""

from __future__ import annotations

from pathlib import Path

import pytest

import page

TEXT = (Path(__file__).parents[2] / "docs" / "benchmarks-cleaning.md").read_text("utf-8")


@pytest.mark.parametrize(("title", "table"), page.tables().items())
def test_the_tables_are_those_of_the_stored_results(title: str, table: str) -> None:
    assert table in TEXT, f"python benchmarks/page.py prints another table of {title}"
