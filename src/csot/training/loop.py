"""The training loop: `run_loop`, the class that holds its parts, and the functions it calls."""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from csot._core.errors import listed, naming
from csot._core.ranks import Ranks
from csot.data.types import TrainingData
from csot.methods import find_method
from csot.methods.core.contract import Judgement, Losses, Method
from csot.nets.build import seeded
from csot.training.better_than_chance import HeldOutTest, check_held_out
from csot.training.checkpoint import Checkpoint, Checkpoints
from csot.training.config import RunConfig, learning_rate
from csot.training.divergence import check_parameters, describe_divergence
from csot.training.evaluate import (
    Evaluator,
    average_statistics,
    evaluate,
    held_out,
)
from csot.training.finetune import begin_epoch
from csot.training.from_config import (
    balanced_subset,
    generator_for,
    make_optimiser,
    make_views,
    rows_to_train_on,
)
from csot.training.hardware import describe_hardware, start_fabric
from csot.training.label_knowledge import unverified
from csot.training.method_inputs import make_context, turn_batches
from csot.training.progress import Progress, Record
from csot.training.run_folder import epochs_to_snapshot, snapshot_rows
from csot.training.time_estimate import TimeEstimate, Workload

HOLDOUT, CHOICES, ORDER, DROPOUT, CHANCE_TEST, SUBSET, SNAPSHOT = range(7)
"""A number for each use of randomness, so that each has a generator of its own."""


@dataclass(frozen=True)
class Finished:
    """The result of the loop."""

    history: list[Record]
    """One record per epoch."""
    best_epoch: int
    judgement: Judgement
    rows: Tensor
    """(n,) rows trained on; the others were held out."""
    is_first: bool
    """Whether this is the process that writes the results."""
    held_out: HeldOutTest | None = None
    """Whether held-out labels are predicted better than chance; None where none were held out."""
    hardware: str = ""
    """Name of the device, and the number of threads or processes."""
    predicted: Tensor | None = None
    """(N,) class that the network predicts for held-out rows, and for all rows if it started from
    a posterior; else -1."""


def run_loop(
    config: RunConfig,
    data: TrainingData,
    checkpoints: Checkpoints,
    progress: Progress,
    module: nn.Module | None = None,
) -> Finished:
    """Train until the last epoch, starting from the last checkpoint if there is one.

    `module` is the network of a user who passed one.
    """
    loop = Loop(config, data, checkpoints, progress, module)
    history = loop.resume()
    started = time.perf_counter() - (history[-1]["seconds"] if history else 0.0)
    for epoch in range(len(history) + 1, config.training.epochs + 1):
        record = loop.train_epoch(epoch)
        record |= loop.evaluate_epoch(epoch)
        record["seconds"] = time.perf_counter() - started
        history.append(record)
        loop.save_epoch(epoch, history)
    return loop.finish(history)


