"""Steps of the zoo on two ranks: what is weighed, compared and recorded."""

import numpy as np
import pytest

from tinytorch.chapters.distributed.step_programs import differing, owned_bytes, trained
from tinytorch.chapters.distributed.step_recording import named, record_steps, sent_early
from tinytorch.perf.distributed.recording.stragglers import Straggler
from tinytorch.perf.measuring import Unmeasured


def test_sums_of_two_are_exact_and_a_shard_is_half_of_the_state_without_gradients() -> None:
    kept, bits = trained("mlp", 8, 2, {"pair": "a pair", "ring": "a ring", "ranks": "copies", "sharded": "weights"})
    assert [one.differ.value for one in bits[:3]] == [0, 0, 0], "two ranks know one order alone"
    assert bits[3].largest.value < 1e-5
    assert kept.value == pytest.approx((4 + 8 / 2) / 16, rel=0.01), "buckets are padded"
    with pytest.raises(ValueError, match="ranks must be at least 2"):
        trained("mlp", 8, 1, {})


def test_memory_that_several_arrays_look_into_counts_once_and_whole() -> None:
    whole, other = np.zeros(10, np.float32), np.zeros(3)
    assert owned_bytes([whole[2:4], whole[5:].reshape(5, 1), other, other]) == 40 + 24
    assert owned_bytes([]) == 0


def test_differences_are_counted_and_weighed_by_the_largest_number() -> None:
    one, other = np.array([1, 2, -4], np.float32), np.array([1, 3, -4], np.float32)
    assert differing(one, other) == [3, 1, 0.25]


def test_steps_are_recorded_with_and_without_overlap_and_with_one_burdened_rank() -> None:
    steps = record_steps(2, model="mlp", batch=8, steps=2, burdened=1, products=1)
    assert 0 < sent_early(steps["overlapped"]).value <= 1
    assert sent_early(steps["afterwards"]).value == 0
    for rank, more in ((0, 0), (1, 1)):
        plain, burdened = (
            sum(event.op == "matmul" for event in steps[way].tracks[rank].profile.events)
            for way in ("overlapped", "burdened")
        )
        assert burdened - plain == more, "one product on the burdened rank alone"


def test_the_straggler_is_the_burdened_rank_or_another_or_none() -> None:
    for rank, said in ((1, "the burdened one"), (0, "another one")):
        found, word = named([Straggler(rank, 0.01, ())], 1)
        assert not isinstance(found, Unmeasured)
        assert (found.value, word) == (rank, said)
    assert named([], 1)[1] == "none"
