"""Gate: Lighthouse, with the settings of a phone, gives every page full marks, and its speed nearly so.

Speed is measured on the machine that runs the gate, so a low score is taken again, and the median counts.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from chromium import find_browser

SCRIPT = Path(__file__).with_name("lighthouse.mjs")
#: The least score of each category, of 100.
LEAST = {"performance": 95, "accessibility": 100, "best-practices": 100, "seo": 100}
#: How often speed is measured before it counts as too low.
TIMES = 3
#: How many reasons of a low score are told.
_REASONS = 4


@dataclass(frozen=True)
class Visit:
    """What one run of Lighthouse said of one page: scores of 100, and why they are not higher."""

    scores: dict[str, int]
    reasons: dict[str, list[str]]


def _reason(audit: dict[str, Any]) -> str:
    where = f" at {', '.join(audit['where'])}" if audit["where"] else ""
    value = f" {audit['value']}" if audit["value"] else ""
    return f"{audit['id']}{value} ({audit['title']}{where})"


def read_visit(line: str) -> Visit:
    """Return the visit that a line of ``lighthouse.mjs`` tells; RuntimeError if Lighthouse saw no page."""
    said = json.loads(line)
    if said["error"]:
        raise RuntimeError(f"Lighthouse cannot look at {said['address']}: {said['error']}")
    return Visit(
        {name: round(100 * category["score"]) for name, category in said["scores"].items()},
        {name: [_reason(audit) for audit in category["reasons"]] for name, category in said["scores"].items()},
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


def judge(visits: Sequence[Visit]) -> list[str]:
    """Return what is too low after these visits of one page, the latest last; speed counts with its median."""
    last = visits[-1]
    speeds = [seen.scores["performance"] for seen in visits]
    scores = {**last.scores, "performance": int(median(speeds))}
    runs = f", the median of {', '.join(map(str, speeds))}" if len(speeds) > 1 else ""
    return [
        f"Lighthouse {name} is {scores[name]}{runs if name == 'performance' else ''}, at least {least} is right: "
        f"{'; '.join(last.reasons[name][:_REASONS]) or 'no audit says why'}"
        for name, least in LEAST.items()
        if scores[name] < least
    ]


def check(
    base: str, pages: Sequence[str], node: Path, look: Callable[[Sequence[str], Path], list[Visit]] = visit
) -> dict[str, list[str]]:
    """Return what Lighthouse finds on each page that it finds anything on.

    Args:
        base: where the site is served, without a final slash.
        pages: their addresses on it.
        node: folder that Lighthouse is installed in.
        look: how pages are visited.

    Raises:
        FileNotFoundError, RuntimeError: as `visit` does.
    """
    visits: dict[str, list[Visit]] = {page: [] for page in pages}
    again = list(pages)
    for _ in range(TIMES):
        for page, seen in zip(again, look([f"{base}/{page}" for page in again], node), strict=True):
            visits[page].append(seen)
        again = [page for page in again if not _is_settled(visits[page])]
        if not again:
            break
    found = {page: judge(seen) for page, seen in visits.items()}
    return {page: problems for page, problems in found.items() if problems}


def _is_settled(visits: Sequence[Visit]) -> bool:
    """Return whether another visit could not change what is said of the page's speed."""
    fast = [seen.scores["performance"] >= LEAST["performance"] for seen in visits]
    needed = TIMES // 2 + 1
    return fast[0] or sum(fast) >= needed or len(fast) - sum(fast) >= needed
