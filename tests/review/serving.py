"""A review server to test with: in this process, or one that can be killed."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import csot.review
from csot.review import ReviewServer
from csot.runs import Run

SOURCE = str(Path(csot.review.__file__).parents[2])
ZYGOTE = """
import os, sys
from csot.runs import Run
from csot.review import ReviewServer
for folder in sys.stdin:
    if os.fork() == 0:
        server = ReviewServer(Run.open(folder.strip()), reviewer="ana", port=0)
        server.serve(lambda: print(os.getpid(), server.url, flush=True))
        os._exit(0)
"""


class Answer:
    def __init__(self, status: int, headers: Mapping[str, str], content: bytes) -> None:
        self.status = status
        self.headers = {name.lower(): value for name, value in headers.items()}
        self.content = content

    @property
    def text(self) -> str:
        return self.content.decode("utf-8")

    def json(self) -> Any:
        return json.loads(self.content)


class Client:
    """What a browser would send, to the letter."""

    def __init__(self, url: str) -> None:
        self.url = url
        parts = urlsplit(url)
        self.host, self.port, self.query = parts.hostname, parts.port, parts.query
        self.base = f"{parts.scheme}://{parts.netloc}"
        self.cookie = ""

    def enter(self) -> Client:
        answer = self.get(f"/?{self.query}")
        assert answer.status == 303
        self.cookie = answer.headers["set-cookie"].partition(";")[0]
        return self

    def get(self, path: str, **headers: str) -> Answer:
        return self.send("GET", path, None, headers)

    def post(self, path: str, body: Any, **headers: str) -> Answer:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.send("POST", path, content, {"Content-Type": "application/json", **headers})

    def send(
        self, method: str, path: str, content: bytes | None, headers: Mapping[str, str]
    ) -> Answer:
        """Underscores in the names of headers become hyphens."""
        assert self.host is not None
        connection = http.client.HTTPConnection(self.host, self.port, timeout=60)
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.cookie:
            given.setdefault("Cookie", self.cookie)
        try:
            connection.request(method, path, content, given)
            found = connection.getresponse()
            return Answer(found.status, dict(found.getheaders()), found.read())
        finally:
            connection.close()


@contextmanager
def serving(
    run: Run, reviewer: str = "ana", **options: Any
) -> Iterator[tuple[ReviewServer, Client]]:
    """In a thread of this process."""
    server = ReviewServer(run, reviewer=reviewer, port=0, **options)
    ready = threading.Event()
    thread = threading.Thread(target=server.serve, args=(ready.set,))
    thread.start()
    try:
        assert ready.wait(60)
        yield server, Client(f"http://127.0.0.1:{server.port}/?token={server.token}").enter()
    finally:
        server.stop()
        thread.join()


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": SOURCE, "OMP_NUM_THREADS": "1"}


@contextmanager
def command(run: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`csot review` itself, and the address that it prints."""
    arguments = [sys.executable, "-m", "csot", "review", str(run), "--no-browser", *options]
    with subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    ) as process:
        assert process.stdout is not None
        try:
            url = next((line for line in process.stdout if line.startswith("http")), "")
            assert url, process.stderr.read() if process.stderr else ""
            yield process, url.strip()
        finally:
            if process.poll() is None:
                process.kill()


class Nursery:
    """Servers that start at once, because what they import is there already."""

    def __init__(self) -> None:
        self._parent = subprocess.Popen(
            [sys.executable, "-c", ZYGOTE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(),
        )

    def start(self, run: Run) -> tuple[int, str]:
        """Process id and address."""
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        self._parent.stdin.write(f"{run.path}\n")
        self._parent.stdin.flush()
        pid, url = self._parent.stdout.readline().split()
        return int(pid), url

    def close(self) -> None:
        for pipe in (self._parent.stdin, self._parent.stdout):
            if pipe is not None:
                pipe.close()
        self._parent.wait(60)
