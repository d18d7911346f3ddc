"""Writes the pages that are wrong on purpose, which gates are tried on."""

from pathlib import Path

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
