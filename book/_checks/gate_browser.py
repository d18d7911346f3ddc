"""Looks at every page of a built site in a real browser, as a reader on a phone and at a desk would see it.

Each page is opened once, with every folded part open, and then made as wide as a phone and a desk and dark; and once
more from its folder. Problems are: an error on the console, a request that fails, a request to another host (blocked),
and what the gates of weight, layout, accessibility, keyboard, folder and search find.
"""

import os
import re
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from queue import Empty, Queue

import gate_accessibility
import gate_folder
import gate_keyboard
import gate_layout
import gate_search
import gate_weight
from built_site import serve
from chromium import HEIGHT, PATIENCE, Mode, launched, opened, watch
from playwright.sync_api import Browser, expect

PHONE, SCREEN = 390, 1280
#: The widths that a page loaded at a width is then tried at.
WIDTHS = {PHONE: (320, 390), SCREEN: (768, 1280, 1920)}
#: Pages that the keyboard also leads through on a phone: what differs there, the header, is alike on all.
KEYBOARD_ON_PHONE = ("index.html", gate_search.PAGE)
#: More browsers at once than cores only hold one another up.
MOST_PROCESSES = 2
OPEN_FOLDED_PARTS = "document.querySelectorAll('details').forEach(part => part.open = true)"


@dataclass
class Seen:
    """What was found on one page: each problem with where it shows."""

    address: str
    problems: dict[str, list[str]] = field(default_factory=dict)

    def add(self, problems: Sequence[str], where: object) -> None:
        """Add problems that show in one place."""
        for problem in problems:
            places = self.problems.setdefault(problem, [])
            if str(where) not in places:
                places.append(str(where))

    def lines(self) -> list[str]:
        """Return each problem with its places, a line each."""
        return [f"[{', '.join(places)}] {problem}" for problem, places in self.problems.items()]


def look(browser: Browser, base: str, site: Path, seen: Seen, widths: Sequence[int] = (PHONE, SCREEN)) -> None:
    """Load a page once, try it at each of these widths, and add what is wrong with it to ``seen``."""
    with opened(browser, Mode(widths[0], "light")) as page:
        traffic = watch(page, base)
        page.goto(f"{base}/{seen.address}", wait_until="networkidle")
        asked = [address.removeprefix(base) for address in traffic.requests if address.startswith(base)]
        for explorer in page.locator("[data-instead]").all():  # one is made when a reader comes near
            explorer.evaluate("each => each.scrollIntoView()")
            expect(explorer).to_have_class(re.compile(r"\bdrawn\b"), timeout=PATIENCE)
        page.evaluate(OPEN_FOLDED_PARTS)
        seen.add(gate_weight.check(site, seen.address, asked), "first load")
        for width in widths:
            page.set_viewport_size({"width": width, "height": HEIGHT})
            where = f"{width} px"
            for problem, found in gate_layout.check_width(page, WIDTHS[width]).items():
                seen.add([problem], ", ".join(f"{each} px" for each in found))
            seen.add(gate_layout.check(page), where)
            seen.add(gate_accessibility.check(page, colors=False), where)
            if width == SCREEN or seen.address in KEYBOARD_ON_PHONE:
                seen.add(gate_layout.hover(page), where)
                seen.add(gate_keyboard.walk(page, popovers=width == SCREEN), where)
        for scheme in ("light", "dark"):  # colours are alike at all widths
            page.emulate_media(color_scheme=scheme)
            seen.add(gate_accessibility.check(page, colors=True), f"{widths[-1]} px {scheme}")
        seen.add(traffic.problems, "as it loads or is used")


def check_page(browser: Browser, base: str, site: Path, address: str) -> Seen:
    """Return what is wrong with one page, at all widths and from its folder."""
    seen = Seen(address)
    look(browser, base, site, seen)
    seen.add(gate_folder.check(browser, site, address), "from a folder")
    if address == gate_search.PAGE:
        seen.add(gate_search.check(browser, base), "over http")
    return seen


def check_pages(site: Path, waiting: Queue[str]) -> list[Seen]:
    """Return what is wrong with the pages taken from those ``waiting``, one after the other in one browser."""
    found: list[Seen] = []
    with serve(site) as base, launched() as browser:
        while True:
            try:
                address = waiting.get_nowait()
            except Empty:
                return found
            found.append(check_page(browser, base, site, address))
            count = len(found[-1].problems)
            print(f"  {address}: {count or 'no'} problem{'' if count == 1 else 's'} in the browser", flush=True)


def heaviest_first(site: Path, addresses: Sequence[str]) -> list[str]:
    """Return the pages by their size in bytes, so that those looked at last are short."""
    return sorted(addresses, key=lambda address: (-(site / address).stat().st_size, address))


def check(site: Path, addresses: Sequence[str]) -> list[Seen]:
    """Return what is wrong with each page, in the order of their addresses.

    Raises:
        FileNotFoundError: if there is no browser.
    """
    count = min(MOST_PROCESSES, os.cpu_count() or 1, len(addresses))
    spawn = get_context("spawn")
    with spawn.Manager() as manager, ProcessPoolExecutor(count, mp_context=spawn) as pool:
        waiting: Queue[str] = manager.Queue()
        for address in heaviest_first(site, addresses):
            waiting.put(address)
        found = [seen for part in pool.map(check_pages, [site] * count, [waiting] * count) for seen in part]
    return sorted(found, key=lambda seen: seen.address)
