"""`LabelCleaner`: which labels are wrong, what they should be, and a robust classifier.

It works on arrays; `csot clean` is `clean_dataset` in `dataset`, which reads and writes files.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data
from threadpoolctl import threadpool_limits

from csot._core.threads import threads_for
from csot.clean.cleaner_settings import also_called, check_settings, log_prior_ratio, seed_of
from csot.clean.duplicates import Duplicates, find_duplicates
from csot.clean.features import Units
from csot.clean.folds import check_groups, encode_groups, join_groups
from csot.clean.inputs import (
    EncodedLabels,
    check_same_index,
    checked_pred_probs,
    checked_prior,
    encode,
    index_of,
)
from csot.clean.likelihood import Evidence
from csot.clean.members.csot import CsotRounds
from csot.clean.model import MEMBERS, FittedModel, fit_model
from csot.clean.persistence import load_state, save_state
from csot.clean.terminal_output import StageProgress, describe, describe_duplicates
from csot.clean.verdicts import (
    ClassDistances,
    Rules,
    describe_disagreement,
    make_findings,
    rate_of_new_rows,
    warn_of_disagreement,
)
from csot.runs.findings import GIVEN, NOTE, VERIFIED
from csot.runs.noise import NoiseEstimate


class LabelCleaner(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Find and correct wrong labels from features, and learn a classifier that survives them.

    The given labels are taken as noisy observations of a hidden truth,
    p(y | x) = sum_k p_k(x) T[k, y]. Probes p, cross-fitted so that no row judges itself, and the
    noise matrix T are fitted by the held-out likelihood of the given labels: no clean label is
    needed. The verdict on a row is its posterior, proportional to p_k(x) T[k, y], which trusts a
    label as much as the noise of its class allows.

    Parameters
    ----------
    members : tuple of str
        Candidate models, which are combined by held-out likelihood: "linear" (always included),
        "csot" (curriculum rounds), "fourier" (kernel probes, up to 10,000 rows), "network" (a small
        network), "neighbours" (votes of the nearest rows, up to 10,000 rows; not in `predict`).
    n_folds : int, optional
        Folds of the cross-fitting; 5, or 10 below 2,000 rows.
    class_prior : (C,) array, optional
        Known shares of the true classes; estimated by default.
    predict_prior : "uniform", "estimated" or (C,) array
        Class shares of the data that `predict` is applied to. Uniform by default, as in the paper:
        the shares of a noisy collection seldom match those of later data.
    duplicates : "group" or "ignore"
        Find near-duplicates and keep them in one fold, where they cannot confirm each other's
        labels; or do not look for them.
    coherence : float
        Weight of the coherence terms in the CSOT rounds, as in `csot.solve`.
    coherence_scale : "absolute" or "classes"
        Unit of `coherence`: 1 (the paper), or C / budget.
    random_state : int, RandomState or None
        The result depends only on the data and on this number; None draws one.
    progress : bool or callable, optional
        Whether to show progress; by default in a terminal, from 5,000 rows on. A callable gets the
        name of the stage, how many stages are done, and how many there are.

    Attributes
    ----------
    findings_ : DataFrame
        On the user's own index: given_label, predicted_label, corrected_label, is_label_issue,
        label_score (low = bad), confidence, status (clean, corrected, uncertain), note, and reason:
        why, in words.
    noise_rate_ : float
        Expected share of wrong labels among the given ones.
    noise_rate_interval_ : tuple of float
        From the rate if all overlap of the classes is real to the rate if labels say nothing beyond
        the features. With verified rows it is narrower, and based on them.
    doubt_ : float
        How much of the overlap of the classes is attributed to wrong labels: 0 is none, 1 is all
        overlap that the clusters of the predictions do not support.
    noise_matrix_ : DataFrame
        p(given | true), rows true.
    class_prior_ : Series
        Shares of the true classes, by the corrected labels.
    history_ : DataFrame
        One row per CSOT round: budget, clean rows, held-out log-likelihood of the given labels.
    posterior_ : (N, C) array
        Probability of each class to be the true one, the given label taken into account.
        `corrected_label` is chosen with more caution and need not be the likeliest one.
    informative_ : bool
        Whether the features predict the labels beyond chance. If not, no label is changed and
        every row is `uncertain`: noisy labels and uninformative features look alike.
    member_weights_ : dict
        Weight of each candidate.
    duplicate_groups_ : (N,) array
        Group of near-duplicates that each row belongs to, numbered from 0; -1 for most.
    """

    def __init__(
        self,
        *,
        members: tuple[str, ...] = MEMBERS,
        n_folds: int | None = None,
        class_prior: Any = None,
        predict_prior: Any = "uniform",
        duplicates: str = "group",
        coherence: float = 1.0,
        coherence_scale: Any = "absolute",
        random_state: Any = 0,
        progress: bool | Callable[[str, int, int], None] | None = None,
    ) -> None:
        self.members = members
        self.n_folds = n_folds
        self.class_prior = class_prior
        self.predict_prior = predict_prior
        self.duplicates = duplicates
        self.coherence = coherence
        self.coherence_scale = coherence_scale
        self.random_state = random_state
        self.progress = progress

    @also_called(features="X", labels="y")
    def fit(
        self,
        X: Any,
        y: Any,
        pred_probs: Any = None,
        sample_ids: Any = None,
        verified: Any = None,
        groups: Any = None,
    ) -> LabelCleaner:
        """Judge every label.

        Parameters
        ----------
        X : (N, D) array or DataFrame, also `features`
        y : (N,) array or Series, also `labels`
            Labels of any type; None, NaN or -1 where none is given.
        pred_probs : (N, C) array, optional
            Held-out probabilities of a model of your own, columns in the order of the sorted
            classes, as one more candidate.
        sample_ids : (N,) array, optional
            Index of `findings_`.
        verified : (N,) array, optional
            A mask of labels that are known to be right, or the right labels themselves, missing
            where unknown. Verified rows are never flagged, and inform the rest.
        groups : (N,) array, optional
            Group of each row, such as a patient or a video: no row is judged by a model that has
            seen its group.
        """
        encoded, locked = encode(y, verified)
        check_settings(self.get_params(deep=False))
        check_same_index(
            X=X, y=y, pred_probs=pred_probs, sample_ids=sample_ids, verified=verified, groups=groups
        )
        rows = validate_data(self, X=X, dtype=[np.float32, np.float64], ensure_min_samples=2)
        index = index_of(X, y, sample_ids, len(rows), len(encoded.index))
        if len(encoded.classes) < 2:
            raise ValueError(
                f"labels contain {'1 class' if len(encoded.classes) else 'no class'}; at least 2 "
                "classes are needed to tell right from wrong"
            )
        units = Units.of(rows)
        if not units.varies.any():
            raise ValueError("features are the same in every row; nothing can be learned from them")
        self.classes_ = encoded.classes
        features, seed = torch.from_numpy(units(rows, np.float32)), seed_of(self.random_state)
        n_folds = self.n_folds or (10 if len(rows) < 2000 else 5)
        duplicates = Duplicates.none(len(rows))
        if self.duplicates == "group":
            duplicates = find_duplicates(features, encoded.index, seed)
        joint = join_groups(encode_groups(groups, len(rows)), duplicates.group, n_folds)
        if groups is not None:
            check_groups(joint, encoded.index, encoded.classes, n_folds)
        evidence = Evidence(
            torch.from_numpy(encoded.index), torch.from_numpy(locked), len(encoded.classes)
        )
        # SciPy's optimiser works on short vectors, for which its BLAS would keep threads spinning
        # on the cores that torch needs.
        quiet_blas = threadpool_limits(limits=1, user_api="blas")
        few = threads_for(rows.size)
        stages = StageProgress(self.progress, len(rows))
        # Thousands of operations on small tensors, each of them cheaper than under no_grad.
        with quiet_blas, few, stages, torch.inference_mode():
            model = fit_model(
                features,
                evidence,
                seed=seed,
                n_folds=n_folds,
                members=self.members,
                pred_probs=checked_pred_probs(pred_probs, len(rows), encoded),
                class_prior=checked_prior("class_prior", self.class_prior, encoded.classes),
                report=stages.begin,
                groups=joint,
                csot=CsotRounds(float(self.coherence), self.coherence_scale),
            )
        self.units_ = units
        truth = model.posterior.numpy()
        self.rules_ = Rules.of(model.judgement, model.probs, evidence)
        self.class_distances_ = ClassDistances.of(model.rows.numpy(), truth)
        self._record(model, encoded, locked, index)
        self.duplicate_groups_ = duplicates.group
        duplicates.add_notes(self.findings_, encoded.index)
        if self.informative_:
            warn_of_disagreement(self.findings_, self._noise_estimate(), stacklevel=3)
        return self

    @also_called(features="X")
    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """Predict probabilities (N, C) of the true class of new rows, whose label is not known."""
        check_is_fitted(self)
        rows = validate_data(self, X=X, dtype=[np.float32, np.float64], reset=False)
        with torch.no_grad():
            logits = self.model_.truth_logits(torch.from_numpy(self.units_(rows, np.float64)))
            probs: npt.NDArray[np.float64] = (logits + self._prior_shift()).softmax(1).numpy()
        return probs

    @also_called(features="X")
    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Predict the most likely true class of new rows."""
        best = self.predict_proba(X).argmax(1)
        predicted: npt.NDArray[Any] = self.classes_[best]
        return predicted

    @also_called(features="X", labels="y")
    def judge(self, X: Any, y: Any, sample_ids: Any = None, verified: Any = None) -> pd.DataFrame:
        """Judge labels of rows that were not part of `fit`; returns a table like `findings_`.

        `y` holds labels of the classes of `fit`, missing where none is given; `verified` as
        in `fit`. Nothing is learned from these rows: the verdict on a row is the same whichever
        rows come with it. The `pred_probs` of `fit` are not used.
        """
        return self.transfer(X, y, sample_ids, verified).findings_

    @also_called(features="X", labels="y")
    def transfer(
        self, X: Any, y: Any, sample_ids: Any = None, verified: Any = None
    ) -> LabelCleaner:
        """Return a cleaner with the same model, whose findings and report are about new rows.

        `findings_`, `posterior_` and the noise rate are for the new rows; the noise matrix and
        the class shares are from `fit`. Near-duplicates are not searched for.
        """
        check_is_fitted(self)
        encoded, locked = encode(y, verified, self.classes_)
        check_same_index(X=X, y=y, sample_ids=sample_ids, verified=verified)
        rows = validate_data(self, X=X, dtype=[np.float32, np.float64], reset=False)
        index = index_of(X, y, sample_ids, len(rows), len(encoded.index))
        evidence = Evidence(
            torch.from_numpy(encoded.index), torch.from_numpy(locked), len(self.classes_)
        )
        model = self.model_
        with torch.no_grad():
            features = torch.from_numpy(self.units_(rows, np.float64))
            probs = model.logits(features).softmax(1)
            interval = rate_of_new_rows(model.judgement.explanation, probs, evidence)
            found = model.judgement.judge(probs, evidence)
            judged = replace(
                model,
                posterior=found.posterior,
                corrected=found.corrected,
                probs=probs,
                rows=model.coordinates(features),
                rounds=[],
                judgement=replace(model.judgement, noise_rate_interval=interval),
            )
        other = LabelCleaner(**self.get_params(deep=False))
        other.__dict__.update(self.__dict__)
        other._record(judged, encoded, locked, index)
        other.duplicate_groups_ = Duplicates.none(len(rows)).group
        return other

    def save(self, path: str | Path) -> None:
        """Write the fitted cleaner to one .npz file, without pickle; `load` reads it.

        The training rows are not in it. A `random_state` that is a RandomState, and a
        `progress` that is a callable, become None.
        """
        check_is_fitted(self)
        save_state(Path(path), self.__dict__)

    @classmethod
    def load(cls, path: str | Path) -> LabelCleaner:
        """Load a cleaner that `save` wrote. Reading a file never runs code from it."""
        cleaner = cls()
        cleaner.__dict__.update(load_state(Path(path)))
        return cleaner

    def report(self) -> str:
        """Describe the findings in a few lines, for a terminal."""
        check_is_fitted(self)
        noise = self._noise_estimate()
        known = noise if self.informative_ else None
        text = describe(self.findings_, known, self.noise_matrix_, self.classes_)
        duplicates = describe_duplicates(self.duplicate_groups_, self.findings_[GIVEN])
        warning = describe_disagreement(self.findings_, noise)
        if not self.informative_:
            warning = "The features do not predict the labels beyond chance: no verdict."
        return "\n".join(filter(None, [warning, text, duplicates]))

    def noise_summary(self) -> dict[str, Any]:
        """Return the noise rate, its interval and what they rest on, as in summary.json.

        `warning` is what `fit` warned of, or empty.
        """
        check_is_fitted(self)
        noise, judgement = self._noise_estimate(), self.model_.judgement
        return {
            "noise_rate": noise.rate,
            "noise_rate_interval": noise.interval,
            "noise_rate_by_class": noise.by_class,
            "n_verified": noise.n_verified,
            "doubt": self.doubt_,
            "overlap": dataclasses.asdict(judgement.overlap),
            "informative": self.informative_,
            "warning": describe_disagreement(self.findings_, noise) if self.informative_ else "",
        }

    def _noise_estimate(self) -> NoiseEstimate:
        by_class = self.class_prior_.to_numpy() @ (1 - np.diag(self.noise_matrix_.to_numpy()))
        checked = (self.findings_[NOTE] == VERIFIED) & self.findings_[GIVEN].notna()
        return NoiseEstimate(
            self.noise_rate_, self.noise_rate_interval_, float(by_class), int(checked.sum())
        )

    def _prior_shift(self) -> torch.Tensor:
        """log of the class shares where the model is used, over those it was trained on."""
        learned = self.model_.class_prior.clamp_min(1e-12)
        if isinstance(self.predict_prior, str):
            check_settings(self.get_params(deep=False))
        return log_prior_ratio(self.predict_prior, learned, self.classes_)

    def _record(
        self,
        model: FittedModel,
        encoded: EncodedLabels,
        locked: npt.NDArray[np.int64],
        index: pd.Index[Any],
    ) -> None:
        truth, labelled = model.posterior.numpy(), encoded.index >= 0
        own = truth[labelled, encoded.index[labelled]]
        misfit = self.class_distances_.misfits(model.rows.numpy())
        self.model_ = model
        self.posterior_ = truth.astype(np.float32)
        self.informative_ = model.informative
        self.findings_ = make_findings(
            truth,
            model.corrected.numpy(),
            model.probs.numpy(),
            encoded,
            locked,
            misfit,
            index,
            self.rules_,
            model.informative,
        )
        self.noise_rate_ = float(1 - own.mean()) if labelled.any() else 0.0
        low, high = model.judgement.noise_rate_interval
        self.noise_rate_interval_ = (min(low, self.noise_rate_), max(high, self.noise_rate_))
        self.doubt_ = model.judgement.explanation.doubt
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
