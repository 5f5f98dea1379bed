"""F-correction against its description: the matrix, the loss, the fresh start, the verdict."""

import math

import numpy as np
import pytest
import torch

from csot.methods.f_correction import FCorrection, estimate_transition
from methods.helpers import TRAIN, WARMUP, accuracy, make_method, make_tiny, run_epochs


def slow_transition(probs: np.ndarray, quantile: float | None) -> np.ndarray:
    """Class by class, always from the unaltered predictions."""
    found = []
    for k in range(probs.shape[1]):
        column = probs[:, k]
        allowed = range(len(column))
        if quantile is not None:
            bound = np.quantile(column, quantile, method="higher")
            allowed = [i for i in allowed if column[i] < bound]
        found.append(probs[max(allowed, key=lambda i: column[i])])
    return np.array(found)


@pytest.mark.parametrize("quantile", [0.97, 0.5, None])
def test_transition_is_read_at_the_surest_row_below_the_quantile(quantile):
    generator = torch.Generator().manual_seed(0)
    probs = (2 * torch.randn(101, 5, generator=generator, dtype=torch.float64)).softmax(-1)
    found = estimate_transition(probs, quantile)
    np.testing.assert_allclose(found.numpy(), slow_transition(probs.numpy(), quantile))


def test_equal_predictions_exclude_nobody():
    probs = torch.full((10, 2), 0.5)
    assert estimate_transition(probs, 0.9).tolist() == [[0.5, 0.5], [0.5, 0.5]]


def test_a_planted_matrix_is_found():
    """Calibrated predictions p(given | x) of rows that each surely belong to a class."""
    planted = torch.tensor([[0.7, 0.2, 0.1], [0.0, 0.6, 0.4], [0.3, 0.1, 0.6]])
    probs = planted[torch.arange(300) % 3]
    torch.testing.assert_close(estimate_transition(probs, None), planted)


def test_loss_and_posterior_one_row_at_a_time():
    tiny = make_tiny(weak_noise=0.0)
    tiny.context.labels[3] = -1
    method = make_method("f_correction", tiny)
    assert isinstance(method, FCorrection)
    matrix = torch.tensor([[0.8, 0.2, 0.0], [0.1, 0.6, 0.3], [0.25, 0.25, 0.5]])
    method.transition.copy_(matrix)
    method.has_transition.fill_(True)
    rows = torch.arange(10, 30)
    loss = method(tiny.batch({TRAIN: rows}))["corrected"]
    probs = method.network(tiny.inputs).logits.softmax(-1).tolist()
    labels = tiny.context.labels.tolist()

    def joint(i: int) -> list[float]:
        return [probs[i][k] * float(matrix[k, labels[i]]) for k in range(3)]

    expected = -sum(math.log(sum(joint(i))) for i in rows.tolist()) / len(rows)
    assert float(loss.detach()) == pytest.approx(expected, rel=1e-5)
    verdict = method.judge()
    for i in (0, 15, 100):
        posterior = [value / sum(joint(i)) for value in joint(i)]
        assert verdict.posterior[i].tolist() == pytest.approx(posterior, abs=1e-5)
        assert float(verdict.scores[i]) == pytest.approx(posterior[labels[i]], abs=1e-5)
    # A row without a label is judged by the network.
    assert verdict.posterior[3].tolist() == pytest.approx(probs[3], abs=1e-5)


def test_stage_two_starts_afresh_with_a_schedule_of_its_own():
    tiny = make_tiny(epochs=7)
    method = make_method("f_correction", tiny, first_stage=3)
    assert isinstance(method, FCorrection)
    expected = [(1, 3), (2, 3), (3, 3), (1, 4), (2, 4), (3, 4), (4, 4)]
    assert [method.schedule_epoch(epoch) for epoch in range(1, 8)] == expected
    run_epochs(method, tiny, 1, 3)
    method.begin_epoch(4)
    fresh = tiny.context.make_network(1)
    for mine, new in zip(method.network.parameters(), fresh.parameters(), strict=True):
        assert torch.equal(mine, new)
    assert {stream for step in method.steps(3) for stream in step} == {WARMUP}
    assert {stream for step in method.steps(4) for stream in step} == {TRAIN}


@pytest.mark.parametrize("keep", ["loss", "accuracy"])
def test_the_matrix_is_of_the_best_weights_on_held_out_rows(keep):
    tiny = make_tiny(held_out=30, epochs=6)
    method = make_method("f_correction", tiny, first_stage=3, keep=keep)
    assert isinstance(method, FCorrection)
    held, best, expected = torch.arange(30), -math.inf, None
    for epoch in range(1, 4):
        run_epochs(method, tiny, epoch, epoch, rate=0.3)
        logits = tiny.context.predict(method.network, held).logits
        given = tiny.context.labels[held]
        score = -float(torch.nn.functional.cross_entropy(logits, given))
        if keep == "accuracy":
            score = float((logits.argmax(-1) == given).float().mean())
        if score > best:
            probs = tiny.context.predict(method.network, tiny.context.rows).probs
            best, expected = score, estimate_transition(probs, 0.97)
    method.begin_epoch(4)
    assert expected is not None
    torch.testing.assert_close(method.transition, expected)


def test_without_held_out_rows_the_last_weights_count():
    tiny = make_tiny(held_out=0, epochs=4)
    method = make_method("f_correction", tiny)
    assert isinstance(method, FCorrection)
    run_epochs(method, tiny, 1, 2)
    assert not bool(method.has_transition)
    probs = tiny.context.predict(method.network, tiny.context.rows).probs
    method.begin_epoch(3)
    torch.testing.assert_close(method.transition, estimate_transition(probs, 0.97))


def test_learns_and_state_survives_a_checkpoint():
    tiny = make_tiny(noise=0.2, epochs=20, held_out=20)
    method = make_method("f_correction", tiny)
    run_epochs(method, tiny, 1, 20)
    assert accuracy(method, tiny) > 0.85
    other = make_method("f_correction", tiny)
    other.load_state_dict(method.state_dict())
    torch.testing.assert_close(other.judge().posterior, method.judge().posterior)
