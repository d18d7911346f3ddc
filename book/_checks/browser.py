"""Looks at every page of a built site in a real browser, as a reader on a phone and at a desk would see it.

Each page is opened at two widths in light and in dark, with every folded part open. Problems are: an error on
the console, a request that fails, a request to another host (blocked), anything wider than the page, and what
axe-core finds against WCAG 2.2 level AA. A missing browser is an error too: a check that did not run has not
passed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Browser, Page, Response, Route, sync_playwright

WIDTHS = (390, 1280)
SCHEMES = ("light", "dark")
HEIGHT = 900
WCAG_TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
BROWSERS = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
)
# A browser talks to its maker unless told not to.
QUIET = ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-gpu"]

OPEN_FOLDED_PARTS = "document.querySelectorAll('details').forEach(part => part.open = true)"

# Elements that stick out to the right, unless an ancestor scrolls or clips them; the outermost of each branch.
WIDER_THAN_PAGE = """() => {
  const root = document.documentElement, limit = root.clientWidth;
  if (root.scrollWidth <= limit) return [];
  const inside = element => {
    for (let above = element.parentElement; above && above !== document.body; above = above.parentElement)
      if (getComputedStyle(above).overflowX !== 'visible') return true;
    return false;
  };
  const out = [...document.body.querySelectorAll('*')].filter(
    element => element.getBoundingClientRect().right > limit + 1 && !inside(element));
  const outermost = out.filter(element => !out.includes(element.parentElement));
  const name = element => element.tagName.toLowerCase() + (element.id ? '#' + element.id : '')
    + [...element.classList].map(c => '.' + c).join('');
  return [`scrolls sideways by ${root.scrollWidth - limit} px: ` + outermost.slice(0, 3).map(name).join(', ')];
}"""

# What a popover shows is hidden until asked for, so each is opened once.
POPOVERS_OUTSIDE = """() => {
  const problems = [];
  for (const popover of document.querySelectorAll('[popover]')) {
    popover.showPopover();
    const box = popover.getBoundingClientRect();
    if (box.left < -1 || box.right > innerWidth + 1 || box.width === 0)
      problems.push(`popover ${popover.id || popover.textContent.trim().slice(0, 40)} does not fit the page`);
    popover.hidePopover();
  }
  return problems;
}"""


@dataclass(frozen=True)
class Mode:
    """One way of looking at a page: a width in CSS pixels and a colour scheme."""

    width: int
    scheme: str

    def __str__(self) -> str:
        return f"{self.width} px {self.scheme}"


MODES = tuple(Mode(width, scheme) for width in WIDTHS for scheme in SCHEMES)


class QuietHandler(SimpleHTTPRequestHandler):
    """Serves files without a line of log for each."""

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: what a page asks for is watched from the browser."""


@contextmanager
def serve(site: Path) -> Iterator[str]:
    """Serve a folder on a free port of the loopback interface; yield its address without a final slash."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def find_browser() -> str:
    """Return the path of a Chromium: $CHROMIUM, or the first of the usual names; FileNotFoundError if none."""
    chosen = os.environ.get("CHROMIUM")
    for name in [chosen] if chosen else BROWSERS:
        if found := shutil.which(name):
            return found
    raise FileNotFoundError(
        (f"CHROMIUM is {chosen}, which is no program. " if chosen else "No Chromium or Chrome found. ")
        + "Install one (Debian, Ubuntu: sudo apt-get install chromium; macOS: brew install --cask chromium) "
        "or give its path in CHROMIUM."
    )


def find_pages(site: Path) -> list[str]:
    """Return the addresses of a site's pages relative to it, sorted; FileNotFoundError if there are none."""
    pages = sorted(file.relative_to(site) for file in site.rglob("*.html"))
    pages = [page for page in pages if page.parts[0] not in ("_static", "_sources", "_downloads")]
    if not pages:
        raise FileNotFoundError(f"No page in {site}: build the book first with `make book`.")
    if (site.parent / "build-in-progress").exists():
        raise FileNotFoundError(f"The last build of {site} did not succeed: run `make book`.")
    return [page.as_posix() for page in pages]


def describe_violation(violation: dict[str, Any]) -> list[str]:
    """Return one line for each element that breaks an axe rule: rule, element, reason, where to read more."""
    lines = []
    for node in violation["nodes"]:
        checks = [*node["any"], *node["all"], *node["none"]]
        reason = checks[0]["message"] if checks else violation["help"]
        target = " ".join(str(part) for part in node["target"])
        lines.append(f"axe {violation['id']}: {target}: {reason} ({violation['helpUrl'].split('?')[0]})")
    return lines


