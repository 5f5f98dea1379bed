"""Filters and orders against a loop; paging never skips a row."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest

from csot.review.domain.decision_log import ACTIONS
from csot.review.domain.filters import DECIDED_FILTERS, ORDERS, STATUS_FILTERS, Filter, parse_filter
from csot.review.domain.session import Session
from csot.runs import STATUSES
from report.sample_runs import texts_run


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    run = texts_run(tmp_path_factory.mktemp("texts"), 300)
    groups = np.where(np.arange(300) % 3 == 0, np.arange(300) // 30, -1)
    run.write_duplicates(pd.Series(groups, index=run.read_findings().index))
    session = Session(run, "ana")
    rows = np.random.default_rng(3).permutation(300)[:80].tolist()
    for number, action in enumerate(ACTIONS):
        some = rows[number * 20 : number * 20 + 20]
        session.decide(some, action, number, "grid", f"batch-{number:03d}")
    yield session
    session.close()


@pytest.mark.parametrize("status", STATUS_FILTERS)
@pytest.mark.parametrize("decided", ["no", "any", "yes", "unsure"])
def test_a_filter_keeps_what_it_says(session: Session, status: str, decided: str) -> None:
    c, person = session.catalogue, session.person
    wanted = Filter(status=status, decided=decided, low=0.2, high=0.99, given=1)
    found = set(session.selector.rows(wanted, person).tolist())
    expected = set()
    for row in range(len(c)):
        words = STATUSES[c.status[row]]
        fits = {
            "flagged": bool(c.flagged[row]),
            "any": True,
            "changed": c.standing[row] != c.given[row],
            "unchanged": bool(c.flagged[row]) and c.suggested[row] == c.given[row],
            "unlabelled": c.given[row] < 0,
            "verified": False,
            "duplicate": row % 3 == 0,
            "conflict": row % 3 == 0 and c.given[row] >= 0,  # ten rows of five classes differ
            "stranger": c.notes[row] == "no class fits",
            "rare": False,
        }.get(status, words == status)
        made = person.action[row]
        right = {"no": made == 0, "any": True, "yes": made > 0, "unsure": made == 4}[decided]
        if fits and right and c.given[row] == 1 and 0.2 <= c.confidence[row] <= 0.99:
            expected.add(row)
    assert found == expected


@pytest.mark.parametrize("order", ORDERS)
def test_an_order_is_one(session: Session, order: str) -> None:
    c = session.catalogue
    rows = session.selector.rows(Filter(status="any", decided="any", order=order), session.person)
    assert sorted(rows.tolist()) == list(range(len(c)))
    keys = {
        "score": np.nan_to_num(c.score, nan=2.0),
        "confidence": -c.confidence,
        "doubt": c.confidence,
        "given": c.given,
        "group": np.where(c.odd.group < 0, 99, c.odd.group),
    }
    if order in keys:
        assert (np.diff(keys[order][rows]) >= 0).all()
    else:
        assert rows.tolist() != sorted(rows.tolist())


def test_the_position_counts_what_is_decided_meanwhile(session: Session) -> None:
    selector, person = session.selector, session.person
    every = selector.rows(Filter(decided="any"), person).tolist()
    left = selector.rows(Filter(), person).tolist()
    assert len(left) < len(every)
    assert [selector.position(Filter(), person, row) for row in every] == [
        (place, len(every)) for place in range(1, len(every) + 1)
    ]
    kept = selector.rows(Filter(decided="keep"), person).tolist()
    assert selector.position(Filter(decided="keep"), person, kept[-1]) == (len(kept), len(kept))
    outside = next(row for row in range(len(session.catalogue)) if row not in every)
    assert selector.position(Filter(), person, outside) is None


def test_steps_go_through_the_list_and_back(session: Session) -> None:
    wanted, person = Filter(status="any"), session.person
    rows = session.selector.rows(wanted, person).tolist()
    walked = [rows[0]]
    while (row := session.selector.step(wanted, person, walked[-1], 1)) is not None:
        walked.append(row)
    assert walked == rows
    back = [rows[-1]]
    while (row := session.selector.step(wanted, person, back[-1], -1)) is not None:
        back.append(row)
    assert back == rows[::-1]
    # From a row that has left the list, the next is the one that would have followed.
    session.decide([rows[10]], "unsure", None, "one", "batch-step")
    assert session.selector.step(wanted, person, rows[10], 1) == rows[11]
    assert session.selector.step(wanted, person, rows[10], -1) == rows[9]


def test_pages_skip_nothing_while_rows_are_decided(session: Session) -> None:
    """Every shown row is decided before the page is turned: all others still come."""
    wanted, person = Filter(status="any"), session.person
    expected = session.selector.rows(wanted, person).tolist()
    seen: list[int] = []
    start = None
    for number in range(100):
        rows, place, total = session.selector.window(wanted, person, start, 30)
        if not total:
            break
        assert place == 0
        seen += rows.tolist()
        start = session.selector.step(wanted, person, int(rows[-1]), 1)
        session.decide(rows.tolist(), "unsure", None, "grid", f"batch-p{number:03d}")
        if start is None:
            break
    assert seen == expected
    every = Filter(status="any", decided="any")
    rows, place, total = session.selector.window(every, person, None, 30)
    after = session.selector.step(every, person, int(rows[-1]), 1)
    second, place, _ = session.selector.window(every, person, after, 30)
    assert place == 30
    back, place, _ = session.selector.window(every, person, int(second[0]), 30, back=True)
    assert (place, back.tolist()) == (0, rows.tolist())


def test_filters_survive_the_address() -> None:
    for status in STATUS_FILTERS:
        for decided in DECIDED_FILTERS:
            wanted = Filter(3, -1, status, 0.25, 0.75, decided, "random")
            query = dict(part.split("=") for part in wanted.query().split("&"))
            assert parse_filter(query) == wanted
    assert Filter().query() == ""


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"status": "odd"}, "status=odd: choose one of flagged, any"),
        ({"order": "odd"}, "order=odd"),
        ({"given": "1e3"}, "given=1e3: give the number of a class"),
        ({"given": "9" * 50}, "give the number of a class"),
        ({"low": "2"}, "low=2: give a number from 0 to 1"),
        ({"high": "nan"}, "high=nan"),
    ],
)
def test_nonsense_is_named(query: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_filter(query)
