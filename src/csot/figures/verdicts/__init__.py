"""Figures of what a run says about labels, against the truth or by itself."""
