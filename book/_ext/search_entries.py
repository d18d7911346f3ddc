"""Keeps the search to what each page says: entries of an index, which this book has not, would come and go.

Sphinx puts the index entries of a page into the search only in the build that writes the page, and forgets them in
the next, so that the same sources gave two different searches. A glossary's words are found without them.
"""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx


def drop(app: Sphinx, doctree: nodes.document) -> None:
    """Take a page's entries out, as it is read."""
    del app
    for entry in list(doctree.findall(addnodes.index)):
        entry.parent.remove(entry)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the event."""
    app.connect("doctree-read", drop)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
