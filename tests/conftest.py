"""Hypothesis draws the same examples every time: a red test is a change's fault, not chance's."""

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")
