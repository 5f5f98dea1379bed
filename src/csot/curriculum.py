"""Budget schedules: the share of the samples to allocate in each epoch.

A schedule is any function from the epoch, counted from 1, to a budget in (0, 1].
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import TypeAlias

Schedule: TypeAlias = Callable[[int], float]
"""A function from the epoch, counted from 1, to the budget."""


def linear(*, epochs: int, start: float = 0.3) -> Schedule:
    """The paper's ramp: m = min(1, m0 + (t - 1)/(T_sup - 1)), with `epochs` = T_sup.

    It has the slope of a ramp from 0 to 1, so it reaches 1 after a share of 1 - m0 of the epochs.
    """
    _check("start", start)
    last = _at_least("epochs", epochs, 2) - 1

    def budget(epoch: int) -> float:
        return min(1.0, start + (_epoch(epoch) - 1) / last)

    return budget


def linear_published(*, epochs: int, warmup: int, start: float = 0.3) -> Schedule:
    """The published code's ramp: `start` after the warm-up, 1 after `epochs` epochs.

    The code counts from 0: m = m0 + (1 - m0)(e - w)/(T - w) with e = t - 1.
    """
    _check("start", start)
    _at_least("warmup", warmup, 0)
    _at_least("epochs", epochs, warmup + 1)

    def budget(epoch: int) -> float:
        done = (_epoch(epoch) - 1 - warmup) / (epochs - warmup)
        return min(1.0, start + (1 - start) * max(0.0, done))

    return budget


def exponential(*, epochs: int, start: float = 0.3) -> Schedule:
    """From `start` at epoch 1 to 1 at epoch `epochs`, by a constant factor per epoch."""
    _check("start", start)
    last = _at_least("epochs", epochs, 2) - 1

    def budget(epoch: int) -> float:
        return float(min(1.0, start ** (1 - (_epoch(epoch) - 1) / last)))

    return budget


def validated(schedule: Schedule) -> Schedule:
    """The user's own schedule, with every budget checked."""
    if not callable(schedule):
        raise ValueError(
            f"schedule must be a function from the epoch (from 1) to a budget, got {schedule!r}"
        )

    def budget(epoch: int) -> float:
        return _check(f"schedule({_epoch(epoch)})", schedule(epoch))

    return budget


def _check(name: str, budget: float) -> float:
    if not (isinstance(budget, Real) and 0 < budget <= 1):
        raise ValueError(f"{name} must be a budget in (0, 1], got {budget!r}")
    return float(budget)


def _epoch(epoch: int) -> int:
    return _at_least("epoch", epoch, 1)


def _at_least(name: str, value: int, least: int) -> int:
    if not (isinstance(value, Real) and value >= least and value % 1 == 0):
        raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}")
    return int(value)
