"""Readers of what a user has on disk, with all checks."""
