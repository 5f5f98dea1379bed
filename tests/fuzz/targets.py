"""Every reader of files, every run folder and every route: what to damage, and how to read it."""

from __future__ import annotations

import asyncio
import io
import json
import random
import shutil
import tarfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import anyio.to_thread
import numpy as np
import pandas as pd
from PIL import Image

from csot._core.files import read_json
from csot._core.pictures import fault, open_rgb, read_rgb
from csot.audit.sheet import open_audit, read_sheet, write_sheet
from csot.clean import LabelCleaner
from csot.data import Columns, DataError, TableFeatures, all_votes, read_data, read_verified
from csot.data.datasets.cifar import read_cifar
from csot.data.datasets.cifar_n import read_cifar_n
from csot.data.datasets.clothing1m import Clothing1MCounts, read_clothing1m
from csot.data.datasets.core.source_files import unpack
from csot.data.datasets.webvision import WebVisionCounts, read_webvision
from csot.data.noise.parse import read_label_file, read_matrix
from csot.data.readers.to_predict import Wanted, read_inputs
from csot.data.readers.training import read_path
from csot.data.types import DatasetRequest
from csot.embed import Embedder, EmbeddingCache
from csot.figures import Comparison, read_measured, results_table
from csot.figures.comparison.comparison_files import cells_with_runs
from csot.figures.records import read_history
from csot.figures.verdicts.confusion import confusion
from csot.nets.weights import read_weights
from csot.report import write_report
from csot.review.domain.session import Session
from csot.review.web import server
from csot.review.web.guard import Guard
from csot.review.web.pages import Pages
from csot.review.web.server import make_app
from csot.runs import Run
from csot.runs.snapshots import Snapshot, read_snapshot, write_snapshot
from csot.runs.truth import write_truth
from csot.training.config import parse_yaml
from csot.training.predict import Predictor
from csot.training.presets import read_preset
from csot.training.train import train
from figures.made_cells import write_cells
from fuzz import mutate
from fuzz.containers import as_gzip, as_jpeg, as_parquet, as_tar
from fuzz.kept import undamaged_once
from fuzz.mutate import Mutator, as_zip, either
from report.sample_runs import write_run
from source_files import (
    CIFAR10_COUNTS,
    write_cifar10_binary,
    write_cifar10_python,
    write_clothing1m,
    write_torch_zip,
    write_webvision,
)


@dataclass(frozen=True)
class Target:
    """``make`` fills an empty folder; a case damages one of ``files`` and calls ``read``."""

    name: str
    make: Callable[[Path], None]
    files: dict[str, Mutator]
    read: Callable[[Path], object]


CSV = either(mutate.as_csv, mutate.as_csv, mutate.as_text, mutate.damage)
JSON = either(mutate.as_json, mutate.as_json, mutate.as_text, mutate.damage)
JSON_LINES = either(mutate.as_json_lines, mutate.as_json_lines, mutate.as_text, mutate.damage)
YAML = either(mutate.as_yaml, mutate.as_yaml, mutate.as_text, mutate.damage)
NPY = either(mutate.as_npy, mutate.as_npy, mutate.damage)
PICKLE = either(mutate.as_pickle, mutate.as_pickle, mutate.damage)
LINES = either(mutate.as_text, mutate.damage)
NPZ = either(as_zip(NPY), as_zip(NPY), mutate.zip_bomb)
TORCH = either(as_zip(PICKLE), as_zip(PICKLE), mutate.zip_bomb)
PARQUET = either(as_parquet, as_parquet, mutate.near_the_end)

N = 24
LABELS = np.arange(N) % 3
FEATURES = np.random.default_rng(0).normal(size=(N, 4)).astype(np.float32)
NAMES = np.array(["cat", "dog", "eel"])
WANTED = Wanted("features", (4,), list(NAMES))
FOUND = {"features": FEATURES, "labels": LABELS, "class_names": NAMES, "ids": np.arange(N) + 7}


def table() -> pd.DataFrame:
    frame = pd.DataFrame(FEATURES, columns=list("abcd"))
    return frame.assign(label=NAMES[LABELS], id=[f"r{row}" for row in range(N)])


def make_table(folder: Path) -> None:
    table().to_csv(folder / "t.csv", index=False)


