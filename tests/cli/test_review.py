"""`csot review` itself: what it prints, how it ends, what it says when it cannot start."""

from __future__ import annotations

import importlib
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from csot._core.errors import MissingExtraError
from csot.cli.app import app
from csot.runs import Run
from report.sample_runs import rows_run
from review.serving import Client, command, environment


def fails(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["review", *arguments])
    assert result.exit_code == 2, result.output
    return " ".join(result.stderr.split())


def test_it_prints_the_address_and_ends_cleanly(big_run: Run) -> None:
    start = time.perf_counter()
    with command(big_run.path, "--port", "0", "--reviewer", "Ana") as (process, url):
        seconds = time.perf_counter() - start
        client = Client(url).enter()
        assert "100,000 labels" in client.get("/").text
        print(f"ready after {seconds:.2f} s with 100,000 rows")
        process.send_signal(signal.SIGINT)
        assert process.stdout is not None
        assert process.stderr is not None
        assert "Every decision is in" in process.stdout.read()
        assert process.stderr.read() == ""
        assert process.wait(25) == 0
    assert not (big_run.path / "decisions.sqlite-wal").exists(), "folded into the file"


def test_nothing_heavy_is_imported() -> None:
    """Nor FastAPI for reading decisions, which `csot clean` does without the extra `review`."""
    code = (
        "import sys, csot.cli.review, csot.review.domain.decision_exports; print(*sys.modules); "
        "from csot.review import ReviewServer; print(*sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=True
    )
    heavy = {"torch", "sklearn", "scipy", "matplotlib", "PIL", "csot.clean", "csot.ot"}
    decisions, server = (set(line.split()) for line in result.stdout.splitlines())
    assert heavy.isdisjoint(server)
    assert {"fastapi", "uvicorn"}.isdisjoint(decisions)
    assert {"fastapi", "uvicorn"} <= server


def test_what_cannot_work_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = str(rows_run(tmp_path, 50, 3).path)
    assert "nowhere does not exist" in fails("nowhere")
    assert "is not a run" in fails(str(tmp_path))
    assert "--allow-remote" in fails(run, "--host", "0.0.0.0", "--no-browser")
    assert "is not an address" in fails(run, "--host", "no.such.host.invalid", "--allow-remote")
    assert "--reviewer" in fails(run, "--reviewer", " ")
    assert "--reviewer" in fails(run, "--reviewer", "x" * 61)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert f"cannot listen on 127.0.0.1:{port}" in fails(run, "--port", port)
    monkeypatch.setattr(
        "csot._core.errors.require",
        lambda *_: (_ for _ in ()).throw(MissingExtraError("pip install 'csot[review]'")),
    )
    assert "csot[review]" in fails(run)


def test_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    errors = importlib.import_module("csot._core.errors")
    monkeypatch.setitem(sys.modules, "fastapi", None)
    with pytest.raises(MissingExtraError, match=r"fastapi: pip install 'csot\[review\]'"):
        errors.require("fastapi", "review", "csot review")


def test_a_taken_port_is_no_trouble_if_none_was_asked_for(tmp_path: Path) -> None:
    from csot.review import ReviewServer

    run = rows_run(tmp_path, 50, 3)
    servers = [ReviewServer(run, reviewer=name) for name in ("ana", "ben")]
    assert servers[0].port != servers[1].port
    for server in servers:
        server._socket.close()
        server.session.close()
