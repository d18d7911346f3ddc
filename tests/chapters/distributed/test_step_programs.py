"""Steps of the zoo on two ranks: what is weighed and compared."""

import numpy as np
import pytest

from tinytorch.chapters.distributed.step_programs import differing, owned_bytes, trained


def test_sums_of_two_are_exact_and_a_shard_is_half_of_the_state_without_gradients() -> None:
    kept, bits = trained("mlp", 8, 2, {"pair": "a pair", "ring": "a ring", "ranks": "copies", "sharded": "weights"})
    assert [one["differ"].value for one in bits[:3]] == [0, 0, 0], "two ranks know one order alone"
    assert bits[3]["largest"].value < 1e-5
    assert kept.value == pytest.approx((4 + 8 / 2) / 16, rel=0.01), "buckets are padded"


def test_memory_that_several_arrays_look_into_counts_once_and_whole() -> None:
    whole, other = np.zeros(10, np.float32), np.zeros(3)
    assert owned_bytes([whole[2:4], whole[5:].reshape(5, 1), other, other]) == 40 + 24
    assert owned_bytes([]) == 0


def test_differences_are_counted_and_weighed_by_the_largest_number() -> None:
    one, other = np.array([1, 2, -4], np.float32), np.array([1, 3, -4], np.float32)
    assert differing(one, other) == [3, 1, 0.25]
