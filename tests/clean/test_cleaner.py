"""LabelCleaner's door: labels and ids of every kind, verified rows, priors, odd and bad data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from sklearn.datasets import load_digits, make_blobs

import csot
from csot.clean import LabelCleaner, find_label_issues
from csot.clean.annotators import find_consensus

QUICK = ("linear",)
COLUMNS = [
    "given_label",
    "predicted_label",
    "corrected_label",
    "is_label_issue",
    "label_score",
    "confidence",
    "status",
    "note",
    "reason",
]
NAMES = np.array(["ant", "bee", "cat"])


@pytest.fixture(scope="session")
def digits() -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    x, y = load_digits(return_X_y=True)
    return x, y


def make_some_blobs() -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    x, y = make_blobs([50, 50, 50], n_features=5, cluster_std=2.0, random_state=0)
    y = np.asarray(y)
    y[0] = (y[0] + 1) % 3
    return x, y


@pytest.fixture
def blobs() -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Three classes of 50, row 0 wrongly labelled."""
    return make_some_blobs()


@pytest.fixture(scope="session")
def plain() -> LabelCleaner:
    """Fitted to the blobs as they are, for what must not matter. Not to be changed."""
    return fit(*make_some_blobs())


def fit(x: Any, y: Any, members: tuple[str, ...] = QUICK, **settings: Any) -> LabelCleaner:
    passed = {k: settings.pop(k) for k in ("pred_probs", "sample_ids", "verified") if k in settings}
    return LabelCleaner(members=members, **settings).fit(x, y, **passed)


# What is learned ----------------------------------------------------------------------------------


def test_everything_learned_is_there(blobs: Any) -> None:
    x, y = blobs
    cleaner = LabelCleaner().fit(x, NAMES[y])
    findings = cleaner.findings_
    assert list(findings.columns) == COLUMNS
    assert findings.index.equals(pd.RangeIndex(150))
    assert (findings["given_label"] == NAMES[y]).all()
    assert findings["is_label_issue"].dtype == bool
    assert findings["label_score"].between(0, 1).all()
    assert findings["confidence"].between(1 / 3, 1).all()
    assert set(findings["status"]) <= {"clean", "corrected", "uncertain"}
    changed = findings["given_label"] != findings["corrected_label"]
    assert findings.loc[changed, "is_label_issue"].all()
    kept = findings[findings["is_label_issue"] & ~changed]
    assert (kept["status"] == "uncertain").all()
    assert kept["reason"].str.endswith("worth a look.").all()
    assert findings["reason"].str.endswith(".").all()
    assert findings.loc[0, "is_label_issue"]
    assert cleaner.noise_matrix_.index.tolist() == cleaner.noise_matrix_.columns.tolist()
    np.testing.assert_allclose(cleaner.noise_matrix_.sum(axis=1), 1.0, atol=1e-5)
    assert cleaner.class_prior_.sum() == pytest.approx(1.0)
    assert cleaner.class_prior_.index.tolist() == NAMES.tolist()
    np.testing.assert_allclose(cleaner.posterior_.sum(1), 1.0, atol=1e-5)
    assert list(cleaner.history_.columns) == ["budget", "clean_rows", "log_likelihood"]
    assert len(cleaner.history_) == 2
    assert cleaner.history_.index.name == "round"
    kinds = {name.split()[0] for name in cleaner.member_weights_}
    assert kinds == {"linear", "csot", "fourier", "network", "neighbours"}
    assert cleaner.log_likelihood_ < 0
    own = cleaner.posterior_[np.arange(150), y]
    assert cleaner.noise_rate_ == pytest.approx(1 - own.mean(), abs=1e-5)
    low, high = cleaner.noise_rate_interval_
    assert 0 <= low <= cleaner.noise_rate_ <= high <= 1
    assert 0 <= cleaner.doubt_ <= 1.5


def test_the_report_names_what_was_found(blobs: Any) -> None:
    x, y = blobs
    text = fit(x, NAMES[y]).report()
    assert "of 150 labels look wrong" in text
    assert "The estimated noise rate is" in text
    assert f"{NAMES[y[0]]} -> " in text


