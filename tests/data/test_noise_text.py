"""Noise as the user writes it: texts, and files of transition matrices."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from csot.data import DataError
from csot.data.noise import NoisyLabels, parse_noise
from csot.data.samples import InMemory
from csot.data.types import TrainingData


def apply(path: Path, each: int = 5) -> NoisyLabels:
    """The noise of a matrix file on three classes."""
    labels = torch.arange(3).repeat(each)
    ids = [str(row) for row in range(3 * each)]
    data = TrainingData(
        "made", InMemory(torch.zeros(3 * each, 1)), labels, ["a", "b", "c"], ids, []
    )
    return parse_noise(f"matrix:{path}").apply(data, torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", ["t.npy", "t.csv"])
def test_transition_matrix(tmp_path: Path, name: str) -> None:
    matrix = np.array([[0.7, 0.3, 0.0], [0.0, 1.0, 0.0], [0.25, 0.25, 0.5]])
    path = tmp_path / name
    if name == "t.npy":
        np.save(path, matrix)
    else:
        np.savetxt(path, matrix, delimiter=",")
    noisy = apply(path, 10_000)
    np.testing.assert_allclose(noisy.matrix, matrix, atol=0.02)
    assert (noisy.matrix[matrix == 0] == 0).all()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1,0\n0,1", r"shape \(2, 2\); \(3, 3\)"),
        ("1,0,0\n0,1,0\n0,0,0.5", r"row 2 \(from 0\) sums to 0.5"),
        ("1,0,0\n0,2,-1\n0,0,1", "row 1"),
        ("1,0,0\nnan,0,1\n0,0,1", "row 1"),
        ("a,b,c\n1,0,0", "not a (matrix of numbers|readable .npy array)"),
    ],
)
def test_a_wrong_matrix_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(DataError, match=message):
        apply(tmp_path / "t.csv")


def test_a_missing_matrix_and_pickled_objects_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not exist"):
        apply(tmp_path / "no.npy")
    np.save(tmp_path / "o.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(DataError, match=r"not a (matrix of numbers|readable .npy array)"):
        apply(tmp_path / "o.npy")


def made(ids: list[str], labels: list[int]) -> TrainingData:
    samples = InMemory(torch.zeros(len(ids), 1))
    return TrainingData("made", samples, torch.tensor(labels), ["a", "b", "c"], ids, [])


@pytest.mark.parametrize("name", ["0.5_sym.json", "labels.npy"])
def test_labels_from_a_file(tmp_path: Path, name: str) -> None:
    """As DivideMix writes it; any seed gives the same labels."""
    path, noisy = tmp_path / name, [2, 1, 0, 1]
    if path.suffix == ".json":
        path.write_text(json.dumps(noisy))
    else:
        np.save(path, np.array(noisy))
    whole = made(["w", "x", "y", "z"], [2, 0, -1, 1])
    found = parse_noise(f"file:{path}").apply(whole, torch.Generator().manual_seed(3))
    assert found.labels.tolist() == [2, 1, -1, 1], "a row without a label stays without"
    assert found.rate == pytest.approx(1 / 3)
    assert found.description == f"labels of {name}: 1 of 3 labels changed (33.33 %)"
    part = made(["3", "0"], [1, 1])
    found = parse_noise(f"file:{path}").apply(part, torch.Generator())
    assert found.labels.tolist() == [1, 2], "rows by their number in the whole"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[0, 1, 3, 0]", r"label of image 2 \(from 0\) is 3; there are 3 classes"),
        ("[0, 1, 0.5, 0]", "not a list of whole numbers"),
        ('{"labels": [0]}', "holds a dict: a JSON list"),
        ("[0, 1", "not a list of labels|not JSON"),
        ("[0, 1]", r"has 2 labels, made has 4 training rows"),
    ],
)
def test_a_wrong_file_of_labels_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "labels.json"
    path.write_text(text)
    noise = parse_noise(f"file:{path}")
    with pytest.raises(DataError, match=message):
        noise.apply(made(["a", "b", "c", "d"], [0, 1, 2, 0]), torch.Generator())
    with pytest.raises(DataError, match="does not exist"):
        parse_noise("file:no.json").apply(made(["a"], [0]), torch.Generator())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("symm:0.5", "did you mean 'sym'"),
        ("sym", "write sym:0.4"),
        ("sym:half", "'half' is not a rate"),
        ("sym:50", "write sym:0.5"),
        ("sym:-0.1", "not within 0 and 1"),
        ("sym:nan", "not within 0 and 1"),
        ("sym:0.5:bernouli", "did you mean 'bernoulli'"),
        ("sym:0.5:exact:bernoulli", "at once: keep one"),
        ("asym:0.4:overall:class", "at once: keep one"),
        ("instance:0.4:exact", "no option 'exact'; it has none"),
        ("pair:0.4:blocks", "no option 'blocks'"),
        ("none:0.5", "is not known"),
        ("", "is not known"),
    ],
)
def test_a_wrong_text_is_explained(text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        parse_noise(text)
