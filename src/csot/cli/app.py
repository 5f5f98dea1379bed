"""The command line: parse, call, print. What is heavy is imported by the command that needs it."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from csot import __version__

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


TABLE = "Tables"

# Options that several commands have in common.
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Only warnings and errors.")]
LabelColumn = Annotated[
    str | None, typer.Option("--label", help="Column of the labels.", rich_help_panel=TABLE)
]
ImageColumn = Annotated[
    str | None, typer.Option("--image", help="Column of the image paths.", rich_help_panel=TABLE)
]
IdColumn = Annotated[
    str | None,
    typer.Option("--id", help="Column of unique ids; else row numbers.", rich_help_panel=TABLE),
]
ImageRoot = Annotated[
    Path | None,
    typer.Option(
        "--root",
        help="Folder that image paths start from; else the table's.",
        rich_help_panel=TABLE,
    ),
]
AllowOutside = Annotated[
    bool,
    typer.Option(
        "--allow-outside",
        help="Read pictures that lie outside of the data folder, by absolute paths or links.",
    ),
]
ExcelSafe = Annotated[
    bool,
    typer.Option(
        "--excel-safe", help="Disarm cells of CSV files that a spreadsheet would run as formulas."
    ),
]
DataDir = Annotated[
    Path | None, typer.Option("--data-dir", help="Where named data sets lie; else ./data.")
]
TestData = Annotated[
    Path | None, typer.Option("--test", help="Test data of the same kind as DATA.")
]
Preset = Annotated[
    str | None,
    typer.Option(
        "--preset", help="A preset (csot presets list) or a .yaml file; else the data's own."
    ),
]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a setting; may be repeated."),
]


class Duplicates(str, Enum):
    group = "group"
    ignore = "ignore"


@app.command()
def clean(
    data: Annotated[
        Path,
        typer.Argument(
            metavar="DATA",
            help="A folder of images with one sub-folder per class or a metadata.csv; a .csv, "
            ".jsonl or .parquet table; an .npz file, or a folder of .npy files, with features and "
            "labels.",
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="RUN", help="Folder for the results.")
    ],
    label: LabelColumn = None,
    text: Annotated[
        str | None, typer.Option(help="Column of the texts.", rich_help_panel=TABLE)
    ] = None,
    image: ImageColumn = None,
    id_column: IdColumn = None,
    group: Annotated[
        str | None,
        typer.Option(
            help="Column of groups, such as patients: no row is judged by models that saw its "
            "group.",
            rich_help_panel=TABLE,
        ),
    ] = None,
    features: Annotated[
        str | None,
        typer.Option(
            help="Feature columns, comma-separated; else all that describe a sample. With --text "
            "or --image they are used beside it.",
            rich_help_panel=TABLE,
        ),
    ] = None,
    annotator: Annotated[
        str | None,
        typer.Option(
            help="Column of the annotators: a row is then one vote, --id names the sample.",
            rich_help_panel=TABLE,
        ),
    ] = None,
    root: ImageRoot = None,
    allow_outside: AllowOutside = False,
    excel_safe: ExcelSafe = False,
    merge_variants: Annotated[
        bool,
        typer.Option(
            "--merge-variants", help="Treat labels that differ only by case or spaces as one."
        ),
    ] = False,
    embedder: Annotated[
        str | None,
        typer.Option(
            help="efficientnet-lite0 or efficientnet-lite2; hf:NAME or hf:FOLDER, a model of "
            "transformers; for texts also a sentence-transformers name or folder; or "
            "package.module:callable, from a list of paths or texts to (N, D)."
        ),
    ] = None,
    verified: Annotated[
        Path | None,
        typer.Option(
            help="CSV with the columns id and label: decisions that are final; or a sheet of "
            "csot audit, filled in."
        ),
    ] = None,
    votes: Annotated[
        Path | None,
        typer.Option(
            help="CSV with the columns id, annotator and label: more opinions, beside the labels "
            "of DATA; a review writes one."
        ),
    ] = None,
    class_prior: Annotated[
        str | None,
        typer.Option(help="True shares of the classes: uniform, or cat=0.2,dog=0.8."),
    ] = None,
    duplicates: Annotated[
        Duplicates,
        typer.Option(help="Near-duplicates: keep them out of each other's training, or not."),
    ] = Duplicates.group,
    judge_with: Annotated[
        Path | None,
        typer.Option(
            "--with",
            metavar="RUN",
            help="Judge DATA with what another run of csot clean learned; nothing is fitted.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="The result depends on the data and on it.")] = 0,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the results of other data in RUN.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Say which labels of DATA are wrong, what they should be, and how sure that is.

    DATA is never changed. RUN gets findings.csv, corrected.csv, report.html and more.
    """
    from csot.cli.clean import CleanOptions, run_clean
    from csot.cli.judge import run_judge
    from csot.cli.terminal import Terminal
    from csot.data import Columns

    chosen = None if features is None else [name.strip() for name in features.split(",")]
    options = CleanOptions(
        data=data,
        out=out,
        columns=Columns(
            label=label,
            text=text,
            image=image,
            id=id_column,
            group=group,
            features=chosen,
            annotator=annotator,
        ),
        root=root,
        embedder=embedder,
        verified=verified,
        votes=votes,
        class_prior=class_prior,
        duplicates=duplicates.value,
        seed=seed,
        force=force,
        allow_outside=allow_outside,
        excel_safe=excel_safe,
        merge_variants=merge_variants,
        judge_with=judge_with,
    )
    with Terminal(quiet) as terminal:
        (run_clean if judge_with is None else run_judge)(options, terminal)


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


