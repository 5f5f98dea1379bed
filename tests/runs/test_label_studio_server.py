"""There and back with a real Label Studio, where one is installed; the server takes a minute."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from csot.data import read_data, read_verified
from csot.runs import Run
from image_files import write_image
from report.sample_runs import write_run

PROGRAM = os.environ.get("LABEL_STUDIO") or shutil.which("label-studio")
pytestmark = pytest.mark.skipif(
    PROGRAM is None, reason="label-studio is not installed (or set LABEL_STUDIO to its program)"
)
CLASSES = ["two & more", "drei ä", "one"]
START_SECONDS = 600


@dataclass(frozen=True)
class Studio:
    """A server of its own, and the token of its only user."""

    address: str
    token: str

    def get(self, path: str) -> bytes:
        return self._send(urllib.request.Request(self.address + path))

    def post(self, path: str, body: Any) -> Any:
        request = urllib.request.Request(self.address + path, json.dumps(body).encode())
        request.add_header("Content-Type", "application/json")
        return json.loads(self._send(request))

    def _send(self, request: urllib.request.Request) -> bytes:
        request.add_header("Authorization", f"Token {self.token}")
        with urllib.request.urlopen(request, timeout=60) as answer:
            content: bytes = answer.read()
        return content


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Class folders of images, each image different."""
    folder = tmp_path_factory.mktemp("studio") / "my photos"
    for number in range(12):
        write_image(folder / CLASSES[number % 3] / f"image {number}.png", number * 20)
    return folder


@pytest.fixture(scope="module")
def studio(photos: Path) -> Iterator[Studio]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    token = secrets.token_hex(20)
    words = [str(PROGRAM), "start", "--no-browser", "--internal-host", "127.0.0.1"]
    words += ["--port", str(port), "--data-dir", str(photos.parent / "studio")]
    words += ["--username", "ana@example.org", "--password", secrets.token_hex(8)]
    words += ["--user-token", token, "--enable-legacy-api-token"]
    environment = os.environ | {
        "LABEL_STUDIO_LOCAL_FILES_SERVING_ENABLED": "true",
        "LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT": str(photos.parent),
        "LATEST_VERSION_CHECK": "false",
        "COLLECT_ANALYTICS": "false",
    }
    with open(photos.parent / "studio.log", "wb") as log:
        server = subprocess.Popen(
            words, stdout=log, stderr=log, env=environment, start_new_session=True
        )
    found = Studio(f"http://127.0.0.1:{port}", token)
    try:
        wait_until_ready(found, server)
        yield found
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(60)


def wait_until_ready(studio: Studio, server: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + START_SECONDS
    while not answers(studio):
        assert server.poll() is None, "label-studio ended"
        assert time.monotonic() < end, "label-studio does not answer"
        time.sleep(1)


def answers(studio: Studio) -> bool:
    try:
        studio.get("/api/projects/")
    except (urllib.error.URLError, ConnectionError):
        return False
    return True


def make_run(photos: Path) -> Run:
    data = read_data(photos)
    truth = np.array([CLASSES.index(label) for label in data.labels])
    run = write_run(
        photos.parent / "run",
        truth,
        CLASSES,
        np.random.default_rng(0),
        ids=list(data.ids),
        samples={"image": list(data.ids)},
        extra={"source": {"kind": "images", "path": str(photos), "root": str(photos)}},
    )
    run.write_label_studio(run.read_findings(), run.read_samples(), class_names=CLASSES)
    return run


def choice(label: str) -> list[dict[str, Any]]:
    value = {"choices": [label]}
    return [{"from_name": "label", "to_name": "image", "type": "choices", "value": value}]


def test_there_and_back(studio: Studio, photos: Path, tmp_path: Path) -> None:
    run = make_run(photos)
    config = (run.path / "label_studio.xml").read_text(encoding="utf-8")
    tasks = json.loads((run.path / "label_studio.json").read_text(encoding="utf-8"))
    project = studio.post("/api/projects/", {"title": "photos", "label_config": config})["id"]
    storage = {"project": project, "title": "photos", "path": str(photos), "use_blob_urls": True}
    studio.post("/api/storages/localfiles", storage)
    studio.post(f"/api/projects/{project}/import", tasks)

    shown = json.loads(studio.get(f"/api/tasks?project={project}&fields=all&page_size=100"))
    ids = [task["data"]["sample_id"] for task in shown["tasks"]]
    assert ids == [task["data"]["sample_id"] for task in tasks], "worst first"
    assert json.loads(studio.get(f"/api/projects/{project}/next"))["data"]["sample_id"] == ids[0]
    suggested = shown["tasks"][0]["predictions"][0]["result"]
    assert suggested[0]["value"] == tasks[0]["predictions"][0]["result"][0]["value"]
    for task in shown["tasks"]:
        path = photos / task["data"]["sample_id"]
        assert studio.get(task["data"]["image"]) == path.read_bytes()

    decided = dict(zip(ids[:3], ("drei ä", "two & more", "one"), strict=True))
    for task, label in zip(shown["tasks"], decided.values(), strict=False):
        studio.post(f"/api/tasks/{task['id']}/annotations/", {"result": choice(label)})
    skipped = {"result": choice("one"), "was_cancelled": True}
    studio.post(f"/api/tasks/{shown['tasks'][3]['id']}/annotations/", skipped)

    data = read_data(photos)
    for kind in ("JSON", "JSON_MIN", "CSV", "TSV"):
        for every in ("", "&download_all_tasks=true"):
            content = studio.get(f"/api/projects/{project}/export?exportType={kind}{every}")
            path = tmp_path / f"{kind}{len(every)}.{kind.lower().partition('_')[0]}"
            path.write_bytes(content)
            verified = read_verified(path, data)
            found = {key: label for key, label in zip(data.ids, verified, strict=True) if label}
            assert found == decided, path.name
