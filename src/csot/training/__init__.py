"""Train on noisy labels: configuration, the loop, checkpoints, evaluation, records."""
