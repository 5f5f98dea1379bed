"""Columns of a mixed table -> features, against a pipeline by hand and under permutations."""

import json
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from csot.data import Columns, DataError, DataWarning, TableFeatures, read_data
from csot.data.columns import parse_cells as cells
from csot.data.columns.kinds import suspect
from reference.table_features import category_block, date_block, number_block

N = 60
CITIES = ["Bern", "Oslo", "Rome"]


def mixed(n: int = N, seed: int = 0) -> pd.DataFrame:
    """Every cell as a CSV holds it."""
    rng = np.random.default_rng(seed)
    days = pd.Timestamp("2021-03-01") + pd.to_timedelta(rng.integers(0, 900, n), unit="D")
    table = pd.DataFrame(
        {
            "age": [str(age) for age in rng.integers(18, 90, n)],
            "city": rng.choice(CITIES, n),
            "joined": days.strftime("%d/%m/%Y"),
            "price": [f"€{price:,.2f}" for price in rng.uniform(5, 5000, n)],
            "rate": [f"{rate:.1f} %" for rate in rng.uniform(0, 100, n)],
            "weight": rng.normal(size=n),
            "zip": [f"{code:05d}" for code in rng.integers(0, 99999, n)],
            "customer_id": rng.permutation(10 * n)[:n],
            "note": [f"a few words about row {row}" for row in range(n)],
        }
    )
    table.loc[3, "age"] = ""
    table.loc[5, "joined"] = "n/a"
    table.loc[[7, 8], "city"] = ["Lima", "Cork"]
    return table


def test_against_a_pipeline_by_hand() -> None:
    table = mixed()
    made = TableFeatures.fit(table)
    days, cycles = date_block(
        [None if day == "n/a" else datetime.strptime(day, "%d/%m/%Y") for day in table["joined"]]
    )
    numbers = {
        "age": [float(age) if age else None for age in table["age"]],
        "joined": days,
        "price": [float(price[1:].replace(",", "")) for price in table["price"]],
        "rate": [float(rate[:-2]) / 100 for rate in table["rate"]],
        "weight": table["weight"].tolist(),
    }
    blocks = [number_block(column) for column in numbers.values()]
    flags = [flag for _, flag in blocks if flag is not None]
    expected = np.array(
        [
            *(scaled for scaled, _ in blocks),
            *flags,
            *category_block(table["city"].tolist(), rare=2),
            *cycles,
        ]
    ).T
    np.testing.assert_allclose(made.transform(table), expected, atol=1e-9)
    assert made.line() == (
        "uses age, city (category), joined (date), price (money), rate (percent), weight; ignores "
        "zip (looks like a postal code), customer_id (looks like an id), note (is running text; "
        "name it with `text`)"
    )


def test_a_table_of_numbers_is_scaled_as_ever() -> None:
    values = np.random.default_rng(0).normal(3, 5, (40, 4))
    values[:, 2] = 7.0
    table = pd.DataFrame(values, columns=list("abcd"))
    made = TableFeatures.fit(table)
    assert made.is_plain
    np.testing.assert_array_equal(made.encode(table), values)
    deviation = np.where(values.std(0) > 0, values.std(0), 1)
    np.testing.assert_allclose(made.transform(table), (values - values.mean(0)) / deviation)


@given(st.randoms(use_true_random=False))
@settings(max_examples=15, deadline=None)
def test_order_of_rows_and_columns(random: Any) -> None:
    table = mixed()
    features = TableFeatures.fit(table).transform(table)
    rows = random.sample(range(N), N)
    shuffled = table.iloc[rows].reset_index(drop=True)
    np.testing.assert_allclose(
        TableFeatures.fit(shuffled).transform(shuffled), features[rows], atol=1e-9
    )
    names = random.sample(list(table.columns), table.shape[1])
    other = TableFeatures.fit(table[names])
    assert set(other.names) == set(TableFeatures.fit(table).names)
    # The same columns in another order: distances between rows are the same.
    found = other.transform(table[names])
    np.testing.assert_allclose(found @ found.T, features @ features.T, atol=1e-8)


