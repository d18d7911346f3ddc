"""Looks at every page of a built site in a real browser, as a reader on a phone and at a desk would see it.

Each page is loaded at two widths in light and in dark, with every folded part open, and once from its folder; each
load serves several gates. Problems are: an error on the console, a request that fails, a request to another host
(blocked), and what the gates of width, weight, keyboard, accessibility and folder find.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

import gate_accessibility
import gate_folder
import gate_keyboard
import gate_weight
import gate_width
from built_site import serve
from chromium import Mode, launched, opened, watch
from playwright.sync_api import Browser

PHONE, SCREEN = 390, 1280
#: The widths that a page loaded at a width is then tried at.
WIDTHS = {PHONE: (320, 390), SCREEN: (768, 1280, 1920)}
MODES = tuple(Mode(width, scheme) for width in WIDTHS for scheme in ("light", "dark"))
#: More browsers at once than cores only hold one another up.
MOST_PROCESSES = 2
OPEN_FOLDED_PARTS = "document.querySelectorAll('details').forEach(part => part.open = true)"

T = TypeVar("T")


@dataclass
class Seen:
    """What was found on one page: each problem with where it shows, and the seconds that each gate took."""

    address: str
    problems: dict[str, list[str]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    def add(self, problems: Sequence[str], where: object) -> None:
        """Add problems that show in one place."""
        for problem in problems:
            places = self.problems.setdefault(problem, [])
            if str(where) not in places:
                places.append(str(where))

    def timed(self, gate: str, check: Callable[[], T]) -> T:
        """Return what ``check`` returns, and count its time for the gate."""
        start = time.perf_counter()
        try:
            return check()
        finally:
            self.seconds[gate] = self.seconds.get(gate, 0.0) + time.perf_counter() - start

    def lines(self) -> list[str]:
        """Return each problem with its places, a line each."""
        everywhere = [str(mode) for mode in MODES]
        return [
            f"[{'everywhere' if places == everywhere else ', '.join(places)}] {problem}"
            for problem, places in self.problems.items()
        ]


def look(browser: Browser, base: str, site: Path, seen: Seen, mode: Mode) -> None:
    """Load a page in one mode, and add what is wrong with it in that mode to ``seen``."""
    with opened(browser, mode) as page:
        traffic = watch(page, base)
        seen.timed("load", lambda: page.goto(f"{base}/{seen.address}", wait_until="networkidle"))
        asked = [address.removeprefix(base) for address in traffic.requests if address.startswith(base)]
        page.evaluate(OPEN_FOLDED_PARTS)
        if mode == MODES[0]:
            seen.add(seen.timed("weight", lambda: gate_weight.check(site, seen.address, asked)), "first load")
        if mode.scheme == "light":
            wide = seen.timed("width", lambda: gate_width.check(page, WIDTHS[mode.width]))
            for problem, widths in wide.items():
                seen.add([problem], ", ".join(f"{width} px" for width in widths))
        seen.add(seen.timed("accessibility", lambda: gate_accessibility.check(page)), mode)
        if mode.scheme == "light":
            popovers = mode.width == SCREEN
            seen.add(seen.timed("keyboard", lambda: gate_keyboard.walk(page, popovers=popovers)), mode)
        seen.add(traffic.problems, mode)


def check_page(browser: Browser, base: str, site: Path, address: str) -> Seen:
    """Return what is wrong with one page in all modes and from its folder."""
    seen = Seen(address)
    for mode in MODES:
        look(browser, base, site, seen, mode)
    seen.add(seen.timed("folder", lambda: gate_folder.check(browser, site, address)), "from a folder")
    return seen


def check_pages(site: Path, addresses: Sequence[str]) -> list[Seen]:
    """Return what is wrong with each of these pages, looked at one after the other in one browser."""
    found = []
    with serve(site) as base, launched() as browser:
        for address in addresses:
            found.append(check_page(browser, base, site, address))
            count = len(found[-1].problems)
            print(f"  {address}: {count or 'no'} problem{'' if count == 1 else 's'} in the browser", flush=True)
    return found


def shares(site: Path, addresses: Sequence[str], count: int) -> list[list[str]]:
    """Return the pages in at most ``count`` shares of about the same size in bytes, none empty."""
    parts: list[list[str]] = [[] for _ in range(count)]
    loads = [0] * count
    size = {address: (site / address).stat().st_size for address in addresses}
    for address in sorted(addresses, key=lambda address: (-size[address], address)):
        least = loads.index(min(loads))
        parts[least].append(address)
        loads[least] += size[address]
    return [part for part in parts if part]


def check(site: Path, addresses: Sequence[str]) -> list[Seen]:
    """Return what is wrong with each page, in the order of their addresses.

    Raises:
        FileNotFoundError: if there is no browser.
    """
    parts = shares(site, addresses, min(MOST_PROCESSES, os.cpu_count() or 1))
    with ProcessPoolExecutor(len(parts), mp_context=get_context("spawn")) as pool:
        found = [seen for part in pool.map(check_pages, [site] * len(parts), parts) for seen in part]
    return sorted(found, key=lambda seen: seen.address)
