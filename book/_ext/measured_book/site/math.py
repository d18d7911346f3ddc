"""MathML of the book's formulas, written while it is built, so that no page needs a script for them."""

import re
from collections.abc import Iterator
from html import escape, unescape
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
#: Formulas below each other, and what comes behind all of them.
_ROWS = re.compile(r"\\begin\{(?P<kind>aligned|split|array)\}(?:\{[lcr]+\})?(?P<rows>.*)\\end\{(?P=kind)\}", re.DOTALL)
_TOKEN = re.compile(r"\\(?:begin|end)\{\w+\*?\}|\\[A-Za-z]+|\\.|.", re.DOTALL)
_OPENING, _CLOSING = {"{", "(", "["}, {"}", ")", "]"}
_SPACES = {r"\quad", r"\qquad"}
_RELATIONS = {"=", "<", ">"} | {
    rf"\{name}" for name in ("approx", "le", "leq", "ge", "geq", "iff", "longrightarrow", "to", "propto")
}
_SUMS = {"+", "-"}
#: Letters of a formula's source up to which it fits a phone, and from which it hardly does.
_SHORT, _LONG = 36, 60
_ONLY_WORDS = re.compile(r"\\text\{([^{}$\\]+)\}")
_AFTER = re.compile(r"^[.,;:!?)]+")
_WORDS = re.compile(r"<mtext>([^<]*)</mtext>")
#: Between two parts of a number, as ``{,}`` is converted.
_THOUSANDS = re.compile(r"(?<=\d)</mn><mrow><mo>&#x0002C;</mo></mrow><mn>(?=\d)")
_ARROW = re.compile(r"<mi>(&#x027F[5-9A];)</mi>")


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
    written = _THOUSANDS.sub(",", _ARROW.sub(r"<mo>\1</mo>", _WORDS.sub(_as_name, converted)))
    return written.replace("<math ", f'<math alttext="{escape(source)}" ', 1)


def _as_name(words: re.Match[str]) -> str:
    """Return words as a name: beside ``<mtext>`` alone, which counts as space, a sign gets no space of its own."""
    upright = ' mathvariant="normal"' if len(unescape(words[1])) == 1 else ""
    return f"<mi{upright}>{words[1]}</mi>"


def _outermost(latex: str) -> Iterator[tuple[str, bool]]:
    """Yield the tokens of a formula, each with whether no brace, parenthesis or environment is around it."""
    depth, bare = 0, False
    for token in _TOKEN.findall(latex):
        # A line may be broken within what is as large as \Big[.
        if not bare:
            depth -= token in _CLOSING or token.startswith(r"\end") or token == r"\right"
        yield token, depth == 0
        if not bare:
            depth += token in _OPENING or token.startswith(r"\begin") or token == r"\left"
        bare = bool(re.fullmatch(r"\\Bigg?[lr]?|\\left|\\right", token))


def _split(latex: str, at: str) -> list[str]:
    parts = [""]
    for token, outermost in _outermost(latex):
        if outermost and token == at:
            parts.append("")
        else:
            parts[-1] += token
    return parts


def line_parts(latex: str) -> list[tuple[str, bool]]:
    """Return the parts of a formula that may each begin a line, and whether a wide space stands before each.

    A line may begin with a relation, with a sum's sign, with words, and behind a wide space.
    """
    if len(latex) > _LONG:  # brackets that stretch cannot be broken
        sized = {r"\left": r"\Bigl", r"\right": r"\Bigr"}
        latex = "".join(sized.get(token, token) if outermost else token for token, outermost in _outermost(latex))
    parts, apart = [""], [False]
    tokens = [*_outermost(latex.strip())]
    for place, (token, outermost) in enumerate(tokens):
        begun = parts[-1].strip()
        words = "".join(each for each, _ in tokens[place : place + 3]) == r"\text{ "
        is_sign = token in _RELATIONS or words or (token in _SUMS and begun not in _RELATIONS)
        if outermost and token in _SPACES:
            parts.append("")
            apart.append(True)
        elif outermost and begun and is_sign and len(latex) > _SHORT:
            parts.append(token)
            apart.append(False)
        else:
            parts[-1] += token
    # Of two wide spaces in a row one is enough.
    return [(part.strip(), wide) for part, wide in zip(parts, apart, strict=True) if part.strip()]


def _line(latex: str) -> str:
    """Return the HTML of a formula in parts, between which a line may be broken."""
    html = ""
    parts = line_parts(latex)
    for place, (part, apart) in enumerate(parts):
        written = to_mathml(part, block=True).replace('display="block"', 'displaystyle="true"', 1)
        if (place and not apart) or _TOKEN.findall(part)[0] in _RELATIONS:  # its sign is no prefix
            written = written.replace("<mrow><mo>", '<mrow><mo form="infix">', 1)
        html += (
            '</span><span class="apart"> </span><span class="side">' if apart else "<wbr>" if place else ""
        ) + written
    # What stands between wide spaces goes to the next line whole before it is broken.
    return f'<span class="side">{html}</span>' if any(apart for _, apart in parts) else html


def _cell(latex: str) -> str:
    """Return the HTML of a cell: of words alone, these, as their line can be broken, too."""
    words = _ONLY_WORDS.fullmatch(latex)
    return f"<span>{escape(words[1]) if words else _line(latex)}</span>"


def lines_html(latex: str) -> str:
    """Return a displayed formula as HTML whose lines can be broken where the page is narrow.

    Raises:
        MathError: as `to_mathml`.
    """
    found = _ROWS.fullmatch(latex.strip())
    if found is None:
        if r"\\" in latex:
            return to_mathml(latex, block=True)
        return f'<span class="math-lines">{_line(latex)}</span>'
    rows = [[cell.strip() for cell in _split(row, "&")] for row in _split(found["rows"], r"\\") if row.strip()]
    if len({len(row) for row in rows}) > 1 or (found["kind"] != "array" and len(rows[0]) != 2):
        return to_mathml(latex, block=True)
    kind = f"columns-{len(rows[0])}" if found["kind"] == "array" else "aligned"
    cell = _cell if found["kind"] == "array" else lambda latex: f"<span>{_line(latex)}</span>"
    made = "".join(f'<span class="math-row">{" ".join(map(cell, row))}</span>' for row in rows)
    return f'<span class="math-lines"><span class="math-rows {kind}">{made}</span></span>'


def _written(node: nodes.math | nodes.math_block, *, block: bool) -> str:
    try:
        return lines_html(node.astext()) if block else to_mathml(node.astext(), block=False)
    except MathError as error:
        LOGGER.warning("%s [mathml]", error, location=node, type="mathml")
        return f"<code>{escape(node.astext())}</code>"


def keep_punctuation(_: Sphinx, doctree: nodes.document, __: str) -> None:
    """Hold to each formula within a line the punctuation behind it, which a browser may put on the next line."""
    for node in list(doctree.findall(nodes.math)):
        place = node.parent.index(node) + 1
        behind = node.parent[place] if place < len(node.parent) else None
        if isinstance(behind, nodes.Text) and (found := _AFTER.match(behind.astext())):
            node["after"] = found[0]
            node.parent[place] = nodes.Text(behind.astext()[found.end() :])


def visit_inline(self: HTML5Translator, node: nodes.math) -> None:
    """Write mathematics within a line."""
    written, after = _written(node, block=False), node.get("after")
    self.body.append(f'<span class="keep">{written}{escape(after)}</span>' if after else written)
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
    app.connect("doctree-resolved", keep_punctuation)
