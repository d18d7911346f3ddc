"""Times that nobody took: results as an instrument that samples in turns returns them."""

from collections.abc import Mapping

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
