"""CSOT in your own training loop: once per epoch, predictions -> which labels to trust."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from csot.allocation import Allocation, Variant, allocate
from csot.curriculum import Schedule, linear, validated
from csot.ot.array_adapter import Array, as_tensor, floating
from csot.ot.numerics import ConvergenceWarning
from csot.ot.plan import Plan
from csot.ot.solve import solve


class Relabeller:
    """Decides each epoch which labels to trust and which to replace, by a growing budget.

    In epoch t the share m(t) of the rows is allocated to classes by CSOT (Eq. 6), and the most
    confident rows are split into clean ones and relabelled ones (Eqs. 7 and 8).

    Parameters
    ----------
    epochs : int
        Number of updates over which the budget grows to 1; it stays there afterwards.
    num_classes : int
        C.
    start_budget : float in (0, 1], default=0.3
        Budget of the first update.
    schedule : callable, optional
        Function from the number of the update, counted from 1, to the budget; by default the
        paper's ramp. See `csot.curriculum`.
    class_prior : (C,), "uniform" or "labels", default="uniform"
        Shares of the classes; "labels" for imbalanced data.
    epsilon : float, default=0.1
        Weight of the entropy.
    coherence : float or (prediction, label), default=1.0
        Weight of the coherence terms.
    coherence_scale : "absolute" or "classes", default="absolute"
        Unit of `coherence`: 1 (the paper), or C / budget.
    variant : "paper" or "published", default="paper"
        See `csot.allocate`.

    Attributes
    ----------
    epoch : int
        Number of updates so far.
    plan : Plan or None
        The last solution; `plan.converged` tells whether it is exact.

    Examples
    --------
    >>> relabeller = csot.Relabeller(epochs=20, num_classes=10)      # doctest: +SKIP
    >>> found = relabeller.update(logits, features, labels)          # doctest: +SKIP
    >>> found.clean, found.relabelled, found.pseudo_labels           # doctest: +SKIP
    """

    def __init__(
        self,
        *,
        epochs: int,
        num_classes: int,
        start_budget: float = 0.3,
        schedule: Schedule | None = None,
        class_prior: Array | Sequence[float] | Literal["uniform", "labels"] = "uniform",
        epsilon: float = 0.1,
        coherence: float | tuple[float, float] = 1.0,
        coherence_scale: Literal["absolute", "classes"] = "absolute",
        variant: Variant = "paper",
    ) -> None:
        self.epochs = _at_least("epochs", epochs, 1)
        self.num_classes = _at_least("num_classes", num_classes, 2)
        self.start_budget = start_budget
        self.class_prior = class_prior
        self.epsilon = epsilon
        self.coherence = coherence
        self.coherence_scale = coherence_scale
        self.variant = variant
        self.epoch = 0
        self.plan: Plan | None = None
        ramp = linear(epochs=max(2, epochs), start=start_budget)
        self._schedule = ramp if schedule is None else validated(schedule)

    @property
    def budget(self) -> float:
        """The budget of the last update, or of the first one if there was none yet."""
        return self._schedule(max(1, self.epoch))

    def update(self, logits: Array, features: Array, labels: Array) -> Allocation:
        """Allocate all rows with the budget of the next epoch.

        Parameters
        ----------
        logits : (N, C)
            Outputs of the network in evaluation mode, on rows without augmentation; NumPy or torch.
        features : (N, D)
            Inputs of its last layer.
        labels : (N,)
            Given labels, -1 where there is none: the original ones in every epoch.

        Returns
        -------
        Allocation
            Arrays of the type of the input: train on the rows `clean` with their labels, and on the
            rows `relabelled` with `pseudo_labels`.
        """
        log_probs = self._log_probs(logits)
        budget = self._schedule(self.epoch + 1)
        with warnings.catch_warnings():
            # A feasible plan is good enough for one epoch; `plan.converged` has the rest.
            warnings.simplefilter("ignore", ConvergenceWarning)
            plan = solve(
                log_probs=log_probs,
                features=features,
                labels=labels,
                budget=budget,
                class_prior=self.class_prior,
                epsilon=self.epsilon,
                coherence=self.coherence,
                coherence_scale=self.coherence_scale,
            )
        found = allocate(plan, labels, variant=self.variant)
        self.plan = plan
        self.epoch += 1
        return found

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint needs: plain numbers."""
        return {
            "epoch": self.epoch,
            "epochs": self.epochs,
            "num_classes": self.num_classes,
            "start_budget": self.start_budget,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where `state_dict` was taken; other settings than then are an error."""
        missing = [key for key in self.state_dict() if key not in state]
        if missing:
            raise ValueError(f"state lacks {', '.join(missing)}: pass what state_dict() returned")
        for key in ("epochs", "num_classes", "start_budget"):
            if state[key] != getattr(self, key):
                raise ValueError(
                    f"state was saved with {key}={state[key]!r}, this relabeller has "
                    f"{getattr(self, key)!r}: make one with the same settings"
                )
        self.epoch = _at_least("epoch", state["epoch"], 0)
        self.plan = None

    def __repr__(self) -> str:
        return (
            f"Relabeller(epochs={self.epochs}, num_classes={self.num_classes}, "
            f"epoch={self.epoch}, budget={self.budget:g})"
        )

    def _log_probs(self, logits: Array) -> Array:
        scores = floating(as_tensor("logits", logits))
        if scores.ndim != 2 or scores.shape[1] != self.num_classes:
            raise ValueError(
                f"logits has shape {tuple(scores.shape)}; (N, {self.num_classes}) is needed for "
                f"num_classes={self.num_classes}"
            )
        if not bool(scores.isfinite().all()):
            rows = (~scores.isfinite().all(1)).nonzero()[:, 0]
            raise ValueError(
                f"logits has NaN or infinity in {len(rows)} rows, first {int(rows[0])}: the "
                "network has diverged; try a smaller learning rate"
            )
        log_probs = scores.log_softmax(1)
        return log_probs.numpy() if isinstance(logits, np.ndarray) else log_probs


def _at_least(name: str, value: int, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}")
    return value