def test_progress_is_shown_on_standard_error_only_if_wanted(
    blobs: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fit(*blobs)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setenv("FORCE_COLOR", "1")
    fit(*blobs, progress=True)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "judge" in shown.err


def test_the_result_is_a_function_of_the_random_state(blobs: Any) -> None:
    x, y = blobs
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    one, same, other = (LabelCleaner(random_state=s, n_folds=3).fit(x, y) for s in (3, 3, 4))
    pd.testing.assert_frame_equal(one.findings_, same.findings_, check_exact=True)
    np.testing.assert_array_equal(one.posterior_, same.posterior_)
    assert not one.findings_.equals(other.findings_)
    assert (before == np.random.get_state()[1]).all()  # noqa: NPY002
    fit(x, y, random_state=None)
    fit(x, y, random_state=np.random.RandomState(0))


# Labels and ids -----------------------------------------------------------------------------------


def test_findings_are_on_the_index_of_the_labels(blobs: Any) -> None:
    x, y = blobs
    index = pd.Index([f"img_{i:03d}.png" for i in range(150)], name="file")
    findings = fit(x, pd.Series(NAMES[y], index=index)).findings_
    assert findings.index.equals(index)
    assert findings.index.name == "file"
    assert (findings["given_label"].to_numpy() == NAMES[y]).all()


def test_different_indexes_of_pandas_are_an_error(blobs: Any, plain: LabelCleaner) -> None:
    x, y = blobs
    frame, labels = pd.DataFrame(x), pd.Series(NAMES[y])
    shuffled = labels.sample(frac=1.0, random_state=0)
    message = (
        r"`X` and `y` have different pandas indexes \(0, 1, 2, \.\.\. and .*\): .*"
        r"y\.loc\[X\.index\], or pass y\.to_numpy\(\)"
    )
    with pytest.raises(ValueError, match=message):
        fit(frame, shuffled)
    with pytest.raises(ValueError, match="`y` and `verified` have different"):
        fit(x, labels, verified=shuffled)
    named = LabelCleaner(members=QUICK).fit(frame, shuffled.loc[frame.index])
    with pytest.raises(ValueError, match="`X` and `y` have different"):
        plain.judge(frame, pd.Series(y).iloc[::-1])
    assert named.findings_["given_label"].tolist() == NAMES[y].tolist()
    probs = np.eye(3)[y] * 0.7 + 0.1
    with pytest.raises(ValueError, match="`labels` and `pred_probs` have different"):
        find_label_issues(shuffled, pd.DataFrame(probs))
    votes = pd.DataFrame({"ana": NAMES[y], "ben": NAMES[y]})
    with pytest.raises(ValueError, match="`votes` and `features` have different"):
        find_consensus(votes, frame.iloc[::-1])


def test_sample_ids_come_before_any_index(blobs: Any) -> None:
    x, y = blobs
    labels = pd.Series(y, index=range(1000, 1150))
    assert fit(x, labels, sample_ids=np.arange(150) * 7).findings_.index.tolist()[-1] == 149 * 7


@pytest.mark.parametrize(
    "make",
    [
        list,
        pd.Categorical,
        lambda names: pd.Series(names, dtype="category"),
        lambda names: pd.Series(names, dtype="string"),
        lambda names: names.astype(object),
    ],
    ids=["list", "Categorical", "category", "string", "object"],
)
def test_the_kind_of_labels_does_not_matter(blobs: Any, plain: LabelCleaner, make: Any) -> None:
    x, y = blobs
    cleaner = fit(x, make(NAMES[y]))
    assert cleaner.classes_.tolist() == NAMES.tolist()
    np.testing.assert_array_equal(cleaner.posterior_, plain.posterior_)
    assert set(cleaner.predict(x)) <= set(NAMES)


def test_classes_minus_one_and_one(blobs: Any) -> None:
    x, y = blobs
    labels = np.where(y == 0, -1, 1)
    cleaner = fit(x, labels)
    assert cleaner.classes_.tolist() == [-1, 1]
    assert (cleaner.findings_["note"] != "no label given").all()


@pytest.mark.parametrize("none", [-1, None, np.nan], ids=str)
def test_rows_without_a_label_get_a_suggestion(digits: Any, none: Any) -> None:
    x, y = digits[0][:600], digits[1][:600]
    labels = y.astype(object) if none is None else y.astype(np.float64 if none is np.nan else int)
    labels[::5] = none
    cleaner = fit(x, labels)
    rows = cleaner.findings_.iloc[::5]
    assert cleaner.classes_.tolist() == list(range(10))
    assert rows["given_label"].isna().all()
    assert rows["note"].isin(["no label given", "no class fits"]).all()
    assert not rows["is_label_issue"].any()
    assert (rows["corrected_label"] == y[::5]).mean() > 0.9
    assert (rows["status"] != "clean").all()
    np.testing.assert_allclose(rows["label_score"], rows["confidence"])
    assert cleaner.noise_rate_ < 0.05


def test_labels_only_for_verified_rows(blobs: Any) -> None:
    x, y = blobs
    nothing = np.full(150, None, dtype=object)
    cleaner = fit(x, nothing, verified=np.where(np.arange(150) % 2, NAMES[y], None))
    assert cleaner.noise_rate_ == 0.0
    assert (cleaner.findings_["corrected_label"] == NAMES[y]).mean() > 0.9


def test_a_class_of_a_single_row_and_classes_missing_from_folds(blobs: Any) -> None:
    x, y = blobs
    labels = np.concatenate([y, [3, 4, 4]])
    rows = np.concatenate([x, x[:3] + 40])
    cleaner = fit(rows, labels, members=("linear", "csot", "fourier"))
    assert cleaner.classes_.tolist() == [0, 1, 2, 3, 4]
    assert np.isfinite(cleaner.posterior_).all()
    assert (cleaner.predict(x) == y).mean() > 0.9


# Verified rows ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["mask", "Series mask", "nullable mask", "labels", "-1", "NaN"])
def test_verified_rows_are_locked(blobs: Any, kind: str) -> None:
    x, y = blobs
    mask = np.arange(150) % 10 == 0
    verified = {
        "mask": mask,
        "Series mask": pd.Series(mask),
        "nullable mask": pd.Series(np.where(mask, True, None), dtype="boolean"),
        "labels": np.where(mask, y, None),
        "-1": np.where(mask, y, -1),
        "NaN": np.where(mask, y, np.nan),
    }[kind]
    cleaner = fit(x, y, verified=verified)
    assert cleaner.classes_.tolist() == [0, 1, 2]
    assert cleaner.classes_.dtype.kind == "i"
    rows = cleaner.findings_[mask]
    assert len(rows) == (cleaner.findings_["note"] == "verified").sum()
    assert not rows["is_label_issue"].any()
    assert (rows["confidence"] == 1).all()
    assert (rows["label_score"] == 1).all()
    assert (rows["status"] == "clean").all()
    assert (rows["corrected_label"] == y[mask]).all()


def test_a_verified_label_overrules_the_given_one(blobs: Any) -> None:
    x, y = blobs
    verified = np.full(150, None, dtype=object)
    verified[0], verified[5] = "bee", "dog"
    row = fit(x, NAMES[y], verified=verified).findings_.iloc[5]
    assert (row["given_label"], row["corrected_label"]) == (NAMES[y[5]], "dog")
    assert (row["status"], row["label_score"], row["is_label_issue"]) == ("corrected", 0.0, False)


def test_verified_rows_inform_the_rest(digits: Any) -> None:
    x, y = digits
    rng = np.random.default_rng(0)
    given = np.where((y == 4) & (rng.random(len(y)) < 0.75), 9, y)
    looked = rng.choice(np.flatnonzero((y == 4) | (y == 9)), 30, replace=False)
    verified = np.full(len(y), -1)
    verified[looked] = y[looked]
    rest = verified < 0
    blind, told = fit(x, given), fit(x, given, verified=verified)
    hard = rest & (y == 4)
    before = (blind.findings_["corrected_label"] == y)[hard].mean()
    after = (told.findings_["corrected_label"] == y)[hard].mean()
    # Three in four labels of the class are wrong in one way: who could know?
    assert before < 0.75
    assert after > 0.85
    assert (told.findings_["corrected_label"] == y)[rest].mean() > 0.97


# Priors -------------------------------------------------------------------------------------------


def test_a_given_class_prior_holds_on_average(digits: Any) -> None:
    x, y = digits[0][:500], digits[1][:500]
    prior = np.linspace(0.05, 0.15, 10)
    cleaner = fit(x, y, class_prior=prior)
    np.testing.assert_allclose(cleaner.posterior_.mean(0), prior, atol=0.005)
    np.testing.assert_allclose(cleaner.class_prior_, prior)


@pytest.mark.filterwarnings("ignore::csot.clean.DisagreementWarning")
def test_a_given_class_prior_reaches_the_predictions() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 600)
    x = rng.normal(size=(600, 3)) + 0.7 * y[:, None]
    settings = {"predict_prior": "estimated"}
    even, odd = (fit(x, y, class_prior=p, **settings) for p in ([0.5, 0.5], [0.8, 0.2]))
    gap = [np.diff(np.log(cleaner.predict_proba(x)), axis=1) for cleaner in (even, odd)]
    assert (gap[1] < gap[0]).all()
    uniform = fit(x, y, class_prior=[0.8, 0.2]).predict_proba(x)
    np.testing.assert_allclose(np.diff(np.log(uniform), axis=1) - gap[1], np.log(4), atol=1e-6)


