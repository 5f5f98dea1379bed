"""Models by name or folder: found on disk, in the hub's cache, or downloaded once."""

from __future__ import annotations

import hashlib
import urllib.error
import urllib.request
from pathlib import Path

from csot.data.errors import DataError, require

SECONDS = 5
"""How long the hub has to answer before it counts as out of reach."""
CONFIGURATION = ["*.json", "*.txt", "*.model"]
WEIGHTS = (".safetensors", ".bin")
"""Weights that are downloaded: the first kind that the model has."""


def find_model(name: str, extra: str, purpose: str, remedy: str = "") -> Path:
    """The folder of a model: `name` itself, the hub's cache of it, or a download into that cache.

    Without a network the error comes at once. ``remedy`` is added to its advice.
    """
    if Path(name).is_dir():
        return Path(name)
    if name.startswith(("/", ".", "~")) or name.count("/") > 1:
        raise DataError(f"the model folder {name} does not exist")
    hub = require("huggingface_hub", extra, purpose)
    cached = _snapshot(hub, name, local_files_only=True)
    if cached is not None and _is_complete(cached):
        return cached
    if hub.constants.HF_HUB_OFFLINE or not _answers(hub.constants.ENDPOINT):
        raise DataError(
            f"the model {name!r} is neither a folder nor in the cache of the hub, and "
            f"{hub.constants.ENDPOINT} cannot be reached; pass the folder of a model that was "
            f"downloaded elsewhere{remedy}"
        )
    for weights in WEIGHTS:
        found = _snapshot(hub, name, allow_patterns=[*CONFIGURATION, f"*{weights}"])
        if found is not None and _is_complete(found):
            return found
    raise DataError(
        f"the hub has no model {name!r} with weights for PyTorch; check the name, and log in with "
        "`hf auth login` if it is not public"
    )


def folder_identity(folder: Path) -> str:
    """Changes when any file of the model does: the hub's commit, else a hash of the contents."""
    commit = folder.name
    if folder.parent.name == "snapshots" and len(commit) == 40:
        return commit
    digest = hashlib.sha256()
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        digest.update(str(file.relative_to(folder)).encode() + b"\0")
        with open(file, "rb") as content:
            while block := content.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()[:16]


def first_line(error: Exception) -> str:
    """The beginning of a message that may go on for pages."""
    return str(error).strip().partition("\n")[0][:200]


def _snapshot(hub: object, name: str, **options: object) -> Path | None:
    """The folder, or None where the hub or its cache has no such model."""
    try:
        return Path(hub.snapshot_download(name, **options))  # type: ignore[attr-defined]
    except (OSError, ValueError):
        # Its errors: not found, not allowed, no connection, not a name.
        return None


def _is_complete(folder: Path) -> bool:
    described = any((folder / name).exists() for name in ("config.json", "modules.json"))
    return described and any(next(folder.rglob(f"*{end}"), None) for end in WEIGHTS)


def _answers(endpoint: str) -> bool:
    """Whether anything answers there, proxies considered."""
    try:
        request = urllib.request.Request(endpoint, method="HEAD")
        urllib.request.urlopen(request, timeout=SECONDS).close()
    except urllib.error.HTTPError:
        return True
    except (OSError, ValueError):
        return False
    return True
