"""The command line: one file per command parses, calls and prints. Heavy imports are deferred."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from csot import __version__
from csot.cli.apply import apply
from csot.cli.audit import audit
from csot.cli.clean import clean
from csot.cli.options import (
    AllowOutside,
    Changes,
    DataDir,
    ExcelSafe,
    IdColumn,
    ImageColumn,
    ImageRoot,
    LabelColumn,
    Preset,
    Quiet,
    TestData,
)
from csot.cli.report import report
from csot.cli.review import review

app = typer.Typer(
    name="csot",
    help="Find wrong labels, fix them, and train models that survive them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"csot {__version__}")
        raise typer.Exit


@app.callback()
def main(
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print and exit."),
    ] = False,
) -> None:
    """Find wrong labels, fix them, and train models that survive them."""


app.command()(clean)
app.command()(apply)

MACHINE = "Machine"


class Checkpoint(str, Enum):
    best = "best"
    last = "last"


@app.command()
def train(
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="digits, cifar10, cifar100, cifar10n:worse, webvision, clothing1m ...; or a "
            "folder of images, a .csv or .parquet table, an .npz file.",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="RUN", help="Folder of the run.")],
    preset: Preset = None,
    method: Annotated[str, typer.Option(help="A method (csot methods).")] = "csot",
    noise: Annotated[
        str,
        typer.Option(help="Noise to add to the labels: sym:0.5, asym:0.4, pair:0.3, instance:0.3."),
    ] = "none",
    seed: Annotated[int, typer.Option(help="Of the noise, the weights, everything random.")] = 0,
    settings: Changes = None,
    data_dir: DataDir = None,
    download: Annotated[
        bool, typer.Option("--download", help="Fetch a public data set that is not there.")
    ] = False,
    limit: Annotated[
        int | None, typer.Option(help="Train on so many rows, the same number of each class.")
    ] = None,
    image_size: Annotated[int | None, typer.Option(help="Side that images are scaled to.")] = None,
    test: TestData = None,
    label: LabelColumn = None,
    image: ImageColumn = None,
    id_column: IdColumn = None,
    root: ImageRoot = None,
    allow_outside: AllowOutside = False,
    excel_safe: ExcelSafe = False,
    accelerator: Annotated[
        str, typer.Option(help="auto, cpu, cuda or mps.", rich_help_panel=MACHINE)
    ] = "auto",
    devices: Annotated[
        int, typer.Option(help="Processes that share the work.", min=1, rich_help_panel=MACHINE)
    ] = 1,
    precision: Annotated[
        str,
        typer.Option(help="32-true, bf16-mixed or 16-mixed.", rich_help_panel=MACHINE),
    ] = "32-true",
    compile_networks: Annotated[
        bool, typer.Option("--compile", help="Use torch.compile.", rich_help_panel=MACHINE)
    ] = False,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Write RUN/tensorboard as well.")
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the last checkpoint of RUN.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the training run in RUN.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Train a network on labels that are partly wrong, and say which of them are.

    RUN gets checkpoints, metrics.csv, findings.csv, summary.json and report.html.
    """
    from csot.cli.terminal import Terminal
    from csot.cli.train import TrainOptions, run_train
    from csot.data import Columns

    extra = {"limit": limit, "image_size": image_size}
    chosen = [f"dataset.{key}={value}" for key, value in extra.items() if value is not None]
    options = TrainOptions(
        data=data,
        out=out,
        preset=preset,
        method=method,
        noise=noise,
        seed=seed,
        settings=[*(settings or []), *chosen],
        data_dir=data_dir,
        test=test,
        columns=Columns(label=label, image=image, id=id_column),
        root=root,
        download=download,
        machine={
            "accelerator": accelerator,
            "devices": devices,
            "precision": precision,
            "compile": compile_networks,
        },
        tensorboard=tensorboard,
        resume=resume,
        force=force,
        allow_outside=allow_outside,
        excel_safe=excel_safe,
    )
    with Terminal(quiet, "--resume goes on after the last whole epoch") as terminal:
        run_train(options, terminal)


