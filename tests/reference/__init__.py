"""Slow and obvious float64 oracles, written from the equations and from nothing else."""
