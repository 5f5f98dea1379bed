"""`find_label_issues`: for those who bring held-out probabilities of a model of their own."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from scipy.optimize import linear_sum_assignment

from csot._core.threads import threads_for
from csot.clean.cleaner import LabelCleaner
from csot.clean.explanation import MAX_FIT_ROWS, ChosenExplanation, explain
from csot.clean.inputs import (
    EncodedLabels,
    as_array,
    check_probabilities,
    check_same_index,
    encode_labels,
)
from csot.clean.likelihood import Evidence, by_class, log_probs, posterior, softmax_rows
from csot.clean.noise_matrix import deconvolve, first_guess, of_surest_rows
from csot.clean.overlap import MIN_ROWS_PER_CLASS, measure_overlap
from csot.clean.stacking import calibrate, stack
from csot.clean.verdicts import Rules, make_findings, warn_of_disagreement
from csot.runs.findings import SCORE
from csot.runs.noise import NoiseEstimate

IN_SAMPLE_AGREEMENT = 0.995
ROUGH_ROWS = 2_500
"""Rows on which temperature and noise matrix are found roughly first."""
BY_CLASS_SHARE = 0.4
"""Noise among the surest rows, over all disagreement, from which it is taken for noise by class."""
FOUND_SHARE = 0.6
"""Share of it that the likelihood must have found for its noise matrix to be kept."""
MOST_OVERLAP_BY_CLASS = 0.4
"""Overlap of the clusters up to which the labels of the surest rows tell noise by class."""
SMALL_IF_PASSIVE = 2**20
"""Probabilities up to which a second thread that has to be woken costs more than it gains."""
ROUNDS, LAST_ROUNDS = 40, 5
"""Rounds of weighing in all, and those of them on the larger sample."""


def find_label_issues(
    labels: Any,
    pred_probs: Any,
    features: Any = None,
    *,
    class_names: Any = None,
    verified: Any = None,
    groups: Any = None,
    random_state: int = 0,
) -> pd.DataFrame:
    """Judge labels by given probabilities; the columns of cleanlab's table, and ours.

    `labels` (N,): class indices 0..C-1, or names, missing where none is given; `pred_probs`
    (N, C) of models that have not seen the row's label (cross-validation), columns in the order of
    `class_names`, else of the sorted names. With `features` (N, D) the cleaner's own models
    judge too, and given probabilities count as far as they predict held-out labels; a class that no
    label names can then not be suggested, as nothing shows what it looks like; they are not
    trained on rows of the same group in `groups` (N,), and near-duplicates count as one group.

    `verified` (N,): the right labels where they are known, missing elsewhere, named as in
    `labels`; or a mask of given labels that are right. Those rows are never flagged, and they
    decide how far disagreement means noise.
    `attrs` of the table hold `noise_rate` and `noise_rate_interval`.

    Returns a DataFrame with `is_label_issue`, `label_score` (also as `label_quality`),
    `given_label`, `predicted_label`, `corrected_label`, `confidence`, `status`, `note`,
    `reason`. A `DisagreementWarning` says where the probabilities contradict far more labels than
    are judged wrong.
    """
    check_same_index(
        labels=labels, pred_probs=pred_probs, features=features, verified=verified, groups=groups
    )
    index = labels.index if isinstance(labels, pd.Series) else None
    probs, encoded = _checked(labels, pred_probs, class_names)
    predicted = probs.argmax(1)
    _warn_of_permuted_columns(predicted, encoded.index, encoded.classes)
    _warn_of_in_sample(predicted, encoded.index)
    if groups is not None and features is None:
        raise ValueError(
            "groups is given without features: no model is trained here; keep the groups together "
            "in the cross-validation that pred_probs come from, and leave groups out"
        )
    locked = _verified_index(verified, encoded)
    if features is not None:
        present = np.unique(encoded.index[encoded.index >= 0])
        present = np.union1d(present, locked[locked >= 0])
        cleaner = LabelCleaner(random_state=random_state, progress=False)
        cleaner.fit(
            features,
            encoded.decode(encoded.index),
            pred_probs=_restricted(probs, present),
            sample_ids=index,
            verified=None if verified is None else encoded.decode(locked),
            groups=groups,
        )
        return _completed(cleaner.findings_, cleaner.noise_rate_, cleaner.noise_rate_interval_)
    table = _by_probabilities(probs, encoded, locked, index, random_state)
    noise = NoiseEstimate(
        table.attrs["noise_rate"],
        table.attrs["noise_rate_interval"],
        n_verified=int((locked >= 0).sum()),
    )
    warn_of_disagreement(table, noise, stacklevel=2)
    return table


def _checked(
    labels: Any, pred_probs: Any, class_names: Any
) -> tuple[npt.NDArray[np.float32], EncodedLabels]:
    """Probabilities, columns in the order of the sorted classes, and labels; or an error."""
    try:
        probs = np.asarray(pred_probs, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise ValueError(
            "pred_probs must be numbers of shape (N, C); the order of the arguments is "
            "find_label_issues(labels, pred_probs)"
        ) from error
    if probs.ndim != 2 or probs.shape[1] < 2:
        raise ValueError(
            f"pred_probs has shape {probs.shape}; (N, C) with C >= 2 is needed, after the labels: "
            "find_label_issues(labels, pred_probs)"
        )
    if class_names is not None:
        labels = _named(labels, np.asarray(class_names))
    classes = _classes(labels, probs.shape[1], class_names)
    order = np.argsort(classes)
    encoded = encode_labels("labels", labels, classes[order])
    if len(encoded.index) != len(probs):
        raise ValueError(
            f"labels has {len(encoded.index)} entries but pred_probs has {len(probs)} rows"
        )
    if not (encoded.index >= 0).any():
        raise ValueError("labels are all missing; there is nothing to judge")
    check_probabilities(probs)
    return probs[:, order], encoded


def _by_probabilities(
    probs: npt.NDArray[np.float32],
    encoded: EncodedLabels,
    locked: npt.NDArray[np.int64],
    index: pd.Index[Any] | None,
    seed: int,
) -> pd.DataFrame:
    """The table of findings, by given probabilities alone."""
    evidence = Evidence(torch.from_numpy(encoded.index), torch.from_numpy(locked), probs.shape[1])
    with threads_for(probs.size, small_if_passive=SMALL_IF_PASSIVE), torch.inference_mode():
        logs = log_probs(by_class(torch.from_numpy(probs)))
        judgement, perceived = _judge(logs, evidence, seed)
        judged = judgement.judge(perceived, evidence)
        rules = Rules.of(judgement, perceived, evidence)
    findings = make_findings(
        judged.posterior.numpy(),
        judged.corrected.numpy(),
        perceived.numpy(),
        encoded,
        locked,
        np.zeros(len(probs), dtype=np.bool_),
        pd.RangeIndex(len(probs)) if index is None else index,
        rules,
    )
    labelled = encoded.index >= 0
    rate = float(1 - findings[SCORE].to_numpy()[labelled].mean())
    return _completed(findings, rate, judgement.noise_rate_interval)


def _judge(
    logs: torch.Tensor, evidence: Evidence, seed: int
) -> tuple[ChosenExplanation, torch.Tensor]:
    """How to read the labels given log probabilities (N, C), and p(x) calibrated to the labels.

    Temperature and noise matrix have few parameters: a sample of the rows determines them.
    """
    sample: slice | torch.Tensor = slice(None)
    fair: torch.Tensor | None = None
    if len(evidence) > MAX_FIT_ROWS:
        order = torch.from_numpy(np.random.default_rng(seed).permutation(len(evidence)))
        # Verified rows first, rows without a label last.
        rank = (evidence.given[order] < 0).long() - (evidence.verified[order] >= 0).long()
        sample = order[rank.argsort(stable=True)[:MAX_FIT_ROWS]]
        # Of the verified rows only as many as a random sample would have.
        is_verified = evidence.verified[sample] >= 0
        share = MAX_FIT_ROWS / len(evidence)
        usual = is_verified.cumsum(0) <= math.ceil(share * int(is_verified.sum()))
        if not bool((~is_verified | usual).all()):
            fair = (~is_verified | usual).nonzero()[:, 0]
    part, chosen = evidence.take(sample), logs[sample]
    # As if nothing were verified: one row must not turn one model into another, below.
    blind = Evidence.of_labels(part.given, part.n_classes)
    few = _labelled_rows(part, fair, seed)
    unverified, guess = blind.take(few), first_guess(part.n_classes)
    rough = stack([chosen[few]], unverified, guess, torch.ones(1), rounds=ROUNDS - LAST_ROUNDS)
    rounds = ROUNDS if bool((part.verified >= 0).any()) else LAST_ROUNDS
    judged = stack([chosen], part, rough.noise, rough.weights, rounds=rounds)
    # Few rows per class do not show its mistakes, and C x C products would be slow.
    if len(part) >= MIN_ROWS_PER_CLASS * part.n_classes:
        calibrated = calibrate(chosen, blind)
        surest = of_surest_rows(calibrated.probs, part)
        predicted = calibrated.probs[few]
        if _is_noise_by_class(predicted, surest, rough.probs, rough.noise, unverified):
            overlap = measure_overlap(calibrated.probs, seed)
            # Where clusters hardly differ there are no sure rows.
            if not overlap.measured or overlap.assignment <= MOST_OVERLAP_BY_CLASS:
                truth = deconvolve(calibrated.probs, surest)
                overlap = replace(overlap, labels=1 - float(truth.amax(1).mean()))
                judgement = explain(truth, part, surest, overlap, seed, absorbed=1.0, fair=fair)
                return judgement, deconvolve(softmax_rows(calibrated.weights * logs), surest)
    overlap = measure_overlap(judged.probs, seed)
    judgement = explain(judged.probs, part, judged.noise, overlap, seed, fair=fair)
    return judgement, softmax_rows(judged.weights * logs)


def _labelled_rows(
    evidence: Evidence, fair: torch.Tensor | slice | None, seed: int
) -> torch.Tensor:
    """At most ROUGH_ROWS random rows that have a label, of a fair sample."""
    rows = torch.arange(len(evidence))[slice(None) if fair is None else fair]
    rows = rows[evidence.given[rows] >= 0]
    return rows[torch.from_numpy(np.random.default_rng(seed).permutation(len(rows))[:ROUGH_ROWS])]


def _is_noise_by_class(
    predicted: torch.Tensor,
    surest: torch.Tensor,
    probs: torch.Tensor,
    noise: torch.Tensor,
    evidence: Evidence,
) -> bool:
    """Whether the surest rows show noise by class that the likelihood has not found.

    `predicted` (N, C) are probabilities of the given labels, `surest` (C, C) the noise matrix of
    the surest rows, `probs` (N, C) and `noise` (C, C) what the likelihood has found.

    Models that were trained on wrong labels predict them: the likelihood is then as high with
    no noise at all. Noise among the surest rows, which makes up much of the disagreement, says
    otherwise.
    """
    labelled = (evidence.given >= 0).nonzero()[:, 0]
    part = evidence.take(labelled)

    def rate(probs: torch.Tensor, noise: torch.Tensor) -> float:
        own, _ = posterior(probs[labelled], part.likelihood(noise))
        return 1 - float(own.gather(1, part.given[:, None]).mean())

    disagreement = float((predicted[labelled].argmax(1) != part.given).float().mean())
    by_surest = rate(deconvolve(predicted, surest), surest)
    return (
        by_surest >= BY_CLASS_SHARE * disagreement and rate(probs, noise) < FOUND_SHARE * by_surest
    )


def _verified_index(verified: Any, encoded: EncodedLabels) -> npt.NDArray[np.int64]:
    """Class of each verified row, -1 elsewhere."""
    if verified is None:
        return np.full(len(encoded.index), -1, dtype=np.int64)
    array = as_array(verified)
    if array.dtype == np.bool_ and array.shape == encoded.index.shape:
        return np.where(array, encoded.index, -1)
    locked = encode_labels("verified", array, encoded.classes).index
    if locked.shape != encoded.index.shape:
        raise ValueError(
            f"verified has {len(locked)} entries but there are {len(encoded.index)} labels; pass a "
            "label for each row, missing where it is unknown"
        )
    return locked


def _completed(
    findings: pd.DataFrame, noise_rate: float, interval: tuple[float, float]
) -> pd.DataFrame:
    """With cleanlab's name for the score, and the noise rate in `attrs`."""
    table = findings.assign(label_quality=findings[SCORE])
    low, high = min(interval[0], noise_rate), max(interval[1], noise_rate)
    table.attrs.update(noise_rate=noise_rate, noise_rate_interval=(low, high))
    return table


