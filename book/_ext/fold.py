"""A part of a page that is folded until the reader opens it; it needs no script."""

from __future__ import annotations

from html import escape
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx


class Fold(nodes.General, nodes.Element):
    """Holds what is folded. Attributes: ``summary``, the line that opens it, and ``classes``."""


def _open(self: Any, node: Fold) -> None:
    classes = " ".join(["hide", "fold", *node["classes"]])
    self.body.append(
        f'<details class="{escape(classes)}"><summary>{escape(node["summary"])}</summary>\n'
        '<div class="sd-summary-content">\n'
    )


def _close(self: Any, _: Fold) -> None:
    self.body.append("</div>\n</details>\n")


def _nothing(_self: Any, _node: Fold) -> None:
    """Add nothing around what is folded: other builders show it as it is."""


def setup(app: Sphinx) -> dict[str, Any]:
    """Tell Sphinx how a fold is written."""
    app.add_node(Fold, html=(_open, _close), text=(_nothing, _nothing), latex=(_nothing, _nothing))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
