"""Gives each page a policy under which it can load and run files of the site alone, and holds its HTML to it.

The policy also holds from a folder (``file:``), where Chromium and Firefox take ``'self'`` for files. There scripts
must be classic ones, as a browser loads no module and fetches no file from a folder.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging

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


def secure(_: Sphinx, pagename: str, __: str, context: dict[str, Any], ___: nodes.document | None) -> None:
    """Hand the policy to the page's template, and warn of what it forbids."""
    context["security_policy"] = POLICY
    for part in inline_parts(context.get("body", "")):
        LOGGER.warning(
            "the page's policy forbids this %s; use a file in book/_static [security]",
            part,
            location=pagename,
            type="security",
        )


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect to the writing of each page."""
    app.connect("html-page-context", secure, priority=950)  # when the body is complete
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