@app.command()
def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder that csot clean wrote.")],
    allow_outside: AllowOutside = False,
) -> None:
    """Write RUN/report.html again, from what RUN holds."""
    from csot.cli.report import run_report
    from csot.cli.terminal import Terminal

    with Terminal() as terminal:
        run_report(run, terminal, allow_outside)


@app.command()
def review(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a finished run.")],
    reviewer: Annotated[
        str, typer.Option(metavar="NAME", help="Your name; decisions are kept under it.")
    ] = "reviewer",
    port: Annotated[
        int | None, typer.Option(help="Port; else a free one.", min=0, max=65535)
    ] = None,
    audit: Annotated[
        int | None,
        typer.Option(metavar="ROWS", min=1, help="Open with an audit of so many rows."),
    ] = None,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Only print the address to open.")
    ] = False,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    allow_remote: Annotated[
        bool, typer.Option("--allow-remote", help="Let --host be reachable from other machines.")
    ] = False,
    same_data: Annotated[
        bool, typer.Option("--same-data", help="The data moved, but is what was decided on.")
    ] = False,
    allow_outside: AllowOutside = False,
) -> None:
    """Decide on the suggestions of RUN in the browser, on this machine; no network is used.

    Decisions are kept in RUN, and come back as verified.csv.
    """
    from csot.cli.review import ReviewOptions, run_review
    from csot.cli.terminal import Terminal

    options = ReviewOptions(
        run,
        reviewer,
        port,
        host,
        allow_remote,
        same_data,
        not no_browser,
        audit=audit,
        allow_outside=allow_outside,
    )
    with Terminal() as terminal:
        run_review(options, terminal)


@app.command("audit")
def audit_command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a finished run.")],
    rows: Annotated[
        int, typer.Option(min=1, help="How many rows to verify; 50 to 200 are usual.")
    ] = 100,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="CSV to fill in: column verified_label."),
    ] = None,
    results: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="That CSV, filled in: print what it says of all labels."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the random choice; a started audit keeps its.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Replace FILE.")] = False,
) -> None:
    """Choose rows to verify, at random where it matters most, and say what they tell.

    Verified rows give the noise rate and the precision of RUN with intervals, and make the next
    csot clean better. csot review RUN --audit does the same in the browser.
    """
    from csot.cli.audit import AuditOptions, run_audit
    from csot.cli.terminal import Terminal

    with Terminal() as terminal:
        run_audit(AuditOptions(run, rows, out, results, seed, force), terminal)
