"""The main job on real data: scikit-learn's handwritten digits, 30 % of their labels wrong.

`make demo` or `python -m csot.demo [FOLDER]` writes the digits as images, one folder per given
label, runs `csot clean` on them, compares what it found with the truth (which it did not see), and
leaves a run with its report in FOLDER.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_digits
from sklearn.metrics import average_precision_score

from csot.clean import clean_dataset
from csot.cli.cleaning_outcome import show_outcome
from csot.cli.terminal import Terminal
from csot.runs import Run
from csot.runs.findings import CORRECTED, GIVEN, IS_ISSUE, SCORE

FLIPPED = 0.3
SEED = 0


def pixels(paths: list[Path]) -> npt.NDArray[np.float32]:
    """An embedder for images this small: the pixels themselves."""
    return np.stack([np.asarray(Image.open(path), np.float32).reshape(-1) / 255 for path in paths])


def write_digits(folder: Path) -> dict[str, int]:
    """The digits as PNG files, some under another digit's name; returns the truth by id."""
    images, labels = load_digits(return_X_y=True)
    rng = np.random.default_rng(SEED)
    wrong = rng.random(len(labels)) < FLIPPED
    given = np.where(wrong, (labels + rng.integers(1, 10, len(labels))) % 10, labels)
    truth = {}
    for i, (image, label) in enumerate(zip(images, given, strict=True)):
        path = folder / str(label) / f"{i:04d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        scaled = np.round(image.reshape(8, 8) * (255 / 16)).astype(np.uint8)
        Image.fromarray(scaled).save(path)
        truth[path.relative_to(folder).as_posix()] = int(labels[i])
    return truth


def compare_with_truth(run: Run, truth: dict[str, int]) -> Table:
    """What was found, digit by digit, against the truth."""
    findings = run.read_findings()
    right = np.array([truth[str(name)] for name in findings.index])
    given = findings[GIVEN].astype(int).to_numpy()
    corrected = findings[CORRECTED].astype(int).to_numpy()
    flagged = findings[IS_ISSUE].to_numpy(dtype=bool)
    table = Table(title="What was found, against the truth (which the cleaner did not see)")
    for column in ("digit", "labels wrong", "found", "of those flagged, wrong", "right before",
                   "right after"):  # fmt: skip
        table.add_column(column, justify="right")
    for name, rows in [*((str(k), right == k) for k in range(10)), ("all", right >= 0)]:
        wrong = (given != right) & rows
        found = wrong & flagged
        table.add_row(
            name,
            f"{wrong.sum():,}",
            f"{found.sum() / max(1, wrong.sum()):.1%}",
            f"{found.sum() / max(1, (flagged & rows).sum()):.1%}",
            f"{(given == right)[rows].mean():.1%}",
            f"{(corrected == right)[rows].mean():.1%}",
            style="bold" if name == "all" else "",
        )
    precision = average_precision_score(given != right, -findings[SCORE].to_numpy())
    table.caption = f"average precision of label_score: {precision:.3f}"
    return table


def main(folder: Path) -> None:
    data, out = folder / "digits", folder / "run"
    truth = write_digits(data)
    with Terminal() as terminal:
        with terminal.stages() as progress:
            run = clean_dataset(
                data, out, embedder="csot.demo:pixels", seed=SEED, progress=progress
            )
        show_outcome(run, terminal)
    console = Console()
    console.print(compare_with_truth(run, truth))
    console.print(f"Open {out / 'report.html'} in a browser to look at every finding.")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "csot-demo"))
