"""``train``: data, noise, the loop, and the records it leaves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from csot._core.files import refuse_overlap
from csot.data.datasets.registry import TrainingData, read_training_data
from csot.data.noise import NoisyLabels, parse_noise
from csot.data.readers.table import Columns
from csot.runs import Run
from csot.training.build import generator_for
from csot.training.config import RunConfig
from csot.training.folder import RunFolder, is_first_process
from csot.training.loop import Progress, run_loop
from csot.training.presets import make_config, preset_for
from csot.training.results import write_results

NOISE = 17
"""Stream of the label noise, apart from all streams of the loop."""


@dataclass(frozen=True)
class Source:
    """Where data that are no single path come from; see `read_training_data`."""

    data_dir: Path | None = None
    test: Path | None = None
    columns: Columns | None = None
    root: Path | None = None
    download: bool = False
    allow_outside: bool = False
    """Read images that lie outside of the data folder."""


@dataclass(frozen=True)
class Trained:
    """A finished run."""

    path: Path
    summary: dict[str, Any]
    history: pd.DataFrame = field(repr=False)
    """One row for each epoch."""
    findings: pd.DataFrame = field(repr=False)
    """One row for each training sample."""


def train(
    data: str | Path | TrainingData,
    *,
    out: str | Path,
    method: str = "csot",
    preset: str | None = None,
    noise: str = "none",
    seed: int = 0,
    settings: Mapping[str, Any] | None = None,
    source: Source | None = None,
    machine: Mapping[str, Any] | None = None,
    resume: bool = False,
    force: bool = False,
    progress: Progress | None = None,
) -> Trained:
    """Train a network on labels that are partly wrong, and say which of them are.

    Parameters
    ----------
    data : str, path or TrainingData
        A name such as "digits" or "cifar10", or the path of images, a table or an .npz file.
    out : path
        Folder of the run: configuration, metrics, checkpoints, findings, summary, report.
    method : str
        One of ``csot.methods.method_names()``.
    preset : str, optional
        A preset of the package, or a .yaml file; else the one of the data's name, if there is one.
    noise : str
        Noise to add to the labels, which are then taken to be right: "sym:0.5", "asym:0.4" ...
        True labels are used for measuring only.
    seed : int
        Of the noise, the initial weights and all that is random.
    settings : dict
        What to change of the preset, by key: ``{"epochs": 20, "epsilon": 0.05}``.
    source, machine : optional
        Where named data lie; accelerator, devices and precision.
    resume : bool
        Go on with the run in ``out`` from its last checkpoint, to the same numbers.
    force : bool
        Replace what ``out`` holds.

    Examples
    --------
    >>> import csot
    >>> run = csot.train("digits", out="run", noise="sym:0.5")       # doctest: +SKIP
    >>> run.summary["test_accuracy_last"]                            # doctest: +SKIP
    """
    name = data.name if isinstance(data, TrainingData) else str(data)
    config = make_config(
        name,
        method,
        preset=preset or preset_for(name),
        noise=noise,
        seed=seed,
        overrides=settings,
        machine=machine,
    )
    given = data if isinstance(data, TrainingData) else None
    return train_configured(
        config,
        out=out,
        data=given,
        source=source or Source(),
        resume=resume,
        force=force,
        progress=progress,
    )


def train_configured(
    config: RunConfig,
    *,
    out: str | Path,
    data: TrainingData | None = None,
    source: Source,
    resume: bool = False,
    force: bool = False,
    progress: Progress | None = None,
    excel_safe: bool = False,
) -> Trained:
    """`train` with a configuration that is complete."""
    if data is None and Path(config.data).exists():
        refuse_overlap(Path(config.data), Path(out))
    read = read_source(config, source) if data is None else data
    noisy = parse_noise(config.noise).apply(read, generator_for(config.seed, NOISE))
    labelled = with_noise(read, noisy)
    folder = RunFolder(Path(out))
    if is_first_process():
        folder.prepare(config, labelled.source, resume=resume, force=force)
        folder.write_inputs(labelled)
        Run(folder.path).write_excel_safe(excel_safe)
    finished = run_loop(config, labelled, folder.checkpoints, _with_metrics(progress, folder))
    if finished.is_first:
        write_results(folder, config, labelled, noisy, finished)
    return Trained(
        path=folder.path,
        summary=folder.run().read_summary() if finished.is_first else {},
        history=pd.DataFrame(finished.history),
        findings=folder.run().read_findings() if finished.is_first else pd.DataFrame(),
    )


def read_source(config: RunConfig, source: Source) -> TrainingData:
    """The data that a configuration names."""
    return read_training_data(
        config.data if not Path(config.data).exists() else Path(config.data),
        data_dir=source.data_dir,
        test=source.test,
        columns=source.columns,
        root=source.root,
        image_size=config.dataset.image_size,
        download=source.download,
        allow_outside=source.allow_outside,
        limit=config.dataset.limit,
    )


def with_noise(data: TrainingData, noisy: NoisyLabels) -> TrainingData:
    """Noise makes the labels before it the true ones; without noise nothing changes."""
    if noisy.rate == 0:
        return data
    return replace(data, labels=noisy.labels, true_labels=data.labels)


def _with_metrics(progress: Progress | None, folder: RunFolder) -> Progress:
    """Every epoch is in metrics.csv before anybody is told of it."""
    shown = progress or Progress()

    def on_epoch(history: list[dict[str, float]]) -> None:
        folder.write_metrics(history)
        shown.on_epoch(history)

    return Progress(shown.on_step, on_epoch)
