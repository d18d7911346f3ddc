"""Agreement of builds: how often the same number's intervals of two builds agree, pooled over all pairs of builds.

Of true 95 % intervals of normal estimates 83 % hold the other build's median and 99 % touch: the difference of two
estimates has the root of two times the spread of each.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import combinations
from statistics import median
from typing import Any

from scripts.site_records import Json, Place, Site

#: What true 95 % intervals of normal estimates reach: the share that hold the other's median, and that touch.
IDEAL_HOLDS, IDEAL_TOUCHES = 0.834, 0.994


@dataclass(frozen=True, slots=True)
class Agreement:
    """Agreement of the numbers that all of several builds measured.

    Attributes:
        numbers: how many are compared.
        pairs: of builds.
        holds: share of (number, pair, direction) where one build's interval holds the other's median, 0 to 1.
        touches: share of (number, pair) whose intervals have a point in common.
        width: median over numbers and builds of the interval's width over the size of the value.
    """

    numbers: int
    pairs: int
    holds: float
    touches: float
    width: float


def is_compared(number: Json) -> bool:
    """Return whether a number came out of a clock with an interval that has a width."""
    interval = number.get("interval")
    return number["kind"] == "measured" and interval is not None and interval["high"] > interval["low"]


def compared(sites: Sequence[Site]) -> dict[Place, list[Json]]:
    """Return the numbers that every site measured, by place."""
    found = {}
    for place in sites[0].numbers:
        numbers = [site.numbers.get(place) for site in sites]
        if all(number is not None and is_compared(number) for number in numbers):
            found[place] = [number for number in numbers if number is not None]
    return found


def holds(one: Json, other: Json) -> bool:
    """Return whether the interval of ``one`` holds the median of ``other``."""
    return bool(one["interval"]["low"] <= other["value"] <= one["interval"]["high"])


def touches(one: Json, other: Json) -> bool:
    """Return whether the two intervals have a point in common."""
    a, b = one["interval"], other["interval"]
    return bool(a["low"] <= b["high"] and b["low"] <= a["high"])


def relative_width(number: Json) -> float:
    """Return the width of the interval over the size of the value; 0 for a value of 0."""
    interval = number["interval"]
    return float((interval["high"] - interval["low"]) / abs(number["value"])) if number["value"] else 0.0


def agreement(numbers: Mapping[Place, Sequence[Json]]) -> Agreement:
    """Return how far the builds agree on ``numbers``, each with one body a build.

    Raises:
        ValueError: if there is no number, or only one build.
    """
    if not numbers:
        raise ValueError("sites must share measured numbers, but no place has one in all of them")
    held: list[bool] = []
    touched: list[bool] = []
    for bodies in numbers.values():
        for one, other in combinations(bodies, 2):
            held += [holds(one, other), holds(other, one)]
            touched.append(touches(one, other))
    if not touched:
        raise ValueError("sites must be at least two")
    widths = [relative_width(body) for bodies in numbers.values() for body in bodies]
    return Agreement(
        len(numbers), len(touched) // len(numbers), sum(held) / len(held), sum(touched) / len(touched), median(widths)
    )


def by_page(numbers: Mapping[Place, Sequence[Json]]) -> dict[str, Agreement]:
    """Return the agreement of each page's numbers."""
    pages: dict[str, dict[Place, Sequence[Json]]] = defaultdict(dict)
    for place, bodies in numbers.items():
        pages[place.page][place] = bodies
    return {page: agreement(found) for page, found in pages.items()}


def agreement_lines(numbers: Mapping[Place, Sequence[Json]]) -> list[str]:
    """Return the agreement in words, the whole first, then by page."""

    def words(name: str, one: Agreement) -> str:
        return f"{name:>14}  {one.numbers:>6,}  {one.holds:>6.1%}  {one.touches:>7.1%}  {one.width:>6.1%}"

    whole = agreement(numbers)
    head = f"{'':>14}  {'number':>6}  {'holds':>6}  {'touches':>7}  {'width':>6}"
    return [
        f"Intervals of {whole.pairs} pairs of builds: how many hold the other's median (ideal {IDEAL_HOLDS:.0%}), "
        f"how many touch (ideal {IDEAL_TOUCHES:.0%}), and their median width over the value.",
        head,
        words("all pages", whole),
        *(words(page, one) for page, one in sorted(by_page(numbers).items())),
    ]


def agreement_document(sites: Sequence[Site], numbers: Mapping[Place, Sequence[Json]]) -> dict[str, Any]:
    """Return the agreement as the file in ``measurements/`` has it, with machine, package and date of the builds."""
    pages = {page: asdict(one) for page, one in by_page(numbers).items()}
    return {
        "schema": "tinytorch-agreement",
        "schema_version": 1,
        "when": datetime.now(UTC).date().isoformat(),
        "machine": sites[0].machines["machine"],
        "package": sites[0].packages["machine"],
        "builds": len(sites),
        "all": asdict(agreement(numbers)),
        "pages": pages,
    }
