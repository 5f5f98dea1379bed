"""Denoise and relabel: predictions and given labels -> a split of the training rows."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from csot.allocation import allocate
from csot.curriculum import Schedule, exponential, linear, linear_published, validated
from csot.methods.core.contract import Predictions
from csot.methods.parts.csot_settings import CsotSettings
from csot.methods.parts.small_loss import small_loss_posterior
from csot.ot.array_adapter import as_tensor
from csot.ot.numerics import ConvergenceWarning
from csot.ot.solve import solve


@dataclass(frozen=True)
class Relabelling:
    """What a plan says about N rows: (N,) each, except for the posterior."""

    labels: Tensor
    """The label of the plan: argmax_k Q_ik."""
    confidence: Tensor
    """w, from 0 to 1."""
    selected: Tensor
    """Whether a row is among the share `budget` of most confident rows (Eq. 7)."""
    clean: Tensor
    """Selected, and the plan agrees with the given label (Eq. 8)."""
    converged: Tensor
    """Whether the plan of the row has converged."""
    posterior: Tensor
    """(N, C) rows of the plan, normalised; where the plan leaves a row empty, the prediction."""


def budgets(settings: CsotSettings, epochs: int) -> Schedule:
    """The curriculum's budget by epoch, counted from 1."""
    start, ramp = settings.start_budget, min(settings.supervised_epochs, epochs)
    if settings.curriculum == "constant":
        return validated(lambda epoch: start)
    if settings.curriculum == "linear":
        return linear(epochs=max(2, ramp), start=start)
    if settings.curriculum == "exponential":
        return exponential(epochs=max(2, ramp), start=start)
    warmup = settings.warmup
    return linear_published(epochs=max(ramp, warmup + 1), warmup=warmup, start=start)


def relabel(
    predictions: Predictions,
    labels: Tensor,
    budget: float,
    settings: CsotSettings,
    generator: torch.Generator,
    class_prior: Tensor | None = None,
) -> Relabelling:
    """Solve CSOT (Eq. 6) for batches of random rows, or for all rows as one problem.

    `class_prior` (C,) replaces that of the settings.
    """
    if settings.allocator == "gmm":
        return _by_small_loss(predictions, labels, generator)
    order = torch.randperm(len(labels), generator=generator).to(labels.device)
    groups = _groups(order, settings)
    parts = [_solved(predictions, labels, rows, budget, settings, class_prior) for rows in groups]
    # Rows were solved in random order: `place` is the position of each.
    place = torch.empty_like(order)
    place[torch.cat([rows.flatten() for rows in groups])] = torch.arange(
        len(order), device=order.device
    )

    def collect(name: str) -> Tensor:
        return torch.cat([getattr(part, name) for part in parts])[place]

    found = Relabelling(
        labels=collect("labels"),
        confidence=collect("confidence"),
        selected=collect("selected"),
        clean=collect("clean"),
        converged=collect("converged"),
        posterior=collect("posterior"),
    )
    if settings.rest_threshold is None:
        return found
    return label_rest(found, predictions.probs, labels, settings.rest_threshold)


def label_rest(found: Relabelling, probs: Tensor, labels: Tensor, threshold: float) -> Relabelling:
    """Select rows that the plan leaves out, with their own label, if it is above the threshold.

    This is how SSR relabels all rows. Their confidence is that probability.
    """
    sure, own = probs.max(-1)
    taken = ~found.selected & (sure > threshold)
    pseudo = torch.where(taken, own, found.labels)
    selected = found.selected | taken
    return replace(
        found,
        labels=pseudo,
        confidence=torch.where(taken, sure.to(found.confidence), found.confidence),
        selected=selected,
        clean=selected & (pseudo == labels),
    )


def _groups(order: Tensor, settings: CsotSettings) -> list[Tensor]:
    """Row numbers (B, n) of problems of the same size, which are solved together."""
    count, size = len(order), settings.relabel_batch
    if size == 0 or count <= size:
        return [order[None]]
    if settings.relabel_remainder == "own":
        whole = count - count % size
        groups = [order[:whole].view(-1, size)]
        return groups if whole == count else [*groups, order[whole:][None]]
    # Of nearly equal size: some problems have one row more than the others.
    problems = math.ceil(count / size)
    small = count // problems
    larger = count - problems * small
    edge = larger * (small + 1)
    groups = [order[:edge].view(larger, small + 1), order[edge:].view(-1, small)]
    return [group for group in groups if len(group)]


def _solved(
    predictions: Predictions,
    labels: Tensor,
    rows: Tensor,
    budget: float,
    settings: CsotSettings,
    class_prior: Tensor | None,
) -> Relabelling:
    probs = predictions.probs[rows]
    given = labels[rows]
    prior: Tensor | Literal["uniform", "labels"] = "uniform"
    if class_prior is not None:
        prior = class_prior
    elif settings.class_prior == "labels":
        prior = "labels"
    with warnings.catch_warnings():
        # A feasible plan is good enough for one epoch; non-convergence is expected here.
        warnings.simplefilter("ignore", ConvergenceWarning)
        plan = solve(
            log_probs=predictions.logits[rows].float().log_softmax(-1),
            features=predictions.features[rows].float(),
            labels=given,
            budget=budget,
            class_prior=prior,
            epsilon=settings.epsilon,
            coherence=settings.kappa,
            coherence_scale=settings.coherence_scale,
            coherence_on=settings.coherence_on,
            row_constraint=settings.row_constraint,
            similarity=settings.similarity,
            neighbours=settings.neighbours,
            method="auto" if settings.inner_iterations is None else "scaling",
            max_outer=settings.max_outer,
            inner_iterations=settings.inner_iterations,
            tolerance=settings.tolerance,
        )
    found = allocate(plan, given, variant=settings.weights)
    coupling = as_tensor("coupling", plan.coupling)
    mass = coupling.sum(-1, keepdim=True)
    tiny = torch.finfo(mass.dtype).tiny
    posterior = torch.where(mass > tiny, coupling / mass.clamp(min=tiny), probs)
    return Relabelling(
        labels=as_tensor("labels", found.pseudo_labels).flatten(),
        confidence=as_tensor("confidence", found.weights).flatten().clamp(max=1),
        selected=as_tensor("selected", found.selected).flatten(),
        clean=as_tensor("clean", found.clean).flatten(),
        converged=as_tensor("converged", plan.converged)[:, None].expand(rows.shape).flatten(),
        posterior=posterior.flatten(0, -2),
    )


def _by_small_loss(
    predictions: Predictions, labels: Tensor, generator: torch.Generator
) -> Relabelling:
    """Split without a plan (ablation f): labels of small loss are clean, no other is replaced."""
    losses = -predictions.probs.gather(1, labels.clamp(min=0)[:, None])[:, 0].clamp(min=1e-12).log()
    seed = int(torch.randint(2**31, (), generator=generator))
    trust, labelled = torch.zeros_like(losses), labels >= 0
    if bool(labelled.any()):
        trust[labelled] = small_loss_posterior(losses[labelled], seed)
    clean = trust > 0.5
    predicted = predictions.probs.argmax(-1)
    return Relabelling(
        labels=torch.where(clean, labels, predicted),
        confidence=trust,
        selected=clean,
        clean=clean,
        converged=torch.ones_like(clean),
        posterior=predictions.probs,
    )
