"""Warm-up: some epochs of cross-entropy, before a network is asked what it makes of the labels."""

from __future__ import annotations

from pydantic import Field
from torch import Tensor, nn

from csot.methods._base import Context, Part, Settings
from csot.methods._losses import cross_entropy, negative_entropy


class WarmupSettings(Settings):
    warmup: int = Field(10, ge=0)
    """Epochs."""
    warmup_batch_factor: int = Field(2, ge=1)
    """Batches of the warm-up, in units of the batch size."""
    warmup_entropy: float = Field(0.0, ge=0)
    """Weight of the negative entropy, which keeps predictions from growing too sure. The originals
    have 1 where labels are only confused with few others."""


def warmup_loss(network: nn.Module, part: Part, context: Context, entropy: float) -> Tensor:
    """Cross-entropy + entropy * sum_k p_k log p_k, on the weak view."""
    weak = part.view(context.views.weak, context.generator)
    logits = network(weak).logits
    loss = cross_entropy(logits, part.labels)
    return loss + entropy * negative_entropy(logits) if entropy else loss
