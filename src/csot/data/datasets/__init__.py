"""Data sets by name: one file each."""
