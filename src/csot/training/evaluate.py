"""Predictions in evaluation mode, and accuracies: top 1 and top 5, of each split, held out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from csot._core.ranks import Ranks
from csot.data.augment.view_types import View
from csot.data.samples import Samples
from csot.data.types import TestSet, TrainingData
from csot.methods.core.contract import Method, Predictions, Split
from csot.training.divergence import check_outputs

TOP = 5
"""Classes of the top-5 accuracy, which is measured if there are more."""


class Evaluator:
    """Runs networks on samples without gradients; the processes share the rows.

    Parameters
    ----------
    plain : View
        The view without augmentation.
    batch : int
        Rows per forward pass.
    device : torch.device
    ranks : Ranks
    """

    def __init__(self, plain: View, batch: int, device: torch.device, ranks: Ranks) -> None:
        self._plain = plain
        self._batch = batch
        self.device = device
        self.ranks = ranks

    def log_probs(
        self, module: nn.Module, predict: Callable[[Tensor], Tensor], samples: Samples
    ) -> Tensor:
        """(N, C) log-probabilities of all samples."""
        rows = torch.arange(len(samples))
        found = self._over(module, lambda inputs: (predict(inputs),), samples, rows)[0]
        check_outputs(torch.isnan(found))  # minus infinity is a probability of zero
        return found

    def predictions(
        self,
        network: nn.Module,
        samples: Samples,
        rows: Tensor,
        view: View | None = None,
        generator: torch.Generator | None = None,
    ) -> Predictions:
        """Logits and features of some rows, in the plain view or in another one."""
        chosen = (view or self._plain, generator or torch.Generator())
        logits, features = self._over(network, network, samples, rows, chosen)
        check_outputs(~torch.isfinite(torch.cat([logits, features], 1)))
        return Predictions(logits.float(), features.float())

    @torch.no_grad()
    def _over(
        self,
        module: nn.Module,
        function: Callable[[Tensor], tuple[Tensor, ...]],
        samples: Samples,
        rows: Tensor,
        chosen: tuple[View, torch.Generator] | None = None,
    ) -> list[Tensor]:
        world = self.ranks.world
        # All shares must have the same size: some rows may be evaluated twice.
        padding = -len(rows) % world
        places = torch.cat([torch.arange(len(rows)), torch.zeros(padding, dtype=torch.long)])
        places = places[self.ranks.share(len(places))]
        mine = rows.cpu()[places]
        # The plain view draws no random numbers, so its generator does not matter.
        view, generator = chosen or (self._plain, torch.Generator())
        # Drawn for the rows of all processes, so that their number has no effect.
        draws = view.draw(len(rows), generator)[places]
        collected: list[list[Tensor]] = []
        with evaluating(module):
            for start in range(0, max(1, len(mine)), self._batch):
                part = slice(start, start + self._batch)
                inputs = samples.batch(mine[part]).to(self.device)
                collected.append(list(function(view(inputs, draws[part]))))
        outputs = [torch.cat(parts) for parts in zip(*collected, strict=True)]
        return [self.ranks.gather(output)[: len(rows)] for output in outputs]


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Set evaluation mode inside the block; restore the mode afterwards."""
    was = module.training
    module.eval()
    try:
        yield
    finally:
        module.train(was)


@torch.no_grad()
def average_statistics(module: nn.Module, ranks: Ranks) -> None:
    """Average the running statistics of all processes, for evaluation and checkpoints."""
    for part in module.modules():
        if ranks.world > 1 and isinstance(part, _BatchNorm):
            for value in (part.running_mean, part.running_var):
                if value is not None:
                    value.copy_(ranks.mean(value))


def evaluate(
    method: Method, data: TrainingData, rows: Tensor, evaluator: Evaluator
) -> dict[str, float]:
    """Accuracy on the test sets, on the noisy held-out rows, and of the split."""
    record: dict[str, float] = {}
    for number, test in enumerate(data.tests):
        suffix = "" if number == 0 else f"_{test.name}"
        found = evaluator.log_probs(method, method.predict, test.samples)
        record[f"test_accuracy{suffix}"] = accuracy(found, test.labels)
        if len(data.class_names) > TOP:
            record[f"test_top5{suffix}"] = accuracy(found, test.labels, TOP)
    if method.separate and data.tests:
        record |= accuracy_of_each(method, data.tests[0], evaluator)
    held = held_out(len(data), rows)
    if bool(held.any()):
        samples = data.train.subset(held.nonzero()[:, 0])
        found = evaluator.log_probs(method, method.predict, samples)
        record["holdout_accuracy"] = accuracy(found, data.labels[held])
    split = method.split()
    if split is not None and data.true_labels is not None:
        record |= split_accuracy(split, rows, data.labels, data.true_labels)
    return record


def accuracy_of_each(method: Method, test: TestSet, evaluator: Evaluator) -> dict[str, float]:
    """Accuracy of each network by itself, for methods whose originals report them so."""
    record = {}
    for number, network in enumerate(method.networks, 1):

        def predict(inputs: Tensor, network: nn.Module = network) -> Tensor:
            logits: Tensor = network(inputs).logits
            return logits.float().log_softmax(-1)

        found = evaluator.log_probs(network, predict, test.samples)
        record[f"network{number}_accuracy"] = accuracy(found, test.labels)
    return record


def held_out(count: int, rows: Tensor) -> Tensor:
    """(N,) bool: the rows that are not trained on."""
    mask = torch.ones(count, dtype=torch.bool)
    mask[rows] = False
    return mask


def accuracy(log_probs: Tensor, labels: Tensor, top: int = 1) -> float:
    """Share of labels among the `top` most probable classes; rows without a label do not count.

    Of equally probable classes the first is preferred.
    """
    labels = labels.cpu()
    order = log_probs.cpu().argsort(dim=-1, descending=True, stable=True)
    right = (order[:, :top] == labels[:, None]).any(1)[labels >= 0]
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
