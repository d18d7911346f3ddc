"""Numbers of several builds: how far their intervals agree, and which changed from one build to another.

Of true 95 % intervals of normal estimates 83 % hold the other build's median and 99 % touch: the difference of two
estimates has the root of two times the spread of each.

Two builds are two runs, and two runs of the same code differ by more than the interval of either: an interval tells
how sure a run is of itself. What two runs differ by is therefore estimated from the numbers of both builds: most of a
change leaves most of a book alone, and if it does not, the estimate is too large and tells less, never more. A
measured number has really changed if its two intervals, each widened by that, lie apart.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import combinations
from statistics import NormalDist, median
from typing import Any

from scripts.site_records import Json, Place, Site, text_of
from tinytorch.report.records import ABSENT

#: What true 95 % intervals of normal estimates reach: the share that hold the other's median, and that touch.
IDEAL_HOLDS, IDEAL_TOUCHES = 0.834, 0.994
REAL, CANNOT_TELL, NOISE, WORD = "real", "cannot tell", "within noise", "word"
#: What may be said of a change, the most important first.
VERDICTS = (REAL, WORD, CANNOT_TELL, NOISE)
#: Units of what code counts, whatever the clock says.
_COUNTED = ("B", "FLOP", "MAC", "OP", "parameters", "operations", "ops")
#: Numbers that both builds measured, below which what two builds differ by is not estimated.
FEWEST = 20
#: The standard deviation of a normal distribution whose middle deviation is one.
_PER_MIDDLE = 1.4826
#: Wrong verdicts "real" that all numbers together may have by chance, if nothing changed.
_CHANCE = 0.05


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


def compared(sites: Sequence[Site]) -> dict[Place, list[Json]]:
    """Return the numbers that a clock gave every site with an interval that has a width, by place."""
    found = {}
    for place in sites[0].numbers:
        numbers = [site.numbers.get(place, {}) for site in sites]
        if all(n.get("kind") == "measured" and n.get("interval") and _width(n) > 0 for n in numbers):
            found[place] = numbers
    return found


def _width(number: Json) -> float:
    return float(number["interval"]["high"] - number["interval"]["low"])


def agreement(numbers: Mapping[Place, Sequence[Json]]) -> Agreement:
    """Return how far the builds agree on ``numbers``, each with one body a build.

    Raises:
        ValueError: if there is no number, or only one build.
    """
    pairs = [pair for bodies in numbers.values() for pair in combinations(bodies, 2)]
    if not pairs:
        raise ValueError("sites must be at least two and share measured numbers")
    ways = [way for pair in pairs for way in (pair, pair[::-1])]
    holds = [a["interval"]["low"] <= b["value"] <= a["interval"]["high"] for a, b in ways]
    touches = [all(a["interval"]["low"] <= b["interval"]["high"] for a, b in (pair, pair[::-1])) for pair in pairs]
    bodies = [body for each in numbers.values() for body in each]
    widths = [_width(body) / abs(body["value"]) if body["value"] else 0.0 for body in bodies]
    share, common = sum(holds) / len(holds), sum(touches) / len(touches)
    return Agreement(len(numbers), len(pairs) // len(numbers), share, common, median(widths))


def by_page(numbers: Mapping[Place, Sequence[Json]]) -> dict[str, Agreement]:
    """Return the agreement of each page's numbers."""
    pages: dict[str, dict[Place, Sequence[Json]]] = defaultdict(dict)
    for place, bodies in numbers.items():
        pages[place.page][place] = bodies
    return {page: agreement(found) for page, found in sorted(pages.items())}


def agreement_lines(numbers: Mapping[Place, Sequence[Json]]) -> list[str]:
    """Return the agreement in words, the whole first, then by page."""
    whole = agreement(numbers)
    return [
        f"Intervals of {whole.pairs} pairs of builds: how many hold the other's median (ideal {IDEAL_HOLDS:.0%}), "
        f"how many touch (ideal {IDEAL_TOUCHES:.0%}), and their median width over the value.",
        f"{'':>14}  {'number':>6}  {'holds':>6}  {'touches':>7}  {'width':>6}",
        *(
            f"{name:>14}  {one.numbers:>6,}  {one.holds:>6.1%}  {one.touches:>7.1%}  {one.width:>6.1%}"
            for name, one in {"all pages": whole, **by_page(numbers)}.items()
        ),
    ]


def agreement_document(sites: Sequence[Site], numbers: Mapping[Place, Sequence[Json]]) -> dict[str, Any]:
    """Return the agreement as the file in ``measurements/`` has it, with machine, package and date of the builds."""
    return {
        "schema": "tinytorch-agreement",
        "schema_version": 1,
        "when": datetime.now(UTC).date().isoformat(),
        "machine": sites[0].machines["machine"],
        "package": sites[0].packages["machine"],
        "builds": len(sites),
        "all": asdict(agreement(numbers)),
        "pages": {page: asdict(one) for page, one in by_page(numbers).items()},
    }


