"""The audit of the run, as one reviewer goes through it."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import numpy as np

from csot._core.array_types import Ints
from csot.audit import AuditPlan, AuditResult, Population
from csot.audit.design import draw_plan
from csot.audit.proposal import assess, forecast
from csot.audit.sheet import FILE, read_plan, start_plan
from csot.review.domain.ledger import Person
from csot.review.domain.run_catalogue import Catalogue

SIZES = (50, 100, 200)


@dataclass(frozen=True)
class Offer:
    """A number of rows, and how precisely they would give the noise rate: half its interval."""

    rows: int
    margin: float


@dataclass(frozen=True)
class State:
    """Progress of the audit."""

    planned: int
    done: int
    unsure: int
    result: AuditResult | None
    """None before the first label."""
    margin: float
    """Expected margin of the noise rate when all rows are done."""
    offers: list[Offer]
    """Longer audits."""

    @property
    def left(self) -> int:
        return self.planned - self.done


class Auditing:
    """The plan of the run, read on every access: another process may have started it."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._lock = threading.Lock()
        self._read: tuple[int, int] | None = None
        self._plan: AuditPlan | None = None
        self.population = Population(
            given=catalogue.given,
            predicted=catalogue.predicted,
            corrected=catalogue.standing,
            issue=catalogue.issue,
            score=catalogue.score,
            known=catalogue.locked,
        )

    @property
    def plan(self) -> AuditPlan | None:
        path = self._catalogue.run.path / FILE
        with self._lock:
            stat = path.stat() if path.exists() else None
            key = None if stat is None else (stat.st_mtime_ns, stat.st_size)
            if key != self._read:
                self._plan = read_plan(self._catalogue.run, self._catalogue.row_of)
                self._read = key
            return self._plan

    def start(self, n_rows: int) -> None:
        """Draw the rows, or more of them."""
        start_plan(self._catalogue.run, self.population, self._catalogue.row_of, n_rows)

    def truth(self, plan: AuditPlan, person: Person) -> Ints:
        """The labels (n,) of the planned rows, wherever they were given; -1 for none.

        Rows accepted by a rule were not seen, and do not count.
        """
        found: Ints = np.where(person.seen, person.label, -1)[plan.rows]
        return found

    def next_row(self, plan: AuditPlan, person: Person, row: int | None = None) -> int | None:
        """The next undecided row after `row`; at the end, the first that was passed over."""
        order = plan.rows.tolist()
        start = order.index(row) + 1 if row in order else 0
        left = (other for other in order[start:] + order[:start] if not person.seen[other])
        return next(left, None)

    def previous_row(self, plan: AuditPlan, row: int) -> int | None:
        """The planned row before it, decided or not."""
        order = plan.rows.tolist()
        place = order.index(row) if row in order else len(order)
        return order[place - 1] if place else None

    def first_offers(self) -> list[Offer]:
        """The usual sizes, before there is a plan; all rows where there are fewer."""
        limit = int(self.population.open.sum())
        if not limit:
            return []
        design = draw_plan(self.population, SIZES[0], 0)
        sizes = [size for size in SIZES if size <= limit] or [limit]
        return [Offer(size, forecast(design, self.population, size).margin) for size in sizes]

    def further_offers(self, plan: AuditPlan, truth: Ints) -> list[Offer]:
        """Longer audits, by what is known so far."""
        limit = int(self.population.open.sum())
        sizes = {size for size in (*SIZES, len(plan) + SIZES[-1]) if len(plan) < size <= limit}
        return [
            Offer(size, forecast(plan, self.population, size, truth).margin)
            for size in sorted(sizes)[:2]
        ]

    def state(self, plan: AuditPlan, person: Person) -> State:
        truth = self.truth(plan, person)
        seen = person.seen[plan.rows]
        judged = bool((truth >= 0).any())
        return State(
            planned=len(plan),
            done=int(seen.sum()),
            unsure=int((seen & (truth < 0)).sum()),
            margin=forecast(plan, self.population, len(plan), truth).margin,
            result=assess(plan, self.population, truth) if judged else None,
            offers=self.further_offers(plan, truth),
        )
