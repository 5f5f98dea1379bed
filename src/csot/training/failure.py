"""What to say when the loss is no number."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from csot.methods._base import Losses
from csot.training.checkpoint import Checkpoints


def diagnose(
    module: nn.Module, losses: Losses, record: Mapping[str, float], step: int, kept: int | None
) -> str:
    """Which loss, since when, whether the weights are still sound, and what to try."""
    broken = [name for name, value in losses.items() if not bool(torch.isfinite(value))]
    ill = broken_parameters(module)
    largest = max((float(value.detach().abs().max()) for value in module.parameters()), default=0.0)
    weights = (
        f"{len(ill)} parameters hold NaN or infinity, first {ill[0]}"
        if ill
        else f"all parameters are finite, the largest is {largest:.3g}"
    )
    return (
        f"the loss is not finite in epoch {record['epoch']}, step {step} "
        f"({', '.join(broken) or 'on another process'}); {weights}; {_remedy(record, kept)}"
    )


def refuse_broken(module: nn.Module, record: Mapping[str, float], checkpoints: Checkpoints) -> None:
    """The last step of an epoch may break the weights while its loss was still a number."""
    ill = broken_parameters(module)
    if ill:
        raise FloatingPointError(
            f"{len(ill)} parameters hold NaN or infinity after epoch {record['epoch']}, first "
            f"{ill[0]}; {_remedy(record, checkpoints.epoch('last'))}"
        )


def broken_parameters(module: nn.Module) -> list[str]:
    """Names of those that hold NaN or infinity."""
    return [
        name for name, value in module.named_parameters() if not bool(torch.isfinite(value).all())
    ]


def _remedy(record: Mapping[str, float], kept: int | None) -> str:
    remains = "no checkpoint yet" if kept is None else f"the checkpoint of epoch {kept} is kept"
    return (
        f"learning rate {record['learning_rate']:.3g}; {remains}. Try a smaller "
        "--set learning_rate, --set clip=1, or precision 32-true"
    )
