"""What CSOT does between the steps: stages, sets of rows, and what it says in the end."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor, nn

from csot.methods.core.contract import Batch, Predictions
from csot.methods.core.method_registry import find_ablation
from csot.methods.csot import CLEAN, CORRUPTED, WARMUP, Csot
from csot.methods.parts.csot_settings import VARIANTS, CsotSettings
from csot.methods.parts.relabel import relabel
from methods.tiny import CLASSES, ROWS, context, inputs, make_csot, part, some_labels


def certain(truth: Tensor, confidence: float = 20.0) -> Any:
    """A network that knows the truth, whatever its weights are."""

    def predict(network: nn.Module, rows: Tensor) -> Predictions:
        hot = torch.eye(CLASSES)[truth[rows]]
        return Predictions(confidence * hot, hot)

    return predict


def stages(method: Csot, epochs: int) -> list[int]:
    with torch.no_grad():
        return [int(method.begin_epoch(epoch)["stage"]) for epoch in range(1, epochs + 1)]


def run_epoch(method: Csot, epoch: int) -> list[set[str]]:
    """Every step forwards and backwards; which streams each had."""
    with torch.no_grad():
        method.begin_epoch(epoch)
    seen = []
    for streams in method.steps(epoch):
        batch: Batch = {name: part(method, rows) for name, rows in streams.items()}
        losses = method(batch)
        if losses:
            torch.stack(list(losses.values())).sum().backward()
            assert all(torch.isfinite(value) for value in losses.values())
        seen.append(set(streams))
    return seen


def noisy(truth: Tensor, wrong: int) -> Tensor:
    labels = truth.clone()
    labels[:wrong] = (labels[:wrong] + 1) % CLASSES
    return labels


@pytest.mark.parametrize(("ends", "warm"), [("before", 2), ("after", 3)])
def test_warmup_ends(ends: str, warm: int) -> None:
    method = make_csot(warmup=3, warmup_ends=ends)
    assert stages(method, 5) == [0] * warm + [1] * (5 - warm)


def test_warmup_takes_larger_batches() -> None:
    method = make_csot(warmup=3, warmup_batch_factor=2)
    (first, *_), steps = list(method.steps(1)), list(method.steps(1))
    assert len(first[WARMUP]) == 12
    assert len(steps) == ROWS // 12


def test_stage_two_at_an_epoch() -> None:
    assert stages(make_csot(warmup=0, supervised_epochs=4), 6) == [1, 1, 1, 2, 2, 2]


def test_stage_two_never() -> None:
    assert set(stages(make_csot(warmup=0, supervised_epochs=2, switch="never"), 6)) == {1}


def test_stage_two_by_a_latch_that_holds() -> None:
    """More rows corrected than left out: with every third label wrong, from a budget of 3/4 on."""
    truth = some_labels()
    labels = noisy(truth, 8)
    given = {"warmup": 0, "switch": "latch", "supervised_epochs": 8, "coherence": 0.0}
    method = make_csot(context(labels, certain(truth)), **given)
    with torch.no_grad():
        records = [method.begin_epoch(epoch) for epoch in range(1, 8)]
    expected, latched = [], False
    for record in records:
        left = ROWS - record["selected"]
        latched = latched or record["corrected"] > left
        expected.append(2 if latched else 1)
    assert [record["stage"] for record in records] == expected
    assert set(expected) == {1, 2}
    method.budget = lambda epoch: 0.3
    with torch.no_grad():
        assert method.begin_epoch(8)["stage"] == 2, "the latch holds, though the budget fell"


def test_counts_and_budget_are_recorded() -> None:
    truth = some_labels()
    method = make_csot(
        context(noisy(truth, 6), certain(truth)), warmup=0, curriculum="constant", start_budget=1.0
    )
    record = method.begin_epoch(1)
    assert record == {
        "stage": 1,
        "budget": 1.0,
        "selected": 24,
        "clean": 18,
        "corrected": 6,
        "plan_disagreement": 0.0,
        "plan_converged": 1.0,
    }
    split = method.split()
    assert split is not None
    assert split.labels.equal(truth)
    assert split.corrected.nonzero()[:, 0].tolist() == list(range(6))


def test_no_split_before_the_first_look() -> None:
    method = make_csot(warmup=2)
    method.begin_epoch(1)
    assert method.split() is None


@pytest.mark.parametrize(
    ("corrupted", "expected"),
    [("disagreeing", lambda m: m.labels != m.context.labels), ("not_clean", lambda m: ~m.clean)],
)
def test_definitions_of_the_corrupted_set(corrupted: str, expected: Any) -> None:
    truth = some_labels()
    where = context(noisy(truth, 6), certain(truth, 3.0), batch_size=1)
    method = make_csot(where, warmup=0, corrupted=corrupted)
    method.begin_epoch(1)
    taken = torch.cat([streams[CORRUPTED] for streams in method.steps(1)])
    assert set(taken.tolist()) == set(expected(method).nonzero()[:, 0].tolist())
    clean = torch.cat([streams[CLEAN] for streams in method.steps(1)])
    assert method.clean[clean].all()


def test_held_out_rows_are_left_alone() -> None:
    rows = torch.arange(0, ROWS, 2)
    method = make_csot(context(rows=rows), warmup=1, warmup_ends="after")
    for epoch in (1, 2):
        method.begin_epoch(epoch)
        for streams in method.steps(epoch):
            assert all(set(taken.tolist()) <= set(rows.tolist()) for taken in streams.values())
    held = torch.arange(1, ROWS, 2)
    assert not method.selected[held].any()
    assert method.labels[held].equal(method.context.labels[held])


@pytest.mark.parametrize("variant", ["paper", "published"])
@pytest.mark.parametrize("stage", [1, 2])
def test_an_empty_clean_set(variant: str, stage: int) -> None:
    truth = some_labels()
    where = context((truth + 1) % CLASSES, certain(truth))
    given = {"supervised_epochs": 1 if stage == 2 else 9, "switch": "epoch"}
    method = make_csot(where, variant=variant, warmup=0, coherence=0.0, **given)
    assert {frozenset(streams) for streams in run_epoch(method, 2)} == {frozenset({CORRUPTED})}


@pytest.mark.parametrize("variant", ["paper", "published"])
@pytest.mark.parametrize("stage", [1, 2])
def test_an_empty_corrupted_set(variant: str, stage: int) -> None:
    truth = some_labels()
    given = {"supervised_epochs": 1 if stage == 2 else 9, "switch": "epoch"}
    given |= {"curriculum": "constant", "start_budget": 1.0, "coherence": 0.0}
    method = make_csot(context(truth, certain(truth)), variant=variant, warmup=0, **given)
    assert {frozenset(streams) for streams in run_epoch(method, 2)} == {frozenset({CLEAN})}


def test_both_sets_empty() -> None:
    """A budget so small that no row is selected, and no label is contradicted."""
    truth = some_labels()
    where = context(truth, certain(truth))
    method = make_csot(where, warmup=0, curriculum="constant", start_budget=0.01)
    assert run_epoch(method, 1) == []
    assert method.begin_epoch(1)["selected"] == 0


@pytest.mark.parametrize("variant", ["paper", "published"])
def test_rows_without_a_label(variant: str) -> None:
    labels = some_labels()
    labels[::4] = -1
    method = make_csot(context(labels), variant=variant, warmup=1, supervised_epochs=2)
    for epoch in range(1, 5):
        run_epoch(method, epoch)
    assert not method.clean[::4].any()
    judged = method.judge()
    assert torch.isfinite(judged.posterior).all()
    assert judged.scores.shape == (ROWS,)


def test_judgement() -> None:
    truth = some_labels()
    labels = noisy(truth, 6)
    method = make_csot(context(labels, certain(truth)), warmup=0, supervised_epochs=2)
    judged = method.judge()
    assert judged.posterior.argmax(1).equal(truth)
    torch.testing.assert_close(judged.posterior.sum(1), torch.ones(ROWS))
    assert judged.scores[:6].max() < judged.scores[6:].min()
    assert judged.trusted.all()


def test_prediction_is_the_networks() -> None:
    method = make_csot()
    log_probs = method.predict(inputs())
    torch.testing.assert_close(log_probs.exp().sum(1), torch.ones(ROWS))
    assert log_probs.argmax(1).equal(method.network(inputs()).logits.argmax(1))


def test_state_is_whole() -> None:
    """A method that loads another's state goes on as the other would."""
    one, other = (make_csot(warmup=1, supervised_epochs=3) for _ in range(2))
    one.begin_epoch(3)
    assert bool(one.semi)
    other.load_state_dict(one.state_dict())
    assert bool(other.semi)
    for name in ("labels", "confidence", "selected", "clean", "probs", "has_split"):
        assert getattr(one, name).equal(getattr(other, name))
    assert one.split() is not None
    assert other.split() is not None


