"""The command line: one file per command."""

from csot._core.threads import wait_passively

wait_passively()
