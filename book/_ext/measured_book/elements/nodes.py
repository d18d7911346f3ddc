"""Elements that several parts of pages are made of: HTML made late, folded text, hidden cells, styles and scripts."""

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from myst_nb.sphinx_ import HideCodeCellNode
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.docutils import SphinxDirective

#: What all explorers of pages need before their own.
EXPLORER_STYLES = ("explorer.css",)
EXPLORER_SCRIPTS = ("your-machine-numbers.js", "your-machine-tables.js", "explorer.js", "roofline-model.js")


def raw_html(html: str) -> nodes.raw:
    """Return a node of HTML that code made, in which no words are read."""
    return nodes.raw("", html, format="html", words="")


def line_of(text: str, source: str, first: int = 1) -> int:
    """Return the first line of a page from line ``first`` on that holds a text; ``first`` if none does.

    Of what stands within a paragraph docutils knows only the line at which the paragraph begins.
    """
    lines = Path(source).read_text("utf-8").splitlines()
    return next((number for number, line in enumerate(lines[first - 1 :], first) if text in line), first)


def place_of(node: nodes.Element) -> nodes.Element:
    """Return a node whose attribute ``written`` says how its role is written, at the line of the role."""
    if node.source and node.line and node.get("written"):
        node.line = line_of(node["written"], node.source, node.line)
    return node


class Written(nodes.General, nodes.Element):
    """HTML that code made, with the lines that it says inside, to be read. Attribute: ``html``."""


def _write(self: Any, node: Written) -> None:
    self.body.append(node["html"])
    raise nodes.SkipNode


def table_region(key: str, caption: str, head: str, rows: str, *, classes: str = "measured-table") -> str:
    """Return a sortable table in a region that scrolls; ``key`` says what it shows, ``head`` and ``rows`` are HTML."""
    return (
        f'<div class="{classes}" data-key="{key}" role="region" tabindex="0" aria-labelledby="{key}-caption">\n'
        f'<table class="sortable">\n<caption id="{key}-caption">{escape(caption)}</caption>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table>\n</div>"
    )


class LateHtml(nodes.General, nodes.Element):
    """Place of HTML that is made once all pages are read."""

    def html(self, app: Sphinx, docname: str) -> str:
        """Return what stands here on the page ``docname``."""
        raise NotImplementedError

    def made(self, app: Sphinx, docname: str) -> nodes.Node:
        """Return it as a node; one of what is text is of text, not of HTML, so that it is read."""
        return raw_html(self.html(app, docname))


class ResolveLateHtml(SphinxPostTransform):
    """Replacement of each `LateHtml` by its HTML; other builders show nothing there."""

    default_priority = 6  # behind that of the records, which docutils orders by this number

    def run(self, **_: Any) -> None:
        """Resolve every node of the page."""
        for node in list(self.document.findall(LateHtml)):
            if self.app.builder.format == "html":
                node.replace_self(node.made(self.app, self.env.docname))
            else:
                node.parent.remove(node)


class Fold(nodes.General, nodes.Element):
    """Part of a page that is folded until the reader opens it; it needs no script.

    Attributes: ``summary``, the line that opens it, and ``classes``.
    """


def _open_fold(self: Any, node: Fold) -> None:
    classes = " ".join(["hide", "fold", *node["classes"]])
    self.body.append(
        f'<details class="{escape(classes)}"><summary>{escape(node["summary"])}</summary>\n'
        '<div class="sd-summary-content">\n'
    )


def _close_fold(self: Any, _: Fold) -> None:
    self.body.append("</div>\n</details>\n")


def add_nothing(_self: Any, _node: nodes.Element) -> None:
    """Add nothing around a node: builders other than HTML's show what is in it as it is."""


def open_hidden_cell(self: Any, node: HideCodeCellNode) -> None:
    """Write the fold of a hidden cell and its line, of which styles show one half.

    MyST-NB puts paragraphs into the line, which the standard of HTML does not allow.
    """
    classes = " ".join(["admonition", "hide", *node["classes"]])
    self.body.append(
        f'<details class="{escape(classes)}">\n<summary><span class="collapsed">{escape(node["prompt_show"])}</span>'
        f'<span class="expanded">{escape(node["prompt_hide"])}</span></summary>\n'
    )


def close_hidden_cell(self: Any, _: HideCodeCellNode) -> None:
    """Close the fold of a hidden cell."""
    self.body.append("</details>\n")


def load_where(app: Sphinx, marks: Sequence[str], styles: Sequence[str], scripts: Sequence[str] = ()) -> None:
    """Load files of ``_static`` on pages whose HTML holds one of the ``marks``; scripts in order, when all is read."""

    def load(app: Sphinx, _: str, __: str, context: dict[str, Any], ___: nodes.document | None) -> None:
        if not any(mark in context.get("body", "") for mark in marks):
            return
        for name in styles:
            app.add_css_file(name)
        for name in scripts:
            app.add_js_file(name, loading_method="defer")

    app.connect("html-page-context", load)


def add_place(app: Sphinx, directive: str, place: type[LateHtml], **attributes: Any) -> None:
    """Add a directive without options that stands for a `LateHtml` with these attributes."""

    class Place(SphinxDirective):
        """Directive that returns the place."""

        def run(self) -> list[nodes.Node]:
            node = place(**attributes)
            self.set_source_info(node)
            return [node]

    app.add_directive(directive, Place)


def setup(app: Sphinx) -> None:
    """Tell Sphinx how the elements are written."""
    app.add_node(
        Fold, html=(_open_fold, _close_fold), text=(add_nothing, add_nothing), latex=(add_nothing, add_nothing)
    )
    app.add_node(Written, html=(_write, None))
    app.add_node(HideCodeCellNode, override=True, html=(open_hidden_cell, close_hidden_cell))
    app.add_post_transform(ResolveLateHtml)
