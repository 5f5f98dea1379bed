"""Find and fix wrong labels from features: the latent-truth model and its verdicts."""

from csot.clean.cleaner import LabelCleaner
from csot.clean.issues import find_label_issues
from csot.clean.verdicts import DisagreementWarning

__all__ = ["DisagreementWarning", "LabelCleaner", "find_label_issues"]
