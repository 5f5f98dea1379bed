"""The run that tests of `training` share."""

from training.conftest import digits_run as digits_run
