"""Comparisons of methods: the page, the curves, the sweeps, and tables beside the paper."""