def run_axe(page: Page) -> list[str]:
    """Return what axe-core finds against WCAG on an open page."""
    page.evaluate(AXE_SCRIPT)
    options = {
        "runOnly": {"type": "tag", "values": WCAG_TAGS},
        "resultTypes": ["violations"],
        # Else axe fetches the style sheets itself and looks for imported ones in the wrong folder.
        "preload": False,
    }
    result = page.evaluate("options => axe.run(document, options)", options)
    return [line for violation in result["violations"] for line in describe_violation(violation)]


def watch(page: Page, base: str) -> list[str]:
    """Return a list that fills with the page's errors and bad requests; requests to other hosts are blocked."""
    problems: list[str] = []

    def filter_request(route: Route) -> None:
        if route.request.url.startswith((f"{base}/", "data:", "blob:")):
            route.continue_()
        else:
            problems.append(f"asks another host: {route.request.url}")
            route.abort()

    def check_response(response: Response) -> None:
        if response.status >= 400:
            problems.append(f"answer {response.status} to {response.url.removeprefix(base)}")

    page.route("**/*", filter_request)
    page.on("console", lambda said: problems.append(f"console: {said.text}") if said.type == "error" else None)
    page.on("pageerror", lambda error: problems.append(f"script: {error}"))
    page.on("response", check_response)
    page.on("requestfailed", lambda asked: problems.append(f"failed: {asked.url.removeprefix(base)}"))
    page.on("websocket", lambda socket: problems.append(f"opens a socket: {socket.url}"))
    return problems


def look(browser: Browser, base: str, address: str, mode: Mode) -> list[str]:
    """Return the problems of one page in one mode, each a line."""
    viewport = {"width": mode.width, "height": HEIGHT}
    # Without motion, as colours halfway through a transition are nobody's colours.
    context = browser.new_context(viewport=viewport, color_scheme=mode.scheme, reduced_motion="reduce")  # type: ignore[arg-type]
    try:
        page = context.new_page()
        problems = watch(page, base)
        page.goto(f"{base}/{address}", wait_until="networkidle")
        page.evaluate(OPEN_FOLDED_PARTS)
        problems += page.evaluate(WIDER_THAN_PAGE)
        problems += page.evaluate(POPOVERS_OUTSIDE)
        problems += run_axe(page)
        return list(dict.fromkeys(problems))
    finally:
        context.close()


def check_page(browser: Browser, base: str, address: str) -> dict[str, list[Mode]]:
    """Return a page's problems, each with the modes that it shows in."""
    found: dict[str, list[Mode]] = {}
    for mode in MODES:
        for problem in look(browser, base, address, mode):
            found.setdefault(problem, []).append(mode)
    return found


def report(address: str, found: dict[str, list[Mode]]) -> str:
    """Return a page's result as text: one line when it is clean, else a line more for each problem."""
    if not found:
        return f"{address}: clean"
    lines = [f"{address}: {len(found)} problem{'s' if len(found) > 1 else ''}"]
    for problem, modes in found.items():
        where = "everywhere" if len(modes) == len(MODES) else ", ".join(map(str, modes))
        lines.append(f"  [{where}] {problem}")
    return "\n".join(lines)


def check_site(site: Path) -> int:
    """Print what is wrong with a built site, a line for each page at least; return the number of problems.

    Raises FileNotFoundError when there is no browser, no page, or only what an unfinished build left.
    """
    pages, executable, count = find_pages(site), find_browser(), 0
    with serve(site) as base, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=QUIET)
        for address in pages:
            found = check_page(browser, base, address)
            count += len(found)
            print(report(address, found), flush=True)
        browser.close()
    looked = f"{len(pages)} page{'s' if len(pages) > 1 else ''}, each at {', '.join(map(str, MODES))}"
    print(f"Looked at {looked}: {count or 'no'} problem{'' if count == 1 else 's'}.")
    return count


def main(arguments: Sequence[str] | None = None) -> int:
    """Check the site given on the command line; return 0 if it is clean, else 1."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("site", type=Path, help="folder of the built site")
    try:
        return 1 if check_site(parser.parse_args(arguments).site) else 0
    except FileNotFoundError as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
