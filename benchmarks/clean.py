"""The cleaner against its rivals, in one run.

    python benchmarks/clean.py --data cifar10_embeddings.npz --labels sample_dependent_noise.npz
    python benchmarks/clean.py --sklearn
    python benchmarks/clean.py --data cifar10_embeddings.npz --speed

DATA is an .npz with train, train_labels, test, test_labels; LABELS an .npz of given labels for the
training rows, one array per noise. A cell is a kind of noise, a kind of features and a seed. In
each one csot and every rival (``rivals/``: cleanlab's three ways, the plain cross-validated probe,
k-NN votes, AUM, SimiFeat) are measured by the average precision of their scores, F1 of their flags,
the share of labels right after correction, their noise rate, the test accuracy of their
predictions, and seconds. No method sees a true label. Results go to JSON as they come, those of
rivals to a file of their own; what is there from the same code and data is not run again. Two runs
must not write to the same file at once.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import cleanlab
import torch
from rich.console import Console

from cleaning import run, weak_labels
from cleaning.cells import CLASS_NOISE, Cell, Data, load, make_cell
from cleaning.measures import Record
from cleaning.speed import compare_speed, speed_table
from cleaning.store import Store, code_version
from cleaning.tables import MEASURES, Table, goal_table, measure_tables

HERE = Path(__file__).parent
RESULTS = HERE / "results"
SPACES = ("embeddings", "pca32", "probs")
SPEED_CELLS = ("sym0.2", "sym0.5", "idn-0.4")
SHOWN = ("ap", "f1", "right", "noise_rate", "accuracy", "seconds")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--data", type=Path, help=".npz with train, train_labels, test, test_labels")
    add("--labels", type=Path, help=".npz with given labels, one array per noise")
    add("--sklearn", action="store_true", help="scikit-learn's data, labelled by weak classifiers")
    add("--cells", help="comma-separated noises; all by default")
    add("--features", default=",".join(SPACES), help="of embeddings, pca32, probs")
    add("--seeds", default="0,1,2")
    add("--rows", type=int, help="subsample the training rows")
    add(
        "--methods",
        default="rivals,csot",
        help="of rivals, cleanlab (the rivals that judge by the probe), csot",
    )
    add("--verified", default="", help="numbers of verified rows, e.g. 0,50,100,200,500")
    add("--speed", action="store_true", help="only compare seconds")
    add("--repeats", type=int, default=3, help="of --speed")
    add("--out", type=Path, default=RESULTS / "clean.json",
        help="results of csot; those of --speed go beside it")  # fmt: skip
    add("--rivals-out", type=Path, default=RESULTS / "clean_rivals.json")
    add("--baseline", type=Path, default=RESULTS / "clean_baseline.json",
        help="results of csot to compare right labels with")  # fmt: skip
    add("--cache", type=Path, default=HERE / ".cache", help="folder of neighbours, probabilities")
    add("--markdown", type=Path, help="also write the tables here")
    arguments = parser.parse_args()
    if not arguments.sklearn and arguments.data is None:
        parser.error("pass --data FILE, or --sklearn to use scikit-learn's data")
    unknown = set(arguments.features.split(",")) - set(SPACES)
    if unknown:
        parser.error(f"--features {sorted(unknown)[0]!r} is unknown; choose from {SPACES}")
    return arguments


def read(arguments: argparse.Namespace, console: Console) -> Data | None:
    if arguments.sklearn:
        return None
    labels = arguments.labels
    if labels is None or not labels.exists():
        console.print(f"--labels {labels}: not there; cells of sample-dependent noise are skipped")
        labels = None
    data = load(arguments.data, labels)
    return data if arguments.rows is None else data.subsample(arguments.rows)


def wanted_cells(arguments: argparse.Namespace, data: Data | None) -> list[str]:
    known = weak_labels.names() if data is None else [*CLASS_NOISE, *data.files]
    if arguments.cells is None:
        return known
    wanted = arguments.cells.split(",")
    for name in wanted:
        if name not in known:
            raise SystemExit(f"--cells {name!r} is unknown; choose from {', '.join(known)}")
    return wanted


def cells(arguments: argparse.Namespace, data: Data | None) -> Iterator[Cell]:
    spaces = arguments.features.split(",")
    if data is None:  # scikit-learn's features are weak as they are
        spaces = [space for space in spaces if space != "pca32"]
    seeds = [int(seed) for seed in arguments.seeds.split(",")]
    for space, seed, name in product(spaces, seeds, wanted_cells(arguments, data)):
        if data is None:
            cell = weak_labels.make_weak_cell(name, seed)
        else:
            cell = make_cell(data, name, "embeddings" if space == "probs" else space, seed)
        yield run.as_probabilities(cell) if space == "probs" else cell


def run_cells(arguments: argparse.Namespace, data: Data | None, console: Console) -> list[Table]:
    source = HERE.parent / "src" / "csot"
    rivals_version = code_version(HERE / "rivals") + f"-cleanlab{cleanlab.__version__}"
    rival_store = Store(arguments.rivals_out, rivals_version)
    own_version = code_version(
        source / "clean", source / "ot", source / "curriculum.py", source / "allocation.py"
    )
    own_store = Store(arguments.out, own_version)
    baseline = Store(arguments.baseline, "")
    about = {"threads": torch.get_num_threads(), "torch": torch.__version__}
    command = ["clean.py", *(Path(word).name for word in sys.argv[1:])]
    own_store.about = {"command": " ".join(command), **about}
    rival_store.about = {"cleanlab": cleanlab.__version__, **about}
    shared = [HERE / "rivals" / file for file in ("neighbours.py", "probe.py")]
    cache = run.Cache(arguments.cache, code_version(*shared))
    counts = [int(count) for count in arguments.verified.split(",") if count]
    methods = arguments.methods.split(",")
    pairs: list[tuple[Record | None, Record | None]] = []
    goals: list[tuple[Record, Record | None, Record | None]] = []
    for cell in cells(arguments, data):
        start = time.perf_counter()
        theirs = (
            run.run_rivals(
                cell,
                rival_store,
                cache,
                lambda text: console.print(f"  {text}"),
                by_probe_only="rivals" not in methods,
            )
            if {"rivals", "cleanlab"} & set(methods)
            else rival_store.any_version(cell.key, cell.fingerprint())
        )
        own = run.run_ours(cell, own_store, cache, counts) if "csot" in methods else None
        console.print(f"{cell.key}: {time.perf_counter() - start:.1f} s")
        if own is not None or theirs is not None:
            pairs.append((own, theirs))
        if own is not None:
            before = baseline.any_version(cell.key, cell.fingerprint())
            goals.append((own, theirs, before))
    tables = measure_tables(pairs, list(MEASURES if arguments.markdown else SHOWN))
    return [*tables, *([goal_table(goals)] if goals else [])]


def run_speed(arguments: argparse.Namespace, data: Data | None, console: Console) -> list[Table]:
    if data is None:
        raise SystemExit("--speed needs --data FILE: scikit-learn's data are too small")
    available = [name for name in SPEED_CELLS if name in CLASS_NOISE or name in data.files]
    names = available if arguments.cells is None else wanted_cells(arguments, data)
    store = Store(arguments.out.with_name(arguments.out.stem + "_speed.json"), "speed")
    records = []
    for name in names:
        cell = make_cell(data, name, "embeddings", 0)
        console.print(f"{name}: timing, {arguments.repeats} times each")
        record = compare_speed(cell, arguments.repeats)
        records.append(store.put(cell.key, cell.fingerprint(), record))
    return [speed_table(records)]


def main() -> None:
    arguments = parse()
    console = Console(width=None if sys.stdout.isatty() else 220)
    data = read(arguments, console)
    tables = (run_speed if arguments.speed else run_cells)(arguments, data, console)
    for table in tables:
        table.show(console)
    if arguments.markdown is not None:
        text = "\n".join(table.markdown() for table in tables)
        arguments.markdown.write_text(text, encoding="utf-8")
        console.print(f"tables written to {arguments.markdown}")


if __name__ == "__main__":
    main()
