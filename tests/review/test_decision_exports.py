"""Decisions go out, and `csot clean --verified` takes them back."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits
from typer.testing import CliRunner

from csot.cli.app import app
from csot.review.domain import decision_exports as export
from csot.review.domain.session import Session
from csot.runs import Run
from report.sample_runs import texts_run, write_run
from review.serving import serving

N = 150


def clean(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["clean", *arguments])
    assert result.exit_code == 0, result.output
    return result.output


def table_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_round_trip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clean, decide, export, clean again: those rows are locked, and a third round keeps them."""
    monkeypatch.chdir(tmp_path)
    pixels, truth = load_digits(n_class=3, return_X_y=True)
    pixels, truth = pixels[:N], truth[:N]
    rng = np.random.default_rng(0)
    labels = np.where(rng.random(N) < 0.15, (truth + rng.integers(1, 3, N)) % 3, truth)
    table = pd.DataFrame(pixels, columns=[f"p{k}" for k in range(64)])
    table.insert(0, "code", [f"{k:04d}" for k in range(N)])
    table["class"] = labels
    table.to_csv("digits.csv", index=False)
    command = ["digits.csv", "--label", "class", "--id", "code", "--out", "run"]
    assert "csot review run" in clean(*command)
    run = Run.open("run")
    assert run.read_features() is not None

    session = Session(run, "ana")
    rows = np.flatnonzero(session.catalogue.flagged)[:12].tolist()
    for row in rows:
        session.decide([row], "choose", int(truth[row]), "one", f"batch-{row:05d}")
    assert session.samples.cells(rows[0])[0] == ("code", f"{rows[0]:04d}")
    assert "class" not in dict(session.samples.cells(rows[0]))
    near = session.samples.neighbours(rows[0])
    assert len(near) == 8
    assert sorted(near, key=lambda one: -one.similarity) == near
    assert rows[0] not in [one.row for one in near]
    written = export.write_exports(session.catalogue, session.ledger.people, seen_only=False)
    session.close()
    verified = pd.read_csv("run/verified.csv", dtype=str)
    assert verified["id"].tolist() == [f"{row:04d}" for row in sorted(rows)]
    assert verified["label"].astype(int).tolist() == truth[sorted(rows)].tolist()
    reviewed = pd.read_csv(written["reviewed.csv"], dtype={"code": str})
    assert reviewed.columns.tolist() == [*table.columns, "corrected_label", "review"]
    assert (reviewed["corrected_label"][rows] == truth[rows]).all()
    assert (reviewed["review"] == "decided").sum() == len(rows)
    tasks = json.loads(written["reviewed_label_studio.json"].read_text())
    assert len(tasks) == N
    made = {task["data"]["sample_id"]: task["annotations"] for task in tasks if task["annotations"]}
    assert set(made) == set(verified["id"])
    choice = made[f"{rows[0]:04d}"][0]
    assert choice["result"][0]["value"] == {"choices": [str(truth[rows[0]])]}
    assert choice["result"][0]["to_name"] == "row"
    assert choice["meta"] == {"reviewer": "ana"}

    clean(*command, "--verified", "run/verified.csv")
    findings = run.read_findings()
    locked = findings.loc[verified["id"]]
    assert (locked["note"] == "verified").all()
    assert (locked["corrected_label"].to_numpy() == truth[sorted(rows)]).all()
    assert not locked["is_label_issue"].any()
    again = Session(run, "ben")
    assert not again.catalogue.flagged[rows].any(), "what is verified is not asked again"
    found = export.outcome(again.catalogue, {}, seen_only=False)
    assert table_of(export.verified_csv(again.catalogue, found)[0]) == table_of(
        Path("run/verified.csv").read_text()
    ), "a reviewer who starts anew does not unlock them"
    again.close()


def decided(tmp_path: Path) -> Session:
    session = Session(texts_run(tmp_path, 120), "ana")
    session.decide([0, 1], "choose", 1, "grid", "batch-ana-1")
    session.decide([2], "unsure", None, "one", "batch-ana-2")
    left = session.catalogue.changes & ~session.person.decided
    left &= session.catalogue.confidence >= 0.9
    session.accept_above(0.9, int(left.sum()), "batch-ana-3")
    other = Session(session.catalogue.run, "ben")
    other.decide([1, 2], "choose", 2, "grid", "batch-ben-1")
    other.close()
    session.ledger.refresh()
    return session


