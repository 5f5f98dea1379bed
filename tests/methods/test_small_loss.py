"""Rows of small loss over several processes: simulated, one process's share at a time."""

import pytest
import torch
from torch import Tensor

from csot._core.ranks import Ranks
from csot.methods.parts.small_loss import mean_over, smallest, total


class Simulated(Ranks):
    """One of two processes; what it will gather is known beforehand, in this order."""

    def __init__(self, rank: int, wholes: list[Tensor]) -> None:
        super().__init__(rank, 2)
        self.wholes = wholes

    def gather(self, local: Tensor) -> Tensor:
        whole = self.wholes.pop(0)
        assert torch.equal(whole[self.share(len(whole))], local)
        return whole


@pytest.mark.parametrize(("share", "count"), [(0.7, 7), (0.55, 5), (1.0, 10), (0.01, 10)])
def test_so_many_rows_of_smallest_loss(share, count):
    losses = torch.tensor([5.0, 1.0, 9.0, 3.0, 8.0, 2.0, 7.0, 4.0, 6.0, 0.0])
    chosen = smallest(losses, share, Ranks())
    assert set(losses[chosen].tolist()) == set(range(count))


def test_rounding_does_not_lose_a_row():
    assert int(smallest(torch.arange(10.0), 1 - 0.3, Ranks()).sum()) == 7
    # A rate that has been through float32.
    assert int(smallest(torch.arange(10.0), 1 - float(torch.tensor(0.3)), Ranks()).sum()) == 7


def test_only_candidates_are_taken_and_counted():
    losses, among = torch.arange(8.0), torch.tensor([0, 0, 1, 1, 0, 1, 1, 0]).bool()
    assert smallest(losses, 0.5, Ranks(), among).nonzero()[:, 0].tolist() == [2, 3]


def test_two_processes_choose_as_one_and_their_mean_loss_is_the_whole_mean():
    losses = torch.tensor([0.5, 4.0, 0.1, 3.0, 0.2, 2.0])
    among = torch.tensor([True, True, True, False, True, True])
    alone = smallest(losses, 0.6, Ranks(), among)
    expected = mean_over(losses, alone, Ranks())
    assert float(expected) == pytest.approx((0.1 + 0.2 + 0.5) / 3)
    parts = []
    for rank in range(2):
        ranks = Simulated(rank, [losses, among, alone, alone])
        mine = ranks.share(6)
        chosen = smallest(losses[mine], 0.6, ranks, among[mine])
        assert torch.equal(chosen, alone[mine])
        assert total(chosen, ranks) == 3
        parts.append(mean_over(losses[mine], chosen, ranks))
    # One process has no chosen row at all; the mean over processes is still the mean over rows.
    assert float(parts[1]) == 0.0
    torch.testing.assert_close(torch.stack(parts).mean(), expected)


def test_nothing_chosen_is_a_loss_of_zero_with_a_gradient():
    losses = torch.ones(3, requires_grad=True)
    mean_over(losses, torch.zeros(3).bool(), Ranks()).backward()
    assert losses.grad is not None
    assert losses.grad.tolist() == [0.0, 0.0, 0.0]
