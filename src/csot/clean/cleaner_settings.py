"""Parameters of `LabelCleaner`: what they may be, and what they stand for."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from numbers import Integral, Real
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from sklearn.utils import check_random_state

from csot.clean.inputs import checked_prior
from csot.clean.model import MEMBERS

Result = TypeVar("Result")

PREDICT_PRIORS = ("uniform", "estimated")
DUPLICATES = ("group", "ignore")
COHERENCE_SCALES = ("absolute", "classes")


def check_settings(settings: Mapping[str, Any]) -> None:
    """Raise an error that names the first invalid parameter of `LabelCleaner`."""
    members, n_folds = settings["members"], settings["n_folds"]
    names = [members] if isinstance(members, str) else members
    unknown = [name for name in names if name not in MEMBERS]
    if unknown or isinstance(members, str):
        wrong = repr(unknown[0]) if unknown else f"{members!r}, not a tuple"
        raise ValueError(f"members is or contains {wrong}; choose from {MEMBERS}")
    if n_folds is not None and (not isinstance(n_folds, Integral) or n_folds < 2):
        raise ValueError(f"n_folds must be a whole number, at least 2, got {n_folds!r}")
    if settings["duplicates"] not in DUPLICATES:
        raise ValueError(f"duplicates must be one of {DUPLICATES}, got {settings['duplicates']!r}")
    coherence, scale = settings["coherence"], settings["coherence_scale"]
    if not isinstance(coherence, Real) or not 0 <= float(coherence) < float("inf"):
        raise ValueError(f"coherence must be a number of at least 0, got {coherence!r}")
    if scale not in COHERENCE_SCALES:
        raise ValueError(f"coherence_scale must be one of {COHERENCE_SCALES}, got {scale!r}")
    prior = settings["predict_prior"]
    if isinstance(prior, str) and prior not in PREDICT_PRIORS:
        raise ValueError(
            f"predict_prior must be one of {PREDICT_PRIORS} or shares of the classes, got {prior!r}"
        )


def seed_of(random_state: Any) -> int:
    """The seed itself, or one drawn from a RandomState or, for None, from NumPy's global one."""
    if random_state is None or isinstance(random_state, np.random.RandomState):
        return int(check_random_state(random_state).randint(2**31 - 1))
    return int(random_state)


def log_prior_ratio(
    predict_prior: Any, learned: torch.Tensor, classes: npt.NDArray[Any]
) -> torch.Tensor:
    """log of the class shares by `predict_prior` over the shares of the training rows, (C,)."""
    if isinstance(predict_prior, str):
        return -learned.log() if predict_prior == "uniform" else torch.zeros_like(learned)
    prior = checked_prior("predict_prior", predict_prior, classes)
    assert prior is not None
    return prior.clamp_min(1e-12).log() - learned.log()


def also_called(**aliases: str) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """Accept our own names of parameters too: scikit-learn requires X and y."""

    def decorate(method: Callable[..., Result]) -> Callable[..., Result]:
        @functools.wraps(method)
        def call(*args: Any, **named: Any) -> Result:
            return method(
                *args, **{aliases.get(name, name): value for name, value in named.items()}
            )

        return call

    return decorate
