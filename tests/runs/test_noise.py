"""The noise rate in words."""

from __future__ import annotations

from typing import Any

import pytest

from csot.runs.noise import NoiseEstimate

BY_CLASS = "Most errors depend on the class alone: any of its samples may be mislabelled."
BY_SAMPLE = "Most errors depend on the sample: labels are wrong where classes look alike."
BY_BOTH = (
    "Some errors depend on the class alone, others on the sample: labels are wrong more often "
    "where classes look alike."
)


@pytest.mark.parametrize(
    ("estimate", "words"),
    [
        (NoiseEstimate(0.123), "The estimated noise rate is 12.3 %."),
        (NoiseEstimate(0.0), "The estimated noise rate is 0.0 %."),
        (NoiseEstimate(0.0001), "The estimated noise rate is under 0.1 %."),
        (
            NoiseEstimate(0.12, (0.02, 0.33)),
            "The estimated noise rate is 12.0 %, between 2 % and 33 %, depending on how far the "
            "classes really overlap; verify 100 rows to know better.",
        ),
        (
            NoiseEstimate(0.28, (0.27, 0.293)),
            "The estimated noise rate is 28.0 %, between 27 % and 29 %.",
        ),
        (
            NoiseEstimate(0.001, (0.0, 0.015)),
            "The estimated noise rate is 0.1 %, at most 1.5 %.",
        ),
        (NoiseEstimate(0.2, (0.2, 0.2)), "The estimated noise rate is 20.0 %, about 20 %."),
        (
            NoiseEstimate(0.12, (0.1, 0.15), n_verified=1),
            "The estimated noise rate is 12.0 %, between 10 % and 15 % by 1 verified row; 100 "
            "would say more.",
        ),
        (
            NoiseEstimate(0.12, (0.1, 0.15), n_verified=200),
            "The estimated noise rate is 12.0 %, between 10 % and 15 % by 200 verified rows.",
        ),
        (NoiseEstimate(0.2, None, 0.19), f"The estimated noise rate is 20.0 %. {BY_CLASS}"),
        (NoiseEstimate(0.2, None, 0.1), f"The estimated noise rate is 20.0 %. {BY_BOTH}"),
        (NoiseEstimate(0.2, None, 0.01), f"The estimated noise rate is 20.0 %. {BY_SAMPLE}"),
        (NoiseEstimate(0.005, None, 0.0), "The estimated noise rate is 0.5 %."),
    ],
)
def test_words(estimate: NoiseEstimate, words: str) -> None:
    assert estimate.words() == words


@pytest.mark.parametrize(
    ("summary", "found"),
    [
        ({}, None),
        ({"noise_rate": None}, None),
        ({"noise_rate": 0.1}, NoiseEstimate(0.1)),
        ({"noise_rate": 0.1, "noise_rate_interval": [None, 0.2]}, NoiseEstimate(0.1)),
        (
            {
                "noise_rate": 0.1,
                "noise_rate_interval": [0.0, 0.2],
                "noise_rate_by_class": 0.05,
                "n_verified": 3,
            },
            NoiseEstimate(0.1, (0.0, 0.2), 0.05, 3),
        ),
    ],
)
def test_from_a_summary(summary: dict[str, Any], found: NoiseEstimate | None) -> None:
    assert NoiseEstimate.of_summary(summary) == found
