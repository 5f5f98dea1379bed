"""`csot clean` on the votes of several annotators, and on the decisions of two reviewers."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from sklearn.datasets import load_digits
from typer.testing import CliRunner, Result

from csot.cli.app import app
from csot.review.domain import decision_exports as export
from csot.review.domain.session import Session
from csot.runs import Run

N = 150
SKILLS = {"ana": 0.95, "ben": 0.8, "cleo": 0.6, "dan": 0.35}
LETTERS = """
import numpy as np
def embed(texts):
    return np.array([[text.count(letter) for letter in "abcdefgh"] for text in texts], float)
"""


def csot(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def passes(*arguments: str | Path) -> str:
    result = csot(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def fails(*arguments: str | Path) -> str:
    result = csot(*arguments)
    assert result.exit_code == 2, result.output
    return result.stderr.strip().splitlines()[-1]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "letter_embedder.py").write_text(LETTERS)
    return tmp_path


def digits() -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    pixels, truth = load_digits(n_class=3, return_X_y=True)
    return pixels[:N], truth[:N]


def write_votes(path: Path) -> npt.NDArray[np.int64]:
    """A row per vote, in random order, the pixels repeated; the last sample has no vote."""
    pixels, truth = digits()
    rng = np.random.default_rng(0)
    rows = []
    for i in range(N):
        for name, skill in SKILLS.items():
            if rng.random() < 0.6:
                label: object = truth[i] if rng.random() < skill else (truth[i] + 1) % 3
                rows.append([f"{i:03d}", name, "" if i == N - 1 else label, *pixels[i]])
    columns = ["code", "who", "label", *(f"p{k}" for k in range(64))]
    table = pd.DataFrame(rows, columns=columns).sample(frac=1, random_state=0)
    table.to_csv(path, index=False)
    return truth


def test_a_table_of_votes(folder: Path) -> None:
    truth = write_votes(folder / "votes.csv")
    table = pd.read_csv("votes.csv", dtype={"code": str})
    command = ("clean", "votes.csv", "--label", "label", "--annotator", "who", "--id", "code")
    printed = passes(*command, "--out", "run")
    assert "majority votes that look wrong" in printed
    assert printed.index("ana") < printed.index("ben") < printed.index("dan")
    assert "--annotator who" in printed, "the next command"

    findings = pd.read_csv("run/findings.csv", dtype={"id": str}).set_index("id")
    assert findings.index.tolist() == table["code"].drop_duplicates().tolist()
    right = findings["corrected_label"] == truth[findings.index.astype(int)]
    majority = findings["given_label"] == truth[findings.index.astype(int)]
    assert right.mean() > 0.97 > majority.mean()
    silent = findings.loc[f"{N - 1:03d}"]
    assert (silent["note"], silent["corrected_label"]) == ("no label given", truth[-1])

    annotators = pd.read_csv("run/annotators.csv", index_col="annotator")
    assert annotators.index.tolist() == list(SKILLS), "best first"
    voted = table[table["label"].notna()]
    assert annotators["n_votes"].to_dict() == voted["who"].value_counts().to_dict()
    assert (
        annotators["quality"].between(annotators["quality_low"], annotators["quality_high"]).all()
    )
    votes = pd.read_csv("run/votes.csv", dtype={"id": str})
    assert votes.columns[:3].tolist() == ["id", "annotator", "label"]
    assert len(votes) == len(voted)
    wrong = votes["label"].to_numpy() != truth[votes["id"].astype(int)]
    assert (votes["is_vote_issue"] == wrong).mean() > 0.97

    corrected = pd.read_csv("run/corrected.csv", dtype={"code": str})
    assert corrected["code"].tolist() == findings.index.tolist(), "one row per sample"
    assert "who" not in corrected
    assert (corrected["corrected_label"].to_numpy() == findings["corrected_label"]).all()
    summary = json.loads(Path("run/summary.json").read_text())
    assert summary["n_annotators"] == 4
    assert summary["n_votes"] == len(voted)
    assert summary["n_unlabelled"] == 1
    page = Path("run/report.html").read_text()
    assert 'href="#annotators"' in page
    assert "<bdi>cleo</bdi>" in page
    assert csot("report", "run").exit_code == 0
    session = Session(Run.open("run"), "eve")
    assert "p0" in dict(session.samples.cells(0)), "the review shows the sample's row"
    session.close()


def test_texts_are_their_own_ids(folder: Path) -> None:
    rng = np.random.default_rng(0)
    rows = []
    for k in range(40):
        text = "".join(rng.choice(list("abcd" if k % 2 else "efgh"), 20))
        for name, skill in (("ana", 0.9), ("ben", 0.8), ("cy", 0.6)):
            label = k % 2 if rng.random() < skill else 1 - k % 2
            rows.append([text, name, ("late", "early")[label]])
    table = pd.DataFrame(rows, columns=["text", "who", "label"])
    table.to_csv("t.csv", index=False)
    command = ("clean", "t.csv", "--label", "label", "--text", "text", "--annotator", "who")
    passes(*command, "--embedder", "letter_embedder:embed", "--out", "run")
    findings = pd.read_csv("run/findings.csv")
    assert len(findings) == 40
    expected = ["early" if set(text) <= set("abcd") else "late" for text in findings["id"]]
    assert (findings["corrected_label"] == expected).mean() > 0.95


def test_two_reviewers_are_two_annotators(folder: Path) -> None:
    """Clean, decide as two people, feed the decisions back as votes beside the given labels."""
    pixels, truth = digits()
    rng = np.random.default_rng(1)
    given = np.where(rng.random(N) < 0.2, (truth + 1) % 3, truth)
    table = pd.DataFrame(pixels, columns=[f"p{k}" for k in range(64)])
    table.insert(0, "code", [f"s{k}" for k in range(N)])
    table.assign(label=given).to_csv("d.csv", index=False)
    command = ("clean", "d.csv", "--label", "label", "--id", "code", "--out", "run")
    passes(*command)
    assert not Path("run/annotators.csv").exists()
    for name, skill in (("ana", 0.95), ("ben", 0.6)):
        session = Session(Run.open("run"), name)
        for row in range(60):
            label = truth[row] if rng.random() < skill else (truth[row] + 1) % 3
            session.decide([row], "choose", int(label), "one", f"{name}-batch-{row:04d}")
        session.decide([70], "unsure", None, "one", f"{name}-unsure-1")
        written = export.write_exports(session.catalogue, session.ledger.people, seen_only=False)
        session.close()
    votes = pd.read_csv(written["decisions.csv"])
    assert votes.columns.tolist() == ["id", "annotator", "label"]
    assert votes["annotator"].value_counts().to_dict() == {"ana": 60, "ben": 60}

    printed = passes(*command, "--votes", "run/decisions.csv")
    assert "--votes run/decisions.csv" in printed
    annotators = pd.read_csv("run/annotators.csv", index_col="annotator")
    assert set(annotators.index) == {"ana", "ben", "given"}
    assert annotators.index[0] == "ana"
    assert annotators.loc["given", "n_votes"] == N
    assert annotators.loc["ben", "quality"] < 0.75
    findings = pd.read_csv("run/findings.csv")
    assert (findings["corrected_label"] == truth).mean() > 0.97
    assert len(pd.read_csv("run/votes.csv")) == N + 120

    passes(*command)
    assert not Path("run/annotators.csv").exists(), "what no longer holds is gone"
    assert not Path("run/votes.csv").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--annotator", "woh", "--id", "code"], "no column 'woh' (--annotator)"),
        (["--annotator", "who"], "name the column that says which sample a vote is on with --id"),
        (["--annotator", "label", "--id", "code"], "labels and ids need another column"),
        (["--annotator", "p1", "--id", "code", "--features", "p1"], "cannot also be what it is"),
        (["--annotator", "who", "--id", "code", "--class-prior", "uniform"], "leave it out"),
        (["--votes", "none.csv"], "none.csv does not exist (--votes)"),
        (["--votes", "short.csv"], "short.csv has no column 'annotator' (--votes)"),
        (["--votes", "alien.csv"], "the vote '7' in row 1 (from 0) is not a class of the data"),
        (["--votes", "self.csv"], "'given' stands for the labels of the data"),
        (["--votes", "nobody.csv"], "annotator '' in row 0 (from 0): fill it in"),
        (["--votes", "unknown.csv"], "none of its 1 ids is in the data"),
        (["--votes", "empty.csv"], "holds no vote"),
    ],
)
def test_errors(folder: Path, arguments: list[str], message: str) -> None:
    Path("t.csv").write_text("code,who,label,p1,p2\na,x,0,1,2\nb,x,1,3,4\nc,y,0,1,1\nd,y,1,3,3\n")
    Path("short.csv").write_text("id,label\n0,1\n")
    Path("alien.csv").write_text("id,annotator,label\n0,x,1\n1,x,7\n")
    Path("self.csv").write_text("id,annotator,label\n0,given,1\n")
    Path("nobody.csv").write_text("id,annotator,label\n0,,1\n")
    Path("unknown.csv").write_text("id,annotator,label\nzz,x,1\n")
    Path("empty.csv").write_text("id,annotator,label\n0,x,\n")
    assert message in fails("clean", "t.csv", "--label", "label", "--out", "run", *arguments)
    assert not Path("run").exists()


def test_an_annotator_without_a_name(folder: Path) -> None:
    Path("t.csv").write_text("id,who,label,p\na,x,0,1\na,,1,1\nb,x,1,2\nb,y,1,2\n")
    line = fails("clean", "t.csv", "--label", "label", "--annotator", "who", "--out", "run")
    assert "no annotator in row 1 (from 0)" in line


def test_annotators_are_for_tables(folder: Path) -> None:
    np.savez("d.npz", features=np.zeros((4, 2)), labels=[0, 1, 0, 1])
    assert "--annotator" in fails("clean", "d.npz", "--annotator", "who", "--out", "run")


PAGE = (Path(__file__).parents[2] / "docs" / "annotators.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"```sh\n(.*?)\n```", PAGE, re.DOTALL)


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_of_the_page(folder: Path, command: str) -> None:
    kinds = np.array(["cat", "dog"])[np.arange(24) % 2]
    size = np.arange(24) % 2 + np.random.default_rng(0).normal(0, 0.1, (2, 24))
    code = [f"{k:03d}" for k in range(24)]
    table = pd.DataFrame({"code": code, "kind": kinds, "width": size[0], "height": size[1]})
    table.to_csv("measured.csv", index=False)
    pd.concat([table.assign(who="ann"), table.assign(who="bob")]).to_csv("votes.csv", index=False)
    votes = pd.DataFrame({"id": code[:9], "annotator": "eve", "label": kinds[:9]})
    votes.to_csv("opinions.csv", index=False)
    Run.create("run")
    votes.to_csv("run/decisions.csv", index=False)
    program, *arguments = shlex.split(command)
    assert program == "csot"
    passes(*arguments)
    assert Path("run/annotators.csv").exists()
