"""Runs that hold little, or odd things: every page still answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from csot.review.domain import decision_exports as export
from csot.review.domain.decision_log import LogEntry
from csot.review.domain.filters import Filter
from csot.review.domain.session import RowDetails, Session
from csot.review.domain.shown_row import chance, make_item
from csot.review.web.routes_browse import confusions, other_rows
from csot.runs import Run
from csot.runs.reasons import share
from report.sample_runs import rows_run, texts_run, write_run
from review.serving import serving

VIEWS = ("/", "/one", "/grid", "/precision", "/reviewers", "/export")
EVERY = "?status=any&decided=any"


def findings(ids: list[Any], labels: list[Any]) -> pd.DataFrame:
    """Rows given the first label; every second one should be the second."""
    n = len(ids)
    right = [labels[k % 2] for k in range(n)]
    return pd.DataFrame(
        {
            "given_label": [labels[0]] * n,
            "predicted_label": right,
            "corrected_label": right,
            "is_label_issue": [k % 2 == 1 for k in range(n)],
            "label_score": np.linspace(0.1, 0.9, n),
            "confidence": np.linspace(0.6, 1.0, n),
            "status": ["clean" if k % 2 == 0 else "corrected" for k in range(n)],
            "note": [""] * n,
        },
        index=pd.Index(ids),
    )


def bare_run(folder: Path, ids: list[Any], labels: list[Any]) -> Run:
    run = Run.create(folder / "run")
    run.write_findings(findings(ids, labels))
    run.write_summary({"n_rows": len(ids), "class_names": labels})
    return run


@pytest.mark.parametrize(
    ("ids", "labels", "texts"),
    [
        ([10, 20, 30, 40], ["a", "b"], ["10", "20", "30", "40"]),
        (["x", "y"], [0, 1], ["x", "y"]),
        ([0.5, 1.5], [True, False], ["0.5", "1.5"]),
    ],
)
def test_a_run_with_findings_alone(
    tmp_path: Path, ids: list[Any], labels: list[Any], texts: list[str]
) -> None:
    with serving(bare_run(tmp_path, ids, labels)) as (server, client):
        c = server.session.catalogue
        assert c.ids == texts
        assert c.names == [str(label) for label in labels]
        assert c.given.tolist() == [0] * len(ids)
        assert c.suggested[:2].tolist() == [0, 1]
        assert np.flatnonzero(c.flagged).tolist() == list(range(1, len(ids), 2))
        for view in VIEWS:
            assert client.get(view).status == 200
            assert client.get(view + EVERY).status == 200
        assert "nothing to show of this row but its id" in client.get("/one").text
        assert server.session.samples.neighbours(0) == []
        assert client.get("/image/0").status == 404


def test_an_uncertain_row_asks_about_the_likelier_class(tmp_path: Path) -> None:
    """The run keeps a label that it holds for wrong: the reviewer is asked, no rule changes it."""
    found = findings(["x", "y", "z"], ["a", "b"])
    found["status"] = ["uncertain", "corrected", "uncertain"]
    found["predicted_label"] = "b"
    found["label_score"] = [0.1, 0.1, 0.6]
    run = Run.create(tmp_path / "run")
    run.write_findings(found)
    run.write_summary({"n_rows": 3, "class_names": ["a", "b"]})
    run.write_probabilities(np.array([[0.1, 0.9], [0.1, 0.9], [0.6, 0.4]]))
    session = Session(run, "ana")
    c = session.catalogue
    assert c.suggested.tolist() == [1, 1, 0], "z is likelier to be right as it is"
    assert c.standing.tolist() == [0, 1, 0]
    assert c.confidence[0] == pytest.approx(0.9, abs=1e-3)
    assert c.changes.tolist() == [False, True, False], "precision is about what the run changes"
    assert session.accept_above(0.0, 1, "batch-01") == 1
    assert "changes nothing here by itself" in make_item(session, 0).reason
    assert make_item(session, 1).reason.startswith("Looks like b ("), "though the table has none"
    table = export.reviewed_csv(c, export.outcome(c, {}, seen_only=False))
    assert [line.split(",")[2] for line in table.splitlines()[1:]] == ["a", "b", "a"]
    session.decide([0], "accept", None, "one", "batch-02")
    assert session.person.label[0] == 1
    session.close()


def test_the_reason_of_the_run_is_shown(tmp_path: Path) -> None:
    found = findings(["x", "y"], ["a", "b"])
    found["reason"] = ["The prediction agrees with the label.", "Could be b (55 %) or a (40 %)."]
    run = Run.create(tmp_path / "run")
    run.write_findings(found)
    run.write_summary({"n_rows": 2, "class_names": ["a", "b"]})
    with serving(run) as (server, client):
        assert server.session.catalogue.reasons == found["reason"].tolist()
        assert "Could be b (55\u00a0%) or a (40\u00a0%)." in client.get("/one").text


def test_the_overview_adds_up(tmp_path: Path) -> None:
    """Class pairs, the pairs that are too many to list, and rows without another label."""
    rng = np.random.default_rng(0)
    names = [f"class {number}" for number in range(12)]
    run = write_run(tmp_path / "run", rng.integers(0, 12, 900), names, rng, rate=0.6)
    found = run.read_findings()
    kept = found.index[(found["status"] == "clean")][:7]
    found.loc[kept, "is_label_issue"] = True
    run.write_findings(found)
    with serving(run) as (server, client):
        c = server.session.catalogue
        listed, others = confusions(server.session), other_rows(server.session)
        counts = [pair["count"] for pair in listed]
        assert others["count"] >= 7
        assert others["rare_count"] > 0
        total = sum(counts) + others["rare_count"] + others["count"]
        assert total == int(c.flagged.sum())
        assert len(server.session.selector.rows(Filter(status="unchanged"), server.session.person))
        page = client.get("/").text
        assert "Rarer pairs" in page
        assert f'<td class="n">{others["count"]}</td>' in page
        assert client.get(f"/grid?{others['query']}").status == 200


@pytest.mark.parametrize("probability", [0.0001, 0.3, 0.995, 0.9999, 1.0])
def test_a_probability_has_one_form(probability: float) -> None:
    assert chance(probability).replace("\u00a0", " ") == share(probability)


def test_the_last_decision_leaves_nothing(tmp_path: Path) -> None:
    with serving(bare_run(tmp_path, [1, 2], ["a", "b"])) as (server, client):
        sent = {"stamp": server.session.catalogue.stamp, "batch": "batch-01", "rows": [1]}
        sent |= {"action": "accept", "way": "one", "view": ""}
        answer = client.post("/api/decide", sent).json()
        assert answer["item"]["row"] is None
        assert "Nothing left" in answer["item"]["html"]
        assert "Everything that was worth a look is decided" in client.get("/").text
        again = client.post("/api/decide", sent)
        assert again.status == 200
        assert len(server.session.store.since(0)) == 1, "sent twice, counted once"


def test_what_no_longer_fits_is_kept_but_not_shown(tmp_path: Path) -> None:
    """A later run has fewer ids and classes than the decisions speak of."""
    run = bare_run(tmp_path, ["x", "y"], ["a", "b"])
    session = Session(run, "ana")
    session.store.append([LogEntry("batch-01", "ana", "gone", "choose", "b", "one")])
    session.store.append([LogEntry("batch-02", "ana", "x", "choose", "lost class", "one")])
    session.ledger.refresh()
    assert session.ledger.unknown == {"gone"}
    assert session.catalogue.names[session.person.label[0]] == "lost class"
    assert session.progress().decided == 0, "x is clean"
    assert make_item(session, 0).card.label == "lost class"
    session.close()


def test_files_of_another_run_are_not_used(tmp_path: Path) -> None:
    run = texts_run(tmp_path, 40)
    run.write_probabilities(np.ones((3, 5)))
    run.write_features(np.ones((3, 5)))
    session = Session(run, "ana")
    assert session.catalogue.probabilities is None
    item = make_item(session, 0)
    assert (item.likely, item.neighbours) == ([], [])
    session.close()


def test_neighbours_are_the_nearest(tmp_path: Path) -> None:
    run = rows_run(tmp_path, 300, 4)
    features = np.random.default_rng(0).normal(size=(300, 20)).astype(np.float32)
    features[7] = 0
    run.write_features(features)
    stored = run.read_features()
    assert stored is not None
    assert (stored.dtype, stored.shape) == (np.float16, (300, 20))
    length = np.linalg.norm(features, axis=1, keepdims=True)
    units = features / np.where(length > 0, length, 1)
    session = Session(run, "ana")
    for load in (False, True):
        samples = RowDetails(session.catalogue)
        if load:
            samples.load()
        for row in (0, 5, 299):
            cosine = units @ units[row]
            cosine[row] = -2
            found = samples.neighbours(row)
            np.testing.assert_allclose(
                [one.similarity for one in found], np.sort(cosine)[::-1][:8], atol=2e-3
            )
    assert len(make_item(session, 0).bars) == 20, "bare features are drawn"
    session.close()
    with pytest.raises(ValueError, match=r"features must be \(N, D\)"):
        run.write_features(features[0])


def test_an_own_table_that_does_not_fit_is_left(tmp_path: Path) -> None:
    run = bare_run(tmp_path, ["x", "y"], ["a", "b"])
    (run.path / "corrected.csv").write_text("id,colour,corrected_label\nx,red,a\nz,blue,b\n")
    session = Session(run, "ana")
    assert session.samples.cells(0) == []
    session.close()
    (run.path / "corrected.csv").write_text("id,colour,corrected_label\nx,red,a\ny,blue,b\n")
    session = Session(run, "ana")
    assert session.samples.cells(1) == [("id", "y"), ("colour", "blue")]
    assert "red" in make_item(session, 0).card.text
    session.close()


def test_others_are_shown_after_ones_own_decision(tmp_path: Path) -> None:
    run = bare_run(tmp_path, ["x", "y"], ["a", "b"])
    ben = Session(run, "ben")
    ben.decide([1], "keep", None, "one", "batch-ben")
    ben.close()
    with serving(run) as (server, client):
        assert "ben" not in client.get("/one?row=1").text
        server.session.decide([1], "accept", None, "one", "batch-ana")
        assert make_item(server.session, 1).others == [("ben", "a")]
        assert "ben" in client.get("/one?row=1").text
