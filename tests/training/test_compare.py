"""`csot.training.compare` from Python; tests/cli/test_compare.py has the command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from csot.data import Columns
from csot.methods import method_names
from csot.training import Source, compare
from csot.training.compare import ComparisonCell, ComparisonPlan, Recipe, expand_methods, list_cells
from training.quick import FEATURES, write_table

SMALL = {
    "epochs": 2,
    "training.network": {"name": "mlp", "width": 16},
    "dataset.limit": 200,
    "csot.warmup": 1,
    "csot.supervised_epochs": 2,
}


def test_tables_and_callbacks(tmp_path: Path) -> None:
    seen: list[ComparisonCell] = []
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


def test_a_run_on_other_labels_is_not_mixed_in(tmp_path: Path) -> None:
    table, verified = write_table(tmp_path / "t.csv"), tmp_path / "verified.csv"
    verified.write_text("id,label\nrow 0,class 0\n")
    features = list("abcde")
    tried: dict[str, Any] = {"methods": ["cross_entropy"], "out": tmp_path / "all"}
    tried["settings"] = {**FEATURES, "epochs": 1}

    def source(label: str = "y", **more: Any) -> Source:
        columns = Columns(label=label, id="id", features=features)
        return Source(**{"columns": columns, "verified": verified, **more})

    compare(str(table), source=source(), **tried)
    compare(str(table), source=source(), **tried)  # the same again
    for other in (source("z"), source(verified=None), source(test=table), source(root=tmp_path)):
        with pytest.raises(ValueError, match="a run with other settings or data"):
            compare(str(table), source=other, **tried)
    write_table(table, wrong=23)
    with pytest.raises(ValueError, match="a run with other settings or data"):
        compare(str(table), source=source(), **tried)


def test_groups_of_methods_are_expanded_once() -> None:
    assert expand_methods(["all"]) == method_names()
    assert expand_methods(["csot@c", "ablations", "csot"])[:3] == ["csot@c", "csot", "csot@a"]
    assert len(expand_methods(["all", "ablations"])) == len(method_names()) + 10
    with pytest.raises(ValueError, match="did you mean 'elr'"):
        expand_methods(["elrr"])


def test_a_setting_may_be_for_one_method() -> None:
    recipe = Recipe("digits", Path("out"), "digits", {"epochs": 3, "csot.epsilon": 0.5})
    first, second = (recipe.config(ComparisonCell(name, "none", 0)) for name in ("csot", "elr"))
    assert first.settings["epsilon"] == 0.5
    deep = Recipe("digits", Path("out"), "digits", {"network.width": 8, "elr.training.epochs": 5})
    widths = [
        deep.config(ComparisonCell(name, "none", 0)).training.network.width
        for name in ("csot", "elr")
    ]
    assert widths == [8, 8], "a key with a dot need not begin with a method"
    assert deep.config(ComparisonCell("elr", "none", 0)).training.epochs == 5
    assert first.training.epochs == second.training.epochs == 3


def test_own_recipes_unless_equal() -> None:
    own, equal = (Recipe("cifar10", Path("out"), "cifar10", equal=value) for value in (False, True))
    csot, elr = (ComparisonCell(name, "sym:0.5", 0) for name in ("csot", "elr"))
    assert [ComparisonPlan(own, [csot, elr]).epochs()[name] for name in ("csot", "elr")] == [
        450,
        150,
    ]
    assert set(ComparisonPlan(equal, [csot, elr]).epochs().values()) == {300}


def test_settings_are_varied_one_at_a_time() -> None:
    vary = {"csot.epsilon": [0.05, 0.1], "csot.coherence": [0.0, 0.10, 0.1], "epochs": [3]}
    cells = list_cells(["csot", "elr"], ["none"], [0], vary)
    assert [cell.name for cell in cells] == [
        "csot epsilon=0.05",
        "csot epsilon=0.1",
        "csot coherence=0",
        "csot coherence=0.1",
        "csot epochs=3",
        "elr epochs=3",
    ], "equal values count once; a key without a method is for all"
    recipe = Recipe("digits", Path("out"), "digits")
    first = recipe.config(cells[0])
    assert (first.settings["epsilon"], first.settings["coherence"]) == (0.05, 1.0)
    assert cells[0].folder(Path("out")) == Path("out/cells/csot+epsilon=0.05/none/seed-0")


def test_a_folder_name_has_no_slashes() -> None:
    cell = ComparisonCell("csot", "matrix:/data/my matrix.npy", 0)
    assert cell.folder(Path("out")) == Path("out/cells/csot/matrix--data-my-matrix.npy/seed-0")
