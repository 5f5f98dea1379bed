"""``LabelCleaner.judge``, ``transfer``, ``save`` and ``load``: rows that were not there at fit."""

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits

from csot import LabelCleaner
from csot.clean.verdicts import ClassDistances

pytestmark = pytest.mark.usefixtures("remembered_fits")

TRAIN = 500


class Digits:
    """Real digits; of the labels of a row each is wrong with probability 0.2."""

    def __init__(self) -> None:
        self.pixels, self.truth = load_digits(return_X_y=True)
        rng = np.random.default_rng(0)
        wrong = (self.truth + rng.integers(1, 10, len(self.truth))) % 10
        self.labels = np.where(rng.random(len(self.truth)) < 0.2, wrong, self.truth)
        self.new = slice(TRAIN, TRAIN + 300)
        self.cleaner = LabelCleaner(random_state=0).fit(self.pixels[:TRAIN], self.labels[:TRAIN])

    def judged(self) -> pd.DataFrame:
        return self.cleaner.judge(self.pixels[self.new], self.labels[self.new])


@pytest.fixture(scope="session")
def digits() -> Digits:
    return Digits()


def test_training_rows_get_nearly_the_verdict_of_fit(digits: Digits) -> None:
    found, known = (
        digits.cleaner.judge(features=digits.pixels[:TRAIN], labels=digits.labels[:TRAIN]),
        digits.cleaner.findings_,
    )
    assert list(found.columns) == list(known.columns)
    assert (found.dtypes == known.dtypes).all()
    assert (found["corrected_label"] == known["corrected_label"]).mean() > 0.95
    assert (found["is_label_issue"] == known["is_label_issue"]).mean() > 0.95
    assert (found["label_score"] - known["label_score"]).abs().mean() < 0.05


def test_wrong_labels_of_new_rows_are_found(digits: Digits) -> None:
    found = digits.judged()
    truth, labels = digits.truth[digits.new], digits.labels[digits.new]
    wrong, flagged = labels != truth, found["is_label_issue"].to_numpy()
    assert (found["corrected_label"] == truth).mean() > (labels == truth).mean() + 0.08
    assert (flagged & wrong).sum() > 0.9 * wrong.sum()
    other = digits.cleaner.transfer(digits.pixels[digits.new], labels)
    low, high = other.noise_rate_interval_
    assert low <= wrong.mean() <= high
    assert f"of {len(labels)} labels look wrong" in other.report()
    np.testing.assert_array_equal(
        other.predict_proba(digits.pixels[:5]), digits.cleaner.predict_proba(digits.pixels[:5])
    )
    assert len(digits.cleaner.findings_) == TRAIN


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(chosen=st.lists(st.integers(0, 299), min_size=1, max_size=12, unique=True))
def test_the_verdict_on_a_row_does_not_depend_on_its_batch(
    digits: Digits, chosen: list[int]
) -> None:
    whole = digits.judged().iloc[chosen]
    rows = np.arange(digits.new.start, digits.new.stop)[chosen]
    part = digits.cleaner.judge(digits.pixels[rows], digits.labels[rows], sample_ids=chosen)
    pd.testing.assert_frame_equal(part, whole, rtol=1e-9, atol=1e-12, check_index_type=False)


def test_missing_labels_verified_ones_and_misfits(digits: Digits) -> None:
    rows, truth = digits.pixels[digits.new][:6].copy(), digits.truth[digits.new][:6]
    rows[5] = 1e4
    labels: list[Any] = [None, *truth[1:]]
    labels[1] = (truth[1] + 1) % 10
    verified = [None, truth[1], None, None, None, None]
    found = digits.cleaner.judge(rows, labels, [f"r{k}" for k in range(6)], verified)
    assert list(found.index) == [f"r{k}" for k in range(6)]
    assert found["note"].tolist()[:2] == ["no label given", "verified"]
    assert found["note"].tolist()[5] == "no class fits"
    assert found["corrected_label"].iloc[1] == truth[1]
    assert found["confidence"].iloc[1] == 1.0
    assert not found["is_label_issue"].iloc[:2].any()
    mask = digits.cleaner.judge(rows, labels, verified=[False] * 5 + [True])
    assert mask["note"].tolist()[5] == "verified"


