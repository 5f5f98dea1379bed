"""The paper's ablations (a) to (j): CSOT with a part taken out or replaced."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Ablation:
    letter: str
    about: str
    settings: dict[str, Any]
    """On top of the settings of CSOT."""


WHOLE_BUDGET = {"curriculum": "constant", "start_budget": 1.0}

ABLATIONS = (
    Ablation("a", "classical OT: no coherence, no curriculum", {"coherence": 0.0, **WHOLE_BUDGET}),
    Ablation("b", "structure-aware OT: no curriculum", WHOLE_BUDGET),
    Ablation("c", "without Omega^P and Omega^L", {"coherence": 0.0}),
    Ablation("d", "without Omega^P", {"prediction_coherence": 0.0}),
    Ablation("e", "without Omega^L", {"label_coherence": 0.0}),
    Ablation(
        "f",
        "GMM on losses in place of the plan, L_sup only",
        {"allocator": "gmm", "switch": "never"},
    ),
    Ablation("g", "cross-entropy in place of L_mix + L_lab", {"clean_loss": "cross_entropy"}),
    Ablation("h", "without L_semi: never the second stage", {"switch": "never"}),
    Ablation(
        "i",
        "confidence threshold 0.95 in place of the plan's corrections",
        {"corrected_rows": "confident", "cutoff": 0.95},
    ),
    Ablation("j", "without SimSiam", {"simsiam_weight": 0.0}),
)


def find_ablation(letter: str) -> Ablation:
    for ablation in ABLATIONS:
        if ablation.letter == letter:
            return ablation
    letters = ", ".join(ablation.letter for ablation in ABLATIONS)
    raise ValueError(f"there is no ablation {letter!r}: the paper has {letters}")