def test_only_what_all_agree_on_is_verified(tmp_path: Path) -> None:
    session = decided(tmp_path)
    c, people = session.catalogue, session.ledger.people
    found = export.outcome(c, people, seen_only=False)
    labels = {row["id"]: row["label"] for row in table_of(export.verified_csv(c, found)[0])}
    assert labels["0"] == c.names[1]
    assert "1" not in labels
    assert labels["2"] == c.names[2]
    seen = export.outcome(c, people, seen_only=True)
    assert {row["id"] for row in table_of(export.verified_csv(c, seen)[0])} == {"0", "2"}
    assert len(labels) > 2
    rule = int(next(key for key in labels if key not in {"0", "2"}))
    row = table_of(export.reviewed_csv(c, seen))[rule]
    assert row["review"] == "", "accepted unseen and left out: nobody decided"
    assert row["corrected_label"] == c.names[c.standing[rule]]
    tasks = json.loads(export.label_studio_json(c, export.only_seen(people)))
    assert {task["data"]["sample_id"] for task in tasks if task["annotations"]} <= {"0", "1", "2"}
    reviewed = table_of(export.reviewed_csv(c, found))
    assert [row["review"] for row in reviewed[:3]] == ["decided", "disagreement", "decided"]
    given = c.name(int(c.given[1])) or ""
    assert reviewed[1]["corrected_label"] == given, "what is disputed stays as it was"
    apart = table_of(export.disagreements_csv(c, people))
    assert apart == [{"id": "1", "ana": c.names[1], "ben": c.names[2]}]
    session.close()


def test_downloads_are_what_is_written(tmp_path: Path) -> None:
    session = decided(tmp_path)
    run = session.catalogue.run
    session.close()
    with serving(run) as (_, client):
        page = client.get("/export").text
        assert "accepted by rule, unseen" in page
        assert "csot clean articles.csv --out" in page
        assert f"--votes {run.path / 'decisions.csv'}" in page
        stamp = page.partition('data-stamp="')[2].partition('"')[0]
        sent = {"stamp": stamp, "batch": "batch-export", "seen_only": False}
        written = client.post("/api/export", sent).json()["written"]
        assert len(written) == 4
        for path in map(Path, written):
            answer = client.get(f"/download/{path.name}")
            assert answer.content == path.read_bytes()
            assert "attachment" in answer.headers["content-disposition"]
        assert client.get("/download/verified.csv?seen=1").text.count("\n") == 3
        page = client.get("/reviewers").text
        assert "ana" in page
        assert "Cohen" in page
        assert client.get("/download/disagreements.csv").text.count("\n") == 2


def test_hostile_ids_and_labels(tmp_path: Path) -> None:
    """Every id that a CSV in UTF-8 can hold comes through; the others are counted."""
    ids = ["=1+1", "a,b", 'q"q', "new\nline", "ret\rurn", "caf\udce9.png", "\\u0041", "é", " "]
    rng = np.random.default_rng(0)
    index: Any = pd.Index(ids, dtype=object)
    run = write_run(tmp_path / "run", np.arange(9) % 2, ['x"y,z', "naïve"], rng, ids=index)
    session = Session(run, "ana")
    session.decide(list(range(9)), "choose", 0, "grid", "batch-all")
    found = export.outcome(session.catalogue, session.ledger.people, seen_only=False)
    text, rows, odd = export.verified_csv(session.catalogue, found)
    assert (rows, odd) == (8, 1)
    back = pd.read_csv(io.StringIO(text), dtype=str, keep_default_na=False)
    assert back["id"].tolist() == [key for key in ids if "\udce9" not in key]
    assert set(back["label"]) == {'x"y,z'}
    export.write_exports(session.catalogue, session.ledger.people, seen_only=False)
    assert "\udce9" in session.catalogue.ids[5]
    session.close()
