"""Workspace that is kept between solutions must never be seen in one."""

from __future__ import annotations

import threading

import numpy as np
import torch

import csot
from csot.ot import execution as memory
from csot.ot.execution import Workspace, borrow_workspace
from helpers import make_instance

CPU = torch.device("cpu")


def test_arrays_from_the_buffer_do_not_overlap() -> None:
    buffer = torch.zeros(2**20, dtype=torch.uint8)
    given = Workspace(buffer)
    first = given.empty((3, 50_001), torch.float32, CPU)
    second = given.empty((2, 20_000), torch.float64, CPU)
    outside = given.empty((1000, 1000), torch.float64, CPU)
    first.fill_(1.0)
    second.fill_(2.0)
    outside.fill_(3.0)
    assert bool((first == 1).all())
    assert bool((second == 2).all())
    end = buffer.data_ptr() + len(buffer)
    assert [buffer.data_ptr() <= x.data_ptr() < end for x in (first, second, outside)] == [
        True,
        True,
        False,
    ]
    assert given.requested > len(buffer)


def test_the_buffer_grows_is_kept_and_has_a_limit() -> None:
    def pointer(size: int) -> int:
        with borrow_workspace() as given:
            return given.empty((size,), torch.float32, CPU).data_ptr()

    pointer(200_000)
    kept = pointer(200_000)
    assert pointer(200_000) == pointer(100_000) == kept
    pointer(memory.KEPT_BYTES)
    assert pointer(200_000) == kept


def test_plans_do_not_change_when_the_next_is_made() -> None:
    """Large enough for the buffer, in turns: also where one solution asks for another."""
    cases = [make_instance(8000, 6, seed) for seed in range(2)]

    def solve(number: int) -> csot.Plan:
        case = cases[number]
        return csot.solve(
            case.pred_probs, features=case.features, labels=case.labels, budget=0.5, max_outer=50
        )

    fresh = []
    for number in (0, 1):
        thread = threading.Thread(target=lambda n=number: fresh.append(solve(n)))
        thread.start()
        thread.join()
    plans = [solve(number) for number in (0, 1, 0, 1)]
    for number, plan in enumerate(plans):
        expected = fresh[number % 2]
        assert np.array_equal(plan.coupling, expected.coupling)
        assert np.array_equal(plan.labels, expected.labels)
        assert np.array_equal(plan.log_u, expected.log_u)

    def similarity(x: torch.Tensor) -> torch.Tensor:
        assert np.array_equal(solve(1).coupling, fresh[1].coupling)
        return x * 0

    nested = csot.solve(
        cases[0].pred_probs, similarity=similarity, labels=cases[0].labels, budget=0.5
    )
    plain = csot.solve(cases[0].pred_probs, budget=0.5)
    assert np.abs(nested.coupling - plain.coupling).max() < 1e-12


def test_another_default_device_changes_nothing() -> None:
    case = make_instance(8000, 6, seed=0)
    expected = csot.solve(case.pred_probs, budget=0.5)
    found: list[csot.Plan] = []

    def solve_twice() -> None:
        with torch.device("meta"):
            found.append(csot.solve(case.pred_probs, budget=0.5))
        found.append(csot.solve(case.pred_probs, budget=0.5))

    # A thread of its own, which has no buffer yet.
    thread = threading.Thread(target=solve_twice)
    thread.start()
    thread.join()
    assert [np.array_equal(plan.coupling, expected.coupling) for plan in found] == [True, True]
