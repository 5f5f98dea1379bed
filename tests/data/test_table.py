"""CSV and Parquet tables."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from csot.data import Columns, DataError, DataWarning, MissingExtraError, read_data
from csot.data.labels import tidy_labels
from image_files import write_image

ROWS = "id,zip,label,a,b\nx1,007,cat,1.5,2\nx2,008,dog,2.5,3\nx3,NA,cat,3.5,4\nx4,,dog,4.5,5\n"


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_chosen_feature_columns(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", ROWS)
    data = read_data(path, Columns(label="label", features=["b", "a"]))
    assert data.ids == ["x1", "x2", "x3", "x4"]
    assert data.labels.tolist() == ["cat", "dog", "cat", "dog"]
    assert data.features is not None
    np.testing.assert_array_equal(data.features[0], [2.0, 1.5])
    assert data.table is not None
    assert data.table["zip"].tolist() == ["007", "008", "NA", ""], "other cells stay as written"


def test_all_numeric_columns(tmp_path: Path) -> None:
    text = "id,label,a,word,b\n1,cat,1,u,0\n2,dog,2,v,1\n3,cat,3,w,0\n"
    with pytest.warns(DataWarning, match="one row only"):
        data = read_data(write(tmp_path / "t.csv", text), Columns(label="label"))
    assert data.feature_columns == ["a", "b"]


def test_a_group_column(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "id,label,who,a\n1,cat,7,1\n2,dog,,2\n3,cat,7,3\n4,dog,8,4\n")
    data = read_data(path, Columns(label="label", group="who"))
    assert data.groups is not None
    assert data.groups.tolist() == ["7", None, "7", "8"]
    assert data.feature_columns == ["a"], "a group is not a feature"
    with pytest.raises(DataError, match=r"no column 'whom' \(`group`\).*did you mean 'who'"):
        read_data(path, Columns(label="label", group="whom"))


def test_groups_of_the_texts_that_are_kept(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "label,who,t\ncat,a,x\ncat,b,\ndog,c,y\ndog,d,z\ncat,e,w\n")
    data = read_data(path, Columns(label="label", text="t", group="who"))
    assert data.groups is not None
    assert data.groups.tolist() == ["a", "c", "d", "e"]


@pytest.mark.parametrize("cell", ["", "NA", "1.2x"])
@pytest.mark.parametrize("columns", [Columns(label="label"), Columns("label", features=["b"])])
def test_a_cell_that_is_not_a_number(tmp_path: Path, cell: str, columns: Columns) -> None:
    """The median stands in for it, and a flag says so."""
    text = f"label,a,b\ncat,1,1\ndog,2,{cell}\ncat,3,3\ndog,4,8\n"
    path = write(tmp_path / "t.csv", text)
    if cell == "1.2x":
        with pytest.warns(DataWarning, match=r"column 'b' holds 1 .*'1\.2x' in row 1"):
            data = read_data(path, columns)
    else:
        data = read_data(path, columns)
    assert data.features is not None
    expected = [[1, 0], [3, 1], [3, 0], [8, 0]]
    if columns.features is None:
        expected = [[1, 1, 0], [2, 3, 1], [3, 3, 0], [4, 8, 0]]
    assert data.features.tolist() == expected


def test_infinite_feature(tmp_path: Path) -> None:
    text = "label,a\ncat,1\ndog,inf\ncat,3\n"
    with pytest.raises(DataError, match=r"holds inf in row 1 .*column 'a'"):
        read_data(write(tmp_path / "t.csv", text), Columns(label="label"))


def test_unnamed_row_numbers_are_left_out(tmp_path: Path) -> None:
    frame = pd.DataFrame({"label": ["a", "b", "a", "b"], "x": [1.0, 2.0, 3.0, 4.0]})
    frame.to_csv(tmp_path / "t.csv")
    data = read_data(tmp_path / "t.csv", Columns(label="label"))
    assert data.feature_columns == ["x"]
    assert data.uses == "uses x; ignores Unnamed: 0 (looks like row numbers)"


def test_no_column_to_judge_by(tmp_path: Path) -> None:
    text = "label,word\na,u\nb,v\n"
    with pytest.raises(DataError, match=r"ignores word \(looks like an id.*`features`.*`text`"):
        read_data(write(tmp_path / "t.csv", text), Columns(label="label"))


def test_missing_column_lists_columns_and_the_nearest(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", ROWS)
    with pytest.raises(
        DataError, match=r"no column 'Lable' \(`label`\); it has id, zip, .*'label'\?"
    ):
        read_data(path, Columns(label="Lable"))
    with pytest.raises(DataError, match="`features`"):
        read_data(path, Columns(label="label", features=["aa"]))


def test_no_label_column_given(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="name its label column with `label`"):
        read_data(write(tmp_path / "t.csv", ROWS))


def test_contradicting_columns(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", ROWS)
    with pytest.raises(DataError, match="both given"):
        read_data(path, Columns(label="label", text="zip", image="id"))
    with pytest.raises(DataError, match="cannot also be"):
        read_data(path, Columns(label="label", text="label"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("label,a\n", "no rows"),
        ("label,a\ncat,1\ncat,2\n", r"one class \('cat', 2 times\)"),
        ("label,a\ncat,1\ndog,2\n", "no two rows share one"),
        ("label,a\n,1\n,2\n", "no row has a label"),
        ("label,label\ncat,1\n", "'label' twice"),
        ("id,label,a\n1,cat,1\n1,dog,2\n", "id '1' twice, in rows 0 and 1"),
        ("id,label,a\n1,cat,1\n,dog,2\n", "no id in row 1"),
        ('label,a\n"cat,1\n', "not a regular CSV"),
        ("label,a\ncat,1\ndog,2,3\n", "not a regular CSV"),
        ("label,a\ncat,1,5\ndog,2,3\n", "more cells than its header"),
    ],
)
def test_unusable_tables(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_data(write(tmp_path / "t.csv", text), Columns(label="label"))


def test_not_utf8(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes("label,a\ncaf\xe9,1\n".encode("latin-1"))
    with pytest.raises(DataError, match="not UTF-8"):
        read_data(tmp_path / "t.csv", Columns(label="label"))


def test_a_label_that_occurs_once(tmp_path: Path) -> None:
    text = "label,a\ncat,1\ncat,2\ndog,3\n"
    with pytest.warns(DataWarning, match=r"one row only \(dog\): kept"):
        assert len(read_data(write(tmp_path / "t.csv", text), Columns(label="label"))) == 3


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["2", "10", "2", "10"], [2, 10, 2, 10]),
        (["1.0", "2.0", "1.0", ""], [1, 2, 1, None]),
        (["-1", "0", "1", "0", "1"], [None, 0, 1, 0, 1]),
        (["-1", "1", "-1", "1"], [-1, 1, -1, 1]),
        (["01", "02", "01", "02"], ["01", "02", "01", "02"]),
        (["NA", "None", "NA", " None "], ["NA", "None", "NA", "None"]),
        (["0.5", "1.5", "0.5"], ["0.5", "1.5", "0.5"]),
    ],
)
@pytest.mark.filterwarnings("ignore::csot.data.DataWarning")
def test_types_of_labels(tmp_path: Path, cells: list[str], expected: list[object]) -> None:
    frame = pd.DataFrame({"label": cells, "a": np.arange(len(cells))})
    frame.to_csv(tmp_path / "t.csv", index=False)
    assert read_data(tmp_path / "t.csv", Columns(label="label")).labels.tolist() == expected


def test_labels_of_odd_types() -> None:
    values = [True, b"cat ", pd.NA, pd.NaT, np.float32(2), None]
    with pytest.warns(DataWarning, match="mixes numbers"):
        assert tidy_labels(values, "x").tolist() == ["True", "cat", None, None, "2", None]


def test_mixed_labels_become_text(tmp_path: Path) -> None:
    text = "label,a\n1,1\ncat,2\n1,3\ncat,4\n"
    with pytest.warns(DataWarning, match="mixes numbers .such as 1. and text .such as 'cat'"):
        data = read_data(write(tmp_path / "t.csv", text), Columns(label="label"))
    assert data.labels.tolist() == ["1", "cat", "1", "cat"]


@pytest.mark.parametrize("separator", [";", "\t", "|"])
def test_other_separators_and_a_byte_order_mark(tmp_path: Path, separator: str) -> None:
    path = write(tmp_path / "t.csv", "\ufeff" + ROWS.replace(",", separator))
    data = read_data(path, Columns(label="label", features=["a"]))
    assert data.ids[0] == "x1"


def test_texts(tmp_path: Path) -> None:
    text = 'text,label\n"two\nlines, one comma",a\nNA,b\n ,a\n007,b\nlast,a\n'
    data = read_data(write(tmp_path / "t.csv", text), Columns(label="label", text="text"))
    assert data.texts == ["two\nlines, one comma", "NA", "007", "last"]
    assert data.ids == ["0", "1", "3", "4"]
    assert [skipped.id for skipped in data.skipped] == ["2"]
    assert data.table is not None
    assert len(data.table) == 5


def test_image_paths(tmp_path: Path) -> None:
    for name in ("1.png", "2.png", "3.png", "4.png"):
        write_image(tmp_path / "pics" / name)
    text = "file,label\n1.png,a\n2.png,b\nlost.png,a\n3.png,a\n,b\n4.png,b\n"
    path = write(tmp_path / "t.csv", text)
    columns = Columns(label="label", image="file")
    data = read_data(path, columns, root=tmp_path / "pics")
    assert data.images is not None
    assert [image.name for image in data.images] == ["1.png", "2.png", "3.png", "4.png"]
    reasons = {skipped.id: skipped.reason for skipped in data.skipped}
    assert reasons == {"2": "no such file", "4": "no path in column 'file'"}
    with pytest.raises(DataError, match=r"no image of column 'file' can be read.*`root`"):
        read_data(path, columns)


def test_parquet(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame(
        {
            "label": [0.0, 1.0, np.nan, 0.0, 1.0],
            "a": [1, 2, 3, 4, 5],
            "ok": [True, False, True, False, True],
            "word": list("abcde"),
        }
    )
    frame.to_parquet(tmp_path / "t.parquet")
    data = read_data(tmp_path / "t.parquet", Columns(label="label"))
    assert data.labels.tolist() == [0, 1, None, 0, 1]
    assert data.feature_columns == ["a", "ok"]
    assert data.ids == ["0", "1", "2", "3", "4"]
    frame.loc[2, "a"] = None
    frame.to_parquet(tmp_path / "t.parquet")
    features = read_data(tmp_path / "t.parquet", Columns(label="label")).features
    assert features is not None
    assert features[2].tolist() == [3, 1, 1], "the median, `ok`, and that `a` was missing"


def test_parquet_with_nullable_columns(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame(
        {
            "label": pd.array([0, 1, None, 1, 0, 1], dtype="Int64"),
            "text": pd.array(["a", "b", "c", None, "d", "e"], dtype="string"),
        }
    )
    frame.to_parquet(tmp_path / "t.parquet")
    data = read_data(tmp_path / "t.parquet", Columns(label="label", text="text"))
    assert data.labels.tolist() == [0, 1, None, 0, 1]
    assert data.texts == ["a", "b", "c", "d", "e"]
    frame["n"] = pd.array([1, 2, 3, None, 5, 6], dtype="Int64")
    frame.to_parquet(tmp_path / "t.parquet")
    features = read_data(tmp_path / "t.parquet", Columns(label="label", features=["n"])).features
    assert features is not None
    assert features[3].tolist() == [3, 1]
    with pytest.raises(DataError, match="no id in row 3"):
        read_data(tmp_path / "t.parquet", Columns(label="label", id="n", text="text"))


def test_parquet_with_an_index_of_two_levels(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame(
        {"label": [0, 1] * 3, "a": range(6), "site": list("xxxyyy"), "id": range(6)}
    )
    frame.set_index(["site", "id"]).to_parquet(tmp_path / "t.parquet")
    data = read_data(tmp_path / "t.parquet", Columns(label="label", features=["a"], group="site"))
    assert data.ids == [str(row) for row in range(6)]
    assert data.groups is not None
    assert data.groups.tolist() == list("xxxyyy")


@pytest.mark.parametrize("lost", ["label", "id"])
def test_parquet_with_metadata_of_another_table(tmp_path: Path, lost: str) -> None:
    """pandas would name the columns as the metadata do."""
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    frame = pd.DataFrame({"id": list("abcd"), "label": [0, 1, 0, 1], "n": [1.0, 2.0, 3.0, 5.0]})
    table = pa.Table.from_pandas(frame.set_index("id"))
    facts = table.schema.metadata[b"pandas"].replace(f'"name": "{lost}"'.encode(), b'"name": "x"')
    assert facts != table.schema.metadata[b"pandas"]
    parquet.write_table(table.replace_schema_metadata({"pandas": facts}), tmp_path / "t.parquet")
    with pytest.raises(DataError, match=rf"t\.parquet: its pandas metadata do not name {lost}"):
        read_data(tmp_path / "t.parquet", Columns(label="label"))


def test_broken_parquet(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    (tmp_path / "t.parquet").write_bytes(b"PAR1 and then nothing")
    with pytest.raises(DataError, match="not a readable Parquet"):
        read_data(tmp_path / "t.parquet", Columns(label="label"))


def test_parquet_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "t.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'csot\[parquet\]'"):
        read_data(tmp_path / "t.parquet", Columns(label="label"))


def test_unknown_kind_of_file(tmp_path: Path) -> None:
    path = write(tmp_path / "t.xlsx", "x")
    with pytest.raises(DataError, match=r"'\.xlsx' are not read; pass"):
        read_data(path)


def test_a_column_name_that_ends_in_nul_is_kept_apart(tmp_path: Path) -> None:
    """NumPy cuts NUL off the end of a text, so scikit-learn looked for another column."""
    path = tmp_path / "t.csv"
    path.write_bytes(b"\0,b,label\n1,2,x\nred,3,y\n2,4,x\nred,1,y\n2,2,x\nred,2,y\n")
    data = read_data(path, Columns(label="label"))
    assert data.features is not None
    assert data.features.shape[0] == 6
    assert data.table_features is not None
    assert np.array_equal(data.features, data.table_features.encode(data.table))
