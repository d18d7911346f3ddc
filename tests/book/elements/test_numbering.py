"""Numbers of figures, tables and equations, the labels that they are of, and the line that opens a hidden cell."""

from types import SimpleNamespace

from bs4 import BeautifulSoup
from docutils import nodes
from docutils.utils import new_document
from measured_book.elements.exhibits import Exhibit
from measured_book.elements.nodes import close_hidden_cell, open_hidden_cell
from measured_book.elements.numbering import labels_in, named, numbers_of
from myst_nb.sphinx_ import HideCodeCellNode

from tests.book.small_book import one

LABELS = ("figure-roof", "table-ops", "figure-ladder", "equation-1", "table-levels")


def test_each_kind_is_counted_by_itself_within_its_chapter() -> None:
    assert numbers_of(LABELS, 3) == {
        "figure-roof": "3.1",
        "table-ops": "3.1",
        "figure-ladder": "3.2",
        "equation-1": "3.1",
        "table-levels": "3.2",
    }
    assert numbers_of(LABELS, None)["table-levels"] == "2"


def test_an_equation_s_number_stands_in_parentheses() -> None:
    assert named("figure-roof", "3.1") == "Figure\u00a03.1"
    assert named("equation-1", "3.2") == "Equation\u00a0(3.2)"


def test_the_labels_of_a_page_are_those_of_its_outputs_and_formulas_in_order() -> None:
    document = new_document("made")
    document += Exhibit("", kind="table", key="ops")
    document += nodes.math_block("x", "x")
    document += nodes.math_block("y", "y", ids=["equation-known"])
    document += nodes.container("", Exhibit("", kind="figure", key="roof"))
    document += nodes.raw("", '<p id="figure-other">Not measured.</p>', format="html")
    assert labels_in(document) == ("table-ops", "equation-1", "equation-known", "figure-roof")
    assert [block["ids"] for block in document.findall(nodes.math_block)] == [["equation-1"], ["equation-known"]]


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
