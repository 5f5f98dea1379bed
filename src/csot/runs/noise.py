"""The noise rate and how well it is known, in words; the interval of a share that was counted."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

NARROW = 0.03
"""Width of an interval that more rows need not narrow."""
AUDIT = 100
"""Verified rows that are recommended."""
LEAST_RATE = 0.01
"""Noise rate below which nothing is said about what the errors depend on."""


@dataclass(frozen=True)
class NoiseEstimate:
    """Shares of the given labels."""

    rate: float
    interval: tuple[float, float] | None = None
    by_class: float | None = None
    """Share that is wrong whatever the sample: class prior times the noise matrix."""
    n_verified: int = 0
    """Verified rows that have a given label."""

    @staticmethod
    def of_summary(summary: Mapping[str, Any]) -> NoiseEstimate | None:
        """From the entries of summary.json; None if the run did not estimate a noise rate."""
        rate, interval = summary.get("noise_rate"), summary.get("noise_rate_interval")
        by_class, verified = summary.get("noise_rate_by_class"), summary.get("n_verified")
        if not isinstance(rate, int | float):
            return None
        known = isinstance(interval, list | tuple) and len(interval) == 2 and None not in interval
        return NoiseEstimate(
            float(rate),
            (float(interval[0]), float(interval[1])) if known and interval else None,
            None if by_class is None else float(by_class),
            int(verified or 0),
        )

    def range_words(self, before: str = "") -> str:
        """The interval in words, `between 2 % and 33 %`, after `before`; empty without one."""
        if self.interval is None:
            return ""
        low, high = (_per_cent(value) for value in self.interval)
        if low == high:
            return f"{before}about {high} %"
        if low == "0":
            return f"{before}at most {high} %"
        return f"{before}between {low} % and {high} %"

    def words(self) -> str:
        """One or two sentences."""
        rate = "under 0.1" if 0 < self.rate < 0.0005 else f"{100 * self.rate:.1f}"
        sentence = f"The estimated noise rate is {rate} %"
        if self.interval is None:
            return f"{sentence}. {self._kind_words()}".strip()
        wide = self.interval[1] - self.interval[0] > NARROW
        sentence += self.range_words(", ")
        if self.n_verified:
            rows = "row" if self.n_verified == 1 else "rows"
            sentence += f" by {self.n_verified:,} verified {rows}"
            if wide and self.n_verified < AUDIT:
                sentence += f"; {AUDIT} would say more"
        elif wide:
            sentence += (
                ", depending on how far the classes really overlap; "
                f"verify {AUDIT} rows to know better"
            )
        return f"{sentence}. {self._kind_words()}".strip()

    def _kind_words(self) -> str:
        """Whether errors depend on the class or on the sample."""
        if self.by_class is None or self.rate < LEAST_RATE:
            return ""
        share = self.by_class / self.rate
        if share >= 2 / 3:
            return "Most errors depend on the class alone: any of its samples may be mislabelled."
        if share <= 1 / 3:
            return "Most errors depend on the sample: labels are wrong where classes look alike."
        return (
            "Some errors depend on the class alone, others on the sample: labels are wrong more "
            "often where classes look alike."
        )


def _per_cent(share: float) -> str:
    value = 100 * share
    return f"{value:.0f}" if value >= 9.5 or value < 0.05 else f"{value:.1f}".removesuffix(".0")


Z = 1.959963984540054
"""97.5 % quantile of the normal distribution."""


def wilson_interval(hits: int, count: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share, from `hits` of `count`."""
    share = hits / count
    denominator = 1 + Z**2 / count
    middle = (share + Z**2 / (2 * count)) / denominator
    spread = share * (1 - share) / count + Z**2 / (4 * count**2)
    half = Z * math.sqrt(spread) / denominator
    return max(middle - half, 0.0), min(middle + half, 1.0)
