"""Tables and figures of a page, as nodes of its document tree: of cells, written from their records, and drawings."""

import math
from collections.abc import Callable
from html import escape
from typing import Any, ClassVar

from docutils import nodes
from myst_nb.core.render import MimeData, NbElementRenderer
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

from measured_book.elements.nodes import add_nothing
from measured_book.elements.slots import detail_lines
from measured_book.state import state_of
from tinytorch.report.numbers import format_measurement, measurement_from_record, unbroken
from tinytorch.report.records import RECORD_MIME, Json
from tinytorch.report.tables import Column, from_body, laid_html, laid_out, number_html
from tinytorch.report.verdicts import verdict_lines

#: The folder of the site in which the files of figures are, each page's in a folder of its own.
FIGURES_FOLDER = "_figures"


class Exhibit(nodes.General, nodes.Element):
    """A table or figure; a figure's drawing and its `Caption` are inside.

    Attributes: ``kind`` and ``key``; of a figure ``alt``, of a table its ``record`` and its cells as they are shown,
    ``laid``, which a cell's get when the page is written; and then also ``number``, in words.
    """

    @property
    def label(self) -> str:
        """Its address on the page."""
        return f"{self['kind']}-{self['key']}"


class Caption(nodes.General, nodes.TextElement):
    """The caption of a figure."""


class Result(nodes.General, nodes.Element):
    """What a chapter found, on its first screen. Attribute: ``figure``, the key of the figure that it shows small."""


class RecordOutput:
    """What MyST-NB makes of a record among a cell's outputs: the place of a table or figure, nothing of any other.

    ``measured_book.dist-info/entry_points.txt`` tells MyST-NB of it.
    """

    mime_priority_overrides: ClassVar[tuple[tuple[str, str, int | None], ...]] = ()

    @staticmethod
    def handle_mime(_: NbElementRenderer, data: MimeData, inline: bool) -> list[nodes.Element] | None:
        """Return the node of a record; None of any other output."""
        if inline or data.mime_type != RECORD_MIME:
            return None
        kind, key = data.content["kind"], data.content["key"]
        return [Exhibit("", kind=kind, key=key)] if kind in ("table", "figure") else []


def place_exhibits(doctree: nodes.document) -> None:
    """Put each exhibit of a cell in the place of the output that it came with, of which a figure keeps the drawing."""
    for bundle in list(doctree.findall(nodes.container)):
        exhibit = next(iter(bundle.findall(Exhibit)), None) if bundle.get("nb_element") == "mime_bundle" else None
        if exhibit is None:
            continue
        html = (part for part in bundle.findall(nodes.container) if part.get("mime_type") == "text/html")
        exhibit += [each for part in html for each in part.children]
        for each in exhibit.findall(nodes.raw):
            each["classes"] = []  # of which HTML would make an element around the drawing
        exhibit.source, exhibit.line = bundle.source, bundle.line
        bundle.replace_self(exhibit)


class ShowExhibits(SphinxPostTransform):
    """Filling of each exhibit of a cell with its record."""

    default_priority = 7

    def run(self, **_: object) -> None:
        """Fill the exhibits of the page; those whose records were refused go."""
        page = state_of(self.env).of(self.env.docname).records
        for exhibit in list(self.document.findall(Exhibit)):
            if "alt" in exhibit:  # which the page drew
                continue
            if page is None or self.app.builder.format != "html":
                exhibit.parent.remove(exhibit)
                continue
            record = page.records[exhibit["key"]]
            if exhibit["kind"] == "table":
                exhibit.attributes |= {"record": record, "laid": laid_out(*from_body(record))}
                continue
            files = {name: f"{FIGURES_FOLDER}/{page.docname}/{name}" for name in record.get("files", ())}
            links = "".join(f' <a href="{escape(to)}" download>{escape(name)}</a>' for name, to in files.items())
            exhibit["alt"] = record["alt"]
            exhibit += Caption("", "", nodes.Text(unbroken(_caption(record))), nodes.raw("", links, format="html"))


def _caption(record: Json) -> str:
    """Return the caption of a figure; of one that shows intervals with a sentence on what they are."""
    numbers = [number for series in record["series"] for number in series["numbers"] if number["interval"]]
    if not numbers:
        return str(record["caption"])
    sure = {math.floor(100 * number["interval"]["confidence"] + 1e-6) for number in numbers}
    said = "95 % intervals" if sure == {95} else "95 % intervals, wider where several are read together"
    wide = not all(format_measurement(measurement_from_record(number)).digits for number in numbers)
    alone = " Where a mark is hollow, the interval is wider than the value." if wide else ""
    return f"{record['caption'].rstrip('.')}. Thin lines are {said}.{alone}"


def _details(record: Json) -> Callable[[int, Column], list[str]]:
    """Return what gives the sentences behind each cell of a table: those of its number, or of its verdict."""

    def behind(row: int, column: Column) -> list[str]:
        cell = record["rows"][row][column.key]
        if not isinstance(cell, dict):
            return []
        return verdict_lines(cell) if column.judged else detail_lines(cell)

    return behind


def _open_exhibit(self: Any, node: Exhibit) -> None:
    """Write a table, or the beginning of a figure."""
    if node["kind"] == "figure":
        self.body.append(f'<figure class="measured-figure" id="{node.label}">\n')
        return
    record = node["record"]
    words = {name: record[name] for name in ("caption", "key", "page")} | {"number": node["number"]}
    self.body.append(laid_html(node["laid"], detail=_details(record), **words))
    raise nodes.SkipNode


def _close_exhibit(self: Any, _: Exhibit) -> None:
    self.body.append("</figure>")


def _open_caption(self: Any, node: Caption) -> None:
    """Write the beginning of a caption, with the figure's number."""
    figure: Any = node.parent
    self.body.append(f"\n<figcaption>{number_html(figure['number'], figure.label)}")


def _close_caption(self: Any, _: Caption) -> None:
    self.body.append("</figcaption>\n")


def setup(app: Sphinx) -> None:
    """Register the nodes, and what fills them."""
    nothing = (add_nothing, add_nothing)
    app.add_node(Exhibit, html=(_open_exhibit, _close_exhibit), text=nothing, latex=nothing)
    app.add_node(Caption, html=(_open_caption, _close_caption), text=nothing, latex=nothing)
    app.add_post_transform(ShowExhibits)
