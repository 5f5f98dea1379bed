"""Find and fix wrong labels from features: the latent-truth model and its verdicts."""

from csot.clean.cleaner import LabelCleaner
from csot.clean.dataset import CleanRun, clean_dataset
from csot.clean.issues import find_label_issues
from csot.clean.verdicts import DisagreementWarning

__all__ = [
    "CleanRun",
    "DisagreementWarning",
    "LabelCleaner",
    "clean_dataset",
    "find_label_issues",
]