def test_variants_and_what_overrides_them() -> None:
    published = CsotSettings(variant="published")
    assert {name: getattr(published, name) for name in VARIANTS["published"]} == VARIANTS[
        "published"
    ]
    default, paper = CsotSettings(), CsotSettings(variant="paper")
    changed = {"variant": "default", "relabel_batch": 0}
    assert paper.model_copy(update=changed) == default
    for name in ("coherence_scale", "similarity", "class_prior", "rest_threshold", "warmup_views"):
        assert getattr(published, name) == getattr(paper, name) == getattr(default, name)
    assert all(getattr(default, name) != value for name, value in VARIANTS["published"].items())
    plus = CsotSettings.model_validate(find_ablation("plus").settings)
    assert (plus.coherence_scale, plus.coherence, plus.relabel_batch) == ("classes", 3.0, 0)
    assert CsotSettings(variant="published", mixup_views=1).mixup_views == 1
    assert CsotSettings(coherence=2.0, label_coherence=0.0).kappa == (2.0, 0.0)
    # Written out and read again, a variant is what it was.
    assert CsotSettings.model_validate(published.model_dump(mode="json")) == published


@pytest.mark.parametrize("wrong", [{"variant": "mine"}, {"epsilon": 0}, {"cutof": 0.9}])
def test_wrong_settings(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        CsotSettings.model_validate(wrong)


def test_the_class_prior_follows_the_plan() -> None:
    truth = torch.arange(ROWS) % CLASSES
    truth[: ROWS // 2] = 0
    method = make_csot(context(truth, certain(truth, 3.0)), warmup=0, class_prior="plan")
    assert method.prior is not None
    torch.testing.assert_close(method.prior, torch.full((CLASSES,), 1 / CLASSES))
    for epoch in (1, 2):
        before = method.prior.clone()
        with torch.no_grad():
            method.begin_epoch(epoch)
            seen = method.context.predict(method.network, method.context.rows)
            budget = method.budget(epoch)
            found = relabel(seen, truth, budget, method.settings, torch.Generator(), before)
        torch.testing.assert_close(method.prior, found.posterior.mean(0), atol=1e-5, rtol=0)
    assert method.prior[0] > 0.5
    assert "prior" in method.state_dict()
    assert "prior" not in make_csot().state_dict()


@pytest.mark.parametrize("stage", [1, 2])
def test_ablation_g_replaces_all_of_the_first_stage(stage: int) -> None:
    truth = some_labels()
    labels = noisy(truth, 6)
    where = context(labels, certain(truth))
    method = make_csot(where, warmup=0, clean_loss="cross_entropy", supervised_epochs=2)
    run_epoch(method, stage)
    rows = torch.arange(6, 12)
    losses = method({CLEAN: part(method, rows), CORRUPTED: part(method, torch.arange(6))})
    assert set(losses) == ({"clean"} if stage == 1 else {"mix", "lab", "semi"})
    assert CORRUPTED not in next(iter(method.steps(1))) or stage == 2


@pytest.mark.parametrize("letter", ["a", "b"])
def test_without_a_curriculum_the_latch_would_leave_no_first_stage(letter: str) -> None:
    truth = some_labels()
    settings = {"variant": "published", "warmup": 0, "supervised_epochs": 3}
    where = context(noisy(truth, 6), certain(truth))
    changes = find_ablation(letter).settings
    assert stages(make_csot(where, **{**settings, **changes}), 3) == [1, 1, 2]
    assert stages(make_csot(where, **{**settings, **changes, "switch": "latch"}), 1) == [2]