@dataclass(frozen=True, slots=True)
class Change:
    """A number or word whose text changed, with the verdict and its reason."""

    place: Place
    old: str
    new: str
    verdict: str
    because: str


def _is_judged(number: Json) -> bool:
    """Return whether a number is measured, with an interval whose ends have logs."""
    interval = number.get("interval")
    return number["kind"] in ("measured", "modelled") and interval is not None and interval["low"] > 0


def noise_of(old: Site, new: Site) -> tuple[int, float | None]:
    """Return how many numbers both builds measured, and the farthest that noise would carry one of them.

    The latter is a difference of logs, or None if they are too few. Their middle deviation is robust: half of the
    numbers may have changed, and it still is no smaller than the noise.
    """
    pairs = [(before, new.numbers[place]) for place, before in old.numbers.items() if place in new.numbers]
    logs = [abs(math.log(b["value"] / a["value"])) for a, b in pairs if _is_judged(a) and _is_judged(b)]
    if len(logs) < FEWEST:
        return len(logs), None
    return len(logs), _PER_MIDDLE * median(logs) * NormalDist().inv_cdf(1 - _CHANCE / (2 * len(logs)))


def _judge(old: Json, new: Json, noise: float | None, same_machine: bool) -> tuple[str, str]:
    """Return the verdict on a changed number and why."""
    if ABSENT in (old["kind"], new["kind"]):
        return CANNOT_TELL, "only one of the builds measured it"
    was, now = (f"{number['kind']} in {number['unit'] or 'ratios'}" for number in (old, new))
    if was != now:
        return REAL, f"it was {was}, it is {now}"
    if old["kind"] in ("counted", "derived"):
        if old["unit"] in _COUNTED and all(float(number["value"]).is_integer() for number in (old, new)):
            return REAL, "it is counted, and counts have no noise"
        return CANNOT_TELL, "it has no samples, and times may have gone into it or chosen it"
    if not same_machine:
        return CANNOT_TELL, "the builds ran on different machines or settings"
    if not (_is_judged(old) and _is_judged(new)):
        return CANNOT_TELL, "it has no interval above 0 in both builds"
    before, after = old["interval"], new["interval"]
    gap = max(math.log(after["low"] / before["high"]), math.log(before["low"] / after["high"]))
    if gap <= 0:
        return NOISE, "the intervals overlap"
    if noise is None:
        return CANNOT_TELL, "measured numbers are too few to know what two builds differ by"
    why = f"the intervals are {math.expm1(gap):.1%} apart, two builds differ by up to {math.expm1(noise):.1%}"
    return (REAL if gap > noise else NOISE), why


def changes(old: Site, new: Site) -> list[Change]:
    """Return every number and word in both sites whose text changed, by verdict."""
    _, noise = noise_of(old, new)
    found = []
    for place, before in old.numbers.items():
        after = new.numbers.get(place)
        if after is None or text_of(before) == text_of(after):
            continue
        same = old.machines[place.page] == new.machines[place.page]
        found.append(Change(place, text_of(before), text_of(after), *_judge(before, after, noise, same)))
    for place, word in old.words.items():
        if new.words.get(place, word) != word:
            found.append(Change(place, word, new.words[place], WORD, "code chose it from its numbers"))
    return sorted(found, key=lambda change: VERDICTS.index(change.verdict))


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def _only(where: str, places: Iterable[Place]) -> list[str]:
    names = sorted(f"{place.page}: {place.name}" for place in places)
    return ["", f"Only in the {where} build, {len(names)}: {_escaped(', '.join(names))}."] if names else []


def changes_report(old: Site, new: Site) -> str:
    """Return what changed from ``old`` to ``new``, as Markdown: what is real, then, folded, the rest."""
    found, (measured, noise) = changes(old, new), noise_of(old, new)
    pages = sorted(page for page in old.machines.keys() & new.machines if old.machines[page] != new.machines[page])
    reach = (
        "too few to know what builds differ by" if noise is None else f"two builds differ by {math.expm1(noise):.1%}"
    )
    lines = [
        "## Numbers that changed",
        "",
        f"Both builds measured {measured} numbers: {reach}. "
        + (
            f"Other machines or settings: {', '.join(pages)}." if pages else "Both ran on one machine with one setting."
        ),
    ]
    for verdict in VERDICTS:
        rows = [
            "| " + " | ".join(map(_escaped, (one.place.page, one.place.name, one.old, one.new, one.because))) + " |"
            for one in found
            if one.verdict == verdict
        ]
        table = ["", "| Page | Number | Old | New | Why |", "|---|---|---|---|---|", *rows]
        folded = ["", "<details><summary>Show them</summary>", *table, "", "</details>"]
        lines += ["", f"### {verdict.capitalize()}: {len(rows)}"]
        lines += [] if not rows else table if verdict in (REAL, WORD) else folded
    lines += _only("new", new.numbers.keys() - old.numbers.keys())
    lines += _only("old", old.numbers.keys() - new.numbers.keys())
    return "\n".join(lines) + "\n"
