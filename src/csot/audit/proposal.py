"""The audit in Python: from findings to rows to verify, and what they say about all rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from csot._core.array_types import Bools, Floats, Ints
from csot._core.missing import is_missing
from csot.audit.design import (
    CHANGED,
    FLAGGED,
    AuditPlan,
    Population,
    draw_plan,
    neyman_allocation,
    population_of,
)
from csot.audit.interval import Estimate, stratified_share
from csot.runs.tables import kind_of

PRIOR_ROWS = 2.0
"""Rows that the design's expectation counts for, in forecasts."""


@dataclass(frozen=True)
class AuditResult:
    """Shares of the whole data set with 95 % intervals; None where there are no such rows."""

    planned: int
    judged: int
    """Rows of the plan that have a verified label."""
    noise_rate: Estimate
    """Given labels that are wrong."""
    issue_precision: Estimate | None
    """Share of the rows with `is_label_issue` whose given label is wrong."""
    correction_precision: Estimate | None
    """Share of the changed labels that become right."""
    right_before: Estimate
    """Given labels that are right."""
    right_after: Estimate
    """Corrected labels that are right."""
    is_complete: bool
    """Every stratum has a judged row; before, the intervals are very wide."""


def assess(plan: AuditPlan, population: Population, truth: Ints) -> AuditResult:
    """From the verified class of each row of the plan, (n,); -1 where unknown.

    Rows that were verified before this run are a stratum of their own that is known entirely.
    """
    judged = truth >= 0
    wrong = judged & (truth != population.given[plan.rows])
    right = judged & (truth == population.corrected[plan.rows])
    n, x, hits = (_counts(plan, mask) for mask in (judged, wrong, right))
    groups = np.array([stratum.group for stratum in plan.strata])
    changed, flagged = np.isin(groups, CHANGED), np.isin(groups, FLAGGED)
    error = np.array([stratum.expected for stratum in plan.strata])
    hit_rate = np.where(changed, error, 1 - error)
    known_wrong, n_known = _known(population)

    def precision(counted: Floats, expected: Floats, part: Bools) -> Estimate | None:
        sizes = _sizes(plan)[part]
        if not part.any():
            return None
        return stratified_share(counted[part], n[part], sizes, expected[part])

    noise = _with_known(plan, x, n, error, (known_wrong, n_known))
    return AuditResult(
        planned=len(plan),
        judged=int(judged.sum()),
        noise_rate=noise,
        issue_precision=precision(x, error, flagged),
        correction_precision=precision(hits, hit_rate, changed),
        right_before=Estimate(1 - noise.value, 1 - noise.high, 1 - noise.low),
        right_after=_with_known(plan, hits, n, hit_rate, (n_known, n_known)),
        is_complete=bool((n > 0).all()),
    )


def forecast(
    plan: AuditPlan, population: Population, n_rows: int, truth: Ints | None = None
) -> Estimate:
    """The noise rate as `n_rows` verified rows would find it, if what is known so far holds.

    Only its width means anything before there are decisions. `truth` as for `assess`.
    """
    order = neyman_allocation(plan.strata, n_rows)
    counts = np.bincount(order, minlength=len(plan.strata)).astype(float)
    expected = np.array([stratum.expected for stratum in plan.strata])
    x = n = np.zeros(len(plan.strata))
    if truth is not None:
        judged = truth >= 0
        n = _counts(plan, judged)
        x = _counts(plan, judged & (truth != population.given[plan.rows]))
    share = (x + PRIOR_ROWS * expected) / (n + PRIOR_ROWS)
    return _with_known(plan, counts * share, counts, share, _known(population))


def _counts(plan: AuditPlan, mask: Bools) -> Floats:
    found: Floats = np.bincount(plan.stratum[mask], minlength=len(plan.strata)).astype(np.float64)
    return found


def _sizes(plan: AuditPlan) -> Floats:
    return np.array([stratum.size for stratum in plan.strata], dtype=np.float64)


def _known(population: Population) -> tuple[int, int]:
    """Wrong labels among the rows that were verified before, and how many such rows there are."""
    known = population.labelled & population.known
    return int((known & (population.corrected != population.given)).sum()), int(known.sum())


def _with_known(
    plan: AuditPlan, x: Floats, n: Floats, expected: Floats, known: tuple[int, int]
) -> Estimate:
    """Over all strata and (counted, total) rows that were verified before."""
    sizes = _sizes(plan)
    if known[1]:
        x, n, sizes = np.append(x, known[0]), np.append(n, known[1]), np.append(sizes, known[1])
        expected = np.append(expected, 0.0)
    return stratified_share(x, n, sizes, expected)


