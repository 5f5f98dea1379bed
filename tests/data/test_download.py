"""Download from a server on this machine, and what may go wrong."""

import hashlib
import io
import tarfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from csot.data import DataError
from csot.data.datasets import cifar
from csot.data.datasets.cifar import CIFAR10, read_cifar
from csot.data.datasets.core import source_files
from csot.data.datasets.core.source_files import Archive, fetch_archive, unpack
from source_files import CIFAR10_COUNTS, write_cifar10_binary


class Quiet(SimpleHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/moved.tar.gz":
            self.send_response(302)
            self.send_header("Location", "ftp://127.0.0.1/x.tar.gz")
            self.end_headers()
        elif self.path == "/cut.tar.gz":
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"short")
        else:
            super().do_GET()

    def log_message(self, format: str, *arguments: object) -> None:
        """The terminal is for pytest."""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    folder = tmp_path / "served"
    folder.mkdir()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield folder, f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def allow_http(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_files, "SCHEMES", ("http",))
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def pack(path: Path, members: dict[str, bytes]) -> str:
    """Write the archive; its MD5."""
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return hashlib.md5(path.read_bytes()).hexdigest()


@pytest.mark.usefixtures("allow_http")
def test_fetched_checked_unpacked(tmp_path: Path, served: tuple[Path, str]) -> None:
    folder, address = served
    md5 = pack(folder / "x.tar.gz", {"x/a.bin": b"abc", "x/sub/b.bin": b"d"})
    target = tmp_path / "data" / "deep"
    archive = Archive(f"{address}/x.tar.gz", md5, "x")
    found = fetch_archive(archive, target)
    assert found == target / "x"
    assert (found / "a.bin").read_bytes() == b"abc"
    assert (found / "sub" / "b.bin").read_bytes() == b"d"
    assert sorted(path.name for path in target.iterdir()) == ["x", "x.tar.gz"]
    (folder / "x.tar.gz").unlink()
    # What is there already needs no server.
    assert fetch_archive(archive, target) == found


@pytest.mark.usefixtures("allow_http")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("other.tar.gz", "came with MD5"),
        ("absent.tar.gz", "cannot be fetched"),
        ("cut.tar.gz", "came with MD5|cannot be fetched"),
        ("moved.tar.gz", "only https"),
    ],
)
def test_nothing_is_left_of_a_failure(
    tmp_path: Path, served: tuple[Path, str], name: str, message: str
) -> None:
    folder, address = served
    pack(folder / "other.tar.gz", {"x/a": b"1"})
    target = tmp_path / "data"
    with pytest.raises(DataError, match=message):
        fetch_archive(Archive(f"{address}/{name}", "0" * 32, "x"), target)
    assert list(target.iterdir()) == []


@pytest.mark.usefixtures("allow_http")
def test_no_server_names_file_and_place(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        fetch_archive(Archive("http://127.0.0.1:9/x.tar.gz", "0" * 32, "x"), tmp_path)
    text = f"fetch http://127.0.0.1:9/x.tar.gz yourself and put it at {tmp_path / 'x.tar.gz'}"
    assert text in str(caught.value)


@pytest.mark.parametrize("url", ["http://127.0.0.1/x.tar.gz", "file:///etc/x.tar.gz"])
def test_only_https(tmp_path: Path, url: str) -> None:
    with pytest.raises(DataError, match="only https"):
        fetch_archive(Archive(url, "0" * 32, "x"), tmp_path)


def test_a_wrong_file_that_is_there_already(tmp_path: Path) -> None:
    pack(tmp_path / "x.tar.gz", {"x/a": b"1"})
    with pytest.raises(DataError, match="delete it"):
        fetch_archive(Archive("https://example.org/x.tar.gz", "0" * 32, "x"), tmp_path)


@pytest.mark.parametrize("name", ["../evil", "x/../../evil", "/evil", "x\\..\\evil", "C:/evil"])
def test_no_file_leaves_the_folder(tmp_path: Path, name: str) -> None:
    inside = tmp_path / "deep" / "data"
    inside.mkdir(parents=True)
    pack(inside / "x.tar.gz", {"x/a": b"1", name: b"2"})
    with pytest.raises(DataError, match="not a plain file"):
        unpack(inside / "x.tar.gz", "x")
    assert list(tmp_path.rglob("*evil*")) == []
    assert not (inside / "x").exists()


def test_links_are_refused(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "x.tar.gz", "w:gz") as archive:
        link = tarfile.TarInfo("x/link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc"
        archive.addfile(link)
    with pytest.raises(DataError, match="not a plain file"):
        unpack(tmp_path / "x.tar.gz", "x")


def test_archives_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "x.tar.gz").write_bytes(b"no archive")
    with pytest.raises(DataError, match="cannot be unpacked"):
        unpack(tmp_path / "x.tar.gz", "x")
    pack(tmp_path / "y.tar.gz", {"z/a": b"1"})
    with pytest.raises(DataError, match="holds no folder x"):
        unpack(tmp_path / "y.tar.gz", "x")


@pytest.mark.usefixtures("allow_http")
def test_cifar_is_downloaded_when_asked(
    tmp_path: Path, served: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, address = served
    made = write_cifar10_binary(tmp_path / "made")
    members = {f"cifar-10-batches-bin/{path.name}": path.read_bytes() for path in made.iterdir()}
    md5 = pack(folder / "cifar-10-binary.tar.gz", members)
    archive = Archive(f"{address}/cifar-10-binary.tar.gz", md5, "cifar-10-batches-bin")
    layout = cifar.CifarVariant(archive, "batches.meta.txt")
    form = cifar.replace(CIFAR10, layouts=(layout, CIFAR10.layouts[1]))
    monkeypatch.setitem(cifar.FORMS, "cifar10", form)
    data = read_cifar("cifar10", tmp_path / "data", download=True, counts=CIFAR10_COUNTS)
    assert len(data) == 20
