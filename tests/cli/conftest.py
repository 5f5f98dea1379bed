"""Runs that tests of other packages make once, and models of the cleaner that are fitted once."""

import pytest

from remembered_fits import remembered_fits as remembered_fits
from review.conftest import big_run as big_run
from training.conftest import digits_run as digits_run


@pytest.fixture(autouse=True)
def cleaners_of_commands(remembered_fits: None) -> None:
    """The same small tables are cleaned by many commands."""
