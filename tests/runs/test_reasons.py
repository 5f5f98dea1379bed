"""The sentences, case by case, and against a slow choice of them row by row."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from csot.runs.reasons import SURE, Verdicts, quoted, reasons, share, short_reason

NAMES = ["cat", "dog", "sea lion"]


def one(posterior: list[float], given: int, **more: Any) -> str:
    """The reason of a single row whose corrected label is the likeliest class."""
    array = np.array([posterior])
    best = array.argmax(1)
    flags = {name: np.array([more.pop(name, False)]) for name in ("verified", "misfit", "rare")}
    predicted = np.array([more.pop("predicted", best[0])])
    corrected = np.array([more.pop("corrected", best[0])])
    issue = np.array([more.pop("issue", bool(given >= 0 and corrected[0] != given))])
    prediction = np.array([more.pop("prediction", 0.7)])
    verdicts = Verdicts(
        array, np.array([given]), predicted, prediction, corrected, issue, **flags, **more
    )
    return str(reasons(verdicts, NAMES)[0])


@pytest.mark.parametrize(
    ("posterior", "given", "more", "text"),
    [
        ([0.01, 0.97, 0.02], 0, {}, "Looks like dog (97 %), not cat (1 %)."),
        ([0.001, 0.001, 0.998], 0, {}, "Looks like “sea lion” (over 99 %), not cat (under 1 %)."),
        ([0.3, 0.55, 0.15], 0, {}, "Could be dog (55 %) or cat (30 %); worth a look."),
        (
            [0.05, 0.6, 0.35],
            0,
            {},
            "Could be dog (60 %), “sea lion” (35 %) or cat (5 %); worth a look.",
        ),
        ([0.98, 0.01, 0.01], 0, {}, "The prediction agrees with the label."),
        (
            [0.9, 0.1, 0.0],
            0,
            {"predicted": 1},
            "The prediction is dog (70 %), which is not enough to doubt the label.",
        ),
        (
            [0.6, 0.4, 0.0],
            0,
            {"issue": True},
            "The label cat fits best (60 %), but dog (40 %) is possible; worth a look.",
        ),
        ([0.7, 0.3, 0.0], 0, {}, "The label cat fits best (70 %), but dog (30 %) is possible."),
        ([0.03, 0.97, 0.0], -1, {}, "No label given; looks like dog (97 %)."),
        ([0.4, 0.6, 0.0], -1, {}, "No label given; could be dog (60 %) or cat (40 %)."),
        ([0.98, 0.01, 0.01], 0, {"verified": True}, "Verified by a person."),
        ([0.0, 1.0, 0.0], 0, {"verified": True}, "A person verified dog; the label was cat."),
        ([0.0, 1.0, 0.0], -1, {"verified": True}, "A person verified dog."),
        (
            [0.1, 0.9, 0.0],
            0,
            {"misfit": True},
            "Fits none of the classes well; dog comes closest.",
        ),
        (
            [0.1, 0.9, 0.0],
            -1,
            {"misfit": True},
            "No label given; fits none of the classes well; dog comes closest.",
        ),
        (
            [0.9, 0.1, 0.0],
            0,
            {"rare": True},
            "Too few rows are labelled cat to judge this label.",
        ),
        (
            [0.9, 0.1, 0.0],
            0,
            {"informative": False},
            "The features do not predict the labels, so this one cannot be judged.",
        ),
        (
            [0.9, 0.1, 0.0],
            -1,
            {"informative": False},
            "No label given, and the features do not predict the labels.",
        ),
    ],
)
def test_every_sentence(
    posterior: list[float], given: int, more: dict[str, Any], text: str
) -> None:
    assert one(posterior, given, **more) == text


def test_many_rows_are_judged_as_each_by_itself() -> None:
    rng = np.random.default_rng(0)
    n, names = 2000, [f"k{k}" for k in range(4)]
    posterior = rng.dirichlet(np.full(4, 0.4), n)
    best = posterior.argmax(1)
    given = np.where(rng.random(n) < 0.6, best, rng.integers(-1, 4, n))
    corrected = np.where((rng.random(n) < 0.2) & (given >= 0), given, best)
    predicted = np.where(rng.random(n) < 0.7, best, rng.integers(0, 4, n))
    issue = (given >= 0) & ((corrected != given) | (rng.random(n) < 0.2))
    found = reasons(
        Verdicts(posterior, given, predicted, posterior.max(1), corrected, issue), names
    )
    for i in range(n):
        words, kept = found[i], corrected[i] == given[i]
        sure = posterior[i, corrected[i]] >= SURE
        assert words.startswith("No label") == (given[i] < 0)
        assert words.startswith("Looks like") == (given[i] >= 0 and not kept and sure)
        if "fits best" in words:
            assert posterior[i, given[i]] >= posterior[i].max() - 0.01
        if words.startswith("Looks more like"):
            assert kept
            assert posterior[i, given[i]] < posterior[i].max()
        assert words.endswith("worth a look.") == bool(issue[i] and not (sure and not kept))
        if words == "The prediction agrees with the label.":
            assert (kept, predicted[i], sure) == (True, given[i], True)
        for name, percent in re.findall(r"(k\d) (?:fits best )?\((\d+) %\)", words):
            if not words.startswith("The prediction is"):
                assert abs(posterior[i, int(name[1])] * 100 - int(percent)) <= 0.5


def test_names_are_quoted_where_they_could_be_misread() -> None:
    assert [quoted(name) for name in ("cat", 7, "Dog-2", "grün")] == ["cat", "7", "Dog-2", "grün"]
    assert quoted("sea lion") == "“sea lion”"
    assert quoted("a\nb%s") == "“a b%s”"
    assert quoted("") == "“”"
    assert len(quoted("x" * 500)) < 70


def test_a_name_with_a_format_sign_is_text() -> None:
    zero, ones = np.array([0]), np.ones(1)
    verdicts = Verdicts(np.array([[0.9, 0.1]]), zero + 1, zero, ones, zero, ones.astype(bool))
    assert reasons(verdicts, ["%s", "{0}"])[0] == "Looks like “%s” (90 %), not “{0}” (10 %)."


def test_no_share_is_certain() -> None:
    values = [0.0, 0.004, 0.006, 0.5, 0.994, 1.0, float("nan")]
    shares = ["under 1 %", "under 1 %", "1 %", "50 %", "99 %", "over 99 %", "under 1 %"]
    assert [share(value) for value in values] == shares


def test_no_rows_have_no_reasons() -> None:
    none = np.zeros(0, dtype=np.int64)
    verdicts = Verdicts(np.zeros((0, 2)), none, none, np.zeros(0), none, none.astype(bool))
    assert len(reasons(verdicts, ["a", "b"])) == 0


def test_short_reasons_need_no_posterior() -> None:
    assert short_reason(None, 1.0, "dog", 0.97) == "No label given; looks like dog (97 %)."
    assert short_reason("cat", 0.97, "cat", 0.97) == "The label cat fits (97 %)."
    assert short_reason("cat", 0.02, "dog", 0.97) == "Looks like dog (97 %), not cat (2 %)."
