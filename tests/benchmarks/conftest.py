"""Benchmarks are scripts, not a package: their folder is put on the path, as running one does."""

import sys
from pathlib import Path

FOLDER = str(Path(__file__).parents[2] / "benchmarks")
if FOLDER not in sys.path:
    sys.path.insert(0, FOLDER)
