"""The audit of a run: on disk, over HTTP, by CSV, and back into `csot clean`."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits
from typer.testing import CliRunner

from csot.audit.sheet import FILE, open_audit
from csot.cli.app import app
from csot.review.domain.decision_log import Store
from csot.review.domain.session import Session
from csot.review.domain.shown_row import make_blind_item
from csot.runs import Run
from csot.runs.source import clean_again
from report.sample_runs import digits_run, rows_run, texts_run
from review.serving import Client, command, environment, serving


def invoke(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == code, result.output
    return " ".join((result.stdout if code == 0 else result.stderr).split())


def stamp_of(client: Client) -> str:
    return client.get("/audit").text.partition('data-stamp="')[2].partition('"')[0]


def post(client: Client, path: str, number: int, **body: Any) -> Any:
    sent = {"stamp": stamp_of(client), "batch": f"batch-{number:05d}", **body}
    answer = client.post(path, sent)
    assert answer.status == 200, answer.text
    return answer.json()


def choose(client: Client, number: int, row: int, label: int) -> Any:
    body = {"rows": [row], "action": "choose", "label": label, "way": "audit"}
    return post(client, "/api/audit/decide", number, **body)


def test_from_start_to_result(tmp_path: Path) -> None:
    run = rows_run(tmp_path, 2000, 4)
    with serving(run) as (server, client):
        start = client.get("/audit").text
        assert "How many of the 2,000 labels are wrong?" in start
        assert client.get("/audit/result").status == 409
        assert post(client, "/api/audit/start", 0, rows=50) == {"planned": 50}
        session = server.session
        plan, c = session.auditing.plan, session.catalogue
        assert plan is not None
        rng = np.random.default_rng(0)
        answers = np.where(rng.random(50) < 0.7, c.given[plan.rows], c.suggested[plan.rows])
        row = int(plan.rows[0])
        for number, label in enumerate(answers.tolist()):
            assert row == plan.rows[number]
            answer = choose(client, number + 1, row, label)
            row = answer["item"]["row"]
        assert row is None
        assert "All 50 rows are done" in answer["item"]["html"]
        state = session.auditing.state(plan, session.person)
        assert (state.done, state.left, state.unsure) == (50, 0, 0)
        assert state.result == open_audit(run).estimate([c.names[k] for k in answers])
        page = client.get("/audit/result").text
        assert "of the labels are wrong" in page
        assert str(run.path / "verified.csv") in page
        verified = pd.read_csv(run.path / "verified.csv", dtype=str)
        assert set(verified["id"]) == {c.ids[row] for row in plan.rows}, "written when done"
        # More rows: the same ones first, and none of them is asked again.
        assert post(client, "/api/audit/start", 80, rows=100) == {"planned": 100}
        longer = session.auditing.plan
        assert longer is not None
        np.testing.assert_array_equal(longer.rows[:50], plan.rows)
        assert f'data-row="{longer.rows[50]}"' in client.get("/audit").text
        entries = session.store.since(0)
        assert {entry.way for entry in entries} == {"audit"}
        undone = post(client, "/api/audit/undo", 90)
        assert undone["item"]["row"] == plan.rows[-1]
    again = Session(run, "ana")
    assert again.auditing.plan is not None
    np.testing.assert_array_equal(again.auditing.plan.rows, longer.rows)
    assert again.person.seen.sum() == 49
    again.close()


def test_what_is_sent_is_checked(tmp_path: Path) -> None:
    run = rows_run(tmp_path, 300, 3)
    with serving(run) as (server, client):
        stamp = stamp_of(client)
        sent = {"stamp": stamp, "batch": "batch-00001", "way": "audit", "action": "choose"}
        answer = client.post("/api/audit/decide", {**sent, "rows": [0], "label": 1})
        assert answer.status == 409, "there is no audit yet"
        post(client, "/api/audit/start", 0, rows=50)
        plan = server.session.auditing.plan
        assert plan is not None
        inside = int(plan.rows[0])
        outside = int(np.setdiff1d(np.arange(300), plan.rows)[0])
        for body in (
            {"rows": [outside], "label": 1},
            {"rows": [inside], "label": 1, "way": "one"},
            {"rows": [inside], "action": "accept"},
            {"rows": plan.rows[:2].tolist(), "label": 1},
            {"rows": [inside], "label": 99},
            {"rows": [inside]},
        ):
            assert client.post("/api/audit/decide", {**sent, **body}).status == 400, body
        other = {**sent, "rows": [inside], "label": 1}
        assert client.post("/api/decide", other).status == 400, "audits have their own address"
        assert client.post("/api/audit/start", {**sent, "rows": 0}).status == 422
        assert not server.session.person.decided.any()
        assert client.get("/api/audit/step?row=99999&by=1").status == 404


def test_skipping_comes_back_at_the_end(tmp_path: Path) -> None:
    session = Session(rows_run(tmp_path, 300, 3), "ana")
    session.auditing.start(20)
    plan, auditing = session.auditing.plan, session.auditing
    assert plan is not None
    order = plan.rows.tolist()
    assert auditing.next_row(plan, session.person, order[0]) == order[1]
    assert auditing.previous_row(plan, order[1]) == order[0]
    assert auditing.previous_row(plan, order[0]) is None
    for number, row in enumerate(order[1:]):
        session.decide([row], "unsure", None, "audit", f"batch-{number:05d}")
    assert auditing.next_row(plan, session.person, order[-1]) == order[0]
    state = auditing.state(plan, session.person)
    assert (state.done, state.unsure, state.result) == (19, 19, None)
    # A decision made elsewhere counts, one by a rule does not.
    session.decide([order[0]], "choose", 1, "grid", "batch-grid")
    result = auditing.state(plan, session.person).result
    assert result is not None
    assert result.judged == 1
    session.decide([order[0]], "choose", 1, "rule", "batch-rule")
    assert auditing.next_row(plan, session.person) == order[0]
    session.close()


def test_nothing_tells_the_given_or_suggested_label(tmp_path: Path) -> None:
    """What is served for two rows that differ only in what the run says of them is the same."""
    pytest.importorskip("PIL")
    session = Session(digits_run(tmp_path / "a", 300), "ana")
    item = make_blind_item(session, 5)
    assert item.id == "0005.png", "the folder is the given label"
    assert [choice.name for choice in item.choices] == [str(k) for k in range(10)]
    assert [choice.key for choice in item.choices] == [str(k) for k in range(10)]
    session.close()
    many = Session(rows_run(tmp_path / "b", 400, 40), "ana")
    c = many.catalogue
    for row in range(0, 400, 7):
        numbers = [choice.number for choice in make_blind_item(many, row).choices]
        assert numbers == sorted(numbers)
        assert {int(c.given[row]), int(c.suggested[row])} <= set(numbers)
        assert len(numbers) == 5
    many.close()
    with serving(texts_run(tmp_path / "c", 200)) as (_, client):
        post(client, "/api/audit/start", 0, rows=50)
        page = client.get("/audit").text
        for word in ("Suggested", 'suggested"', "accept", "Keep", "probability", "Nearest"):
            assert word not in page, word


def test_the_plan_belongs_to_the_findings(tmp_path: Path) -> None:
    run = rows_run(tmp_path, 300, 3)
    first = open_audit(run, 50)
    assert first is not None
    assert open_audit(run, 50, seed=9).table.equals(first.table), "resumed, not redrawn"
    assert len(open_audit(run, 20)) == 20
    assert len(open_audit(run)) == 50, "asking for fewer takes nothing away"
    stored = json.loads((run.path / FILE).read_text())
    assert stored["seed"] == 0
    assert [row["id"] for row in stored["rows"]] == [str(key) for key in first.table.index]
    assert sum(1 / row["inclusion_probability"] for row in stored["rows"]) == pytest.approx(300)
    findings = run.read_findings()
    findings["label_score"] = findings["label_score"] * 0.9
    run.write_findings(findings)
    assert open_audit(run) is None, "the run was made anew"
    (run.path / FILE).write_text("{}")
    with pytest.raises(ValueError, match=r"audit\.json is not an audit .* move it away"):
        open_audit(run)


def test_a_log_from_before_there_were_audits(tmp_path: Path) -> None:
    store = Store(tmp_path)
    made = "SELECT sql FROM sqlite_master WHERE name = 'decision'"
    new = store._base.execute(made).fetchone()[0]
    store.close()
    path = tmp_path / "decisions.sqlite"
    path.unlink()
    with sqlite3.connect(path) as base:
        base.execute(new.replace(", 'audit'", ""))
        base.execute("CREATE INDEX decision_batch ON decision (batch)")
        row = (
            "INSERT INTO decision VALUES (7, 'b-1', 'ana', 'x', 'choose', 'cat', 'one', NULL, "
            "'2026-01-01T00:00:00+00:00')"
        )
        base.execute(row)
        with pytest.raises(sqlite3.IntegrityError):
            base.execute(row.replace("(7", "(8").replace("'one'", "'audit'"))
    base.close()
    for _ in range(2):
        store = Store(tmp_path)
        (entry,) = store.since(0)[:1]
        assert (entry.seq, entry.id, entry.label, entry.way) == (7, "x", "cat", "one")
        store.close()
    store = Store(tmp_path)
    assert store.append([entry._replace(batch="b-2", way="audit", time="")])
    assert [(line.seq, line.way) for line in store.since(0)] == [(7, "one"), (8, "audit")]
    store.close()


def test_by_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clean, propose, fill in, estimate, and clean again by the printed command."""
    monkeypatch.chdir(tmp_path)
    pixels, truth = load_digits(n_class=3, return_X_y=True)
    pixels, truth = pixels[:200], truth[:200]
    rng = np.random.default_rng(0)
    labels = np.where(rng.random(200) < 0.2, (truth + rng.integers(1, 3, 200)) % 3, truth)
    table = pd.DataFrame(pixels, columns=[f"p{k}" for k in range(64)])
    table["class"] = labels
    table.to_csv("digits.csv", index=False)
    invoke("clean", "digits.csv", "--label", "class", "--out", "run")
    assert "to about ±" in invoke("audit", "run", "--rows", "60")
    said = invoke("audit", "run", "--rows", "60", "--out", "audit.csv")
    assert "csot audit run --results audit.csv" in said
    again = "csot clean digits.csv --out run --label class --verified audit.csv"
    assert again in said
    assert "exists" in invoke("audit", "run", "--out", "audit.csv", code=2)
    assert "is empty everywhere" in invoke("audit", "run", "--results", "audit.csv", code=2)
    sheet = pd.read_csv("audit.csv", dtype=str, keep_default_na=False)
    assert sheet.columns.tolist() == [
        "id", "order", "stratum", "inclusion_probability", "weight",
        *(f"p{k}" for k in range(16)), "verified_label",
    ]  # fmt: skip
    assert sheet["p2"].astype(float).tolist() == pixels[sheet["id"].astype(int), 2].tolist()
    sheet["verified_label"] = [str(truth[int(key)]) for key in sheet["id"]]
    sheet.loc[3, "verified_label"] = ""
    sheet.to_csv("audit.csv", index=False)
    said = invoke("audit", "run", "--results", "audit.csv")
    assert "59 of 60 rows verified" in said
    assert "given labels that are wrong" in said
    assert again in said
    sheet.assign(verified_label="9").to_csv("odd.csv", index=False)
    assert "'9' of id" in invoke("audit", "run", "--results", "odd.csv", code=2)
    assert "needs the columns" in invoke("audit", "run", "--results", "digits.csv", code=2)
    assert "does not exist" in invoke("audit", "run", "--results", "none.csv", code=2)
    both = ("audit", "run", "--results", "audit.csv", "--out", "other.csv")
    assert "give one of the two" in invoke(*both, code=2)
    # From another folder the command names the same files.
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    words = shlex.split(clean_again(Run.open(tmp_path / "run"), tmp_path / "audit.csv"))
    assert words[2] == str(tmp_path / "digits.csv")
    assert words[words.index("--out") + 1] == str(tmp_path / "run")
    invoke(*words[1:])
    findings = Run.open(tmp_path / "run").read_findings()
    locked = findings[findings["note"] == "verified"]
    assert len(locked) == 59
    assert (locked["corrected_label"].to_numpy() == truth[locked.index.astype(int)]).all()
    assert "has no audit of its findings" in invoke(
        "audit", str(tmp_path / "run"), "--results", str(tmp_path / "audit.csv"), code=2
    )
    np.testing.assert_array_equal(pd.read_csv(tmp_path / "digits.csv")["class"], labels)


