"""Runs as a cleaner would leave them, on real images, made-up texts and plain rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from csot.runs import Run

TOPICS = {
    "sport": ("The coach praised the second half.", "A late goal decided the cup final."),
    "weather": ("Rain reaches the coast by noon.", "Frost is likely in the valleys."),
    "finance": ("The bank left its rate unchanged.", "Shares fell after the report."),
    "cooking": ("Let the dough rest overnight.", "Season the broth at the very end."),
    "travel": ("The night train was half empty.", "Book the ferry well ahead."),
}


def judge(
    truth: np.ndarray[Any, Any],
    given: np.ndarray[Any, Any],
    n_classes: int,
    rng: np.random.Generator,
) -> tuple[dict[str, Any], np.ndarray[Any, Any]]:
    """Findings that are mostly right, from a made-up posterior around the truth."""
    n = len(truth)
    logits = rng.normal(0, 1.0, (n, n_classes))
    logits[np.arange(n), truth] += rng.gamma(4.0, 1.8, n)
    logits[np.arange(n), np.maximum(given, 0)] += np.where(given >= 0, 1.2, 0.0)
    # In place: for a thousand classes it is large.
    logits -= logits.max(1, keepdims=True)
    posterior = np.exp(logits, out=logits)
    posterior /= posterior.sum(1, keepdims=True)
    best = posterior.argmax(1)
    sure = posterior.max(1) > 0.6
    labelled = given >= 0
    score = np.where(labelled, posterior[np.arange(n), np.maximum(given, 0)], np.nan)
    status = np.where(~sure, "uncertain", np.where(best == given, "clean", "corrected"))
    corrected = np.where(sure | ~labelled, best, given)
    status = np.where(~labelled, "corrected", status)
    note = np.where(labelled, np.where(posterior.max(1) < 0.35, "no class fits", ""), "")
    note = np.where(~labelled, "no label given", note)
    cells = {
        "given": given,
        "predicted": best,
        "corrected": corrected,
        "is_label_issue": labelled & (best != given) & (score < 0.35),
        "label_score": score,
        "confidence": posterior[np.arange(n), corrected],
        "status": status,
        "note": note,
    }
    return cells, posterior


def flip(truth: np.ndarray[Any, Any], rate: float, n_classes: int, rng: np.random.Generator) -> Any:
    """Half of the flips go to the next class, half anywhere."""
    wrong = rng.random(len(truth)) < rate
    near = (truth + 1) % n_classes
    anywhere = rng.integers(0, n_classes, len(truth))
    return np.where(wrong, np.where(rng.random(len(truth)) < 0.5, near, anywhere), truth)


def write_run(
    path: Path,
    truth: np.ndarray[Any, Any],
    names: list[Any],
    rng: np.random.Generator,
    *,
    rate: float = 0.3,
    ids: list[Any] | None = None,
    samples: dict[str, list[str]] | None = None,
    unlabelled: int = 0,
    extra: dict[str, Any] | None = None,
) -> Run:
    """A finished run over rows of these true classes."""
    n, c = len(truth), len(names)
    given = flip(truth, rate, c, rng)
    given[rng.permutation(n)[:unlabelled]] = -1
    cells, posterior = judge(truth, given, c, rng)
    index = pd.Index(range(n) if ids is None else ids, name="id")

    def label(codes: np.ndarray[Any, Any]) -> pd.Series[Any]:
        return pd.Series([None if k < 0 else names[k] for k in codes], index, dtype=object)

    found = pd.DataFrame(
        {
            "given_label": label(cells.pop("given")),
            "predicted_label": label(cells.pop("predicted")),
            "corrected_label": label(cells.pop("corrected")),
            **{name: pd.Series(values, index) for name, values in cells.items()},
        }
    )
    found["note"] = found["note"].astype(object)
    labelled = given >= 0
    matrix = np.zeros((c, c))
    np.add.at(matrix, (truth[labelled], given[labelled]), 1)
    matrix /= np.maximum(matrix.sum(1, keepdims=True), 1)
    run = Run.create(path)
    run.write_findings(found)
    if samples is not None:
        run.write_samples(pd.DataFrame(samples, index, dtype=object))
    run.write_probabilities(posterior)
    run.write_summary(
        {
            "n_rows": n,
            "n_classes": c,
            "class_names": names,
            "noise_rate": (truth != given)[labelled].mean() if labelled.any() else None,
            "noise_matrix": matrix,
            "class_prior": np.bincount(truth, minlength=c) / max(n, 1),
            "settings": {"random_state": 0, "folds": 5, "class_prior": "estimated"},
            "versions": {"csot": "0.1.0", "numpy": np.__version__, "pandas": pd.__version__},
            "timings": {"embed": 2.41, "probe": 1.0372, "rounds": 3.3},
            "history": [
                {"round": i, "budget": 0.2 * i, "clean_rows": n // 6 * i, "likelihood": -2.1 / i}
                for i in range(1, 5)
            ],
            **(extra or {}),
        }
    )
    return run


def digits_run(folder: Path, n: int | None = None) -> Run:
    """scikit-learn's digits as PNG files, 30 % of the labels flipped, one file broken."""
    from PIL import Image
    from sklearn.datasets import load_digits

    digits = load_digits()
    truth = digits.target[:n]
    root = folder / "digits"
    names = []
    for i, pixels in enumerate(digits.images[:n]):
        name = f"{truth[i]}/{i:04d}.png"
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray((255 - pixels * 15.9).astype(np.uint8)).save(root / name)
        names.append(name)
    (root / names[3]).write_bytes(b"not an image")
    return write_run(
        folder / "run",
        truth,
        list(range(10)),
        np.random.default_rng(0),
        ids=names,
        samples={"image": names},
        extra={
            "source": {"kind": "images", "path": str(root), "root": str(root)},
            "skipped": [{"id": "4/broken.png", "reason": "cannot identify image file"}],
        },
    )


def texts_run(folder: Path, n: int = 600) -> Run:
    """Made-up sentences in five classes, some without a label."""
    rng = np.random.default_rng(1)
    names = list(TOPICS)
    truth = rng.integers(0, len(names), n)
    texts = [
        " ".join(rng.choice(TOPICS[names[k]], rng.integers(1, 6))) + f" (item {i})"
        for i, k in enumerate(truth)
    ]
    return write_run(
        folder / "run",
        truth,
        names,
        rng,
        rate=0.2,
        samples={"text": texts},
        unlabelled=n // 30,
        extra={"source": {"kind": "table", "path": "articles.csv"}},
    )


def rows_run(folder: Path, n: int, n_classes: int, seed: int = 2) -> Run:
    """Plain rows of many classes."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, n_classes, n)
    syllables = ["ba", "dor", "mi", "tel", "ur", "sen", "kli", "os"]
    names = ["".join(rng.choice(syllables, rng.integers(1, 5))) + f"-{k}" for k in range(n_classes)]
    return write_run(folder / "run", truth, names, rng, rate=0.25)
