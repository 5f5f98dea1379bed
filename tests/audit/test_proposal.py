"""The audit in Python: it covers the truth, feeds the cleaner, and refuses what makes no sense."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris

import csot
from audit.made_findings import made_findings
from csot.audit import Audit, AuditResult
from csot.audit.design import draw_plan

TRIALS = 200


def measures(result: AuditResult) -> dict[str, object]:
    return {
        "noise": result.noise_rate,
        "issues": result.issue_precision,
        "corrections": result.correction_precision,
        "before": result.right_before,
        "after": result.right_after,
    }


def truths(findings: pd.DataFrame, truth: np.ndarray) -> dict[str, float]:
    given, corrected = (findings[name].to_numpy() for name in ("given_label", "corrected_label"))
    flagged, changed = findings["is_label_issue"].to_numpy(), corrected != given
    return {
        "noise": (given != truth).mean(),
        "issues": (given != truth)[flagged].mean() if flagged.any() else np.nan,
        "corrections": (corrected == truth)[changed].mean() if changed.any() else np.nan,
        "before": (given == truth).mean(),
        "after": (corrected == truth).mean(),
    }


@pytest.mark.parametrize(
    ("rate", "n_rows", "denies", "corrects"),
    [
        (0.2, 100, False, True),
        (0.0, 100, False, True),
        (0.01, 50, False, True),
        (0.4, 50, True, False),
        (0.2, 200, True, False),
    ],
)
def test_intervals_cover_the_truth(rate: float, n_rows: int, denies: bool, corrects: bool) -> None:
    """Over draws of the rows, from one population each; strata without errors among them."""
    findings, truth = made_findings(4000, rate, 0, denies=denies, corrects=corrects)
    expected = truths(findings, truth)
    first = csot.propose_audit(findings, n_rows, random_state=0)
    # The other draws are made as the first is, from a table that is checked and coded once.
    audits = [
        replace(first, plan=draw_plan(first.population, n_rows, seed)) for seed in range(TRIALS)
    ]
    assert audits[0].positions.tolist() == first.positions.tolist()
    covered: dict[str, list[bool]] = {name: [] for name in expected}
    margins = []
    for audit in audits:
        result = audit.estimate(truth[audit.positions])
        margins.append(result.noise_rate.margin)
        for name, found in measures(result).items():
            if found is not None:
                covered[name].append(found.low <= expected[name] <= found.high)
    rates = {name: np.mean(hits) for name, hits in covered.items() if hits}
    words = ", ".join(f"{name} {share:.3f}" for name, share in rates.items())
    print(
        f"rate {expected['noise']:.3f}, {n_rows} rows: covered {words}; margin "
        f"{np.mean(margins):.3f}, forecast {audit.margin:.3f}"
    )
    assert min(rates.values()) >= 0.93
    assert np.mean(margins) < 1.5 * audit.margin, "what was promised"


def test_it_is_sharper_than_a_plain_sample() -> None:
    findings, truth = made_findings(4000, 0.2, 0)
    wrong = findings["given_label"].to_numpy() != truth
    rng = np.random.default_rng(0)
    first = csot.propose_audit(findings, 100, random_state=0)
    audits = [replace(first, plan=draw_plan(first.population, 100, seed)) for seed in range(100)]
    found = [audit.estimate(truth[audit.positions]).noise_rate.value for audit in audits]
    plain = [wrong[rng.permutation(4000)[:100]].mean() for _ in range(100)]
    assert np.mean(found) == pytest.approx(wrong.mean(), abs=0.012), "unbiased"
    assert np.std(found) < 0.9 * np.std(plain)


def test_the_table_says_what_was_drawn() -> None:
    findings, _ = made_findings(1000, 0.2, 0)
    audit = csot.propose_audit(findings, 60)
    table = audit.table
    assert table.columns.tolist() == [
        "order", "position", "stratum", "inclusion_probability", "weight",
    ]  # fmt: skip
    assert table.index.tolist() == findings.index[audit.positions].tolist()
    assert table["weight"].sum() == pytest.approx(1000)
    assert (table["weight"] * table["inclusion_probability"]).tolist() == pytest.approx([1] * 60)
    again = csot.propose_audit(findings, 60)
    pd.testing.assert_frame_equal(again.table, table)
    other = csot.propose_audit(findings, 60, random_state=1)
    assert set(other.positions) != set(audit.positions)


def test_what_is_verified_before_is_known() -> None:
    findings, truth = made_findings(1000, 0.2, 0)
    audit = csot.propose_audit(findings, 100)
    first = audit.estimate(truth[audit.positions])
    locked = findings.copy()
    rows = audit.positions
    locked.iloc[rows, locked.columns.get_loc("corrected_label")] = truth[rows]
    locked.iloc[rows, locked.columns.get_loc("note")] = "verified"
    locked.iloc[rows, locked.columns.get_loc("is_label_issue")] = False
    same = locked["corrected_label"] == locked["given_label"]
    locked["status"] = np.where(same, "clean", "corrected")
    second = csot.propose_audit(locked, 100)
    assert not set(second.positions) & set(rows), "not asked again"
    result = second.estimate(truth[second.positions])
    assert result.noise_rate.low <= truths(findings, truth)["noise"] <= result.noise_rate.high
    everything = csot.propose_audit(findings, 1000)
    exact = everything.estimate(truth[everything.positions]).noise_rate
    assert exact.margin == 0
    assert first.noise_rate.low <= exact.value <= first.noise_rate.high


def test_some_rows_nobody_can_label() -> None:
    findings, truth = made_findings(1000, 0.2, 0)
    audit = csot.propose_audit(findings, 100)
    labels: list[object] = list(truth[audit.positions])
    labels[50:] = [None] * 25 + [np.nan] * 25
    half = audit.estimate(labels)
    assert (half.planned, half.judged, half.is_complete) == (100, 50, True)
    assert half.noise_rate.margin > audit.estimate(truth[audit.positions]).noise_rate.margin
    assert audit.margin_after(200, labels) < audit.margin_after(100, labels)
    none = audit.estimate([None] * 100)
    assert (none.noise_rate.low, none.noise_rate.high) == (0, 1)
    assert not none.is_complete
    ids = findings.index[audit.positions]
    by_id = audit.estimate(pd.Series(labels, ids, dtype=object))
    assert by_id == half == audit.estimate(dict(zip(ids[:50], labels[:50], strict=True)))


def test_it_feeds_the_cleaner() -> None:
    features, truth = load_iris(return_X_y=True)
    rng = np.random.default_rng(0)
    labels = np.where(rng.random(150) < 0.2, rng.integers(0, 3, 150), truth)
    findings = csot.LabelCleaner(random_state=0).fit(features, labels).findings_
    audit = csot.propose_audit(findings, 40)
    verified = audit.verified(truth[audit.positions])
    again = csot.LabelCleaner(random_state=0).fit(features, labels, verified=verified).findings_
    assert (again["note"].iloc[audit.positions] == "verified").all()
    assert (again["corrected_label"].to_numpy() == truth)[audit.positions].all()
    assert (again["note"] == "verified").sum() == 40
    result = audit.estimate(truth[audit.positions])
    assert result.noise_rate.low <= (labels != truth).mean() <= result.noise_rate.high


def test_errors_say_what_to_do() -> None:
    findings, truth = made_findings(300, 0.2, 0)
    audit: Audit = csot.propose_audit(findings, 50)
    with pytest.raises(ValueError, match="n_rows=0: ask for a whole number"):
        csot.propose_audit(findings, 0)
    with pytest.raises(ValueError, match=r"n_rows=2\.5: ask for a whole number"):
        csot.propose_audit(findings, 2.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="findings must have the columns"):
        csot.propose_audit(findings[["label_score"]])
    with pytest.raises(ValueError, match="no row to audit"):
        csot.propose_audit(findings.assign(note="verified"))
    with pytest.raises(ValueError, match="labels has 300 entries for 50 rows"):
        audit.estimate(truth)
    with pytest.raises(ValueError, match="1 ids that are not in the audit, first 'nowhere'"):
        audit.estimate({"nowhere": "cat"})
    with pytest.raises(ValueError, match="labels contains 1 but the given labels are like '"):
        audit.estimate([1] * 50)
    twice = findings.set_axis(["same"] * 300)
    with pytest.raises(ValueError, match="unique ids"):
        csot.propose_audit(twice, 50).estimate({"same": "cat"})
    assert csot.propose_audit(twice, 50).estimate(["cat"] * 50).judged == 50
