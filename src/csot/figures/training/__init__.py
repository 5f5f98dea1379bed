"""Figures of training runs: curves, stages, settings, time."""
