"""Learning rate by epoch."""

from __future__ import annotations

import math

from csot.training.config import ScheduleConfig


def learning_rate(base: float, schedule: ScheduleConfig, epoch: int, epochs: int) -> float:
    """Of an epoch counted from 1, out of `epochs`."""
    done = epoch - 1
    if done < schedule.warmup_epochs:
        return base * epoch / (schedule.warmup_epochs + 1)
    if schedule.name == "constant":
        return base
    if schedule.name == "steps":
        passed = sum(done >= milestone for milestone in schedule.milestones)
        return base * schedule.factor**passed
    if schedule.name == "linear":
        left = (epochs - done) / max(1, epochs - schedule.linear_from)
        return base * min(1.0, left)
    whole = epochs if schedule.name == "cosine" else schedule.period
    share = (done % whole) / whole
    return schedule.floor + (base - schedule.floor) * (1 + math.cos(math.pi * share)) / 2
