"""`find_consensus`: the label that several annotators meant, and how good each of them is."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.base import clone

from csot._core.array_types import Floats, Ints
from csot.clean.annotators.confusions import Confusions, Pairs
from csot.clean.annotators.expectation_maximisation import AnnotatorFit, fit
from csot.clean.annotators.quality import (
    annotator_table,
    consensus_labels,
    majority,
    make_findings,
    vote_table,
)
from csot.clean.annotators.votes import Votes, encode_votes, is_long, plain
from csot.clean.cleaner import LabelCleaner
from csot.clean.inputs import check_probabilities, check_same_index, encode_labels
from csot.ot import ConvergenceWarning


@dataclass(frozen=True, eq=False)
class Consensus:
    """What several annotators agree on, and what each of them is worth."""

    findings: pd.DataFrame
    """One row per sample: the columns of `LabelCleaner.findings_`, with the majority vote as
    `given_label` and the consensus as `corrected_label`; `n_votes`; `agreement`, the share
    of the votes for the consensus."""
    annotators: pd.DataFrame
    """One row per annotator, best first: `quality`, the probability that a vote is right, with a
    95 % interval; votes; agreement with the consensus and with the others; the worst class; the
    commonest confusion."""
    votes: pd.DataFrame
    """One row per vote: `vote_score`, the probability that it is right, and `is_vote_issue`."""
    posterior: Floats
    """(N, C) probability of each class to be the true one."""
    classes: npt.NDArray[Any]
    common_matrix: pd.DataFrame
    """p(vote | true) of a typical annotator, rows true."""
    class_prior: pd.Series[float]
    """Expected shares of the true classes."""
    noise_rate: float
    """Expected share of wrong labels among the majority votes."""
    noise_matrix: pd.DataFrame
    """p(majority vote | true), rows true."""
    sharpness: float
    """Power g to which the classifier's probabilities are raised; 1 without a classifier."""
    log_likelihood: float
    """Mean over the samples."""
    rounds: int
    converged: bool
    cleaner: LabelCleaner | None
    """Fitted to the consensus labels, where features were given."""
    _votes: Votes = field(repr=False)
    _confusions: Confusions = field(repr=False)

    def confusion_matrix(self, annotator: Any) -> pd.DataFrame:
        """p(vote | true) of one annotator (C, C), rows true."""
        names = self._votes.annotators
        if annotator not in names:
            raise KeyError(f"no annotator is called {annotator!r}; there are {list(names[:10])}")
        matrix = self._confusions.matrix(int(names.get_indexer(pd.Index([annotator]))[0]))
        return _square(matrix, self.classes, "vote")