class Loop:
    """The parts of a run, built from its configuration, and what is done with them every epoch."""

    def __init__(
        self,
        config: RunConfig,
        data: TrainingData,
        checkpoints: Checkpoints,
        progress: Progress,
        module: nn.Module | None,
    ) -> None:
        training, seed = config.training, config.seed
        self.config, self.data = config, data
        self.checkpoints, self.progress = checkpoints, progress
        self.fabric = start_fabric(config)
        self.ranks = Ranks(self.fabric.global_rank, self.fabric.world_size)
        views = make_views(data, training.views)
        self.evaluator = Evaluator(
            views.plain, training.evaluation_batch, self.fabric.device, self.ranks
        )
        self.rows = rows_to_train_on(unverified(data), training, generator_for(seed, HOLDOUT))
        self.context = make_context(config, data, self.rows, views, self.evaluator, module)
        self.key = selection_key(training.select_on, data)
        kind = find_method(config.method)
        with seeded(seed):
            self.method = kind(self.context, kind.Settings.model_validate(config.settings))
        self.optimiser = make_optimiser(self.method.parameter_groups(), training.optimiser)
        # The wrapped module computes the losses in its forward pass: however often a method runs
        # its networks, gradients are exchanged once.
        self.wrapped, self.wrapped_optimiser = self.fabric.setup(self.method, self.optimiser)
        self.snapshot = snapshot_rows(
            self.rows, training.snapshot_rows, generator_for(seed, SNAPSHOT)
        )

    def resume(self) -> list[Record]:
        """Load the last checkpoint, if there is one; returns the records of its epochs."""
        history = load_last(self.checkpoints, self.method, self.optimiser)
        device = self.fabric.device.type
        workload = workload_of(self.config, self.method, len(self.rows), device, len(history))
        self.estimate = TimeEstimate(workload, self.progress.on_estimate)
        if self.fabric.is_global_zero:
            self.progress.on_ready(workload)
        return history

    def train_epoch(self, epoch: int) -> Record:
        """Relabel, then train on every batch of the epoch."""
        method, seed = self.method, self.config.seed
        self._draw_epoch(epoch)
        begin_epoch(method, epoch)
        rate = set_learning_rate(self.optimiser, method, self.config, epoch)
        record: Record = {"epoch": epoch, "learning_rate": rate}
        # Dropout takes no generator: it draws from the global one, which is restored afterwards.
        with seeded(generator_for(seed, DROPOUT, epoch, self.ranks.rank).initial_seed()):
            began = time.perf_counter()
            with torch.no_grad():
                record |= method.begin_epoch(epoch)
            record["relabel_seconds"] = time.perf_counter() - began
            method.train()
            means = MeanLosses()
            for step, batch in enumerate(turn_batches(method, epoch, self.data, self.context), 1):
                losses: Losses = self.wrapped(batch)
                if losses:
                    self._update(means.add(losses), losses, record, step)
                    method.after_step(batch)
                    if self.fabric.is_global_zero:
                        self.progress.on_step(step)
                        self.estimate.step(step)
            # Drop the gradients of an incomplete group of steps.
            self.wrapped_optimiser.zero_grad()
            record |= means.read(self.ranks)
        check_parameters(method, record, self.checkpoints)
        average_statistics(method, self.ranks)
        method.eval()
        return record

    def _draw_epoch(self, epoch: int) -> None:
        """Set the generators of this epoch, and its rows if it trains on a subset."""
        training, seed, context = self.config.training, self.config.seed, self.context
        context.generator = generator_for(seed, CHOICES, epoch)
        context.order = generator_for(seed, ORDER, epoch)
        if training.subset is not None:
            size = training.subset * training.batch_size
            generator = generator_for(seed, SUBSET, epoch)
            context.rows = balanced_subset(self.rows, self.data.labels, size, generator)

    def _update(self, total: Tensor, losses: Losses, record: Record, step: int) -> None:
        """Backpropagate one step; the optimiser moves after every `accumulate` steps."""
        training, fabric = self.config.training, self.fabric
        if not bool(torch.isfinite(self.ranks.mean(total.detach()))):
            kept = self.checkpoints.epoch("last")
            raise FloatingPointError(describe_divergence(self.method, losses, record, step, kept))
        is_update = step % training.accumulate == 0
        with fabric.no_backward_sync(self.wrapped, enabled=not is_update):
            fabric.backward(total / training.accumulate)
        if is_update:
            if training.clip is not None:
                fabric.clip_gradients(self.wrapped, self.wrapped_optimiser, max_norm=training.clip)
            self.wrapped_optimiser.step()
            self.wrapped_optimiser.zero_grad()

    def evaluate_epoch(self, epoch: int) -> Record:
        """Accuracies, in epochs that are evaluated; in some, also a snapshot of a few rows."""
        training, method, data = self.config.training, self.method, self.data
        record: Record = {}
        if epoch == training.epochs or epoch % training.evaluate_every == 0:
            record = evaluate(method, data, self.rows, self.evaluator)
        if len(self.snapshot) and epoch in epochs_to_snapshot(training.epochs):
            seen = self.evaluator.predictions(method.network, data.train, self.snapshot)
            if self.fabric.is_global_zero:
                self.progress.on_snapshot(epoch, self.snapshot, seen)
        return record

    def save_epoch(self, epoch: int, history: list[Record]) -> None:
        """Write a checkpoint if one is due, and report the epoch."""
        if not self.fabric.is_global_zero:
            return
        training = self.config.training
        is_best = best_epoch(history, self.key) == epoch
        is_record = is_best and self.key in history[-1]
        is_due = epoch % training.checkpoint_every == 0
        if epoch == training.epochs or is_record or is_due:
            state = {"optimiser": self.optimiser.state_dict(), "history": history}
            checkpoint = Checkpoint(epoch, self.method.state_dict(), state)
            self.checkpoints.save(checkpoint, best=is_best)
        self.progress.on_epoch(history)
        self.estimate.epoch(epoch)

    def finish(self, history: list[Record]) -> Finished:
        """Judge every label by the trained method, and test it on held-out labels."""
        method, seed = self.method, self.config.seed
        self.fabric.barrier()
        self.context.generator = generator_for(seed, CHOICES, self.config.training.epochs + 1)
        self.context.rows = self.rows
        method.eval()
        with torch.no_grad():
            judgement = method.judge()
        predicted, tested = predict_training_rows(
            method, self.data, self.rows, self.evaluator, seed
        )
        return Finished(
            history,
            best_epoch(history, self.key),
            judgement,
            self.rows,
            self.fabric.is_global_zero,
            tested,
            describe_hardware(self.fabric.device, self.ranks.world),
            predicted,
        )


