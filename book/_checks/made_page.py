"""Pages that tests make: with the book's styles, scripts and policy, and pages that are wrong on purpose."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from chromium import PATIENCE
from measured_book.site.security import POLICY
from playwright.sync_api import Browser, Page

STATIC = Path(__file__).resolve().parents[1] / "_static"


def made_page(folder: Path, styles: Sequence[str], scripts: Sequence[str], content: str) -> Path:
    """Write a page with ``content``, and the files of the book that it loads, into a folder; return its path."""
    for name in (*scripts, *styles):
        shutil.copy(STATIC / name, folder)
    head = '<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>Page</title>'
    head += '<link rel="icon" href="data:,">'
    head += f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    head += "".join(f'<link rel="stylesheet" href="{name}">' for name in styles)
    head += "".join(f'<script src="{name}" defer></script>' for name in scripts)
    path = folder / "index.html"
    path.write_text(f"{head}<main><h1>Page</h1>{content}</main></html>", "utf-8")
    return path


@contextmanager
def opened_page(browser: Browser, page: Path | str) -> Iterator[Page]:
    """Yield the page, a file or an address, in a fresh profile; AssertionError if anything failed in it by the end."""
    context = browser.new_context()
    context.set_default_timeout(PATIENCE)
    opened = context.new_page()
    errors: list[str] = []
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
    opened.on("dialog", lambda dialog: errors.append(dialog.message))
    opened.goto(page if isinstance(page, str) else page.as_uri())
    yield opened
    assert errors == []
    context.close()


GOOD_BODY = '<main><h1>Page</h1><p>Text and <a href="index.html">a link</a>.</p></main>'


def page_html(body: str, head: str = "") -> str:
    """Return a page of this body, with more in its head; without a policy, so that it may hold scripts."""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>A page</title>'
        '<link rel="icon" href="data:,"><meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="description" content="A page that is tried.">'
        f"<style>body {{ margin: 0 }}</style>{head}</head><body>{body}</body></html>\n"
    )


def write_page(site: Path, body: str, head: str = "", name: str = "index.html") -> None:
    """Write a page into a site."""
    (site / name).write_text(page_html(body, head), encoding="utf-8")
