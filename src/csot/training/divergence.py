"""Errors if training diverges: what is not finite, and what to try."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from csot.methods.core.contract import Losses
from csot.training.checkpoint import Checkpoints

REMEDY = "Try `settings` with a smaller learning_rate or with clip=1, or precision 32-true"


def describe_divergence(
    module: nn.Module, losses: Losses, record: Mapping[str, float], step: int, kept: int | None
) -> str:
    """Which loss is not finite and since when, the state of the parameters, and what to try."""
    broken = [name for name, value in losses.items() if not bool(torch.isfinite(value))]
    broken_names = non_finite_parameters(module)
    largest = max((float(value.detach().abs().max()) for value in module.parameters()), default=0.0)
    state = (
        f"{len(broken_names)} parameters hold NaN or infinity, first {broken_names[0]}"
        if broken_names
        else f"all parameters are finite, the largest is {largest:.3g}"
    )
    return (
        f"the loss is not finite in epoch {record['epoch']}, step {step} "
        f"({', '.join(broken) or 'on another process'}); {state}; learning rate "
        f"{record['learning_rate']:.3g}; {_remedy(kept)}"
    )


def check_parameters(
    module: nn.Module, record: Mapping[str, float], checkpoints: Checkpoints
) -> None:
    """Raise if a parameter is not finite: the last step of an epoch may do that.

    Its loss was computed before.
    """
    broken = non_finite_parameters(module)
    if broken:
        raise FloatingPointError(
            f"{len(broken)} parameters hold NaN or infinity after epoch {record['epoch']}, first "
            f"{broken[0]}; learning rate {record['learning_rate']:.3g}; "
            f"{_remedy(checkpoints.epoch('last'))}"
        )


def non_finite_parameters(module: nn.Module) -> list[str]:
    """Names of the parameters that hold NaN or infinity."""
    return [
        name for name, value in module.named_parameters() if not bool(torch.isfinite(value).all())
    ]


def check_outputs(is_invalid: Tensor) -> None:
    """Raise if an output is invalid, (N, ...) bool; finite parameters may give infinite outputs."""
    rows = is_invalid.flatten(1).any(1)
    if bool(rows.any()):
        raise FloatingPointError(
            f"the outputs for {int(rows.sum())} of {len(rows)} rows are not finite: the network "
            f"has diverged; checkpoints of earlier epochs are kept. {REMEDY}"
        )


def _remedy(kept: int | None) -> str:
    remains = "no checkpoint yet" if kept is None else f"the checkpoint of epoch {kept} is kept"
    return f"{remains}. {REMEDY}"
