"""Strata, allocation and order, against trying everything and against counting."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.made_findings import made_findings
from csot.audit.design import (
    CHANGED,
    FLAGGED,
    Stratum,
    draw_plan,
    make_strata,
    neyman_allocation,
    population_of,
)
from reference import audit as oracle


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 7), st.floats(0.05, 0.95)), min_size=1, max_size=4),
    st.integers(1, 14),
)
def test_every_prefix_is_neymans_allocation(made: list[tuple[int, float]], n: int) -> None:
    sizes, expected = [size for size, _ in made], [q for _, q in made]
    strata = tuple(Stratum("agreed", 0, 1, size, q) for size, q in made)
    order = neyman_allocation(strata, n)
    assert len(order) == min(n, sum(sizes))
    if n < sum(min(2, size) for size in sizes):
        return
    counts = tuple(np.bincount(order, minlength=len(strata)).tolist())
    best = min(
        oracle.variance(other, sizes, expected) for other in oracle.allocations(len(order), sizes)
    )
    assert oracle.variance(counts, sizes, expected) == pytest.approx(best, abs=1e-9)


def test_strata_part_the_rows_by_what_the_run_did() -> None:
    findings, _ = made_findings(3000, 0.2, 0)
    findings.iloc[7, findings.columns.get_loc("note")] = "verified"
    findings.iloc[9, [0, 4, 6]] = [None, np.nan, "uncertain"]
    population, _ = population_of(findings)
    strata, member = make_strata(population)
    assert 4 <= len(strata) <= 12
    assert set(np.flatnonzero(member < 0)) == {7, 9}, "neither the verified nor the unlabelled"
    for number, stratum in enumerate(strata):
        inside = findings[member == number]
        assert len(inside) == stratum.size
        assert inside["label_score"].between(stratum.low, stratum.high).all()
        changed = inside["corrected_label"] != inside["given_label"]
        assert changed.eq(stratum.group in CHANGED).all()
        assert inside["is_label_issue"].eq(stratum.group in FLAGGED).all()
    for first, second in itertools.pairwise(strata):
        assert first.group != second.group or first.high < second.low


def test_equal_scores_stay_together() -> None:
    findings, _ = made_findings(500, 0.2, 0, corrects=False)
    findings["label_score"] = 0.99
    findings["is_label_issue"] = False
    strata, _ = make_strata(population_of(findings)[0])
    assert [stratum.group for stratum in strata] == ["doubted", "agreed"]


def test_a_longer_plan_begins_with_the_shorter() -> None:
    population, _ = population_of(made_findings(2000, 0.2, 0)[0])
    short, long = (draw_plan(population, n, 5) for n in (50, 200))
    np.testing.assert_array_equal(long.rows[:50], short.rows)
    assert len(set(long.rows)) == 200
    assert len(draw_plan(population, 9999, 5)) == 2000, "at most all rows"
    with pytest.raises(ValueError, match=r"`n_rows` is 3: this run has .* strata"):
        draw_plan(population, 3, 5)


def test_inclusion_probabilities_are_what_happens() -> None:
    """Over many seeds; the weights add up to the population."""
    population, _ = population_of(made_findings(120, 0.2, 0)[0])
    counts = np.zeros(120)
    for seed in range(2000):
        plan = draw_plan(population, 40, seed)
        counts[plan.rows] += 1
        assert (1 / plan.inclusion).sum() == pytest.approx(120)
    strata, member = make_strata(population)
    chance = np.bincount(neyman_allocation(strata, 40), minlength=len(strata)) / [
        s.size for s in strata
    ]
    np.testing.assert_allclose(counts / 2000, chance[member], atol=0.05)
    assert chance.min() > 0


def test_the_order_of_the_rows_does_not_make_strata() -> None:
    findings, _ = made_findings(800, 0.2, 0)
    shuffled = findings.sample(frac=1, random_state=1)
    first, member = make_strata(population_of(findings)[0])
    second, again = make_strata(population_of(shuffled)[0])
    assert [(s.group, s.low, s.high, s.size) for s in first] == [
        (s.group, s.low, s.high, s.size) for s in second
    ]
    positions = findings.index.get_indexer(shuffled.index)
    np.testing.assert_array_equal(member[positions], again)
