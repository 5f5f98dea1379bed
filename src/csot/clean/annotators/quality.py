"""How good each annotator is, with an interval; one verdict per sample and per vote."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.stats import beta

from csot._core.array_types import Floats, Ints
from csot.clean.annotators.confusions import Confusions
from csot.clean.annotators.votes import Votes
from csot.runs.findings import CORRECTED, findings_table
from csot.runs.reasons import Verdicts, quoted, reasons

# How good each annotator is, with an interval.
#
#     c_a, n_a    expected number of right votes sum_v q_{i(v), y(v)}, and number of votes
#     m, s        mean and strength of the Beta(s m, s (1 - m)) that accuracies come from
#
# quality_a = (c_a + s m) / (n_a + s). The interval holds 95 % of the Beta distribution of that mean
# whose variance adds up what is not known: the accuracy given the right votes, which votes are
# right, and m.

INTERVAL = (0.025, 0.975)
LEAST_BETWEEN = 0.02
"""Share of the variance that is between annotators at least: people are never all alike."""
LEAST_CONFUSED = 0.5
"""Expected votes below which a confusion is not named."""


def annotator_table(
    votes: Votes, truth: Floats, consensus: npt.NDArray[np.int64], confusions: Confusions
) -> pd.DataFrame:
    """A row per annotator: quality, interval, agreement, where they err. `truth` is q (N, C)."""
    n = np.bincount(votes.annotator, minlength=len(votes.annotators)).astype(np.float64)
    quality, low, high = _quality(votes, truth, n)
    worst, worst_accuracy = _worst_class(votes, confusions)
    confused, confused_as = _confusion(votes, confusions)
    table = pd.DataFrame(
        {
            "quality": quality,
            "quality_low": low,
            "quality_high": high,
            "n_votes": n.astype(np.int64),
            "agreement_with_consensus": _mean(votes, votes.label == consensus[votes.sample], n),
            "agreement_with_others": _with_others(votes),
            "worst_class": votes.decode(worst),
            "worst_class_accuracy": worst_accuracy,
            "confused_class": votes.decode(confused),
            "confused_as": votes.decode(confused_as),
        },
        index=votes.annotators.rename("annotator"),
    )
    return table.sort_values("quality", ascending=False, kind="stable")


def _quality(votes: Votes, truth: Floats, n: Floats) -> tuple[Floats, Floats, Floats]:
    score = truth[votes.sample, votes.label]
    right: Floats = np.bincount(votes.annotator, score, minlength=len(n)).astype(np.float64)
    unclear: Floats = np.bincount(votes.annotator, score * (1 - score), minlength=len(n)).astype(
        np.float64
    )
    mean = (right.sum() + 1) / (n.sum() + 2)
    s = _strength(right, unclear, n, mean)
    quality = (right + s * mean) / (n + s)
    variance = quality * (1 - quality) / (n + s + 1)
    variance += unclear / (n + s) ** 2
    variance += (s / (n + s)) ** 2 * mean * (1 - mean) / (n.sum() + 2)
    # The Beta distribution of this mean and variance.
    weight = np.maximum(quality * (1 - quality) / variance - 1, 1e-3)
    low, high = (beta.ppf(at, quality * weight, (1 - quality) * weight) for at in INTERVAL)
    return quality, np.minimum(low, quality), np.maximum(high, quality)


def _strength(right: Floats, unclear: Floats, n: Floats, mean: float) -> float:
    """s by moments, where 1 / (s + 1) is the share of the variance that is between annotators.

    E (r_a / n_a - m)^2 = m (1 - m) (1 / n_a + (1 - 1 / n_a) / (s + 1)) for the r_a right votes,
    which are not known: their own variance adds to the left side. Weighted by n_a.
    """
    voted = n > 0
    r, u, n = right[voted], unclear[voted], n[voted]
    squares = ((r - n * mean) ** 2 + u) / n
    chance = mean * (1 - mean)
    between = (squares.sum() / chance - len(n)) / max(float((n - 1).sum()), 1.0)
    return 1 / min(max(float(between), LEAST_BETWEEN), 0.5) - 1


def _mean(votes: Votes, values: npt.NDArray[np.bool_], n: Floats) -> Floats:
    """Mean over the votes of each annotator; NaN without a vote."""
    total = np.bincount(votes.annotator, values.astype(np.float64), minlength=len(n))
    return _ratio(total, n)


def _with_others(votes: Votes) -> Floats:
    """Share of the others' votes on the same samples that are the same as the annotator's."""
    counts = votes.counts()
    pair = votes.sample * len(votes.annotators) + votes.annotator
    _, place, own_votes = np.unique(pair, return_inverse=True, return_counts=True)
    cell = pair * len(votes.classes) + votes.label
    _, cell_place, same_votes = np.unique(cell, return_inverse=True, return_counts=True)
    others = counts.sum(1)[votes.sample] - own_votes[place]
    same = counts[votes.sample, votes.label] - same_votes[cell_place]
    size = len(votes.annotators)
    return _ratio(
        np.bincount(votes.annotator, same, minlength=size),
        np.bincount(votes.annotator, others, minlength=size),
    )


def _ratio(top: npt.NDArray[Any], bottom: npt.NDArray[Any]) -> Floats:
    ratio: Floats = np.full(len(top), np.nan)
    np.divide(top, bottom, out=ratio, where=bottom > 0)
    return ratio


def _worst_class(votes: Votes, confusions: Confusions) -> tuple[npt.NDArray[np.int64], Floats]:
    """The true class that each annotator gets right least often, among those they met."""
    right = confusions.right()
    met = confusions.totals >= min(1.0, float(confusions.totals.max()))
    met |= ~met.any(1, keepdims=True)
    worst = np.where(met, right, np.inf).argmin(1)
    accuracy = right[np.arange(len(right)), worst]
    without_votes = np.bincount(votes.annotator, minlength=len(right)) == 0
    return np.where(without_votes, -1, worst), np.where(without_votes, np.nan, accuracy)


def _confusion(votes: Votes, confusions: Confusions) -> tuple[Any, Any]:
    """The true class and the label of the commonest expected error of each annotator."""
    pairs = confusions.pairs
    wrong = confusions.counts.copy()
    wrong[np.arange(len(wrong)), pairs.label] = 0.0
    true, most = wrong.argmax(1), wrong.max(1, initial=0.0)
    confused = np.full(len(votes.annotators), -1, dtype=np.int64)
    confused_as = confused.copy()
    for pair in np.argsort(most, kind="stable"):
        if most[pair] >= LEAST_CONFUSED:
            confused[pairs.annotator[pair]] = true[pair]
            confused_as[pairs.annotator[pair]] = pairs.label[pair]
    return confused, confused_as


# From the posterior of the truth to one verdict per sample, and one per vote.


CONFIDENT = 0.8
"""Below this posterior of the consensus label the status is `uncertain`."""


def majority(counts: Floats, truth: Floats) -> Ints:
    """The label with the most votes, (N,); the likeliest of those that tie; -1 without a vote."""
    tied = (counts == counts.max(1, keepdims=True)) & (counts > 0)
    winner = np.where(tied, truth, -1.0).argmax(1)
    return np.where(tied.any(1), winner, -1)


def consensus_labels(truth: Floats, given: Ints, verified: Ints) -> Ints:
    """The verified label, else the likeliest; where that ties with the majority's, the latter."""
    rows = np.arange(len(truth))
    best = truth.argmax(1)
    own = truth[rows, np.maximum(given, 0)]
    best = np.where((given >= 0) & (own >= truth[rows, best]), given, best)
    return np.where(verified >= 0, verified, best)