def _named(labels: Any, names: npt.NDArray[Any]) -> Any:
    """Class indices as names, where the names are not numbers themselves."""
    encoded = encode_labels("labels", labels)
    found = encoded.classes
    indices = found.dtype.kind in "iu" and names.dtype.kind not in "iuf"
    if not (indices and len(found) and found.min() >= 0 and found.max() < len(names)):
        return labels
    return EncodedLabels(encoded.index, names[found]).decode(encoded.index)


def _restricted(
    probs: npt.NDArray[np.float32], present: npt.NDArray[np.int64]
) -> npt.NDArray[np.float32]:
    """Probabilities of the present classes only; even where they had none."""
    kept = probs[:, present]
    total = kept.sum(1, keepdims=True)
    restricted = np.full_like(kept, 1 / len(present))
    np.divide(kept, total, out=restricted, where=total > 0)
    return restricted


def _classes(labels: Any, n_classes: int, class_names: Any) -> npt.NDArray[Any]:
    """The class of each column of pred_probs."""
    if class_names is not None:
        names = np.asarray(class_names)
        if len(names) != n_classes or len(np.unique(names)) != n_classes:
            raise ValueError(
                f"class_names must hold {n_classes} different names, one per column of pred_probs, "
                f"got {len(names)}"
            )
        return names
    found = encode_labels("labels", labels).classes
    if found.dtype.kind in "iuf" and found.min(initial=0) >= 0 and found.max(initial=0) < n_classes:
        return np.arange(n_classes)
    if len(found) != n_classes:
        raise ValueError(
            f"pred_probs has {n_classes} columns but labels has {len(found)} classes "
            f"{found[:10].tolist()}; pass class_names= in the order of the columns"
        )
    return found


