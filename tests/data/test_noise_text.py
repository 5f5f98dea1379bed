"""Noise as the user writes it: texts, and files of transition matrices."""

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
