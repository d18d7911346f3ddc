"""Words that a page chooses from measurements: the judge decides, and where it cannot tell the page says so."""

from __future__ import annotations

from collections.abc import Mapping

from tinytorch.perf.measuring import Measurement, difference
from tinytorch.perf.measuring.judge import CANNOT_TELL, SUPPORTED, verdict_between

#: Ends of a measurement for which a word stands; None leaves a side open.
Ends = tuple[float | None, float | None]


def word_between(measurement: Measurement, words: Mapping[str, Ends], *, together: int = 1) -> str:
    """Return the word between whose ends ``measurement`` is proven to lie, ends excluded; else `CANNOT_TELL`.

    Args:
        measurement: what was measured.
        words: each with its ends, which do not overlap.
        together: see `verdict_between`.
    """
    for word, (low, high) in words.items():
        if verdict_between(measurement, low, high, strict=True, together=together) == SUPPORTED:
            return word
    return CANNOT_TELL


def largest(found: Mapping[str, Measurement]) -> str:
    """Return the name of the measurement that is proven larger than each other; `CANNOT_TELL` if none is.

    Args:
        found: by name, all taken in turns.

    Raises:
        ValueError: if there are fewer than two, or two of them were not taken in turns.
    """
    if len(found) < 2:
        raise ValueError(f"found must hold at least two measurements to compare, not {len(found)}")
    name = max(found, key=lambda name: found[name].median)
    leads = [difference(found[name], other, f"lead of {name}") for key, other in found.items() if key != name]
    proven = {verdict_between(lead, low=0.0, strict=True, together=len(leads)) for lead in leads}
    return name if proven == {SUPPORTED} else CANNOT_TELL
