"""How a problem is executed: in which processes its rows are, and in which memory."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from csot.ot.reduce import OneShard, Reduce, Shards
from csot.ot.workspace import Workspace

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup


@dataclass(frozen=True)
class Execution:
    """Where rows and temporary arrays are. It does not change the solution."""

    reduce: Reduce = field(default_factory=OneShard)
    workspace: Workspace = field(default_factory=Workspace)


def reduction_over(group: ProcessGroup | None) -> Reduce:
    """Sums over the rows of all processes of ``group``; None means that all rows are here."""
    if group is None:
        return OneShard()
    if not isinstance(group, torch.distributed.ProcessGroup):
        raise ValueError(
            f"group must be a torch.distributed process group (torch.distributed.group.WORLD for "
            f"all processes), got {group!r}"
        )
    return Shards(group) if torch.distributed.get_world_size(group) > 1 else OneShard()


def without_autocast(given: object) -> AbstractContextManager[object]:
    """Turn off the user's autocast, which would round to half precision."""
    device = given.device.type if isinstance(given, Tensor) else "cpu"
    return torch.autocast(device, enabled=False) if device in ("cpu", "cuda") else nullcontext()
