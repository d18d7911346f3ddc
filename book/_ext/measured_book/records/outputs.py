"""Outputs of cells that plain Jupyter publishes and this book does not, each refused with the call to use instead.

A cell whose code is shown may print, but no number that a clock made, which on a page has an interval: unless it is
tagged ``prints``, where what an instrument returns is the lesson. An exercise's check says what it found.
"""

import ast
import re
from collections.abc import Iterator

import nbformat
from docutils import nodes
from sphinx.util import logging

from measured_book.notebooks.exercises import CHECK
from tinytorch.prose import is_of_text
from tinytorch.report.records import FAULT_MIME, RECORD_MIME

LOGGER = logging.getLogger(__name__)
_CODE_HIDDEN = ("hide-input", "hide-cell", "remove-input", "remove-cell")
_PRINTS = "prints"
_OUTPUTS_REMOVED = ("remove-cell", "remove-output")
#: The method whose cell prints what the snippet printed that the page shows above it.
_PRINTS_OF_PYTORCH = "page.printed("
#: A float as nobody formatted it.
_RAW_FLOAT = re.compile(r"\d\.\d{5,}|\de-\d\d")
#: What code formats and then calls a time, a rate or a factor.
_CLOCKED = re.compile(
    r"\{[^{}]*\}\s?(?:(?:[num\u00b5\u03bc]?s|seconds?|min|minutes?|times|x)\b|\u00d7|\w+(?:/s| per second)\b)"
)
#: An object as Python writes it that nobody told how.
_OBJECT = re.compile(r"<[^<>\n]+ at 0x[0-9a-f]+>|<(?:Figure|Axes)\b[^>\n]*>")

PLOT = (
    "a plot was published without caption or number: hand the figure to page.figure(key, figure, caption=..., alt=...)"
)
TABLE = (
    "a table was published without caption, units and intervals: hand its rows to "
    "page.table(key, rows, {attribute: heading}, caption=...)"
)
HTML = "HTML was published that Page did not make: write it as Markdown on the page, or hand values to page.table(...)"
NUMBER = (
    "a number was published without unit and interval: hand what was measured to page.number(key, value), and take it "
    "into the prose as {measured}`key`; a cell whose shown code is to print it is tagged prints"
)
OBJECT = "an object was published as Python writes it, {}: give the value of the cell's last line a name, as in _ = ..."


def faults(cell: nbformat.NotebookNode) -> Iterator[str]:
    """Yield what is wrong with the outputs of a cell that its page shows."""
    tags = cell.metadata.get("tags", [])
    outputs = [] if any(tag in tags for tag in _OUTPUTS_REMOVED) else cell.get("outputs", [])
    for output in outputs:
        data = output.get("data", {})
        if RECORD_MIME in data or FAULT_MIME in data or output.get("name") == "stderr":
            continue
        if any(mime.startswith("image/") for mime in data):
            yield PLOT
        elif "text/html" in data:
            yield TABLE if "<table" in data["text/html"] else HTML
        elif CHECK not in tags and _PRINTS not in tags:
            hidden = any(tag in tags for tag in _CODE_HIDDEN)
            yield from _said(output.get("text", data.get("text/plain", "")), cell.source, hidden=hidden)


def _said(text: str, code: str, *, hidden: bool) -> Iterator[str]:
    """Yield what is wrong with a text that a cell printed or ended with."""
    says_digits = hidden and re.search(r"\d", text) is not None and _PRINTS_OF_PYTORCH not in code
    if found := _OBJECT.search(text):
        yield OBJECT.format(found[0])
    elif says_digits or _RAW_FLOAT.search(text) or _prints_clocked(code):
        yield NUMBER


def _prints_clocked(code: str) -> bool:
    """Return whether code prints a formatted number with a unit of time, a rate or a factor behind it."""
    try:
        tree = ast.parse(code)
    except SyntaxError:  # a magic command
        return False
    printed = (node.args for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "print")
    texts = (ast.unparse(each) for arguments in printed for each in arguments if isinstance(each, ast.JoinedStr))
    return any(_CLOCKED.search(text) for text in texts)


def refuse(doctree: nodes.document, notebook: nbformat.NotebookNode, docname: str) -> None:
    """Warn of each fault of a page's outputs with its line and cell, and take the outputs of these cells away."""
    for shown in list(doctree.findall(nodes.container)):
        if shown.get("nb_element") != "cell_code":
            continue
        before = notebook.cells[: shown["cell_index"] + 1]
        number = sum(cell.cell_type == "code" and not is_of_text(cell) for cell in before)
        found = list(dict.fromkeys(faults(before[-1])))
        for fault in found:
            within = docname, (shown.line or 1) - 1  # MyST-NB counts one line too many
            LOGGER.warning("cell %d: %s [outputs]", number, fault, location=within, type="outputs")
        for part in list(shown.children) if found else []:
            if isinstance(part, nodes.container) and part.get("nb_element") == "cell_code_output":
                shown.remove(part)
