"""`train`: read the data, add noise, run the loop, write the results and the report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd
from torch import Tensor, nn

from csot._core.files import refuse_overlap
from csot.data.datasets.core.dataset_registry import as_text, data_path
from csot.data.noise import NoisyLabels, parse_noise
from csot.data.readers.labelled_table import Columns
from csot.data.types import TrainingData
from csot.figures import write_history
from csot.methods.core.contract import Predictions
from csot.report import write_report
from csot.runs import Run
from csot.training.cleaner_comparison import compare_with_cleaner
from csot.training.config import RunConfig
from csot.training.data_source import Source as Source
from csot.training.data_source import (
    check_knowledge,
    check_knowledge_fits,
    read_source,
    record_content,
    record_knowledge,
    with_knowledge,
)
from csot.training.embedded_data import read_pending
from csot.training.from_config import IN_MEMORY, generator_for
from csot.training.loop import run_loop
from csot.training.presets import make_config, preset_for
from csot.training.progress import Progress, Record
from csot.training.results import write_results
from csot.training.run_folder import RunFolder, is_first_process, snapshot_writer
from csot.training.starting_network import Start, choose_start, refuse_frozen

NOISE_STREAM = 17
"""Random stream of the label noise, distinct from all streams of the loop."""


@dataclass(frozen=True)
class Trained:
    """A finished training run.

    Attributes
    ----------
    path : Path
        Folder of the run.
    summary : dict
        Contents of summary.json; empty on all processes but the first.
    history : DataFrame
        One row per epoch, as in metrics.csv.
    findings : DataFrame
        One row per training sample, as in findings.csv.
    """

    path: Path
    summary: dict[str, Any] = field(repr=False)
    history: pd.DataFrame = field(repr=False)
    findings: pd.DataFrame = field(repr=False)


def train(
    data: str | Path | TrainingData,
    *,
    out: str | Path,
    method: str = "csot",
    preset: str | None = None,
    backbone: str | nn.Module | None = None,
    frozen: bool | None = None,
    noise: str = "none",
    seed: int = 0,
    settings: Mapping[str, Any] | None = None,
    source: Source | None = None,
    machine: Mapping[str, Any] | None = None,
    resume: bool = False,
    force: bool = False,
    tensorboard: bool = False,
    excel_safe: bool = False,
    progress: Progress | None = None,
) -> Trained:
    """Train a network on partly wrong labels, and find the wrong ones.

    Parameters
    ----------
    data : str, Path or TrainingData
        A name such as "digits" or "cifar10", or the path of images, a table or an .npz file.
    out : str or Path
        Folder of the run: configuration, metrics, checkpoints, findings, summary, report.html and
        curves.png.
    method : str
        One of `csot.methods.method_names()`.
    preset : str, optional
        A preset of the package, or a .yaml file; by default the one named like the data, if any.
    backbone : str or nn.Module, optional
        What to start from: "efficientnet-lite0" (the default for photographs),
        "efficientnet-lite2", "hf:NAME" or "timm:NAME"; of texts a model of sentence-transformers.
        "preact_resnet18" and the other networks of `csot.nets` start from scratch. A module of your
        own returns logits, or logits and features; it is copied, and `csot.load` needs it again.
    frozen : bool, optional
        Whether a pretrained network stays as it is: images are embedded once, and a small network
        is trained on the features. By default it does where there is no GPU.
    noise : str
        Noise to add to the labels, which are then taken to be right: "sym:0.5", "asym:0.4" ...
        True labels are used for evaluation only.
    seed : int
        Seed of the noise, of the initial parameters and of everything else that is random.
    settings : dict, optional
        Changes to the preset, by key: `{"epochs": 20, "epsilon": 0.05}`.
    source : Source, optional
        Where to read the data from.
    machine : dict, optional
        `accelerator`, `devices`, `precision` and `compile`.
    resume : bool
        Continue the run in `out` from its last checkpoint, with identical results.
    force : bool
        Replace the training run in `out`.
    tensorboard : bool
        Also write the metrics to `out`/tensorboard.
    excel_safe : bool
        Disarm cells of CSV files that a spreadsheet would run as formulas.
    progress : Progress, optional
        Callbacks.

    Returns
    -------
    Trained

    Examples
    --------
    >>> import csot
    >>> run = csot.train("digits", out="run", noise="sym:0.5")       # doctest: +SKIP
    >>> run.summary["test_accuracy_last"]                            # doctest: +SKIP
    """
    source, progress = source or Source(), progress or Progress()
    name = data.name if isinstance(data, TrainingData) else as_text(data)
    start = Start(preset or preset_for(name))
    module = None
    if isinstance(backbone, nn.Module):
        module = backbone
        refuse_frozen(frozen, "a module of your own is trained as it is")
        own = {"network.name": f"{IN_MEMORY}{type(module).__name__}"}
        start = replace(start, settings=own)
    elif not isinstance(data, TrainingData):
        start = choose_start(
            name,
            source.columns or Columns(),
            preset=preset,
            backbone=backbone,
            frozen=frozen,
            settings=settings or {},
            accelerator=str((machine or {}).get("accelerator", "auto")),
        )
    else:
        refuse_frozen(frozen, "`data` in memory is trained on as it is; give a path of image files")
        if backbone is not None:
            start = replace(start, settings={"network.name": backbone})
    config = make_config(
        name,
        method,
        preset=start.preset,
        noise=noise,
        seed=seed,
        overrides={**start.settings, **(settings or {})},
        machine=start.on_machine(machine),
    )
    if is_first_process():
        progress.on_start(config)
        if start.words:
            progress.on_words(start.words)
    trained = train_configured(
        config,
        out=out,
        data=data if isinstance(data, TrainingData) else None,
        source=source,
        resume=resume,
        force=force,
        tensorboard=tensorboard,
        excel_safe=excel_safe,
        progress=progress,
        module=module,
        ask_cleaner=True,
    )
    if trained.summary:
        write_report(Run.open(trained.path), allow_outside=source.allow_outside)
        write_history(trained.path)
    return trained


def train_configured(
    config: RunConfig,
    *,
    out: str | Path,
    data: TrainingData | None = None,
    source: Source,
    resume: bool = False,
    force: bool = False,
    tensorboard: bool = False,
    excel_safe: bool = False,
    progress: Progress | None = None,
    module: nn.Module | None = None,
    ask_cleaner: bool = False,
) -> Trained:
    """`train` for a complete configuration; writes neither a report nor figures.

    With `ask_cleaner` the summary says whether `csot clean` predicts held-out labels better.
    """
    path = data_path(config.data)
    if data is None and path is not None:
        refuse_overlap(path, Path(out))
    folder = RunFolder(Path(out))
    writers: list[Callable[[list[Record]], None]] = [folder.write_metrics]
    if tensorboard:
        writers.append(folder.tensorboard_writer())
    callbacks = progress or Progress()
    noise = parse_noise(config.noise)
    check_knowledge(config, source, data)
    config = record_knowledge(config, source)

    def prepare(read: TrainingData) -> None:
        if is_first_process():
            recorded = record_content(config, read)
            folder.prepare(recorded, read.source, resume=resume, force=force)
            if read.uses:
                callbacks.on_words(read.uses)

    pending = None
    if data is None and config.dataset.embedder is not None:
        place = source.place(Path(config.data), folder.path)
        pending = read_pending(place, config.dataset, config.machine.devices)
        outline = pending.outline()
        check_knowledge_fits(outline, source)
        prepare(outline)  # embeddings are kept in the folder
        data = pending.embed(callbacks.on_stage)
    original = read_source(config, source) if data is None else data
    noisy = noise.apply(original, generator_for(config.seed, NOISE_STREAM))
    labelled, cleaned = with_knowledge(with_noise(original, noisy), source)
    if pending is None:
        prepare(original)
    if is_first_process():
        folder.write_inputs(labelled, source.columns)
        Run(folder.path).write_excel_safe(excel_safe)
    extended = also_written(callbacks, writers, snapshot_writer(folder.path, labelled))
    finished = run_loop(config, labelled, folder.checkpoints, extended, module)
    if finished.is_first:
        against = None
        if ask_cleaner and cleaned is None:
            against = compare_with_cleaner(labelled, finished, config.seed)
        write_results(folder, config, labelled, noisy, finished, cleaned, against)
    return Trained(
        path=folder.path,
        summary=folder.run().read_summary() if finished.is_first else {},
        history=pd.DataFrame(finished.history),
        findings=folder.run().read_findings() if finished.is_first else pd.DataFrame(),
    )


def also_written(
    progress: Progress,
    writers: Sequence[Callable[[list[Record]], None]],
    write_snapshot: Callable[[int, Tensor, Predictions], None],
) -> Progress:
    """Return callbacks that write metrics and snapshots before they call those of `progress`."""

    def on_epoch(history: list[Record]) -> None:
        for write in writers:
            write(history)
        progress.on_epoch(history)

    def on_snapshot(epoch: int, rows: Tensor, seen: Predictions) -> None:
        write_snapshot(epoch, rows, seen)
        progress.on_snapshot(epoch, rows, seen)

    return replace(progress, on_epoch=on_epoch, on_snapshot=on_snapshot)


def with_noise(data: TrainingData, noisy: NoisyLabels) -> TrainingData:
    """Replace the labels by noisy ones; the labels before become the true ones."""
    if noisy.rate == 0:
        return data
    return replace(data, labels=noisy.labels, true_labels=data.labels)
