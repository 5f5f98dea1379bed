"""What the server refuses: strangers, other sites, other files, too much."""

from __future__ import annotations

import io
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from csot._core.pictures import Containment, PictureError
from csot.review import ReviewServer
from csot.review.web.guard import MAX_BODY
from csot.review.web.routes_files import read_picture
from csot.runs import Run
from image_files import write_image
from report.sample_runs import rows_run, write_run
from review.serving import Client, serving

EVIL = "</title><script>window.hacked=1</script>\"'><img src=x onerror=alert(1)>{{ 7 * 7 }}"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with serving(rows_run(tmp_path_factory.mktemp("rows"), 200, 4)) as (_, client):
        yield client


def body(client: Client, **values: object) -> dict[str, object]:
    stamp = client.get("/").text.partition('data-stamp="')[2].partition('"')[0]
    decision = {"rows": [1], "action": "unsure", "way": "one", "batch": os.urandom(8).hex()}
    return {"stamp": stamp, **decision, **values}


PATHS = ["/", "/one", "/grid", "/precision", "/reviewers", "/export", "/image/1", "/static/one.js"]
PATHS += ["/api/step?row=1&by=1", "/api/classes", "/download/verified.csv", "/openapi.json"]


@pytest.mark.parametrize("path", PATHS)
def test_nothing_without_the_secret(client: Client, path: str) -> None:
    stranger = Client(client.url)
    assert stranger.get(path).status == 401
    name = client.cookie.partition("=")[0]
    assert stranger.get(path, Cookie=f"{name}=guess").status == 401
    assert stranger.get(path, Cookie="; =;;\x01").status == 401
    assert stranger.get("/?token=guess").status == 401
    odd = f'other={{"a": [1, 2]}}; "x=y; {client.cookie}'
    assert stranger.get(path, Cookie=odd).status != 401, "cookies of other servers do not matter"
    assert stranger.get(f"/one?{client.query}").status == 401, "the token opens one door only"


def test_the_secret_moves_from_the_address_to_a_cookie(client: Client) -> None:
    answer = Client(client.url).get(f"/?{client.query}")
    assert (answer.status, answer.headers["location"]) == (303, "/")
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert answer.headers["cache-control"] == "no-store"
    # A link on another site: a page of ours that moves on, because a strict cookie would not come.
    answer = Client(client.url).get(
        f"/?{client.query}", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate"
    )
    assert answer.status == 200
    assert 'http-equiv="refresh"' in answer.text
    assert "token" not in answer.text


def test_a_name_that_points_here_is_not_ours(client: Client) -> None:
    """DNS rebinding: the attacker's name resolves to 127.0.0.1, its page asks for us."""
    for host in ("evil.example", f"evil.example:{client.port}", "127.0.0.1.evil.example", ""):
        assert client.get("/", Host=host).status == 421
    for host in (f"localhost:{client.port}", "127.0.0.1:9", f"[::1]:{client.port}"):
        assert client.get("/", Host=host).status == 200, "a tunnel may come by another port"


