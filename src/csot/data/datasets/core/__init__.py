"""What data sets share: lists of files, archives, pickles; and what they are asked for."""
