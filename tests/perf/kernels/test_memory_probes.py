"""The memory probes: they move what they say, and the chase walks one cycle through every line."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinytorch.perf.kernels import probes
from tinytorch.perf.kernels.probes import LANES, LINE_ELEMENTS, STREAM_MULTIPLE

N = 3 * STREAM_MULTIPLE


@pytest.mark.parametrize("lanes", LANES)
def test_a_read_sums_every_element_in_every_round(lanes: int) -> None:
    source = np.arange(N, dtype=np.float32)
    assert probes.read(lanes)(source, 4) == 4 * source.sum(dtype=np.float64)
    source[-1] += 1
    assert probes.read(lanes)(source, 1) == source.sum(dtype=np.float64)


@pytest.mark.parametrize("lanes", LANES)
def test_a_copy_and_a_triad_write_every_element_and_no_more(lanes: int) -> None:
    left, right = np.arange(N, dtype=np.float32), np.arange(N, dtype=np.float32)[::-1].copy()
    around = np.zeros(N + 2, np.float32)
    probes.copy(lanes)(around[1:-1], right, 2)
    assert np.array_equal(around, np.pad(right, 1))
    probes.triad(lanes)(around[1:-1], left, right, np.float32(0.5), 2)
    assert np.array_equal(around, np.pad(left + np.float32(0.5) * right, 1))


@settings(max_examples=50, deadline=None)
@given(lines=st.integers(1, 400), seed=st.integers(0, 2**64 - 1))
def test_the_chase_is_one_cycle_through_all_lines(lines: int, seed: int) -> None:
    following = np.full(lines * LINE_ELEMENTS, 2**63, np.uint64)
    probes.random_cycle()(following, np.uint64(seed))
    at, seen = 0, []
    for _ in range(lines):
        seen.append(at)
        at = int(following[at])
    assert at == 0, "it comes back after as many steps as there are lines"
    assert sorted(seen) == list(range(0, lines * LINE_ELEMENTS, LINE_ELEMENTS))
    assert probes.chase()(following, np.uint64(0), lines // 2) == seen[lines // 2] if lines > 1 else at == 0


def test_cycles_of_different_seeds_differ() -> None:
    cycles = []
    for seed in (1, 3, 2**40):
        following = np.zeros(1000 * LINE_ELEMENTS, np.uint64)
        probes.random_cycle()(following, np.uint64(seed))
        cycles.append(following)
    steps = [np.diff(cycle[::LINE_ELEMENTS].astype(np.int64)) for cycle in cycles]
    assert len({cycle.tobytes() for cycle in cycles}) == 3
    assert all(len(set(step.tolist())) > 500 for step in steps), "a prefetcher would know a constant stride"
