"""Where a real browser is, for the tests that need one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
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
    """Not if libraries are missing, or if it is Ubuntu's script that only asks for a snap."""
    try:
        result = subprocess.run(
            [program, "--version"], capture_output=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return result.returncode == 0


def _downloaded() -> list[str]:
    """What `playwright install chromium` brought, the newest first."""
    caches = "~/Library/Caches" if sys.platform == "darwin" else "~/.cache"
    root = os.environ.get("PLAYWRIGHT_BROWSERS_PATH") or f"{caches}/ms-playwright"
    patterns = ("chromium-*/*/chrome", "chromium-*/*/*.app/Contents/MacOS/*")
    found = [path for pattern in patterns for path in Path(root).expanduser().glob(pattern)]
    return sorted(map(str, found), reverse=True)


FOUND = [*filter(None, map(shutil.which, NAMES)), *_downloaded()]
CHROMIUM = next(filter(_starts, FOUND), None)
# A second page behind the address bar of each window, which nobody sees: a third of what an empty
# window costs.
OPTIONS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-features=WebUIOmniboxPopup,WebUIOmniboxAimPopup",
)
NO_BROWSER = "no Chromium, and none could be installed (.ci/browser)"


@contextmanager
def running_chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=list(OPTIONS))
        yield running
        running.close()
