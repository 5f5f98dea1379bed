"""Probes as members, on the features themselves or on Fourier features of them."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from csot.clean.features import Basis
from csot.clean.folds import Folds
from csot.clean.likelihood import Evidence
from csot.clean.members.fourier import FourierMap
from csot.clean.members.linear import ProbeMember, first_noise, probe_path, relearn
from csot.clean.members.member import Member

MEMBERS_PER_KIND = 2
"""Probes of neighbouring ridges that become members."""
RELEARN_STEPS = 8


@dataclass(frozen=True)
class ProbePredictor:
    """The mean of the folds' probes, on principal axes; of Fourier features if there is a map."""

    basis: Basis
    weights: Tensor
    outer_basis: Basis | None = None
    fourier: FourierMap | None = None

    def __call__(self, rows: Tensor) -> Tensor:
        if self.fourier is not None and self.outer_basis is not None:
            rows = self.fourier(self.outer_basis.coordinates(rows))
        return self.basis(rows) @ self.weights.to(rows.dtype)


def as_member(
    kind: str,
    member: ProbeMember,
    basis: Basis,
    outer_basis: Basis | None = None,
    fourier: FourierMap | None = None,
) -> Member:
    predictor = ProbePredictor(basis, member.weights.mean(1), outer_basis, fourier)
    return Member(f"{kind} ridge {member.ridge:.3g}", member.logits, predictor)


@dataclass(frozen=True)
class KernelProbes:
    """Linear probes on Fourier features."""

    probes: list[ProbeMember]
    fourier: FourierMap
    basis: Basis

    def members(
        self, folds: Folds, evidence: Evidence, trusted: Tensor, outer_basis: Basis
    ) -> list[Member]:
        """The best two as members, trained on the rows that are trusted."""
        probes = self.probes[:MEMBERS_PER_KIND]
        if not bool(trusted.all()):
            probes = relearn(self.basis, folds, evidence, probes, trusted, steps=RELEARN_STEPS)
        light = self.basis.without_training_rows()
        return [as_member("fourier", p, light, outer_basis, self.fourier) for p in probes]


def fit_kernel_probes(basis: Basis, folds: Folds, evidence: Evidence, seed: int) -> KernelProbes:
    fourier = FourierMap.draw(basis.row_coordinates, seed)
    kernel_basis = Basis(fourier(basis.row_coordinates))
    found = first_noise(kernel_basis, folds, evidence)
    path = probe_path(kernel_basis, folds, evidence, found.noise, found.weights)
    return KernelProbes(path, fourier, kernel_basis)
