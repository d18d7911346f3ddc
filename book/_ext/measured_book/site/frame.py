"""Frame of every page, which is the book's own theme: its templates, the page's contents and tools, and wide tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from docutils import nodes
from measured_book.site.repository import tools
from sphinx.application import Sphinx
from sphinx.builders.html import StandaloneHTMLBuilder
from sphinx.config import Config
from sphinx.environment.adapters.toctree import TocTree
from sphinx.writers.html5 import HTML5Translator

THEME = "measured"
#: The theme's templates, below the book's sources.
FOLDER = "_theme"


def choose_theme(_: Sphinx, config: Config) -> None:
    """Make this the theme, in the place of Jupyter Book's own, which would bring 2 MB of scripts, fonts and styles."""
    config.html_theme = THEME
    config.html_theme_options = {}


def contents_html(app: Sphinx, docname: str) -> str:
    """Return a list of links to the sections of the page; empty for one without sections."""
    contents = cast(nodes.bullet_list | None, TocTree(app.env).get_toc_for(docname, app.builder))
    if contents is not None and len(contents) == 1:  # the page's title, above its sections
        contents = next(iter(contents.findall(nodes.bullet_list, include_self=False)), None)
    builder = cast(StandaloneHTMLBuilder, app.builder)
    return "" if contents is None else str(builder.render_partial(contents)["fragment"])


def add_frame(app: Sphinx, pagename: str, _: str, context: dict[str, Any], doctree: nodes.document | None) -> None:
    """Hand the templates what they need besides what Sphinx gives them."""
    is_page = doctree is not None
    source = f"{pagename}{context.get('page_source_suffix', '')}" if is_page else None
    runs = is_page and "kernelspec" in app.env.metadata[pagename]
    context["author"] = app.config.author
    context["contents"] = contents_html(app, pagename) if is_page else ""
    context["tools"] = tools(app.config.book_repository, source, runs=runs)


def visit_table(self: HTML5Translator, node: nodes.table) -> None:
    """Begin a table in a box, in which it scrolls when it is wider than the page."""
    self.body.append('<div class="scrolled-table">')
    HTML5Translator.visit_table(self, node)


def depart_table(self: HTML5Translator, node: nodes.table) -> None:
    """End a table and its box."""
    HTML5Translator.depart_table(self, node)
    self.body.append("</div>\n")


def setup(app: Sphinx) -> None:
    """Register the theme and connect to the writing of each page."""
    app.add_html_theme(THEME, str(Path(app.srcdir, FOLDER)))
    app.add_node(nodes.table, override=True, html=(visit_table, depart_table))
    app.connect("config-inited", choose_theme)
    app.connect("html-page-context", add_frame)
