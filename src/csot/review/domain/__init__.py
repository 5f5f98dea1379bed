"""What reviewing means: rows, decisions, their log, and what follows from them. No HTTP."""
