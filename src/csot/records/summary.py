"""summary.json: plain JSON of whatever a run measured."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from csot.records.atomic import write_text

REQUIRED = ("n_rows", "class_names")


def plain(value: Any) -> Any:
    """Only dict, list, str, int, float, bool and None; what is not finite becomes None."""
    if value is None or isinstance(value, bool | int | str):
        # Sub-classes of str (enumerations, np.str_) lose their class.
        return str.__str__(value) if isinstance(value, str) else value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
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
    try:
        summary = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}") from error
    if not isinstance(summary, dict) or any(key not in summary for key in REQUIRED):
        raise ValueError(f"{path} must be an object with the keys {list(REQUIRED)}")
    return summary
