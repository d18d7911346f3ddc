"""The arithmetic probes: what they compute and how often, against closed forms."""

import numpy as np
import pytest

from tinytorch.perf import peaks
from tinytorch.perf.identity import identity
from tinytorch.perf.kernels import compute_probes
from tinytorch.perf.kernels.compute_probes import BLOCK_ELEMENTS, CHAINS, LANES, MULTIPLY_ADDS
from tinytorch.perf.kernels.evidence import evidence
from tinytorch.perf.team import Team


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("per_element", [1, 64])
def test_each_element_gets_as_many_multiply_adds_as_are_counted(lanes: int, per_element: int) -> None:
    block = np.arange(lanes * CHAINS * 3, dtype=np.float32)
    compute_probes.multiply_add(lanes, per_element)(block, 5, np.float32(1), np.float32(1))
    assert np.array_equal(block, np.arange(block.size) + 5 * per_element)


def test_the_factor_multiplies_before_the_addend_is_added() -> None:
    block = np.full(max(LANES) * CHAINS, 3, np.float32)
    compute_probes.multiply_add(16, 2)(block, 3, np.float32(2), np.float32(-1))
    assert set(block) == {1 + (3 - 1) * 2**6}  # x - 1 doubles at each of the six steps


@pytest.mark.parametrize("threads", [1, 2])
def test_flops_are_two_for_each_multiply_add_of_each_element_of_each_thread(threads: int) -> None:
    team = Team.__new__(Team)  # the amount is known without threads to run on
    team.threads = threads
    for count in MULTIPLY_ADDS:
        assert peaks.multiply_add_probe(team, 16, count).amount == 2 * count * BLOCK_ELEMENTS * threads


def test_eight_bit_dot_products_where_the_cpu_has_them() -> None:
    found = compute_probes.int8_instruction()
    if found is None:
        assert not {"avx512_vnni", "avx_vnni"} & set(identity().extensions)
        return
    lanes, _ = found
    generator = np.random.default_rng(0)
    left = generator.integers(0, 256, 4 * lanes, np.uint8)
    right = generator.integers(-128, 128, 4 * lanes).astype(np.int8)
    sums = np.full(CHAINS * lanes, -1, np.int32)
    compute_probes.int8_dot(lanes)(left, right, sums, 3)
    products = left.astype(np.int64) * right
    rounds = compute_probes.int8_macs(lanes, 3) // (CHAINS * lanes * 4)
    assert rounds == 3 * 8
    assert np.array_equal(sums.reshape(CHAINS, lanes), np.tile(rounds * products.reshape(lanes, 4).sum(1), (CHAINS, 1)))
    assert any(name.startswith("vpdpbusd") for name in evidence(compute_probes.int8_dot(lanes)))


@pytest.mark.parametrize("rounds", [0, 1, 7, 1001])
def test_the_integer_chain_takes_every_step(rounds: int) -> None:
    x, addend, mask = 1, 0x9E3779B97F4A7C15, 0x5DEECE66D
    found = compute_probes.integer_chain()(np.uint64(x), np.uint64(addend), np.uint64(mask), rounds)
    for _ in range(rounds):
        x = ((x + addend) % 2**64) ^ mask
    assert int(found) == x
