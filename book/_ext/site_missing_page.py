"""Writes 404.html, which a host shows in the place of any missing page, at whatever depth that was asked for.

Such a page cannot name its own files relative to itself, and from the root only once the site's address is known. So
it loads none: its few styles stand in it, under a policy that allows these alone. It works from a folder as well.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from measured import reading_order
from sphinx.application import Sphinx

PAGE = "404"
TEMPLATE = "404.html"
STYLE = Path("_style", "missing-page.css")


def policy(style: str) -> str:
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
    style = Path(app.srcdir, STYLE).read_text("utf-8")
    yield PAGE, {"title": "Not found", "missing_style": style, "chapters": chapters(app)}, TEMPLATE


def secure(_: Sphinx, pagename: str, __: str, context: dict[str, Any], ___: nodes.document | None) -> None:
    """Give the page its own policy instead of that of all others."""
    if pagename == PAGE:
        context["security_policy"] = policy(context["missing_style"])


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect to the making of pages without a source."""
    app.connect("html-collect-pages", missing_page)
    app.connect("html-page-context", secure, priority=960)  # after the policy of other pages
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
