"""Compact drawings within pages, free of the inline styles that the pages' policy forbids.

Each style becomes the attribute of the same name, which SVG defines for all properties that Matplotlib writes
(SVG 2, section 6.6). Coordinates keep two decimals: a hundredth of a unit is a sixtieth of a pixel as shown.
"""

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

DECIMALS = 2

_DRAWING = re.compile(r"<svg\b.*?</svg>", re.DOTALL)
_STYLE = re.compile(r'\sstyle="([^"]*)"')
_NUMBERS = re.compile(r'(\s(?:d|x|y|x1|x2|y1|y2|cx|cy|r|width|height|points|transform|viewBox|stroke-width)=")([^"]*)"')
_NUMBER = re.compile(r"-?\d+\.\d+")
_SPACES = re.compile(r"\s+")
_GROUP_TAG = re.compile(r"<g\b[^>]*>|</g>")
#: Two neighbours with the same look: what is drawn by several, as the bars of one colour, can be drawn by one.
_ALIKE = re.compile(r'<path d="([^"]*)"((?![^<>]*\sid=)[^<>]*)/>\s*<path d="([^"]*)"\2/>')
#: A rectangle, as Matplotlib draws a bar: from corner to corner, up or down first.
_RECTANGLE = re.compile(r"M (\S+) (\S+) L \1 (\S+) L (\S+) \3 L \4 \2 z")
#: A path that is neither filled nor drawn: the background that Matplotlib was told to leave out.
_UNSEEN = re.compile(r'<path\b[^>]*\sfill="none"(?![^>]*\sstroke)[^>]*/>')


def _attributes(style: re.Match[str]) -> str:
    parts = (part.partition(":") for part in style[1].split(";") if part.strip())
    named = {name.strip(): value.strip() for name, _, value in parts}
    named.pop("font-family", None) if named.get("font-family") == "inherit" else None
    return "".join(f' {name}="{value.removesuffix("px")}"' for name, value in named.items())


def _rounded(number: re.Match[str]) -> str:
    text = f"{float(number[0]):.{DECIMALS}f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def _shorter(attribute: re.Match[str]) -> str:
    numbers = _SPACES.sub(" ", _NUMBER.sub(_rounded, attribute[2])).strip()
    return f'{attribute[1]}{numbers}"'


def _without_bare_groups(drawing: str) -> str:
    """Return the drawing without the tags of groups that say nothing about what is in them."""
    kept: list[bool] = []  # of each group that is open

    def tag(found: re.Match[str]) -> str:
        if found[0].endswith("/>"):
            return found[0] if found[0] != "<g/>" else ""
        if found[0] != "</g>":
            kept.append(found[0] != "<g>")
            return found[0] if kept[-1] else ""
        return found[0] if kept.pop() else ""

    return _GROUP_TAG.sub(tag, drawing)


def _with_joined_paths(drawing: str) -> str:
    """Return the drawing with neighbouring paths that look alike as one path."""
    while True:
        joined = _ALIKE.sub(r'<path d="\1 \3"\2/>', drawing)
        if joined == drawing:
            return drawing
        drawing = joined


def compact(drawing: str) -> str:
    """Return the SVG, which looks the same, without styles, needless digits, groups and paths."""
    drawing = _NUMBERS.sub(_shorter, _STYLE.sub(_attributes, drawing))
    drawing = _without_bare_groups(_UNSEEN.sub("", drawing).replace("<defs></defs>", ""))
    return _RECTANGLE.sub(r"M\1 \2V\3H\4V\2z", _with_joined_paths(drawing))


def compact_all(_: Sphinx, __: str, ___: str, context: dict[str, Any], ____: nodes.document | None) -> None:
    """Make the drawings of a page smaller."""
    if "body" in context:
        context["body"] = _DRAWING.sub(lambda found: compact(found[0]), context["body"])


def setup(app: Sphinx) -> None:
    """Connect to the writing of each page."""
    app.connect("html-page-context", compact_all)
