"""Public data sets in their official layouts, a few records of each."""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from image_files import write_image

CIFAR10_NAMES = [
    *("airplane", "automobile", "bird", "cat", "deer"),
    *("dog", "frog", "horse", "ship", "truck"),
]
CIFAR10_COUNTS = (4, 10)
CIFAR100_COUNTS = (200, 100)


def pixels(n: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (n, 3072), dtype=np.uint8)


def cifar10_batch(number: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Pixels and labels of a file; number 0 is the test file."""
    labels = (np.arange(n) * 3 + number) % 10
    return pixels(n, number), labels


def write_cifar10_binary(folder: Path) -> Path:
    folder.mkdir(parents=True)
    for number in range(6):
        n = CIFAR10_COUNTS[number == 0]
        images, labels = cifar10_batch(number, n)
        table = np.concatenate([labels[:, None].astype(np.uint8), images], axis=1)
        name = f"data_batch_{number}.bin" if number else "test_batch.bin"
        (folder / name).write_bytes(table.tobytes())
    (folder / "batches.meta.txt").write_text("\n".join(CIFAR10_NAMES) + "\n\n")
    return folder


def write_cifar10_python(folder: Path) -> Path:
    folder.mkdir(parents=True)
    for number in range(6):
        images, labels = cifar10_batch(number, CIFAR10_COUNTS[number == 0])
        held = {"batch_label": "x", "data": images, "labels": labels.tolist(), "filenames": ["a"]}
        name = f"data_batch_{number}" if number else "test_batch"
        write_pickle(folder / name, held)
    meta = {"label_names": CIFAR10_NAMES, "num_vis": 3072, "num_cases_per_batch": 4}
    write_pickle(folder / "batches.meta", meta)
    return folder


def cifar100_labels(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Fine and coarse; superclasses are no blocks: 0, 20, 40, 60 and 80 share one."""
    fine = np.arange(n) % 100
    return fine, coarse_of(fine)


def coarse_of(fine: np.ndarray) -> np.ndarray:
    return fine * 3 % 20


def write_cifar100(folder: Path, binary: bool) -> Path:
    folder.mkdir(parents=True)
    fine_names = [f"fine{c}" for c in range(100)]
    coarse_names = [f"coarse{c}" for c in range(20)]
    for seed, (name, n) in enumerate(zip(("train", "test"), CIFAR100_COUNTS, strict=True)):
        images = pixels(n, seed)
        fine, coarse = cifar100_labels(n)
        if binary:
            table = np.concatenate([np.stack([coarse, fine], 1).astype(np.uint8), images], axis=1)
            (folder / f"{name}.bin").write_bytes(table.tobytes())
        else:
            held = {"data": images, "fine_labels": fine.tolist(), "coarse_labels": coarse.tolist()}
            write_pickle(folder / name, held)
    if binary:
        (folder / "fine_label_names.txt").write_text("\n".join(fine_names))
        (folder / "coarse_label_names.txt").write_text("\n".join(coarse_names))
    else:
        names = {"fine_label_names": fine_names, "coarse_label_names": coarse_names}
        write_pickle(folder / "meta", names)
    return folder


def write_pickle(path: Path, held: Any) -> Path:
    path.write_bytes(pickle.dumps(held, protocol=2))  # that of the official files
    return path


def write_torch_zip(path: Path, held: Any) -> Path:
    """As torch.save writes what holds no tensor."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(held, protocol=2))
        archive.writestr("archive/version", "3\n")
    return path


def write_webvision(root: Path, synsets: bool = False) -> Path:
    """Two classes of the fifty have images, and one beyond them is listed without a file."""
    train = ["google/q0001/a.jpg 0", "google/q0001/b.jpg 0", "google/q0050/c.jpg 49"]
    for value, line in enumerate(train):
        write_image(root / line.split()[0], value * 50, (40, 30))
    info = root / "info"
    info.mkdir()
    (info / "train_filelist_google.txt").write_text(
        "\n".join([*train, "google/q0999/absent.jpg 998"])
    )
    (info / "val_filelist.txt").write_text("val1.jpg 49\nval2.jpg 0\nval3.jpg 700\n")
    for name in ("val1.jpg", "val2.jpg"):
        write_image(root / "val_images_256" / name, 9, (40, 30))
    if synsets:
        lines = [f"n{900 - c:08d} animal {c}, other name" for c in range(60)]
        (info / "synsets.txt").write_text("\n".join(lines))
    for c in range(50):
        name = f"n{900 - c:08d}" if synsets else str(c)
        write_image(root / "imagenet" / "val" / name / f"ILSVRC2012_val_{c}.JPEG", c, (40, 30))
    return root


def write_clothing1m(root: Path, prefix: str = "images/") -> Path:
    keys = {
        "noisy_train": [f"images/0/0{k}/{k},1.jpg" for k in range(4)],
        "clean_val": ["images/1/v.jpg"],
        "clean_test": ["images/2/t.jpg", "images/2/u.jpg"],
    }
    for split, names in keys.items():
        for name in names:
            write_image(root / (prefix + name.removeprefix("images/")), 7, (20, 30))
        (root / f"{split}_key_list.txt").write_text("\n".join(names) + "\n")
    noisy = [f"{name} {13 - k}" for k, name in enumerate(keys["noisy_train"])]
    (root / "noisy_label_kv.txt").write_text("\n".join([*noisy, "images/9/unused.jpg 3"]))
    clean = [f"{name} {k}" for k, name in enumerate(keys["clean_val"] + keys["clean_test"])]
    (root / "clean_label_kv.txt").write_text("\n".join(clean))
    (root / "category_names_eng.txt").write_text("\n".join(f"cloth {c}" for c in range(14)))
    return root
