"""Runs that tests of other packages make once."""

from review.conftest import big_run as big_run
from training.conftest import digits_run as digits_run
