"""summary.json: plain JSON of whatever a run measured, and the test accuracies in it."""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from csot._core.files import read_json, write_text
from csot.runs.findings import GIVEN, IS_ISSUE, STATUS

REQUIRED = ("n_rows", "class_names")
LARGEST = 256 << 20
"""Bytes: a matrix of two thousand classes needs 100 MB."""
HUGE = 1e300
"""No number of a summary is as large, and none below it overflows."""


def plain(value: Any) -> Any:
    """Convert to dict, list, str, int, float, bool and None; non-finite numbers become None."""
    if value is None or isinstance(value, bool | int | str):
        # Sub-classes of str (enumerations, np.str_) lose their class.
        return str.__str__(value) if isinstance(value, str) else value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray) and value.dtype == np.float64 and np.isfinite(value).all():
        return value.tolist()  # a million cells of a noise matrix need not be looked at singly
    if isinstance(value, np.ndarray | np.generic | pd.Series | pd.Index):
        return plain(value.tolist())
    if isinstance(value, pd.DataFrame):
        return plain(value.to_dict(orient="records"))
    if isinstance(value, list | tuple | set | frozenset):
        items = sorted(value, key=str) if isinstance(value, set | frozenset) else value
        return [plain(item) for item in items]
    if value is pd.NA or value is pd.NaT:
        return None
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Path):
        return str(value)
    raise ValueError(f"a summary holds plain data, got {type(value).__name__}: {value!r}")


def dumps(value: Any, *, indent: int | None = 2) -> str:
    """Standard JSON: ASCII, so that no half of a surrogate pair breaks a reader."""
    return json.dumps(plain(value), indent=indent, allow_nan=False)


def write_summary(path: Path, summary: Mapping[str, Any]) -> None:
    """Write atomically, once the required keys are there."""
    missing = [key for key in REQUIRED if key not in summary]
    if missing:
        raise ValueError(f"a summary needs the keys {list(REQUIRED)}, missing {missing}")
    write_text(path, dumps(summary) + "\n")


def read_summary(path: Path) -> dict[str, Any]:
    """Read, and say what is wrong with a file that someone edited."""
    summary = read_json(path, LARGEST)
    if not isinstance(summary, dict) or any(key not in summary for key in REQUIRED):
        raise ValueError(f"{path} must be an object with the keys {list(REQUIRED)}")
    for key, (is_right, form) in FORMS.items():
        is_needed = key in REQUIRED or summary.get(key) is not None
        if is_needed and not is_right(summary[key]):
            raise ValueError(f"{path}: {key} must be {form}; write the run again")
    return summary


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < HUGE


def _is_list(value: Any, is_right: Callable[[Any], bool]) -> bool:
    return isinstance(value, list) and all(map(is_right, value))


def _is_name(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, bool | int | float) and abs(value) < HUGE)


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _is_skipped(value: Any) -> bool:
    return _is_object(value) and all(isinstance(value.get(key), str) for key in ("id", "reason"))


def _is_matrix(value: Any) -> bool:
    return _is_list(value, _is_row)


def _is_row(value: Any) -> bool:
    """Numbers and None. As `_is_number`, but in C: a thousand classes have a million of them."""
    if not isinstance(value, list) or not {*map(type, value)} <= {int, float, type(None)}:
        return False
    numbers = [cell for cell in value if cell is not None] if None in value else value
    return all(map(HUGE.__gt__, map(abs, numbers)))


def _is_tests(value: Any) -> bool:
    """Accuracies by name of the test set."""
    return _is_object(value) and all(
        _is_object(found) and all(cell is None or _is_number(cell) for cell in found.values())
        for found in value.values()
    )


NUMBERS = (
    *("n_rows", "noise_rate", "noise_rate_realised", "seconds", "epochs", "best_epoch"),
    *("n_corrected", "test_accuracy_best", "test_accuracy_last", "test_accuracy_peak"),
    *("test_top5_best", "test_top5_last", "test_top5_peak"),
)
FORMS: dict[str, tuple[Callable[[Any], bool], str]] = {
    **dict.fromkeys(NUMBERS, (_is_number, "a number")),
    "class_names": (lambda value: _is_list(value, _is_name), "a list of names"),
    "noise_matrix": (_is_matrix, "a list of lists of numbers"),
    "skipped": (lambda value: _is_list(value, _is_skipped), "a list of ids and reasons"),
    "history": (lambda value: _is_list(value, _is_object), "a list of objects"),
    "further_tests": (_is_tests, "an object of objects of numbers"),
    "source": (_is_object, "an object"),
    "settings": (_is_object, "an object"),
}
"""What readers of a summary rely on, where the key is there at all."""


PACKAGES = ("csot", "torch", "numpy", "scipy", "scikit-learn", "pandas")


def versions(*more: str) -> dict[str, str]:
    """Versions of Python, of the packages that every run uses, and of `more`."""
    found = {name: _version(name) for name in (*PACKAGES, *more)}
    return {"python": platform.python_version(), **found}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def count_findings(findings: pd.DataFrame, class_names: list[Any]) -> dict[str, Any]:
    """The counts that every summary begins with, for cleaning and training alike."""
    return {
        "n_rows": len(findings),
        "n_classes": len(class_names),
        "class_names": class_names,
        "n_issues": int(findings[IS_ISSUE].sum()),
        "n_corrected": int((findings[STATUS] == "corrected").sum()),
        "n_uncertain": int((findings[STATUS] == "uncertain").sum()),
        "n_unlabelled": int(findings[GIVEN].isna().sum()),
    }


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
    """Accuracies on the first test set, then on the others; none if nothing was measured.

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
