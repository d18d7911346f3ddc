"""The browser that the gates look with: where it is, how it is started, and what a page does wrong unseen."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from playwright.sync_api import Browser, BrowserContext, Page, Response, Route, sync_playwright

BROWSERS = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
)
# A browser talks to its maker unless told not to. Text is drawn alike on every machine, for the reference pictures.
ARGUMENTS = [
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-gpu",
    "--disable-lcd-text",
    "--font-render-hinting=none",
    "--force-color-profile=srgb",
]
HEIGHT = 900
#: Ends what hangs, in milliseconds: no page is wrong because this machine is slow or busy.
PATIENCE = 300_000


@dataclass(frozen=True)
class Mode:
    """One way of looking at a page: a width in CSS pixels and a colour scheme."""

    width: int
    scheme: str

    def __str__(self) -> str:
        return f"{self.width} px {self.scheme}"


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


@contextmanager
def launched() -> Iterator[Browser]:
    """Yield a browser, closed afterwards; FileNotFoundError if there is none."""
    executable = find_browser()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened(browser: Browser, mode: Mode) -> Iterator[Page]:
    """Yield an empty page of a fresh profile in this mode."""
    context: BrowserContext = browser.new_context(
        viewport={"width": mode.width, "height": HEIGHT},
        color_scheme=mode.scheme,  # type: ignore[arg-type]
        reduced_motion="reduce",  # colours halfway through a transition are nobody's colours
    )
    context.set_default_timeout(PATIENCE)
    try:
        yield context.new_page()
    finally:
        context.close()


@dataclass(frozen=True)
class Traffic:
    """What a page asked for so far, as addresses, and what went wrong on the way or in its scripts."""

    requests: list[str]
    problems: list[str]


def watch(page: Page, base: str) -> Traffic:
    """Return what fills with the page's requests and errors; requests outside of ``base`` are blocked.

    Args:
        page: not yet navigated.
        base: where the site lies, an ``http:`` or ``file:`` address without a final slash.
    """
    traffic = Traffic([], [])

    def filter_request(route: Route) -> None:
        address = route.request.url
        if address.startswith((f"{base}/", "data:", "blob:")):
            traffic.requests.append(address)
            route.continue_()
        else:
            where = "leaves its folder" if base.startswith("file:") else "asks another host"
            traffic.problems.append(f"{where}: {address}")
            route.abort()

    def check_response(response: Response) -> None:
        if response.status >= 400:
            traffic.problems.append(f"answer {response.status} to {response.url.removeprefix(base)}")

    problems = traffic.problems
    page.route("**/*", filter_request)
    page.on("console", lambda said: problems.append(f"console: {said.text}") if said.type == "error" else None)
    page.on("pageerror", lambda error: problems.append(f"script: {error}"))
    page.on("response", check_response)
    page.on("requestfailed", lambda asked: problems.append(f"failed: {asked.url.removeprefix(base)}"))
    page.on("websocket", lambda socket: problems.append(f"opens a socket: {socket.url}"))
    return traffic
