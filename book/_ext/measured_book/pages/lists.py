"""Lists that the book makes of itself: its figures and tables, and its pages' executions.

``{listing} figures`` and ``{listing} tables``; ``{executions}``, when each page ran, for how long and in what memory.
"""

import json
import sys
import time
from collections.abc import Iterable
from datetime import datetime
from html import escape
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from measured_book.elements.nodes import LateHtml, add_place, table_region
from measured_book.elements.numbering import named, page_numbers
from measured_book.notebooks.downloads import figure_path
from measured_book.records.card import time_html
from measured_book.state import CellRun, PageRecords, PageRun, PageState, state_of
from tinytorch.report.numbers import NO_BREAK, format_number

#: What says how long preparation and environment took: the files that these leave.
_PREPARED = "prepared.json"
_STAMP = "made-from"
#: What can be listed: its kind of record, and the word for one.
KINDS = {"figures": "figure", "tables": "table"}
_BEGAN = f"%d{NO_BREAK}%b %Y, %H:%M:%S{NO_BREAK}UTC"
#: Names of columns, and the class of their cells.
_HEAD = (("Page", "text"), ("Began", "text"), ("Cells", "numeric"), ("Time", "numeric"), ("Memory at most", "numeric"))
_PARTS_HEAD = (("Part", "text"), ("What", "text"), ("Time", "numeric"))
_CELLS_HEAD = (("Cell", "numeric"), ("Time", "numeric"), ("Begins with", "text"))


def _item(page: PageRecords, key: str, said: str, kind: str, address: str, up: str) -> str:
    link = f'<a href="{escape(address)}#{kind}-{key}">{escape(said)}</a>'
    if kind != "figure":
        return f"<li>{link}</li>"
    drawing = f'<a href="{escape(up + figure_path(page.docname, key))}" download aria-label="SVG of {key}">SVG</a>'
    return f"<li>{link} ({drawing})</li>"


def _said(caption: str, number: str | None, kind: str) -> str:
    """Return a caption with its number, if the page shows what it is of."""
    return f"{named(kind, number)}: {caption}" if number else caption


def listed(state: PageState, kind: str) -> list[tuple[str, str]]:
    """Return key and caption of each figure or table of a page, in the page's order."""
    records = state.records.of_kind(kind) if state.records is not None else ()
    found = {record["key"]: str(record["caption"]) for record in records}
    if kind == "figure":
        found |= state.drawings
    places = {label: place for place, label in enumerate(state.labels)}
    return sorted(found.items(), key=lambda item: places.get(f"{kind}-{item[0]}", len(places)))


class Listing(LateHtml):
    """List of all figures or all tables: ``kind``."""

    def html(self, app: Sphinx, docname: str) -> str:
        """Return how many there are, and a list of links for each page in the book's order."""
        kind: str = self["kind"]
        up = "../" * docname.count("/")
        parts, count = [], 0
        for page in state_of(app.env).records.values():
            found = listed(state_of(app.env).of(page.docname), kind)
            if not found:
                continue
            count += len(found)
            address = app.builder.get_relative_uri(docname, page.docname)
            title = app.env.titles[page.docname].astext()
            numbers = page_numbers(app.env, page.docname)
            items = "\n".join(
                _item(page, key, _said(caption, numbers.get(f"{kind}-{key}"), kind), kind, address, up)
                for key, caption in found
            )
            parts.append(
                f'<p class="listing-page"><a href="{escape(address)}">{escape(title)}</a></p>\n<ul>\n{items}\n</ul>'
            )
        all_pages = "\n".join(parts)
        return f'<div class="listing">\n<p>{count} {kind}{"" if count == 1 else "s"}.</p>\n{all_pages}\n</div>'


