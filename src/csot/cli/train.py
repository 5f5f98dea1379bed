"""`csot train`: train on noisy labels, and print the result."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from csot._core.errors import require
from csot.cli.epoch_lines import Epochs
from csot.cli.options import (
    AllowOutside,
    AnnotatorColumn,
    AsJson,
    Backbone,
    Changes,
    DataDir,
    ExcelSafe,
    FeatureColumns,
    Frozen,
    IdColumn,
    ImageColumn,
    ImageRoot,
    LabelColumn,
    Preset,
    Quiet,
    TestData,
    TextColumn,
    VerifiedLabels,
    complete_method,
    complete_noise,
    default_out,
    split_names,
)
from csot.cli.terminal import Terminal, program

MACHINE = "Machine"


def train(
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="A folder of images, a .csv, .jsonl or .parquet table, an .npz file; or digits, "
            "cifar10, cifar100, cifar10n:worse, webvision, clothing1m ...",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="RUN", help="Folder of the run; by default DATA-METHOD."
        ),
    ] = None,
    preset: Preset = None,
    backbone: Backbone = None,
    frozen: Frozen = None,
    method: Annotated[
        str, typer.Option(help="A method (csot methods).", autocompletion=complete_method)
    ] = "csot",
    noise: Annotated[
        str,
        typer.Option(
            help="Noise to add to the labels: sym:0.5, asym:0.4, pair:0.3, instance:0.3, "
            "file:LABELS.",
            autocompletion=complete_noise,
        ),
    ] = "none",
    seed: Annotated[
        int,
        typer.Option(
            help="Seed of the noise, the initial weights and everything else that is random."
        ),
    ] = 0,
    settings: Changes = None,
    data_dir: DataDir = None,
    download: Annotated[
        bool, typer.Option("--download", help="Download a public data set that is missing.")
    ] = False,
    limit: Annotated[
        int | None, typer.Option(help="Train on this many rows, the same number of each class.")
    ] = None,
    image_size: Annotated[
        int | None, typer.Option(help="Size in pixels that images are scaled to.")
    ] = None,
    test: TestData = None,
    label: LabelColumn = None,
    text: TextColumn = None,
    image: ImageColumn = None,
    id_column: IdColumn = None,
    features: FeatureColumns = None,
    annotator: AnnotatorColumn = None,
    root: ImageRoot = None,
    verified: VerifiedLabels = None,
    from_clean: Annotated[
        Path | None,
        typer.Option(
            help="A run of csot clean on the same data, whose probabilities to start from.",
            metavar="RUN",
        ),
    ] = None,
    cache: Annotated[
        Path | None,
        typer.Option(
            help="Folder for embeddings and scaled images, shared by several runs.",
            metavar="DIR",
        ),
    ] = None,
    allow_outside: AllowOutside = False,
    excel_safe: ExcelSafe = False,
    accelerator: Annotated[
        str, typer.Option(help="auto, cpu, cuda or mps.", rich_help_panel=MACHINE)
    ] = "auto",
    devices: Annotated[
        int, typer.Option(help="Processes that share the work.", min=1, rich_help_panel=MACHINE)
    ] = 1,
    precision: Annotated[
        str | None,
        typer.Option(
            help="32-true, bf16-mixed, 16-mixed or auto (mixed on a GPU); by default auto for "
            "fine-tuning, else 32-true.",
            rich_help_panel=MACHINE,
        ),
    ] = None,
    compile_networks: Annotated[
        bool, typer.Option("--compile", help="Use torch.compile.", rich_help_panel=MACHINE)
    ] = False,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Also write RUN/tensorboard.")
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue from the last checkpoint of RUN.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the training run in RUN.")
    ] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Train a network on labels that are partly wrong, and say which of them are.

    Photographs and texts start from a pretrained network.

    RUN gets checkpoints, metrics.csv, findings.csv, summary.json, report.html.

    Example: csot train digits --noise sym:0.5

    Example: csot train photos/ --test test-photos/ --out run
    """
    with Terminal(quiet, as_json, "--resume continues after the last complete epoch") as terminal:
        require_training("csot train")
        import csot
        from csot.data import Columns
        from csot.training import Source
        from csot.training.run_folder import is_first_process

        if not is_first_process():
            terminal.silence()
        out = default_out(data, method) if out is None else out
        chosen = parse_settings(settings or [])
        if limit is not None:
            chosen["dataset.limit"] = limit
        if image_size is not None:
            chosen["dataset.image_size"] = image_size
        with Epochs(terminal) as epochs:
            trained = csot.train(
                data,
                out=out,
                method=method,
                preset=preset,
                backbone=backbone,
                frozen=frozen,
                noise=noise,
                seed=seed,
                settings=chosen,
                source=Source(
                    data_dir=data_dir,
                    test=test,
                    columns=Columns(
                        label=label,
                        text=text,
                        image=image,
                        id=id_column,
                        features=split_names(features),
                        annotator=annotator,
                    ),
                    root=root,
                    download=download,
                    allow_outside=allow_outside,
                    cache=cache,
                    verified=verified,
                    from_clean=from_clean,
                ),
                machine={
                    "accelerator": accelerator,
                    "devices": devices,
                    **({} if precision is None else {"precision": precision}),
                    "compile": compile_networks,
                },
                resume=resume,
                force=force,
                tensorboard=tensorboard,
                excel_safe=excel_safe,
                progress=epochs.progress(),
            )
        if trained.summary:
            show_trained(trained.summary, out, terminal)
            terminal.result({"run": str(out), **scalars(trained.summary)})


