"""Columns of a table -> features: numbers, money, percentages, categories, dates, embeddings."""

from csot.data.columns.features import TableFeatures as TableFeatures
