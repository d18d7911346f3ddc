"""Probes against closed forms and NumPy: what they compute, what they move and write, and by which instructions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinytorch.perf.host.pinned_threads import Team
from tinytorch.perf.kernels import probes
from tinytorch.perf.kernels.int8.instructions import Dot, available_dots
from tinytorch.perf.kernels.probes import BLOCK_ELEMENTS, CHAINS, LANES, LINE_ELEMENTS, MULTIPLY_ADDS, STREAM_MULTIPLE
from tinytorch.perf.kernels.runtime.evidence import evidence, function_assembly, spills
from tinytorch.perf.machine import peaks


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("per_element", [1, 64])
def test_each_element_gets_as_many_multiply_adds_as_are_counted(lanes: int, per_element: int) -> None:
    block = np.arange(lanes * CHAINS * 3, dtype=np.float32)
    probes.multiply_add(lanes, per_element)(block, 5, np.float32(1), np.float32(1))
    assert np.array_equal(block, np.arange(block.size) + 5 * per_element)


def test_the_factor_multiplies_before_the_addend_is_added() -> None:
    block = np.full(max(LANES) * CHAINS, 3, np.float32)
    probes.multiply_add(16, 2)(block, 3, np.float32(2), np.float32(-1))
    assert set(block) == {1 + (3 - 1) * 2**6}  # x - 1 doubles at each of the six steps


@pytest.mark.parametrize("threads", [1, 2])
def test_flops_are_two_for_each_multiply_add_of_each_element_of_each_thread(threads: int) -> None:
    team = Team.__new__(Team)  # the amount is known without threads to run on
    team.threads = threads
    for count in MULTIPLY_ADDS:
        assert peaks.multiply_add_probe(team, 16, count).amount == 2 * count * BLOCK_ELEMENTS * threads


@pytest.mark.parametrize("dot", available_dots(), ids=lambda dot: dot.name)
@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_eight_bit_products_are_those_of_numpy(dot: Dot, rounds: int) -> None:
    rows, wide = probes.int8_tile_shape(dot)
    generator = np.random.default_rng(0)
    left = generator.integers(0, 256, (rows, dot.lanes, 4), np.uint8)
    right = generator.integers(-128, 128, (probes.INT8_STEPS, wide, dot.lanes, 4)).astype(np.int8)
    sums = np.full((rows, wide, dot.lanes), -1, np.int32)
    probes.int8_dots(dot)(left.ravel(), right.ravel(), sums.ravel(), rounds)
    reduced, wider = left.astype(np.int64) - dot.less, right.astype(np.int64)
    if dot.square:  # two rows by two columns of eight bytes
        reduced, wider = reduced.reshape(rows, 2, 8), wider.reshape(-1, wide, 2, 8)
        products = np.einsum("rik,swjk->rwij", reduced, wider).reshape(sums.shape)
    else:
        products = np.einsum("rlb,swlb->rwl", reduced, wider)
    assert np.array_equal(sums, rounds * products)
    assert probes.int8_macs(dot) == left[:, 0, 0].size * right.size * (2 if dot.square else 1)


@pytest.mark.parametrize("dot", available_dots(), ids=lambda dot: dot.name)
def test_eight_bit_products_are_made_by_their_instruction(dot: Dot) -> None:
    found = evidence(probes.int8_dots(dot))
    name = dot.name.split()[0]
    # LLVM makes one instruction of a product of pairs and the addition to the sum where the CPU has it.
    names = {"multiply": ("mul", "mla"), "vpmaddwd": ("vpmaddwd", "vpdpwssd")}.get(name, (name,))
    made = sum(count for instruction, count in found.items() if any(one in instruction for one in names))
    rows, wide = probes.int8_tile_shape(dot)
    assert made >= rows * wide, "as many as the tile has sums, in the loop: none of them before it"


@pytest.mark.parametrize("dot", [dot for dot in available_dots() if dot.is_dot_product], ids=lambda dot: dot.name)
def test_eight_bit_products_move_nothing_but_what_each_step_reads(dot: Dot) -> None:
    rows, wide = probes.int8_tile_shape(dot)
    kernel = probes.int8_dots(dot)
    read = evidence(kernel)[dot.name] // rows  # vectors of a step, which lie on the stack
    assert spills(function_assembly(kernel), rows * wide) <= read


@pytest.mark.parametrize("rounds", [0, 1, 7, 1001])
def test_the_integer_chain_takes_every_step(rounds: int) -> None:
    x, addend, mask = 1, 0x9E3779B97F4A7C15, 0x5DEECE66D
    found = probes.integer_chain()(np.uint64(x), np.uint64(addend), np.uint64(mask), rounds)
    for _ in range(rounds):
        x = ((x + addend) % 2**64) ^ mask
    assert int(found) == x


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


MATRIX = np.random.default_rng(0).integers(-1000, 1000, (7, 24), np.int32)


@pytest.mark.parametrize("view", [MATRIX, MATRIX.T, MATRIX[:, ::3], MATRIX[:, :5].T], ids=str)
def test_all_of_a_view_is_added_up(view: np.ndarray) -> None:
    assert probes.add_up(view) == view.sum()


def test_chains_are_followed_side_by_side() -> None:
    following = np.random.default_rng(1).permutation(50).astype(np.uint64)
    places = np.array([3, 40], np.uint64)
    truth = places.copy()
    for _ in range(9):
        truth = following[truth.astype(int)]
    probes.follow(following, places, 9)
    assert np.array_equal(places, truth)


def test_numbers_are_overwritten_and_updated() -> None:
    numbers = np.arange(5, dtype=np.float32)
    probes.update(numbers, np.float32(2))
    assert np.array_equal(numbers, np.arange(2, 7))
    probes.overwrite(numbers, np.float32(3))
    assert np.array_equal(numbers, np.full(5, 3))
