"""The transport problem, its solver and its solution. Independent of training."""

from csot.ot.coherence.similarity import Similarity
from csot.ot.numerics import ConvergenceWarning
from csot.ot.plan import Plan
from csot.ot.solve import solve

__all__ = ["ConvergenceWarning", "Plan", "Similarity", "solve"]
