"""Data and results must not lie in one another: one would overwrite the other."""

from __future__ import annotations

from pathlib import Path

from csot._core.errors import DataError


def refuse_overlap(data: Path, out: Path) -> None:
    """An error if the run `out` is or lies in `data`, or `data` in `out`."""
    run, source = out.resolve(), data.resolve()
    if run == source or run.is_relative_to(source):
        raise DataError(
            f"--out {out} is or lies in the data {data}, which is never changed; choose a folder "
            "outside of it"
        )
    if source.is_relative_to(run):
        raise DataError(
            f"{data} lies in --out {out}, where results are replaced; choose another folder"
        )
