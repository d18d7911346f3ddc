"""Made numbers whose intervals are given, so that what is shown does not depend on how intervals are found."""

from tinytorch.perf.measuring.conditions import Conditions
from tinytorch.perf.measuring.measurement import Measurement
from tinytorch.perf.measuring.statistics import Stated


def bounded(
    value: float,
    low: float,
    high: float,
    unit: str = "",
    *,
    name: str = "a run",
    n: int = 6,
    conditions: Conditions | None = None,
) -> Measurement:
    """Return a median of ``n`` samples with the interval from ``low`` to ``high``."""
    told = (conditions or Conditions()).told_as("median")
    return Measurement(name, (value,) * n, unit, told, law=Stated(value, low, high))
