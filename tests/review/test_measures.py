"""Precision and agreement against SciPy, scikit-learn and counting."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import cohen_kappa_score

from csot.review.domain.ledger import cohens_kappa, consensus, pairs
from csot.review.domain.precision import EDGES, bands, forecast, left_above, wilson
from csot.review.domain.session import Session
from report.sample_runs import rows_run


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    session = Session(rows_run(tmp_path, 2000, 4), "ana")
    yield session
    session.close()


def judge(session: Session, rows: list[int], right: list[bool]) -> None:
    """Accept the right suggestions and keep the label where they are wrong."""
    good = [row for row, fits in zip(rows, right, strict=True) if fits]
    session.decide(good, "accept", None, "grid", "batch-good")
    session.decide([row for row in rows if row not in good], "keep", None, "grid", "batch-bad")


@pytest.mark.parametrize(("right", "judged"), [(0, 1), (1, 1), (3, 7), (40, 40), (97, 100)])
def test_wilson_is_scipys(right: int, judged: int) -> None:
    found = wilson(right, judged)
    oracle = stats.binomtest(right, judged).proportion_ci(0.95, "wilson")
    assert found.value == right / judged
    np.testing.assert_allclose([found.low, found.high], [oracle.low, oracle.high], atol=1e-12)


def test_bands_count_what_a_person_judged(session: Session) -> None:
    c = session.catalogue
    rows = np.flatnonzero(c.changes)
    rng = np.random.default_rng(0)
    some = rng.permutation(rows)[:120].tolist()
    right = (rng.random(120) < 0.8).tolist()
    judge(session, some, right)
    session.decide([int(np.setdiff1d(rows, some)[0])], "unsure", None, "one", "batch-unsure")
    found = bands(c, session.person)
    assert sum(band.judged for band in found) == 120
    assert sum(band.right for band in found) == sum(right)
    assert sum(band.unsure for band in found) == 1
    assert sum(band.left for band in found) == len(rows) - 121
    for band in found:
        last = band.high == EDGES[-1]
        inside = [
            good
            for row, good in zip(some, right, strict=True)
            if band.low <= c.confidence[row] and (c.confidence[row] < band.high or last)
        ]
        assert (band.right, band.judged) == (sum(inside), len(inside))


def test_a_forecast_within_one_band_is_the_beta_posterior(session: Session) -> None:
    c = session.catalogue
    rows = np.flatnonzero(c.changes & (c.confidence >= 0.99)).tolist()[:30]
    judge(session, rows, [True] * 27 + [False] * 3)
    found = forecast(c, session.person, 0.99)
    assert found is not None
    left = c.changes & ~session.person.decided & (c.confidence >= 0.99)
    assert (found.count, found.judged) == (left.sum(), 30)
    assert found.precision.value == pytest.approx(27.5 / 31)
    oracle = stats.beta(27.5, 3.5).ppf([0.025, 0.975])
    np.testing.assert_allclose([found.precision.low, found.precision.high], oracle, atol=0.01)


def test_what_nobody_judged_makes_the_forecast_vague(session: Session) -> None:
    c = session.catalogue
    surest = np.flatnonzero(c.changes & (c.confidence >= 0.99)).tolist()[:100]
    judge(session, surest, [True] * len(surest))
    sure, wide = forecast(c, session.person, 0.99), forecast(c, session.person, 0.0)
    assert sure is not None
    assert wide is not None
    assert sure.precision.low > 0.9
    assert wide.precision.high - wide.precision.low > 3 * (sure.precision.high - sure.precision.low)


def test_a_rule_decides_but_judges_nothing(session: Session) -> None:
    c = session.catalogue
    expected = int(left_above(c, session.person, 0.9).sum())
    with pytest.raises(ValueError, match=f"{expected:,} suggestions are left above 0.9, not 7"):
        session.accept_above(0.9, 7, "batch-rule-0")
    assert session.accept_above(0.9, expected, "batch-rule-1") == expected
    assert session.accept_above(0.9, expected, "batch-rule-1") == expected, "sent twice"
    assert session.person.decided.sum() == expected
    assert sum(band.judged for band in bands(c, session.person)) == 0
    assert forecast(c, session.person, 0.9) is None
    assert len(session.undo("batch-rule-1", "undo-rule")) == expected
    assert not session.person.decided.any()


def test_kappa_is_scikit_learns() -> None:
    rng = np.random.default_rng(0)
    first = rng.integers(0, 4, 200)
    second = np.where(rng.random(200) < 0.7, first, rng.integers(0, 4, 200))
    assert cohens_kappa(first, second) == pytest.approx(cohen_kappa_score(first, second))
    assert cohens_kappa(first, first) == 1
    assert cohens_kappa(np.zeros(5, int), np.zeros(5, int)) is None, "chance alone agrees"
    assert cohens_kappa(first[:0], first[:0]) is None


def test_reviewers_agree_or_not(session: Session) -> None:
    other = Session(session.catalogue.run, "ben")
    session.decide([1, 2, 3], "choose", 1, "grid", "batch-ana-1")
    session.decide([4], "unsure", None, "one", "batch-ana-2")
    other.decide([2, 4, 5], "choose", 1, "grid", "batch-ben-1")
    other.decide([3], "choose", 2, "one", "batch-ben-2")
    session.ledger.refresh()
    people = session.ledger.people
    assert session.ledger.reviewers() == ["ana", "ben"]
    label, disagree = consensus(people, len(session.catalogue))
    assert np.flatnonzero(disagree).tolist() == [3]
    assert label[:6].tolist() == [-1, 1, 1, -1, 1, 1], "unsure contradicts nobody"
    (pair,) = pairs(people)
    assert (pair.first, pair.second, pair.rows, pair.same) == ("ana", "ben", 2, 1)
    other.close()