def find_consensus(
    votes: Any,
    features: Any = None,
    pred_probs: Any = None,
    *,
    samples: Any = None,
    class_names: Any = None,
    verified: Any = None,
    cleaner: LabelCleaner | None = None,
    groups: Any = None,
    n_fits: int = 2,
    random_state: int = 0,
) -> Consensus:
    """Find the true label of each sample from the votes of several annotators.

    Each annotator has a confusion matrix, shrunk to the common one if they gave few votes. A
    classifier of the samples, if there is one, is weighted by how well it agrees with the votes.

    Parameters
    ----------
    votes : DataFrame or (N, A) array
        A long table with the columns `sample`, `annotator` and `label`; or a matrix, a row
        per sample and a column per annotator, missing where there is no vote (None, NaN or -1).
    features : (N, D) array, optional
        A `LabelCleaner` is fitted to the consensus, and its held-out probabilities judge.
    pred_probs : (N, C) array, optional
        Probabilities of models that have not seen the sample's votes (cross-validation), columns
        in the order of `class_names`, else of the sorted labels.
    samples : (N,) array, optional
        Ids of the rows of `features` and `pred_probs`; samples without a vote may be among
        them. By default the rows of the matrix, or samples in the order in which they occur.
    class_names : (C,) array, optional
        The classes, where some have no vote.
    verified : (N,) array, optional
        Labels that are known to be right, missing where unknown. They are final, and inform the
        rest.
    cleaner : LabelCleaner, optional
        Used in place of the default one; it is cloned.
    groups : (N,) array, optional
        No sample is judged by a cleaner that has seen its group; for `features`.
    n_fits : int
        How often the cleaner is fitted; each time to a better consensus.
    random_state : int
        Seed of the cleaner.

    Returns
    -------
    Consensus
    """
    check_same_index(
        votes=None if is_long(votes) else votes,
        features=features,
        pred_probs=pred_probs,
        verified=verified,
        groups=groups,
    )
    class_names, pred_probs, features = _plain(class_names), _plain(pred_probs), _plain(features)
    if class_names is None and pred_probs is not None:
        class_names = _numbered_classes(votes, pred_probs)
    table = encode_votes(votes, samples, class_names)
    locked = _verified(verified, table)
    probs = _checked_probs(pred_probs, class_names, table)
    if n_fits < 1:
        raise ValueError(f"n_fits must be at least 1, got {n_fits}")
    shape = (len(table.samples), len(table.annotators), len(table.classes))
    pairs = Pairs.of(table.sample, table.annotator, table.label, shape)
    counts = table.counts()
    fitted: LabelCleaner | None = None
    if features is None:
        found = fit(pairs, counts, _log_probs(probs), locked)
        if probs is None:
            _warn_of_single_votes(counts, locked)
    else:
        _check_rows("features", features, table)
        template = LabelCleaner(random_state=random_state) if cleaner is None else cleaner
        found = fit(pairs, counts, None, locked)
        for _ in range(n_fits):
            fitted = clone(template)
            held_out = _held_out(fitted, features, probs, found, counts, locked, table, groups)
            found = fit(pairs, counts, _log_probs(held_out), locked)
    if not found.converged:
        warnings.warn(
            f"the posterior still moves after {found.rounds} rounds of EM; it is close, but not "
            "final",
            ConvergenceWarning,
            stacklevel=2,
        )
    classifier = features is not None or probs is not None
    return _result(table, found, locked, classifier, fitted)


def _result(
    votes: Votes, found: AnnotatorFit, locked: Ints, classifier: bool, fitted: LabelCleaner | None
) -> Consensus:
    truth = found.posterior
    predicted = np.exp(found.prior.log_pi()) if classifier else None
    findings = make_findings(votes, truth, predicted, locked)
    given = majority(votes.counts(), truth)
    label = consensus_labels(truth, given, locked)
    voted = given >= 0
    confused = np.zeros((len(votes.classes), len(votes.classes)))
    np.add.at(confused.T, given[voted], truth[voted])
    # A class that nothing is expected of keeps its label.
    confused += 1e-9 * np.eye(len(confused))
    own = truth[np.arange(len(truth)), np.maximum(given, 0)]
    return Consensus(
        findings=findings,
        annotators=annotator_table(votes, truth, label, found.confusions),
        votes=vote_table(votes, truth, findings),
        posterior=truth,
        classes=votes.classes,
        common_matrix=_square(found.confusions.common, votes.classes, "vote"),
        class_prior=pd.Series(truth.mean(0), index=pd.Index(votes.classes), name="share"),
        noise_rate=float(1 - own[voted].mean()),
        noise_matrix=_square(confused / confused.sum(1, keepdims=True), votes.classes, "given"),
        sharpness=found.prior.sharpness,
        log_likelihood=found.log_likelihood,
        rounds=found.rounds,
        converged=found.converged,
        cleaner=fitted,
        _votes=votes,
        _confusions=found.confusions,
    )


