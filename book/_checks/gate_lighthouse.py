"""Gate: Lighthouse, with the settings of a phone, gives pages full marks, and counts nothing that makes them slow.

It looks at some pages of each kind: the frame is the same on all. What it scores as speed depends on the machine that
runs the gate and on what else runs there: where Lighthouse itself finds the machine too slow to judge by, the score is
only printed. Its causes are judged anywhere, as far as they count alike; bytes are the gate of weight's.
What else runs on a machine makes a page slower and never faster: a page whose score is too low is visited again, and
the best of five decides, as the least of several times does (`timeit`), of those at which the machine could tell. One
page, unchanged, was given 83 to 97.
"""

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from chromium import find_browser

#: The categories that a page must have full marks in.
FULL = ("accessibility", "best-practices", "seo")
#: The most of each count that a page may have, by Lighthouse's name of it, with what it counts.
MOST = {
    "network-requests": (30, "requests of the first load"),
    "dom-size": (6000, "elements"),
    # What web.dev/cls calls good. On a busy machine a page may be seen before its scripts made forms of its questions.
    "cumulative-layout-shift": (0.1, "of the screen moved as the page loads"),
    "unused-css-rules": (10_000, "bytes of styles that the page does not use"),
    "unused-javascript": (10_000, "bytes of scripts that the page does not run"),
}
#: The least score for speed, of 100, and the host's benchmark below which Lighthouse warns that it cannot tell.
LEAST_SPEED, SLOW_HOST = 95, 1000
#: The benchmark from which on a host stands for a phone by being four times as slow, below it by twice, as Lighthouse's
#: docs/throttling.md has it.
UPPER_CLASS = 1500
#: How often a page is visited in all before its speed counts as too low.
VISITS = 5
#: Pages of which there is one of a kind; of chapters the heaviest are looked at.
OF_A_KIND = ("index.html", "search.html", "claims.html", "your_machine.html", "glossary.html")
CHAPTERS = 2
#: How many reasons of a low score are told.
_REASONS = 4
#: A phone on a slow network, both simulated. What hangs is ended late: no page is wrong because this machine is busy.
_FLAGS = (
    *("--quiet", "--output=json", "--disable-full-page-screenshot"),
    *(f"--only-categories=performance,{','.join(FULL)}", "--max-wait-for-fcp=300000", "--max-wait-for-load=600000"),
    "--chrome-flags=--headless=new --no-sandbox --disable-gpu --disable-background-networking --disable-dev-shm-usage",
)
#: What Lighthouse says of one page, as its documentation has it: docs/understanding-results.md.
Result = dict[str, Any]


def visit(address: str, node: Path, slowdown: int = 4) -> Result:
    """Return what Lighthouse says of a page, on a phone that is so many times as slow as this machine.

    Raises:
        FileNotFoundError: if there is no browser.
        RuntimeError: if Lighthouse does not run, or saw no page.
    """
    command = [str(node / "node_modules/.bin/lighthouse"), address, *_FLAGS]
    command.append(f"--throttling.cpuSlowdownMultiplier={slowdown}")
    settings = {**os.environ, "CHROME_PATH": find_browser()}
    done = subprocess.run(command, capture_output=True, text=True, env=settings, check=False)
    if not done.stdout.startswith("{"):
        raise RuntimeError(f"Lighthouse does not run: {(done.stderr or done.stdout).strip()[-800:]}")
    result: Result = json.loads(done.stdout)
    if error := result.get("runtimeError"):
        raise RuntimeError(f"Lighthouse cannot look at {address}: {error['message']}")
    return result


def _said(result: Result, *names: str) -> Any:
    """Return what Lighthouse says under these names, one in the other; raise RuntimeError if it says nothing there."""
    found: Any = result
    for name in names:
        if name not in found:
            raise RuntimeError(f"Lighthouse says nothing of {'.'.join(names)}")
        found = found[name]
    return found