def test_where_the_model_is_used_the_shares_may_differ() -> None:
    rng = np.random.default_rng(0)
    y = (rng.random(800) < 0.1).astype(int)
    x = rng.normal(size=(800, 3)) + y[:, None]
    means = {}
    for prior in ("estimated", "uniform", (0.5, 0.5), (0.1, 0.9)):
        means[prior] = fit(x, y, predict_prior=prior).predict_proba(x)[:, 1].mean()
    assert means["estimated"] == pytest.approx(0.1, abs=0.05)
    assert means["uniform"] == pytest.approx(means[0.5, 0.5])
    assert means["estimated"] < means["uniform"] < means[0.1, 0.9]


# Candidates ---------------------------------------------------------------------------------------


def test_probabilities_of_the_user_count_as_far_as_they_predict(digits: Any) -> None:
    x, y = digits[0][:300], digits[1][:300]
    rng = np.random.default_rng(0)
    given = np.where(rng.random(300) < 0.3, rng.integers(0, 10, 300), y)
    oracle = 0.9 * np.eye(10)[y] + 0.01
    noise = rng.dirichlet(np.ones(10), 300)
    plain = fit(x, given)
    helped, fooled = fit(x, given, pred_probs=oracle), fit(x, given, pred_probs=noise)
    right = [(c.findings_["corrected_label"] == y).mean() for c in (plain, helped, fooled)]
    assert right[1] > max(right[0], 0.98)
    assert right[2] > right[0] - 0.02
    assert fooled.member_weights_["pred_probs"] < 0.2
    assert helped.predict(x).shape == (300,)


