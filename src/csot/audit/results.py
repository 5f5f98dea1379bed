"""What the verified rows of a plan say of the whole data set."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from csot.audit.design import CHANGED, FLAGGED, Plan, allocate
from csot.audit.interval import Estimate, stratified_share
from csot.audit.population import Bools, Floats, Ints, Population

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
    """Of the rows with ``is_label_issue``, those whose given label is wrong."""
    correction_precision: Estimate | None
    """Of the rows whose label the run changes, those that become right."""
    right_before: Estimate
    """Given labels that are right."""
    right_after: Estimate
    """Corrected labels that are right."""
    is_complete: bool
    """Every stratum has a judged row; before, the intervals are very wide."""


def assess(plan: Plan, population: Population, truth: Ints) -> AuditResult:
    """From the verified class of each row of the plan, (n,); -1 where nobody can say.

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
    plan: Plan, population: Population, n_rows: int, truth: Ints | None = None
) -> Estimate:
    """The noise rate as ``n_rows`` verified rows would find it, if what is known so far holds.

    Only its width means anything before there are decisions. ``truth`` as for `assess`.
    """
    counts = np.bincount(allocate(plan.strata, n_rows), minlength=len(plan.strata)).astype(float)
    expected = np.array([stratum.expected for stratum in plan.strata])
    x = n = np.zeros(len(plan.strata))
    if truth is not None:
        judged = truth >= 0
        n = _counts(plan, judged)
        x = _counts(plan, judged & (truth != population.given[plan.rows]))
    share = (x + PRIOR_ROWS * expected) / (n + PRIOR_ROWS)
    return _with_known(plan, counts * share, counts, share, _known(population))


def _counts(plan: Plan, mask: Bools) -> Floats:
    found: Floats = np.bincount(plan.stratum[mask], minlength=len(plan.strata)).astype(np.float64)
    return found


def _sizes(plan: Plan) -> Floats:
    return np.array([stratum.size for stratum in plan.strata], dtype=np.float64)


def _known(population: Population) -> tuple[int, int]:
    """Wrong labels among the rows that were verified before, and how many such rows there are."""
    known = population.labelled & population.known
    return int((known & (population.corrected != population.given)).sum()), int(known.sum())


def _with_known(
    plan: Plan, x: Floats, n: Floats, expected: Floats, known: tuple[int, int]
) -> Estimate:
    """Over all strata and (counted, total) rows that were verified before."""
    sizes = _sizes(plan)
    if known[1]:
        x, n, sizes = np.append(x, known[0]), np.append(n, known[1]), np.append(sizes, known[1])
        expected = np.append(expected, 0.0)
    return stratified_share(x, n, sizes, expected)
