"""Denoising and relabelling: by batches, as a whole, by small losses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import csot
from csot.methods.core.contract import Predictions
from csot.methods.parts.csot_settings import CsotSettings
from csot.methods.parts.relabel import Relabelling, _groups, budgets, label_rest, relabel
from helpers import make_instance

N, C = 60, 4


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(3)


def predictions(n: int = N) -> tuple[Predictions, torch.Tensor]:
    made = make_instance(n, C, seed=1)
    logits = torch.from_numpy(np.log(made.pred_probs)).float()
    return Predictions(logits, torch.from_numpy(made.features).float()), torch.from_numpy(
        made.labels
    )


def relabelled(budget: float = 0.5, n: int = N, **settings: Any) -> Relabelling:
    seen, labels = predictions(n)
    return relabel(seen, labels, budget, CsotSettings.model_validate(settings), generator())


@pytest.mark.parametrize("variant", ["paper", "published"])
def test_the_whole_is_solve_and_allocate(variant: str) -> None:
    settings = CsotSettings.model_validate({"variant": variant, "relabel_batch": 0})
    seen, labels = predictions()
    found = relabel(seen, labels, 0.5, settings, generator())
    plan = csot.solve(
        pred_probs=seen.probs.double().numpy(),
        features=seen.features.double().numpy(),
        labels=labels.numpy(),
        budget=0.5,
        epsilon=0.1,
        coherence=1.0,
        coherence_on="probs" if variant == "paper" else "log_probs",
        max_outer=10,
        inner_iterations=None if variant == "paper" else 100,
        row_constraint="auto" if variant == "paper" else "inequality",
        method="auto" if variant == "paper" else "scaling",
    )
    wanted = csot.allocate(
        plan, labels.numpy(), variant="paper" if variant == "paper" else "published"
    )
    np.testing.assert_array_equal(found.labels, wanted.pseudo_labels)
    np.testing.assert_array_equal(found.selected, wanted.selected)
    np.testing.assert_array_equal(found.clean, wanted.clean)
    np.testing.assert_allclose(found.confidence, np.minimum(wanted.weights, 1), atol=1e-4)
    rows = np.asarray(plan.coupling) / np.asarray(plan.coupling).sum(1, keepdims=True)
    np.testing.assert_allclose(found.posterior, rows, atol=1e-3)


def test_batches_are_problems_of_their_own() -> None:
    """Row by row what `csot.solve` says of the batch that the row is in."""
    settings = CsotSettings(relabel_batch=20)
    seen, labels = predictions()
    found = relabel(seen, labels, 0.5, settings, generator())
    order = torch.randperm(N, generator=generator())
    for rows in order.view(3, 20):
        plan = csot.solve(
            log_probs=seen.logits[rows].log_softmax(-1).numpy(),
            features=seen.features[rows].numpy(),
            labels=labels[rows].numpy(),
            budget=0.5,
            epsilon=0.1,
            coherence=1.0,
        )
        wanted = csot.allocate(plan, labels[rows].numpy())
        np.testing.assert_array_equal(found.labels[rows], wanted.pseudo_labels)
        np.testing.assert_array_equal(found.clean[rows], wanted.clean)
        assert int(found.selected[rows].sum()) == 10


@pytest.mark.parametrize("remainder", ["own", "spread"])
@pytest.mark.parametrize(("count", "size"), [(60, 20), (61, 20), (79, 20), (5, 20), (60, 0)])
def test_every_row_is_in_one_problem(count: int, size: int, remainder: str) -> None:
    settings = CsotSettings.model_validate({"relabel_batch": size, "relabel_remainder": remainder})
    groups = _groups(torch.randperm(count, generator=generator()), settings)
    rows = torch.cat([group.flatten() for group in groups])
    assert sorted(rows.tolist()) == list(range(count))
    sizes = [group.shape[1] for group in groups for _ in group]
    if size:
        assert max(sizes) <= size
    if remainder == "spread":
        assert max(sizes) - min(sizes) <= 1
    elif count > size > 0:
        assert sizes == [size] * (count // size) + [count % size] * (count % size > 0)


@pytest.mark.parametrize("remainder", ["own", "spread"])
def test_rows_come_back_in_their_own_order(remainder: str) -> None:
    """Predictions that are certain, and no coherence: every row must get its own class."""
    truth = torch.arange(50) % C
    seen = Predictions(20.0 * torch.eye(C)[truth], torch.eye(C)[truth])
    settings = CsotSettings.model_validate(
        {"relabel_batch": 16, "relabel_remainder": remainder, "coherence": 0.0}
    )
    found = relabel(seen, truth, 0.3, settings, generator())
    assert found.labels.equal(truth)
    assert found.posterior.argmax(1).equal(truth)
    assert found.clean.equal(found.selected)


def test_unlabelled_rows_are_never_clean() -> None:
    found = relabelled(1.0)
    labels = predictions()[1]
    assert (labels < 0).any()
    assert not found.clean[labels < 0].any()
    assert found.selected.all()
    assert int(found.labels.min()) >= 0


def test_only_unlabelled_rows() -> None:
    seen, labels = predictions()
    none = torch.full_like(labels, -1)
    for allocator in ("csot", "gmm"):
        settings = CsotSettings.model_validate({"allocator": allocator})
        assert not relabel(seen, none, 0.5, settings, generator()).clean.any()


def test_small_losses_are_clean_and_nothing_else() -> None:
    truth = torch.arange(200) % C
    labels = truth.clone()
    labels[:40] = (labels[:40] + 1) % C
    labels[40:50] = -1
    noise = torch.randn(200, C, generator=generator())
    seen = Predictions(4.0 * torch.eye(C)[truth] + 0.3 * noise, noise)
    found = relabel(seen, labels, 0.1, CsotSettings(allocator="gmm"), generator())
    assert not found.clean[:50].any()
    assert found.clean[50:].float().mean() > 0.9
    assert found.labels.equal(torch.where(found.clean, labels, truth))


def test_paper_ramp() -> None:
    budget = budgets(CsotSettings(supervised_epochs=250, start_budget=0.3), epochs=450)
    for epoch in (1, 10, 100, 175, 176, 300):
        assert budget(epoch) == pytest.approx(min(1, 0.3 + (epoch - 1) / 249))


def test_published_ramp() -> None:
    """0.3 after the warm-up, 1 after 250 epochs; the code counts epochs from 0."""
    settings = CsotSettings(variant="published", warmup=10, supervised_epochs=250)
    budget = budgets(settings, epochs=450)
    for epoch in (11, 12, 100, 251, 300):
        wanted = min(1, 0.3 + 0.7 * (epoch - 1 - 10) / (250 - 10))
        assert budget(epoch) == pytest.approx(wanted)


def test_other_ramps() -> None:
    constant = budgets(CsotSettings(curriculum="constant", start_budget=0.4), 10)
    assert {constant(epoch) for epoch in range(1, 20)} == {0.4}
    growing = budgets(CsotSettings(curriculum="exponential", supervised_epochs=5), 10)
    assert growing(1) == pytest.approx(0.3)
    assert growing(3) == pytest.approx(0.3**0.5)
    assert growing(5) == growing(9) == 1


@pytest.mark.parametrize("curriculum", ["linear", "linear_published", "exponential", "constant"])
@pytest.mark.parametrize("epochs", [1, 2, 5])
def test_a_short_run_has_a_budget(curriculum: str, epochs: int) -> None:
    settings = CsotSettings.model_validate({"curriculum": curriculum, "warmup": 10})
    budget = budgets(settings, epochs)
    assert all(0 < budget(epoch) <= 1 for epoch in range(1, epochs + 1))


def test_each_row_knows_whether_its_plan_has_converged() -> None:
    assert relabelled().converged.all()
    assert not relabelled(budget=1.0, variant="published", inner_iterations=1).converged.any()
    assert relabelled(allocator="gmm").converged.all()


def test_published_keeps_the_inequality_at_a_budget_of_one() -> None:
    """Before convergence it gives other plans."""
    few: dict[str, Any] = {"variant": "published", "relabel_batch": 0, "inner_iterations": 3}
    kept, equal = relabelled(1.0, **few), relabelled(1.0, **few, row_constraint="auto")
    assert not torch.allclose(kept.posterior, equal.posterior, atol=1e-4)


def test_coherence_can_be_counted_in_units_of_classes() -> None:
    scaled = relabelled(0.5, coherence=0.5, coherence_scale="classes", relabel_batch=0)
    plain = relabelled(0.5, coherence=0.5 * C / 0.5, relabel_batch=0)
    assert torch.equal(scaled.posterior, plain.posterior)


def test_the_network_labels_the_rows_that_the_plan_leaves_out() -> None:
    """SSR's rule, row by row: its own label if it is sure of it."""
    seen, labels = predictions()
    plan = relabelled(0.3)
    found = label_rest(plan, seen.probs, labels, 0.5)
    is_new = 0
    for row, probs in enumerate(seen.probs.double().tolist()):
        best = max(range(C), key=lambda c: probs[c])
        if bool(plan.selected[row]):
            wanted = int(plan.labels[row]), True, float(plan.confidence[row])
        elif probs[best] > 0.5:
            wanted, is_new = (best, True, probs[best]), is_new + 1
        else:
            wanted = int(plan.labels[row]), False, float(plan.confidence[row])
        label, selected, confidence = wanted
        assert (int(found.labels[row]), bool(found.selected[row])) == (label, selected)
        assert float(found.confidence[row]) == pytest.approx(confidence, abs=1e-6)
        assert bool(found.clean[row]) == (selected and label == int(labels[row]))
    assert 0 < is_new < N - int(plan.selected.sum())
    by_setting = relabelled(0.3, rest_threshold=0.5)
    assert torch.equal(by_setting.selected, found.selected)


def test_neighbours_and_class_prior_reach_the_solver() -> None:
    seen, labels = predictions()
    settings = CsotSettings(similarity="knn", neighbours=3, coherence=5.0)
    prior = torch.tensor([0.4, 0.3, 0.2, 0.1])
    found = relabel(seen, labels, 0.5, settings, generator(), prior)
    plan = csot.solve(
        seen.probs,
        features=seen.features,
        labels=labels,
        budget=0.5,
        class_prior=prior,
        coherence=5.0,
        similarity="knn",
        neighbours=3,
    )
    assert torch.equal(found.labels, torch.as_tensor(plan.labels))
    assert torch.equal(found.selected, torch.as_tensor(plan.selected))
    coupling = torch.as_tensor(plan.coupling)
    filled = coupling.sum(-1) > 1e-6
    wanted = coupling / coupling.sum(-1, keepdim=True)
    torch.testing.assert_close(found.posterior[filled], wanted[filled], atol=1e-4, rtol=0)