def test_labels_outside_of_the_classes_are_named(digits: Digits) -> None:
    rows = digits.pixels[:2]
    with pytest.raises(ValueError, match=r"labels contains 11, which is not among the classes"):
        digits.cleaner.judge(rows, [1, 11])
    with pytest.raises(ValueError, match=r"labels contains '3'.*convert the labels to int"):
        digits.cleaner.judge(rows, ["3", "4"])
    with pytest.raises(ValueError, match=r"verified contains 12"):
        digits.cleaner.judge(rows, [1, 2], verified=[12, None])
    with pytest.raises(ValueError, match="1 entries but features has 2 rows"):
        digits.cleaner.judge(rows, [1])
    named = LabelCleaner(members=()).fit(blobs(), np.repeat(["cat", "dog"], 20))
    with pytest.raises(ValueError, match=r"labels contains 'dogs'.*did you mean 'dog'"):
        named.judge(blobs()[:2], ["cat", "dogs"])


def blobs() -> npt.NDArray[np.float64]:
    rng = np.random.default_rng(1)
    return np.repeat([[0.0, 0, 0], [4.0, 4, 4]], 20, axis=0) + rng.normal(size=(40, 3))


def test_class_distances_against_their_definition() -> None:
    rng = np.random.default_rng(2)
    rows, posterior = rng.normal(size=(60, 3)), rng.dirichlet(np.ones(2), 60)
    rows[7] = 300.0
    found = ClassDistances.of(rows, posterior)
    means = [np.average(rows, axis=0, weights=posterior[:, k]) for k in range(2)]
    within = np.zeros(3)
    for row, share in zip(rows, posterior, strict=True):
        for k in range(2):
            within += share[k] * (row - means[k]) ** 2 / len(rows)
    distances = [
        np.log(min((((row - mean) ** 2) / within).sum() for mean in means)) for row in rows
    ]
    np.testing.assert_allclose(found.nearest(rows), distances, rtol=1e-6, atol=1e-6)
    middle = np.median(distances)
    deviation = 1.4826 * np.median(np.abs(np.array(distances) - middle))
    assert found.limit == pytest.approx(middle + 6 * max(deviation, 0.05))
    assert found.misfits(rows)[7]


def same(left: LabelCleaner, right: LabelCleaner, rows: Any, labels: Any) -> None:
    """Equal to the last bit."""
    np.testing.assert_array_equal(left.predict_proba(rows), right.predict_proba(rows))
    for table in ("findings_", "history_", "noise_matrix_"):
        pd.testing.assert_frame_equal(getattr(left, table), getattr(right, table), check_exact=True)
    pd.testing.assert_series_equal(left.class_prior_, right.class_prior_, check_exact=True)
    pd.testing.assert_frame_equal(
        left.judge(rows, labels), right.judge(rows, labels), check_exact=True
    )
    np.testing.assert_array_equal(left.posterior_, right.posterior_)
    assert left.classes_.dtype == right.classes_.dtype
    assert left.get_params() == right.get_params()
    assert left.noise_rate_interval_ == right.noise_rate_interval_
    assert left.member_weights_ == right.member_weights_
    assert left.report() == right.report()


