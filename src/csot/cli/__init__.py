"""What the commands do, between the parsed options and the printed lines."""

from csot._core.threads import wait_passively

wait_passively()