def test_saved_as_json_and_applied_to_new_rows() -> None:
    table = mixed()
    made = TableFeatures.fit(table)
    known = TableFeatures.from_dict(json.loads(json.dumps(made.as_dict())))
    np.testing.assert_array_equal(known.transform(table), made.transform(table))
    new = table.iloc[:4].copy()
    new["city"] = ["Paris", "", "Bern", "Lima"]
    new["price"] = ["", "-", "€1.00", "(€2.00)"]
    new.loc[2, "joined"] = "soon"
    features = known.transform(new)
    assert np.isfinite(features).all()
    for row in range(4):
        np.testing.assert_allclose(known.transform(new.iloc[row : row + 1])[0], features[row])
    pooled = features[:, 7 + len(CITIES)]
    assert pooled.tolist() == [1, 1, 0, 1], "unknown, empty and rare cities are pooled"
    with pytest.raises(DataError, match="no column 'rate'"):
        known.transform(table.drop(columns="rate"))


@pytest.mark.parametrize("key", ["medians", "categories", "mean", "used"])
def test_damaged_json_is_refused(key: str) -> None:
    values = TableFeatures.fit(mixed()).as_dict()
    for damaged in ({**values, key: type(values[key])()}, {**values, key: None}):
        with pytest.raises((KeyError, TypeError, ValueError)):
            TableFeatures.from_dict(damaged)
    with pytest.raises(KeyError):
        TableFeatures.from_dict({name: value for name, value in values.items() if name != "used"})


@pytest.mark.parametrize(
    ("text", "decimal", "expected"),
    [
        ("€1,234.50", ".", 1234.5),
        ("1.234,50 €", ",", 1234.5),
        ("$ -3", ".", -3),
        ("-$3", ".", -3),
        ("(3.20)", ".", -3.2),
        ("\u22127", ".", -7),
        ("12 %", ".", 0.12),
        ("12,5%", ",", 0.125),
        ("1 234", ".", 1234),
        ("1'234'567", ".", 1234567),
        ("CHF 12.-", ".", None),
        ("USD 12", ".", 12),
        ("1,23", ".", None),
        ("01.02.2020", ".", None),
        ("12 apples", ".", None),
        ("", ".", None),
    ],
)
def test_amounts(text: str, decimal: str, expected: float | None) -> None:
    found = cells.parse_amount(text, decimal)
    assert np.isnan(found) if expected is None else found == expected


@given(st.floats(-1e9, 1e9).map(lambda number: round(number, 2)))
def test_money_is_read_as_it_is_written(number: float) -> None:
    english = f"{'-' if number < 0 else ''}${abs(number):,.2f}"
    german = f"{number:,.2f} €".translate(str.maketrans(",.", ".,"))
    assert cells.parse_amount(english, ".") == number
    assert cells.parse_amount(german, ",") == number
    assert cells.decimal_sign([german, "1,5"]) == ","


@pytest.mark.parametrize(
    ("written", "form"),
    [
        ("%Y-%m-%d", cells.ISO),
        ("%Y-%m-%dT%H:%M:%SZ", cells.ISO),
        ("%d.%m.%Y", "%d.%m.%Y"),
        ("%m/%d/%Y %H:%M", "%m/%d/%Y %H:%M"),
        ("%d %b %Y", "%d %b %Y"),
        ("%B %d, %Y", "%B %d, %Y"),
    ],
)
def test_dates(written: str, form: str) -> None:
    days = pd.date_range("2019-12-20", periods=40, freq="D")
    values = list(days.strftime(written))
    assert cells.date_format(values) == form
    expected = (days - pd.Timestamp(0)) / pd.Timedelta(days=1)
    np.testing.assert_array_equal(cells.to_days(pd.Series(values), form), expected)


def test_dates_far_away() -> None:
    values = ["2821-01-02", "0001-01-01", "9999-12-31", "2020-13-45"]
    found = cells.to_days(pd.Series(values), cells.ISO)
    far = (date(2821, 1, 2) - date(1970, 1, 1)).days
    assert found[0] == far or np.isnan(found[0]), "missing where pandas counts nanoseconds"
    assert np.isnan(found[3])


def test_what_is_not_a_date() -> None:
    assert cells.date_format(["12", "13"]) is None
    assert cells.date_format(["1.2.3", "4.5.6"]) is None
    assert cells.date_format(["2020", "2021"]) is None


@pytest.mark.parametrize("name", ["id", "customer_id", "zipCode", "Phone 2", "UUID", "user-email"])
def test_suspects(name: str) -> None:
    assert suspect(name) is not None


