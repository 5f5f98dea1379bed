"""NCE against its description: verification scores and correcting votes by brute force."""

import copy
import math

import numpy as np
import pytest
import torch
from scipy.spatial.distance import jensenshannon
from torch import Tensor

from csot.methods.core.contract import Predictions
from csot.methods.nce import Nce, _terms, correct, js_to_labels, verify
from csot.methods.parts.mixing import draw_mix
from csot.methods.parts.neighbours import nearest_among, nearest_others
from methods.helpers import LABELLED, UNLABELLED, accuracy, make_method, make_tiny, run_epochs


def draw(rows: int, classes: int, seed: int, sharp: float = 2.0) -> tuple[Predictions, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(rows) % classes
    centres = torch.randn(classes, 5, generator=generator)
    features = centres[labels] + 0.4 * torch.randn(rows, 5, generator=generator)
    hot = torch.nn.functional.one_hot(labels, classes)
    logits = sharp * hot + torch.randn(rows, classes, generator=generator)
    wrong = torch.rand(rows, generator=generator) < 0.3
    return Predictions(logits, features), torch.where(wrong, (labels + 1) % classes, labels)


def slow_js(p: list[float], label: int) -> float:
    """Base 2, to a vector of 1e-4 everywhere but 1 - 1e-4 at the label."""
    total = 0.0
    for k, value in enumerate(p):
        q = 1 - 1e-4 if k == label else 1e-4
        m = (value + q) / 2
        total += value * math.log2(value / m) / 2 + q * math.log2(q / m) / 2
    return total


def slow_nearest(features: Tensor, i: int, among: list[int], count: int) -> list[int]:
    f = features.double().numpy()
    cosines = {j: float(f[i] @ f[j] / np.linalg.norm(f[i]) / np.linalg.norm(f[j])) for j in among}
    return sorted(among, key=lambda j: -cosines[j])[:count]


def test_divergence_is_scipys_squared_distance_to_base_two():
    generator = torch.Generator().manual_seed(0)
    p, q = torch.randn(2, 6, 4, generator=generator, dtype=torch.float64).softmax(-1)
    p[0] = torch.tensor([1.0, 0, 0, 0])
    q[0] = torch.tensor([0, 0, 1.0, 0])
    expected = torch.from_numpy(jensenshannon(p.numpy(), q.numpy(), base=2, axis=1) ** 2)
    torch.testing.assert_close(_terms(p, q).sum(-1), expected)
    assert float(_terms(p, q)[0].sum()) == pytest.approx(1)


def test_divergence_to_every_label():
    probs = draw(7, 4, 3)[0].probs.double()
    expected = [[slow_js(p, c) for c in range(4)] for p in probs.tolist()]
    torch.testing.assert_close(js_to_labels(probs, 1e-4), torch.tensor(expected).double())


def test_neighbours_leave_out_the_row_itself_in_every_block(monkeypatch):
    features = draw(50, 4, 1)[0].features
    features[7] = features[8]  # twins: the other one is the nearest
    monkeypatch.setattr("csot.methods.parts.neighbours.BLOCK", 13)
    found = nearest_others(features, 6)
    for i in range(50):
        others = [j for j in range(50) if j != i]
        assert set(found[i].tolist()) == set(slow_nearest(features, i, others, 6))
    assert int(found[7, 0]) == 8
    keys = features[10:30]
    for i, row in enumerate(nearest_among(features, keys, 6).tolist()):
        expected = slow_nearest(features, i, list(range(10, 30)), 6)
        assert {10 + j for j in row} == set(expected)


def test_verification_scores():
    seen, labels = draw(40, 4, 2)
    probs = seen.probs.double().tolist()
    for i, score in enumerate(verify(seen, labels, 5).tolist()):
        neighbours = slow_nearest(seen.features, i, [j for j in range(40) if j != i], 5)
        expected = sum(slow_js(probs[j], int(labels[i])) for j in neighbours) / 5
        assert score == pytest.approx(expected, abs=1e-5)


def test_correcting_votes():
    seen, labels = draw(90, 4, 3)
    generator = torch.Generator().manual_seed(4)
    kept = torch.rand(90, generator=generator) < 0.7
    trust = torch.rand(90, generator=generator) / 2 + 0.4
    bound = 0.35
    voters = [j for j in range(90) if kept[j] and trust[j] > 0.5]
    assert len(voters) > 30
    expected = [-1] * 90
    for u in [u for u in range(90) if not kept[u]]:
        votes, total = [0.0] * 4, 0.0
        for j in slow_nearest(seen.features, u, voters, 3):
            divergence = slow_js(seen.probs[u].double().tolist(), int(labels[j]))
            votes[int(labels[j])] += 1 - divergence
            total += divergence
        if total / 3 <= bound:
            expected[u] = votes.index(max(votes))
    found = correct(seen, labels, kept, trust, 3, bound).tolist()
    assert found == expected
    assert 5 < sum(label >= 0 for label in expected) < int((~kept).sum())
    # Too few voters, or no correction wanted.
    assert int(correct(seen, labels, kept, trust, 9, bound).max()) == -1
    assert int(correct(seen, labels, kept, trust, 3, 0.0).max()) == -1


def test_each_network_is_taught_by_the_verdicts_of_the_other():
    tiny = make_tiny(noise=0.3)
    method = make_method("nce", tiny, warmup=3, neighbours=5, verification=0.4, correction=0.2)
    assert isinstance(method, Nce)
    run_epochs(method, tiny, 1, 3)
    method.begin_epoch(4)
    rows, given = tiny.context.rows, tiny.context.labels[6:]
    seen = [tiny.context.predict(network, rows) for network in method.networks]
    both = Predictions(seen[0].logits + seen[1].logits, seen[0].features + seen[1].features)
    for number in range(2):
        scores = verify(seen[number], given, 5)
        torch.testing.assert_close(method.turns.trust[number, 6:], 1 - scores)
        assert torch.equal(method.turns.clean[number, 6:], scores < 0.4)
        kept = method.turns.clean[1 - number, 6:]
        found = correct(both, given, kept, method.turns.trust[1 - number, 6:], 5, 0.2)
        assert torch.equal(method.corrected[number, 6:], found)
    assert int((method.corrected >= 0).sum()) > 10


@pytest.mark.parametrize("strong_kept", [False, True])
def test_losses_of_a_turn(strong_kept):
    tiny = make_tiny()
    method = make_method("nce", tiny, warmup=1, strong_kept=strong_kept)
    assert isinstance(method, Nce)
    method.turns.trust[1] = 0.8
    method.corrected[0, 60:66] = 2  # of twelve rows six have a corrected label
    rows = {LABELLED: torch.arange(6, 18), UNLABELLED: torch.arange(60, 72)}
    batch = tiny.batch(rows)
    generator = copy.deepcopy(tiny.context.generator)
    losses = method(batch)

    views, own = tiny.context.views, method.networks[0]
    kept, rest = batch[LABELLED], batch[UNLABELLED]
    weak = [kept.view(views.weak, generator) for _ in range(2)]
    mix = draw_mix(24, 4.0, generator, tiny.context.ranks)
    strong_of_kept = kept.view(views.strong, generator) if strong_kept else None
    strong = rest.view(views.strong, generator)
    p = (own(weak[0]).logits.softmax(-1) + own(weak[1]).logits.softmax(-1)).detach() / 2
    y = 0.8 * torch.nn.functional.one_hot(kept.labels, 3) + 0.2 * p
    y = (y**2 / (y**2).sum(-1, keepdim=True)).repeat(2, 1)
    x = torch.cat(weak)
    x = mix.keep * x + (1 - mix.keep) * x[mix.partners]
    y = mix.keep * y + (1 - mix.keep) * y[mix.partners]
    torch.testing.assert_close(losses["mix"], -(y * own(x).logits.log_softmax(-1)).sum() / 24)
    each = [-own(strong[i : i + 1]).logits.log_softmax(-1)[0, 2] for i in range(6)]
    count = 12
    if strong_of_kept is not None:
        logs = own(strong_of_kept).logits.log_softmax(-1)
        each += [-logs[i, int(kept.labels[i])] for i in range(12)]
        count = 24
    torch.testing.assert_close(losses["consistency"], torch.stack(each).sum() / count)


def test_learns_and_judges():
    tiny = make_tiny(noise=0.3)
    method = make_method("nce", tiny, warmup=2, neighbours=8, correction=0.05)
    assert method.split() is None
    run_epochs(method, tiny, 1, 8)
    assert accuracy(method, tiny) > 0.9
    split, found = method.split(), method.judge()
    assert split is not None
    is_right = tiny.context.labels == tiny.truth
    assert float(found.scores[is_right].mean()) > 0.8 > 0.4 > float(found.scores[~is_right].mean())
    torch.testing.assert_close(found.posterior.sum(-1), torch.ones(120))
