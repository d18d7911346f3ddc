"""Pages that are wrong on purpose: `make check-site` runs these first, so that its silence means something.

Not in tests/, as they need a browser and `make test` needs nothing but Python.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import browser
import pytest
from browser import QUIET, Mode, find_browser, look, serve
from playwright.sync_api import Browser, sync_playwright

GOOD_BODY = '<main><h1>Page</h1><p>Text and <a href="index.html">a link</a>.</p></main>'
PHONE = Mode(390, "light")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=find_browser(), args=QUIET)
        yield launched
        launched.close()


def write_page(site: Path, body: str, head: str = "") -> None:
    (site / "index.html").write_text(
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>A page</title>'
        '<link rel="icon" href="data:,"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>body {{ margin: 0 }}</style>{head}</head><body>{body}</body></html>",
        encoding="utf-8",
    )


def problems_of(chromium: Browser, site: Path) -> str:
    with serve(site) as base:
        return "\n".join(look(chromium, base, "index.html", PHONE))


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("<script>console.error('broken')</script>", "console: broken"),
        ("<script>throw new Error('broken')</script>", "script: broken"),
        ("<img src='missing.svg' alt='a figure'>", "answer 404 to /missing.svg"),
        ("<script src='https://cdn.example/x.js'></script>", "asks another host: https://cdn.example/x.js"),
        ("<script>fetch('http://127.0.0.1:9/x').catch(() => 0)</script>", "asks another host: http://127.0.0.1:9/x"),
        ("<script>new WebSocket('ws://127.0.0.1:9/')</script>", "opens a socket: ws://127.0.0.1:9/"),
        ("<div id='wide' style='width: 500px'>x</div>", "scrolls sideways by 110 px: div#wide"),
        ("<details><summary>x</summary><p style='width: 500px'>x</p></details>", "scrolls sideways by 110 px: p"),
        ("<p style='color: #ccc; background: #fff'>pale</p>", "axe color-contrast: body > p: "),
        ("<img src='data:image/gif;base64,R0lGODlhAQABAAAAACwAAAAAAQABAAA='>", "axe image-alt: img: "),
        ("<div popover id='far' style='left: 380px; right: auto; margin: 0; width: 300px'>x</div>", "popover far"),
    ],
)
def test_a_fault_is_reported(chromium: Browser, tmp_path: Path, body: str, said: str) -> None:
    write_page(tmp_path, GOOD_BODY + body)
    assert said in problems_of(chromium, tmp_path)


def test_what_scrolls_inside_the_page_is_no_fault(chromium: Browser, tmp_path: Path) -> None:
    box = "<div style='overflow-x: auto' tabindex='0' role='region' aria-label='wide'>"
    write_page(tmp_path, f"{GOOD_BODY}{box}<div style='width: 2000px'>x</div></div>")
    assert problems_of(chromium, tmp_path) == ""


def run_check(site: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, browser.__file__, str(site)], capture_output=True, text=True, check=False)


def test_every_mode_is_looked_at(tmp_path: Path) -> None:
    dark = "<style>@media (prefers-color-scheme: dark) { p { color: #ddd } }</style>"
    write_page(tmp_path, f"{GOOD_BODY}<div style='width: 500px'>x</div>", dark)
    checked = run_check(tmp_path)
    assert checked.returncode == 1
    assert "[390 px dark, 1280 px dark] axe color-contrast: " in checked.stdout
    assert "[390 px light, 390 px dark] scrolls sideways by 110 px: div" in checked.stdout
    assert "[everywhere]" not in checked.stdout


def test_a_good_site_is_clean(tmp_path: Path) -> None:
    write_page(tmp_path, GOOD_BODY)
    checked = run_check(tmp_path)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert checked.stdout.startswith("index.html: clean\n")
    assert checked.stdout.endswith("no problems.\n")