# Odd data -----------------------------------------------------------------------------------------


def test_a_read_only_memory_map_is_accepted_and_left_alone(digits: Any, tmp_path: Path) -> None:
    x, y = digits[0][:300], digits[1][:300]
    np.save(tmp_path / "x.npy", x)
    before = (tmp_path / "x.npy").read_bytes()
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    cleaner = fit(mapped, y, members=("linear", "csot"))
    pd.testing.assert_frame_equal(
        cleaner.findings_, fit(x, y, members=("linear", "csot")).findings_
    )
    assert (tmp_path / "x.npy").read_bytes() == before


def test_more_columns_than_rows() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    x = rng.normal(size=(60, 400)) + 1.5 * rng.normal(size=(3, 400))[y]
    cleaner = LabelCleaner().fit(x, y)
    assert (cleaner.findings_["corrected_label"] == y).mean() > 0.95
    assert (cleaner.predict(x) == y).mean() > 0.95


def test_constant_and_repeated_columns_change_nothing(blobs: Any, plain: LabelCleaner) -> None:
    x, y = blobs
    constant = fit(np.hstack([x, np.full((150, 3), 0.1), np.full((150, 1), 1e6)]), y)
    np.testing.assert_allclose(constant.posterior_, plain.posterior_, atol=1e-4)
    twice = fit(np.hstack([x, x]), y)
    assert (twice.findings_["corrected_label"] == plain.findings_["corrected_label"]).mean() > 0.97


def test_units_and_offsets_change_nothing(blobs: Any, plain: LabelCleaner) -> None:
    x, y = blobs
    for other in (x * 1e-40, x * 1e40, x * 1e3 + 1.7e9):
        cleaner = fit(other, y)
        np.testing.assert_allclose(cleaner.posterior_, plain.posterior_, atol=1e-2)
        np.testing.assert_allclose(cleaner.predict_proba(other), plain.predict_proba(x), atol=1e-2)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int8, bool])
def test_features_of_other_types(digits: Any, dtype: Any) -> None:
    x, y = digits[0][:300], digits[1][:300]
    features = (x > 8) if dtype is bool else x.astype(dtype)
    cleaner = fit(features, y)
    assert (cleaner.findings_["corrected_label"] == y).mean() > 0.9
    assert np.isfinite(cleaner.predict_proba(features)).all()


@pytest.mark.parametrize("n", [4, 20])
def test_very_few_rows(n: int) -> None:
    rng = np.random.default_rng(0)
    y = np.arange(n) % 2
    x = rng.normal(size=(n, 2)) + 8 * y[:, None]
    cleaner = LabelCleaner().fit(x, y)
    assert np.isfinite(cleaner.posterior_).all()
    if n == 20:
        assert (cleaner.findings_["corrected_label"] == y).all()
        assert (cleaner.predict(x) == y).all()


