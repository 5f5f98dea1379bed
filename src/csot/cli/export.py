"""`csot export`: the network of a training run for use without csot."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from csot.cli.options import AsJson, DataDir, Quiet
from csot.cli.predict import CheckpointName
from csot.cli.terminal import Terminal
from csot.cli.train import require_training


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder that csot train wrote.")],
    onnx: Annotated[
        Path | None,
        typer.Option(
            "--onnx",
            metavar="FILE",
            help="An .onnx file to write; RUN/model.onnx if neither file is named.",
        ),
    ] = None,
    torch_export: Annotated[
        Path | None,
        typer.Option("--torch-export", metavar="FILE", help="A .pt2 file to write."),
    ] = None,
    checkpoint: Annotated[
        CheckpointName, typer.Option(help="The last, or the best on the noisy held-out labels.")
    ] = CheckpointName.last,
    data_dir: DataDir = None,
    force: Annotated[bool, typer.Option("--force", help="Replace files.")] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Write the network of RUN as ONNX or torch.export, checked, with a model card beside it.

    Example: csot export run --onnx model.onnx
    """
    with Terminal(quiet, as_json) as terminal:
        require_training("csot export")
        from csot import training

        done = training.export(
            run,
            onnx=run / "model.onnx" if onnx is None and torch_export is None else onnx,
            torch_export=torch_export,
            checkpoint=checkpoint.value,
            data_dir=data_dir,
            force=force,
        )
        rows = "rows of its data" if done.real else "random rows (its data could not be read)"
        terminal.say(
            f"equal to the run on {done.rows} {rows}, up to {done.difference:.1g} in probability"
        )
        for path in [*done.files, *done.cards]:
            terminal.say(f"wrote {path}")
        terminal.result(
            {
                "files": [str(path) for path in done.files],
                "cards": [str(path) for path in done.cards],
                "n_rows": done.rows,
                "difference": done.difference,
            }
        )
