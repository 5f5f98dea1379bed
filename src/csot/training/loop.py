"""The training loop: `run_loop`, then the functions that it calls."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from csot._core.errors import listed, naming
from csot._core.ranks import Ranks
from csot.data.augment.views import Views
from csot.data.types import TrainingData
from csot.methods import find_method
from csot.methods.core.contract import (
    Batch,
    Context,
    Judgement,
    Losses,
    Method,
    Part,
    Predictions,
    Steps,
    Stream,
)
from csot.nets.build import seeded
from csot.training.better_than_chance import HeldOutTest, check_held_out
from csot.training.checkpoint import Checkpoint, Checkpoints
from csot.training.config import RunConfig, learning_rate
from csot.training.evaluate import (
    Evaluator,
    average_statistics,
    check_parameters,
    describe_divergence,
    evaluate,
    held_out,
)
from csot.training.finetune import begin_epoch
from csot.training.from_config import (
    balanced_subset,
    generator_for,
    make_optimiser,
    make_views,
    network_factory,
    rows_to_train_on,
)
from csot.training.hardware import describe_hardware, start_fabric
from csot.training.label_knowledge import starting_posterior, unverified
from csot.training.run_folder import snapshot_epochs, snapshot_rows
from csot.training.time_estimate import TimeEstimate, Workload

Record = dict[str, float]
"""The numbers of one epoch, by name: a row of metrics.csv."""
HOLDOUT, CHOICES, ORDER, DROPOUT, CHANCE_TEST, SUBSET, SHOWN = range(7)
"""A number for each use of randomness, so that each has a generator of its own."""


@dataclass
class Progress:
    """Callbacks of a training run; only the first process calls them.

    Parameters
    ----------
    on_step : callable
        Called with the number of the step, counted from 1 in each epoch.
    on_epoch : callable
        Called with the records of all epochs so far.
    on_start : callable
        Called with the configuration before the data are read.
    on_ready : callable
        Called with the `Workload` before the first epoch.
    on_estimate : callable
        Called with the estimated seconds that remain, after the first steps and after each epoch.
    on_words : callable
        Called with what a run starts from, in words.
    on_stage : callable
        Called with the name of a stage before the training, such as "Embedding images", how much
        of it is done, and how much there is.
    on_snapshot : callable
        Called after some epochs with the epoch, a few rows, and what the first network says of
        them.
    """

    on_step: Callable[[int], None] = lambda step: None
    on_epoch: Callable[[list[Record]], None] = lambda history: None
    on_start: Callable[[RunConfig], None] = lambda config: None
    on_ready: Callable[[Workload], None] = lambda workload: None
    on_estimate: Callable[[float], None] = lambda seconds: None
    on_words: Callable[[str], None] = lambda words: None
    on_stage: Callable[[str, int, int], None] = lambda stage, done, total: None
    on_snapshot: Callable[[int, Tensor, Predictions], None] = lambda epoch, rows, seen: None


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
    training, seed = config.training, config.seed
    fabric = start_fabric(config)
    ranks = Ranks(fabric.global_rank, fabric.world_size)
    views = make_views(data, training.views)
    evaluator = Evaluator(views.plain, training.evaluation_batch, fabric.device, ranks)
    rows = rows_to_train_on(unverified(data), training, generator_for(seed, HOLDOUT))
    context = make_context(config, data, rows, views, evaluator, module)
    key = selection_key(training.select_on, data)
    kind = find_method(config.method)
    with seeded(seed):
        method = kind(context, kind.Settings.model_validate(config.settings))
    optimiser = make_optimiser(method.parameter_groups(), training.optimiser)
    # The wrapped module computes the losses in its forward pass: however often a method runs its
    # networks, gradients are exchanged once.
    wrapped, wrapped_optimiser = fabric.setup(method, optimiser)

    history = resume(checkpoints, method, optimiser)
    started = time.perf_counter() - (history[-1]["seconds"] if history else 0.0)
    workload = workload_of(config, method, len(rows), fabric.device.type, len(history))
    estimate = TimeEstimate(workload, progress.on_estimate)
    shown = snapshot_rows(rows, training.snapshot_rows, generator_for(seed, SHOWN))
    if fabric.is_global_zero:
        progress.on_ready(workload)
    for epoch in range(len(history) + 1, training.epochs + 1):
        context.generator = generator_for(seed, CHOICES, epoch)
        context.order = generator_for(seed, ORDER, epoch)
        if training.subset is not None:
            size = training.subset * training.batch_size
            generator = generator_for(seed, SUBSET, epoch)
            context.rows = balanced_subset(rows, data.labels, size, generator)
        begin_epoch(method, epoch)
        rate = set_learning_rate(optimiser, method, config, epoch)
        record: Record = {"epoch": epoch, "learning_rate": rate}
        # Dropout takes no generator: it draws from the global one, which is restored afterwards.
        with seeded(generator_for(seed, DROPOUT, epoch, ranks.rank).initial_seed()):
            began = time.perf_counter()
            with torch.no_grad():
                record |= method.begin_epoch(epoch)
            record["relabel_seconds"] = time.perf_counter() - began
            method.train()
            means = MeanLosses()
            batches = turn_batches(method, epoch, data, context)
            for step, batch in enumerate(batches, 1):
                losses: Losses = wrapped(batch)
                if not losses:
                    continue
                total = means.add(losses)
                if not bool(torch.isfinite(ranks.mean(total.detach()))):
                    kept = checkpoints.epoch("last")
                    raise FloatingPointError(
                        describe_divergence(method, losses, record, step, kept)
                    )
                is_update = step % training.accumulate == 0
                with fabric.no_backward_sync(wrapped, enabled=not is_update):
                    fabric.backward(total / training.accumulate)
                if is_update:
                    if training.clip is not None:
                        fabric.clip_gradients(wrapped, wrapped_optimiser, max_norm=training.clip)
                    wrapped_optimiser.step()
                    wrapped_optimiser.zero_grad()
                method.after_step(batch)
                if fabric.is_global_zero:
                    progress.on_step(step)
                    estimate.step(step)
            # Drop the gradients of an incomplete group of steps.
            wrapped_optimiser.zero_grad()
            record |= means.read(ranks)
        check_parameters(method, record, checkpoints)
        average_statistics(method, ranks)
        method.eval()
        is_last = epoch == training.epochs
        if is_last or epoch % training.evaluate_every == 0:
            record |= evaluate(method, data, rows, evaluator)
        if len(shown) and epoch in snapshot_epochs(training.epochs):
            seen = evaluator.predictions(method.network, data.train, shown)
            if fabric.is_global_zero:
                progress.on_snapshot(epoch, shown, seen)
        record["seconds"] = time.perf_counter() - started
        history.append(record)
        is_best = best_epoch(history, key) == epoch
        if fabric.is_global_zero:
            is_record = is_best and key in record
            if is_last or is_record or epoch % training.checkpoint_every == 0:
                state = {"optimiser": optimiser.state_dict(), "history": history}
                checkpoints.save(Checkpoint(epoch, method.state_dict(), state), best=is_best)
            progress.on_epoch(history)
            estimate.epoch(epoch)

    fabric.barrier()
    context.generator = generator_for(seed, CHOICES, training.epochs + 1)
    context.rows = rows
    method.eval()
    with torch.no_grad():
        judgement = method.judge()
    predicted, tested = predict_training_rows(method, data, rows, evaluator, seed)
    return Finished(
        history,
        best_epoch(history, key),
        judgement,
        rows,
        fabric.is_global_zero,
        tested,
        describe_hardware(fabric.device, ranks.world),
        predicted,
    )


def make_context(
    config: RunConfig,
    data: TrainingData,
    rows: Tensor,
    views: Views,
    evaluator: Evaluator,
    module: nn.Module | None,
) -> Context:
    """What the method is given: labels, rows, views, and how to evaluate its networks."""
    training = config.training
    context = Context(
        labels=data.targets.to(evaluator.device),
        rows=rows,
        num_classes=len(data.class_names),
        epochs=training.epochs,
        batch_size=training.batch_size,
        views=views,
        make_network=network_factory(
            data, training, config.seed, compiled=config.machine.compile, module=module
        ),
        predict=lambda network, wanted: evaluator.predictions(network, data.train, wanted),
        ranks=evaluator.ranks,
        locked=None if data.verified is None else data.verified >= 0,
        posterior=starting_posterior(data),
    )
    context.predict_weak = lambda network, wanted: evaluator.predictions(
        network, data.train, wanted, views.weak, context.generator
    )
    return context


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


def resume(checkpoints: Checkpoints, method: Method, optimiser: Optimizer) -> list[Record]:
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


def turn_batches(
    method: Method, epoch: int, data: TrainingData, context: Context
) -> Iterator[Batch]:
    """Yield the batches of all turns of an epoch; between turns the method evaluates again."""
    for turn in range(method.turn_count(epoch)):
        if turn:
            with torch.no_grad():
                method.begin_turn(epoch, turn)
            method.train()
        yield from fetch_batches(method.steps(epoch), data, context)


def fetch_batches(steps: Steps, data: TrainingData, context: Context) -> Iterator[Batch]:
    """Load this process's share of each step on the device; files are read one step ahead."""

    def fetch(streams: Mapping[Stream, Tensor]) -> Batch:
        parts = {}
        for stream, whole in streams.items():
            rows = whole[context.ranks.share(len(whole))].cpu()
            inputs = data.train.batch(rows).to(context.device)
            rows = rows.to(context.device)
            parts[stream] = Part(rows, inputs, context.labels[rows], context.ranks, len(whole))
        return parts

    batches = map(fetch, steps)
    is_read = data.root is not None and data.train.kind == "images"
    return prefetch(batches) if is_read else batches


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


T = TypeVar("T")


def prefetch(items: Iterator[T]) -> Iterator[T]:
    """Yield the same items in the same order; a thread produces the next one in the meantime."""

    def take() -> list[T]:
        return [item for _, item in zip(range(1), items, strict=False)]

    with ThreadPoolExecutor(1, "prefetch") as pool:
        future = pool.submit(take)
        while item := future.result():
            future = pool.submit(take)
            yield item[0]