@app.command()
def compare(
    data: Annotated[str, typer.Argument(metavar="DATA", help="As for csot train.")],
    methods: Annotated[
        str,
        typer.Option(help="Methods, separated by commas; csot@c is an ablation; all; ablations."),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="RUN", help="Folder of all runs.")],
    noise: Annotated[str, typer.Option(help="Kinds of noise, separated by commas.")] = "none",
    seeds: Annotated[str, typer.Option(help="Seeds, separated by commas.")] = "0",
    preset: Preset = None,
    settings: Changes = None,
    data_dir: DataDir = None,
    test: TestData = None,
    label: LabelColumn = None,
    image: ImageColumn = None,
    root: ImageRoot = None,
    allow_outside: AllowOutside = False,
    jobs: Annotated[
        int, typer.Option(min=1, help="Runs at a time, each on one thread where there are several.")
    ] = 1,
    own_recipes: Annotated[
        bool,
        typer.Option(
            "--own-recipes",
            help="Epochs, optimiser and network of each method's original, not the common ones.",
        ),
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Run methods on the same data, noise, network and budget, and put them side by side.

    What is finished in RUN is not run again; what was interrupted goes on.
    """
    from csot.cli.compare import CompareOptions, run_compare
    from csot.cli.terminal import Terminal
    from csot.data import Columns

    options = CompareOptions(
        data=data,
        out=out,
        methods=methods,
        noise=noise,
        seeds=seeds,
        preset=preset,
        settings=settings or [],
        data_dir=data_dir,
        test=test,
        columns=Columns(label=label, image=image),
        root=root,
        jobs=jobs,
        own_recipes=own_recipes,
        allow_outside=allow_outside,
    )
    with Terminal(quiet) as terminal:
        run_compare(options, terminal)


@app.command()
def ablations() -> None:
    """List the paper's ablations of CSOT."""
    from csot.cli.compare import show_ablations
    from csot.cli.terminal import Terminal

    with Terminal() as terminal:
        show_ablations(terminal)


@app.command()
def predict(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder that csot train wrote.")],
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="A folder of images, a .csv or .parquet table, an .npz file or a folder of .npy "
            "files, labels or none; or a name such as digits, for its test set.",
        ),
    ],
    out: Annotated[
        Path,
        typer.Option("--out", "-o", metavar="FILE", help="A .csv, .parquet or .npz file."),
    ],
    checkpoint: Annotated[
        Checkpoint, typer.Option(help="The last, or the best on the noisy held-out labels.")
    ] = Checkpoint.last,
    label: LabelColumn = None,
    image: ImageColumn = None,
    id_column: IdColumn = None,
    root: ImageRoot = None,
    allow_outside: AllowOutside = False,
    excel_safe: ExcelSafe = False,
    data_dir: DataDir = None,
    force: Annotated[bool, typer.Option("--force", help="Replace FILE.")] = False,
    quiet: Quiet = False,
) -> None:
    """Say what a trained network makes of DATA: a label and the probabilities of all classes."""
    from csot.cli.predict import PredictOptions, run_predict
    from csot.cli.terminal import Terminal
    from csot.data import Columns

    options = PredictOptions(
        run=run,
        data=data,
        out=out,
        checkpoint=checkpoint.value,
        columns=Columns(label=label, image=image, id=id_column),
        root=root,
        data_dir=data_dir,
        force=force,
        allow_outside=allow_outside,
        excel_safe=excel_safe,
    )
    with Terminal(quiet) as terminal:
        run_predict(options, terminal)


presets = typer.Typer(help="Recipes for training.", no_args_is_help=True)
app.add_typer(presets, name="presets")


@presets.command("list")
def presets_list() -> None:
    """Which there are."""
    from csot.cli.lists import list_presets
    from csot.cli.terminal import Terminal

    with Terminal() as terminal:
        list_presets(terminal)


@presets.command("show")
def presets_show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A preset, or a .yaml file.")],
    method: Annotated[
        str | None, typer.Option(help="Resolve it for this method, defaults and all.")
    ] = None,
    noise: Annotated[str | None, typer.Option(help="And for this noise: sym:0.5 ...")] = None,
) -> None:
    """Print a preset as it is, or the whole configuration that it comes to."""
    from csot.cli.lists import show_preset
    from csot.cli.terminal import Terminal

    with Terminal():
        show_preset(name, method, noise)


@app.command()
def methods(
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """List the methods of training."""
    from csot.cli.lists import list_methods
    from csot.cli.terminal import Terminal

    with Terminal() as terminal:
        list_methods(terminal, as_json)


app.command()(report)
app.command()(review)
app.command()(audit)
