"""From the posterior of the truth to one verdict per sample, and one per vote."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from csot.annotators.votes import Votes
from csot.records.reasons import Verdicts, quoted, reasons

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

CONFIDENT = 0.8
"""Below this posterior of the consensus label the status is ``uncertain``."""


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
    """A row per sample. ``truth`` is q (N, C), ``predicted`` what the classifier alone says."""
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
    return pd.DataFrame(
        {
            "given_label": votes.decode(given),
            "predicted_label": votes.classes[guess],
            "corrected_label": votes.classes[label],
            "is_label_issue": issue,
            "label_score": np.clip(score.astype(np.float64), 0.0, 1.0),
            "confidence": np.clip(confidence, 0.0, 1.0),
            "status": status,
            "note": note,
            "reason": _reasons(verdicts, votes, agreeing, n_votes),
            "n_votes": n_votes,
            "agreement": agreement,
        },
        index=votes.samples,
    )


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
    consensus = findings["corrected_label"].to_numpy()[votes.sample]
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
