"""The two coherence terms of the paper, and the similarities they are made from."""
