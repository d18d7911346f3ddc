"""The line that opens a hidden cell holds what the standard allows there."""

from types import SimpleNamespace

from bs4 import BeautifulSoup
from docutils import nodes
from measured_book.elements.nodes import close_hidden_cell, open_hidden_cell
from myst_nb.sphinx_ import HideCodeCellNode

from tests.book.small_book import one


def test_a_hidden_cell_opens_with_a_line_of_text() -> None:
    node = HideCodeCellNode(prompt_show="Show <code>", prompt_hide="Hide", classes=["above-input"])
    node += nodes.paragraph("", "x")
    writer = SimpleNamespace(body=[])
    open_hidden_cell(writer, node)
    writer.body.append("<pre>code</pre>")
    close_hidden_cell(writer, node)
    page = BeautifulSoup("".join(writer.body), "html.parser")
    assert page.select_one("details.hide.above-input > pre") is not None
    summary = one(page, "details > summary")
    parts = [(part.name, part.get_text()) for part in summary.find_all(True)]
    assert parts == [("span", "Show <code>"), ("span", "Hide")]
    assert not summary.attrs
