"""A warning where the prediction contradicts far more labels than the noise rate admits."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd

from csot.records.findings import GIVEN, NOTE, PREDICTED, VERIFIED
from csot.records.noise import NoiseEstimate

LARGE_SHARE = 0.2
"""Labels that the prediction may contradict without a warning."""
ENOUGH_VERIFIED = 30
"""Verified rows from which they, and not an assumption, set the noise rate."""


class DisagreementWarning(UserWarning):
    """The prediction contradicts many labels that are not judged wrong."""


def describe_disagreement(findings: pd.DataFrame, noise: NoiseEstimate) -> str:
    """What to warn of; empty if the noise rate accounts for the disagreement."""
    if noise.n_verified >= ENOUGH_VERIFIED:
        return ""
    open_ = (findings[GIVEN].notna() & (findings[NOTE] != VERIFIED)).to_numpy()
    differs = (findings[GIVEN] != findings[PREDICTED]).to_numpy()[open_]
    n, count = len(differs), int(differs.sum())
    share = count / max(n, 1)
    # By two standard errors: a few rows may disagree by chance.
    surely = share - 2 * float(np.sqrt(share * (1 - share) / max(n, 1)))
    if surely <= LARGE_SHARE or noise.rate >= share / 2:
        return ""
    return (
        f"The prediction differs from {count:,} of {n:,} labels ({100 * share:.0f} %), but only "
        f"{100 * noise.rate:.1f} % are estimated to be wrong{noise.range_words(', possibly ')}. "
        "Either the features or probabilities are too weak to tell these classes apart, or many "
        "more labels are wrong; the labels alone cannot say which. Verify about 100 rows (csot "
        "audit RUN, or csot.propose_audit in Python) and pass them as verified= (--verified)."
    )


def warn_of_disagreement(findings: pd.DataFrame, noise: NoiseEstimate, stacklevel: int) -> None:
    """Emit a `DisagreementWarning` if there is something to warn of."""
    message = describe_disagreement(findings, noise)
    if message:
        warnings.warn(message, DisagreementWarning, stacklevel=stacklevel + 1)