def _held_out(
    cleaner: LabelCleaner,
    features: Any,
    probs: Floats | None,
    found: AnnotatorFit,
    counts: Floats,
    locked: Ints,
    votes: Votes,
    groups: Any,
) -> Floats:
    """Cross-fitted probabilities (N, C) of a cleaner that learns from the consensus."""
    given = majority(counts, found.posterior)
    label = np.where(given >= 0, consensus_labels(found.posterior, given, locked), -1)
    known = np.unique(np.concatenate([label[label >= 0], locked[locked >= 0]]))
    if len(known) < 2:
        raise ValueError(
            f"the consensus of the votes is one class, {plain(votes.classes[known[0]])!r}, "
            "everywhere; features cannot tell classes apart that nobody voted for"
        )
    own = None
    if probs is not None:
        own = probs[:, known] + 1e-12
        own /= own.sum(1, keepdims=True)
    final = None if (locked < 0).all() else votes.decode(locked)
    cleaner.fit(features, votes.decode(label), pred_probs=own, verified=final, groups=groups)
    held_out = np.zeros((len(label), len(votes.classes)))
    held_out[:, known] = np.asarray(cleaner.model_.probs, dtype=np.float64)
    return held_out


def _log_probs(probs: Floats | None) -> Floats | None:
    """No classifier was seen to be right more than N times, so none is surer than that."""
    if probs is None:
        return None
    n_samples, n_classes = probs.shape
    floor = 1 / (n_samples + n_classes)
    logs: Floats = np.log((probs + floor) / (1 + n_classes * floor))
    return logs


def _warn_of_single_votes(counts: Floats, locked: Ints) -> None:
    if counts.sum(1).max() < 2 and (locked < 0).all():
        warnings.warn(
            "no sample has two votes, and there are neither features nor pred_probs nor verified "
            "labels: nothing can tell a good annotator from a bad one",
            UserWarning,
            stacklevel=3,
        )


def _plain(values: Any) -> Any:
    """Data frames as arrays; columns of features need no names."""
    return values.to_numpy() if isinstance(values, (pd.DataFrame, pd.Series, pd.Index)) else values


def _numbered_classes(votes: Any, pred_probs: Any) -> Any:
    """0, 1, ... where the labels are numbers of columns; else None."""
    wide = np.asarray(pred_probs)
    labels = (
        votes["label"] if is_long(votes) else pd.Series(np.asarray(votes, dtype=object).ravel())
    )
    found = encode_labels("votes", labels).classes
    numbers = found.dtype.kind in "iuf" and wide.ndim == 2 and len(found) > 0
    if numbers and found.min() >= 0 and found.max() < wide.shape[1]:
        return np.arange(wide.shape[1])
    return None


def _check_rows(name: str, values: Any, votes: Votes) -> None:
    n_rows = len(values) if hasattr(values, "__len__") else values.shape[0]
    if n_rows != len(votes.samples):
        raise ValueError(
            f"{name} has {n_rows} rows but votes are on {len(votes.samples)} samples; pass samples="
            ", the id of each row"
        )


def _checked_probs(pred_probs: Any, class_names: Any, votes: Votes) -> Floats | None:
    if pred_probs is None:
        return None
    probs = np.asarray(pred_probs, dtype=np.float64)
    if probs.ndim != 2 or probs.shape[1] != len(votes.classes):
        raise ValueError(
            f"pred_probs has shape {probs.shape} but (N, {len(votes.classes)}) is needed, a column "
            f"for each class in the order {votes.classes[:10].tolist()}; pass class_names= for "
            "another order, or for classes without a vote"
        )
    _check_rows("pred_probs", probs, votes)
    check_probabilities(probs)
    return probs if class_names is None else probs[:, np.argsort(np.asarray(class_names))]


def _verified(verified: Any, votes: Votes) -> Ints:
    if verified is None:
        return np.full(len(votes.samples), -1, dtype=np.int64)
    locked = encode_labels("verified", verified, votes.classes).index
    _check_rows("verified", locked, votes)
    return locked


def _square(matrix: Floats, classes: npt.NDArray[Any], columns: str) -> pd.DataFrame:
    names = pd.Index(classes)
    return pd.DataFrame(matrix, index=names.rename("true"), columns=names.rename(columns))
