"""Find and fix wrong labels from features: the latent-truth model and its verdicts."""

from csot.clean.apply import Applied, apply_corrections
from csot.clean.cleaner import LabelCleaner
from csot.clean.dataset import CleanRun, clean_dataset
from csot.clean.from_probabilities import find_label_issues
from csot.clean.verdicts import DisagreementWarning

__all__ = [
    "Applied",
    "CleanRun",
    "DisagreementWarning",
    "LabelCleaner",
    "apply_corrections",
    "clean_dataset",
    "find_label_issues",
]
