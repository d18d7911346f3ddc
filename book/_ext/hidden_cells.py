"""Writes the line that opens a hidden cell as the standard has it: MyST-NB puts paragraphs into it."""

from __future__ import annotations

from html import escape
from typing import Any

from myst_nb.sphinx_ import HideCodeCellNode
from sphinx.application import Sphinx


def _open(self: Any, node: HideCodeCellNode) -> None:
    """Write the fold and its line, of which styles show one half."""
    classes = " ".join(["admonition", "hide", *node["classes"]])
    self.body.append(
        f'<details class="{escape(classes)}">\n<summary><span class="collapsed">{escape(node["prompt_show"])}</span>'
        f'<span class="expanded">{escape(node["prompt_hide"])}</span></summary>\n'
    )


def _close(self: Any, _: HideCodeCellNode) -> None:
    self.body.append("</details>\n")


def setup(app: Sphinx) -> dict[str, Any]:
    """Take the place of MyST-NB's writer."""
    app.setup_extension("myst_nb")
    app.add_node(HideCodeCellNode, override=True, html=(_open, _close))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
