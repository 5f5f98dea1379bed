"""Where a real browser is, for the tests that need one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

NAMES = (
    "chromium",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
    "chromium-browser",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
)


def _starts(program: str) -> bool:
    """Ubuntu's `chromium-browser` may be a script that only asks for a snap."""
    try:
        result = subprocess.run(
            [program, "--version"], capture_output=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return result.returncode == 0


def _downloaded() -> bool:
    """Whether `playwright install chromium` was run for the Playwright that is installed."""
    package = find_spec("playwright")
    if package is None or package.origin is None:
        return False
    listed = Path(package.origin).parent / "driver" / "package" / "browsers.json"
    browsers = json.loads(listed.read_text(encoding="utf-8"))["browsers"]
    revision = next(each["revision"] for each in browsers if each["name"] == "chromium")
    caches = "~/Library/Caches" if sys.platform == "darwin" else "~/.cache"
    root = os.environ.get("PLAYWRIGHT_BROWSERS_PATH") or f"{caches}/ms-playwright"
    folder = Path(root).expanduser() / f"chromium-{revision}"
    return (folder / "INSTALLATION_COMPLETE").exists()


CHROMIUM = next((path for path in map(shutil.which, NAMES) if path and _starts(path)), None)
HAS_BROWSER = CHROMIUM is not None or _downloaded()
NO_BROWSER = "no Chromium, and none could be installed (.ci/browser)"


@contextmanager
def running_chromium() -> Iterator[Any]:
    """Chromium of the system, else Playwright's own."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        yield running
        running.close()
