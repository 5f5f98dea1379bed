"""What data sets share: the registry, downloads, lists of files, pickles."""
