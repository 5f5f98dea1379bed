"""Intervals against the oracle, Wilson's, exact coverage and what must not matter."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from csot.audit.interval import Estimate, stratified_share
from csot.review.domain.precision import wilson
from reference import audit as oracle

Strata = list[tuple[int, int, int]]


@pytest.mark.parametrize(
    ("x", "n", "size"),
    [
        ([3, 1], [10, 20], [100, 900]),
        ([0, 2, 9], [12, 12, 12], [5000, 300, 200]),
        ([0, 45], [10, 90], [9000, 1000]),
        ([4, 0, 6], [5, 7, 6], [40, 70, 30]),
        ([1, 1], [1, 1], [10, 10]),
    ],
)
def test_the_interval_is_the_oracles(x: list[int], n: list[int], size: list[int]) -> None:
    found = stratified_share(x, n, size)
    arrays = [np.array(values, dtype=float) for values in (x, n, size)]
    assert found.value == pytest.approx(np.average(arrays[0] / arrays[1], weights=arrays[2]))
    np.testing.assert_allclose((found.low, found.high), oracle.interval(*arrays), atol=2e-5)


@pytest.mark.parametrize(("x", "n"), [(0, 100), (7, 50), (30, 60), (59, 60)])
def test_one_stratum_contains_wilsons(x: int, n: int) -> None:
    """And is it, where the likelihood does not reach further."""
    found, known = stratified_share([x], [n], [10**9]), wilson(x, n)
    assert found.low <= known.low + 1e-6
    assert found.high >= known.high - 1e-6
    if x == 0:
        assert found.high == pytest.approx(known.high, abs=1e-6)


def test_no_error_anywhere_is_as_good_as_one_sample() -> None:
    """Ten strata of ten rows without an error: zero is inside, and the upper end near Wilson's."""
    found = stratified_share([0] * 10, [10] * 10, [10**7] * 10)
    assert found.value == found.low == 0
    assert wilson(0, 100).high < found.high < wilson(0, 90).high


def test_what_nobody_looked_at_is_unknown() -> None:
    found = stratified_share([0, 0], [40, 0], [750, 250], [0.1, 0.4])
    assert found.value == pytest.approx(0.1)
    assert found.low == 0
    assert found.high > 0.25
    assert stratified_share([3, 5], [10, 20], [10, 20]) == Estimate(8 / 30, 8 / 30, 8 / 30)


strata = st.lists(
    st.tuples(st.integers(0, 12), st.integers(0, 12), st.integers(1, 4000)), min_size=1, max_size=6
).map(lambda rows: [(min(x, n, size), min(n, size), size) for x, n, size in rows])


def measured(rows: Strata) -> Estimate:
    x, n, size = zip(*rows, strict=True)
    return stratified_share(x, n, size)


@settings(max_examples=150, deadline=None)
@given(strata, st.randoms(use_true_random=False))
def test_what_must_not_matter(rows: Strata, random: object) -> None:
    found = measured(rows)
    assert 0 <= found.low <= found.value <= found.high <= 1
    shuffled = list(rows)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    again = measured(shuffled)
    # The share of what does not count is one minus the share of what does.
    other = measured([(n - x, n, size) for x, n, size in rows])
    for a, b in (
        (found.low, again.low),
        (found.high, again.high),
        (found.low, 1 - other.high),
        (found.value, 1 - other.value),
        (found.high, 1 - other.low),
    ):
        assert a == pytest.approx(b, abs=1e-6)


@settings(max_examples=60, deadline=None)
@given(strata)
def test_more_rows_of_the_same_say_more(rows: Strata) -> None:
    few = [(x, n, 100_000) for x, n, _ in rows]
    many = [(4 * x, 4 * n, 100_000) for x, n, _ in rows]
    assert measured(many).margin <= measured(few).margin + 1e-9


@pytest.mark.parametrize(
    ("wrong", "n", "size"),
    [
        ([0, 200], [20, 20], [2000, 400]),
        ([0, 0], [20, 20], [2000, 400]),
        ([4, 30], [20, 20], [2000, 60]),
        ([40, 90], [15, 15], [400, 100]),
        ([2, 5, 80], [9, 9, 9], [1000, 300, 100]),
        ([100, 100, 100], [5, 6, 7], [200, 200, 200]),
        ([600, 90, 20], [10, 9, 8], [3000, 100, 20]),
        ([30, 1], [30, 5], [3000, 50]),
    ],
)
def test_exact_coverage(wrong: list[int], n: list[int], size: list[int]) -> None:
    """Summed over all samples that can be drawn, zero errors in a stratum among them."""
    truth = sum(wrong) / sum(size)
    covered = 0.0
    for x, chance in oracle.outcomes(wrong, n, size):
        found = stratified_share(x, n, size)
        covered += chance * (found.low - 1e-12 <= truth <= found.high + 1e-12)
    print(f"{wrong} of {size}, {n} judged: covered {covered:.4f}")
    assert covered >= 0.93
