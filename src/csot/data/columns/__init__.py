"""Columns of a table -> features: numbers, money, percentages, categories, dates, embeddings."""

from csot.data.columns.table_features import TableFeatures as TableFeatures
