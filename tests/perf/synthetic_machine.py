"""A machine that is not there: ladders with steps at chosen sizes, and ceilings made of them."""

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np

from tests.perf.made_ceilings import made_costs
from tinytorch.perf.machine.bandwidth_sweep import working_sets
from tinytorch.perf.machine.levels import CURVES, Ceilings, Curve, Point, Taken, find_levels
from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.conditions import Conditions

#: Bytes of each cache, and what each level, memory last, gives: B/s of a read, and seconds of a load.
CACHES = (48 * 2**10, 2**20, 32 * 2**20)
RATES = (500e9, 200e9, 100e9, 40e9)
LATENCIES = (1e-9, 4e-9, 13e-9, 150e-9)
REPORTED = dict(enumerate(CACHES, 1))
#: What copy and triad reach of the read.
_SHARES: Mapping[Curve, float] = {"read": 1.0, "copy": 0.9, "triad": 1.2}


def around(value: float, unit: str, noise: float = 0.0, seed: int = 0) -> Measurement:
    """Return nine samples around ``value``, multiplied by lognormal noise."""
    factors = np.exp(noise * np.random.default_rng(seed).standard_normal(9))
    return Measurement("made", tuple((value * factors).tolist()), unit, Conditions(threads=1))


def stepped(size: int, ends: Sequence[int], values: Sequence[float]) -> float:
    """Return the value of the first level that holds ``size``."""
    return next((value for end, value in zip(ends, values, strict=False) if size <= end), values[-1])


def made_curves(
    noise: float = 0.0,
    seed: int = 0,
    ends: Sequence[int] = CACHES,
    rates: Sequence[float] = RATES,
    latencies: Sequence[float] = LATENCIES,
) -> dict[Curve, tuple[Point, ...]]:
    """Return the four curves of a machine whose levels end at ``ends``."""
    sizes = working_sets(1, also=ends)
    seeds = iter(np.random.default_rng(seed).integers(0, 2**31, 4 * len(sizes)).tolist())

    def point(curve: Curve, size: int) -> Point:
        if curve == "latency":
            return Point(size, around(stepped(size, ends, latencies), "s", noise, next(seeds)))
        return Point(size, around(stepped(size, ends, rates) * _SHARES[curve], "B/s", noise, next(seeds)))

    return {curve: tuple(point(curve, size) for size in sizes) for curve in CURVES}


@cache  # its levels take tenths of a second to find
def synthetic_ceilings(threads: int = 1, noise: float = 0.02) -> Ceilings:
    """Return the ceilings of that machine."""
    curves = made_curves(noise)
    peak = around(250e9, "FLOP/s", noise)
    return Ceilings(
        threads=threads,
        fp32_peak=peak,
        fp32_from="compiled multiply-add",
        multiply_add=((2, around(90e9, "FLOP/s", noise)), (64, peak)),
        sgemm=around(240e9, "FLOP/s", noise),
        int8_peak=around(1e12, "OP/s", noise),
        int8_from="an instruction",
        levels=find_levels(curves, REPORTED),
        curves=curves,
        clock=around(4e9, "Hz", noise),
        page_fault=around(1e-6, "s", noise),
        calls=made_costs(),
        recorder=around(1e-6, "s", noise),
        evidence={"read": {"vaddps zmm": 8}, "copy": {}},
        taken=Taken(when="2026-01-01T00:00:00+00:00", seconds=9.5, huge_page_policy="madvise", huge_page_bytes=2**28),
    )
