"""``{executions}``: when each page ran, whether in this build, how long it and each cell took, and its memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from html import escape

from docutils import nodes
from execution_times import CellRun, PageRun, runs_of
from late_html import LateHtml, late_pages
from measured import reading_order
from page_card import time_html
from record_store import store_of
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

from tinytorch.report.numbers import NO_BREAK, format_number

#: Names of columns, and the class of their cells.
_HEAD = (
    ("Page", "text"),
    ("Began", "text"),
    ("In this build", "text"),
    ("Cells", "numeric"),
    ("Time", "numeric"),
    ("Memory at most", "numeric"),
)
_CELLS_HEAD = (("Cell", "numeric"), ("Time", "numeric"), ("Begins with", "text"))


def _time(seconds: float | None) -> str:
    """Return a cell of a table that holds a duration."""
    if seconds is None:
        return '<td class="numeric">–</td>'
    return f'<td class="numeric" data-value="{seconds:g}">{escape(format_number(seconds, "s").text)}</td>'


def _memory(peak_bytes: int | None) -> str:
    """Return a cell of a table that holds a size."""
    if peak_bytes is None:
        return '<td class="numeric">–</td>'
    return f'<td class="numeric" data-value="{peak_bytes}">{escape(format_number(peak_bytes, "B").text)}</td>'


def _page_row(title: str, address: str, run: PageRun) -> str:
    began = "not kept" if run.began is None else time_html(run.began, f"%d{NO_BREAK}%b %Y, %H:%M:%S{NO_BREAK}UTC")
    ran = "ran" if run.in_this_build else "kept"
    return (
        f'<tr><th scope="row"><a href="{escape(address)}">{escape(title)}</a></th><td>{began}</td><td>{ran}</td>'
        f'<td class="numeric" data-value="{len(run.cells)}">{len(run.cells)}</td>{_time(run.seconds)}'
        f"{_memory(run.peak_bytes)}</tr>"
    )


def _cell_row(number: int, cell: CellRun) -> str:
    return (
        f'<tr><td class="numeric" data-value="{number}">{number}</td>{_time(cell.seconds)}'
        f"<td><code>{escape(cell.code)}</code></td></tr>"
    )


def _table(key: str, caption: str, head: Iterable[tuple[str, str]], rows: Iterable[str]) -> str:
    names = "".join(f'<th scope="col" class="{css}">{name}</th>' for name, css in head)
    return (
        f'<div class="measured-table" role="region" tabindex="0" aria-labelledby="{key}">\n<table class="sortable">\n'
        f'<caption id="{key}">{escape(caption)}</caption>\n<thead><tr>{names}</tr></thead>\n<tbody>\n'
        + "\n".join(rows)
        + "\n</tbody>\n</table>\n</div>"
    )


def _cells(docname: str, title: str, run: PageRun) -> str:
    rows = (_cell_row(number, cell) for number, cell in enumerate(run.cells, start=1))
    table = _table(f"cells-{docname.replace('/', '-')}", f"Cells of: {title}", _CELLS_HEAD, rows)
    return f'<details class="execution-cells"><summary>{escape(title)}</summary>\n{table}\n</details>'


class Executions(LateHtml):
    """The executions of all pages."""

    def html(self, app: Sphinx, docname: str) -> str:
        """Return a table of the pages, and a folded one for each page's cells."""
        order = reading_order(app.env)
        runs = sorted(runs_of(app.env).items(), key=lambda item: order.get(item[0], len(order)))
        titles = {name: app.env.titles[name].astext() for name, _ in runs}
        rows = (_page_row(titles[name], app.builder.get_relative_uri(docname, name), run) for name, run in runs)
        cells = "\n".join(_cells(name, titles[name], run) for name, run in runs)
        return _table("last-executions", "The last execution of each page that has code", _HEAD, rows) + "\n" + cells


class ExecutionsDirective(SphinxDirective):
    """``{executions}``."""

    def run(self) -> list[nodes.Node]:
        """Return the place of the tables."""
        node = Executions()
        self.set_source_info(node)
        return [node]


def settle(_: Sphinx, env: BuildEnvironment) -> Iterable[str]:
    """Mark the pages that this build did not read as kept; return the pages to write again if one changed by it."""
    runs, touched = runs_of(env), store_of(env).touched
    stale = [name for name, run in runs.items() if run.in_this_build and name not in touched]
    for name in stale:
        runs[name] = replace(runs[name], in_this_build=False)
    return sorted(late_pages(env) & env.found_docs) if stale else []


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directive."""
    app.setup_extension("late_html")
    app.setup_extension("execution_times")
    app.add_directive("executions", ExecutionsDirective)
    app.connect("env-updated", settle, priority=300)  # before measured.py forgets which pages were read
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
