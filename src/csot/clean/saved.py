"""What a fitted ``LabelCleaner`` is, as a file: its settings and all that ``fit`` learned.

Left out are the training rows themselves: coordinates, held-out logits and probabilities. Verdicts
on the training rows are in ``findings_`` and ``posterior_``, which are kept.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from csot.clean.archive import read_archive, write_archive
from csot.clean.basis import Basis
from csot.clean.explanation import Explanation, Judgement
from csot.clean.findings import Rules
from csot.clean.fourier import FourierMap
from csot.clean.misfit import ClassDistances
from csot.clean.model import FittedModel, NetworkPredictor, ProbePredictor, Scale
from csot.clean.network import Networks
from csot.clean.overlap import Overlap
from csot.clean.units import Units

KIND = "LabelCleaner"
VERSION = 1
TYPES = {
    known.__name__: known
    for known in (
        Basis,
        ClassDistances,
        Explanation,
        FittedModel,
        FourierMap,
        Judgement,
        NetworkPredictor,
        Networks,
        Overlap,
        ProbePredictor,
        Rules,
        Scale,
        Units,
    )
}


def save_state(path: Path, state: dict[str, Any]) -> None:
    """Write the attributes of a fitted cleaner to one file."""
    model: FittedModel = state["model_"]
    light = replace(
        model,
        posterior=model.posterior[:0],
        probs=model.probs[:0],
        rows=model.rows[:0],
        rounds=[],
    )
    seed = state["random_state"]
    if isinstance(seed, np.random.RandomState):
        seed = None
    write_archive(path, KIND, VERSION, {**state, "model_": light, "random_state": seed}, TYPES)


def load_state(path: Path) -> dict[str, Any]:
    """The attributes; ValueError if the file is not one of ``save_state``, whole and consistent."""
    state = read_archive(path, KIND, VERSION, TYPES)
    try:
        _check(state)
    except Exception as error:
        # Whatever is missing or does not fit: the reader can only say that the file is not whole.
        raise ValueError(f"{path} is damaged: its parts do not fit together ({error})") from error
    return dict(state)


def _check(state: dict[str, Any]) -> None:
    """One row of zeros goes through every part, so shapes and types fit together."""
    n_classes, n_rows = len(state["classes_"]), len(state["findings_"])
    model, units = state["model_"], state["units_"]
    zeros = np.zeros((1, state["n_features_in_"]))
    with torch.no_grad():
        rows = torch.from_numpy(units(zeros, np.float64))
        logits = model.logits(rows)
        misfit = state["class_distances_"].misfits(model.coordinates(rows).numpy())
    explanation = model.judgement.explanation
    shapes = {
        "logits": (logits.shape, (1, n_classes)),
        "misfits": (misfit.shape, (1,)),
        "noise matrix": (explanation.noise.shape, (n_classes, n_classes)),
        "class shares": (model.class_prior.shape, (n_classes,)),
        "rare classes": (state["rules_"].rare.shape, (n_classes,)),
        "posterior": (state["posterior_"].shape, (n_rows, n_classes)),
        "duplicates": (state["duplicate_groups_"].shape, (n_rows,)),
    }
    for name, (found, wanted) in shapes.items():
        if tuple(found) != wanted:
            raise ValueError(f"{name} of shape {tuple(found)} instead of {wanted}")
    if not bool(torch.isfinite(logits).all()):
        raise ValueError("weights are not finite")
