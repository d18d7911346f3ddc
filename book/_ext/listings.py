"""``{listing} figures`` and ``{listing} tables``: all of the book, made from the pages' records."""

from __future__ import annotations

from html import escape

from docutils import nodes
from docutils.parsers.rst import directives
from late_html import LateHtml
from measured import reading_order
from page_downloads import figure_path
from record_store import PageRecords, store_of
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

#: What can be listed: its kind of record, and the word for one.
KINDS = {"figures": "figure", "tables": "table"}


def _item(page: PageRecords, key: str, caption: str, kind: str, address: str, up: str) -> str:
    link = f'<a href="{escape(address)}#{kind}-{key}">{escape(caption)}</a>'
    if kind != "figure":
        return f"<li>{link}</li>"
    drawing = f'<a href="{escape(up + figure_path(page.docname, key))}" download aria-label="SVG of {key}">SVG</a>'
    return f"<li>{link} ({drawing})</li>"


class Listing(LateHtml):
    """All figures or all tables: ``kind``."""

    def html(self, app: Sphinx, docname: str) -> str:
        """Return how many there are, and a list of links for each page in the book's order."""
        kind: str = self["kind"]
        order = reading_order(app.env)
        pages = sorted(store_of(app.env).pages.values(), key=lambda page: order.get(page.docname, len(order)))
        up = "../" * docname.count("/")
        parts, count = [], 0
        for page in pages:
            records = page.of_kind(kind)
            if not records:
                continue
            count += len(records)
            address = app.builder.get_relative_uri(docname, page.docname)
            title = app.env.titles[page.docname].astext()
            items = "\n".join(_item(page, r["key"], r["caption"], kind, address, up) for r in records)
            parts.append(
                f'<p class="listing-page"><a href="{escape(address)}">{escape(title)}</a></p>\n<ul>\n{items}\n</ul>'
            )
        listed = "\n".join(parts)
        return f'<div class="listing">\n<p>{count} {kind}{"" if count == 1 else "s"}.</p>\n{listed}\n</div>'


class ListingDirective(SphinxDirective):
    """``{listing} figures`` or ``{listing} tables``."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the place of the list."""
        chosen = directives.choice(self.arguments[0], tuple(KINDS))
        node = Listing(kind=KINDS[chosen])
        self.set_source_info(node)
        return [node]


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directive."""
    app.setup_extension("late_html")
    app.add_directive("listing", ListingDirective)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
