"""The log: durable, appended to by several at once, never losing or doubling a decision."""

from __future__ import annotations

import csv
import io
import os
import signal
import sqlite3
import threading
import time
from http.client import HTTPException
from pathlib import Path

import numpy as np
import pytest

from csot.review.domain import decision_exports as export
from csot.review.domain.decision_log import FILE, SCHEMA, LogEntry, Store
from csot.review.domain.ledger import CODES
from csot.review.domain.session import Session
from csot.runs import Run
from fuzz.targets import make_run
from report.sample_runs import rows_run, texts_run, write_run
from review.serving import Client, Nursery

ODD = [
    "a\\b",
    "\\u0041",
    "caf\udce9.png",
    "\\\udc80\\",
    "",
    "x" * 500,
    "'; DROP TABLE decision; --",
]


def entry(batch: str, key: str, label: str | None = "cat", reviewer: str = "ana") -> LogEntry:
    action = "unsure" if label is None else "choose"
    return LogEntry(batch, reviewer, key, action, label, "one")


def test_what_is_written_comes_back(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for number, text in enumerate(ODD):
        assert store.append([entry(f"batch-{number}", text, text)])
    found = store.since(0)
    assert [line.id for line in found] == ODD
    assert [line.label for line in found] == ODD
    assert [line.seq for line in store.since(3)] == [4, 5, 6, 7]
    assert all(line.time.endswith("+00:00") for line in found)
    assert store._base.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert store._base.execute("PRAGMA synchronous").fetchone() == (2,), "FULL"
    store.close()


def test_a_batch_counts_once_and_whole(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert store.append([entry("b", "1"), entry("b", "2")])
    assert not store.append([entry("b", "1"), entry("b", "2")])
    bad = LogEntry("c", "ana", "4", "nonsense", None, "one")
    with pytest.raises(OSError, match="CHECK constraint"):
        store.append([entry("c", "3"), bad])
    assert [line.id for line in store.since(0)] == ["1", "2"]
    assert store.append([entry("d", "3")]), "and goes on after an error"
    store.close()


def test_several_writers(tmp_path: Path) -> None:
    """Two servers on one run, each with several requests under way."""
    stores = [Store(tmp_path), Store(tmp_path)]

    def write(number: int) -> None:
        for k in range(25):
            stores[number % 2].append([entry(f"{number}-{k}", f"{number}-{k}")])

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({line.id for line in stores[0].since(0)}) == 100
    assert [line.seq for line in stores[1].since(0)] == list(range(1, 101))
    for store in stores:
        store.close()


def test_a_file_that_is_no_log(tmp_path: Path) -> None:
    (tmp_path / "decisions.sqlite").write_bytes(b"something else, longer than a header" * 99)
    with pytest.raises(OSError, match=r"decisions\.sqlite cannot be used .*move it away"):
        Store(tmp_path)


def test_decisions_on_other_data_are_refused(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 40)
    names = ["a", "b", "c"]
    write_run(tmp_path / "r", truth, names, rng, extra={"source": {"path": "/x/one.csv"}})
    Session(Run.open(tmp_path / "r"), "ana").close()
    other = Run.create(tmp_path / "r", force=True)
    write_run(tmp_path / "s", truth, names, rng, extra={"source": {"path": "/x/two.csv"}})
    for name in ("findings.csv", "summary.json", "run.json"):
        os.replace(tmp_path / "s" / name, tmp_path / "r" / name)
    with pytest.raises(ValueError, match=r"decisions on /x/one.csv.*/x/two.csv.*`same_data`"):
        Session(other, "ana")
    Session(other, "ana", same_data=True).close()
    Session(other, "ana").close()


def test_decisions_on_other_data_are_refused_in_few_words(tmp_path: Path) -> None:
    """Whatever the run says that its data is called."""
    store = Store(tmp_path)
    store.claim({"path": "x" * 9000})
    with pytest.raises(ValueError, match="`same_data`") as refused:
        store.claim({"path": "y" * 9000})
    store.close()
    assert len(str(refused.value)) < 1000 + len(str(tmp_path))


def test_undo_takes_back_its_own(tmp_path: Path) -> None:
    """Two tabs decide the same row; undoing the older leaves the younger."""
    session = Session(rows_run(tmp_path, 60, 3), "ana")
    session.decide([5], "choose", 1, "one", "tab-one-1")
    session.decide([5, 6], "choose", 2, "grid", "tab-two-1")
    assert session.undo("tab-one-1", "undo-1") == [5]
    assert session.person.label[[5, 6]].tolist() == [2, 2]
    assert session.undo("tab-one-1", "undo-2") == [], "it is undone already"
    session.decide([5], "choose", 0, "one", "tab-one-2")
    assert session.undo(None, "undo-3") == [5], "without a name, the last one"
    assert session.person.label[5] == 2
    assert session.undo(None, "undo-3") == [5], "sent again, it undoes nothing more"
    assert session.person.label[5] == 2
    assert session.undo(None, "undo-4") == [5, 6]
    assert not session.person.decided.any()
    assert session.undo(None, "undo-5") == []
    again = Session(session.catalogue.run, "ana")
    np.testing.assert_array_equal(again.person.action, session.person.action)
    assert len(again.store.since(0)) == 4 + 1 + 1 + 2, "nothing is ever deleted"
    again.close()
    session.close()


def test_actions_are_named_by_what_they_do(tmp_path: Path) -> None:
    session = Session(rows_run(tmp_path, 200, 3), "ana")
    c = session.catalogue
    row = int(np.flatnonzero(c.changes)[0])
    given, suggested = int(c.given[row]), int(c.suggested[row])
    third = 3 - given - suggested
    for number, (label, action) in enumerate(
        [(given, "keep"), (suggested, "accept"), (third, "choose")]
    ):
        session.decide([row], "choose", label, "one", f"batch-{number}")
        assert session.person.action[row] == CODES[action]
        assert session.person.label[row] == label
    session.decide([row], "unsure", None, "one", "batch-9")
    assert session.person.label[row] == -1
    with pytest.raises(ValueError, match="choose a class"):
        session.decide([row], "choose", 99, "one", "batch-10")
    session.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_no_confirmed_decision_is_lost_by_twenty_kills(tmp_path: Path) -> None:
    """SIGKILL at a random moment of a stream of decisions; then again, and again.

    The moment is counted from a confirmed decision, so that a busy machine confirms as many.
    """
    run = rows_run(tmp_path, 3000, 5)
    rng = np.random.default_rng(0)
    nursery = Nursery()
    confirmed: dict[int, int] = {}
    unknown: set[int] = set()
    row = 0
    for _ in range(20):
        pid, url = nursery.start(run)
        client = Client(url).enter()
        stamp = client.get("/one").text.partition('data-stamp="')[2].partition('"')[0]
        moment = threading.Timer(rng.uniform(0.0, 0.02), os.kill, (pid, signal.SIGKILL))
        last = row + int(rng.integers(0, 8))
        while True:
            if row == last:
                moment.start()
            row += 1
            body = {"stamp": stamp, "batch": f"batch-{row:06d}", "rows": [row], "way": "one"}
            try:
                answer = client.post("/api/decide", {**body, "action": "choose", "label": row % 5})
            except (OSError, HTTPException):
                unknown.add(row)
                break
            assert answer.status == 200, answer.text
            confirmed[row] = row % 5
        time.sleep(0.01)
    nursery.close()
    session = Session(run, "ana")
    lost = {row for row, label in confirmed.items() if session.person.label[row] != label}
    assert lost == set()
    decided = set(np.flatnonzero(session.person.decided).tolist())
    assert decided <= set(confirmed) | unknown, "and nothing that nobody decided"
    print(f"{len(confirmed)} decisions confirmed over 20 kills, {len(lost)} lost")
    assert len(confirmed) > 20
    session.close()


def test_a_log_of_an_older_version_takes_discards(tmp_path: Path) -> None:
    old = sqlite3.connect(tmp_path / FILE)
    old.executescript(SCHEMA.replace("'discard', ", ""))
    old.execute(
        "INSERT INTO decision (batch, reviewer, id, action, label, way, time) "
        "VALUES ('batch-001', 'ana', '1', 'accept', 'cat', 'one', '2026-01-01T00:00:00+00:00')"
    )
    old.commit()
    old.close()
    store = Store(tmp_path)
    try:
        assert store.append([LogEntry("batch-002", "ana", "2", "discard", None, "one")])
        assert [entry.action for entry in store.since(0)] == ["accept", "discard"]
    finally:
        store.close()


def test_new_classes_and_discards(tmp_path: Path) -> None:
    session = Session(texts_run(tmp_path, 60), "ana")
    try:
        size = len(session.catalogue.names)
        number = session.new_class("  jazz   music ")
        assert (number, session.catalogue.name(number)) == (size, "jazz music")
        assert session.new_class("jazz music") == number
        assert session.new_class("sport") < size, "one that is already there"
        for name in ("", "x" * 201, "a\x00b"):
            with pytest.raises(ValueError, match="a class needs a name"):
                session.new_class(name)
        session.decide([1], "choose", number, "one", "batch-001")
        session.decide([2, 3], "discard", None, "grid", "batch-002")
        found = export.outcome(session.catalogue, session.ledger.people, seen_only=False)
        assert np.flatnonzero(found.discarded).tolist() == [2, 3]
        assert export.verified_csv(session.catalogue, found)[0] == "id,label\n1,jazz music\n"
        lines = list(csv.DictReader(io.StringIO(export.reviewed_csv(session.catalogue, found))))
        assert [(lines[row]["corrected_label"], lines[row]["review"]) for row in (1, 2)] == [
            ("jazz music", "decided"),
            ("", "discarded"),
        ]
        session.undo(None, "batch-003")
        assert not session.person.action[2]
    finally:
        session.close()


def test_a_new_class_has_the_kind_of_the_others(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", np.arange(20) % 2, [3, 7], np.random.default_rng(0))
    session = Session(run, "ana")
    try:
        assert session.catalogue.name(session.new_class("12")) == "12"
        with pytest.raises(ValueError, match="of the kind integer, and 'cat' is not"):
            session.new_class("cat")
    finally:
        session.close()


def test_a_session_that_cannot_start_leaves_the_log_closed(tmp_path: Path) -> None:
    """An open log keeps a second file beside it, and locks out the next session."""
    make_run(tmp_path)
    run = Run.open(tmp_path / "run")
    (run.path / "features.npy").write_bytes(b"damaged")
    with pytest.raises(ValueError, match=r"features\.npy") as kept:
        Session(run, "ana")
    assert kept.traceback  # what holds the session
    assert not (run.path / "decisions.sqlite-wal").exists()