def make_findings(
    votes: Votes, truth: Floats, predicted: Floats | None, verified: Ints
) -> pd.DataFrame:
    """A row per sample. `truth` is q (N, C), `predicted` what the classifier alone says."""
    counts = votes.counts()
    given = majority(counts, truth)
    label = consensus_labels(truth, given, verified)
    rows, locked = np.arange(len(truth)), verified >= 0
    confidence = np.where(locked, 1.0, truth[rows, label])
    # Without a vote no label could be wrong; the score is then how sure the suggestion is.
    score = np.where(given >= 0, truth[rows, np.maximum(given, 0)], confidence)
    score = np.where(locked, (label == given) | (given < 0), score)
    n_votes = counts.sum(1).astype(np.int64)
    agreeing = counts[rows, label].astype(np.int64)
    status = np.where(label == given, "clean", "corrected").astype(object)
    status[(confidence < CONFIDENT) & ~locked] = "uncertain"
    note = np.array(
        [
            f"{a} of {n} votes" if n else "no label given"
            for a, n in zip(agreeing, n_votes, strict=True)
        ],
        dtype=object,
    )
    note[locked] = "verified"
    agreement = np.full(len(truth), np.nan)
    np.divide(agreeing, n_votes, out=agreement, where=n_votes > 0)
    model = truth if predicted is None else predicted
    guess, issue = model.argmax(1), (label != given) & (given >= 0) & ~locked
    verdicts = Verdicts(truth, given, guess, model[rows, guess], label, issue, verified=locked)
    findings = findings_table(
        votes.samples,
        given=votes.decode(given),
        predicted=votes.classes[guess],
        corrected=votes.classes[label],
        is_issue=issue,
        score=score,
        confidence=confidence,
        status=status,
        note=note,
        reason=_reasons(verdicts, votes, agreeing, n_votes),
    )
    return findings.assign(n_votes=n_votes, agreement=agreement)


def _reasons(
    verdicts: Verdicts, votes: Votes, agreeing: Ints, n_votes: Ints
) -> npt.NDArray[np.object_]:
    """The given label being that of the majority, with how many votes the consensus has."""
    found = reasons(verdicts, votes.classes.tolist())
    rows = np.flatnonzero(n_votes)
    names = [quoted(name) for name in votes.classes[verdicts.corrected[rows]].tolist()]
    counts = zip(agreeing[rows].tolist(), n_votes[rows].tolist(), names, strict=True)
    found[rows] += np.array([f" {a} of {n} votes say {name}." for a, n, name in counts], object)
    return found


def vote_table(votes: Votes, truth: Floats, findings: pd.DataFrame) -> pd.DataFrame:
    """A row per vote: the probability that it is right, and whether it looks wrong."""
    label = votes.classes[votes.label]
    consensus = findings[CORRECTED].to_numpy()[votes.sample]
    return pd.DataFrame(
        {
            "sample": votes.samples[votes.sample],
            "annotator": votes.annotators[votes.annotator],
            "label": label,
            "vote_score": np.clip(truth[votes.sample, votes.label], 0.0, 1.0),
            "consensus": consensus,
            "is_vote_issue": label != consensus,
        }
    )
