"""What to say when the loss is no number."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from csot.methods._base import Losses
from csot.training.checkpoint import Checkpoints

TRY = "Try a smaller --set learning_rate, --set clip=1, or precision 32-true"


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
        f"({', '.join(broken) or 'on another process'}); {weights}; learning rate "
        f"{record['learning_rate']:.3g}; {_remedy(kept)}"
    )


def refuse_broken(module: nn.Module, record: Mapping[str, float], checkpoints: Checkpoints) -> None:
    """The last step of an epoch may break the weights while its loss was still a number."""
    ill = broken_parameters(module)
    if ill:
        raise FloatingPointError(
            f"{len(ill)} parameters hold NaN or infinity after epoch {record['epoch']}, first "
            f"{ill[0]}; learning rate {record['learning_rate']:.3g}; "
            f"{_remedy(checkpoints.epoch('last'))}"
        )


def broken_parameters(module: nn.Module) -> list[str]:
    """Names of those that hold NaN or infinity."""
    return [
        name for name, value in module.named_parameters() if not bool(torch.isfinite(value).all())
    ]


def refuse_ill(ill: Tensor) -> None:
    """(N, ...) bool. Weights may be finite, and yet so large that what is computed is not."""
    rows = ill.flatten(1).any(1)
    if bool(rows.any()):
        raise FloatingPointError(
            f"what the network says of {int(rows.sum())} of {len(rows)} rows is not finite: its "
            f"weights have diverged; checkpoints of earlier epochs are kept. {TRY}"
        )


def _remedy(kept: int | None) -> str:
    remains = "no checkpoint yet" if kept is None else f"the checkpoint of epoch {kept} is kept"
    return f"{remains}. {TRY}"
