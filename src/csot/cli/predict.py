"""`csot predict`: labels and probabilities for other data, by a run of training or cleaning."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from csot._core.errors import DataError, require
from csot.cli.options import (
    AllowOutside,
    AsJson,
    DataDir,
    ExcelSafe,
    IdColumn,
    ImageColumn,
    ImageRoot,
    LabelColumn,
    Quiet,
    TextColumn,
    default_out,
)
from csot.cli.terminal import Terminal
from csot.cli.train import require_training

SUFFIXES = (".csv", ".parquet", ".npz")


class CheckpointName(str, Enum):
    best = "best"
    last = "last"


def predict(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="Folder that csot train or csot clean wrote.")
    ],
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="A folder of images, a .csv or .parquet table, an .npz file or a folder of .npy "
            "files, labels or none; or a name such as digits, for its test set.",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="A .csv, .parquet or .npz file; by default DATA-predictions.csv.",
        ),
    ] = None,
    checkpoint: Annotated[
        CheckpointName, typer.Option(help="The last, or the best on the noisy held-out labels.")
    ] = CheckpointName.last,
    label: LabelColumn = None,
    text: TextColumn = None,
    image: ImageColumn = None,
    id_column: IdColumn = None,
    root: ImageRoot = None,
    allow_outside: AllowOutside = False,
    excel_safe: ExcelSafe = False,
    embedder: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The embedder package.module:callable of RUN, to confirm that it may be imported.",
        ),
    ] = None,
    data_dir: DataDir = None,
    force: Annotated[bool, typer.Option("--force", help="Replace FILE.")] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Predict DATA with the model of RUN: a label and the probabilities of all classes.

    Example: csot predict run new-photos/ --out predictions.csv
    """
    with Terminal(quiet, as_json) as terminal:
        from csot.data import Columns
        from csot.runs import Run

        if out is None:
            out = default_out(data, "predictions.csv")
        check_target(out, force)
        columns = Columns(label=label, text=text, image=image, id=id_column)
        if Run(run).cleaner_path.exists():
            from csot.clean.saved_cleaner import predict_with_cleaner

            with terminal.stages() as progress:
                predicted = predict_with_cleaner(
                    run,
                    data,
                    columns=columns,
                    root=root,
                    allow_outside=allow_outside,
                    embedder=embedder,
                    progress=progress,
                )
            model = "cleaner"
        else:
            require_training("csot predict")
            from csot import training

            predicted = training.predict(
                run,
                data,
                checkpoint=checkpoint.value,
                columns=columns,
                root=root,
                data_dir=data_dir,
                allow_outside=allow_outside,
                embedder=embedder,
            )
            model = f"{checkpoint.value} checkpoint (epoch {predicted.epoch})"
        predicted.write(out, excel_safe=excel_safe)
        terminal.say(f"{len(predicted.ids):,} rows, by the {model} of {run}")
        if predicted.accuracy is not None:
            terminal.say(f"accuracy {predicted.accuracy:.2%}, by the labels of {data}")
        terminal.say(f"predictions are in {out}")
        terminal.result(
            {
                "predictions": str(out),
                "n_rows": len(predicted.ids),
                "model": model,
                "accuracy": predicted.accuracy,
            }
        )


def check_target(out: Path, force: bool) -> None:
    """Raise if `out` cannot be written, before any work is done."""
    if out.suffix.lower() not in SUFFIXES:
        raise DataError(f"--out {out}: the file must end in .csv, .parquet or .npz")
    check_free(out, force, "predictions.csv")
    if out.suffix.lower() == ".parquet":
        require("pyarrow", "parquet", f"writing {out.name}")


def check_free(out: Path, force: bool, example: str) -> None:
    """Raise if the file `out` exists, unless `force`, or lies in no folder."""
    if out.is_dir():
        raise DataError(f"--out {out} is a folder: name a file, such as {out / example}")
    if out.exists() and not force:
        raise DataError(f"{out} exists: --force replaces it, another --out leaves it alone")
    if not out.absolute().parent.is_dir():
        raise DataError(f"--out {out}: there is no folder {out.parent}")
