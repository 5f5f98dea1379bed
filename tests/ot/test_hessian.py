"""The curvature of the semi-dual: as a matrix, as an operator, and as differences of its slope."""

from __future__ import annotations

import pytest
import torch

from csot.ot.inner import newton as curvature
from csot.ot.inner.newton import Curvature
from helpers import make_kernel


@pytest.mark.parametrize("work", [0, 10**12], ids=["picked", "whole"])
@pytest.mark.parametrize(("n_classes", "budget"), [(5, 0.3), (5, 1.0), (200, 0.3), (200, 1.0)])
def test_curvature_is_the_slope_of_the_class_totals(
    n_classes: int, budget: float, work: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(curvature, "SELECT_WORK", work)
    kernel = make_kernel(400, n_classes, budget, 0.5, seed=3)
    log_v = torch.linspace(-6, -5, n_classes, dtype=torch.float64)[None]
    state = kernel.evaluate(log_v)
    found = Curvature(kernel, state, None)
    matrix = found.matrix()
    x = torch.sin(torch.arange(n_classes, dtype=torch.float64))[None]
    assert torch.allclose(found.times(x), (matrix @ x[..., None])[..., 0], atol=1e-14)
    floor = 1e-6 * state.column_sums
    expected = torch.maximum(matrix.diagonal(dim1=1, dim2=2), floor)
    assert torch.allclose(found.diagonal(), expected, rtol=1e-9, atol=1e-14)
    nudge = 1e-6
    for k in range(0, n_classes, 37):
        moved = torch.zeros_like(log_v)
        moved[0, k] = nudge
        ahead = kernel.evaluate(log_v + moved).column_sums
        behind = kernel.evaluate(log_v - moved).column_sums
        slope = (ahead - behind) / (2 * nudge)
        assert torch.allclose(slope[0], matrix[0, :, k], rtol=1e-4, atol=1e-9)


def test_damping_leaves_rows_out_by_degrees() -> None:
    kernel = make_kernel(300, 6, 0.5, 0.5, seed=1)
    state = kernel.evaluate(torch.full((1, 6), -5.0, dtype=torch.float64))
    diagonals = [
        Curvature(kernel, state, torch.tensor([damping], dtype=torch.float64)).diagonal()
        for damping in (1e-9, 0.3, 1.0)
    ]
    assert torch.allclose(diagonals[0], Curvature(kernel, state, None).diagonal(), rtol=1e-6)
    assert bool((diagonals[0] <= diagonals[1]).all())
    assert torch.allclose(diagonals[2], state.column_sums)
