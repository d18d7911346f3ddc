"""Ceilings of machines that are not there: round numbers known by hand, and ladders with steps at chosen sizes."""

import dataclasses
from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np

from tinytorch.core.tensor import Tensor
from tinytorch.perf.events.stream import recording
from tinytorch.perf.host.blas import thread_limit
from tinytorch.perf.machine import Ceilings
from tinytorch.perf.machine.bandwidth_sweep import working_sets
from tinytorch.perf.machine.call_costs import CallCosts, call_key
from tinytorch.perf.machine.levels import CURVES, Curve, Level, Point, Taken, find_levels
from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.conditions import Conditions
from tinytorch.perf.measuring.statistics import Stated
from tinytorch.perf.roofline.placement import Placed, place

PEAK = 100e9
#: Name, capacity and best bandwidth of each level.
LEVELS = (("L1", 32 * 1024, 400e9), ("L2", 1024 * 1024, 100e9), ("memory", None, 10e9))
OP, KERNEL = 1e-6, 0.5e-6


def spread(value: float, unit: str, noise: float = 0.0) -> Measurement:
    """Return seven samples in no order whose ends, and those of the interval, are ``noise`` of ``value`` from it."""
    samples = tuple(value * (1 + noise * k / 3) for k in (-3, -2, 3, -1, 1, 0, 2))
    return Measurement("made", samples, unit, law=Stated(value, value * (1 - noise), value * (1 + noise)))


def made_ceilings(
    noise: float = 0.0,
    threads: int | None = None,
    peak: float = PEAK,
    scale: float = 1.0,
    levels: Sequence[tuple[str, int | None, float]] = LEVELS,
) -> Ceilings:
    """Return ceilings for ``threads`` (those of this process if None); ``scale`` multiplies all bandwidths."""

    def level(name: str, capacity: int | None, bandwidth: float) -> Level:
        slope = bandwidth * scale
        read, copy, triad = (spread(slope * share, "B/s", noise) for share in (0.9, 1.0, 0.7))
        return Level(name, capacity, capacity, read, copy, triad, spread(1e-8, "s", noise))

    rate = spread(peak, "FLOP/s", noise)
    return Ceilings(
        threads=thread_limit() if threads is None else threads,
        fp32_peak=rate,
        fp32_from="compiled multiply-add",
        multiply_add=((16, rate),),
        sgemm=rate,
        int8_peak=spread(peak, "OP/s", noise),
        int8_from="an instruction",
        levels=tuple(level(*one) for one in levels),
        curves={},
        clock=spread(3e9, "Hz", noise),
        page_fault=spread(1e-7, "s", noise),
        calls=made_costs(),
        recorder=spread(1e-6, "s", noise),
        evidence={},
        taken=Taken(when="2026-01-01T00:00:00+00:00", seconds=9.5, huge_page_policy=None, huge_page_bytes=None),
    )


def made_costs(noise: float = 0.0) -> CallCosts:
    """Return what a call of any op costs on that machine."""
    key = call_key("any", "numpy", "forward", 1)
    return CallCosts({key: spread(OP, "s", noise)}, {key: spread(KERNEL, "s", noise)})


def placed(name: str, rows: int, of_roof: float, noise: float = 0.05) -> Placed:
    """Return a product of ``rows`` rows on one thread that reaches ``of_roof`` of its roof on that machine."""
    x, weight = Tensor(np.ones((rows, 64), np.float32)), Tensor(np.ones((64, 64), np.float32))
    with recording() as recorded:
        x @ weight
    conditions = Conditions(blas_threads=1)

    def at(seconds: float) -> Placed:
        time = dataclasses.replace(spread(seconds, "s", noise), conditions=conditions)
        return place(name, recorded.profile.events, time, made_ceilings(threads=1))

    return at(at(1.0).roof.median / of_roof)


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