def make_pictures(folder: Path) -> None:
    for row in range(6):
        Image.new("RGB", (8, 8), (row * 30, 0, 0)).save(folder / f"{row}.png")
    names = [f"{row}.png" for row in range(6)]
    frame = pd.DataFrame({"file": names, "label": ["a", "b"] * 3})
    frame.to_csv(folder / "t.csv", index=False)


def make_parquet(folder: Path) -> None:
    table().set_index("id").to_parquet(folder / "t.parquet")


def mixed_table() -> pd.DataFrame:
    """Every kind of column."""
    days = pd.date_range("2021-01-01", periods=N).strftime("%d/%m/%Y")
    return table().assign(
        city=["Rome", "Oslo", "Bern"] * (N // 3),
        joined=days,
        price=[f"€{number:,.2f}" for number in range(N)],
        rate=[f"{number} %" for number in range(N)],
        zip=[f"{number:05d}" for number in range(N)],
    )


def make_mixed(folder: Path) -> None:
    mixed_table().to_csv(folder / "t.csv", index=False)
    mixed_table().to_csv(folder / "t.csv.gz", index=False)
    listed = mixed_table().assign(e=[[float(number), 1.0] for number in range(N)])
    listed.to_json(folder / "t.jsonl", orient="records", lines=True)
    listed.to_parquet(folder / "lists.parquet")
    fitted = TableFeatures.fit(mixed_table())
    (folder / "fitted.json").write_text(json.dumps(fitted.as_dict()))


def read_mixed(name: str) -> Callable[[Path], object]:
    return lambda folder: read_data(folder / name, Columns(label="label"))


def read_fitted(folder: Path) -> None:
    """As the command line does: whatever is wrong is one kind of error."""
    path = folder / "fitted.json"
    values = read_json(path, 1 << 20)
    try:
        fitted = TableFeatures.from_dict(values)
        fitted.transform(mixed_table(), str(path))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(f"{path}: {error}") from error


def make_hugging_face(folder: Path) -> None:
    make_pictures(folder)
    frame = pd.read_csv(folder / "t.csv").rename(columns={"file": "file_name"})
    frame.to_csv(folder / "metadata.csv", index=False)


def make_npz(folder: Path) -> None:
    np.savez(folder / "d.npz", **FOUND)


def make_splits(folder: Path) -> None:
    np.savez(
        folder / "d.npz",
        train=FEATURES,
        train_labels=LABELS,
        test=FEATURES,
        test_labels=LABELS,
    )


def make_arrays(folder: Path) -> None:
    for name, array in {**FOUND, "pred_probs": np.full((N, 3), 1 / 3)}.items():
        np.save(folder / f"{name}.npy", array)


@lru_cache(maxsize=2)
def the_table(folder: Path, *named: str) -> Any:
    """What other files are about, and no case damages."""
    return read_data(folder / "t.csv", Columns(label="label", id=named[0] if named else None))


def make_verified(folder: Path) -> None:
    make_table(folder)
    pd.DataFrame({"id": ["r1", "r2"], "label": ["cat", "dog"]}).to_csv(
        folder / "v.csv", index=False
    )


def make_export(folder: Path) -> None:
    make_table(folder)
    choice = {"value": {"choices": ["cat"]}, "from_name": "label", "type": "choices"}
    made = [{"result": [choice], "was_cancelled": False, "completed_by": {"id": 1}}]
    full = [{"id": row, "annotations": made, "data": {"sample_id": f"r{row}"}} for row in range(3)]
    flat = [{"id": row, "sample_id": f"r{row}", "label": "dog", "annotator": 1} for row in range(3)]
    (folder / "full.json").write_text(json.dumps(full))
    (folder / "flat.json").write_text(json.dumps(flat))


def make_votes(folder: Path) -> None:
    make_table(folder)
    rows = [(f"r{row}", name, "cat") for row in range(4) for name in ("ann", "bob")]
    pd.DataFrame(rows, columns=["id", "annotator", "label"]).to_csv(
        folder / "votes.csv", index=False
    )


def read_votes(folder: Path) -> None:
    all_votes(the_table(folder, "id"), folder / "votes.csv")


def make_audit(folder: Path) -> None:
    make_run(folder)
    run = Run.open(folder / "run")
    audit = open_audit(run, 8)
    assert audit is not None
    write_sheet(folder / "sheet.csv", run, audit)


def read_audit(folder: Path) -> None:
    with undamaged_once():
        run = Run.open(folder / "run")
        audit = open_audit(run)
        if audit is not None:
            read_sheet(folder / "sheet.csv", run, audit)


def make_cleaner(folder: Path) -> None:
    cleaner = LabelCleaner(members=("linear",), duplicates="ignore", progress=False)
    cleaner.fit(np.repeat(FEATURES, 2, 0), np.repeat(NAMES[LABELS], 2)).save(folder / "c.npz")


def read_cleaner(folder: Path) -> None:
    with undamaged_once():
        LabelCleaner.load(folder / "c.npz")


def make_labels(folder: Path) -> None:
    (folder / "l.json").write_text(json.dumps([0, 1, 2, 1, 0]))


def make_matrices(folder: Path) -> None:
    np.save(folder / "m.npy", np.eye(3))
    np.savetxt(folder / "m.csv", np.eye(3), delimiter=",")


def make_cifar_n(folder: Path) -> None:
    write_cifar10_binary(folder / "cifar-10-batches-bin")
    clean = np.concatenate([(np.arange(4) * 3 + number) % 10 for number in range(1, 6)])
    write_torch_zip(folder / "CIFAR-10_human.pt", {"clean_label": clean, "worse_label": clean})


def make_archive(folder: Path) -> None:
    with tarfile.open(folder / "x.tar.gz", "w:gz") as archive:
        for name in ("in/a.bin", "in/b.bin"):
            info = tarfile.TarInfo(name)
            info.size = 100
            archive.addfile(info, io.BytesIO(bytes(100)))


def read_archive(folder: Path) -> None:
    shutil.rmtree(unpack(folder / "x.tar.gz", "in"))
    left = [path.name for path in folder.iterdir() if path.name != "x.tar.gz"]
    assert not left, f"the archive left {left} behind"


def make_preset(folder: Path) -> None:
    text = "about: x\ntraining: {epochs: 3, network: {name: mlp, width: 8}}\n"
    (folder / "p.yaml").write_text(text + "methods: {csot: {settings: {epsilon: 0.1}}}\n")


def read_own_preset(folder: Path) -> None:
    read_preset.cache_clear()
    read_preset(str(folder / "p.yaml"))
    parse_yaml((folder / "p.yaml").read_text("utf-8", "replace"), "--set in p.yaml")


def make_image(suffix: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        pixels = np.random.default_rng(0).integers(0, 255, (24, 20, 3), dtype=np.uint8)
        mode = "P" if suffix == "gif" else "RGBA" if suffix in ("png", "webp") else "RGB"
        Image.fromarray(pixels).convert(mode).save(folder / f"x.{suffix}")

    return make


def read_image(suffix: str) -> Callable[[Path], object]:
    def read(folder: Path) -> None:
        path = folder / f"x.{suffix}"
        if fault(path) is None:
            open_rgb(path, 224)
        else:
            read_rgb(path, 32)
            raise AssertionError("what has a fault was read")

    return read


def make_run(folder: Path) -> None:
    """Of pictures, with every file that report and review read."""
    rng = np.random.default_rng(0)
    for row in range(3):
        Image.new("RGB", (8, 8), (row * 60, 0, 0)).save(folder / f"{row}.png")
    run = write_run(
        folder / "run",
        rng.integers(0, 3, N),
        ["cat", "dog", "eel"],
        rng,
        ids=[f"r{row}" for row in range(N)],
        samples={"image": [f"{row % 3}.png" for row in range(N)]},
        extra={"source": {"kind": "images", "path": str(folder), "root": str(folder)}},
    )
    run.write_features(rng.normal(size=(N, 5)))
    findings = run.read_findings()
    own = pd.DataFrame({"id": findings.index, "label": findings["given_label"], "more": "text"})
    run.write_corrected(
        own.set_index(findings.index).rename_axis(None), findings, label_column="label"
    )
    run.write_label_studio(findings, run.read_samples(), class_names=["cat", "dog", "eel"])
    session = Session(run, "ana")
    session.decide([1, 2], "keep", None, "one", "batch-one-1")
    session.decide([3, 4], "unsure", None, "grid", "batch-two-2")
    session.close()


def make_snapshot(folder: Path) -> None:
    probs = np.full((6, 3), 1 / 3)
    write_snapshot(folder, 1, Snapshot(probs, np.ones((6, 4)), np.arange(6) % 3))


def make_truth(folder: Path) -> None:
    make_run(folder)
    run = Run.open(folder / "run")
    index = run.read_findings().index
    write_truth(run, index, ["cat"] * len(index))


def read_true_labels(folder: Path) -> None:
    with undamaged_once():
        confusion([folder / "run"])


def make_table_run(folder: Path) -> None:
    make_run(folder)
    (folder / "run" / "samples.csv").unlink()


def read_report(folder: Path) -> None:
    with undamaged_once():
        run = Run.open(folder / "run")
        write_report(run)
        run.report_path.unlink()


class KeptPages(Pages):
    """Remembers the last one that was made."""

    last: Pages

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        KeptPages.last = self


async def at_once(function: Callable[..., Any], *given: Any, **_: Any) -> Any:
    """In place of a thread: an alarm reaches the main thread only, and threads take long."""
    return function(*given)


class Asked:
    """The application behind its guard, asked without a socket."""

    TOKEN = "a-token"

    def __init__(self, run: Run) -> None:
        self.session = Session(run, "ana")
        with patch.object(server, "Pages", KeptPages):
            self._app = Guard(make_app(self.session), self.TOKEN, "cookie")
        self._pages = KeptPages.last

    def open(self, run: Run) -> None:
        """Another run in the same application: making its routes takes longer than all pages.

        The session before must be closed already.

        The routes hold the session and some of its parts, which all get the values of new ones.
        """
        fresh = Session(run, "ana")
        for part in ("catalogue", "auditing"):
            kept = vars(getattr(self.session, part))
            kept.clear()
            kept.update(vars(getattr(fresh, part)))
        vars(self.session).update(
            {key: part for key, part in vars(fresh).items() if key not in ("catalogue", "auditing")}
        )
        pages = Pages(self.session)
        vars(self._pages).update(vars(pages))

    def ask(
        self, method: str, path: str, query: str = "", body: bytes = b"", **headers: str
    ) -> tuple[int, bytes]:
        own = {"host": "127.0.0.1:8470", "cookie": f"cookie={self.TOKEN}", **headers}
        if method == "POST":
            own.setdefault("content-type", "application/json")
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode("utf-8", "replace"),
            "query_string": query.encode("latin1", "replace"),
            "root_path": "",
            "headers": [
                (name.encode("latin1", "replace"), value.encode("latin1", "replace"))
                for name, value in own.items()
            ],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 8470),
        }
        sent: list[Any] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        with patch.object(anyio.to_thread, "run_sync", at_once):
            LOOP.run_until_complete(self._app(scope, receive, send))
        return sent[0]["status"], b"".join(part.get("body", b"") for part in sent[1:])