@dataclass(frozen=True, eq=False)
class Audit:
    """Rows to verify, in the order in which to verify them. Stopping early is allowed: every first
    part of the list is a stratified random sample by itself."""

    plan: AuditPlan
    population: Population
    index: pd.Index[Any]
    """Index of the findings, (N,)."""
    classes: list[Any]

    def __len__(self) -> int:
        return len(self.plan)

    @property
    def positions(self) -> Ints:
        """(n,): positions of the rows in the findings, the most informative first."""
        return self.plan.rows

    @property
    def table(self) -> pd.DataFrame:
        """Table by id: `position`, `stratum`, `inclusion_probability`, and its inverse, `weight`.

        `order` counts from 1.
        """
        plan = self.plan
        return pd.DataFrame(
            {
                "order": np.arange(1, len(plan) + 1),
                "position": plan.rows,
                "stratum": [describe(plan, int(h)) for h in plan.stratum],
                "inclusion_probability": plan.inclusion,
                "weight": 1 / plan.inclusion,
            },
            index=self.index[plan.rows],
        )

    @property
    def margin(self) -> float:
        """How precisely the noise rate will be known: the expected half width of its interval."""
        return forecast(self.plan, self.population, len(self)).margin

    def margin_after(self, n_rows: int, labels: Any = None) -> float:
        """The same for an audit of `n_rows`, given the `labels` that are verified so far."""
        truth = None if labels is None else self._codes(self._in_order(labels))
        return forecast(self.plan, self.population, n_rows, truth).margin

    def verified(self, labels: Any) -> npt.NDArray[np.object_]:
        """(N,), None where not verified: what `LabelCleaner.fit` takes as `verified`.

        `labels` (n,) are in the order of the table, missing where unknown; or a Series or
        dict by id.
        """
        found = np.full(len(self.population), None, dtype=object)
        for row, label in zip(self.plan.rows, self._in_order(labels), strict=True):
            found[row] = None if is_missing(label) else label
        return found

    def estimate(self, labels: Any) -> AuditResult:
        """Noise rate, precision and labels right before and after; `labels` as for `verified`."""
        return assess(self.plan, self.population, self._codes(self._in_order(labels)))

    def _in_order(self, labels: Any) -> list[Any]:
        if isinstance(labels, Mapping | pd.Series):
            ids = self.index[self.plan.rows]
            if not ids.is_unique:
                raise ValueError("labels by id need unique ids: pass them in the table's order")
            unknown = [key for key in labels.keys() if key not in ids]  # noqa: SIM118
            if unknown:
                raise ValueError(
                    f"labels has {len(unknown)} ids that are not in the audit, first "
                    f"{unknown[0]!r}; the audit has ids such as {ids[0]!r}"
                )
            return [labels.get(key) for key in ids]
        found = list(labels)
        if len(found) != len(self):
            raise ValueError(
                f"labels has {len(found)} entries for {len(self)} rows of the audit: pass one for "
                "each, None where unknown"
            )
        return found

    def _codes(self, labels: list[Any]) -> Ints:
        present = [label for label in labels if not is_missing(label)]
        kinds = {kind_of(values) == "text" for values in (present, self.classes) if values}
        if len(kinds) > 1:
            raise ValueError(
                f"labels contains {present[0]!r} but the given labels are like "
                f"{self.classes[0]!r}; both must be of one type"
            )
        numbers = {label: number for number, label in enumerate(self.classes)}
        other = len(numbers)  # a class that no row has is wrong wherever it is verified
        codes = [-1 if is_missing(label) else numbers.get(label, other) for label in labels]
        return np.array(codes, dtype=np.int64)


def propose_audit(findings: pd.DataFrame, n_rows: int = 100, *, random_state: int = 0) -> Audit:
    """Choose a stratified random sample of rows to verify.

    `findings` is the table of `LabelCleaner.findings_` or of a run. Rows without a label, and
    rows that are verified already, are not chosen. 50 to 200 rows are usual; an audit of more
    rows begins with the same ones.
    """
    whole = isinstance(n_rows, int | np.integer) and not isinstance(n_rows, bool)
    if not whole or n_rows < 1:
        raise ValueError(f"n_rows={n_rows!r}: ask for a whole number of rows, such as 100")
    population, classes = population_of(findings)
    plan = draw_plan(population, int(n_rows), random_state)
    return Audit(plan, population, findings.index, classes)


def describe(plan: AuditPlan, stratum: int) -> str:
    """Describe a stratum by what the run did and the range of scores: `doubted 0.21-0.48`."""
    found = plan.strata[stratum]
    return f"{found.group} {found.low:.2f}-{found.high:.2f}"
