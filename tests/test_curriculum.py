"""Budget schedules against the formulas of the paper and of the published code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from csot import curriculum

STARTS = st.floats(0.01, 1.0)


def test_linear_is_the_papers() -> None:
    budget = curriculum.linear(epochs=250, start=0.3)
    for t in range(1, 400):
        assert budget(t) == pytest.approx(min(1.0, 0.3 + (t - 1) / (250 - 1)))
    # The slope is that of a ramp from zero: full at about 0.7 * 250 epochs.
    assert budget(175) < 1 == budget(176)


def test_linear_published_is_the_codes() -> None:
    """The code counts epochs from 0: m = .3 + .7 (e - w)/(250 - w), and 1 from epoch 250."""
    for warmup in (10, 30):
        budget = curriculum.linear_published(epochs=250, warmup=warmup)
        for e in range(warmup, 250):
            assert budget(e + 1) == pytest.approx(0.3 + 0.7 * (e - warmup) / (250 - warmup))
            assert budget(e + 1) < 1
        assert [budget(e + 1) for e in (250, 251, 449)] == [1, 1, 1]
        assert [budget(e + 1) for e in range(warmup + 1)] == [0.3] * (warmup + 1)


def test_exponential_grows_by_one_factor() -> None:
    budget = curriculum.exponential(epochs=11, start=0.2)
    assert budget(1) == pytest.approx(0.2)
    assert budget(11) == budget(12) == 1
    factors = [budget(t + 1) / budget(t) for t in range(1, 11)]
    assert factors == pytest.approx([5**0.1] * 10)


@given(start=STARTS, epochs=st.integers(2, 60), warmup=st.integers(0, 59))
def test_schedules_rise_from_start_to_one(start: float, epochs: int, warmup: int) -> None:
    schedules = [
        curriculum.linear(epochs=epochs, start=start),
        curriculum.linear_published(epochs=epochs, warmup=min(warmup, epochs - 1), start=start),
        curriculum.exponential(epochs=epochs, start=start),
    ]
    for schedule in schedules:
        budgets = [schedule(t) for t in range(1, epochs + 2)]
        assert budgets[0] == pytest.approx(start)
        assert budgets[-1] == 1
        assert (np.diff(budgets) >= 0).all()
        assert all(0 < m <= 1 and type(m) is float for m in budgets)


def test_a_users_own_schedule() -> None:
    budget = curriculum.validated(lambda t: np.float32(t / 4))
    assert budget(1) == 0.25
    assert type(budget(2)) is float
    with pytest.raises(
        ValueError, match=r"^schedule\(5\) must be a budget in \(0, 1\], got .*1\.25"
    ):
        budget(5)


@pytest.mark.parametrize("value", [0, -0.1, 1.01, float("nan"), None, "half"])
def test_a_users_wrong_budgets_are_named(value: Any) -> None:
    with pytest.raises(ValueError, match=r"^schedule\(3\) must be a budget in \(0, 1\], got"):
        curriculum.validated(lambda _: value)(3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: curriculum.linear(epochs=1), r"^epochs must be .* at least 2, got 1$"),
        (lambda: curriculum.linear(epochs=2.5), r"^epochs must be a whole number .*got 2\.5$"),
        (lambda: curriculum.linear(epochs=None), r"^epochs must be a whole number .*got None$"),
        (lambda: curriculum.linear(epochs=float("inf")), r"^epochs must be .*got inf$"),
        (lambda: curriculum.linear(epochs=10, start=0), r"^start must be a budget .*got 0$"),
        (lambda: curriculum.linear(epochs=10, start=30), r"^start must be a budget .*got 30$"),
        (lambda: curriculum.exponential(epochs=10, start=-1), r"^start must be .*got -1$"),
        (lambda: curriculum.exponential(epochs="10"), r"^epochs must be .*got '10'$"),
        (
            lambda: curriculum.linear_published(epochs=10, warmup=10),
            r"^epochs must be a whole number of at least 11, got 10$",
        ),
        (
            lambda: curriculum.linear_published(epochs=10, warmup=-1),
            r"^warmup must be a whole number of at least 0, got -1$",
        ),
        (lambda: curriculum.linear(epochs=10)(0), r"^epoch must be .* at least 1, got 0$"),
        (lambda: curriculum.validated(lambda t: 1.0)(1.5), r"^epoch must be .*got 1\.5$"),
        (lambda: curriculum.validated(0.5), r"^schedule must be a function .*got 0\.5$"),
    ],
)
def test_bad_arguments_are_named(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
