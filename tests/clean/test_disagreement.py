"""A prediction that contradicts many labels is never silent."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

from csot.clean import DisagreementWarning, LabelCleaner, find_label_issues
from csot.clean.verdicts import describe_disagreement
from csot.runs.noise import NoiseEstimate


def table(n: int, differing: int) -> pd.DataFrame:
    predicted = np.array(["cat"] * n, dtype=object)
    predicted[:differing] = "dog"
    return pd.DataFrame({"given_label": "cat", "predicted_label": predicted, "note": ""})


@pytest.mark.parametrize(
    ("n", "differing", "noise", "warns"),
    [
        (1000, 330, NoiseEstimate(0.02, (0.0, 0.33)), True),
        (1000, 330, NoiseEstimate(0.2), False),
        (1000, 190, NoiseEstimate(0.0), False),
        (10, 3, NoiseEstimate(0.0), False),
        (1000, 330, NoiseEstimate(0.02, n_verified=100), False),
        (0, 0, NoiseEstimate(0.0), False),
    ],
)
def test_only_a_disagreement_that_the_noise_does_not_explain(
    n: int, differing: int, noise: NoiseEstimate, warns: bool
) -> None:
    message = describe_disagreement(table(n, differing), noise)
    assert bool(message) == warns
    if warns:
        assert "differs from 330 of 1,000 labels (33 %)" in message
        assert "only 2.0 % are estimated to be wrong, possibly at most 33 %" in message
        assert "csot audit" in message
        assert "verified=" in message


def test_unlabelled_and_verified_rows_do_not_count() -> None:
    findings = table(1000, 330)
    findings.loc[:149, "given_label"] = None
    findings.loc[150:329, "note"] = "verified"
    assert not describe_disagreement(findings, NoiseEstimate(0.0))


def test_overlapping_classes_are_warned_of() -> None:
    """Two classes of one cluster: a third of the labels contradict any prediction."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1500, 2))
    right = 1 / (1 + np.exp(-1.5 * x[:, 0]))
    labels = (rng.random(1500) < right).astype(int)
    with pytest.warns(DisagreementWarning, match="of 1,500 labels") as caught:
        findings = find_label_issues(labels, np.stack([1 - right, right], 1))
    assert caught[0].filename == __file__
    assert findings.attrs["noise_rate"] < 0.2
    with pytest.warns(DisagreementWarning, match="of 1,500 labels") as caught:
        cleaner = LabelCleaner(members=("linear",)).fit(x, labels)
    assert caught[0].filename == __file__
    message = str(caught[0].message)
    assert cleaner.noise_summary()["warning"] == message
    assert cleaner.report().startswith(message)


def test_features_that_say_nothing_have_their_own_message() -> None:
    rng = np.random.default_rng(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cleaner = LabelCleaner(members=("linear",)).fit(
            rng.normal(size=(400, 3)), rng.integers(0, 3, 400)
        )
    assert not cleaner.informative_
    assert cleaner.noise_summary()["warning"] == ""
    assert cleaner.report().startswith("The features do not predict the labels beyond chance")
    assert cleaner.findings_["reason"].str.contains("do not predict the labels").all()
