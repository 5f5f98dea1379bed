"""Rows spread over processes: every process gets its part of the plan of the whole."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

import csot
import forks
from csot.ot.coherence.cosine import CosineCoherence
from csot.ot.coherence.terms import Terms
from csot.ot.execution import Execution, Shards
from helpers import make_instance

N, C = 60, 4
OPTIONS: dict[str, dict[str, Any]] = {
    "half": {"budget": 0.5},
    "all": {"budget": 1.0},
    "by labels": {"budget": 0.5, "class_prior": "labels"},
    "scaling": {"method": "scaling", "inner_iterations": 20, "tolerance": 0, "max_outer": 2},
    "dykstra": {"method": "dykstra", "inner_iterations": 20, "tolerance": 0, "max_outer": 2},
    "not converged": {"budget": 1.0, "epsilon": 1e-2, "max_inner": 2, "max_outer": 3},
    "many classes": {"budget": 0.5, "max_outer": 2, "max_inner": 20},
}
ARRAYS = ("coupling", "labels", "selected", "confidence", "log_u", "row_weights")
SHARED = ("objective", "gap", "converged", "log_v", "class_prior", "marginal_error")
# Where each process's rows end: all three, of unequal size, and a group of the first two.
LIMITS = {"three unequal": [0, 7, 40, N], "two": [0, 30, N]}

pytestmark = pytest.mark.skipif(not dist.is_available(), reason="torch without distributed")


def _inputs(problem: str, rows: slice) -> dict[str, Any]:
    case = make_instance(N, 200 if problem == "many classes" else C, seed=11)
    return {
        "pred_probs": case.pred_probs[rows],
        "features": case.features[rows],
        "labels": case.labels[rows],
        "row_weights": case.row_weights[rows],
    }


def _solve(problem: str, rows: slice, **more: Any) -> csot.Plan:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", csot.ConvergenceWarning)
        return csot.solve(**_inputs(problem, rows), **{"max_outer": 50, **OPTIONS[problem]}, **more)


def _refusal(**more: Any) -> str:
    rows = slice(0, 20)
    try:
        csot.solve(**_inputs("half", rows), group=dist.group.WORLD, **more)
    except ValueError as error:
        return str(error)
    return "none"


def _bound(rank: int) -> float:
    """That of Omega, where the largest weight is in another process."""
    weights = torch.full((1, C, 5), (rank + 1) / 3)
    features = torch.ones(1, 5, 2)
    terms = Terms(weights, 1.0, None, 0.0)
    norms = features.norm(dim=-1)
    coherence = CosineCoherence(features, norms, terms, Execution(Shards(dist.group.WORLD)))
    return float(coherence.upper_bound(torch.ones(1, C)))


def _work(rank: int, folder: str) -> None:
    """One process: solve its rows of every problem, and write down what it got."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=3)
    groups = {"three unequal": dist.group.WORLD, "two": dist.new_group([0, 1])}
    facts: dict[str, Any] = {}
    for setting, limits in LIMITS.items():
        if rank + 1 < len(limits):
            rows = slice(limits[rank], limits[rank + 1])
            for problem in OPTIONS:
                plan = _solve(problem, rows, group=groups[setting])
                for name in ARRAYS + SHARED:
                    facts[f"{setting}/{problem}/{name}"] = getattr(plan, name)
    facts["knn"] = _refusal(similarity="knn")
    facts["bound"] = _bound(rank)
    facts["matrix"] = _refusal(similarity=np.zeros((20, 20)))
    np.savez(f"{folder}/{rank}.npz", **facts)
    dist.barrier()
    dist.destroy_process_group()


@pytest.fixture(scope="session")
def answers(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each process got, by its rank."""
    folder = tmp_path_factory.mktemp("shards")
    forks.preload()
    mp.start_processes(_work, args=(str(folder),), nprocs=3, start_method="forkserver")
    return [dict(np.load(folder / f"{rank}.npz")) for rank in range(3)]


@pytest.mark.parametrize("setting", LIMITS)
@pytest.mark.parametrize("problem", OPTIONS)
def test_shards_give_the_plan_of_one_process(
    answers: list[dict[str, Any]], setting: str, problem: str
) -> None:
    members = answers[: len(LIMITS[setting]) - 1]
    whole = _solve(problem, slice(None))
    # Newton's directions for many classes come from truncated conjugate gradients.
    tolerance = 1e-6 if problem == "many classes" else 1e-9
    for name in ARRAYS:
        joined = np.concatenate([answer[f"{setting}/{problem}/{name}"] for answer in members])
        expected = getattr(whole, name)
        scale = N if name == "coupling" else 1
        if expected.dtype.kind == "f":
            assert np.abs(joined - expected).max() * scale < tolerance, name
        else:
            assert (joined == expected).all(), name
    for name in SHARED:
        for answer in members:
            assert np.allclose(
                answer[f"{setting}/{problem}/{name}"],
                getattr(whole, name),
                rtol=1e-6,
                atol=tolerance,
            ), name


def test_selection_counts_over_all_processes(answers: list[dict[str, Any]]) -> None:
    chosen = [int(answer["three unequal/half/selected"].sum()) for answer in answers]
    assert sum(chosen) == N // 2


def test_processes_decide_alike(answers: list[dict[str, Any]]) -> None:
    """Otherwise one of them would wait for a sum that the others never compute."""
    assert len({float(answer["bound"]) for answer in answers}) == 1


def test_what_needs_all_rows_is_refused(answers: list[dict[str, Any]]) -> None:
    for answer in answers:
        assert str(answer["knn"]).startswith('similarity="knn" needs all rows in one process')
        assert str(answer["matrix"]).startswith("similarity: a matrix needs all rows in one pro")


def test_a_group_of_one_changes_nothing(tmp_path: Path) -> None:
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/meet", rank=0, world_size=1)
    try:
        alone = _solve("half", slice(None), group=dist.group.WORLD)
        assert np.array_equal(alone.selected, _solve("half", slice(None)).selected)
    finally:
        dist.destroy_process_group()
    assert np.array_equal(alone.coupling, _solve("half", slice(None)).coupling)