def speed_of(result: Result) -> int:
    """Return the score for speed, of 100, on this machine at this moment."""
    return round(100 * (result["categories"]["performance"]["score"] or 0))


def host_of(result: Result) -> float:
    """Return how fast Lighthouse found this machine."""
    return float(_said(result, "environment", "benchmarkIndex"))


def is_slow(result: Result) -> bool:
    """Return whether a page's speed is too low, on a machine that is fast enough to tell."""
    return speed_of(result) < LEAST_SPEED and host_of(result) >= SLOW_HOST


def _count(result: Result, name: str) -> float:
    audit = _said(result, "audits", name)
    if "numericValue" in audit and not name.startswith("unused"):
        return float(audit["numericValue"])
    items = _said(result, "audits", name, "details", "items")
    return sum(item["wastedBytes"] for item in items) if name.startswith("unused") else len(items)


def _reasons(result: Result, category: str) -> Iterator[str]:
    """Yield what kept a category from its full score, the weightiest first."""
    for ref in sorted(result["categories"][category]["auditRefs"], key=lambda ref: -float(ref["weight"])):
        audit = result["audits"][ref["id"]]
        if ref["weight"] > 0 and audit["score"] is not None and audit["score"] < 1:
            items = audit.get("details", {}).get("items", [])[:3]
            where = [item.get("node", {}).get("selector") or item.get("url") or "" for item in items]
            yield f"{ref['id']} ({' '.join(filter(None, (audit['title'], ', '.join(filter(None, where)))))})"


def judge(result: Result) -> list[str]:
    """Return what is wrong with a page after a visit, a line for each; its speed only where it can be told."""
    found = [f"Lighthouse performance is {speed_of(result)}, at least {LEAST_SPEED} is right"] * is_slow(result)
    for name in FULL:
        score = round(100 * result["categories"][name]["score"])
        if score < 100:
            reasons = "; ".join([*_reasons(result, name)][:_REASONS]) or "no audit says why"
            found.append(f"Lighthouse {name} is {score}, 100 is right: {reasons}")
    for name, (most, what) in MOST.items():
        if (count := _count(result, name)) > most:
            found.append(f"Lighthouse counts {count:g} {what}, at most {most:g} are right")
    return found


def chosen(site: Path, pages: Sequence[str]) -> list[str]:
    """Return some of these pages of each kind, the heaviest chapters among them."""
    alone = [page for page in pages if page in OF_A_KIND]
    others = sorted(set(pages) - set(alone), key=lambda page: (-(site / page).stat().st_size, page))
    return [*alone, *others[:CHAPTERS]]


def check(base: str, pages: Sequence[str], node: Path) -> dict[str, list[str]]:
    """Return what Lighthouse finds on each page that it finds anything on, and print how fast it took each to be.

    Args:
        base: where the site is served, without a final slash.
        pages: their addresses on it.
        node: folder that Lighthouse is installed in.

    Raises:
        FileNotFoundError, RuntimeError: as `visit` does, the latter also if Lighthouse says nothing of what is judged.
    """
    found, slowdown = {}, 4
    for page in pages:
        result = visit(f"{base}/{page}", node, slowdown)
        if slowdown != (fitting := 4 if host_of(result) >= UPPER_CLASS else 2):
            slowdown = fitting
            result = visit(f"{base}/{page}", node, slowdown)
        visits = [result]
        while is_slow(result) and len(visits) < VISITS:
            visits.append(visit(f"{base}/{page}", node, slowdown))
            result = max((each for each in visits if host_of(each) >= SLOW_HOST), key=speed_of)
        told = "" if host_of(result) >= SLOW_HOST else ", which this machine is too slow just now to judge by"
        print(f"  {page}: speed of 100: {', '.join(str(speed_of(each)) for each in visits)}{told}", flush=True)
        found[page] = judge(result)
    return {page: problems for page, problems in found.items() if problems}
