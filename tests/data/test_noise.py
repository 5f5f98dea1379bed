"""Each convention of label noise against its definition."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from csot.data import DataError
from csot.data.noise import NoisyLabels, parse_noise
from csot.data.noise.models import targets, truncated_normal
from csot.data.samples import InMemory
from csot.data.types import TrainingData
from source_files import CIFAR10_NAMES, coarse_of


def make(labels: torch.Tensor, names: list[str], name: str = "made", dim: int = 6) -> TrainingData:
    features = torch.randn(len(labels), dim, generator=torch.Generator().manual_seed(1))
    ids = [str(row) for row in range(len(labels))]
    return TrainingData(name, InMemory(features), labels, names, ids, [])


def balanced(classes: int, each: int, name: str = "made") -> TrainingData:
    labels = torch.arange(classes).repeat(each)
    return make(labels, [str(c) for c in range(classes)], name)


def noise(text: str, data: TrainingData, seed: int = 0) -> NoisyLabels:
    return parse_noise(text).apply(data, torch.Generator().manual_seed(seed))


def changed(data: TrainingData, noisy: NoisyLabels) -> torch.Tensor:
    return data.labels != noisy.labels


CIFAR10 = make(torch.arange(10).repeat(200), CIFAR10_NAMES, "cifar10")
DIGITS = balanced(10, 100, "digits")
CIFAR100 = replace(
    balanced(100, 10, "cifar100"), superclasses=torch.from_numpy(coarse_of(np.arange(100)))
)
TEXTS = [
    "none",
    "sym:0.5",
    "sym:0.5:bernoulli",
    "sym-exclude:0.3",
    "sym-exclude:0.3:bernoulli",
    "pair:0.3",
    "pair:0.4:overall",
    "pair:0.4:bernoulli",
    "instance:0.3",
]


@st.composite
def data_sets(draw: Callable[..., object]) -> TrainingData:
    classes = draw(st.integers(2, 6))
    labels = draw(st.lists(st.integers(-1, classes - 1), min_size=1, max_size=40))
    return make(torch.tensor([0, *labels]), [f"c{c}" for c in range(classes)])


@given(data=data_sets(), text=st.sampled_from(TEXTS), seed=st.integers(0, 9))
def test_what_every_noise_keeps(data: TrainingData, text: str, seed: int) -> None:
    before = data.labels.clone()
    noisy = noise(text, data, seed)
    classes = len(data.class_names)
    assert noisy.labels.dtype == torch.int64
    assert torch.equal(data.labels, before)
    assert torch.equal(noisy.labels < 0, before < 0)
    assert int(noisy.labels.max()) < classes
    assert torch.equal(noisy.labels, noise(text, data, seed).labels)
    labelled = before >= 0
    wrong = changed(data, noisy)
    assert noisy.rate == int(wrong.sum()) / int(labelled.sum())
    assert noisy.matrix.dtype == np.float64
    np.testing.assert_allclose(noisy.matrix.sum(1), 1)
    for i in range(classes):
        for j in range(classes):
            of_class = before == i
            became = int((of_class & (noisy.labels == j)).sum())
            share = became / int(of_class.sum()) if of_class.any() else float(i == j)
            assert noisy.matrix[i, j] == pytest.approx(share)
    if text.startswith("pair"):
        assert torch.equal(noisy.labels[wrong], (before[wrong] + 1) % classes)


def test_none_changes_nothing() -> None:
    noisy = noise("none", DIGITS)
    assert torch.equal(noisy.labels, DIGITS.labels)
    assert noisy.rate == 0
    assert "no noise" in noisy.description


@pytest.mark.parametrize("rate", [0.0, 0.29, 0.5, 1.0])
def test_symmetric_counts(rate: float) -> None:
    data = balanced(4, 25)
    assert int(changed(data, noise(f"sym-exclude:{rate}", data)).sum()) == round(rate * 100)
    # The chosen rows are drawn first, so both kinds draw the same ones: fewer of them change.
    inclusive = changed(data, noise(f"sym:{rate}", data))
    assert not (inclusive & ~changed(data, noise(f"sym-exclude:{rate}", data))).any()


@pytest.mark.parametrize(
    ("text", "diagonal"),
    [
        ("sym:0.5", 1 - 0.5 * 3 / 4),
        ("sym:0.5:bernoulli", 1 - 0.5 * 3 / 4),
        ("sym-exclude:0.5", 0.5),
        ("sym-exclude:0.5:bernoulli", 0.5),
    ],
)
def test_symmetric_matrix(text: str, diagonal: float) -> None:
    expected = np.full((4, 4), (1 - diagonal) / 3)
    np.fill_diagonal(expected, diagonal)
    np.testing.assert_allclose(noise(text, balanced(4, 10_000)).matrix, expected, atol=0.02)


def test_exact_and_bernoulli_differ() -> None:
    data = balanced(10, 100)
    rates = {noise("sym-exclude:0.5", data, seed).rate for seed in range(5)}
    drawn = {noise("sym-exclude:0.5:bernoulli", data, seed).rate for seed in range(5)}
    assert rates == {0.5}
    assert len(drawn) > 1


@pytest.mark.parametrize(
    ("data", "pairs"),
    [
        (CIFAR10, {9: 1, 2: 0, 4: 7, 3: 5, 5: 3}),
        (DIGITS, {2: 7, 3: 8, 5: 6, 6: 5, 7: 1}),
    ],
    ids=["cifar10", "digits"],
)
def test_look_alikes(data: TrainingData, pairs: dict[int, int]) -> None:
    noisy = noise("asym:0.4", data)
    expected = np.eye(10)
    for source, target in pairs.items():
        expected[source, source], expected[source, target] = 0.6, 0.4
    np.testing.assert_allclose(noisy.matrix, expected)
    assert noisy.rate == pytest.approx(0.2)


def test_look_alikes_go_by_name_not_by_order() -> None:
    shuffled = make(torch.arange(10).repeat(10), CIFAR10_NAMES[::-1], "embedded")
    target = targets(shuffled, "auto").tolist()
    turned = {CIFAR10_NAMES[9 - c]: CIFAR10_NAMES[9 - t] for c, t in enumerate(target) if c != t}
    assert turned == {
        "truck": "automobile",
        "bird": "airplane",
        "deer": "horse",
        "cat": "dog",
        "dog": "cat",
    }


def test_rows_are_picked_overall_as_divide_mix_does() -> None:
    noisy = noise("asym:0.4:overall", CIFAR10)
    # 800 of 2,000 rows are picked, about half of them in classes that turn into another.
    assert 0.17 < noisy.rate < 0.23
    assert len({float(noisy.matrix[c, c]) for c in (9, 2, 4, 3, 5)}) > 1
    pair = noise("pair:0.4:overall", CIFAR10)
    assert pair.rate == 0.4


def test_rotation_inside_superclasses() -> None:
    noisy = noise("asym:0.4", CIFAR100)
    target = targets(CIFAR100, "auto")
    assert CIFAR100.superclasses is not None
    assert torch.equal(CIFAR100.superclasses[target], CIFAR100.superclasses)
    assert target[[0, 20, 40, 60, 80]].tolist() == [20, 40, 60, 80, 0]
    assert sorted(target.tolist()) == list(range(100))
    wrong = changed(CIFAR100, noisy)
    assert torch.equal(noisy.labels[wrong], target[CIFAR100.labels[wrong]])
    assert noisy.rate == pytest.approx(0.4)
    assert torch.equal(noisy.labels, noise("asym:0.4:superclass", CIFAR100).labels)


def test_rotation_inside_blocks_of_five() -> None:
    assert targets(CIFAR100, "blocks")[[0, 4, 5, 98, 99]].tolist() == [1, 0, 6, 99, 95]
    noisy = noise("asym:0.4:blocks:bernoulli", CIFAR100)
    wrong = changed(CIFAR100, noisy)
    assert torch.equal(noisy.labels[wrong] // 5, CIFAR100.labels[wrong] // 5)


def test_no_map_is_an_error_with_the_remedy() -> None:
    with pytest.raises(DataError, match=r"not for made; use pair:RATE"):
        noise("asym:0.4", balanced(3, 5))
    with pytest.raises(DataError, match="superclasses"):
        noise("asym:0.4:superclass", balanced(3, 5))
    with pytest.raises(DataError, match="5 divides"):
        noise("asym:0.4:blocks", balanced(3, 5))


def test_pair_flip_is_exact_in_each_class() -> None:
    noisy = noise("pair:0.3", balanced(4, 10))
    np.testing.assert_allclose(noisy.matrix, 0.7 * np.eye(4) + 0.3 * np.roll(np.eye(4), 1, axis=1))


def test_truncated_normal() -> None:
    for mean in (0.0, 0.3, 1.0):
        draws = truncated_normal(20_000, mean, torch.Generator().manual_seed(0))
        assert float(draws.min()) >= 0
        assert float(draws.max()) <= 1
    assert float(truncated_normal(20_000, 0.4, torch.Generator().manual_seed(0)).mean()) == (
        pytest.approx(0.4, abs=0.01)
    )


def test_instance_noise_depends_on_the_input() -> None:
    same = torch.ones(3000, 6)
    same[::2] = -1.0
    labels = torch.zeros(3000, dtype=torch.int64)
    data = replace(make(labels, ["a", "b", "c", "d"]), train=InMemory(same))
    noisy = noise("instance:0.4", data)
    assert noisy.rate == pytest.approx(0.4, abs=0.04)
    counts = [noisy.labels[part::2].bincount(minlength=4)[1:].double() for part in (0, 1)]
    shares = [count / count.sum() for count in counts]
    # Opposite inputs have opposite projections: what one turns into, the other does not.
    assert float((shares[0] - shares[1]).abs().max()) > 0.3


def test_instance_noise_against_its_equation() -> None:
    """One class, one input: the shares are a softmax of the projection, drawn anew here."""
    x = torch.tensor([[1.0], [-1.0]]).repeat(20_000, 1)
    labels = torch.zeros(len(x), dtype=torch.int64)
    data = replace(make(labels, ["a", "b", "c"]), train=InMemory(x))
    noisy = noise("instance:0.5", data)
    generator = torch.Generator().manual_seed(0)
    torch.rand(2 * len(x), generator=generator, dtype=torch.float64)
    weights = torch.randn(1, 3, generator=generator)
    for row, sign in ((0, 1.0), (1, -1.0)):
        wrong = noisy.labels[row::2]
        expected = 0.5 * (sign * weights[0, 1:]).softmax(0)
        found = torch.stack([(wrong == c).double().mean() for c in (1, 2)])
        np.testing.assert_allclose(found, expected, atol=0.015)


def test_instance_noise_on_images() -> None:
    pixels = torch.randint(
        0, 256, (60, 1, 4, 4), generator=torch.Generator().manual_seed(0), dtype=torch.uint8
    )
    data = replace(balanced(3, 20), train=InMemory(pixels), mean=(0.3,), std=(0.4,))
    assert 0.1 < noise("instance:0.3", data).rate < 0.5


def test_no_labels_no_noise() -> None:
    with pytest.raises(DataError, match="0 labelled rows"):
        noise("sym:0.5", make(torch.full((3,), -1), ["a", "b"]))


def test_the_description_says_what_was_done_and_what_came_out() -> None:
    assert noise("sym-exclude:0.5", balanced(4, 5)).description == (
        "symmetric, 50 %, uniform over the other classes: 10 of 20 labels changed (50.00 %)"
    )
