"""The test accuracies of a summary: which test set, which epoch, top 1 and top 5."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

FURTHER = "further_tests"
"""Key of a summary: accuracies of every test set but the first, by its name."""
HELD_OUT = "held-out labels"
"""What chooses the best epoch unless a clean set does."""


@dataclass(frozen=True)
class Accuracy:
    """Fractions, of one test set at one epoch."""

    test: str
    """`test set`, or the name of a further one."""
    when: str
    """Which epoch, in words."""
    top1: float
    top5: float | None
    """None where there are five classes or fewer."""

    def text(self) -> str:
        """`93.20%`, or `93.20%, top 5 99.10%`."""
        return f"{self.top1:.2%}" + ("" if self.top5 is None else f", top 5 {self.top5:.2%}")


def measured_accuracies(summary: Mapping[str, Any]) -> Iterator[Accuracy]:
    """Of the first test set, then of the others; nothing where none was measured.

    The best epoch is left out where nothing chose it: it would be the last one under another name.
    """
    chosen_on = selected_on(summary)
    epochs = {
        "last": "last epoch",
        "best": f"epoch {summary.get('best_epoch')} (best on {chosen_on})",
        "peak": "highest of all epochs, as papers report it",
    }
    for name, values in _by_test(summary).items():
        for key, words in epochs.items():
            top1 = values.get(f"accuracy_{key}")
            if top1 is not None and (chosen_on or key != "best"):
                yield Accuracy(name, words, top1, values.get(f"top5_{key}"))


def selected_on(summary: Mapping[str, Any]) -> str:
    """What chose the best epoch: held-out labels or a clean set; empty where nothing did."""
    named = str(summary.get("selected_on") or HELD_OUT)
    return "" if named == HELD_OUT and summary.get("held_out") is None else named


def _by_test(summary: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    first = {
        key.removeprefix("test_"): value
        for key, value in summary.items()
        if key.startswith(("test_accuracy_", "test_top5_"))
    }
    return {"test set": first, **(summary.get(FURTHER) or {})}
