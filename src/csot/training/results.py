"""Write the results of a finished run, in the same files as every run: findings, summary."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch import Tensor

from csot._core.errors import require
from csot.data.noise import NoisyLabels
from csot.data.samples import Samples
from csot.data.types import TrainingData
from csot.methods.core.contract import Judgement
from csot.runs import Run
from csot.runs.findings import (
    GIVEN,
    IS_ISSUE,
    REASON,
    SCORE,
    STATUS,
    VERIFIED,
    findings_table,
)
from csot.runs.reasons import Verdicts, reasons
from csot.runs.summary import FURTHER, HELD_OUT, count_findings, versions
from csot.runs.truth import write_truth
from csot.training.cleaner_comparison import AgainstCleaner
from csot.training.config import RunConfig
from csot.training.label_knowledge import CleanedRun, compare_predictions, disagreeing
from csot.training.loop import Finished
from csot.training.progress import Record
from csot.training.run_folder import IMAGES, RunFolder

PICTURES = 5000
"""Number of images written for report and review if the data are arrays: worst labels first."""
UNINFORMATIVE_NOTE = "held-out labels are not predicted"
UNINFORMATIVE_REASON = "The network does not predict held-out labels, so this one cannot be judged."


def findings_of(
    data: TrainingData, judgement: Judgement, rows: Tensor, informative: bool = True
) -> pd.DataFrame:
    """One verdict per row, held-out rows included.

    A label is replaced if the method trusts its verdict and the verdict is another class; if it
    does not trust it, the given label is kept and the row is `uncertain`. With `informative` false
    no verdict is given on any label.
    """
    given = data.labels.numpy()
    verified = np.full(len(given), -1) if data.verified is None else data.verified.numpy()
    decided = verified >= 0
    judged = judgement.posterior.double().cpu().numpy()
    posterior = believing(judged, verified)
    best = posterior.argmax(1)
    labelled = given >= 0
    trusted = (judgement.trusted.cpu().numpy() & informative) | decided
    if not informative:
        posterior = believing(posterior, np.where(decided, verified, given))
    changes = trusted & labelled & (best != given)
    corrected = np.where(changes | ~labelled, best, given)
    status = np.where(changes, "corrected", "clean").astype(object)
    status[~trusted | ~labelled] = "uncertain"
    status[decided & (best != given)] = "corrected"
    confidence = posterior[np.arange(len(given)), corrected]
    scores = judgement.scores.double().cpu().numpy() if informative else confidence
    scores = np.where(decided, verified == given, scores)
    held = np.ones(len(given), dtype=bool)
    held[rows.cpu().numpy()] = False
    note = np.where(held, "held out", "" if informative else UNINFORMATIVE_NOTE).astype(object)
    note[~labelled] = "no label given"
    note[decided] = VERIFIED
    names = np.array([*data.class_names, None], dtype=object)
    verdicts = Verdicts(posterior, given, best, posterior.max(1), corrected, changes)
    reason = reasons(verdicts, data.class_names)
    if not informative:
        reason[:] = UNINFORMATIVE_REASON
    reason[decided] = "A person has verified the label."
    reason[held] += " Held out of training."
    return findings_table(
        pd.Index(data.ids, dtype=object),
        given=names[given],
        predicted=names[judged.argmax(1)],
        corrected=names[corrected],
        is_issue=changes & ~decided,
        score=np.where(labelled, scores, confidence),
        confidence=confidence,
        status=status,
        note=note,
        reason=reason,
    )


def believing(
    posterior: npt.NDArray[np.float64], labels: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    """The posterior (N, C) if the given labels are believed; rows without one keep theirs."""
    believed = posterior.copy()
    rows = np.flatnonzero(labels >= 0)
    believed[rows] = 0.0
    believed[rows, labels[rows]] = 1.0
    return believed


def sample_table(data: TrainingData, findings: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """Path of each image by id; images that are not files are written to `folder`/images."""
    index = findings.index
    if data.images is not None and data.root is not None:
        root = data.root
        paths = [
            path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
            for path in data.images
        ]
        return pd.DataFrame({"image": paths}, index=index)
    if data.texts is not None:
        return pd.DataFrame({"text": data.texts}, index=index)
    if data.train.kind != "images":
        return pd.DataFrame(index=index)
    doubtful = (findings[IS_ISSUE] | (findings[STATUS] != "clean")).to_numpy()
    order = np.lexsort((findings[SCORE].to_numpy(), ~doubtful))[:PICTURES]
    names = np.full(len(index), "", dtype=object)
    for row, name in write_pictures(data.train, order, folder / IMAGES).items():
        names[row] = f"{IMAGES}/{name}"
    return pd.DataFrame({"image": names}, index=index)


def write_pictures(samples: Samples, rows: npt.NDArray[np.intp], folder: Path) -> dict[int, str]:
    """Write PNG files, named by row number."""
    image_module = require("PIL.Image", "train", "writing images")
    folder.mkdir(exist_ok=True)
    written = {}
    for row in rows.tolist():
        pixels = samples.batch(torch.tensor([row]))[0].permute(1, 2, 0).numpy()
        name = f"{row}.png"
        image_module.fromarray(pixels.squeeze(-1) if pixels.shape[-1] == 1 else pixels).save(
            folder / name
        )
        written[row] = name
    return written


def write_results(
    folder: RunFolder,
    config: RunConfig,
    data: TrainingData,
    noisy: NoisyLabels,
    finished: Finished,
    cleaned: CleanedRun | None = None,
    against: AgainstCleaner | None = None,
) -> None:
    """Write all results, the summary last: it marks the run as finished."""
    run = Run(folder.path)
    informative = finished.held_out is None or finished.held_out.informative
    findings = findings_of(data, finished.judgement, finished.rows, informative)
    difference = None
    if cleaned is not None and finished.predicted is not None:
        other = (finished.predicted, cleaned.predicted)
        difference = compare_predictions(*other, data.labels, finished.rows).as_dict()
        difference["run"] = str(cleaned.path)
        findings[REASON] += disagreeing(*other, data.class_names)
    posterior = finished.judgement.posterior.double().cpu().numpy()
    if not informative:
        posterior = believing(posterior, data.labels.numpy())
    if data.verified is not None:
        posterior = believing(posterior, data.verified.numpy())
    samples = sample_table(data, findings, folder.path)
    folder.write_metrics(finished.history)
    run.write_findings(findings)
    if data.true_labels is not None:
        names = [*data.class_names, None]
        write_truth(run, findings.index, [names[k] for k in data.true_labels.tolist()])
    run.write_samples(samples)
    run.write_probabilities(posterior.astype(np.float32))
    if finished.judgement.features is not None:
        run.write_features(principal_axes(finished.judgement.features.double().cpu().numpy()))
    own = pd.DataFrame({"id": findings.index, GIVEN: findings[GIVEN]}, index=findings.index)
    run.write_corrected(own, findings, label_column=GIVEN)
    run.write_label_studio(
        findings,
        samples if len(samples.columns) else None,
        class_names=list(data.class_names),
        only_flagged=True,
        image_root=data.root if data.images is not None else None,
    )
    summary = summary_of(config, data, noisy, finished, findings, posterior)
    compared = None if against is None else against.as_dict()
    run.write_summary({**summary, "from_clean": difference, "against_cleaner": compared})


def summary_of(
    config: RunConfig,
    data: TrainingData,
    noisy: NoisyLabels,
    finished: Finished,
    findings: pd.DataFrame,
    posterior: npt.NDArray[np.float64],
) -> dict[str, Any]:
    """Counts, accuracies as fractions, settings and versions."""
    history, tested = finished.history, finished.held_out
    informative = None if tested is None else tested.informative
    labels = data.labels.numpy()
    return {
        **count_findings(findings, list(data.class_names)),
        "informative": informative,
        "warning": tested.words() if tested is not None and not tested.informative else "",
        "held_out": None if tested is None else tested.as_dict(),
        # Nothing is known about the noise where the labels cannot be judged.
        "noise_rate": estimated_noise_rate(posterior, labels) if informative is not False else None,
        "noise_matrix": estimated_noise_matrix(posterior, labels),
        "class_prior": posterior.mean(0),
        "method": config.method,
        "preset": config.preset,
        "noise": config.noise,
        "noise_description": noisy.description,
        **realised_noise(data, noisy),
        "seed": config.seed,
        "epochs": len(history),
        "best_epoch": finished.best_epoch,
        "selected_on": config.training.select_on or HELD_OUT,
        **accuracies(history, finished.best_epoch),
        "seconds": history[-1]["seconds"],
        "hardware": finished.hardware,
        "settings": config.model_dump(mode="json"),
        "versions": versions("lightning-fabric", "kornia"),
        "source": {**data.source, "root": str(data.root.resolve())} if data.root else data.source,
        "skipped": [],
    }


def principal_axes(features: npt.NDArray[np.float64], axes: int = 64) -> npt.NDArray[np.float64]:
    """(N, at most `axes`) principal components: enough to find neighbours."""
    centred = features - features.mean(0)
    _, vectors = np.linalg.eigh(centred.T @ centred)
    return np.asarray(centred @ vectors[:, ::-1][:, :axes])


def accuracies(history: list[Record], best_epoch: int) -> dict[str, Any]:
    """Accuracies on the test sets; for all but the first they are in `further_tests`, by name.

    Each at the epoch chosen by the noisy held-out rows (`best`), at the last (`last`), and the
    highest (`peak`), which is for comparison with papers that report it; nothing is chosen by it.
    """
    columns = {name for record in history for name in record if name.startswith("test_accuracy")}
    if not columns:
        return {}
    further = sorted(name.removeprefix("test_accuracy_") for name in columns - {"test_accuracy"})
    first = _three(history, best_epoch, "test_accuracy", "test_accuracy")
    first |= _three(history, best_epoch, "test_top5", "test_top5")
    return {
        **first,
        FURTHER: {
            name: _three(history, best_epoch, f"test_accuracy_{name}", "accuracy")
            | _three(history, best_epoch, f"test_top5_{name}", "top5")
            for name in further
        },
    }


def _three(
    history: list[Record], best_epoch: int, column: str, name: str
) -> dict[str, float | None]:
    """A column of the history at its three epochs; nothing where it was not measured."""
    values = [record[column] for record in history if column in record]
    if not values:
        return {}
    best = history[best_epoch - 1].get(column)
    return {f"{name}_best": best, f"{name}_last": values[-1], f"{name}_peak": max(values)}


def realised_noise(data: TrainingData, noisy: NoisyLabels) -> dict[str, Any]:
    """The noise that was added, or the noise of the data where true labels are known."""
    if data.true_labels is None:
        return {}
    wrong = (data.labels != data.true_labels) & (data.labels >= 0)
    known = int((data.labels >= 0).sum())
    return {
        "noise_rate_realised": int(wrong.sum()) / max(1, known),
        "noise_matrix_realised": noisy.matrix if noisy.rate else None,
    }


def estimated_noise_rate(
    posterior: npt.NDArray[np.float64], labels: npt.NDArray[np.int64]
) -> float:
    """Mean probability that a given label is wrong."""
    rows = np.flatnonzero(labels >= 0)
    return float(1 - posterior[rows, labels[rows]].mean()) if len(rows) else 0.0


def estimated_noise_matrix(
    posterior: npt.NDArray[np.float64], labels: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    """(C, C): share of class k that carries the label y, rows sum to one."""
    classes = posterior.shape[1]
    counts = np.zeros((classes, classes))
    for label in range(classes):
        counts[:, label] = posterior[labels == label].sum(0)
    totals = counts.sum(1, keepdims=True)
    return np.asarray(np.where(totals > 0, counts / np.maximum(totals, 1e-12), np.eye(classes)))