def test_a_saved_cleaner_comes_back_to_the_last_bit(digits: Digits, tmp_path: Path) -> None:
    path = tmp_path / "digits.cleaner"
    digits.cleaner.save(path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["digits.cleaner"]
    loaded = LabelCleaner.load(path)
    same(digits.cleaner, loaded, digits.pixels[digits.new], digits.labels[digits.new])
    again = tmp_path / "again.npz"
    loaded.save(again)
    same(loaded, LabelCleaner.load(again), digits.pixels[digits.new], digits.labels[digits.new])


@pytest.mark.parametrize(
    "classes",
    [["cat", "dög"], [3, 7], [0.0, 1.0], [False, True], [-1, 1]],
    ids=["text", "int", "float", "bool", "minus one"],
)
@pytest.mark.parametrize("index", [None, "text", "dates", "numbers"])
def test_types_of_labels_and_ids_are_kept(
    classes: list[Any], index: str | None, tmp_path: Path
) -> None:
    ids = {
        None: None,
        "text": [f"row {k}" for k in range(40)],
        "dates": np.arange("2024-01-01", "2024-02-10", dtype="datetime64[D]"),
        "numbers": np.arange(40)[::-1],
    }[index]
    labels = np.repeat(classes, 20)
    cleaner = LabelCleaner(members=(), predict_prior=[0.3, 0.7], class_prior=np.array([0.5, 0.5]))
    cleaner.fit(blobs(), labels, sample_ids=ids).save(tmp_path / "c.npz")
    loaded = LabelCleaner.load(tmp_path / "c.npz")
    cleaner.class_prior = loaded.class_prior = None  # get_params compares arrays by ==
    same(cleaner, loaded, blobs() + 0.1, labels)


def test_feature_names_are_kept(tmp_path: Path) -> None:
    table = pd.DataFrame(blobs(), columns=["x", "y", "z"])
    cleaner = LabelCleaner(members=()).fit(table, np.repeat([0, 1], 20))
    cleaner.save(tmp_path / "c.npz")
    loaded = LabelCleaner.load(tmp_path / "c.npz")
    same(cleaner, loaded, table, np.repeat([0, 1], 20))
    with pytest.raises(ValueError, match="feature names should match"):
        loaded.judge(table[["y", "x", "z"]], np.repeat([0, 1], 20))


def test_ids_that_cannot_be_saved_are_named(tmp_path: Path) -> None:
    ids = [(k, k) for k in range(40)]
    cleaner = LabelCleaner(members=()).fit(blobs(), np.repeat([0, 1], 20), sample_ids=ids)
    with pytest.raises(ValueError, match=r"index of .*findings_.*tuple.*sample_ids"):
        cleaner.save(tmp_path / "c.npz")
    assert list(tmp_path.iterdir()) == []


def test_other_and_damaged_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "c.npz"
    LabelCleaner(members=()).fit(blobs(), np.repeat([0, 1], 20)).save(path)
    whole = path.read_bytes()
    other = tmp_path / "other.npz"
    np.savez(other, features=blobs())
    for content in (b"", b"text", whole[:1000], whole[: len(whole) // 2], other.read_bytes()):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"c\.npz is not a saved LabelCleaner, or it is"):
            LabelCleaner.load(path)
    objects = tmp_path / "objects.npz"
    np.savez(objects, header=np.array([{}], dtype=object))
    with pytest.raises(ValueError, match=r"objects\.npz is not a saved LabelCleaner"):
        LabelCleaner.load(objects)
    with pytest.raises(FileNotFoundError, match="missing"):
        LabelCleaner.load(tmp_path / "missing.npz")


def test_a_cleaner_that_would_unpack_to_gigabytes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "c.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.npy", bytes(300 << 20))
    with pytest.raises(ValueError, match=r"c\.npz has .* would unpack to 314,572,800"):
        LabelCleaner.load(path)


def rewritten(path: Path, old: str, new: str) -> None:
    """The same archive with other text in its header."""
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive.files}
    text = arrays.pop("header").tobytes().decode()
    assert old in text
    changed = np.frombuffer(text.replace(old, new, 1).encode(), np.uint8)
    np.savez(path, header=changed, **arrays)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"version": 6', '"version": 7', "has version 7 and this csot reads version 6"),
        ('"kind": "LabelCleaner"', '"kind": "Other"', "is a saved Other, not a LabelCleaner"),
        ('"type": "Scale"', '"type": "os.system"', "damaged or of another version"),
        ('"informative"', '"instructive"', "damaged or of another version"),
        ('"n_features_in_": 3', '"n_features_in_": 4', "do not fit together"),
        ('"n_features_in_": 3', '"n_features_in_": 1000000000', "1,000,000,000 features"),
        ('"range": [0, 40, 1]', '"range": [0, 1000000000, 1]', "a table of 1,000,000,000 rows"),
        ('"classes_"', '"class_names_"', "do not fit together"),
    ],
)
def test_a_header_that_does_not_fit_is_refused(
    old: str, new: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "c.npz"
    LabelCleaner(members=()).fit(blobs(), np.repeat([0, 1], 20)).save(path)
    rewritten(path, old, new)
    with pytest.raises(ValueError, match=rf"c\.npz .*{message}"):
        LabelCleaner.load(path)


def test_flipped_bytes_are_noticed(tmp_path: Path) -> None:
    path = tmp_path / "c.npz"
    LabelCleaner(members=()).fit(blobs(), np.repeat([0, 1], 20)).save(path)
    with zipfile.ZipFile(path) as archive:
        entry = archive.getinfo("a0.npy")
    content = bytearray(path.read_bytes())
    content[entry.header_offset + 40 + 128] ^= 0xFF
    path.write_bytes(bytes(content))
    with pytest.raises(ValueError, match=r"c\.npz is not a saved LabelCleaner, or it is damaged"):
        LabelCleaner.load(path)