LOOP = asyncio.new_event_loop()
PAGES = ("/", "/one", "/grid", "/precision", "/reviewers", "/export", "/api/classes", "/image/1")
PAGES += ("/download/reviewed.csv", "/download/reviewed_label_studio.json")


PAGES_OF = {
    "samples.csv": ("/one", "/image/1", "/download/reviewed_label_studio.json"),
    "corrected.csv": ("/one", "/download/reviewed.csv"),
    "probabilities.npy": ("/one",),
    "features.npy": ("/one",),
    "label_studio.json": ("/download/reviewed_label_studio.json",),
    "decisions.sqlite": ("/", "/reviewers"),
}
"""The pages that show something of a file: half of the cases ask for one of them, as their content
draws it, the others for any page."""
REVIEWED: dict[Path, Asked] = {}


def read_review(name: str) -> Callable[[Path], object]:
    """A page that cannot be made says why, and names the file."""

    def read(folder: Path) -> None:
        drawn, is_own = divmod(zlib.crc32((folder / "run" / name).read_bytes()), 2)
        pages = PAGES_OF.get(name, ("/",)) if is_own else PAGES
        with undamaged_once():
            ask_for_page(folder, pages[drawn % len(pages)])

    return read


def ask_for_page(folder: Path, page: str) -> None:
    for left in (folder / "run").glob("decisions.sqlite-*"):
        left.unlink()  # of the file that was damaged before
    run = Run.open(folder / "run")
    is_new = folder not in REVIEWED
    if is_new:
        REVIEWED[folder] = Asked(run)
    asked = REVIEWED[folder]
    try:
        if not is_new:
            asked.open(run)
        asked.session.samples.load_early()
        status, content = asked.ask("GET", page)
        if status >= 500 or (status == 400 and str(folder).encode() not in content):
            raise AssertionError(f"{page}: {status} {content[-300:]!r}")
    finally:
        asked.session.close()


