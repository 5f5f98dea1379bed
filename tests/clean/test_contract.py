"""LabelCleaner is a scikit-learn classifier in every respect scikit-learn checks."""

from __future__ import annotations

import inspect
import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks

from csot.clean import LabelCleaner

QUICK = ("linear",)


# Every check, none expected to fail; that of array API input asks for SCIPY_ARRAY_API to be set.
@parametrize_with_checks([LabelCleaner(members=QUICK)])
def test_scikit_learn_contract(estimator: LabelCleaner, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize(
    "check",
    [
        "check_fit_idempotent",
        "check_methods_subset_invariance",
        "check_estimators_pickle",
        "check_fit2d_1feature",
        "check_dict_unchanged",
        "check_readonly_memmap_input",
    ],
)
def test_scikit_learn_contract_with_every_member(check: str) -> None:
    getattr(estimator_checks, check)("LabelCleaner", LabelCleaner())


@pytest.fixture(scope="session")
def blobs() -> tuple[np.ndarray, np.ndarray]:
    x, y = make_blobs(120, n_features=4, centers=3, random_state=0)
    return x.astype(np.float64), np.array(["ant", "bee", "cat"])[y]


def test_our_own_words_for_x_and_y(blobs: tuple[np.ndarray, np.ndarray]) -> None:
    x, y = blobs
    one = LabelCleaner(members=QUICK).fit(x, y)
    other = LabelCleaner(members=QUICK).fit(features=x, labels=y)
    pd.testing.assert_frame_equal(one.findings_, other.findings_)
    np.testing.assert_array_equal(one.predict(x), other.predict(features=x))
    np.testing.assert_array_equal(one.predict_proba(X=x), other.predict_proba(features=x))
    with pytest.raises(TypeError, match="nonsense"):
        one.fit(x, y, nonsense=1)
    parameters = list(inspect.signature(one.fit).parameters)
    assert parameters == ["X", "y", "pred_probs", "sample_ids", "verified", "groups"]


def test_clone_keeps_the_settings_and_nothing_learned(blobs: tuple[np.ndarray, np.ndarray]) -> None:
    cleaner = LabelCleaner(members=QUICK, n_folds=3, random_state=4).fit(*blobs)
    copy = clone(cleaner)
    assert copy.get_params() == cleaner.get_params()
    assert not hasattr(copy, "findings_")


def test_at_the_end_of_a_pipeline(blobs: tuple[np.ndarray, np.ndarray]) -> None:
    x, y = blobs
    pipeline = make_pipeline(StandardScaler(), LabelCleaner(members=QUICK)).fit(x, y)
    assert pipeline.score(x, y) > 0.9
    ids = [f"row {i}" for i in range(len(x))]
    pipeline.fit(x, y, labelcleaner__sample_ids=ids)
    assert list(pipeline[-1].findings_.index) == ids


def test_in_a_grid_search_and_cross_validation(blobs: tuple[np.ndarray, np.ndarray]) -> None:
    x, y = blobs
    search = GridSearchCV(LabelCleaner(members=QUICK), {"n_folds": [3, 5]}, cv=2).fit(x, y)
    assert search.best_params_["n_folds"] in (3, 5)
    assert search.best_score_ > 0.85
    assert cross_val_score(LabelCleaner(members=QUICK), x, y, cv=3).mean() > 0.85


def test_pickle_keeps_findings_and_predictions(blobs: tuple[np.ndarray, np.ndarray]) -> None:
    x, y = blobs
    cleaner = LabelCleaner().fit(x, y)
    copy = pickle.loads(pickle.dumps(cleaner))
    pd.testing.assert_frame_equal(copy.findings_, cleaner.findings_)
    np.testing.assert_array_equal(copy.predict_proba(x), cleaner.predict_proba(x))
    assert copy.report() == cleaner.report()


def test_data_frames_and_their_column_names(blobs: tuple[np.ndarray, np.ndarray]) -> None:
    x, y = blobs
    frame = pd.DataFrame(x, columns=list("abcd"), index=[f"r{i}" for i in range(len(x))])
    cleaner = LabelCleaner(members=QUICK).fit(frame, y)
    assert list(cleaner.findings_.index) == list(frame.index)
    assert list(cleaner.feature_names_in_) == list("abcd")
    with pytest.raises(ValueError, match="feature names"):
        cleaner.predict(frame[list("dcba")])
