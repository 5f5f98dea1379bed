"""Figures of the solver: plans, mappings, convergence, time."""