REQUESTS = [
    *([method, path, "row=1&by=1&status=any", ""] for method in ("GET", "POST") for path in PAGES),
    ["GET", "/api/step", "row=1&by=1&given=1&low=0.1&high=0.9&order=random", ""],
    ["GET", "/api/forecast", "threshold=0.5", ""],
    ["GET", "/api/why", "row=1", ""],
    ["GET", "/static/one.js", "", ""],
    ["GET", "/", "token=guess", ""],
]
DECISION = {"rows": [1], "action": "keep", "way": "one", "batch": "0123456789", "label": None}


def make_routes(folder: Path) -> None:
    make_run(folder)
    asked = Asked(Run.open(folder / "run"))
    stamp = asked.session.catalogue.stamp
    asked.session.close()
    bodies = {
        "/api/decide": {**DECISION, "view": "status=any&order=random"},
        "/api/undo": {"batch": "abcdefgh", "undoes": "batch-one-1", "view": None},
        "/api/accept-above": {"batch": "abcdefgi", "threshold": 0.5, "expected": 1},
        "/api/export": {"batch": "abcdefgj", "seen_only": True},
    }
    asks: list[Any] = [*REQUESTS]
    asks += [
        ["POST", path, "", json.dumps({"stamp": stamp, **body})] for path, body in bodies.items()
    ]
    (folder / "requests.json").write_text(json.dumps([[*ask, {"origin": "null"}] for ask in asks]))


