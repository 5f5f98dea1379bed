"""Files that may be broken or hostile: bounds, containment, and one clear line. Knows no torch."""
