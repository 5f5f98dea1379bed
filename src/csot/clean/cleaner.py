"""``LabelCleaner``: which labels are wrong, what they should be, and a classifier that knows."""

from __future__ import annotations

import sys
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from csot.clean.evidence import Evidence
from csot.clean.findings import make_findings, misfits
from csot.clean.labels import EncodedLabels, encode_labels, missing
from csot.clean.model import STAGES, FittedModel, fit_model
from csot.clean.summary import describe

MEMBERS = ("linear", "csot", "fourier", "network")
SHOW_PROGRESS_FROM = 5_000


class LabelCleaner(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Find and correct wrong labels from features, and learn a classifier that survives them.

    The given labels are taken as noisy observations of a hidden truth,
    p(y | x) = sum_k p_k(x) T[k, y]. Probes p, cross-fitted so that no row judges itself, and the
    noise matrix T are fitted by the held-out likelihood of the given labels: no clean label is
    needed. Each row's verdict is its posterior p_k(x) T[k, y], which trusts a label as far as
    labels of its class deserve.

    Parameters
    ----------
    members : tuple of str
        Candidate models among which the judge weighs: "linear" (always there), "csot" (curriculum
        rounds), "fourier" (kernel probes, up to 10,000 rows), "network" (a small network).
    n_folds : int, optional
        Folds of the cross-fitting; 5, or 10 below 2,000 rows.
    class_prior : (C,) array, optional
        Known shares of the true classes; estimated by default.
    predict_prior : "uniform", "estimated" or (C,) array
        Class shares where ``predict`` is used. Uniform by default, as in the paper: the shares of
        a noisy collection are seldom those that matter later.
    random_state : int
        The result is a function of the data and of this number.
    progress : bool, optional
        Show what is going on; by default in a terminal, from 5,000 rows on.

    Attributes
    ----------
    findings_ : DataFrame
        On the user's own index: given_label, predicted_label, corrected_label, is_label_issue,
        label_score (low = bad), confidence, status (clean, corrected, uncertain), note.
    noise_rate_ : float
        Expected share of wrong labels among the given ones.
    noise_matrix_ : DataFrame
        p(given | true), rows true.
    class_prior_ : Series
        Shares of the true classes.
    history_ : DataFrame
        A row a CSOT round: budget, clean rows, held-out log-likelihood of the given labels.
    posterior_ : (N, C) array
        Probability of each class to be the true one, the given label taken into account.
    member_weights_ : dict
        What the judge gave to each candidate.
    """

    def __init__(
        self,
        *,
        members: tuple[str, ...] = MEMBERS,
        n_folds: int | None = None,
        class_prior: Any = None,
        predict_prior: Any = "uniform",
        random_state: int = 0,
        progress: bool | None = None,
    ) -> None:
        self.members = members
        self.n_folds = n_folds
        self.class_prior = class_prior
        self.predict_prior = predict_prior
        self.random_state = random_state
        self.progress = progress

    def fit(
        self,
        features: Any,
        labels: Any,
        pred_probs: Any = None,
        sample_ids: Any = None,
        verified: Any = None,
    ) -> LabelCleaner:
        """Judge every label.

        ``features`` (N, D); ``labels`` (N,) of any type, None, NaN or -1 where none is given;
        ``pred_probs`` (N, C) held-out probabilities of a model of the user's, columns in the order
        of the sorted classes, as one more candidate; ``sample_ids`` (N,) for the index of
        ``findings_``; ``verified`` (N,): a mask of labels that are known to be right, or the right
        labels themselves, missing where unknown. Verified rows are never flagged, and inform the
        rest.
        """
        index = _index_of(features, labels, sample_ids)
        encoded, locked = _encode(labels, verified)
        self._check_settings(encoded)
        rows = validate_data(self, X=features, dtype=[np.float32, np.float64], ensure_min_samples=2)
        if len(encoded.index) != len(rows):
            raise ValueError(
                f"labels has {len(encoded.index)} entries but features has {len(rows)} rows; pass "
                "one label a row"
            )
        if len(index) != len(rows):
            raise ValueError(f"sample_ids has {len(index)} entries for {len(rows)} rows")
        if len(encoded.classes) < 2:
            raise ValueError(
                f"labels contain {len(encoded.classes)} class; at least 2 classes are needed to "
                "tell right from wrong"
            )
        if float(rows.max(initial=0) - rows.min(initial=0)) == 0:
            raise ValueError("features are all the same value; nothing can be learned from them")
        self.classes_ = encoded.classes
        evidence = Evidence(
            torch.from_numpy(encoded.index), torch.from_numpy(locked), len(encoded.classes)
        )
        with _Stages(self.progress, len(rows)) as stages, torch.no_grad():
            model = fit_model(
                torch.from_numpy(np.array(rows, dtype=np.float32)),
                evidence,
                seed=self.random_state,
                n_folds=self.n_folds or (10 if len(rows) < 2000 else 5),
                members=self.members,
                pred_probs=_checked_pred_probs(pred_probs, len(rows), encoded),
                class_prior=_checked_prior("class_prior", self.class_prior, encoded.classes),
                report=stages.begin,
            )
        self._record(model, encoded, locked, index)
        return self

    def predict_proba(self, features: Any) -> npt.NDArray[np.float64]:
        """Probabilities (N, C) of the true class of new rows, whose label is not known."""
        check_is_fitted(self)
        rows = validate_data(self, X=features, dtype=[np.float32, np.float64], reset=False)
        with torch.no_grad():
            logits = self.model_.logits(torch.from_numpy(np.array(rows, dtype=np.float64)))
            logits += self._prior_shift()
            probs: npt.NDArray[np.float64] = logits.softmax(1).numpy()
        return probs

    def predict(self, features: Any) -> npt.NDArray[Any]:
        """The likeliest true class of new rows."""
        predicted: npt.NDArray[Any] = self.classes_[self.predict_proba(features).argmax(1)]
        return predicted

    def report(self) -> str:
        """What was found, for the terminal."""
        check_is_fitted(self)
        return describe(self.findings_, self.noise_rate_, self.noise_matrix_, self.classes_)

    def _prior_shift(self) -> torch.Tensor:
        """log of the class shares where the model is used, over those it was trained on."""
        learned = self.model_.class_prior.clamp_min(1e-12)
        if isinstance(self.predict_prior, str):
            if self.predict_prior == "estimated":
                return torch.zeros_like(learned)
            if self.predict_prior != "uniform":
                raise ValueError(
                    "predict_prior must be 'uniform', 'estimated' or shares of the classes, got "
                    f"{self.predict_prior!r}"
                )
            return -learned.log()
        prior = _checked_prior("predict_prior", self.predict_prior, self.classes_)
        assert prior is not None
        return prior.clamp_min(1e-12).log() - learned.log()

    def _check_settings(self, encoded: EncodedLabels) -> None:
        unknown = [name for name in self.members if name not in MEMBERS]
        if unknown:
            raise ValueError(f"members contains {unknown[0]!r}; choose from {list(MEMBERS)}")
        if self.n_folds is not None and self.n_folds < 2:
            raise ValueError(f"n_folds must be at least 2, got {self.n_folds!r}")

    def _record(
        self,
        model: FittedModel,
        encoded: EncodedLabels,
        locked: npt.NDArray[np.int64],
        index: pd.Index[Any],
    ) -> None:
        truth = model.posterior.numpy()
        labelled = encoded.index >= 0
        misfit = misfits(model.rows.double().numpy(), truth)
        self.model_ = model
        self.posterior_ = truth.astype(np.float32)
        self.findings_ = make_findings(truth, model.probs.numpy(), encoded, locked, misfit, index)
        own = truth[np.arange(len(truth)), np.maximum(encoded.index, 0)]
        self.noise_rate_ = float(1 - own[labelled].mean())
        names = pd.Index(encoded.classes)
        self.noise_matrix_ = pd.DataFrame(
            model.noise.double().numpy(),
            index=names.rename("true"),
            columns=names.rename("given"),
        )
        self.class_prior_ = pd.Series(model.class_prior.numpy(), index=names, name="share")
        self.history_ = pd.DataFrame(
            {
                "budget": [r.budget for r in model.rounds],
                "clean_rows": [r.clean_rows for r in model.rounds],
                "log_likelihood": [-r.loss for r in model.rounds],
            },
            index=pd.RangeIndex(1, len(model.rounds) + 1, name="round"),
        )
        self.member_weights_ = model.weights
        self.log_likelihood_ = -model.loss


class _Stages:
    """A progress line on standard error, if wanted."""

    def __init__(self, wanted: bool | None, n_rows: int) -> None:
        show = (
            wanted if wanted is not None else (n_rows >= SHOW_PROGRESS_FROM and sys.stderr.isatty())
        )
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
            disable=not show,
        )
        self._task = self._progress.add_task("reading", total=len(STAGES))

    def begin(self, stage: str) -> None:
        done = STAGES.index(stage)
        self._progress.update(
            self._task, completed=done, description=f"{stage} ({done + 1} of {len(STAGES)})"
        )

    def __enter__(self) -> _Stages:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> Literal[False]:
        self._progress.stop()
        return False


def _index_of(features: Any, labels: Any, sample_ids: Any) -> pd.Index[Any]:
    """The user's own index: the ids, else that of the labels or features, else 0, 1, ..."""
    if sample_ids is not None:
        return pd.Index(sample_ids)
    for source in (labels, features):
        if isinstance(source, (pd.Series, pd.DataFrame)):
            index: pd.Index[Any] = source.index
            return index
    return pd.RangeIndex(len(labels) if hasattr(labels, "__len__") else 0)


def _encode(labels: Any, verified: Any) -> tuple[EncodedLabels, npt.NDArray[np.int64]]:
    """Encoded labels, and the verified class of each row or -1."""
    if labels is None:
        raise ValueError("requires y to be passed, but the target y is None: labels are needed")
    if verified is None:
        encoded = encode_labels("labels", labels)
        return encoded, np.full(len(encoded.index), -1, dtype=np.int64)
    array = np.asarray(verified)
    if array.dtype == bool:
        encoded = encode_labels("labels", labels)
        if len(array) != len(encoded.index):
            raise ValueError(
                f"verified has {len(array)} entries but there are {len(encoded.index)} labels"
            )
        return encoded, np.where(array, encoded.index, -1)
    both = np.concatenate([np.asarray(labels).astype(object), array.astype(object)])
    present = both[~missing(both)]
    classes = encode_labels("labels", present).classes
    encoded = encode_labels("labels", np.asarray(labels), classes)
    locked = encode_labels("verified", array, classes).index
    if len(locked) != len(encoded.index):
        raise ValueError(
            f"verified has {len(locked)} entries but there are {len(encoded.index)} labels"
        )
    return encoded, locked


def _checked_pred_probs(
    pred_probs: Any, n_rows: int, encoded: EncodedLabels
) -> torch.Tensor | None:
    if pred_probs is None:
        return None
    array = np.asarray(pred_probs, dtype=np.float32)
    wanted = (n_rows, len(encoded.classes))
    if array.shape != wanted:
        raise ValueError(
            f"pred_probs has shape {array.shape} but {wanted} is needed: a row for each label, a "
            f"column for each class, in the order {encoded.classes[:10].tolist()}"
        )
    sums = array.sum(1)
    if not np.isfinite(sums).all() or (array < 0).any() or np.abs(sums - 1).max() > 1e-2:
        raise ValueError("pred_probs must be finite probabilities whose rows sum to 1")
    return torch.from_numpy(array)


def _checked_prior(name: str, prior: Any, classes: npt.NDArray[Any]) -> torch.Tensor | None:
    if prior is None:
        return None
    array = np.asarray(prior, dtype=np.float64)
    if array.shape != classes.shape or (array < 0).any() or abs(array.sum() - 1) > 1e-3:
        raise ValueError(
            f"{name} must hold one share for each of the {len(classes)} classes, not negative and "
            f"summing to 1, got {prior!r}"
        )
    return torch.from_numpy(array / array.sum())
