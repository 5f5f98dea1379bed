"""Options that several commands share: their help, what the shell completes, default folders."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

# Values that the shell completes. Only file names are read: completion should not wait.

NOISE = ("none", "sym:0.2", "sym:0.5", "asym:0.4", "pair:0.3", "instance:0.3")


def _names(folder: str, ending: str) -> list[str]:
    found = (file.name for file in (files("csot") / folder).iterdir())
    return sorted(
        name.removesuffix(ending)
        for name in found
        if name.endswith(ending) and not name.startswith("_")
    )


def complete_method(incomplete: str) -> list[str]:
    """Methods of training."""
    return [name for name in _names("methods", ".py") if name.startswith(incomplete)]


def complete_preset(incomplete: str) -> list[str]:
    """Presets of the package."""
    return [name for name in _names("presets", ".yaml") if name.startswith(incomplete)]


def complete_embedder(incomplete: str) -> list[str]:
    """Embedders of images that ship in wheels, and how a model of the hub begins."""
    known = ("efficientnet-lite0", "efficientnet-lite2", "hf:")
    return [name for name in known if name.startswith(incomplete)]


def complete_noise(incomplete: str) -> list[str]:
    """Kinds of noise with a usual rate."""
    return [name for name in NOISE if name.startswith(incomplete)]


TABLE = "Tables"

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Only warnings and errors.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
LabelColumn = Annotated[
    str | None, typer.Option("--label", help="Column of the labels.", rich_help_panel=TABLE)
]
TextColumn = Annotated[
    str | None, typer.Option("--text", help="Column of the texts.", rich_help_panel=TABLE)
]
ImageColumn = Annotated[
    str | None, typer.Option("--image", help="Column of the image paths.", rich_help_panel=TABLE)
]
IdColumn = Annotated[
    str | None,
    typer.Option(
        "--id", help="Column of unique ids; by default row numbers.", rich_help_panel=TABLE
    ),
]
FeatureColumns = Annotated[
    str | None,
    typer.Option(
        "--features",
        help="Feature columns, comma-separated; by default all that describe a sample. With --text "
        "or --image they are used in addition.",
        rich_help_panel=TABLE,
    ),
]
AnnotatorColumn = Annotated[
    str | None,
    typer.Option(
        "--annotator",
        help="Column of the annotators: a row is then one vote, --id names the sample.",
        rich_help_panel=TABLE,
    ),
]
VerifiedLabels = Annotated[
    list[Path] | None,
    typer.Option(
        "--verified",
        help="Final decisions: a CSV with the columns id and label, a filled-in sheet of csot "
        "audit, or an export of Label Studio. May be repeated.",
    ),
]
ImageRoot = Annotated[
    Path | None,
    typer.Option(
        "--root",
        help="Folder that image paths are relative to; by default the table's.",
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
    Path | None,
    typer.Option("--data-dir", help="Folder of the named data sets; by default ./data."),
]
TestData = Annotated[
    Path | None, typer.Option("--test", help="Test data of the same kind as DATA.")
]
Preset = Annotated[
    str | None,
    typer.Option(
        "--preset",
        help="A preset (csot presets list) or a .yaml file; by default chosen by the data.",
        autocompletion=complete_preset,
    ),
]
Backbone = Annotated[
    str | None,
    typer.Option(
        "--backbone",
        help="What to start from: efficientnet-lite0 (photographs), efficientnet-lite2, "
        "hf:NAME, timm:NAME; for texts a model of sentence-transformers; or from scratch "
        "preact_resnet18, resnet50, package.module:callable ...",
    ),
]
Frozen = Annotated[
    bool | None,
    typer.Option(
        "--frozen/--fine-tune",
        help="Train on features of a frozen pretrained network, or fine-tune it; by default "
        "frozen without a GPU.",
        show_default=False,
    ),
]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a setting; may be repeated."),
]


def split_names(text: str | None) -> list[str] | None:
    """`a, b` -> ["a", "b"]."""
    return None if text is None else [name.strip() for name in text.split(",")]


RUN, FIXED, COMPARISON = "run", "fixed", "compare"


def default_out(data: Path | str, ending: str) -> Path:
    """`photos/` and `run` -> `photos-run`, in the current folder unless that is the data's own."""
    path = Path(data).resolve()
    name = path.name if path.exists() else str(data)
    stem = name if path.is_dir() else name.partition(".")[0]
    safe = re.sub(r"[^\w.-]+", "-", stem).strip("-.") or "data"
    is_within = path.is_dir() and Path.cwd().is_relative_to(path)
    return (path.parent if is_within else Path()) / f"{safe}-{ending}"
