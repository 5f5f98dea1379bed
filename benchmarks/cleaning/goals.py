"""What csot is to reach in every cell, checked against each rival of the same run."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from cleaning.measures import Record

UNCHANGED = 0.02
RATE_ERROR = 0.06
BASELINE_LOSS = 0.01
CURVE_SLACK = 0.001
VERIFIED = 100
INTERVAL_SHARE = 0.9


@dataclass(frozen=True)
class Check:
    """One goal in one cell: reached, missed, or (None) not applicable."""

    goal: str
    met: bool | None
    figures: str

    def __str__(self) -> str:
        sign = {True: "ok", False: "MISS", None: ""}[self.met]
        return f"{sign} {self.figures}".strip()


GOALS = {
    "ap": "average precision above every rival",
    "f1": "F1 of is_label_issue at least cleanlab's",
    "right": "right labels after correction above the given ones and above cleanlab's correction",
    "baseline": "noise by class: at most one point of right labels below the baseline",
    "unchanged": "no noise: fewer than 2 % of the labels change",
    "rate": "noise rate within .06",
    "interval": "truth inside noise_rate_interval_",
    "accuracy": "test accuracy of predict above every rival",
    "verified": "100 verified rows: the prototype's best power reached",
    "curve": "more verified rows: never fewer right labels",
}


def check(record: Record, rivals: dict[str, Record], baseline: Record | None) -> list[Check]:
    """One check for each of ``GOALS``; ``baseline`` is a stored record of csot, if there is one."""
    ours, noisy = record["csot"], record["kind"] != "none"
    return [
        _above_all("ap", ours, rivals),
        _at_least_cleanlab(ours, rivals),
        _right(record, ours, rivals, noisy),
        _baseline(record, ours, baseline),
        _none_changed(ours, noisy),
        _rate(record, ours),
        _interval(record, ours),
        _above_all("accuracy", ours, rivals),
        _verified(ours, baseline),
        _curve(ours),
    ]


def _above_all(goal: str, ours: Record, rivals: dict[str, Record]) -> Check:
    theirs = {name: r[goal] for name, r in rivals.items() if r[goal] is not None}
    if ours[goal] is None or not theirs:
        return Check(goal, None, "")
    best = max(theirs, key=lambda name: theirs[name])
    figures = f"{ours[goal]:.3f} / {theirs[best]:.3f} {best}"
    return Check(goal, ours[goal] > theirs[best], figures)


def _at_least_cleanlab(ours: Record, rivals: dict[str, Record]) -> Check:
    theirs = rivals.get("cleanlab", {}).get("f1")
    if ours["f1"] is None or theirs is None:
        return Check("f1", None, "")
    return Check("f1", ours["f1"] >= theirs, f"{ours['f1']:.3f} / {theirs:.3f}")


def _right(record: Record, ours: Record, rivals: dict[str, Record], noisy: bool) -> Check:
    given = 1 - record["true_rate"]
    theirs = rivals.get("cleanlab", {}).get("right")
    met = ours["right"] > given if noisy else True
    figures = f"{ours['right']:.3f} / given {given:.3f}"
    if theirs is not None:
        met, figures = met and ours["right"] > theirs, f"{figures} / {theirs:.3f}"
    return Check("right", met, figures)


def _baseline(record: Record, ours: Record, baseline: Record | None) -> Check:
    if baseline is None or record["kind"] != "class":
        return Check("baseline", None, "")
    before = baseline["csot"]["right"]
    met = ours["right"] >= before - BASELINE_LOSS
    return Check("baseline", met, f"{ours['right']:.3f} / {before:.3f}")


def _none_changed(ours: Record, noisy: bool) -> Check:
    if noisy:
        return Check("unchanged", None, "")
    return Check("unchanged", ours["changed"] < UNCHANGED, f"{ours['changed']:.2%}")


def _rate(record: Record, ours: Record) -> Check:
    met = abs(ours["noise_rate"] - record["true_rate"]) <= RATE_ERROR
    return Check("rate", met, f"{ours['noise_rate']:.3f} ({record['true_rate']:.3f})")


def _interval(record: Record, ours: Record) -> Check:
    ends = ours.get("noise_rate_interval")
    if ends is None:
        return Check("interval", None, "")
    met = ends[0] <= record["true_rate"] <= ends[1]
    return Check("interval", met, f"{ends[0]:.3f} to {ends[1]:.3f}")


def _verified(ours: Record, baseline: Record | None) -> Check:
    reached = [p["right"] for p in ours.get("curve") or [] if p["verified"] == VERIFIED]
    held = baseline["csot"] if baseline is not None else {}
    best = held.get("prototype_right", ours.get("prototype_right"))
    if not reached or best is None:
        return Check("verified", None, "")
    return Check("verified", reached[0] >= best, f"{reached[0]:.3f} / {best:.3f}")


def _curve(ours: Record) -> Check:
    shares = [point["right"] for point in ours.get("curve") or []]
    if len(shares) < 2:
        return Check("curve", None, "")
    drop = max(a - b for a, b in itertools.pairwise(shares))
    return Check("curve", drop <= CURVE_SLACK, " ".join(f"{share:.3f}" for share in shares))


def tally(checks: list[list[Check]]) -> list[Check]:
    """Each goal over all cells: cells that reach it, of those where it applies."""
    totals = []
    for column in zip(*checks, strict=True):
        applies = [entry.met for entry in column if entry.met is not None]
        needed = INTERVAL_SHARE if column[0].goal == "interval" else 1.0
        met = sum(applies) >= needed * len(applies) if applies else None
        totals.append(Check(column[0].goal, met, f"{sum(applies)} of {len(applies)}"))
    return totals