def predict_training_rows(
    method: Method, data: TrainingData, rows: Tensor, evaluator: Evaluator, seed: int
) -> tuple[Tensor, HeldOutTest | None]:
    """Predicted classes (N,) as in `Finished`, and the test on held-out labels."""
    predicted = torch.full((len(data),), -1)
    is_held = held_out(len(data), rows)
    held = is_held.nonzero()[:, 0]
    asked = held if data.posterior is None else torch.arange(len(data))
    if not len(asked):
        return predicted, None
    found = evaluator.log_probs(method, method.predict, data.train.subset(asked)).cpu()
    predicted[asked] = found.argmax(-1)
    if not len(held):
        return predicted, None
    probs = found[is_held[asked]].exp()
    return predicted, check_held_out(probs, data.labels[held], generator_for(seed, CHANCE_TEST))


def workload_of(config: RunConfig, method: Method, rows: int, device: str, done: int) -> Workload:
    """Describe what the run is going to do."""
    return Workload(
        network=config.training.network.name,
        networks=len(method.networks),
        parameters=sum(value.numel() for value in method.parameters() if value.requires_grad),
        rows=rows,
        epochs=config.training.epochs,
        batch_size=config.training.batch_size,
        device=device,
        done=done,
    )


def set_learning_rate(optimiser: Optimizer, method: Method, config: RunConfig, epoch: int) -> float:
    """Set the learning rate of this epoch, by the schedule and by the method."""
    training = config.training
    now, last = method.schedule_epoch(epoch)
    rate = learning_rate(training.optimiser.learning_rate, training.schedule, now, last)
    if now == 1 < epoch:
        optimiser.state.clear()  # a new stage starts without the momentum of the previous one
    for group in optimiser.param_groups:
        group["lr"] = rate
        method.update_param_group(epoch, group)
    return rate


def load_last(checkpoints: Checkpoints, method: Method, optimiser: Optimizer) -> list[Record]:
    """Load the last checkpoint, if there is one; returns the records of its epochs."""
    found = checkpoints.load("last")
    if found is None:
        return []
    with naming(checkpoints.folder, "a checkpoint of this run", "start over with `force`"):
        history: list[Record] = found.state["history"]
        if [record["epoch"] for record in history] != list(range(1, found.epoch + 1)):
            raise ValueError("its history is not one record for each epoch")
        float(history[-1]["seconds"])
        method.load_state_dict(found.model)
        optimiser.load_state_dict(found.state["optimiser"])
    return history


def selection_key(select_on: str | None, data: TrainingData) -> str:
    """The record by which the best epoch is chosen: the noisy held-out rows, or a clean set."""
    if select_on is None:
        return "holdout_accuracy"
    names = [test.name for test in data.tests[1:]]
    if select_on not in names:
        there = f"there are {listed(names)}" if names else "there is none"
        raise ValueError(
            f"select_on {select_on!r} is not a further set of {data.name} besides its test set: "
            f"{there}"
        )
    return f"test_accuracy_{select_on}"


def best_epoch(history: list[Record], key: str = "holdout_accuracy") -> int:
    """The epoch with the highest record `key`; the last epoch if it was never measured.

    With few and noisy rows epochs are often equal: the last of them has trained the longest.
    """
    judged = [record for record in history if key in record]
    if not judged:
        return int(history[-1]["epoch"])
    chosen = max(judged, key=lambda record: (record[key], record["epoch"]))
    return int(chosen["epoch"])


class MeanLosses:
    """Mean losses of an epoch."""

    def __init__(self) -> None:
        self._sums: dict[str, Tensor] = {}
        self._counts: dict[str, int] = {}

    def add(self, losses: Losses) -> Tensor:
        """Add the losses of a step; returns their sum, with its gradient."""
        total = torch.stack(list(losses.values())).sum()
        for name, value in {"loss": total, **{f"loss_{k}": v for k, v in losses.items()}}.items():
            self._sums[name] = self._sums.get(name, torch.zeros_like(value)) + value.detach()
            self._counts[name] = self._counts.get(name, 0) + 1
        return total

    def read(self, ranks: Ranks) -> Record:
        """Means by name, over all processes."""
        if not self._sums:
            return {}
        means = [value / self._counts[name] for name, value in self._sums.items()]
        return dict(zip(self._sums, ranks.mean(torch.stack(means)).tolist(), strict=True))
