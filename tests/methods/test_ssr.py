"""SSR+ against its description: votes, selection, repeated rows and losses, by brute force."""

import copy
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from csot.methods.parts.mixing import draw_mix
from csot.methods.ssr import Ssr, balanced_votes, repeat_rare, select
from methods.helpers import LABELLED, TRAIN, accuracy, make_method, make_tiny, run_epochs
from reference import rivals
from reference import training as oracle


def draw(seed: int, rows: int = 40, classes: int = 4) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(-1, classes, (rows,), generator=generator)
    labels[:rows] = torch.where(torch.arange(rows) < rows // 2, 0, labels)  # unbalanced
    return torch.randn(rows, 5, generator=generator) + labels[:, None] / 2, labels


@pytest.mark.parametrize("count", [1, 7, 40])
def test_votes_and_selection(count):
    features, labels = draw(count)
    expected = rivals.balanced_votes(features.double().numpy(), labels.tolist(), count, 4)
    votes = balanced_votes(features, labels, count, 4)
    np.testing.assert_allclose(votes.numpy(), expected, atol=1e-6)
    for threshold in (0.5, 1.0):
        chosen = [
            label >= 0 and row[label] >= (threshold - 1e-9) * max(row)
            for row, label in zip(expected, labels.tolist(), strict=True)
        ]
        assert select(votes, labels, threshold).tolist() == chosen


def test_a_row_whose_neighbours_have_no_label_is_not_selected():
    labels = torch.tensor([-1, -1, 0, 1])
    features = torch.tensor([[1.0, 0], [1, 0.01], [0, 1], [-1, 0]])
    votes = balanced_votes(features, labels, 2, 3)
    torch.testing.assert_close(votes[0], torch.full((3,), 1 / 3))
    assert select(votes, labels, 0.0).tolist() == [False, False, True, True]


@given(labels=st.lists(st.integers(0, 3), max_size=40), seed=st.integers(0, 9))
def test_repeated_rows_are_balanced(labels, seed):
    rows = 10 + torch.arange(len(labels))
    generator = torch.Generator().manual_seed(seed)
    found = repeat_rare(rows, torch.tensor(labels, dtype=torch.long), generator).tolist()
    times = Counter(found)
    assert set(times) == set(rows.tolist())
    largest = max(Counter(labels).values(), default=0)
    for label in set(labels):
        counts = [times[10 + i] for i, other in enumerate(labels) if other == label]
        assert sum(counts) == largest
        assert max(counts) - min(counts) <= 1


def test_relabels_from_the_given_labels_every_epoch():
    tiny = make_tiny()
    tiny.context.labels[50:60] = -1
    method = make_method("ssr", tiny, neighbours=10, relabel_threshold=0.8)
    assert isinstance(method, Ssr)
    run_epochs(method, tiny, 1, 3)
    method.begin_epoch(4)
    rows = tiny.context.rows.tolist()
    seen = tiny.context.predict(method.network, tiny.context.rows)
    for i, probs in zip(rows, seen.probs.tolist(), strict=True):
        sure = max(probs) > 0.8
        assert int(method.labels[i]) == (
            probs.index(max(probs)) if sure else int(tiny.context.labels[i])
        )
    votes = rivals.balanced_votes(
        seen.features.double().numpy(), method.labels[rows].tolist(), 10, 3
    )
    for i, vote in zip(rows, votes, strict=True):
        label = int(method.labels[i])
        assert bool(method.selected[i]) == (label >= 0 and vote[label] > max(vote) - 1e-9)
    # Held-out rows keep their labels and are not selected.
    assert torch.equal(method.labels[:6], tiny.context.labels[:6])
    assert not bool(method.selected[:6].any())


@pytest.mark.parametrize("weight", [0.0, 2.0])
def test_losses_of_a_step(weight):
    tiny = make_tiny()
    method = make_method("ssr", tiny, consistency_weight=weight, head_norm="none")
    assert isinstance(method, Ssr)
    method.labels[6:18] = 2
    batch = tiny.batch({LABELLED: torch.arange(6, 18), TRAIN: torch.arange(60, 72)})
    generator = copy.deepcopy(tiny.context.generator)
    losses = method(batch)
    assert set(losses) == ({"mix", "consistency"} if weight else {"mix"})

    views = tiny.context.views
    strong = torch.cat([batch[LABELLED].view(views.strong, generator) for _ in range(2)])
    mix = draw_mix(24, 4.0, generator, tiny.context.ranks)
    assert mix.keep >= 0.5
    partners = mix.partners.tolist()
    inputs = torch.from_numpy(oracle.mixed(strong.double().numpy(), mix.keep, partners)).float()
    logits = method.network(inputs).logits.detach().double().numpy()
    # All labels are 2, so the mixed targets are too.
    expected = oracle.cross_entropy(logits, oracle.hot([2] * 24, 3))
    assert losses["mix"].item() == pytest.approx(expected, abs=1e-5)
    if not weight:
        return
    weak, strong = (batch[TRAIN].view(v, generator) for v in (views.weak, views.strong))
    z = method.projector(method.network(weak).features)
    p = method.predictor(method.projector(method.network(strong).features))
    cosine = oracle.negative_cosine(p.detach().double().numpy(), z.detach().double().numpy())
    assert losses["consistency"].item() == pytest.approx(weight * cosine, abs=1e-5)


def test_a_step_without_selected_rows():
    tiny = make_tiny()
    method = make_method("ssr", tiny)
    assert isinstance(method, Ssr)
    steps = list(method.steps(1))  # nothing is selected before the first epoch
    assert len(steps) == 114 // 12
    assert set(method(tiny.batch(steps[0]))) == {"consistency"}


def test_learns_and_judges():
    tiny = make_tiny(noise=0.4)
    tiny.context.labels[50:60] = -1
    method = make_method("ssr", tiny, neighbours=15)
    assert method.split() is None
    run_epochs(method, tiny, 1, 8)
    assert accuracy(method, tiny) > 0.9
    split, found = method.split(), method.judge()
    assert split is not None
    assert not bool(split.clean[50:60].any())
    is_right = tiny.context.labels == tiny.truth
    assert float(found.scores[is_right].mean()) > 0.7 > 0.3 > float(found.scores[~is_right].mean())
    torch.testing.assert_close(found.posterior.sum(-1), torch.ones(120))