@pytest.mark.parametrize("name", ["width", "idle", "video", "zipper", "tele", "paid"])
def test_no_suspects(name: str) -> None:
    assert suspect(name) is None


@pytest.mark.parametrize(
    ("values", "line"),
    [
        (list(range(40)), "ignores c (looks like row numbers)"),
        ([10**7 + 97 * k for k in range(40)], "ignores c (looks like an id: every value differs)"),
        ([k * k for k in range(40)], "uses c"),
        ([k / 3 for k in range(40)], "uses c"),
        ([f"x{k}" for k in range(40)], "ignores c (looks like an id: nearly every value differs)"),
        (["x"] * 40, "ignores c (the same in every row)"),
        ([""] * 40, "ignores c (empty)"),
        ([None] * 40, "ignores c (empty)"),
        (["yes", "no"] * 20, "uses c (category)"),
        ([True, False] * 20, "uses c"),
        ([{"a": 1}] * 40, "ignores c (holds dict values)"),
        ([[1.0, 2.0]] * 40, "uses c (embedding)"),
        ([[1.0]] * 39 + [[1.0, 2.0]], "ignores c (holds lists of 1 and, in row 39, a list of 2)"),
        (list(pd.date_range("2020", periods=40)), "uses c (date)"),
    ],
)
def test_kinds(values: list[object], line: str) -> None:
    found = TableFeatures.fit(pd.DataFrame({"c": pd.Series(values)}))
    assert line in found.line()
    if found.used:
        assert np.isfinite(found.transform(pd.DataFrame({"c": pd.Series(values)}))).all()


def test_few_values_of_a_suspect_are_categories() -> None:
    table = pd.DataFrame({"store_id": [1, 2, 3, 4] * 10, "zip": ["01", "02"] * 20})
    assert TableFeatures.fit(table).line() == "uses store_id (category), zip (category)"
    gaps = table.assign(store_id=table["store_id"].astype(float))
    made = TableFeatures.fit(table)
    np.testing.assert_array_equal(made.transform(gaps), made.transform(table))


def test_what_is_chosen_is_not_doubted() -> None:
    table = mixed(200)
    table["zip"] = [f"{row % 40:05d}" for row in range(200)]
    made = TableFeatures.fit(table, ["zip", "weight", "customer_id"][:2])
    assert made.line().startswith("uses zip (category), weight; ignores age, city,")
    with pytest.raises(DataError, match="'note' cannot be used as a feature: is running text"):
        TableFeatures.fit(table, ["note"])


def test_embeddings_beside_numbers_are_balanced() -> None:
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(50, 8)) * 100
    table = pd.DataFrame({"e": list(matrix), "a": rng.normal(size=50), "b": rng.normal(size=50)})
    alone = TableFeatures.fit(table, ["e"])
    np.testing.assert_array_equal(alone.transform(table), matrix)
    variances = TableFeatures.fit(table).transform(table).var(0)
    np.testing.assert_allclose(variances[:2], 1)
    np.testing.assert_allclose(variances[2:].sum(), 2)


def test_stray_cells_are_missing_and_told() -> None:
    table = pd.DataFrame({"a": [str(k * k) for k in range(30)] + ["many"]})
    with pytest.warns(DataWarning, match=r"column 'a' holds 1 .*'many' in row 30"):
        made = TableFeatures.fit(table)
    assert made.flagged == ["a"]


def test_the_reader_uses_them(tmp_path: Path) -> None:
    table = mixed().assign(label=np.tile(["x", "y"], N // 2))
    table.to_csv(tmp_path / "t.csv", index=False)
    data = read_data(tmp_path / "t.csv", Columns(label="label"))
    assert data.table_features is not None
    assert data.features is not None
    expected = TableFeatures.fit(table.drop(columns="label")).encode(table)
    np.testing.assert_allclose(data.features, expected)
    assert data.uses is not None
    assert data.uses.startswith("uses age, city (category), joined (date)")
    text = read_data(tmp_path / "t.csv", Columns("label", text="note", features=["age", "city"]))
    assert text.texts is not None
    assert text.features is not None
    assert text.uses is not None
    assert text.uses.startswith("uses note (text), age, city (category); ignores joined")
    alone = read_data(tmp_path / "t.csv", Columns("label", text="note"))
    assert (alone.features, alone.uses) == (None, "uses note (text)")
