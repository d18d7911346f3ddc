"""Describes each page to search engines with its own first sentences."""

from __future__ import annotations

import re
from html import escape
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging

LOGGER = logging.getLogger(__name__)
#: Search engines show about this many characters.
LONGEST = 160
#: Pages that have no source, and so no sentence of their own.
GENERATED = {
    "search": "Search all chapters of the book, in your browser alone.",
    "404": "There is no such page in this book; here are those that there are.",
}

_SENTENCE = re.compile(r"(?<=[.?!])\s+")


def first_sentences(text: str, longest: int = LONGEST) -> str:
    """Return as many whole sentences from the beginning of ``text`` as fit, or the beginning of a longer first one."""
    sentences = _SENTENCE.split(" ".join(text.split()))
    chosen = sentences[0]
    for sentence in sentences[1:]:
        if len(chosen) + 1 + len(sentence) > longest:
            break
        chosen += f" {sentence}"
    if len(chosen) <= longest:
        return chosen
    return chosen[: longest - 1].rsplit(" ", 1)[0].rstrip(",;:") + "…"


def _has_only_text(paragraph: nodes.paragraph) -> bool:
    """Return whether nothing in the paragraph is put in later, such as a number."""
    return not list(paragraph.findall(nodes.raw))


def description_of(doctree: nodes.document) -> str:
    """Return the first sentences of a page's text, tables and notes left out; empty if it has none."""
    paragraphs = [
        paragraph
        for parent in doctree.findall(lambda node: isinstance(node, nodes.section | nodes.container))
        for paragraph in parent.children
        if isinstance(paragraph, nodes.paragraph) and _has_only_text(paragraph)
    ]
    return first_sentences(paragraphs[0].astext()) if paragraphs else ""


def describe(_: Sphinx, pagename: str, __: str, context: dict[str, Any], doctree: nodes.document | None) -> None:
    """Add the description to the page's head, unless its source gives one as ``html_meta``."""
    if 'name="description"' in context.get("metatags", ""):
        return
    text = GENERATED.get(pagename, "") if doctree is None else description_of(doctree)
    if not text:
        LOGGER.warning("the page has no sentence that could describe it [site]", location=pagename, type="site")
        return
    context["metatags"] = f'{context.get("metatags", "")}<meta name="description" content="{escape(text)}">\n'


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect to the writing of each page."""
    app.connect("html-page-context", describe, priority=400)  # before social cards, which take it over
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