def test_the_sheet_shows_the_sample_and_no_label(tmp_path: Path) -> None:
    run = texts_run(tmp_path, 200)
    out = tmp_path / "sheet.csv"
    invoke("audit", str(run.path), "--rows", "50", "--out", str(out))
    sheet = pd.read_csv(out, dtype=str, keep_default_na=False)
    assert len(sheet) == 50
    samples = run.read_samples()
    assert samples is not None
    assert sheet["text"].tolist() == samples["text"].loc[sheet["id"].astype(int)].tolist()
    assert not {"given_label", "suggested_label", "predicted_label"} & set(sheet.columns)


def test_the_review_opens_with_it(tmp_path: Path) -> None:
    run = rows_run(tmp_path, 300, 3)
    with command(run.path, "--port", "0", "--reviewer", "ana", "--audit", "50") as (process, url):
        client = Client(url)
        answer = client.get(f"/?{client.query}")
        assert answer.headers["location"] == "/audit"
        client.enter()
        row = int(client.get("/audit").text.partition('data-row="')[2].partition('"')[0])
        choose(client, 1, row, 1)
        process.kill()
        process.wait()
    with command(run.path, "--port", "0", "--reviewer", "ana", "--audit", "50") as (process, url):
        client = Client(url).enter()
        assert "<strong>1</strong> of 50 verified" in client.get("/audit").text, "it goes on"
        process.send_signal(signal.SIGINT)
        assert process.stdout is not None
        said = process.stdout.read()
        assert process.wait(25) == 0
    assert "Audit: 1 of 50 rows" in said
    assert f"--verified {run.path}{os.sep}verified.csv" in said
    assert (run.path / "verified.csv").exists()


def test_it_needs_neither_torch_nor_the_web() -> None:
    code = "import csot, sys; csot.propose_audit; import csot.cli.audit; print(*sys.modules)"
    arguments = [sys.executable, "-c", code]
    done = subprocess.run(arguments, capture_output=True, text=True, env=environment(), check=True)
    assert {"torch", "sklearn", "scipy", "fastapi", "uvicorn"}.isdisjoint(done.stdout.split())
