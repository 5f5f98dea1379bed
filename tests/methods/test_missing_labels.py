"""Rows without a label are trained on, and their label is never among those trusted."""

import pytest
import torch

from methods.helpers import accuracy, make_method, make_tiny, run_epochs


@pytest.mark.parametrize("name", ["dividemix", "nce", "ot_filter"])
def test_a_missing_label_is_never_kept(name):
    tiny = make_tiny()
    tiny.context.labels[50:70] = -1
    method = make_method(name, tiny, warmup=1)
    run_epochs(method, tiny, 1, 4)
    split, found = method.split(), method.judge()
    assert split is not None
    assert not bool(split.clean[50:70].any())
    assert bool(torch.isfinite(found.posterior).all())
    assert accuracy(method, tiny) > 0.85