def one_request(rng: random.Random, data: bytes) -> bytes:
    """One of the requests, damaged in one of its parts."""
    method, path, query, body, headers = rng.choice(json.loads(data))
    how = rng.randrange(6)
    if how == 0:
        path += rng.choice(mutate.TEXTS)
    elif how == 1:
        path = mutate.as_text(rng, path.encode()).decode("latin1")
    elif how == 2:
        query = mutate.as_text(rng, query.encode()).decode("latin1")
    elif how == 3 and body:
        body = mutate.as_json(rng, body.encode()).decode("latin1")
    elif how == 4:
        body = mutate.damage(rng, body.encode() or b"{}").decode("latin1")
    headers = {} if rng.random() < 0.8 else headers
    if rng.random() < 0.2:
        name = rng.choice(("host", "origin", "cookie", "content-type", "content-length", "range"))
        headers[name] = rng.choice((*mutate.TEXTS, "127.0.0.1:8470@evil.com", "[::1]:1", "2" * 99))
    return json.dumps([method, path, query, body, headers]).encode()


SERVED: dict[Path, Asked] = {}


def read_request(folder: Path) -> None:
    """Whatever is asked, no answer is an error of the server."""
    if folder not in SERVED:
        SERVED[folder] = Asked(Run.open(folder / "run"))
    found = json.loads((folder / "requests.json").read_text())
    if isinstance(found[0], list):
        return
    method, path, query, body, headers = found
    status, content = SERVED[folder].ask(method, path, query, body.encode("latin1"), **headers)
    if status >= 500:
        raise AssertionError(f"{status} {content[-300:]!r}")


def make_trained(folder: Path) -> None:
    make_npz(folder)
    settings = {"epochs": 1, "width": 4, "batch_size": 8}
    train(folder / "d.npz", out=folder / "run", method="cross_entropy", settings=settings)


def read_trained(folder: Path) -> None:
    with undamaged_once():
        predictor = Predictor(folder / "run", "last")
        predictor(read_inputs(folder / "d.npz", predictor.wanted))


def make_cells(folder: Path) -> None:
    places = write_cells(folder, {"csot": 0.9, "elr": 0.8}, ["sym:0.5"], range(1))
    cells_with_runs(Comparison.read(places), folder).to_csv(folder / "cells.csv", index=False)


def read_compared(folder: Path) -> None:
    with undamaged_once():
        results_table("main", read_measured([folder]))


def make_cache(folder: Path) -> None:
    cache = EmbeddingCache(folder, EMBEDDER, folder)
    cache.embed([f"text {row}" for row in range(6)])
    cache._write_part(["a", "b"], FEATURES[:2])


EMBEDDER = Embedder("fuzz", "1", lambda samples: np.ones((len(samples), 3)), chunk=4)


