"""The most that the cores compute: float32 and 8-bit peaks, the clock, and the price of a page's first touch."""

from __future__ import annotations

import mmap
from functools import partial

import numpy as np

from tinytorch.perf.host.memory_pages import Arena, minor_page_faults
from tinytorch.perf.host.pinned_threads import Team
from tinytorch.perf.kernels import probes
from tinytorch.perf.kernels.int8.instructions import Dot
from tinytorch.perf.kernels.probes import BLOCK_ELEMENTS, CHAINS, LANES, MULTIPLY_ADDS
from tinytorch.perf.machine.probing import REPEATS, Probe, interleaved_rates, team_conditions
from tinytorch.perf.measuring import Measurement, blas_threads, collector_off, measure
from tinytorch.perf.measuring.between_run_variance import with_between_run_spread
from tinytorch.perf.measuring.conditions import ComputeProbe, PageProbe

#: Side of the float32 matrices whose product is the other candidate for the peak: 17 GFLOP in 48 MiB.
SGEMM_SIDE = 2048
_LOOKS = 3
_PAGES = 2048


def multiply_add_probe(team: Team, lanes: int, per_element: int) -> Probe:
    """Return the probe of ``per_element`` multiply-adds on each element of a block in the first cache."""
    kernel = probes.multiply_add(lanes, per_element)
    # Towards 1 from above: neither overflow nor numbers too small for the fast path of the hardware.
    factor, addend = np.float32(0.999), np.float32(0.001)
    blocks = [Arena(4 * BLOCK_ELEMENTS).view(0, BLOCK_ELEMENTS, np.float32) for _ in range(team.threads)]
    for block in blocks:
        block[:] = 2.0

    def run(rounds: int) -> float:
        return team.run([partial(kernel, block, rounds, factor, addend) for block in blocks])

    flops = 2 * per_element * BLOCK_ELEMENTS * team.threads
    loop = ComputeProbe(vector_bits=32 * lanes, chains=CHAINS)
    return Probe("compiled multiply-add", run, flops, "FLOP/s", loop)


def fastest_lanes(team: Team) -> int:
    """Return the number of floats in a vector with which multiply-adds are fastest here, after a few short looks."""
    most = max(MULTIPLY_ADDS)
    probes = {lanes: multiply_add_probe(team, lanes, most) for lanes in LANES}
    looked = interleaved_rates(team, probes, lambda _: None, _LOOKS)
    return max(LANES, key=lambda lanes: looked[lanes].median)


def sgemm(threads: int, repeats: int = REPEATS, side: int = SGEMM_SIDE) -> Measurement:
    """Return FLOP/s of a float32 matrix product ``side`` wide by NumPy's BLAS on ``threads`` threads."""
    generator = np.random.default_rng(0)
    a, b = (generator.random((side, side), dtype=np.float32) for _ in range(2))
    product = np.empty_like(a)
    with blas_threads(threads):
        seconds = measure(lambda: np.matmul(a, b, out=product), "sgemm", repeats=repeats, at_most_seconds=2.0)
    return seconds.per(2 * side**3, "FLOP/s", f"product of float32 matrices, {side} wide")


def int8_probe(team: Team, dot: Dot) -> Probe:
    """Return the probe of 8-bit products by the instruction ``dot``, their operands ready in the first cache."""
    kernel = probes.int8_dots(dot)
    rows, wide = probes.int8_tile_shape(dot)
    generator = np.random.default_rng(0)
    left = generator.integers(0, 256, 4 * dot.lanes * rows, np.uint8)
    right = generator.integers(-128, 128, 4 * dot.lanes * wide * probes.INT8_STEPS).astype(np.int8)
    sums = [np.zeros(rows * wide * dot.lanes, np.int32) for _ in range(team.threads)]

    def run(rounds: int) -> float:
        return team.run([partial(kernel, left, right, own, rounds) for own in sums])

    operations = 2 * probes.int8_macs(dot) * team.threads
    loop = ComputeProbe(vector_bits=32 * dot.lanes, instruction=dot.name)
    return Probe("8-bit products", run, operations, "OP/s", loop)


def clock_probe(team: Team) -> Probe:
    """Return the probe of the clock: two dependent integer operations a round, assumed to take one cycle each."""
    kernel = probes.integer_chain()
    numbers = np.uint64(1), np.uint64(0x9E3779B97F4A7C15), np.uint64(0x5DEECE66D)

    def run(rounds: int) -> float:
        return team.run([partial(kernel, *numbers, rounds)] * team.threads)

    assumed = "It assumes that an addition and an exclusive or take one cycle each."
    return Probe("clock, from a chain of dependent integer operations", run, 2, "Hz", note=assumed)


def page_fault(team: Team, repeats: int = REPEATS) -> Measurement:
    """Return the seconds that the first touch of a page takes: memory mapped anew, one byte of each page written.

    A page is the system's, which the conditions tell: 4 KiB on x86-64, 16 KiB on Apple's CPUs, 64 KiB on some of
    Arm's. They also hold the faults that the system counted for each; below 1 it gave several pages at once.
    """
    samples, counted = [], 0
    with collector_off():
        for _ in range(repeats):
            arenas = [Arena(_PAGES * mmap.PAGESIZE, huge=False, touched=False) for _ in range(team.threads)]
            before = minor_page_faults()
            seconds = team.run([partial(arena.touch, mmap.PAGESIZE) for arena in arenas])
            counted += minor_page_faults() - before
            samples.append(seconds / _PAGES)
    faults = counted / (repeats * _PAGES * team.threads)
    conditions = team_conditions(team, 1, PageProbe(page_bytes=mmap.PAGESIZE, faults_per_page=faults))
    return with_between_run_spread(Measurement("first touch of a page", tuple(samples), "s", conditions))
