"""What every method is built on: the contract, networks, batches, the registry."""
