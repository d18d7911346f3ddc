"""Security policy of each page, under which it can load and run files of the site alone, and the missing page's own.

The policy also holds from a folder (``file:``), where Chromium and Firefox take ``'self'`` for files. There scripts
must be classic ones, as a browser loads no module and fetches no file from a folder.

A host shows 404.html in the place of any missing page, at whatever depth that was asked for. Such a page cannot name
its own files relative to itself, and from the root only once the site's address is known. So it loads none: its few
styles stand in it, under a policy that allows these alone. It works from a folder as well.
"""

import base64
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging

from measured_book.state import reading_order

LOGGER = logging.getLogger(__name__)
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
    )
)
MISSING_PAGE = "404"
MISSING_TEMPLATE = "404.html"
MISSING_STYLE = Path("_style", "missing-page.css")

_INLINE = {
    "style attribute": re.compile(r"<[a-zA-Z][^<>]*?\sstyle\s*="),
    "style element": re.compile(r"<style\b"),
    "inline script": re.compile(r"<script\b(?![^>]*\ssrc=)"),
    "event handler": re.compile(r"<[a-zA-Z][^<>]*?\son[a-z]+\s*="),
    "script in a link": re.compile(r"<[a-zA-Z][^<>]*?(?:href|action)\s*=\s*[\"']?\s*javascript:", re.IGNORECASE),
}


def inline_parts(html: str) -> Iterator[str]:
    """Yield what a browser would refuse in ``html`` under the policy, each with the HTML it begins with."""
    for name, pattern in _INLINE.items():
        for found in pattern.finditer(html):
            yield f"{name}: {html[found.start() : found.start() + 100]!r}"


def missing_policy(style: str) -> str:
    """Return the policy under which a page shows this style sheet, which stands in it, and loads nothing."""
    sha = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    # Lighthouse asks for robots.txt in the page's name, which is all that `connect-src` is for.
    allowed = f"style-src 'sha256-{sha}'; img-src data:; connect-src 'self'"
    return f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"


def chapters(app: Sphinx) -> list[tuple[str, str]]:
    """Return address and title of each page in reading order; in full where the site's address is known."""
    root = app.config.html_baseurl or ""
    titles = app.env.titles
    found = [name for name in reading_order(app.env) if name in titles]
    return [(root + app.builder.get_target_uri(name), titles[name].astext()) for name in found]


def missing_page(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield the page for Sphinx to write."""
    style = Path(app.srcdir, MISSING_STYLE).read_text("utf-8")
    found = {"chapters": chapters(app), "search": f"{app.config.html_baseurl or ''}search.html"}
    yield MISSING_PAGE, {"title": "Not found", "missing_style": style, **found}, MISSING_TEMPLATE


def secure(_: Sphinx, pagename: str, __: str, context: dict[str, Any], ___: nodes.document | None) -> None:
    """Hand the policy to the page's template, and warn of what it forbids."""
    missing = pagename == MISSING_PAGE
    context["security_policy"] = missing_policy(context["missing_style"]) if missing else POLICY
    for part in inline_parts(context.get("body", "")):
        LOGGER.warning(
            "the page's policy forbids this %s; use a file in book/_static [security]",
            part,
            location=pagename,
            type="security",
        )


def setup(app: Sphinx) -> None:
    """Connect to the writing of each page."""
    app.connect("html-collect-pages", missing_page)
    app.connect("html-page-context", secure)
