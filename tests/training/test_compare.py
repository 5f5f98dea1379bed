"""`csot.training.compare` from Python; tests/cli/test_compare.py has the command."""

from __future__ import annotations

from pathlib import Path

import pytest

from csot.methods import method_names
from csot.training import compare
from csot.training.compare import Cell, Recipe, expand_methods, list_cells

SMALL = {
    "epochs": 2,
    "training.network": {"name": "mlp", "width": 16},
    "dataset.limit": 200,
    "csot.warmup": 1,
    "csot.supervised_epochs": 2,
}


def test_tables_and_callbacks(tmp_path: Path) -> None:
    seen: list[Cell] = []
    methods = ["cross_entropy", "csot@j"]
    found = compare(
        "digits",
        methods,
        out=tmp_path,
        noises=["sym:0.5"],
        settings=SMALL,
        on_cell=lambda cell, summary: seen.append(cell),
    )
    assert seen == list_cells(methods, ["sym:0.5"], [0])
    assert found.methods == methods
    assert found.noises == ["sym:0.5"]
    assert {"compare.html", "table.csv", "table.tex", "cells.csv", "cells"} <= {
        path.name for path in tmp_path.iterdir()
    }


def test_groups_of_methods_are_expanded_once() -> None:
    assert expand_methods(["all"]) == method_names()
    assert expand_methods(["csot@c", "ablations", "csot"])[:3] == ["csot@c", "csot", "csot@a"]
    assert len(expand_methods(["all", "ablations"])) == len(method_names()) + 10
    with pytest.raises(ValueError, match="did you mean 'elr'"):
        expand_methods(["elrr"])


def test_a_setting_may_be_for_one_method() -> None:
    recipe = Recipe("digits", Path("out"), "digits", {"epochs": 3, "csot.epsilon": 0.5})
    first, second = (recipe.config(Cell(name, "none", 0)) for name in ("csot", "elr"))
    assert first.settings["epsilon"] == 0.5
    assert first.training.epochs == second.training.epochs == 3
