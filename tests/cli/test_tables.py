"""Mixed tables through `csot clean`, and new rows by `--with`."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner, Result

from csot.cli.app import app
from csot.cli.terminal import as_options
from csot.runs import Run

N = 160
EMBEDDER = """
import numpy as np
def embed(texts):
    return np.array([[len(text), text.count("a"), text.count("e")] for text in texts], float)
"""


def clean(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["clean", *map(str, arguments)], env={"COLUMNS": "200"})


def mixed() -> pd.DataFrame:
    """The class shows in the city, the date and the price; every cell as a user writes it."""
    rng = np.random.default_rng(0)
    truth = np.arange(N) % 2
    days = pd.Timestamp("2022-01-01") + pd.to_timedelta(rng.integers(0, 300, N) + 300 * truth, "D")
    given = np.where(rng.random(N) < 0.15, 1 - truth, truth)
    table = pd.DataFrame(
        {
            "age": rng.integers(20, 60, N).astype(str),
            "city": np.where(rng.random(N) < 0.8, np.where(truth, "Oslo", "Rome"), "Bern"),
            "joined": days.strftime("%Y-%m-%d"),
            "price": [f"€{price:,.2f}" for price in rng.normal(1500, 150, N) + 700 * truth],
            "zip": [f"{code:05d}" for code in rng.integers(1000, 99999, N)],
            "note": [f"{'a ' * (3 + 5 * t)}{row} words" for row, t in enumerate(truth)],
            "kind": np.where(given, "new", "old"),
            "truth": np.where(truth, "new", "old"),
        }
    )
    table.loc[::9, "age"] = ""
    table.loc[4, "joined"] = ""
    return table


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pd.DataFrame:
    monkeypatch.chdir(tmp_path)
    made = mixed()
    made[:120].drop(columns="truth").to_csv("old.csv", index=False)
    made[120:].drop(columns="truth").to_csv("new.csv", index=False)
    return made


def right(run: Path, table: pd.DataFrame, rows: slice) -> float:
    found = Run.open(run).read_findings()["corrected_label"].to_numpy()
    return float((found == table["truth"][rows].to_numpy()).mean())


def test_a_mixed_table_and_new_rows(table: pd.DataFrame) -> None:
    result = clean("old.csv", "--label", "kind", "--out", "run")
    assert result.exit_code == 0, result.output
    assert (
        "uses age, city (category), joined (date), price (money); ignores zip (looks like a postal "
        "code), note (is running text; name it with --text)"
    ) in result.stdout
    assert right(Path("run"), table, slice(0, 120)) > 0.95
    new = pd.read_csv("new.csv", dtype=str, keep_default_na=False)
    new.loc[0, ["city", "price"]] = ["Paris", ""]
    new[new.columns[::-1]].to_csv("new.csv", index=False)
    result = clean("new.csv", "--with", "run", "--out", "judged")
    assert result.exit_code == 0, result.output
    assert right(Path("judged"), table, slice(120, None)) > 0.9
    one = new.iloc[7:8]
    one.to_csv("one.csv", index=False)
    assert clean("one.csv", "--with", "run", "--out", "single").exit_code == 0
    row = Run.open(Path("single")).read_findings().reset_index(drop=True)
    expected = Run.open(Path("judged")).read_findings().iloc[7:8].reset_index(drop=True)
    pd.testing.assert_frame_equal(row, expected, rtol=1e-9)
    result = clean("new.csv", "--with", "run", "--features", "age", "--out", "other")
    assert "judges by age, city, joined, price; leave --features out" in result.stderr


def test_text_beside_columns(table: pd.DataFrame) -> None:
    Path("lengths.py").write_text(EMBEDDER)
    both = ("--text", "note", "--features", "city,price")
    own = ("--embedder", "lengths:embed")
    result = clean("old.csv", "--label", "kind", *both, *own, "--out", "run")
    assert result.exit_code == 0, result.output
    assert "uses note (text), city (category), price (money); ignores age" in result.stdout
    assert right(Path("run"), table, slice(0, 120)) > 0.95
    result = clean("new.csv", "--with", "run", *own, "--out", "judged")
    assert result.exit_code == 0, result.output
    assert right(Path("judged"), table, slice(120, None)) > 0.95
    inputs = json.loads(Path("run/summary.json").read_text())["inputs"]
    assert inputs["divisor"] != 1
    assert [column["kind"] for column in inputs["table"]["used"]] == ["category", "money"]


def test_label_variants(table: pd.DataFrame) -> None:
    table.loc[:20, "kind"] = table.loc[:20, "kind"].str.upper()
    table[:120].drop(columns="truth").to_csv("old.csv", index=False)
    result = clean("old.csv", "--label", "kind", "--merge-variants", "--out", "run")
    assert result.exit_code == 0, result.output
    findings = Run.open(Path("run")).read_findings()
    assert set(findings["given_label"]) == {"new", "old"}
    summary = json.loads(Path("run/summary.json").read_text())
    assert "--merge-variants" in summary["settings"]["command"]


def test_parameters_are_shown_as_options() -> None:
    assert as_options("name it with `allow_outside`, `id`") == "name it with --allow-outside, --id"
    assert as_options("`hf auth login` and `other`") == "`hf auth login` and `other`"
