"""Methods by name (each file of `methods/` is one), and the ablations (a) to (j) of CSOT."""

from __future__ import annotations

import pkgutil
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from csot._core.errors import listed, nearest
from csot.methods.core.contract import Method


def method_names() -> list[str]:
    """List the names of all methods: the files of `methods/`."""
    found = pkgutil.iter_modules([str(Path(__file__).parents[1])])
    return sorted(module.name for module in found if not module.ispkg)


def find_method(name: str) -> type[Method]:
    """Return the sub-class of `Method` that the file `name` defines."""
    known = method_names()
    if name not in known:
        raise ValueError(
            f"method {name!r} is unknown{nearest(name, known)}; there are {listed(known, 40)}"
        )
    module = import_module(f"csot.methods.{name}")
    defined = [
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, Method)
        and value.__module__ == module.__name__
    ]
    if len(defined) != 1:
        raise TypeError(f"csot/methods/{name}.py must define one Method, it has {len(defined)}")
    return defined[0]


@dataclass(frozen=True)
class Ablation:
    """CSOT with a part left out or replaced, by the letter of the paper's table."""

    letter: str
    about: str
    settings: dict[str, Any]
    """Changes to the settings of CSOT."""


WHOLE_BUDGET = {"curriculum": "constant", "start_budget": 1.0, "switch": "epoch"}
"""With a budget of one no row is left out, so the published code's latch (`switch="latch"`) would
fire in the first epoch after the warm-up and leave no stage one; the paper's rule does not."""

ABLATIONS = (
    Ablation(
        "a",
        "classical OT: no coherence, no curriculum",
        {"coherence": 0.0, "row_constraint": "auto", **WHOLE_BUDGET},
    ),
    Ablation("b", "structure-aware OT: no curriculum", WHOLE_BUDGET),
    Ablation("c", "without Omega^P and Omega^L", {"coherence": 0.0}),
    Ablation("d", "without Omega^P", {"prediction_coherence": 0.0}),
    Ablation("e", "without Omega^L", {"label_coherence": 0.0}),
    Ablation(
        "f",
        "GMM on losses in place of the plan, L_sup only",
        {"allocator": "gmm", "switch": "never"},
    ),
    Ablation("g", "cross-entropy in place of L_sup", {"clean_loss": "cross_entropy"}),
    Ablation("h", "without L_semi: never the second stage", {"switch": "never"}),
    Ablation(
        "i",
        "confidence threshold 0.95 in place of the plan's corrections",
        {"corrected_rows": "confident", "cutoff": 0.95},
    ),
    Ablation("j", "without SimSiam", {"simsiam_weight": 0.0}),
)


PLUS = Ablation("plus", "what helps beyond the paper", {"variant": "plus"})
"""Not in the paper: CSOT with more, by the same notation, `csot@plus`."""


def find_ablation(letter: str) -> Ablation:
    """Return an ablation by its letter, or `plus`."""
    for ablation in (*ABLATIONS, PLUS):
        if ablation.letter == letter:
            return ablation
    letters = ", ".join(ablation.letter for ablation in ABLATIONS)
    raise ValueError(f"there is no ablation {letter!r}: the paper has {letters}; and there is plus")
