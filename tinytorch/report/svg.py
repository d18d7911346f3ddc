"""Writes a figure as SVG for a page: the page's own text colour and font, no ids that could collide."""

from __future__ import annotations

import io
import re
from xml.etree import ElementTree as ET

import matplotlib as mpl
from matplotlib.figure import Figure

_SVG = "http://www.w3.org/2000/svg"
_XLINK = "{http://www.w3.org/1999/xlink}href"
_REFERENCE = re.compile(r"url\(#([^)]+)\)")
_FONT_FAMILY = re.compile(r"font-family:[^;]*")
_PIXELS_PER_INCH = 96
_NO_METADATA = dict.fromkeys(("Date", "Creator", "Format", "Type"))
#: What matplotlib puts into a style sheet for ``*``, which inline in a page would reach all of the page.
_ROOT_STYLE = "stroke-linejoin: round; stroke-linecap: butt"


def _raw_svg(figure: Figure, key: str) -> str:
    buffer = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": key, "path.simplify": True}):
        figure.savefig(buffer, format="svg", transparent=True, metadata=_NO_METADATA)
    return buffer.getvalue()


def page_png(figure: Figure) -> bytes:
    """Return the figure as a PNG on white, twice as large as on the page, laid out as `page_svg` has left it."""
    buffer = io.BytesIO()
    figure.set_layout_engine("none")
    figure.savefig(buffer, format="png", dpi=2 * _PIXELS_PER_INCH, facecolor="white", metadata={"Software": None})
    return buffer.getvalue()


def _with_page_style(style: str, ink: str, prefix: str) -> str:
    style = _FONT_FAMILY.sub("font-family: inherit", style)
    style = re.sub(rf"{ink}|#000000", "currentColor", style, flags=re.IGNORECASE)
    return _REFERENCE.sub(rf"url(#{prefix}\1)", style)


def _referenced(root: ET.Element) -> set[str]:
    """Return the ids that something in the drawing refers to."""
    found: set[str] = set()
    for element in root.iter():
        for name, value in element.attrib.items():
            if name == _XLINK:
                found.add(value.removeprefix("#"))
            found.update(_REFERENCE.findall(value))
    return found


def _rewrite(element: ET.Element, referenced: set[str], ink: str, prefix: str) -> None:
    """Give one element the page's colours and font, and ids that are the figure's own."""
    attributes = dict(element.attrib)
    element.attrib.clear()
    for name, value in attributes.items():
        if name == "id":
            if value in referenced:
                element.set("id", prefix + value)
        elif name == _XLINK:
            element.set("href", "#" + prefix + value.removeprefix("#"))
        else:
            element.set(name, _with_page_style(value, ink, prefix))


def _without(root: ET.Element, tags: tuple[str, ...]) -> None:
    unwanted = {f"{{{_SVG}}}{tag}" for tag in tags}
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in unwanted:
                parent.remove(child)


def page_svg(figure: Figure, *, key: str, alt: str, ink: str) -> str:
    """Return the figure as an ``<svg>`` element: transparent, as wide as its place, the same for the same data.

    Args:
        figure: what to draw.
        key: goes before each id and into the hash that matplotlib makes ids of.
        alt: what a reader who does not see the figure is told.
        ink: the colour in the figure that stands for the page's text colour.
    """
    root = ET.fromstring(_raw_svg(figure, key))
    _without(root, ("metadata", "style"))
    prefix = f"figure-{key}-"
    referenced = _referenced(root)
    for element in root.iter():
        _rewrite(element, referenced, ink, prefix)
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    description = ET.Element(f"{{{_SVG}}}desc", {"id": f"{prefix}alt"})
    description.text = alt
    root.insert(0, description)
    root.set("role", "img")
    root.set("aria-labelledby", f"{prefix}alt")
    root.set("fill", "currentColor")
    root.set("style", _ROOT_STYLE)
    ET.register_namespace("", _SVG)
    return re.sub(r">\s+<", "><", ET.tostring(root, encoding="unicode"))
