"""From a method's judgement to the findings table and the samples beside it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch import Tensor

from csot.data.errors import require
from csot.data.samples import Samples
from csot.data.training import TrainingData
from csot.methods._base import Judgement
from csot.records.reasons import Verdicts, reasons
from csot.training.folder import IMAGES

PICTURES = 5000
"""Images of arrays that are written out for report and review: the worst labels first."""


def findings_of(data: TrainingData, judgement: Judgement, rows: Tensor) -> pd.DataFrame:
    """One verdict a row, held-out rows included.

    A label is replaced where the method relies on its verdict and the verdict is another class;
    where it does not, the given label stays and the row is `uncertain`.
    """
    given = data.labels.numpy()
    posterior = judgement.posterior.double().cpu().numpy()
    trusted = judgement.trusted.cpu().numpy()
    best = posterior.argmax(1)
    labelled = given >= 0
    changes = trusted & labelled & (best != given)
    corrected = np.where(changes | ~labelled, best, given)
    status = np.where(changes, "corrected", "clean").astype(object)
    status[~trusted | ~labelled] = "uncertain"
    confidence = posterior[np.arange(len(given)), corrected]
    scores = judgement.scores.double().cpu().numpy()
    held = np.ones(len(given), dtype=bool)
    held[rows.cpu().numpy()] = False
    note = np.where(held, "held out", "").astype(object)
    note[~labelled] = "no label given"
    names = np.array([*data.class_names, None], dtype=object)
    verdicts = Verdicts(posterior, given, best, posterior.max(1), corrected, changes)
    reason = reasons(verdicts, data.class_names)
    reason[held] += " Held out of training."
    return pd.DataFrame(
        {
            "given_label": names[given],
            "predicted_label": names[best],
            "corrected_label": names[corrected],
            "is_label_issue": changes,
            "label_score": np.clip(np.where(labelled, scores, confidence), 0.0, 1.0),
            "confidence": np.clip(confidence, 0.0, 1.0),
            "status": status,
            "note": note,
            "reason": reason,
        },
        index=pd.Index(data.ids, dtype=object),
    )


def sample_table(data: TrainingData, findings: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """By id, where the image is; images that are no files are written to `folder`/images."""
    index = findings.index
    if data.images is not None and data.root is not None:
        root = data.root
        paths = [
            path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
            for path in data.images
        ]
        return pd.DataFrame({"image": paths}, index=index)
    if data.train.kind != "images":
        return pd.DataFrame(index=index)
    doubtful = (findings["is_label_issue"] | (findings["status"] != "clean")).to_numpy()
    order = np.lexsort((findings["label_score"].to_numpy(), ~doubtful))[:PICTURES]
    names = np.full(len(index), "", dtype=object)
    for row, name in write_pictures(data.train, order, folder / IMAGES).items():
        names[row] = f"{IMAGES}/{name}"
    return pd.DataFrame({"image": names}, index=index)


def write_pictures(samples: Samples, rows: npt.NDArray[np.intp], folder: Path) -> dict[int, str]:
    """PNG files, named by row number."""
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
