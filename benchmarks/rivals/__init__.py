"""Label-error detectors to compare with, each written from its paper or called from its package."""
