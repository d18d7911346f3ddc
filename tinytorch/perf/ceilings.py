"""What bounds a run: ceilings of this machine measured here and now, and the verdict from them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np

from tinytorch.core import ops
from tinytorch.core.dispatch import apply, no_grad
from tinytorch.core.tensor import Tensor
from tinytorch.perf.timing import Measurement, current_blas_threads, measure

Bottleneck = Literal["compute", "memory", "overhead", "unclear"]

#: Side of the float32 matrices whose product gives the peak: 12 MiB in all, and 2 GFLOP.
_SIDE = 1024
#: Bytes that are copied for the bandwidth: 32 MiB read and as many written, beyond most caches.
_COPIED = 32 * 2**20


@dataclass(frozen=True, slots=True)
class Ceilings:
    """What this process reached: ``flops`` in FLOP/s, ``bandwidth`` in B/s, ``op`` in s for the cheapest op."""

    flops: Measurement
    bandwidth: Measurement
    op: Measurement


@dataclass(frozen=True, slots=True)
class Verdict:
    """Which ceiling bounds a run, from the time that each alone would take.

    Attributes:
        bottleneck: the ceiling with the longest time, or "unclear" if the ranges of the two longest overlap.
        compute_seconds: FLOPs over the best rate; memory_seconds: compulsory bytes over the best bandwidth;
            overhead_seconds: number of ops times the cheapest op at its best. Predictions, not measurements.
        efficiency: FLOPs a second that the run reached, over the best rate of the matrix product.
        explained: the longest of the three times over the measured one. Far below 1 none of them explains it.
    """

    bottleneck: Bottleneck
    compute_seconds: float
    memory_seconds: float
    overhead_seconds: float
    efficiency: float
    explained: float


def ceilings() -> Ceilings:
    """Return the ceilings for the BLAS threads in use now, measured once in this process and kept."""
    return _measured(current_blas_threads())


@cache
def _measured(threads: int) -> Ceilings:
    generator = np.random.default_rng(0)
    a, b = (generator.random((_SIDE, _SIDE), dtype=np.float32) for _ in range(2))
    product = np.empty_like(a)
    source, target = np.ones(_COPIED, np.uint8), np.ones(_COPIED, np.uint8)
    one = Tensor(np.ones(1, np.float32))
    multiplied = measure(
        lambda: np.matmul(a, b, out=product), "float32 matrix product", repeats=15, at_most_seconds=2.0
    )
    copied = measure(lambda: np.copyto(target, source), "copy of 32 MiB", repeats=15, at_most_seconds=2.0)
    with no_grad():
        op = measure(lambda: apply(ops.add, one, one), "add of one element", repeats=15, at_most_seconds=1.0)
    return Ceilings(
        multiplied.per(
            2 * _SIDE**3, "FLOP/s", f"peak of a {_SIDE} × {_SIDE} float32 matrix product, {threads} threads"
        ),
        copied.per(2 * _COPIED, "B/s", "bandwidth of a copy of 32 MiB, read and written"),
        op,
    )


def verdict(flops: int, traffic: int, calls: int, seconds: float, measured: Ceilings) -> Verdict:
    """Return what bounds a run of ``flops``, ``traffic`` bytes and ``calls`` ops that took ``seconds``.

    Raises:
        ValueError: if ``seconds`` is not above 0.
    """
    if not seconds > 0:
        raise ValueError(f"seconds must be above 0, not {seconds}")
    compute, memory, overhead = measured.flops, measured.bandwidth, measured.op
    # A ceiling is the best that was reached; the interval's other end says how sure that is.
    ranges: dict[Bottleneck, tuple[float, float]] = {
        "compute": (flops / compute.maximum, flops / compute.interval.low),
        "memory": (traffic / memory.maximum, traffic / memory.interval.low),
        "overhead": (calls * overhead.minimum, calls * overhead.interval.high),
    }
    names = sorted(ranges, key=lambda name: ranges[name][0], reverse=True)
    longest, second = ranges[names[0]], ranges[names[1]]
    return Verdict(
        names[0] if longest[0] > second[1] else "unclear",
        ranges["compute"][0],
        ranges["memory"][0],
        ranges["overhead"][0],
        flops / seconds / compute.maximum,
        longest[0] / seconds,
    )