def test_most_rows_the_same(blobs: Any) -> None:
    x, y = blobs
    x[:120] = x[0]
    cleaner = fit(x, y, members=("linear", "csot", "fourier"))
    assert np.isfinite(cleaner.posterior_).all()


@pytest.mark.parametrize("seed", range(3))
def test_features_that_say_nothing_change_no_label(seed: int) -> None:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 4, 300)
    cleaner = fit(rng.normal(size=(300, 8)), y, members=("linear", "fourier"))
    assert not cleaner.informative_
    assert (cleaner.findings_["corrected_label"] == y).all()
    assert (cleaner.findings_["status"] == "uncertain").all()
    assert "no verdict" in cleaner.report()


def test_a_class_of_one_row_is_kept_and_called_uncertain() -> None:
    data = load_digits()
    x, y = data.data[:300], data.target[:300].astype(object)
    y[7] = "bird"
    findings = fit(x, y.astype(str), members=("linear",)).findings_
    assert findings.loc[7, "corrected_label"] == "bird"
    assert findings.loc[7, "status"] == "uncertain"
    assert findings.loc[7, "note"] == "too few rows of this class"


# Bad input ----------------------------------------------------------------------------------------


def test_coherence_of_the_rounds_is_that_of_the_solver(
    blobs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def recorded(*args: Any, **named: Any) -> Any:
        seen.append((named["coherence"], named["coherence_scale"]))
        return csot.solve(*args, **named)

    monkeypatch.setattr("csot.clean.members.csot.solve", recorded)
    fit(*blobs, members=("linear", "csot"), coherence=2, coherence_scale="classes")
    fit(*blobs, members=("linear", "csot"))
    plans = 2 * 10  # budgets, folds
    assert seen == [(2.0, "classes")] * plans + [(1.0, "absolute")] * plans


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"members": ("linear", "forest")}, "'forest'; choose from"),
        ({"members": "linear"}, "not a tuple"),
        ({"n_folds": 1}, "n_folds must be a whole number, at least 2, got 1"),
        ({"n_folds": 2.5}, "n_folds must be a whole number"),
        ({"class_prior": [0.5, 0.5]}, "one share for each of the 3 classes"),
        ({"class_prior": [0.5, 0.6, -0.1]}, "class_prior must"),
        ({"class_prior": [np.nan] * 3}, "class_prior must"),
        ({"predict_prior": "flat"}, "predict_prior must be one of"),
        ({"coherence": -1}, "coherence must be a number of at least 0, got -1"),
        ({"coherence_scale": "rows"}, "coherence_scale must be one of"),
        ({"sample_ids": [1, 2]}, "sample_ids has 2 entries for 150 rows"),
        ({"verified": [True]}, r"verified has shape \(1,\) but there are 150 labels"),
        ({"verified": ["bee"] + [None] * 149}, "verified contains .*bee.* but the labels are like"),
        ({"pred_probs": np.ones((150, 2)) / 2}, r"pred_probs has shape \(150, 2\) but \(150, 3\)"),
        ({"pred_probs": np.ones((150, 3))}, "rows sum to 1"),
        ({"pred_probs": np.full((150, 3), np.nan)}, "finite"),
    ],
)
def test_bad_settings_are_named(blobs: Any, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fit(*blobs, **settings)


def test_a_bad_predict_prior_set_later_is_named_too(blobs: Any) -> None:
    cleaner = fit(*blobs).set_params(predict_prior=[1.0])
    with pytest.raises(ValueError, match="predict_prior must hold one share"):
        cleaner.predict(blobs[0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x, y: (x, y[:-1]), "labels has 149 entries but features has 150 rows"),
        (lambda x, y: (x, np.zeros(150, int)), "1 class; at least 2 classes"),
        (lambda x, y: (x, np.full(150, None)), "no class; at least 2 classes"),
        (lambda x, y: (x, None), "y is None"),
        (lambda x, y: (np.where(x == x[3, 2], np.nan, x), y), "contains NaN"),
        (lambda x, y: (np.tile(x[:1], (150, 1)), y), "the same in every row"),
        (lambda x, y: (x[:, 0], y), "Expected 2D array"),
        (lambda x, y: (x[:, :0], y), r"0 feature\(s\)"),
        (lambda x, y: (x, y + 0.5), "continuous"),
        (lambda x, y: (x, np.eye(3)[y]), "one label per row"),
    ],
)
def test_bad_data_are_named(blobs: Any, change: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fit(*change(*blobs))
