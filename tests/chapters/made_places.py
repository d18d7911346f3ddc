"""Runs that are placed under the roofs of the made machine: what they ask for, what they reach, what bounds them."""

from dataclasses import replace
from functools import cache

from tests.perf.made_ceilings import LEVELS, PEAK, spread
from tinytorch.perf.measuring.conditions import Conditions
from tinytorch.perf.roofline.bounds import (
    BOUNDS,
    Bottleneck,
    BoundVerdict,
    Demand,
    Prediction,
    Slope,
    share_of,
)
from tinytorch.perf.roofline.placement import Placed

_BANDWIDTHS = {name: bandwidth for name, _, bandwidth in LEVELS}


def candidates_of(bottleneck: Bottleneck) -> tuple[Bottleneck, ...]:
    """Return the candidates of a verdict; where it is open, all three."""
    return {Bottleneck.BELOW: (), Bottleneck.OPEN: BOUNDS}.get(bottleneck, (bottleneck,))


@cache  # each interval is then found once
def made_place(
    name: str,
    operations: int,
    traffic: int,
    of_roof: float,
    bottleneck: Bottleneck = Bottleneck.MEMORY,
    level: str = "memory",
    noise: float = 0.01,
) -> Placed:
    """Return a call on one thread that reached ``of_roof`` of its roof on the machine of `tests.perf.made_ceilings`."""
    arithmetic, moving = operations / PEAK, traffic / _BANDWIDTHS[level]
    roof = max(arithmetic, moving)
    seconds = replace(spread(roof / of_roof, "s", noise), conditions=Conditions(blas_threads=1))
    alone = (spread(part, "s") for part in (arithmetic, moving, 1e-6))
    compute, memory, overhead = (Prediction(part, share_of(part, seconds, "share")) for part in alone)
    demand = Demand(operations, 0, traffic, 1, traffic, ((traffic, 1),))
    verdict = BoundVerdict(candidates_of(bottleneck), compute, memory, overhead, of_roof)
    slope = Slope(level, level, spread(_BANDWIDTHS[level], "B/s"))
    return Placed(name, demand, seconds, spread(roof, "s"), slope, verdict)
