"""What strangers send is read strictly, and not for ever."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from csot.review.web import guard
from csot.review.web import server as patience
from report.sample_runs import rows_run
from review.serving import Client, serving


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(guard, "BODY_SECONDS", 1)
        patch.setattr(patience, "REQUEST_SECONDS", 1)
        with serving(rows_run(tmp_path_factory.mktemp("rows"), 50, 3)) as (_, client):
            yield client


def raw(client: Client, text: str, wait: float = 10) -> bytes:
    """What comes back until the server closes; nothing if it just closes."""
    with socket.create_connection((client.host, client.port), wait) as connection:
        connection.sendall(text.encode("latin1"))
        answer = b""
        while part := connection.recv(4096):
            answer += part
        return answer


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1:{port}@evil.com",
        "127.0.0.1:{port}:80",
        "127.0.0.1:{port}/",
        "127.0.0.1:",
        "127.0.0.1:x",
        "[::1",
        "[::1]evil.com",
        "[::1]:{port}@evil.com",
        "localhost:{port}#evil.com",
        "evil.com:{port}@127.0.0.1",
        "127.0.0.1\\.evil.com",
    ],
)
def test_odd_hosts(client: Client, host: str) -> None:
    assert client.get("/", Host=host.format(port=client.port)).status == 421


@pytest.mark.parametrize(
    "header", ["Origin", "Sec-Fetch-Site", "Sec-Fetch-Mode", "Content-Type", "Host"]
)
def test_a_header_that_is_there_twice(client: Client, header: str) -> None:
    own = {
        "Host": f"127.0.0.1:{client.port}",
        "Origin": f"http://127.0.0.1:{client.port}",
        "Sec-Fetch-Site": "same-origin",
        "Sec-Fetch-Mode": "cors",
        "Content-Type": "application/json",
    }
    lines = [f"{name}: {value}" for name, value in own.items()]
    lines += [f"Cookie: {client.cookie}", "Content-Length: 2", "Connection: close"]

    def post(*more: str) -> bytes:
        return raw(client, "\r\n".join(["POST /api/undo HTTP/1.1", *lines, *more, "", "{}"]))

    assert post().startswith(b"HTTP/1.1 422"), "as browsers send it, it gets to the page"
    for value in (own[header], "http://evil.example"):
        answer = post(f"{header}: {value}")
        assert answer[9:12] in (b"400", b"403", b"421"), answer[:100]


def test_a_connection_that_says_nothing(client: Client) -> None:
    start = time.monotonic()
    assert raw(client, "") == b""
    assert raw(client, "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ") == b""
    assert time.monotonic() - start < 8


def test_a_drop_at_a_time(client: Client) -> None:
    """Every byte starts uvicorn's own clock anew, but not ours."""
    start = time.monotonic()
    with socket.create_connection((client.host, client.port), 10) as connection:
        try:
            for character in "GET / HTTP/1.1\r\nX-Slow: " + "x" * 100:
                connection.sendall(character.encode())
                time.sleep(0.1)
        except OSError:
            pass
    assert time.monotonic() - start < 6


def test_a_body_that_never_ends(client: Client) -> None:
    head = f"POST /api/undo HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: {client.cookie}\r\n"
    head += "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
    answer = raw(client, head)
    assert answer.startswith(b"HTTP/1.1 408")
    assert b"not complete after 1 seconds" in answer
    assert client.get("/").status == 200, "others are served meanwhile"


def test_headers_without_an_end(client: Client) -> None:
    answer = raw(client, "GET / HTTP/1.1\r\nX: " + "x" * (patience.HEADER_BYTES + 70_000))
    assert answer == b"" or answer.startswith(b"HTTP/1.1 4")


def test_too_many_connections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("csot.review.web.server.CONNECTIONS", 4)
    with serving(rows_run(tmp_path, 50, 3)) as (_, client):
        idle = [socket.create_connection((client.host, client.port), 10) for _ in range(5)]
        time.sleep(0.2)
        assert client.get("/").status == 503
        for connection in idle:
            connection.close()
        time.sleep(0.2)
        assert client.get("/").status == 200


def test_an_address_that_is_not_ascii(client: Client) -> None:
    head = f"Host: 127.0.0.1\r\nCookie: {client.cookie}\r\nConnection: close\r\n\r\n"
    assert raw(client, f"GET /?a=\xed HTTP/1.1\r\n{head}")[9:12] == b"400"
