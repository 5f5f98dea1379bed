"""The classifiers whose held-out predictions the cleaner weighs."""
