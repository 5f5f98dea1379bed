"""What every part of the package needs. Independent of the rest."""
