"""The parts of ``benchmarks/clean.py``: cells, measures, goals, tables and stored results."""