def _warn_of_permuted_columns(
    predicted: npt.NDArray[np.intp], labels: npt.NDArray[np.int64], classes: npt.NDArray[Any]
) -> None:
    given, n_classes = labels >= 0, len(classes)
    pairs = np.bincount(labels[given] * n_classes + predicted[given], minlength=n_classes**2)
    confusion = pairs.reshape(n_classes, n_classes)
    rows, columns = linear_sum_assignment(-confusion)
    possible, actual = confusion[rows, columns].sum(), np.trace(confusion)
    if actual < 0.5 * possible and possible > 0.3 * given.sum():
        first = int(np.flatnonzero(rows != columns)[0])
        warnings.warn(
            f"pred_probs agree with {actual / given.sum():.1%} of the labels, but with "
            f"{possible / given.sum():.1%} if their columns are permuted (e.g. column "
            f"{columns[first]} looks like class {classes[first]!r}); pass class_names= in the "
            "order of the columns",
            UserWarning,
            stacklevel=3,
        )


def _warn_of_in_sample(predicted: npt.NDArray[np.intp], labels: npt.NDArray[np.int64]) -> None:
    given = labels >= 0
    agreement = float((predicted == labels)[given].mean())
    if given.sum() >= 100 and agreement >= IN_SAMPLE_AGREEMENT:
        warnings.warn(
            f"pred_probs agree with {agreement:.2%} of the labels: they look in-sample. Use "
            "probabilities of models that did not train on the row (cross-validation); in-sample "
            "ones hide the wrong labels",
            UserWarning,
            stacklevel=3,
        )
