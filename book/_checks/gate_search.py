"""Gate: the search finds sections over http, with excerpts, and what it leads to has the words marked."""

from __future__ import annotations

import time

from chromium import Mode, opened, watch
from playwright.sync_api import Browser

SCREEN = Mode(1280, "light")
PAGE = "search.html"
#: A word of every book, and what is in none: a word, and signs that an index of words holds none of.
WORD, NO_WORDS = "page", ("qqqxxzz", "±", "💯")
#: Ends a search that hangs; a busy machine is not an error.
SECONDS = 60


def check(browser: Browser, base: str) -> list[str]:
    """Return what the search of the site at ``base`` does wrong, a line for each."""
    problems: list[str] = []
    with opened(browser, SCREEN) as page:
        traffic = watch(page, base)

        def wait(what: str, otherwise: str) -> bool:
            end = time.monotonic() + SECONDS
            while time.monotonic() < end:
                # Not `wait_for_function`, which the page's policy forbids: it evaluates text within the page.
                if page.evaluate(what):
                    return True
                page.wait_for_timeout(50)
            problems.append(otherwise)
            return False

        page.goto(f"{base}/{PAGE}?q={WORD}", wait_until="networkidle")
        excerpt = "document.querySelector('#search-results li p.context mark')"
        if wait(f"!!{excerpt}", f"the search for {WORD!r} shows no excerpt with the word marked"):
            page.locator("#search-results li a").first.click()
            page.wait_for_load_state("networkidle")
            wait(
                "location.search.includes('highlight') && CSS.highlights.has('found')",
                "the page that the search leads to does not mark the words",
            )
            page.keyboard.press("Control+k")
            field = "document.activeElement?.matches('input[name=q]')"
            wait(field, "Control+K leads to no field to search with")
        page.goto(f"{base}/{PAGE}", wait_until="load")
        for word in NO_WORDS:
            page.locator("#search-words").fill(word)
            said = f"document.querySelector('#search-progress').textContent.includes('{word}')"
            wait(said, f"the search for {word!r}, which finds nothing, does not say so")
        problems += traffic.problems
    return list(dict.fromkeys(problems))
