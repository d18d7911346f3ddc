"""MathML of the book's formulas, written while it is built, so that no page needs a script for them."""

from __future__ import annotations

import re
from html import escape
from typing import Any
from xml.etree import ElementTree as ET

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

LOGGER = logging.getLogger(__name__)
#: How many parts these elements have. Source: MathML 3, section 3.1.3.2.
_PARTS = {"mfrac": 2, "mroot": 2, "msub": 2, "msup": 2, "munder": 2, "mover": 2, "msubsup": 3, "munderover": 3}
_ALIGNED = re.compile(r"\\(begin|end)\{(aligned|split)\}")


class MathError(Exception):
    """Refusal to write a formula as MathML; the message says why."""


def to_mathml(latex: str, *, block: bool) -> str:
    """Return the formula as a ``<math>`` element whose alternative text is its source.

    Raises:
        MathError: if a command in it is unknown, or what comes out is not well-formed.
    """
    source = latex.strip()
    bare = source.replace(r"\{", "").replace(r"\}", "")
    if bare.count("{") != bare.count("}"):
        raise MathError(f"cannot write {source!r} as MathML: a brace has no partner")
    prepared = _ALIGNED.sub(r"\\\1{align*}", source)
    if block and r"\\" in prepared and r"\begin" not in prepared:
        prepared = rf"\begin{{align*}}{prepared}\end{{align*}}"
    try:
        converted = convert(prepared, display="block" if block else "inline")
        root = ET.fromstring(converted)
    except Exception as error:
        raise MathError(f"cannot write {source!r} as MathML: {error or type(error).__name__}") from error
    unknown = [element.text for element in root.iter() if element.text and element.text.startswith("\\")]
    if unknown:
        raise MathError(f"cannot write {source!r} as MathML: {', '.join(unknown)} is unknown")
    names = [(element.tag.rpartition("}")[2], len(element)) for element in root.iter()]
    if any(_PARTS.get(name, count) != count for name, count in names):
        raise MathError(f"cannot write {source!r} as MathML: a command lacks one of its arguments")
    return converted.replace("<math ", f'<math alttext="{escape(source)}" ', 1)


def _written(node: nodes.math | nodes.math_block, *, block: bool) -> str:
    try:
        return to_mathml(node.astext(), block=block)
    except MathError as error:
        LOGGER.warning("%s [mathml]", error, location=node, type="mathml")
        return f"<code>{escape(node.astext())}</code>"


def visit_inline(self: HTML5Translator, node: nodes.math) -> None:
    """Write mathematics within a line."""
    self.body.append(_written(node, block=False))
    raise nodes.SkipNode


def visit_block(self: HTML5Translator, node: nodes.math_block) -> None:
    """Write a displayed formula, in a group that scrolls when it is wider than the page."""
    number = node.get("eqno")
    label = f"equation {number}" if number else "formula"
    attributes: dict[str, Any] = {"role": "group", "tabindex": "0", "aria-label": label}
    self.body.append(self.starttag(node, "div", CLASS="math-block", **attributes))
    self.body.append(_written(node, block=True))
    if number:
        self.body.append(f'<a class="eqno" href="#{node["ids"][0]}">({number})</a>')
    self.body.append("</div>\n")
    raise nodes.SkipNode


def choose_renderer(_: Sphinx, config: Config) -> None:
    """Make this the renderer; Sphinx's default would load MathJax from another host."""
    config.html_math_renderer = "mathml"


def setup(app: Sphinx) -> None:
    """Register the renderer."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    app.connect("config-inited", choose_renderer)
