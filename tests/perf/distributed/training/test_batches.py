"""Sharded batches: what holds for all sizes."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tinytorch.perf.distributed.training.batches import ShardedBatches


def sharded(examples: int, batch_size: int, size: int, seed: int) -> list[ShardedBatches]:
    arrays = np.arange(examples), 2 * np.arange(examples)
    return [ShardedBatches(*arrays, batch_size=batch_size, rank=rank, size=size, seed=seed) for rank in range(size)]


@given(st.integers(1, 60), st.integers(1, 20), st.integers(1, 5), st.integers(0, 9), st.integers(0, 3))
def test_parts_are_disjoint_cover_everything_and_make_the_same_batches_for_any_number_of_ranks(
    examples: int, batch_size: int, size: int, seed: int, epoch: int
) -> None:
    assume(min(batch_size, examples, examples % batch_size or batch_size) >= size)
    ranks = sharded(examples, batch_size, size, seed)
    alone = list(sharded(examples, batch_size, 1, seed)[0].epoch(epoch))
    together = [list(rank.epoch(epoch)) for rank in ranks]
    assert {len(batches) for batches in together} == {len(ranks[0])} == {-(-examples // batch_size)}
    for step, (inputs, targets) in enumerate(alone):
        parts = [batches[step] for batches in together]
        np.testing.assert_array_equal(np.concatenate([part[0].data for part in parts]), inputs.data)
        np.testing.assert_array_equal(np.concatenate([part[1].data for part in parts]), targets.data)
        lengths = [len(part[0]) for part in parts]
        assert max(lengths) - min(lengths) <= 1
    seen = np.concatenate([inputs.data for inputs, _ in alone])
    np.testing.assert_array_equal(np.sort(seen), np.arange(examples))


def test_each_epoch_has_an_order_of_its_own_and_can_be_entered_anywhere() -> None:
    (batches,) = sharded(30, 4, 1, 7)
    orders = [np.concatenate([inputs.data for inputs, _ in batches.epoch(epoch)]) for epoch in (0, 1, 0)]
    assert (orders[0] != orders[1]).any()
    np.testing.assert_array_equal(orders[0], orders[2])
    later = [inputs.data for inputs, _ in batches.epoch(1, first=5)]
    np.testing.assert_array_equal(np.concatenate(later), orders[1][20:])
    (other,) = sharded(30, 4, 1, 8)
    assert (other.order(0) != batches.order(0)).any()


def test_batches_that_leave_a_rank_without_an_example_are_refused() -> None:
    with pytest.raises(ValueError, match="example"):
        sharded(9, 4, 2, 0)
    with pytest.raises(ValueError, match="batch_size"):
        sharded(2, 8, 3, 0)
    with pytest.raises(ValueError, match="rank"):
        ShardedBatches(np.arange(4), batch_size=2, rank=2, size=2)
    with pytest.raises(ValueError, match="length"):
        ShardedBatches(np.arange(4), np.arange(5), batch_size=2, rank=0, size=2)
