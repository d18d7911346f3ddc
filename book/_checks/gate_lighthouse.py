"""Gate: Lighthouse, with the settings of a phone, gives pages full marks, and counts nothing that makes them slow.

It looks at some pages of each kind: the frame is the same on all. What it scores as speed depends on the machine that
runs the gate and on what else runs there: where Lighthouse itself finds the machine too slow to judge by, the score is
only printed. Its causes are judged anywhere, as far as they count alike; bytes are the gate of weight's.
What else runs on a machine makes a page slower and never faster: a page whose score is too low is visited again, and
the best of five decides, as the least of several times does (`timeit`). One page, unchanged, was given 83 to 97.
"""

import json
import os
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from chromium import find_browser

SCRIPT = Path(__file__).with_name("lighthouse.mjs")
#: The categories that a page must have full marks in.
FULL = ("accessibility", "best-practices", "seo")
#: The most of each count that a page may have, with what it counts.
MOST = {
    "requests": (30, "requests of the first load"),
    "elements": (6000, "elements"),
    # What web.dev/cls calls good. On a busy machine a page may be seen before its scripts made forms of its questions.
    "shift": (0.1, "of the screen moved as the page loads"),
    "unused_styles": (10_000, "bytes of styles that the page does not use"),
    "unused_scripts": (10_000, "bytes of scripts that the page does not run"),
}
#: The least score for speed, of 100, and the host's benchmark below which Lighthouse warns that it cannot tell.
LEAST_SPEED, SLOW_HOST = 95, 1000
#: How often a page is visited in all before its speed counts as too low.
VISITS = 5
#: Pages of which there is one of a kind; of chapters the heaviest are looked at.
OF_A_KIND = ("index.html", "search.html", "claims.html", "your_machine.html", "glossary.html")
CHAPTERS = 2
#: How many reasons of a low score are told.
_REASONS = 4


@dataclass(frozen=True)
class Visit:
    """What one run of Lighthouse said of one page.

    Attributes:
        speed: its score for performance, of 100, on this machine at this moment.
        host: how fast Lighthouse found this machine.
        scores: those of `FULL`, of 100.
        reasons: why they are not higher.
        counts: those of `MOST`.
    """

    speed: int
    host: float
    scores: dict[str, int]
    reasons: dict[str, list[str]]
    counts: dict[str, float]


def _reason(audit: dict[str, Any]) -> str:
    where = f" at {', '.join(audit['where'])}" if audit["where"] else ""
    value = f" {audit['value']}" if audit["value"] else ""
    return f"{audit['id']}{value} ({audit['title']}{where})"


def read_visit(line: str) -> Visit:
    """Return the visit that a line of ``lighthouse.mjs`` tells; RuntimeError if Lighthouse saw no page or no count."""
    said = json.loads(line)
    if said["error"]:
        raise RuntimeError(f"Lighthouse cannot look at {said['address']}: {said['error']}")
    if missing := [name for name in MOST if not isinstance(said["counts"].get(name), (int, float))]:
        raise RuntimeError(f"Lighthouse says nothing of {', '.join(missing)} of {said['address']}")
    return Visit(
        round(100 * (said["speed"] or 0)),
        float(said["host"]),
        {name: round(100 * said["scores"][name]["score"]) for name in FULL},
        {name: [_reason(audit) for audit in said["scores"][name]["reasons"]] for name in FULL},
        {name: said["counts"][name] for name in MOST},
    )


def visit(addresses: Sequence[str], node: Path) -> list[Visit]:
    """Return what Lighthouse says of each address, in their order.

    Raises:
        FileNotFoundError: if there is no browser.
        RuntimeError: if Lighthouse does not run.
    """
    if not addresses:
        return []
    settings = {**os.environ, "CHROME_PATH": find_browser()}
    command = ["node", str(SCRIPT), str(node), *addresses]
    done = subprocess.run(command, capture_output=True, text=True, env=settings, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or len(lines) != len(addresses):
        raise RuntimeError(f"Lighthouse does not run: {(done.stderr or done.stdout).strip()[-800:]}")
    return [read_visit(line) for line in lines]


def is_slow(seen: Visit) -> bool:
    """Return whether a page's speed is too low, on a machine that is fast enough to tell."""
    return seen.speed < LEAST_SPEED and seen.host >= SLOW_HOST


def judge(seen: Visit) -> list[str]:
    """Return what is wrong with a page after a visit, a line for each; its speed only where it can be told."""
    low = [f"Lighthouse performance is {seen.speed}, at least {LEAST_SPEED} is right" for _ in range(is_slow(seen))]
    low += [
        f"Lighthouse {name} is {seen.scores[name]}, 100 is right: "
        f"{'; '.join(seen.reasons[name][:_REASONS]) or 'no audit says why'}"
        for name in FULL
        if seen.scores[name] < 100
    ]
    return low + [
        f"Lighthouse counts {seen.counts[name]:g} {what}, at most {most:g} are right"
        for name, (most, what) in MOST.items()
        if seen.counts[name] > most
    ]


def chosen(site: Path, pages: Sequence[str]) -> list[str]:
    """Return some of these pages of each kind, the heaviest chapters among them."""
    alone = [page for page in pages if page in OF_A_KIND]
    others = sorted(set(pages) - set(alone), key=lambda page: (-(site / page).stat().st_size, page))
    return [*alone, *others[:CHAPTERS]]


def check(
    base: str, pages: Sequence[str], node: Path, look: Callable[[Sequence[str], Path], list[Visit]] = visit
) -> dict[str, list[str]]:
    """Return what Lighthouse finds on each page that it finds anything on, and print how fast it took each to be.

    Args:
        base: where the site is served, without a final slash.
        pages: their addresses on it.
        node: folder that Lighthouse is installed in.
        look: how pages are visited.

    Raises:
        FileNotFoundError, RuntimeError: as `visit` does.
    """
    visits = dict(zip(pages, look([f"{base}/{page}" for page in pages], node), strict=True))
    slow = [page for page, seen in visits.items() if is_slow(seen)]
    again = [look([f"{base}/{page}" for page in slow], node) for _ in range((VISITS - 1) * bool(slow))]
    for place, page in enumerate(slow):
        every = [visits[page], *(round_[place] for round_ in again)]
        visits[page] = replace(
            visits[page], speed=max(seen.speed for seen in every), host=median(seen.host for seen in every)
        )
        print(f"  {page} again: {', '.join(str(seen.speed) for seen in every)}", flush=True)
    speeds = ", ".join(f"{page} {seen.speed}" for page, seen in sorted(visits.items(), key=lambda each: each[1].speed))
    hosts = [seen.host for seen in visits.values()]
    told = "" if min(hosts, default=0) >= SLOW_HOST else "; this machine is too slow just now to judge by it"
    print(f"  speed of 100: {speeds}{told}", flush=True)
    return {page: problems for page, seen in visits.items() if (problems := judge(seen))}
