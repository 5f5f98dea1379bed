"""Runs that tests of other packages make once, and cleaners that they fit once."""

from review.conftest import big_run as big_run
from training.conftest import digits_run as digits_run
from training.conftest import remembered_cleaners as remembered_cleaners
