"""Models that are fitted once, for the files that ask for it."""

from remembered_fits import remembered_fits as remembered_fits
