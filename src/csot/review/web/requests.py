"""What pages send, bounded and checked."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from csot.review.domain.store import Action, Way

MAX_ROWS = 5000
Batch = Annotated[str, Field(pattern=r"^[A-Za-z0-9-]{8,64}$")]
"""Made by the page, so that a request sent twice counts once."""
Row = Annotated[int, Field(ge=0, lt=2**31)]


class Sent(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    stamp: Annotated[str, Field(max_length=64)]
    """Of the run that the page was made from."""
    batch: Batch


class Decide(Sent):
    rows: Annotated[list[Row], Field(min_length=1, max_length=MAX_ROWS)]
    action: Action
    way: Way
    label: Annotated[int, Field(ge=0, lt=2**31)] | None = None
    """The number of the class, for `choose`."""
    name: Annotated[str, Field(max_length=200)] | None = None
    """The name of a class that is not in the list yet, instead of its number."""
    view: Annotated[str, Field(max_length=500)] | None = None
    """The filter, as in the address: then the next row comes with the answer."""


class Undo(Sent):
    undoes: Batch | None = None
    """A batch of this page; without it, the reviewer's last."""
    view: Annotated[str, Field(max_length=500)] | None = None


class AcceptAbove(Sent):
    threshold: Annotated[float, Field(ge=0, le=1)]
    expected: Annotated[int, Field(ge=1)]
    """How many rows the page said."""


class StartAudit(Sent):
    rows: Annotated[int, Field(ge=1, le=MAX_ROWS)]


class Export(Sent):
    seen_only: bool = False
