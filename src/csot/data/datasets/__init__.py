"""Data sets by name, one file each.

A file is a data set if it defines `NAMES`, the names it answers to, and
`read(name, request) -> TrainingData`.
"""