def scalars(summary: dict[str, Any]) -> dict[str, Any]:
    """Its single values, without the tables."""
    return {
        name: value for name, value in summary.items() if not isinstance(value, dict | list | tuple)
    }


def require_training(command: str) -> None:
    """Check that the packages of the extra `train` are installed."""
    for module in ("yaml", "pydantic", "lightning_fabric", "safetensors"):
        require(module, "train", command)


def parse_settings(pairs: Sequence[str]) -> dict[str, Any]:
    """`epochs=20` -> {"epochs": 20}; values are YAML."""
    from csot.training.config import parse_yaml

    found = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise ValueError(f"--set {pair}: write key=value, such as --set epochs=20")
        found[key.strip()] = parse_yaml(value, f"--set {pair}")
    return found


def show_trained(summary: dict[str, Any], out: Path, terminal: Terminal) -> None:
    """Print the result in a few lines."""
    from csot.runs.summary import measured_accuracies

    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(justify="right")

    def share(name: str, key: str) -> None:
        if summary.get(key) is not None:
            table.add_row(name, f"{summary[key]:.2%}")

    share("labels that were made wrong", "noise_rate_realised")
    share("estimated noise rate", "noise_rate")
    for one in measured_accuracies(summary):
        table.add_row(f"{one.test}, {one.when}", one.text())
    table.add_row("labels corrected", f"{summary['n_corrected']:,} of {summary['n_rows']:,}")
    table.add_row("seconds", f"{summary['seconds']:.0f}")
    terminal.say()
    terminal.say(table)
    terminal.say()
    terminal.say(
        f"results are in {out}: report.html, curves.png, findings.csv, metrics.csv, checkpoints/"
    )
    called, run = shlex.join(program()), shlex.quote(str(out))
    if summary.get("from_clean"):
        terminal.say(summary["from_clean"]["words"])
    if (summary.get("against_cleaner") or {}).get("better"):
        terminal.warn(str(summary["against_cleaner"]["words"]))
    if summary.get("informative") is False:
        terminal.warn(str(summary["warning"]))
        return
    if summary.get("informative") is None:
        terminal.say(
            "no rows were held out, so it was not tested whether the network predicts labels "
            "better than chance (--set holdout=0.1)"
        )
    steps = [f"{called} review {run}", f"{called} predict {run} DATA --out predictions.csv"]
    if "path" in (summary.get("source") or {}) and summary.get("noise") == "none":
        steps.insert(1, f"{called} apply {run}")
    terminal.say(f"next: {'; '.join(steps)}")
