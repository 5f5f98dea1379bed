"""ELR against its description: targets row by row, the regulariser's gradient by hand."""

import torch

from csot._core.ranks import Ranks
from csot.methods.elr import Elr
from csot.methods.parts.losses import clipped_probs, regulariser, remember
from methods.helpers import TRAIN, make_method, make_tiny, run_epochs


def test_targets_are_running_means_from_zero_of_the_rows_seen():
    generator = torch.Generator().manual_seed(0)
    targets = torch.zeros(5, 3)
    slow = [[0.0] * 3 for _ in range(5)]
    for _ in range(4):
        rows = torch.randperm(5, generator=generator)[:2]
        probs = torch.rand(2, 3, generator=generator).softmax(-1)
        returned = remember(targets, rows, probs, 0.7, Ranks())
        for place, row in enumerate(rows.tolist()):
            for k in range(3):
                slow[row][k] = 0.7 * slow[row][k] + 0.3 * float(probs[place, k])
        torch.testing.assert_close(returned, targets[rows])
    torch.testing.assert_close(targets, torch.tensor(slow))


def test_gradient_of_the_regulariser():
    """d/dz_k log(1 - <t, p>) = -p_k (t_k - <t, p>) / (1 - <t, p>), over the batch size."""
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(4, 3, generator=generator, dtype=torch.float64).float().requires_grad_()
    targets = 0.8 * torch.randn(4, 3, generator=generator).softmax(-1)
    regulariser(logits, targets).backward()
    p = logits.detach().softmax(-1)
    inner = (targets * p).sum(-1, keepdim=True)
    torch.testing.assert_close(logits.grad, -p * (targets - inner) / (1 - inner) / 4)


def test_the_target_is_updated_before_the_loss_and_takes_clipped_predictions():
    tiny = make_tiny(weak_noise=0.0)
    method = make_method("elr", tiny, momentum=0.6, weight=2.0)
    assert isinstance(method, Elr)
    rows = torch.tensor([10, 20, 30])
    losses = method(tiny.batch({TRAIN: rows}))
    p = method.network(tiny.inputs[rows]).logits.softmax(-1).detach()
    clipped = p.clamp(1e-4, 1 - 1e-4)
    targets = 0.4 * clipped / clipped.sum(-1, keepdim=True)
    torch.testing.assert_close(method.targets[rows], targets)
    assert int((method.targets.sum(-1) > 0).sum()) == 3
    expected = 2.0 * (1 - (targets * clipped).sum(-1)).log().mean()
    torch.testing.assert_close(losses["regulariser"], expected)


def test_sure_predictions_keep_the_loss_finite():
    logits = torch.tensor([[100.0, 0.0, 0.0]])
    assert float(clipped_probs(logits).max()) < 1
    assert bool(torch.isfinite(regulariser(logits, torch.tensor([[1.0, 0.0, 0.0]]))))


def test_judgement_is_the_running_target_and_the_prediction_of_rows_held_out():
    tiny = make_tiny()
    method = make_method("elr", tiny)
    assert isinstance(method, Elr)
    run_epochs(method, tiny, 1, 3)
    found = method.judge()
    seen = method.targets.sum(-1) > 0
    assert not bool(seen[:6].any())
    expected = method.targets / method.targets.sum(-1, keepdim=True)
    torch.testing.assert_close(found.posterior[seen], expected[seen])
    network = tiny.context.predict(method.network, torch.arange(6)).probs
    torch.testing.assert_close(found.posterior[:6], network)
