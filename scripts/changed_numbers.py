"""List every number whose text changed from one built site to another, and whether the change is real.

python -m scripts.changed_numbers OLD NEW prints Markdown. Exit code 0 whatever changed, 2 if a folder is no site.

Two builds are two runs, and two runs of the same code differ by more than the interval of either: an interval tells
how sure a run is of itself. What two runs differ by is therefore estimated from the numbers of both builds: most of a
change leaves most of a book alone, and if it does not, the estimate is too large and tells less, never more. A
measured number has really changed if its two intervals, each widened by that, lie apart.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist, median

from scripts.site_records import Json, Place, Site, read_site, text_of
from tinytorch.report.records import ABSENT

REAL, NOISE, CANNOT_TELL = "real", "within noise", "cannot tell"
VERDICTS = (REAL, CANNOT_TELL, NOISE)
#: Units of what code counts, whatever the clock says.
_COUNTED = ("B", "FLOP", "MAC", "OP", "parameters", "operations", "ops")
#: Numbers that both builds measured, below which what two builds differ by is not estimated.
FEWEST = 20
#: The standard deviation of a normal distribution whose middle deviation is one.
_PER_MIDDLE = 1.4826
#: Wrong verdicts "real" that all numbers together may have by chance, if nothing changed.
_CHANCE = 0.05


@dataclass(frozen=True, slots=True)
class Change:
    """A number or word whose text changed, with the verdict and its reason."""

    place: Place
    old: str
    new: str
    verdict: str
    because: str


@dataclass(frozen=True, slots=True)
class BetweenBuilds:
    """What two builds of the same code would differ by: ``spread`` of the logs; None if that cannot be estimated.

    It was estimated from so many ``numbers``, as the standard deviation of a normal distribution.
    """

    spread: float | None
    numbers: int

    @property
    def reach(self) -> float | None:
        """The farthest that noise would carry one of all numbers, as a difference of logs."""
        if self.spread is None:
            return None
        return self.spread * NormalDist().inv_cdf(1 - _CHANCE / (2 * max(1, self.numbers)))


def _is_judged(number: Json) -> bool:
    """Return whether a number is measured, with an interval whose ends have logs."""
    interval = number.get("interval")
    return number["kind"] in ("measured", "modelled") and interval is not None and interval["low"] > 0


def between_builds(old: Site, new: Site) -> BetweenBuilds:
    """Return what two builds differ by where nothing changed, from all numbers that both measured.

    Their middle deviation is robust: half of the numbers may have changed, and it still is no smaller than the noise.
    """
    shared = [place for place in old.numbers if place in new.numbers]
    pairs = [(old.numbers[place], new.numbers[place]) for place in shared]
    logs = [abs(math.log(b["value"] / a["value"])) for a, b in pairs if _is_judged(a) and _is_judged(b)]
    if len(logs) < FEWEST:
        return BetweenBuilds(None, len(logs))
    return BetweenBuilds(_PER_MIDDLE * median(logs), len(logs))


def _judge_count(old: Json, new: Json) -> tuple[str, str]:
    """Return the verdict on a number without samples: one of these may come from a clock by way of arithmetic."""
    whole = all(float(number["value"]).is_integer() for number in (old, new))
    if whole and old["unit"] in _COUNTED:
        return REAL, "it is counted, and counts have no noise"
    return CANNOT_TELL, "it has no samples, and times may have gone into it or chosen it"


def _judge(old: Json, new: Json, noise: BetweenBuilds, floor: float, same_machine: bool) -> tuple[str, str]:
    """Return the verdict on a changed number and why; ``floor`` is the larger noise floor of both pages, a ratio."""
    if ABSENT in (old["kind"], new["kind"]):
        return CANNOT_TELL, "only one of the builds measured it"
    if old["kind"] != new["kind"] or old["unit"] != new["unit"]:
        return (
            REAL,
            f"it was {old['kind']} in {old['unit'] or 'ratios'}, it is {new['kind']} in {new['unit'] or 'ratios'}",
        )
    if old["kind"] in ("counted", "derived"):
        return _judge_count(old, new)
    if not same_machine:
        return CANNOT_TELL, "the builds ran on different machines or settings"
    if not (_is_judged(old) and _is_judged(new)):
        return CANNOT_TELL, "it has no interval above 0 in both builds"
    before, after = old["interval"], new["interval"]
    gap = max(math.log(after["low"] / before["high"]), math.log(before["low"] / after["high"]))
    if gap <= 0:
        return NOISE, "the intervals overlap"
    if noise.reach is None:
        return CANNOT_TELL, f"{noise.numbers} measured numbers are too few to know what two builds differ by"
    needed = max(noise.reach, math.log(floor))
    if gap <= needed:
        return (
            NOISE,
            f"the intervals are {math.expm1(gap):.1%} apart, two builds differ by up to {math.expm1(needed):.1%}",
        )
    return REAL, f"the intervals are {math.expm1(gap):.1%} apart, more than the {math.expm1(needed):.1%} of two builds"


def changes(old: Site, new: Site, noise: BetweenBuilds) -> list[Change]:
    """Return every number and word in both sites whose text changed: numbers by verdict, the real ones first."""
    found = []
    for place, before in old.numbers.items():
        after = new.numbers.get(place)
        if after is None or text_of(before) == text_of(after):
            continue
        floor = max(site.floors.get(place.page, 1.0) for site in (old, new))
        same = old.machines[place.page] == new.machines[place.page]
        found.append(Change(place, text_of(before), text_of(after), *_judge(before, after, noise, floor, same)))
    found.sort(key=lambda change: VERDICTS.index(change.verdict))
    for place, word in old.words.items():
        if place in new.words and new.words[place] != word:
            found.append(Change(place, word, new.words[place], "word", "code chose it from its numbers"))
    return found


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def _table(listed: Sequence[Change]) -> list[str]:
    lines = ["| Page | Number | Old | New | Why |", "|---|---|---|---|---|"]
    for change in listed:
        cells = (change.place.page, change.place.name, change.old, change.new, change.because)
        lines.append("| " + " | ".join(_escaped(cell) for cell in cells) + " |")
    return lines


def _section(title: str, listed: Sequence[Change], *, folded: bool) -> list[str]:
    if not listed:
        return []
    head = f"{title}: {len(listed)}"
    if folded:
        return ["", f"<details><summary>{head}</summary>", "", *_table(listed), "", "</details>"]
    return ["", f"### {head}", "", *_table(listed)]


def _names(places: Iterable[Place]) -> str:
    return ", ".join(f"{place.page}: {place.name}" for place in sorted(places, key=lambda p: (p.page, p.name)))


def _about_noise(old: Site, new: Site, noise: BetweenBuilds) -> list[str]:
    shared = old.machines.keys() & new.machines.keys()
    other = sorted(page for page in shared if old.machines[page] != new.machines[page])
    where = "Both builds ran on the same machine with the same settings."
    if other:
        where = (
            f"The builds ran on different machines or settings (pages: {', '.join(other)}), so times do not compare."
        )
    if noise.reach is None:
        return [where, f"Both measured {noise.numbers} numbers: too few to know what two builds differ by."]
    return [
        where,
        f"Two builds of the same code differ here by up to {math.expm1(noise.reach):.1%}, "
        f"as {noise.numbers} numbers that both measured show; each build ran once.",
    ]


def report(old: Site, new: Site) -> str:
    """Return what changed from ``old`` to ``new``, as Markdown."""
    noise = between_builds(old, new)
    found = changes(old, new, noise)
    by_verdict = {verdict: [change for change in found if change.verdict == verdict] for verdict in (*VERDICTS, "word")}
    total = sum(len(by_verdict[verdict]) for verdict in VERDICTS)
    lines = ["## Numbers that changed", "", *_about_noise(old, new, noise)]
    shared = len(old.numbers.keys() & new.numbers.keys())
    counts = ", ".join(f"{len(by_verdict[verdict])} {verdict}" for verdict in VERDICTS)
    lines += ["", f"Of {shared} numbers in both builds the text of {total} changed: {counts}."]
    lines += _section("Real", by_verdict[REAL], folded=False)
    lines += _section("Words and verdicts of claims that changed", by_verdict["word"], folded=False)
    lines += _section("Cannot tell", by_verdict[CANNOT_TELL], folded=True)
    lines += _section("Within noise", by_verdict[NOISE], folded=True)
    for title, places in (
        ("Only in the new build", new.numbers.keys() - old.numbers.keys()),
        ("Only in the old build", old.numbers.keys() - new.numbers.keys()),
    ):
        if places:
            lines += ["", f"{title}, {len(places)}: {_escaped(_names(places))}."]
    return "\n".join(lines) + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Print what changed between the two sites that the arguments name, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m scripts.changed_numbers", description=__doc__)
    parser.add_argument("old", type=Path, help="folder of the older site, such as base/_build/html")
    parser.add_argument("new", type=Path, help="folder of the newer site")
    chosen = parser.parse_args(arguments)
    try:
        sys.stdout.write(report(read_site(chosen.old), read_site(chosen.new)))
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
