"""Drawings of how things work: SVG files, edited by hand, that pages show among their figures.

``{drawing} ruler`` on the page ``quantization`` shows ``_static/drawings/quantization/ruler.svg``. Its ``:alt:`` tells
a reader who does not see it what it shows, its body is the caption. A file holds shapes and words; their colours are
classes of `STYLE`, which is part of the book's style sheet.
"""

import re
from pathlib import Path
from typing import Any, ClassVar
from xml.etree import ElementTree as ET

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

from measured_book.elements.exhibits import Caption, Exhibit
from measured_book.state import state_of

LOGGER = logging.getLogger(__name__)
#: Relative to the book's sources; the drawings of each page are in a folder of its name.
FOLDER = Path("_static", "drawings")
STYLE = FOLDER / "drawings.css"

_COMMENT = re.compile(r"\s*/\*.*?\*/\s*", re.DOTALL)
_SVG = "http://www.w3.org/2000/svg"
# As the root of a page's drawing, or of a file, without a prefix before each element's name.
ET.register_namespace("", _SVG)
#: On the page a drawing takes its colours and font from the text around it; a file of its own has none around.
_ALONE = "color: #1b1f24; background: #fff; font-family: sans-serif"


def path_of(env: BuildEnvironment, docname: str, key: str) -> Path:
    """Return where the file of a page's drawing is."""
    return Path(env.srcdir, FOLDER, docname, f"{key}.svg")


def on_page(drawing: str, *, key: str, alt: str) -> str:
    """Return the ``<svg>`` element that a page holds of a file's text: with words for it, without its style sheet.

    Raises:
        ValueError: if the text is no SVG.
    """
    try:
        root = ET.fromstring(drawing)
    except ET.ParseError as error:
        raise ValueError(f"it is not XML: {error}") from error
    if root.tag != f"{{{_SVG}}}svg":
        raise ValueError(f"its root is no <svg> of {_SVG}")
    for style in root.findall(f"{{{_SVG}}}style"):
        root.remove(style)
    root.set("role", "img")
    root.set("aria-labelledby", f"figure-{key}-alt")
    words = ET.Element(f"{{{_SVG}}}desc", {"id": f"figure-{key}-alt"})
    words.text = alt
    root.insert(0, words)
    return "".join(line.strip() for line in ET.tostring(root, encoding="unicode").splitlines())


def standing_alone(drawing: str, style: str = "") -> str:
    """Return the text of an SVG file that needs no other: of a figure of a page, or of a drawing with ``style``."""
    root = ET.fromstring(drawing)
    for sheet in root.findall(f"{{{_SVG}}}style"):
        sheet.text = style
    root.set("style", "; ".join(filter(None, (_ALONE, root.get("style")))))
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def drawing_alone(env: BuildEnvironment, docname: str, key: str) -> str:
    """Return a page's drawing as the text of an SVG file that needs no other."""
    style = _COMMENT.sub("", Path(env.srcdir, STYLE).read_text("utf-8"))
    return standing_alone(path_of(env, docname, key).read_text("utf-8"), style)


class DrawingDirective(SphinxDirective):
    """``{drawing} key``, with ``:alt:``; the body is the caption, one paragraph."""

    required_arguments = 1
    has_content = True
    option_spec: ClassVar[dict[str, Any]] = {"alt": directives.unchanged}

    def run(self) -> list[nodes.Node]:
        """Return the figure; a warning and nothing where something of it is missing."""
        key, alt = self.arguments[0], " ".join(self.options.get("alt", "").split())
        path, docname = path_of(self.env, self.env.docname, key), self.env.docname
        self.env.note_dependency(str(path))
        held = nodes.container()
        self.state.nested_parse(self.content, self.content_offset, held)
        caption = held[0] if len(held) == 1 and isinstance(held[0], nodes.paragraph) else None
        if not alt:
            return self._refused(key, "needs an :alt: that says what it shows to who does not see it")
        if caption is None:
            return self._refused(key, "needs a caption of one paragraph in its body")
        if alt == " ".join(caption.astext().split()):
            return self._refused(key, "needs an :alt: that says more than its caption")
        if not path.is_file():
            return self._refused(key, f"has no file {path.relative_to(self.env.srcdir).as_posix()}")
        try:
            svg = on_page(path.read_text("utf-8"), key=key, alt=alt)
        except ValueError as error:
            return self._refused(key, f"cannot be read: {error}")
        state_of(self.env).of(docname).drawings[key] = " ".join(caption.astext().split())
        said = Caption("", "", *caption.children)
        drawn = Exhibit("", nodes.raw("", svg, format="html"), said, kind="figure", key=key, alt=alt)
        self.set_source_info(drawn)
        return [drawn]

    def _refused(self, key: str, why: str) -> list[nodes.Node]:
        LOGGER.warning("drawing %r %s [drawing]", key, why, location=self.get_location())
        return []


def setup(app: Sphinx) -> None:
    """Register the directive."""
    app.add_directive("drawing", DrawingDirective)
