"""What some methods change about Adam on the way."""

from __future__ import annotations

from typing import Any

BETA = 0.1


def forget_faster(group: dict[str, Any]) -> None:
    """The first beta falls to 0.1, as in Co-teaching; other optimisers are left as they are."""
    if "betas" in group:
        group["betas"] = (BETA, group["betas"][1])
