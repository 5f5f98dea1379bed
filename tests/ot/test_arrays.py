"""Arrays come back as they came in."""

from __future__ import annotations

import numpy as np
import torch

from csot.ot.array_adapter import ArrayAdapter, computing_device

CPU, META, MPS = (torch.device(name) for name in ("cpu", "meta", "mps"))


def test_only_mps_which_has_no_float64_is_computed_elsewhere() -> None:
    assert computing_device(MPS) == CPU
    assert computing_device(CPU) == CPU
    assert computing_device(torch.device("cuda", 1)) == torch.device("cuda", 1)


def test_results_return_to_a_device_without_float64() -> None:
    # The meta device takes the place of MPS: it is the other device that every machine has.
    adapter = ArrayAdapter(numpy=False, batched=True, device=META, dtype=torch.float32)
    values = adapter.out(torch.zeros(2, 3, dtype=torch.float64))
    labels = adapter.out(torch.zeros(2, 3, dtype=torch.int64))
    assert isinstance(values, torch.Tensor)
    assert isinstance(labels, torch.Tensor)
    assert (values.device, values.dtype) == (META, torch.float32)
    assert (labels.device, labels.dtype) == (META, torch.int64)


def test_arrays_beside_tensors_on_mps_stay_on_the_cpu() -> None:
    adapter = ArrayAdapter(numpy=False, batched=False, device=MPS, dtype=torch.float32)
    prior = adapter.tensor("class_prior", np.array([0.5, 0.5]))
    assert (prior.device, prior.dtype) == (CPU, torch.float64)


def test_a_single_problem_loses_its_batch_axis() -> None:
    adapter = ArrayAdapter(numpy=True, batched=False, device=CPU, dtype=torch.float64)
    assert adapter.out(torch.zeros(1, 3)).shape == (3,)
    assert adapter.out(torch.zeros(4), has_batch=False).shape == (4,)
