"""Predictions in evaluation mode, and what is measured on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from csot.data.samples import Samples
from csot.data.view_base import View
from csot.methods._base import Predictions, Split
from csot.methods._ranks import Ranks
from csot.training.failure import refuse_ill


class Eyes:
    """Runs networks over samples without gradients; the rows are shared among the processes."""

    def __init__(self, plain: View, batch: int, device: torch.device, ranks: Ranks) -> None:
        self._plain = plain
        self._batch = batch
        self._device = device
        self._ranks = ranks

    def log_probs(
        self, module: nn.Module, predict: Callable[[Tensor], Tensor], samples: Samples
    ) -> Tensor:
        """(N, C) of all samples."""
        rows = torch.arange(len(samples))
        found = self._over(module, lambda inputs: (predict(inputs),), samples, rows)[0]
        refuse_ill(torch.isnan(found))  # minus infinity is a probability of zero
        return found

    def predictions(self, network: nn.Module, samples: Samples, rows: Tensor) -> Predictions:
        logits, features = self._over(network, network, samples, rows)
        refuse_ill(~torch.isfinite(torch.cat([logits, features], 1)))
        return Predictions(logits.float(), features.float())

    @torch.no_grad()
    def _over(
        self,
        module: nn.Module,
        function: Callable[[Tensor], tuple[Tensor, ...]],
        samples: Samples,
        rows: Tensor,
    ) -> list[Tensor]:
        world = self._ranks.world
        # All shares must have the same size: some rows may be looked at twice.
        padding = -len(rows) % world
        padded = torch.cat([rows, rows[:1].expand(padding)])
        mine = padded[self._ranks.share(len(padded))].cpu()
        # Values for the generator: the plain view draws nothing.
        generator = torch.Generator()
        collected: list[list[Tensor]] = []
        with evaluating(module):
            for chunk in torch.split(mine, self._batch):
                inputs = samples.batch(chunk).to(self._device)
                view = self._plain(inputs, self._plain.draw(len(chunk), generator))
                collected.append(list(function(view)))
        outputs = [torch.cat(parts) for parts in zip(*collected, strict=True)]
        return [self._ranks.gather(output)[: len(rows)] for output in outputs]


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """In evaluation mode inside, as before afterwards."""
    was = module.training
    module.eval()
    try:
        yield
    finally:
        module.train(was)


@torch.no_grad()
def average_statistics(module: nn.Module, ranks: Ranks) -> None:
    """Give all processes the same running statistics: those that are evaluated and saved."""
    for part in module.modules():
        if ranks.world > 1 and isinstance(part, _BatchNorm):
            for value in (part.running_mean, part.running_var):
                if value is not None:
                    value.copy_(ranks.mean(value))


def accuracy(log_probs: Tensor, labels: Tensor) -> float:
    """Share of right predictions; rows without a label do not count."""
    known = labels >= 0
    right = (log_probs.argmax(-1).cpu() == labels.cpu())[known.cpu()]
    return float(right.float().mean()) if len(right) else float("nan")


def split_accuracy(split: Split, rows: Tensor, given: Tensor, truth: Tensor) -> dict[str, float]:
    """The paper's three curves, over the rows trained on.

    Clean accuracy: share of right labels among those trusted. Corrected accuracy: the same among
    those replaced. Clean recall: share of the right labels that are trusted. Rows whose true label
    is not known do not count.
    """
    rows = rows[truth.cpu()[rows] >= 0]
    clean, corrected, labels = (x.cpu()[rows] for x in (split.clean, split.corrected, split.labels))
    given, truth = given.cpu()[rows], truth.cpu()[rows]
    right = given == truth

    def share(hit: Tensor, among: Tensor) -> float:
        return float(hit[among].float().mean()) if bool(among.any()) else float("nan")

    return {
        "clean_accuracy": share(right, clean),
        "corrected_accuracy": share(labels == truth, corrected),
        "clean_recall": share(clean, right),
    }
