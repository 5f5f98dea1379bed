"""Several annotators: the true label of each sample, and how good each annotator is."""

from csot.clean.annotators.consensus import Consensus, find_consensus

__all__ = ["Consensus", "find_consensus"]
