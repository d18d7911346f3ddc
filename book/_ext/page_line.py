"""The line under a page's title: when and where it was last measured, its downloads, and how to report a mismatch."""

from __future__ import annotations

from html import escape
from typing import Any

from docutils import nodes
from mismatch import mismatch_html
from page_card import CARD_ID, time_html
from page_downloads import downloads_html, downloads_of
from record_store import PageRecords, store_of
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

from tinytorch.report.numbers import NO_BREAK

_DAY = f"%d{NO_BREAK}%B{NO_BREAK}%Y"


def shown_pages(env: BuildEnvironment, docname: str) -> list[PageRecords]:
    """Return the pages whose records the page shows, its own before others."""
    store = store_of(env)
    own = store.pages.get(docname)
    if own is not None:
        return [own]
    names = store.pages.keys() if docname in store.ledgers else store.uses.get(docname, set())
    return [store.pages[name] for name in sorted(names) if name in store.pages]


def _machine(page: PageRecords) -> str:
    machine = page.provenance["machine"]
    count = machine["cores_usable"]
    return f"{escape(machine['cpu'])}, {count}{NO_BREAK}core{'' if count == 1 else 's'}"


def _days(pages: list[PageRecords]) -> str:
    """Return the day, or first and last day, of the pages' measurements."""
    moments = sorted(page.provenance["when"] for page in pages)
    first, last = time_html(moments[0], _DAY), time_html(moments[-1], _DAY)
    return last if moments[0][:10] == moments[-1][:10] else f"{first} to {last}"


def measured_html(env: BuildEnvironment, docname: str) -> str:
    """Return when and where the page was last measured; nothing for a page that shows no measurement."""
    pages = shown_pages(env, docname)
    if not pages:
        return ""
    machines = " and ".join(dict.fromkeys(_machine(page) for page in pages))
    how = f' (<a href="#{CARD_ID}">how</a>)' if docname in store_of(env).pages else ""
    return f'<p class="page-measured">Last measured {_days(pages)} on {machines}{how}</p>\n'


def line_html(app: Sphinx, docname: str, title: str) -> str:
    """Return the line of the page ``docname``."""
    files = downloads_of(app.env, docname)
    listed = downloads_html(files, docname)
    menu = f'<details class="page-menu"><summary>Download</summary>\n{listed}\n</details>\n' if files else ""
    page = store_of(app.env).pages.get(docname)
    report = mismatch_html(app.config.html_theme_options, title, docname, page)
    return f'<div class="page-line">\n{measured_html(app.env, docname)}{menu}{report}\n</div>\n'


def add_line(app: Sphinx, pagename: str, _: str, context: dict[str, Any], doctree: nodes.document | None) -> None:
    """Put the line behind the title of each page that has a source."""
    if doctree is None or "</h1>" not in context.get("body", ""):
        return
    before, heading, after = context["body"].partition("</h1>")
    line = line_html(app, pagename, app.env.titles[pagename].astext())
    context["body"] = f"{before}{heading}\n{line}{after}"


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect to the writing of each page."""
    app.setup_extension("measured")
    app.connect("html-page-context", add_line)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
