"""Images per second of the reader alone, against torch's DataLoader with two workers.

    python benchmarks/reader.py [--images 600] [--pixels 640] [--side 224] [--repeats 3]

Random JPEG files of `--pixels` times three quarters of it are decoded, scaled to `--side` and cut,
in batches of 64; both do the same work (`csot.data.samples.read_square`). The reader decodes in
threads, one step ahead of the training; the DataLoader in processes. The last line is the reader
with scaled copies that were kept on disk. Repeats alternate, so that other programs disturb all.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from csot.data.samples import ImageFiles, read_square

BATCH = 64


class Files(Dataset[Tensor]):
    """The same images, one by one."""

    def __init__(self, paths: list[Path], side: int) -> None:
        self._paths = paths
        self._side = side

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, row: int) -> Tensor:
        return torch.from_numpy(read_square(self._paths[row], self._side)).permute(2, 0, 1)


def write_images(folder: Path, count: int, pixels: int) -> list[Path]:
    """Smooth noise: its JPEG files are about as large as those of photographs."""
    rng = np.random.default_rng(0)
    paths = []
    for row in range(count):
        coarse = rng.integers(0, 256, (pixels * 3 // 4 // 8, pixels // 8, 3), dtype=np.uint8)
        image = Image.fromarray(coarse).resize((pixels, pixels * 3 // 4), Image.Resampling.BICUBIC)
        paths.append(folder / f"{row}.jpg")
        image.save(paths[-1], quality=90)
    return paths


def by_reader(paths: list[Path], side: int, cache: Path | None) -> int:
    samples = ImageFiles(paths, side, cache)
    return sum(len(samples.batch(rows)) for rows in torch.arange(len(paths)).split(BATCH))


def by_loader(paths: list[Path], side: int) -> int:
    return sum(len(batch) for batch in DataLoader(Files(paths, side), BATCH, num_workers=2))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--images", type=int, default=600)
    parser.add_argument("--pixels", type=int, default=640)
    parser.add_argument("--side", type=int, default=224)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = write_images(folder, options.images, options.pixels)
        ways: dict[str, Callable[[], int]] = {
            "reader": partial(by_reader, paths, options.side, None),
            "DataLoader, 2 workers": partial(by_loader, paths, options.side),
            "reader, scaled copies kept": partial(by_reader, paths, options.side, folder / "kept"),
        }
        for way in ways.values():
            way()  # warm the file cache, and keep the copies
        rates: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(options.repeats):
            for way, run in ways.items():
                begun = time.perf_counter()
                count = run()
                rates[way].append(count / (time.perf_counter() - begun))
    print("|Way|images per second|\n|-|-|")
    for way, values in rates.items():
        spread = statistics.stdev(values) if len(values) > 1 else 0.0
        print(f"|{way}|{statistics.mean(values):.0f} ± {spread:.0f}|")


if __name__ == "__main__":
    main()
