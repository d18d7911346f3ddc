"""The result that opens a chapter, and the notes about the chapter at its end.

``{result} attention-share`` holds what the chapter found: a sentence, a list of numbers, each after its words and a
colon, and a small copy of the figure of this key, which the page shows in full further down. ``{about}`` holds what a
reader should know of the chapter itself; it becomes a section at the page's end, to which the line below the result
leads.
"""

import re
from html import escape
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import DoctreeReadEvent, SphinxTransform
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.docutils import SphinxDirective

from measured_book.elements.exhibits import Caption, Exhibit, Result
from measured_book.elements.nodes import add_nothing, load_where, raw_html
from measured_book.records.card import ABOUT_ID
from measured_book.records.roles import warn
from measured_book.state import state_of
from tinytorch.report.records import ABSENT

STYLE, SCRIPT = "result.css", "listen.js"
ABOUT_TITLE = "About this chapter"

#: The drawing that is laid out for a phone, which of a plot is the second; of a drawing the only one.
_SMALL = re.compile(r'<svg class="narrow".*</svg>|<svg (?!class="wide").*</svg>', re.DOTALL)
_SENTENCE = re.compile(r".+?[.?!](?=\s|$)", re.DOTALL)


class About(nodes.General, nodes.Element):
    """What a reader should know of a chapter, until it stands at the page's end."""


class ResultDirective(SphinxDirective):
    """``{result} key``: a sentence and a list of numbers, as they stand beside a small copy of the figure ``key``."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        """Return the result, or warn if it is not a sentence with a list below it."""
        node = Result("", figure=self.arguments[0])
        self.set_source_info(node)
        self.state.nested_parse(self.content, self.content_offset, node)
        if [type(child) for child in node.children] != [nodes.paragraph, nodes.bullet_list]:
            warn("{result} holds one paragraph, and below it a list of numbers, each after its words and a colon", node)
            return []
        return [node]


class AboutDirective(SphinxDirective):
    """``{about}``: what the chapter needs, teaches and leaves out, for the end of the page."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """Return the text, which `MoveAbout` takes to the end."""
        node = About()
        self.set_source_info(node)
        self.state.nested_parse(self.content, self.content_offset, node)
        return [node]


class MoveAbout(SphinxTransform):
    """Moving of what a page says of itself into a section at its end."""

    # Ahead of what appends the card, which stays last.
    default_priority = DoctreeReadEvent.default_priority - 2

    def apply(self, **_: Any) -> None:
        """Move it."""
        for about in list(self.document.findall(About)):
            about.parent.remove(about)
            title = nodes.title("", ABOUT_TITLE)
            section = nodes.section("", title, *about.children, ids=[ABOUT_ID], names=[])
            next(iter(self.document.findall(nodes.section)), self.document).append(section)


class DrawResult(SphinxPostTransform):
    """Copying of a page's figure into its result, once the figure is filled and has its number."""

    default_priority = 9

    def run(self, **_: Any) -> None:
        """Copy it, small and under ids of its own; warn if the page has no such drawing."""
        docname = self.env.docname
        for result in self.document.findall(Result):
            key = result["figure"]
            exhibit = next((one for one in self.document.findall(Exhibit) if one.label == f"figure-{key}"), None)
            html = "".join(part.astext() for part in exhibit.findall(nodes.raw)) if exhibit is not None else ""
            if exhibit is not None and (drawn := _SMALL.search(html)):
                caption = next(iter(exhibit.findall(Caption))).astext()
                result += raw_html(small_figure(drawn[0], key, str(exhibit["number"]), caption))
            elif state_of(self.env).find(key, docname, ABSENT) is None:
                warn(f"{{result}}: page {docname!r} shows no plot or drawing {key!r}", result)


def small_figure(drawing: str, key: str, number: str, caption: str) -> str:
    """Return a figure's drawing with the first sentence of its caption and a link to the figure itself."""
    own = drawing.replace(f"figure-{key}-", "result-").replace('<svg class="narrow"', "<svg", 1)
    said = _SENTENCE.match(caption)
    return (
        f'<figure class="measured-figure">{own}\n<figcaption><a href="#figure-{escape(key)}">{number}</a>: '
        f"{escape(said[0] if said else caption)}</figcaption></figure>"
    )


def _open(self: Any, _: Result) -> None:
    self.body.append('<div class="chapter-result">\n')


def _close(self: Any, _: Result) -> None:
    self.body.append("</div>\n")


def setup(app: Sphinx) -> None:
    """Register the directives, their nodes and their files."""
    nothing = (add_nothing, add_nothing)
    app.add_node(Result, html=(_open, _close), text=nothing, latex=nothing)
    app.add_node(About)
    app.add_directive("result", ResultDirective)
    app.add_directive("about", AboutDirective)
    app.add_transform(MoveAbout)
    app.add_post_transform(DrawResult)
    load_where(app, ('class="chapter-result"',), (STYLE,), (SCRIPT,))
