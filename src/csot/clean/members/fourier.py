"""Random Fourier features: a ridge probe on them is a kernel machine, for small data."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from csot.clean.features import Basis
from csot.clean.members.member import FirstPass, Fit, Member, TrainingSet
from csot.clean.members.probe import (
    MEMBERS_PER_KIND,
    RELEARN_STEPS,
    first_noise,
    probe_path,
    relearn,
)

MOST_ROWS = 10_000
"""Rows up to which Fourier features are used."""
N_FEATURES = 512
WIDTHS = (0.5, 1.0, 2.0)
"""Kernel widths, in units of the median distance between rows."""


@dataclass(frozen=True)
class FourierMap:
    """x -> (cos(x Omega + phase), x / width)."""

    frequencies: Tensor
    phases: Tensor
    width: float

    @staticmethod
    def draw(rows: Tensor, seed: int) -> FourierMap:
        generator = torch.Generator().manual_seed(seed)
        sample = rows[torch.randperm(len(rows), generator=generator)[:1000]]
        half = len(sample) // 2
        width = float(torch.cdist(sample[:half], sample[half : 2 * half]).median())
        width = max(width, 1e-6)
        scales = torch.tensor(WIDTHS).repeat(math.ceil(N_FEATURES / len(WIDTHS)))[:N_FEATURES]
        frequencies = torch.randn(rows.shape[1], N_FEATURES, generator=generator)
        phases = torch.rand(N_FEATURES, generator=generator) * 2 * math.pi
        return FourierMap(frequencies * scales / width, phases, width)

    def __call__(self, rows: Tensor) -> Tensor:
        waves = rows @ self.frequencies.to(rows.dtype) + self.phases.to(rows.dtype)
        return torch.cat([waves.cos(), rows / self.width], 1)


@dataclass(frozen=True)
class FourierPredictor:
    """The mean of the folds' probes on Fourier features of the principal coordinates."""

    outer_basis: Basis
    fourier: FourierMap
    basis: Basis
    weights: Tensor

    def __call__(self, rows: Tensor) -> Tensor:
        waves = self.fourier(self.outer_basis.coordinates(rows))
        return self.basis(waves) @ self.weights.to(rows.dtype)


class FourierProbes:
    """Ridge probes on Fourier features, for small data."""

    name = "fourier"
    stage = "kernel probes"

    def applies(self, training: TrainingSet) -> bool:
        """Whether the rows are few: with many the network is as good, and faster."""
        return len(training.evidence) <= MOST_ROWS

    def fit(self, training: TrainingSet, first: FirstPass, noise: Tensor) -> Fit:
        """The best two, trained on the rows that are trusted."""
        folds, evidence = training.folds, training.evidence
        fourier = FourierMap.draw(training.basis.row_coordinates, training.seed)
        basis = Basis(fourier(training.basis.row_coordinates))
        found = first_noise(basis, folds, evidence)
        path = probe_path(basis, folds, evidence, found.noise, found.weights)
        if path[0].loss < first.judged.loss:
            noise = path[0].noise
        probes = path[:MEMBERS_PER_KIND]
        if not bool(first.trusted.all()):
            probes = relearn(basis, folds, evidence, probes, first.trusted, steps=RELEARN_STEPS)
        light = basis.without_training_rows()
        members = [
            Member(
                f"fourier ridge {probe.ridge:.3g}",
                probe.logits,
                FourierPredictor(training.light, fourier, light, probe.weights.mean(1)),
            )
            for probe in probes
        ]
        return Fit(members, noise)
