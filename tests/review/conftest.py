"""A large run, made once."""

import numpy as np
import pytest

from csot.runs import Run
from report.sample_runs import rows_run


@pytest.fixture(scope="session")
def big_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """100,000 rows of ten classes, with features. Decide under a name of your own."""
    run = rows_run(tmp_path_factory.mktemp("big"), 100_000, 10)
    run.write_features(np.random.default_rng(0).normal(size=(100_000, 64)))
    return run
