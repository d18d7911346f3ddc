"""Gate: the site works from a folder, opened as files without any server: styles, scripts and the search."""

from pathlib import Path

from chromium import Mode, opened, watch
from playwright.sync_api import Browser
from playwright.sync_api import TimeoutError as TookTooLong

SCREEN = Mode(1280, "light")
#: A word of every book: the search must find something.
WORD = "page"
#: Ends a search that hangs; a busy machine is not an error.
SECONDS = 300

# A style sheet that was not found, or whose kind is wrong, has no sheet.
STYLES_MISSING = """() => [...document.querySelectorAll('link[rel~=stylesheet]')]
  .filter(link => !link.disabled && link.sheet === null)
  .map(link => `the style sheet ${link.getAttribute('href')} is not applied`)"""


def check(browser: Browser, site: Path, address: str) -> list[str]:
    """Return what does not work on a page opened by its ``file:`` address, a line for each."""
    base = site.resolve().as_uri()
    is_search = Path(address).name == "search.html"
    with opened(browser, SCREEN) as page:
        traffic = watch(page, base)
        page.goto(f"{base}/{address}{f'?q={WORD}' if is_search else ''}", wait_until="load")
        problems = [*page.evaluate(STYLES_MISSING)]
        if is_search:
            try:
                page.wait_for_selector("#search-results li p.context", timeout=SECONDS * 1000)
            except TookTooLong:
                problems.append(f"the search for {WORD!r} lists no section within {SECONDS} s")
        problems += traffic.problems
    return list(dict.fromkeys(problems))
