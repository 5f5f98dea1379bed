"""What every part of the package needs once. Knows nothing of the rest."""