def read_cache(folder: Path) -> None:
    saved = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    EmbeddingCache(folder, EMBEDDER, folder).embed(["text 1", "text 2", "other"])
    for path, content in saved.items():
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)


def make_weights(folder: Path) -> None:
    import torch
    from safetensors.torch import save_file

    tensors = {"a": torch.ones(3, 4), "b": torch.arange(5)}
    torch.save({"state_dict": tensors}, folder / "w.pt")
    torch.save({"state_dict": tensors}, folder / "old.pt", _use_new_zipfile_serialization=False)
    save_file(tensors, folder / "w.safetensors")


def make_webvision(folder: Path) -> None:
    write_webvision(folder / "w", synsets=True)


def images_of(folder: Path) -> object:
    return read_data(folder / "t.csv", Columns(label="label", image="file"))


TARGETS = [
    Target(
        "csv", make_table, {"t.csv": CSV}, lambda f: read_data(f / "t.csv", Columns(label="label"))
    ),
    Target(
        "csv-text",
        make_table,
        {"t.csv": CSV},
        lambda f: read_data(f / "t.csv", Columns(label="label", text="id")),
    ),
    Target("csv-mixed", make_mixed, {"t.csv": CSV}, read_mixed("t.csv")),
    Target("csv-packed", make_mixed, {"t.csv.gz": as_gzip(CSV)}, read_mixed("t.csv.gz")),
    Target("jsonl", make_mixed, {"t.jsonl": JSON_LINES}, read_mixed("t.jsonl")),
    Target("lists", make_mixed, {"lists.parquet": PARQUET}, read_mixed("lists.parquet")),
    Target("fitted", make_mixed, {"fitted.json": JSON}, read_fitted),
    Target("metadata", make_hugging_face, {"metadata.csv": CSV}, read_data),
    Target("csv-images", make_pictures, {"t.csv": CSV}, images_of),
    Target(
        "parquet",
        make_parquet,
        {"t.parquet": PARQUET},
        lambda f: read_data(f / "t.parquet", Columns(label="label")),
    ),
    Target(
        "snapshot", make_snapshot, {"snapshots/epoch-1.npz": NPZ}, lambda f: read_snapshot(f, 1)
    ),
    Target("truth", make_truth, {"run/true_labels.csv": CSV}, read_true_labels),
    Target("npz", make_npz, {"d.npz": NPZ}, lambda f: read_data(f / "d.npz")),
    Target("npz-splits", make_splits, {"d.npz": NPZ}, lambda f: read_path(f / "d.npz")),
    Target(
        "npy-folder",
        make_arrays,
        {f"{name}.npy": NPY for name in (*FOUND, "pred_probs")},
        read_data,
    ),
    *(
        Target(suffix, make_image(suffix), {f"x.{suffix}": how}, read_image(suffix))
        for suffix, how in {
            "png": either(mutate.as_png, mutate.as_png, mutate.damage),
            "jpg": either(as_jpeg, as_jpeg, mutate.damage),
            **dict.fromkeys(("gif", "bmp", "webp", "tif"), mutate.damage),
        }.items()
    ),
    Target(
        "verified",
        make_verified,
        {"v.csv": CSV},
        lambda f: read_verified(f / "v.csv", the_table(f)),
    ),
    *(
        Target(
            f"label-studio-{form}",
            make_export,
            {f"{form}.json": JSON},
            lambda f, name=f"{form}.json": read_verified(f / name, the_table(f)),
        )
        for form in ("full", "flat")
    ),
    Target("votes", make_votes, {"votes.csv": CSV}, read_votes),
    Target("audit", make_audit, {"run/audit.json": JSON, "sheet.csv": CSV}, read_audit),
    Target(
        "cleaner",
        make_cleaner,
        {"c.npz": either(NPZ, mutate.as_cleaner)},
        read_cleaner,
    ),
    Target("matrix-npy", make_matrices, {"m.npy": NPY}, lambda f: read_matrix(f / "m.npy", 3)),
    Target(
        "noise-labels", make_labels, {"l.json": JSON}, lambda f: read_label_file(f / "l.json", 3)
    ),
    Target("matrix-csv", make_matrices, {"m.csv": CSV}, lambda f: read_matrix(f / "m.csv", 3)),
    Target(
        "cifar-python",
        lambda f: write_cifar10_python(f / "cifar-10-batches-py") and None,
        {f"cifar-10-batches-py/{name}": PICKLE for name in ("data_batch_1", "batches.meta")},
        lambda f: read_cifar("cifar10", f, counts=CIFAR10_COUNTS),
    ),
    Target(
        "cifar-binary",
        lambda f: write_cifar10_binary(f / "cifar-10-batches-bin") and None,
        {
            f"cifar-10-batches-bin/{name}": LINES
            for name in ("data_batch_1.bin", "batches.meta.txt")
        },
        lambda f: read_cifar("cifar10", f, counts=CIFAR10_COUNTS),
    ),
    Target(
        "cifar-n",
        make_cifar_n,
        {"CIFAR-10_human.pt": TORCH},
        lambda f: read_cifar_n("cifar10n:worse", f, counts=CIFAR10_COUNTS),
    ),
    Target(
        "webvision",
        make_webvision,
        {f"w/info/{n}.txt": LINES for n in ("train_filelist_google", "val_filelist", "synsets")},
        lambda f: read_webvision(DatasetRequest(f / "w", image_size=8), WebVisionCounts(3, 2, 50)),
    ),
    Target(
        "clothing1m",
        lambda f: write_clothing1m(f / "c") and None,
        {
            f"c/{n}.txt": LINES
            for n in ("noisy_train_key_list", "noisy_label_kv", "category_names_eng")
        },
        lambda f: read_clothing1m(DatasetRequest(f / "c", image_size=8), Clothing1MCounts(4, 2, 1)),
    ),
    Target("archive", make_archive, {"x.tar.gz": as_gzip(as_tar, bombs=False)}, read_archive),
    Target("preset", make_preset, {"p.yaml": YAML}, read_own_preset),
    Target("inputs-npz", make_npz, {"d.npz": NPZ}, lambda f: read_inputs(f / "d.npz", WANTED)),
    Target(
        "inputs-csv",
        make_table,
        {"t.csv": CSV},
        lambda f: read_inputs(f / "t.csv", WANTED, columns=Columns(label="label")),
    ),
    Target("weights-pt", make_weights, {"w.pt": TORCH}, lambda f: read_weights(f / "w.pt")),
    Target(
        "weights-old-pt", make_weights, {"old.pt": PICKLE}, lambda f: read_weights(f / "old.pt")
    ),
    Target(
        "weights-safetensors",
        make_weights,
        {"w.safetensors": mutate.as_safetensors},
        lambda f: read_weights(f / "w.safetensors"),
    ),
    Target(
        "embeddings",
        make_cache,
        {"embeddings.json": JSON, "embeddings.npy": NPY},
        read_cache,
    ),
    *(
        Target(f"report {name}", make_run, {f"run/{name}": how}, read_report)
        for name, how in {
            "run.json": JSON,
            "summary.json": JSON,
            "findings.csv": CSV,
            "samples.csv": CSV,
        }.items()
    ),
    *(
        Target(f"review {name}", make, {f"run/{name}": how}, read_review(name))
        for name, make, how in (
            ("run.json", make_run, JSON),
            ("summary.json", make_run, JSON),
            ("findings.csv", make_run, CSV),
            ("samples.csv", make_run, CSV),
            ("corrected.csv", make_table_run, CSV),
            ("probabilities.npy", make_run, NPY),
            ("features.npy", make_run, NPY),
            ("decisions.sqlite", make_run, mutate.as_sqlite),
            ("label_studio.json", make_run, JSON),
        )
    ),
    *(
        Target(f"predict {name}", make_trained, {f"run/{name}": how}, read_trained)
        for name, how in {
            "config.yaml": YAML,
            "inputs.yaml": YAML,
            "checkpoints/last.json": JSON,
            "checkpoints/epoch-1/model.safetensors": mutate.as_safetensors,
            "checkpoints/epoch-1/state.pt": TORCH,
        }.items()
    ),
    Target("metrics", make_trained, {"run/metrics.csv": CSV}, lambda f: read_history(f / "run")),
    Target("cells", make_cells, {"cells.csv": CSV}, lambda f: read_measured([f])),
    Target(
        "measured",
        make_cells,
        {"cells/csot/sym-0.5/seed-0/summary.json": JSON},
        read_compared,
    ),
    Target("routes", make_routes, {"requests.json": one_request}, read_request),
]
