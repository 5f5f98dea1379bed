"""The losses of one CSOT step against the oracle, term by term, and the gradient of their sum."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from csot.methods import csot as module
from csot.methods.core.contract import Losses
from csot.methods.csot import CLEAN, CORRUPTED, WARMUP, Csot
from csot.methods.parts.mixing import Mix
from helpers import LOSS_TOLERANCE
from methods.tiny import CLASSES, ROWS, context, given_views, make_csot, part, some_labels
from reference import rivals
from reference import training as oracle

CLEAN_ROWS, CORRUPTED_ROWS = torch.arange(0, 6), torch.arange(12, 18)
PUBLISHED = {"refined": True, "weighted": True, "stop_weak": False, "penalty": 1.0}
PUBLISHED |= {"simsiam_in_semi": True, "gate": "gated", "cutoff": 0.6}


def prepared(stage: int, settings: dict[str, Any]) -> Csot:
    """A method whose last relabelling is made up."""
    labels = some_labels()
    labels[CORRUPTED_ROWS[1]] = -1
    method = make_csot(context(labels), **settings)
    rng = np.random.default_rng(5)
    method.confidence.copy_(torch.from_numpy(rng.uniform(0.2, 1, ROWS)))
    method.probs.copy_(torch.from_numpy(rng.dirichlet(np.ones(CLASSES), ROWS)))
    # Some of them are what the network says, and some are selected.
    method.labels[CORRUPTED_ROWS] = torch.tensor([2, 2, 1, 0, 0, 1])
    method.selected[CORRUPTED_ROWS] = torch.tensor([True, True, True, True, False, False])
    method.semi.fill_(stage == 2)
    return method


def one_step(method: Csot, monkeypatch: pytest.MonkeyPatch) -> tuple[Losses, list[Mix]]:
    mixes: list[Mix] = []

    def spy(*args: Any, **options: Any) -> Mix:
        mixes.append(drawn(*args, **options))
        return mixes[-1]

    drawn = module.draw_mix
    monkeypatch.setattr(module, "draw_mix", spy)
    losses = method({CLEAN: part(method, CLEAN_ROWS), CORRUPTED: part(method, CORRUPTED_ROWS)})
    return losses, mixes


def oracle_inputs(
    method: Csot, mix: Mix
) -> tuple[oracle.Parameters, oracle.Clean, oracle.Corrupted]:
    """The same views, draws and state, as arrays."""
    settings, views = method.settings, method.context.views
    theta = {name: value.detach().double().numpy() for name, value in method.named_parameters()}
    weak, strong = given_views(views.weak), given_views(views.strong)
    count = settings.mixup_views
    clean = oracle.Clean(
        labels=method.context.labels[CLEAN_ROWS].tolist(),
        weak=weak[:count],
        strong=strong[0],
        keep=mix.keep,
        partners=mix.partners.tolist(),
        confidence=method.confidence[CLEAN_ROWS].tolist(),
        probs=method.probs[CLEAN_ROWS].double().numpy(),
    )
    rest = weak[count:]
    corrupted = oracle.Corrupted(
        plan_labels=method.labels[CORRUPTED_ROWS].tolist(),
        selected=method.selected[CORRUPTED_ROWS].tolist(),
        first=rest[0] if rest else strong[1],
        second=rest[1] if len(rest) > 1 else strong[-1],
        strong=strong[-1],
    )
    return theta, clean, corrupted


CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "paper": ({}, {}),
    "paper, two passes": ({"joint_pass": False}, {}),
    "paper, weights of the terms": (
        {"simsiam_weight": 0.3, "semi_weight": 2.0},
        {"lambda_1": 0.3, "lambda_2": 2.0},
    ),
    "paper, two mixup views": ({"mixup_views": 2}, {}),
    "paper, two weak views for SimSiam": ({"simsiam_views": "two_weak"}, {}),
    "paper, SimSiam goes on": ({"simsiam_in_semi": True}, {"simsiam_in_semi": True}),
    "paper, a gate": (
        {"corrected_rows": "gated", "cutoff": 0.6},
        {"gate": "gated", "cutoff": 0.6},
    ),
    "paper, the network's own labels": (
        {"corrected_rows": "confident", "cutoff": 0.5},
        {"gate": "confident", "cutoff": 0.5},
    ),
    "paper, penalty": ({"prior_penalty": 0.5}, {"penalty": 0.5}),
    "paper, refined but unweighted": ({"targets": "refined"}, {"refined": True}),
    "paper, refined and weighted": (
        {"targets": "refined", "weighted_targets": True, "temperature": 0.8},
        {"refined": True, "weighted": True, "temperature": 0.8},
    ),
    "published": ({"variant": "published", "cutoff": 0.6}, PUBLISHED),
    "published, one pass": ({"variant": "published", "cutoff": 0.6, "joint_pass": True}, PUBLISHED),
    "published, detached": (
        {"variant": "published", "cutoff": 0.6, "detach_weak": True},
        {**PUBLISHED, "stop_weak": True},
    ),
    "published, one mixup view": (
        {"variant": "published", "cutoff": 0.6, "mixup_views": 1},
        PUBLISHED,
    ),
    "published, refined once an epoch": (
        {"variant": "published", "cutoff": 0.6, "refine_from": "epoch"},
        {**PUBLISHED, "from_epoch": True},
    ),
}


@pytest.mark.parametrize("stage", [1, 2])
@pytest.mark.parametrize("case", CASES)
def test_one_step(case: str, stage: int, monkeypatch: pytest.MonkeyPatch) -> None:
    settings, changes = CASES[case]
    rules = oracle.Rules(**changes)
    method = prepared(stage, settings)
    losses, (mix,) = one_step(method, monkeypatch)
    theta, clean, corrupted = oracle_inputs(method, mix)
    wanted = oracle.step_losses(theta, theta, clean, corrupted, rules, stage)
    found = {name: float(value.detach()) for name, value in losses.items()}
    assert found == pytest.approx(wanted, abs=LOSS_TOLERANCE)

    torch.stack(list(losses.values())).sum().backward()
    slopes = oracle.step_gradients(
        theta,
        lambda moved: sum(
            oracle.step_losses(moved, theta, clean, corrupted, rules, stage).values()
        ),
    )
    for name, parameter in method.named_parameters():
        ours = np.zeros(parameter.shape) if parameter.grad is None else parameter.grad.numpy()
        np.testing.assert_allclose(ours, slopes[name], atol=5 * LOSS_TOLERANCE, err_msg=name)


def test_the_gate_has_something_to_decide() -> None:
    """At the cut-off of the cases above some rows count and some do not."""
    method = prepared(2, {"variant": "published", "cutoff": 0.6})
    rows = part(method, CORRUPTED_ROWS)
    counted = method._corrected_targets(rows, method.network(rows.inputs))[1]
    assert 0 < counted.sum() < len(counted)


@pytest.mark.parametrize(("joint", "passes"), [(True, 1), (False, 4)])
def test_passes_through_the_network(joint: bool, passes: int) -> None:
    method = prepared(1, {"joint_pass": joint})
    method({CLEAN: part(method, CLEAN_ROWS), CORRUPTED: part(method, CORRUPTED_ROWS)})
    assert method.network.passes == passes


def test_the_simplest_loss_on_clean_rows() -> None:
    method = prepared(1, {"clean_loss": "cross_entropy", "simsiam_weight": 0})
    losses = method({CLEAN: part(method, CLEAN_ROWS)})
    (weak,) = given_views(method.context.views.weak)
    theta = {n: value.detach().double().numpy() for n, value in method.named_parameters()}
    logits = oracle.network(theta, weak)[0]
    targets = oracle.hot(method.context.labels[CLEAN_ROWS].tolist(), CLASSES)
    assert set(losses) == {"clean"}
    wanted = oracle.cross_entropy(logits, targets)
    assert float(losses["clean"].detach()) == pytest.approx(wanted, abs=LOSS_TOLERANCE)


@pytest.mark.parametrize("entropy", [0.0, 0.7])
def test_warmup(entropy: float) -> None:
    method = prepared(1, {"warmup_entropy": entropy})
    # One of these rows has no label, and counts for nothing.
    losses = method({WARMUP: part(method, CORRUPTED_ROWS)})
    (weak,) = given_views(method.context.views.weak)
    theta = {n: value.detach().double().numpy() for n, value in method.named_parameters()}
    logits = oracle.network(theta, weak)[0]
    targets = oracle.hot(method.context.labels[CORRUPTED_ROWS].tolist(), CLASSES)
    wanted = {"warmup": oracle.cross_entropy(logits, targets)}
    if entropy:
        wanted["entropy"] = entropy * oracle.negative_entropy(logits)
    found = {name: float(value.detach()) for name, value in losses.items()}
    assert found == pytest.approx(wanted, abs=LOSS_TOLERANCE)


@pytest.mark.parametrize("kind", ["simsiam", "contrast"])
def test_two_views_in_the_warmup(kind: str) -> None:
    method = prepared(1, {"warmup_views": kind, "warmup_views_weight": 2.0})
    losses = method({WARMUP: part(method, CLEAN_ROWS)})
    ((weak,), (strong,)) = (
        given_views(view) for view in (method.context.views.weak, method.context.views.strong)
    )
    theta = {n: value.detach().double().numpy() for n, value in method.named_parameters()}
    features = [oracle.network(theta, view)[1] for view in (weak, strong)]
    first, second = (oracle.predictor(theta, one) for one in features)
    if kind == "simsiam":
        wanted = oracle.simsiam((first, second), (features[0], features[1]))
    else:
        units = [x / np.sqrt((x**2).sum(1, keepdims=True)) for x in (first, second)]
        wanted = rivals.pair_contrast(units[0], units[1], 0.3, both=True)
    assert float(losses["views"].detach()) == pytest.approx(2 * wanted, abs=LOSS_TOLERANCE)


@pytest.mark.parametrize("joint", [False, True])
def test_the_predictor_normalises_each_view_by_itself_as_in_the_code(joint: bool) -> None:
    method = prepared(1, {"variant": "published", "joint_pass": joint, "simsiam_norm": "batch"})
    seen: list[int] = []
    method.predictor.register_forward_hook(lambda module, given, out: seen.append(len(given[0])))
    method({CORRUPTED: part(method, CORRUPTED_ROWS)})
    count = len(CORRUPTED_ROWS)
    assert seen == ([2 * count] if joint else [count, count])
