"""Compiled Newton against torch's Newton: the same steps to the same potentials."""

from __future__ import annotations

import dataclasses
import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import csot
from csot.ot.execution import Execution
from csot.ot.inner import newton as inner
from csot.ot.inner import newton_choice as compiled
from csot.ot.inner.kernel import Kernel
from csot.ot.inner.scaling import Stopping
from csot.ot.problem import Marginals
from helpers import make_instance, make_kernel

LOAD = compiled._loops.__wrapped__
"""Without the cache."""

TIGHT = Stopping(tolerance=1e-11, limit=1000)


@settings(max_examples=80, deadline=None)
@given(
    size=st.tuples(st.integers(4, 600), st.integers(2, 30)),
    budget=st.one_of(st.floats(0.05, 0.97), st.just(1.0)),
    epsilon=st.sampled_from([0.01, 0.1, 1.0]),
    seed=st.integers(0, 10_000),
    empty=st.booleans(),
)
def test_both_find_the_same_solution(
    size: tuple[int, int], budget: float, epsilon: float, seed: int, empty: bool
) -> None:
    start = torch.zeros(1, size[1], dtype=torch.float64)
    found = []
    for method in (compiled.newton, inner.newton):
        kernel = make_kernel(*size, budget, epsilon, seed, empty=empty)
        solution = method(kernel, start, TIGHT)
        plan = kernel.plan(solution.state, out=torch.empty_like(kernel.absorbed))
        found.append((solution, plan / kernel.marginals.a[:, None]))
    (loops, loops_plan), (torchs, torchs_plan) = found
    assert float(loops.error) <= max(1e-10, float(torchs.error))
    assert float((loops_plan - torchs_plan).abs().max()) < 1e-8
    assert (loops.log_u <= 0).all() or budget == 1


def test_both_take_the_same_steps() -> None:
    for seed in range(5):
        start = torch.zeros(1, 8, dtype=torch.float64)
        steps = [
            method(make_kernel(300, 8, 0.4, 0.1, seed), start, TIGHT).iterations
            for method in (compiled.newton, inner.newton)
        ]
        assert abs(steps[0] - steps[1]) <= 1


def test_underflowing_totals_go_on_in_the_log_domain() -> None:
    kernel = make_kernel(40, 4, 0.5, 0.1, seed=0)
    gradient = torch.zeros_like(kernel.absorbed)
    gradient[0, 2] = 200.0
    kernel.linearise(gradient, 0.1)
    start = torch.zeros(1, 4, dtype=torch.float64)
    solution = compiled.newton(kernel, start, TIGHT)
    assert float(solution.error) < 1e-10


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_the_limit_of_steps_holds(limit: int) -> None:
    kernel = make_kernel(200, 10, 0.5, 0.02, seed=1)
    start = torch.zeros(1, 10, dtype=torch.float64)
    solution = compiled.newton(kernel, start, Stopping(1e-11, limit))
    # The last step may take up to five evaluations.
    assert solution.iterations < limit + 5
    assert bool(solution.log_u.isfinite().all())


def test_only_one_small_problem_is_served() -> None:
    def served(*shape: int) -> bool:
        n_classes, n = shape[1:]
        marginals = Marginals(
            torch.full((shape[0], n), 1 / n, dtype=torch.float64),
            torch.full((shape[0], n_classes), 0.5 / n_classes, dtype=torch.float64),
            balanced=False,
        )
        log_probs = torch.zeros(shape)
        return compiled._is_small(Kernel(log_probs, marginals, Execution()))

    assert served(1, 10, 1024)
    assert not served(2, 10, 1024)
    assert not served(1, 500, 500)
    assert not served(1, 10, 1_000_000)


def test_numba_is_used_where_it_is(loops: str) -> None:
    assert compiled.is_available() == (loops == "compiled")


def test_potentials_that_skip_entries_are_a_start() -> None:
    case = make_instance(50, 4, seed=0)
    plan = csot.solve(case.pred_probs, budget=0.5)
    skipping = dataclasses.replace(plan, log_v=np.repeat(plan.log_v, 2)[::2])
    again = csot.solve(case.pred_probs, budget=0.5, start=skipping)
    assert np.abs(again.coupling - plan.coupling).max() < 1e-9


def test_no_limit_is_too_large() -> None:
    case = make_instance(50, 4, seed=0)
    assert csot.solve(case.pred_probs, budget=0.5, max_inner=2**70).converged


def test_a_total_that_is_no_number_is_an_error() -> None:
    loops = pytest.importorskip("csot.ot.inner.newton_numba")
    ones = np.ones(2)
    kernel = np.ones((2, 2))
    absorbed = loops.AbsorbedKernel(
        kernel, kernel, ones, ones, ones, ones, 0 * ones, 0 * ones, False, 8.0, 1e-120
    )
    for sums in ([np.nan, 1.0], [1.0, np.nan]):
        found = loops.Evaluation(ones, ones, ones, np.array(sums))
        assert np.isnan(loops.column_error(absorbed, found))


@pytest.mark.parametrize("error", [OSError, AttributeError, SystemError])
def test_a_broken_numba_is_left_alone(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object) -> None:
        raise error("damaged")

    flushed: list[object] = []
    monkeypatch.setattr(compiled, "_try_out", fail)
    # Not the real one: every other process would have to compile anew.
    monkeypatch.setattr(compiled, "_flush_cache", flushed.append)
    with pytest.warns(UserWarning, match="numba fails .damaged.; using torch instead"):
        assert LOAD() is None
    assert len(flushed) == 1


def test_a_stale_cache_is_discarded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as one that names a class which the module no longer has."""
    pytest.importorskip("numba")
    attempts = []

    def fail_once(loops: object) -> None:
        attempts.append(loops)
        if len(attempts) == 1:
            raise AttributeError("Can't get attribute 'Frame'")

    flushed: list[object] = []
    monkeypatch.setattr(compiled, "_try_out", fail_once)
    monkeypatch.setattr(compiled, "_flush_cache", flushed.append)
    assert LOAD() is not None
    assert len(attempts) == 2
    assert flushed == attempts[:1]


def test_flushing_empties_the_cache(tmp_path: Path) -> None:
    pytest.importorskip("numba")
    code = "from numba import njit\n\n@njit(cache=True)\ndef twice(x):\n    return 2 * x\n"
    (tmp_path / "small.py").write_text(code)
    spec = importlib.util.spec_from_file_location("small", tmp_path / "small.py")
    assert spec is not None
    assert spec.loader is not None

    def load() -> Any:
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        assert module.twice(2) == 4
        return module

    first, second = load(), load()
    assert [module.twice.stats.cache_hits.total() for module in (first, second)] == [0, 1]
    compiled._flush_cache(first)
    assert load().twice.stats.cache_hits.total() == 0


def test_without_numba_torch_does_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)
    monkeypatch.delitem(sys.modules, "csot.ot.inner.newton_numba", raising=False)
    monkeypatch.delattr(csot.ot.inner, "newton_numba", raising=False)
    monkeypatch.setattr(compiled, "_loops", LOAD)
    assert compiled._loops() is None
    case = make_instance(30, 3, seed=0)
    assert csot.solve(case.pred_probs, budget=0.5).converged
