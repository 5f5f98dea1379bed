"""`csot predict`: what a trained run says of other data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from csot._core.errors import DataError, require
from csot.cli.terminal import Terminal
from csot.data import Columns

if TYPE_CHECKING:
    from csot.training.predict import Predicted

SUFFIXES = (".csv", ".parquet", ".npz")


@dataclass(frozen=True)
class PredictOptions:
    """What the user asked for."""

    run: Path
    data: str
    out: Path
    checkpoint: Literal["best", "last"]
    columns: Columns
    root: Path | None
    data_dir: Path | None
    force: bool
    allow_outside: bool = False
    excel_safe: bool = False


def run_predict(options: PredictOptions, terminal: Terminal) -> None:
    """Leave one table in `options.out`."""
    for module in ("yaml", "pydantic", "safetensors"):
        require(module, "train", "csot predict")
    from csot.data.readers.inputs import read_inputs
    from csot.training.predict import Predictor

    check_target(options.out, options.force)
    predictor = Predictor(options.run, options.checkpoint)
    inputs = read_inputs(
        options.data,
        predictor.wanted,
        columns=options.columns,
        root=options.root,
        data_dir=options.data_dir,
        allow_outside=options.allow_outside,
    )
    predicted = predictor(inputs)
    write_predictions(predicted, options.out, options.excel_safe)
    terminal.say(
        f"{len(predicted.ids):,} rows, by the {options.checkpoint} checkpoint "
        f"(epoch {predicted.epoch}) of {options.run}"
    )
    if predicted.accuracy is not None:
        terminal.say(f"accuracy {predicted.accuracy:.2%}, by the labels of {options.data}")
    terminal.say(f"predictions are in {options.out}")


def check_target(out: Path, force: bool) -> None:
    """Before any work is done."""
    if out.suffix.lower() not in SUFFIXES:
        raise DataError(f"--out {out}: the file must end in .csv, .parquet or .npz")
    if out.is_dir():
        raise DataError(f"--out {out} is a folder: name a file, such as {out / 'predictions.csv'}")
    if out.exists() and not force:
        raise DataError(f"{out} exists: --force replaces it, another --out leaves it alone")
    if not out.absolute().parent.is_dir():
        raise DataError(f"--out {out}: there is no folder {out.parent}")
    if out.suffix.lower() == ".parquet":
        require("pyarrow", "parquet", f"writing {out.name}")


def write_predictions(predicted: Predicted, out: Path, excel_safe: bool = False) -> None:
    """Whole or not at all."""
    import numpy as np

    from csot._core.atomic import atomic_write
    from csot.runs.tables import write_csv, write_parquet

    if out.suffix.lower() == ".csv":
        write_csv(out, predicted.table(), excel_safe=excel_safe)
    elif out.suffix.lower() == ".parquet":
        write_parquet(out, predicted.table())
    else:
        names = np.array(predicted.class_names)
        with atomic_write(out) as file:
            np.savez(
                file,
                ids=np.array(predicted.ids),
                predicted_labels=names[predicted.probabilities.argmax(1)],
                probabilities=predicted.probabilities,
                class_names=names,
            )