class ListingDirective(SphinxDirective):
    """``{listing} figures`` or ``{listing} tables``."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the place of the list."""
        chosen = directives.choice(self.arguments[0], tuple(KINDS))
        node = Listing(kind=KINDS[chosen])
        self.set_source_info(node)
        return [node]


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
    began = "unknown" if run.began is None else time_html(datetime.fromisoformat(run.began), _BEGAN)
    return (
        f'<tr><th scope="row"><a href="{escape(address)}">{escape(title)}</a></th><td>{began}</td>'
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
    return table_region(key, caption, names, "\n".join(rows))


def _cells(docname: str, title: str, run: PageRun) -> str:
    rows = (_cell_row(number, cell) for number, cell in enumerate(run.cells, start=1))
    table = _table(f"cells-{docname.replace('/', '-')}", f"Cells of: {title}", _CELLS_HEAD, rows)
    return f'<details class="execution-cells"><summary>{escape(title)}</summary>\n{table}\n</details>'


def environment_seconds(environment: Path) -> float | None:
    """Return how long making the environment took, as its stamp says; None if it has none that says so."""
    try:
        return float((environment / _STAMP).read_text("ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return None


def prepared_seconds(folder: Path, work: str) -> tuple[int, float | None]:
    """Return how many steps of that work were prepared, and how many seconds they took on all cores together."""
    try:
        steps: dict[str, float] = json.loads((folder / _PREPARED).read_text("utf-8"))["steps"].get(work, {})
    except (OSError, ValueError, KeyError):
        return 0, None
    return len(steps), sum(steps.values())


def _sum(seconds: list[float | None]) -> float | None:
    known = [each for each in seconds if each is not None]
    return sum(known) if known and len(known) == len(seconds) else None


def parts_of(app: Sphinx) -> list[tuple[str, str, float | None]]:
    """Return the parts of the book's time: name, what it holds, and its seconds when it was done last."""
    folder = Path(app.outdir).parent
    runs = [page.run for page in state_of(app.env).pages.values() if page.run is not None]
    trained, training = prepared_seconds(folder, "training")
    compiled, compiling = prepared_seconds(folder, "compiling")
    _, shared = prepared_seconds(folder, "measuring")
    first = _sum([run.cells[0].seconds for run in runs])
    others = _sum([cell.seconds for run in runs for cell in run.cells[1:]])
    return [
        ("Environment", "finding, checking and installing packages", environment_seconds(Path(sys.prefix))),
        ("Training", f"{trained} steps that train models, added over all cores", training),
        ("Compiling", f"{compiled} steps that compile kernels, added over all cores", compiling),
        ("Starting Python", f"for {len(runs)} pages", _sum([run.start for run in runs])),
        ("First cells", "imports of the pages, and data that they load", first),
        ("Measuring", "the ceilings of one core, and all other cells of the pages", _sum([shared, others])),
        ("Sphinx", "CPU time of Sphinx in this build, up to this page", time.process_time()),
    ]


class Executions(LateHtml):
    """Tables of the executions of all pages."""

    def html(self, app: Sphinx, docname: str) -> str:
        """Return a table of the pages, and a folded one for each page's cells."""
        runs = [(name, page.run) for name, page in state_of(app.env).pages.items() if page.run is not None]
        titles = {name: app.env.titles[name].astext() for name, _ in runs}
        rows = (_page_row(titles[name], app.builder.get_relative_uri(docname, name), run) for name, run in runs)
        cells = "\n".join(_cells(name, titles[name], run) for name, run in runs)
        parts = (
            f'<tr><th scope="row">{name}</th><td>{holds}</td>{_time(seconds)}</tr>'
            for name, holds, seconds in parts_of(app)
        )
        table = _table("parts-of-the-build", "Time of a build from nothing, by part", _PARTS_HEAD, parts)
        return (
            f"{table}\n"
            + _table("last-executions", "The last execution of each page that has code", _HEAD, rows)
            + "\n<p>The cells of each page, one by one:</p>\n"
            + cells
        )


def setup(app: Sphinx) -> None:
    """Register the directives."""
    app.add_directive("listing", ListingDirective)
    add_place(app, "executions", Executions)
