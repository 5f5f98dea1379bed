"""Training on noisy photographs and texts from pretrained features: CSOT, cross-entropy, cleaner.

    python benchmarks/train_features.py --cifar DIR --noise FILE.npz --work DIR
    python benchmarks/train_features.py --texts hutto_ICWSM_2014.tar.gz --work DIR

Photographs: 4,000 training images of CIFAR-10 (drawn with seed 0) with the labels of a public file
of sample-dependent noise for the same rows, and 2,000 test images with their true labels. `DIR`
holds `cifar-10-batches-bin`, `FILE.npz` an array of 50,000 labels per noise.

Texts: 4,000 sentences of film reviews and 2,000 to test, positive or negative by the mean rating of
twenty people; 30 % of the training labels are flipped. The file is in the source archive of
vaderSentiment 3.3.2 (additional_resources).

Every method sees the same features of the same rows: `csot train` with its defaults (preset
`features`), cross-entropy in the same loop, and `csot clean`, whose classifier predicts the test
rows. Of cross-entropy the highest test accuracy of all epochs counts, of the others the last.
Finished cells are kept in WORK/results.json, embeddings in WORK/cache.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import platform
import statistics
import tarfile
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from PIL import Image

import csot
from cleaning.store import Store, code_version
from csot.data import Columns, Samples
from csot.training import Source
from csot.training.config import DataConfig
from csot.training.embedded_data import Place, read_pending

ROWS, TEST_ROWS = 4000, 2000
NAMES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
FLIPPED = 0.3
METHODS = ("csot", "cross_entropy", "cleaner")


def cifar(folder: Path, names: list[str]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    raw = [np.fromfile(folder / f"{name}.bin", np.uint8).reshape(-1, 3073) for name in names]
    whole = np.concatenate(raw)
    return whole[:, 0], whole[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)


def write_photographs(cifar_folder: Path, noise: Path, work: Path) -> dict[str, Path]:
    """Image files, test.csv and a table per noise; returns the tables by noise."""
    folder = cifar_folder / "cifar-10-batches-bin"
    labels, pixels = cifar(folder, [f"data_batch_{number}" for number in range(1, 6)])
    test_labels, test_pixels = cifar(folder, ["test_batch"])
    rows = np.sort(np.random.default_rng(0).permutation(len(labels))[:ROWS])
    sets = {"train": pixels[rows], "test": test_pixels[:TEST_ROWS]}
    for name, images in sets.items():
        (work / name).mkdir(parents=True, exist_ok=True)
        for row, image in enumerate(images):
            path = work / name / f"{row:05d}.png"
            if not path.exists():
                Image.fromarray(image).save(path, compress_level=1)
    truth = labels[rows]
    tables = {}
    with np.load(noise) as noises:
        for name in ("idn-0.4", "semantic-vgg"):
            given = noises[name][rows]
            print(f"{name}: {(given != truth).mean():.1%} of {ROWS:,} labels are wrong")
            tables[name] = write_table(work / f"{name}.csv", "train", given)
    write_table(work / "test.csv", "test", test_labels[:TEST_ROWS])
    return tables


def write_table(path: Path, folder: str, labels: np.ndarray[Any, Any]) -> Path:
    files = [f"{folder}/{row:05d}.png" for row in range(len(labels))]
    table = pd.DataFrame({"file": files, "label": [NAMES[label] for label in labels]})
    table.to_csv(path, index_label="id")
    return path


def write_texts(archive: Path, work: Path) -> dict[str, Path]:
    """test.csv, and a table whose labels are flipped with seed 0."""
    with tarfile.open(archive) as whole:
        member = next(m for m in whole if m.name.endswith("movieReviewSnippets_GroundTruth.txt"))
        file = whole.extractfile(member)
        assert file is not None
        content = file.read().decode("latin-1")
    table = pd.read_csv(
        io.StringIO(content), sep="\t", header=None, names=["id", "rating", "text"], quoting=3
    )
    table = table[(table["rating"] != 0) & table["text"].notna()]
    chosen = table.sample(ROWS + TEST_ROWS, random_state=0).reset_index(drop=True)
    positive = chosen["rating"] > 0
    flipped = np.random.default_rng(0).random(len(chosen)) < FLIPPED
    for name, part, right in (
        ("flipped-0.3.csv", chosen.index < ROWS, positive ^ flipped),
        ("test.csv", chosen.index >= ROWS, positive),
    ):
        labels = np.where(right, "positive", "negative")
        rows = pd.DataFrame({"text": chosen["text"], "label": labels})[part]
        rows.to_csv(work / name, index_label="id")
    print(f"flipped-0.3: {flipped[:ROWS].mean():.1%} of {ROWS:,} labels are wrong")
    return {"flipped-0.3": work / "flipped-0.3.csv"}


def trained(
    table: Path, columns: Columns, method: str, seed: int, work: Path, views: int | None
) -> dict[str, float]:
    """Accuracies on the test rows, and seconds with and without the embedding."""
    begun = time.perf_counter()
    run = csot.train(
        table,
        out=work / "runs" / f"{table.stem}-{method}-{seed}",
        method=method,
        seed=seed,
        settings={} if views is None else {"stored_views": views},
        source=Source(columns=columns, test=work / "test.csv", cache=work / "cache"),
        machine={"accelerator": "cpu"},
        force=True,
    )
    summary = run.summary
    return {
        "accuracy": summary["test_accuracy_last"],
        "peak": summary["test_accuracy_peak"],
        "informative": summary["informative"],
        "seconds": summary["seconds"],
        "seconds_in_all": time.perf_counter() - begun,
    }


def cleaned(table: Path, columns: Columns, seed: int, work: Path) -> dict[str, float]:
    """The same of the cleaner, on the plain features."""
    embedder = "efficientnet-lite0" if columns.image else "all-MiniLM-L6-v2"
    place = Place(table, work / "unused", columns, test=work / "test.csv", cache=work / "cache")
    data = read_pending(place, DataConfig(embedder=embedder, stored_views=1)).embed()
    features, test = (plain(samples) for samples in (data.train, data.tests[0].samples))
    begun = time.perf_counter()
    cleaner = csot.LabelCleaner(random_state=seed).fit(features, data.labels.numpy())
    found = np.asarray(cleaner.predict(test)) == data.tests[0].labels.numpy()
    return {"accuracy": float(found.mean()), "seconds": time.perf_counter() - begun}


def plain(samples: Samples) -> np.ndarray[Any, Any]:
    return samples.batch(torch.arange(len(samples))).numpy()


def cells(
    tables: dict[str, Path], columns: Columns, seeds: int, work: Path, views: int | None
) -> Iterator[tuple[str, str, int, Callable[[], dict[str, float]]]]:
    for method, seed, (noise, table) in product(METHODS, range(seeds), tables.items()):
        if method == "cleaner":
            yield noise, method, seed, partial(cleaned, table, columns, seed, work)
        else:
            yield noise, method, seed, partial(trained, table, columns, method, seed, work, views)


def show(found: dict[tuple[str, str], list[dict[str, float]]]) -> None:
    """Mean and standard deviation over the seeds, in per cent."""
    print("\n|Noise|method|test accuracy|seconds|\n|-|-|-|-|")
    for (noise, method), records in sorted(found.items()):
        key = "peak" if method == "cross_entropy" else "accuracy"
        values = [100 * record[key] for record in records]
        spread = statistics.stdev(values) if len(values) > 1 else 0.0
        seconds = statistics.mean(record["seconds"] for record in records)
        said = f"{method}, best epoch" if method == "cross_entropy" else method
        print(f"|{noise}|{said}|{statistics.mean(values):.2f} ± {spread:.2f}|{seconds:.0f}|")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cifar", type=Path, help="folder with cifar-10-batches-bin")
    parser.add_argument("--noise", type=Path, help="labels by noise, .npz")
    parser.add_argument("--texts", type=Path, help="hutto_ICWSM_2014.tar.gz")
    parser.add_argument("--work", type=Path, required=True, help="folder for files and results")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--views", type=int, help="stored views of each image; else the default")
    parser.add_argument("--json", type=Path, help="also write the results here")
    options = parser.parse_args()
    if (options.cifar is None) == (options.texts is None):
        parser.error("give either --cifar and --noise, or --texts")
    work = options.work
    work.mkdir(parents=True, exist_ok=True)
    if options.texts is not None:
        tables, columns = write_texts(options.texts, work), Columns(label="label", text="text")
    else:
        tables = write_photographs(options.cifar, options.noise, work)
        columns = Columns(label="label", image="file")
    code = Path(csot.__file__).parent
    store = Store(
        options.json or work / "results.json", code_version(code / "methods", code / "clean")
    )
    store.about = {"rows": ROWS, "test_rows": TEST_ROWS, "machine": platform.processor() or "cpu"}
    found: dict[tuple[str, str], list[dict[str, float]]] = {}
    settings = (code / "presets" / "features.yaml").read_text(encoding="utf-8")
    fingerprint = hashlib.sha256(f"{settings}{options.views}".encode()).hexdigest()[:16]
    for noise, method, seed, run in cells(tables, columns, options.seeds, work, options.views):
        key = f"{noise}/{method}/{seed}"
        record = store.get(key, fingerprint)
        if record is None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                record = store.put(key, fingerprint, dict(run()))
        print(key, {name: record[name] for name in ("accuracy", "seconds")}, flush=True)
        found.setdefault((noise, method), []).append(record)
    show(found)


if __name__ == "__main__":
    main()