def test_other_sites_are_refused(client: Client) -> None:
    own = client.base
    sent = body(client)
    for headers in (
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": f"https://127.0.0.1:{client.port}"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": own, "Sec-Fetch-Site": "cross-site"},
    ):
        assert client.post("/api/decide", sent, **headers).status == 403, headers
    image = {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors"}
    assert client.get("/image/1", **image).status == 403, "nor may another port show our pictures"
    assert client.get("/api/classes", Origin="http://evil.example").status == 200, (
        "without CORS headers no other site can read the answer"
    )
    assert client.post("/api/decide", sent, Content_Type="text/plain").status == 415
    assert client.post("/api/decide", sent, Origin=own, Sec_Fetch_Site="same-origin").status == 200
    assert client.send("PUT", "/api/decide", b"", {}).status == 405
    assert client.get("/api/decide").status == 405, "GET changes nothing"


def test_every_answer_is_hardened(client: Client) -> None:
    for path in ("/", "/one", "/api/classes", "/static/one.js", "/nowhere", "/image/1"):
        headers = client.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert "access-control-allow-origin" not in headers
        assert "server" not in headers


def test_sizes_are_bounded(client: Client) -> None:
    assert client.post("/api/decide", b"x" * (MAX_BODY + 1)).status == 413
    assert client.post("/api/decide", body(client, rows=[1] * 5001)).status == 422
    assert client.post("/api/decide", body(client, view="x" * 501)).status == 422
    # A body that does not say how long it is.
    with socket.create_connection((client.host, client.port), 10) as raw:
        head = f"POST /api/decide HTTP/1.1\r\nHost: {client.host}\r\nCookie: {client.cookie}\r\n"
        raw.sendall((head + "Content-Type: application/json\r\n").encode())
        raw.sendall(b"Transfer-Encoding: chunked\r\n\r\n")
        answer = b""
        try:
            for _ in range(40):
                raw.sendall(b"10000\r\n" + b"x" * 65536 + b"\r\n")
        except OSError:
            pass
        while b"\r\n\r\n" not in answer and (part := raw.recv(4096)):
            answer += part
    assert answer.startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize(
    "wrong",
    [
        {"rows": [-1]},
        {"rows": [10**12]},
        {"rows": []},
        {"rows": ["1"]},
        {"action": "undo"},
        {"action": "drop"},
        {"way": "rule"},
        {"batch": "short"},
        {"batch": "../../../etc"},
        {"label": "cat"},
        {"action": "choose"},
        {"action": "choose", "label": 10**6},
        {"extra": 1},
        {"stamp": 1},
        {"view": "status=odd"},
    ],
)
def test_malformed_requests_are_named(client: Client, wrong: dict[str, object]) -> None:
    before = client.get("/download/verified.csv").text, client.get("/reviewers").text
    answer = client.post("/api/decide", body(client, **wrong))
    assert answer.status in (400, 422)
    assert answer.json()["error"]
    after = client.get("/download/verified.csv").text, client.get("/reviewers").text
    assert after == before, "an error means that nothing was saved"


def test_a_page_of_an_older_run_decides_nothing(client: Client) -> None:
    answer = client.post("/api/decide", body(client, stamp="0123456789abcdef"))
    assert answer.status == 409
    assert "reload" in answer.json()["error"]
    assert client.post("/api/decide", body(client, rows=[200])).status == 404
    assert client.post("/api/decide", b"{not json").status == 422
    assert client.get("/one?row=200").status == 404
    assert client.get("/grid?start=-1").status == 404
    assert client.get("/one?row=x").status == 422


def test_text_is_escaped_everywhere(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    run = write_run(
        tmp_path / "run",
        rng.integers(0, 2, 60),
        [EVIL, "b"],
        rng,
        samples={"text": [EVIL] * 60},
        ids=[f"{EVIL}{k}" for k in range(60)],
        extra={"source": {"path": EVIL}},
    )
    with serving(run, reviewer=EVIL[:50]) as (_, client):
        client.post("/api/decide", body(client, rows=[1, 2], action="choose", label=0, way="grid"))
        for path in ("/", "/one?row=1", "/grid", "/precision", "/reviewers", "/export"):
            text = client.get(f"{path}{'&' if '?' in path else '?'}status=any&decided=any").text
            assert "<script>window" not in text, path
            assert "<img src=x" not in text, path
            assert "&lt;script&gt;" in text, path
        assert "<script>window" not in client.get(f"/one?status={EVIL.replace(' ', '%20')}").text


def picture_run(folder: Path) -> tuple[Run, list[str]]:
    """Rows that name every kind of file that must not be served."""
    root, secret = folder / "data", folder / "secret.png"
    write_image(secret, value=7)
    write_image(root / "in" / "good.png", value=9)
    (root / "page.png").write_text(f"<html>{EVIL}</html>")
    (root / "vector.png").write_text('<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>')
    (root / "link.png").symlink_to(secret)
    (root / "out").symlink_to(folder)
    (root / "inner.png").symlink_to(root / "in" / "good.png")
    os.mkfifo(root / "pipe.png")
    names = ["in/good.png", str(root / "in" / "good.png"), "in/../in/good.png", "inner.png"]
    names += ["../secret.png", str(secret), "link.png", "out/secret.png", "in/../../secret.png"]
    names += ["page.png", "vector.png", "pipe.png", "in", "gone.png", "", "a\0b", "/etc/passwd"]
    names += ["/proc/self/environ", "%2e%2e/secret.png", "\\..\\secret.png"]
    rng = np.random.default_rng(0)
    extra = {"source": {"kind": "images", "path": str(root), "root": str(root)}}
    run = write_run(
        folder / "run",
        rng.integers(0, 2, len(names)),
        ["a", "b"],
        rng,
        samples={"image": [name.replace("\0", "0") for name in names]},
        extra=extra,
    )
    return run, names


def test_only_files_of_the_data_are_read(tmp_path: Path) -> None:
    run, names = picture_run(tmp_path)
    good = (tmp_path / "data" / "in" / "good.png").read_bytes()
    with serving(run) as (_, client):
        for row, name in enumerate(names):
            for small in ("", "?small=1"):
                answer = client.get(f"/image/{row}{small}")
                if row < 4:
                    assert (answer.status, answer.content) == (200, good), name
                    assert answer.headers["content-type"] == "image/png"
                else:
                    assert answer.status == 404, name
            reason = client.get(f"/api/why?row={row}").json()["reason"]
            assert str(tmp_path) not in reason, "and does not say where things are"
        for path in (
            "/image/..%2f..%2fsecret.png",
            "/image/%2e%2e/secret.png",
            "/image/-1",
            "/image/99",
            "/static/..%2fserver.py",
            "/static/../server.py",
            "/static/server.py",
            "/download/..%2f..%2fsecret.png",
            "/download/summary.json",
        ):
            assert client.get(path).status in (404, 422), path
    with pytest.raises(PictureError, match="outside of the data folder"):
        Containment(tmp_path / "data").find("link.png")
    with pytest.raises(PictureError, match="no picture"):
        Containment(tmp_path / "data").find("a\0b")


def test_huge_files_are_not_read(tmp_path: Path) -> None:
    with open(tmp_path / "big.png", "wb") as file:
        file.truncate(65 * 2**20)
    with pytest.raises(PictureError, match="larger than 64 MB"):
        read_picture(Containment(tmp_path), "big.png", small=False)


def test_too_many_pixels_are_not_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image = pytest.importorskip("PIL.Image")
    image.new("L", (40, 40)).save(tmp_path / "scan.tiff")
    monkeypatch.setattr("csot._core.pictures.MAX_PIXELS", 1500)
    with pytest.raises(PictureError, match="pixels"):
        read_picture(Containment(tmp_path), "scan.tiff", small=False)


def test_large_pictures_are_sent_small_to_the_grid(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 255, (700, 900, 3), dtype=np.uint8)
    image.fromarray(pixels).save(tmp_path / "big.png")
    image.fromarray(pixels[:, :, 0]).save(tmp_path / "scan.tiff")
    whole = read_picture(Containment(tmp_path), "big.png", small=False)
    small = read_picture(Containment(tmp_path), "big.png", small=True)
    assert (whole.kind, small.kind) == ("image/png", "image/jpeg")
    assert len(small.content) < len(whole.content) / 5
    assert read_picture(Containment(tmp_path), "scan.tiff", small=False).kind == "image/jpeg"


def test_sixteen_bits_are_not_all_white(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    ramp = np.linspace(1000, 5000, 40 * 40).reshape(40, 40).astype(np.uint16)
    image.fromarray(ramp).save(tmp_path / "scan.tiff")
    found = read_picture(Containment(tmp_path), "scan.tiff", small=False)
    shades = np.asarray(image.open(io.BytesIO(found.content)).convert("L"))
    assert shades.min() < 20
    assert shades.max() > 235
    assert 110 < shades.mean() < 145


def test_other_machines_need_a_flag(tmp_path: Path) -> None:
    run = rows_run(tmp_path, 50, 3)
    for host in ("0.0.0.0", "::", "192.0.2.1", "example.org"):
        with pytest.raises(ValueError, match=f"`host` {host} .*`allow_remote`"):
            ReviewServer(run, reviewer="ana", host=host)
    with serving(run, host="0.0.0.0", allow_remote=True) as (server, entered):
        assert socket.gethostname() in server.url
        local = Client(entered.url)
        assert local.get("/").status == 401, "still the token"
        assert local.enter().get("/").status == 200
        assert local.get("/", Host="evil.example").status == 421
        assert local.get("/", Host=f"192.0.2.7:{local.port}").status == 200


def test_a_picture_of_sixteen_bits_is_stretched(tmp_path: Path) -> None:
    images = pytest.importorskip("PIL.Image")
    dark = (np.arange(64 * 64).reshape(64, 64) % 900).astype(np.uint16)  # of 65,535
    images.fromarray(dark).save(tmp_path / "scan.png")
    for small in (False, True):
        found = read_picture(Containment(tmp_path), "scan.png", small=small)
        with images.open(io.BytesIO(found.content)) as shown:
            low, high = shown.convert("L").getextrema()
        assert low < 10
        assert high > 245
    images.fromarray((dark // 4).astype(np.uint8)).save(tmp_path / "plain.png")
    plain = read_picture(Containment(tmp_path), "plain.png", small=False)
    assert plain.content == (tmp_path / "plain.png").read_bytes(), "sent as it is"
