"""Which rows a step takes, and what mixup makes of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from csot._core.ranks import Ranks
from csot.methods.core.batches import full_batches, labelled, side_by_side
from csot.methods.csot import CLEAN, CORRUPTED
from csot.methods.parts.mixing import Mix, draw_mix
from helpers import LOSS_TOLERANCE
from reference import training as oracle


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_mix_against_the_oracle() -> None:
    values = np.random.default_rng(0).normal(size=(5, 3))
    partners = [3, 1, 0, 4, 2]
    mix = Mix(0.7, torch.tensor(partners), Ranks())
    wanted = oracle.mixed(values, 0.7, partners)
    np.testing.assert_allclose(mix(torch.from_numpy(values)), wanted, atol=LOSS_TOLERANCE)


def test_mix_of_images() -> None:
    images = torch.arange(2 * 3 * 2 * 2).float().view(2, 3, 2, 2)
    mix = Mix(0.25, torch.tensor([1, 0]), Ranks())
    torch.testing.assert_close(mix(images)[0], 0.25 * images[0] + 0.75 * images[1])


def test_draws_follow_the_beta_distribution() -> None:
    source = generator()
    kept = [draw_mix(2, 4.0, source, Ranks(), own_side=False).keep for _ in range(2000)]
    # Beta(a, a) has mean 1/2 and variance 1 / (4 (2 a + 1)).
    assert np.mean(kept) == pytest.approx(0.5, abs=0.02)
    assert np.var(kept) == pytest.approx(1 / 36, rel=0.1)
    own = [draw_mix(2, 4.0, source, Ranks(), own_side=True).keep for _ in range(200)]
    assert min(own) >= 0.5


def test_partners_are_a_permutation_and_repeatable() -> None:
    one, other = (draw_mix(9, 4.0, generator(3), Ranks()) for _ in range(2))
    assert sorted(one.partners.tolist()) == list(range(9))
    assert one.partners.tolist() == other.partners.tolist()
    assert one.keep == other.keep


def test_processes_draw_the_same_mix_and_share_its_rows() -> None:
    whole = draw_mix(8, 4.0, generator(5), Ranks())
    parts = [draw_mix(8, 4.0, generator(5), Ranks(rank, 2)) for rank in range(2)]
    assert all(part.keep == whole.keep for part in parts)
    assert torch.stack([part.partners for part in parts], 1).flatten().equal(whole.partners)


def test_full_batches_take_no_row_twice() -> None:
    rows = torch.arange(100, 123)
    batches = list(full_batches(rows, 5, generator()))
    taken = torch.cat(batches)
    assert [len(batch) for batch in batches] == [5] * 4
    assert len(set(taken.tolist())) == 20
    assert set(taken.tolist()) <= set(rows.tolist())


def test_few_rows_fill_one_batch() -> None:
    (batch,) = full_batches(torch.tensor([7, 8, 9]), 8, generator())
    assert len(batch) == 8
    # None is drawn a third time before every one has been drawn twice.
    assert all(2 <= batch.tolist().count(row) <= 3 for row in (7, 8, 9))


def test_no_rows_no_batches() -> None:
    none = torch.empty(0, dtype=torch.int64)
    assert list(full_batches(none, 4, generator())) == []
    assert list(side_by_side({CLEAN: none, CORRUPTED: none}, 4, generator())) == []


def test_the_longest_set_decides_and_shorter_ones_begin_again() -> None:
    sets = {CLEAN: torch.arange(10), CORRUPTED: torch.arange(10, 40)}
    steps = list(side_by_side(sets, 5, generator()))
    assert len(steps) == 6
    clean = torch.cat([step[CLEAN] for step in steps])
    assert set(clean.tolist()) == set(range(10))
    assert all(clean.tolist().count(row) == 3 for row in range(10))
    corrupted = torch.cat([step[CORRUPTED] for step in steps])
    assert sorted(corrupted.tolist()) == list(range(10, 40))


def test_an_empty_set_is_left_out() -> None:
    sets = {CLEAN: torch.arange(3), CORRUPTED: torch.empty(0, dtype=torch.int64)}
    (step,) = side_by_side(sets, 2, generator())
    assert set(step) == {CLEAN}


def test_one_set_may_lead() -> None:
    sets = {CLEAN: torch.arange(10), CORRUPTED: torch.arange(10, 40)}
    assert len(list(side_by_side(sets, 5, generator(), led_by=CLEAN))) == 2
    sets[CLEAN] = torch.empty(0, dtype=torch.int64)
    assert len(list(side_by_side(sets, 5, generator(), led_by=CLEAN))) == 6


def test_labelled_rows() -> None:
    labels = torch.tensor([0, -1, 2, -1, 1])
    assert labelled(torch.tensor([1, 2, 4]), labels).tolist() == [2, 4]
