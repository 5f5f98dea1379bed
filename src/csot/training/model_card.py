"""The model card of an exported network: data, noise found, settings, accuracy, limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from csot._core.text import one_line
from csot.data.readers.to_predict import Wanted
from csot.runs.summary import measured_accuracies
from csot.training.config import RunConfig
from csot.training.new_data import RunInputs

SHOWN = 50
"""Classes that are listed."""


def model_card(
    file: str,
    summary: Mapping[str, Any],
    config: RunConfig,
    inputs: RunInputs,
    *,
    epoch: int,
    checked: str,
) -> str:
    """Markdown. Every number is from the summary of the run; what is not known is said to be."""
    sections = {
        "Use": use_lines(inputs, checked),
        "Data": data_lines(summary, config),
        "Noise found": noise_lines(summary),
        "Settings": settings_lines(config, epoch),
        "Accuracy": accuracy_lines(summary),
        "Limits": limit_lines(summary, inputs.wanted),
    }
    body = "\n\n".join(
        f"## {title}\n\n" + "\n".join(f"- {one_line(line)}" for line in lines)
        for title, lines in sections.items()
    )
    return f"# {one_line(file)}\n\n{body}\n"


def use_lines(inputs: RunInputs, checked: str) -> list[str]:
    wanted = inputs.wanted
    names = ", ".join(wanted.class_names[:SHOWN])
    more = len(wanted.class_names) - SHOWN
    return [
        f"input: {inputs.describe()}",
        f"output: probabilities (N, {len(wanted.class_names)})",
        f"classes, in this order: {names}{f' and {more} more' if more > 0 else ''}",
        f"checked against the run: {checked}",
    ]


def data_lines(summary: Mapping[str, Any], config: RunConfig) -> list[str]:
    lines = [
        f"{config.data}: {summary['n_rows']:,} training rows, "
        f"{len(summary['class_names']):,} classes"
    ]
    if summary.get("n_unlabelled"):
        lines.append(f"{summary['n_unlabelled']:,} of them without a label")
    if config.noise != "none":
        lines.append(f"noise was added to the labels: {config.noise}")
    return lines


def noise_lines(summary: Mapping[str, Any]) -> list[str]:
    if summary.get("informative") is False:
        return [f"no verdict on the labels. {summary.get('warning') or ''}".strip()]
    lines = []
    if summary.get("noise_rate") is not None:
        lines.append(f"estimated noise rate of the given labels: {summary['noise_rate']:.1%}")
    lines.append(
        f"{summary.get('n_corrected', 0):,} labels corrected, "
        f"{summary.get('n_uncertain', 0):,} rows uncertain"
    )
    return lines


def settings_lines(config: RunConfig, epoch: int) -> list[str]:
    training, embedder = config.training, config.dataset.embedder
    features = f" on features of {embedder}" if embedder else ""
    return [
        f"method {config.method}, preset {config.preset or 'none'}, seed {config.seed}",
        f"network {training.network.name}{features}, epoch {epoch} of {training.epochs}, "
        f"batch size {training.batch_size}",
        f"{training.optimiser.name}, learning rate {training.optimiser.learning_rate:g}",
        "all others are in config.yaml of the run",
    ]


def accuracy_lines(summary: Mapping[str, Any]) -> list[str]:
    lines = [f"{one.test}, {one.when}: {one.text()}" for one in measured_accuracies(summary)]
    held = summary.get("held_out")
    if isinstance(held, dict):
        lines.append(
            f"agreement with {held['rows']:,} held-out labels, which may be wrong: "
            f"{held['accuracy']:.1%} (by chance {held['chance']:.1%})"
        )
    return lines or ["not measured: the run had no test set and held out no rows"]


def limit_lines(summary: Mapping[str, Any], wanted: Wanted) -> list[str]:
    lines = [
        "knows its classes only, and names one of them for every input, whatever it is",
        "trained on labels that are partly wrong: errors that are systematic may be learned",
        "probabilities are not calibrated",
        "inputs unlike the training data were not tested",
    ]
    if summary.get("test_accuracy_last") is None:
        lines.append("there was no test set with verified labels")
    if summary.get("informative") is False:
        lines.insert(0, "held-out labels are not predicted clearly better than chance: do not use")
    if wanted.table_features is not None:
        lines.append("columns of a table have to be turned into features first, as csot does")
    return lines
