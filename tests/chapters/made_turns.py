"""Times that nobody took: of an instrument that samples in turns, and of messages whose truth is known."""

from collections.abc import Mapping

import numpy as np

from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.conditions import Conditions

#: Where samples lie between the median, 0, and the ends, ±1: in an order that neither drifts nor repeats itself.
PLACES = (0.0, 0.6, -0.4, 0.2, -1.0, 1.0, -0.2, 0.4, -0.8, 0.8, -0.6)


def made(value: float, unit: str = "", noise: float = 0.0) -> Measurement:
    """Return samples whose median is ``value`` and whose ends are the share ``noise`` of it away."""
    return Measurement("made", tuple(value * (1 + noise * place) for place in PLACES), unit)


def in_turns(
    values: Mapping[str, float], unit: str = "s", noise: Mapping[str, float] | None = None
) -> dict[str, Measurement]:
    """Return a result for each name, each beside all others, with the ``noise`` of those that have any.

    They keep their turns when they are scaled, as those of `interleave` do.
    """
    found = {}
    for name, value in values.items():
        others = tuple(other for other in values if other != name)
        conditions = Conditions(interleaved_with=others, turns=" ".join(values))
        found[name] = Measurement(name, made(value, unit, (noise or {}).get(name, 0.0)).samples, unit, conditions)
    return found


SIZES = [8 * 4**power for power in range(10)]
ALPHA, BETA = 2e-6, 1e-10


def made_times(
    noise: float, misfit: float = 0.0, *, rounds: int = 15, seed: int = 0, sizes: list[int] | None = None
) -> dict[int, Measurement]:
    """Return times on a line: samples scatter by ``noise``, and each size as a whole lies off by about ``misfit``."""
    draw = np.random.default_rng(seed)
    times = {}
    for size in sizes or SIZES:
        level = (ALPHA + BETA * size) * (1 + misfit * draw.normal())
        times[size] = Measurement(f"message of {size} B", tuple(level * (1 + noise * draw.normal(size=rounds))), "s")
    return times
