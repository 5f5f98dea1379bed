"""OT-Filter against POT: its barycentres, its plans, and the labels that agree."""

import copy

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist

import ot
from csot.methods.ot_filter import OtFilter, class_centres, class_plan
from csot.methods.parts.mixing import draw_mix
from methods.helpers import LABELLED, UNLABELLED, Tiny, accuracy, make_method, make_tiny, run_epochs


def slow_barycentre(points: np.ndarray, epsilon: float) -> np.ndarray:
    """One support point, from a sample on: half a step to what the plan sends it to, and again."""
    weights = np.full(len(points), 1 / len(points))
    centre = points[0]
    for _ in range(60):
        cost = cdist(centre[None], points)
        plan = ot.sinkhorn(np.ones(1), weights, cost, epsilon, method="sinkhorn_log")
        centre = (centre + plan[0] @ points) / 2
    return centre


def slow_plan(points: np.ndarray, centres: np.ndarray, epsilon: float, rounds: int) -> np.ndarray:
    """(N, C), by POT's log-domain Sinkhorn and the linearised square root."""
    n, classes = len(points), len(centres)
    cost, slope = cdist(points, centres), 0.0
    rows, columns = np.full(n, 1 / n), np.full(classes, 1 / classes)
    plan = np.empty(0)
    for _ in range(rounds):
        plan = ot.sinkhorn(
            rows,
            columns,
            cost + slope,
            epsilon,
            method="sinkhorn_log",
            numItermax=20_000,
            stopThr=1e-11,
        )
        slope = 0.5 / np.sqrt(plan + 1e-6)
    return plan


@pytest.mark.parametrize("epsilon", [0.5, 10.0])
def test_barycentre_of_one_point_is_the_mean(epsilon):
    rng = np.random.default_rng(0)
    points = rng.normal(size=(12, 4))
    found = class_centres(
        torch.from_numpy(points), torch.zeros(12, dtype=torch.long), torch.zeros(2, 4).double()
    )
    np.testing.assert_allclose(found[0].numpy(), slow_barycentre(points, epsilon), atol=1e-6)
    assert torch.equal(found[1], torch.zeros(4).double())  # an empty class keeps its place


@pytest.mark.parametrize("rounds", [1, 2, 5])
def test_plan_is_pots(rounds):
    rng = np.random.default_rng(1)
    centres = 3 * rng.normal(size=(3, 4))
    points = centres[np.arange(30) % 3] + rng.normal(size=(30, 4))
    found = class_plan(
        torch.from_numpy(points), torch.from_numpy(centres), epsilon=5.0, power=0.5, rounds=rounds
    )
    np.testing.assert_allclose(
        30 * found.numpy(), 30 * slow_plan(points, centres, 5.0, rounds), atol=2e-4
    )


def make(tiny: Tiny, **settings: object) -> OtFilter:
    method = make_method("ot_filter", tiny, **settings)
    assert isinstance(method, OtFilter)
    return method


def test_labels_that_agree_with_the_second_plan_are_kept():
    tiny = make_tiny(noise=0.3)
    method = make(tiny, warmup=2)
    run_epochs(method, tiny, 1, 2)
    method.begin_epoch(3)
    rows = tiny.context.rows
    points = tiny.context.predict(method.network, rows).features.double().numpy()
    given = tiny.context.labels[rows].numpy()
    agree = np.ones(len(rows), dtype=bool)
    labels = given
    for _ in range(2):
        centres = np.stack([slow_barycentre(points[agree & (given == k)], 10.0) for k in range(3)])
        labels = slow_plan(points, centres, 10.0, 5).argmax(1)
        agree = labels == given
    assert method.labels[rows].tolist() == labels.tolist()
    assert method.clean[rows].tolist() == agree.tolist()
    assert 0.5 < agree.mean() < 0.9


def test_losses_of_a_step():
    """Kept labels are hard, the others guessed from weak views; what is mixed are strong views."""
    tiny = make_tiny()
    method = make(tiny, warmup=0)
    rows = {LABELLED: torch.arange(6, 18), UNLABELLED: torch.arange(60, 72)}
    batch, generator = tiny.batch(rows), copy.deepcopy(tiny.context.generator)
    losses = method(batch)

    views, net = tiny.context.views, method.network
    kept, rest = batch[LABELLED], batch[UNLABELLED]
    x = [kept.view(views.strong, generator) for _ in range(2)]
    weak = [rest.view(views.weak, generator) for _ in range(2)]
    x += [rest.view(views.strong, generator) for _ in range(2)]
    mix = draw_mix(48, 4.0, generator, tiny.context.ranks)
    p = (net(weak[0]).logits.softmax(-1) + net(weak[1]).logits.softmax(-1)).detach() / 2
    guessed = p**2 / (p**2).sum(-1, keepdim=True)
    hard = torch.nn.functional.one_hot(kept.labels, 3).float()
    inputs, q = torch.cat(x), torch.cat([hard, hard, guessed, guessed])
    inputs = mix.keep * inputs + (1 - mix.keep) * inputs[mix.partners]
    q = mix.keep * q + (1 - mix.keep) * q[mix.partners]
    logits = net(inputs).logits
    labelled = -(q[:24] * logits[:24].log_softmax(-1)).sum() / 24
    unlabelled = 25 * ((logits[24:].softmax(-1) - q[24:]) ** 2).mean()
    assert set(losses) == {"labelled", "unlabelled"}
    torch.testing.assert_close(losses["labelled"], labelled)
    torch.testing.assert_close(losses["unlabelled"], unlabelled)


def test_learns_and_judges():
    tiny = make_tiny(noise=0.3)
    method = make(tiny, warmup=2, unlabelled_weight=2.0)
    assert method.split() is None
    run_epochs(method, tiny, 1, 8)
    assert accuracy(method, tiny) > 0.9
    split, found = method.split(), method.judge()
    assert split is not None
    assert torch.equal(split.clean, ~split.corrected)
    is_right = tiny.context.labels == tiny.truth
    assert float(found.scores[is_right].mean()) > 0.45 > 0.3 > float(found.scores[~is_right].mean())
