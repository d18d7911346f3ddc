"""Times that nobody took: results as an instrument that samples in turns returns them, and what a page says of them."""

from __future__ import annotations

from collections.abc import Mapping

from tinytorch.perf.measuring import Measurement
from tinytorch.report import Page
from tinytorch.report.records import Json

#: As many samples as the interval of a median needs, and some more.
SAMPLES = 9


def made(value: float, unit: str = "", noise: float = 0.0) -> Measurement:
    """Return samples whose median is ``value`` and whose ends are the share ``noise`` of it away."""
    middle = SAMPLES // 2
    samples = tuple(value * (1 + noise * (k - middle) / middle) for k in range(SAMPLES))
    return Measurement("made", samples, unit)


def in_turns(
    values: Mapping[str, float], unit: str = "s", noise: Mapping[str, float] | None = None
) -> dict[str, Measurement]:
    """Return a result for each name, each beside all others, with the ``noise`` of those that have any."""
    found = {}
    for name, value in values.items():
        how = {"interleaved_with": [other for other in values if other != name]}
        found[name] = Measurement(name, made(value, unit, (noise or {}).get(name, 0.0)).samples, unit, how)
    return found


def records(page: Page) -> dict[str, Json]:
    """Return what the page recorded by key."""
    return {record.key: record.to_json() for record in page.records}
