"""Numbers of chapters, figures, tables and equations: "Figure 3.2", each a link to itself, and ``{numref}`` to them.

Nothing is typed: a chapter's number is its place in ``_toc.yml``, and a figure's its place in the chapter. The pages of
the part `REFERENCE` have no number, and their figures none of a chapter. ``{numref}`figure-roof` `` and
``{numref}`machine:table-ladder` `` become links with the number as their words; ``{eq}`` of an equation, too.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging
from sphinx.util.docutils import SphinxRole

from measured_book.elements.exhibits import Exhibit
from measured_book.elements.nodes import place_of
from measured_book.sources.names import REFERENCE, split_reference, unknown_key
from measured_book.state import reading_order, state_of

LOGGER = logging.getLogger(__name__)
#: What is numbered, with its word; an equation's number stands in parentheses.
WORDS = {"figure": "Figure", "table": "Table", "equation": "Equation"}


@dataclass(frozen=True)
class Part:
    """A part of the book: its name, empty for what stands in none, and its pages with their numbers, if any."""

    name: str
    pages: tuple[tuple[str, int | None], ...]


def parts_of(env: BuildEnvironment) -> list[Part]:
    """Return the parts of the book in order, with each page's number; one without a name where pages list others."""
    site_map = getattr(env.config, "external_site_map", None)
    if site_map is None:
        return [Part("", tuple((name, None) for name in reading_order(env) if name != env.config.root_doc))]
    found, count = [], 0
    for subtree in site_map.root.subtrees:
        name, pages = subtree.caption or "", []
        for item in map(str, subtree.files()):
            number = None
            if name and name != REFERENCE:
                count += 1
                number = count
            pages.append((item, number))
        found.append(Part(name, tuple(pages)))
    return found


def chapter_number(env: BuildEnvironment, docname: str) -> int | None:
    """Return the number of the chapter, None of a page that is none."""
    return next((number for part in parts_of(env) for name, number in part.pages if name == docname), None)


def labels_in(doctree: nodes.document) -> tuple[str, ...]:
    """Return the ids of the figures, tables and equations of a page, in their order; an equation without gets one."""
    found: list[str] = []
    for node in doctree.findall(lambda node: isinstance(node, Exhibit | nodes.math_block)):
        if isinstance(node, Exhibit):
            found.append(node.label)
        elif isinstance(node, nodes.math_block):
            count = sum(label.startswith("equation-") for label in found) + 1
            node["ids"] = node["ids"] or [f"equation-{count}"]
            found.append(str(node["ids"][0]))
    return tuple(found)


def numbers_of(labels: Sequence[str], chapter: int | None) -> dict[str, str]:
    """Return the number of each label: 3.2 for the second figure of the third chapter."""
    counts: Counter[str] = Counter()
    found = {}
    for label in labels:
        kind = label.partition("-")[0]
        counts[kind] += 1
        found[label] = f"{counts[kind]}" if chapter is None else f"{chapter}.{counts[kind]}"
    return found


def page_numbers(env: BuildEnvironment, docname: str) -> dict[str, str]:
    """Return the number of each figure, table and equation of a page, by its id."""
    return numbers_of(state_of(env).of(docname).labels, chapter_number(env, docname))


def named(label: str, number: str) -> str:
    """Return "Figure 3.2", or of an equation "Equation (3.2)"."""
    kind = label.partition("-")[0]
    return f"{WORDS[kind]}\u00a0{f'({number})' if kind == 'equation' else number}"


class NumberReference(nodes.General, nodes.Inline, nodes.Element):
    """Place of a link to what has a number. Attributes: ``page`` and ``label``."""


class NumberRole(SphinxRole):
    """``{numref}`figure-roof` ``, or ``{numref}`machine:table-ladder` `` of another page."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """Return the place of the link."""
        page, label = split_reference(self.text.strip(), self.env.docname)
        state_of(self.env).of(self.env.docname).uses.add(page)
        node = NumberReference(page=page, label=label, written=f"{{numref}}`{self.text}`")
        self.set_source_info(node)
        return [node], []


class Number(SphinxPostTransform):
    """Numbering of a page's figures, tables and equations, and of the references to any."""

    default_priority = 8  # behind what fills them

    def run(self, **_: Any) -> None:
        """Number what the page holds."""
        docname = self.env.docname
        numbers = page_numbers(self.env, docname)
        for exhibit in self.document.findall(Exhibit):
            exhibit["number"] = named(exhibit.label, numbers[exhibit.label])
        for block in self.document.findall(nodes.math_block):
            block["eqno"] = numbers.get(str(block["ids"][0]))
        for node in list(self.document.findall(NumberReference)):
            self._refer(node, node["page"], node["label"])
        for xref in list(self.document.findall(addnodes.pending_xref)):
            if (xref.get("refdomain"), xref.get("reftype")) == ("math", "eq"):
                label = nodes.make_id(f"equation-{xref['reftarget']}")
                known = (name for name, page in state_of(self.env).pages.items() if label in page.labels)
                self._refer(xref, next(known, docname), label)

    def _refer(self, node: nodes.Element, page: str, label: str) -> None:
        number = page_numbers(self.env, page).get(label)
        if number is None and state_of(self.env).of(page).left_out:  # a build of other pages knows none of its outputs
            node.replace_self(nodes.Text(WORDS.get(label.partition("-")[0], label)))
            return
        if number is None:
            kind = label.partition("-")[0]
            numbered = page_numbers(self.env, page)
            known = [each for each in numbered if each.startswith(f"{kind}-")] or numbered
            said = unknown_key(page, kind if kind in WORDS else "figure, table or equation", label, known)
            LOGGER.warning("%s [measured]", said, location=place_of(node), type="measured")
            node.replace_self(nodes.Text(label))
            return
        address = "" if page == self.env.docname else self.app.builder.get_relative_uri(self.env.docname, page)
        words = named(label, number)
        node.replace_self(nodes.reference("", words, internal=True, refuri=f"{address}#{label}"))


def sidebar(app: Sphinx, docname: str) -> Iterator[dict[str, Any]]:
    """Yield each part with its pages, as the templates list them."""
    for part in parts_of(app.env):
        pages = [
            {
                "name": name,
                "number": number,
                "title": app.env.titles[name].astext(),
                "address": "#" if name == docname else app.builder.get_relative_uri(docname, name),
                "current": name == docname,
                "holds": docname in app.env.toctree_includes.get(name, []),
            }
            for name, number in part.pages
            if name in app.env.titles
        ]
        yield {"name": part.name, "pages": pages}


def add_chapter_number(
    app: Sphinx, pagename: str, _: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Put a chapter's number before its title, and hand all parts to the templates."""
    context["parts"] = list(sidebar(app, pagename))
    in_order: list[dict[str, Any]] = [page for part in context["parts"] for page in part["pages"]]
    place = next((place for place, page in enumerate(in_order) if page["current"]), None)
    if pagename == app.config.root_doc:
        place = -1
    beside = {"previous_page": -1, "next_page": 1}
    for name, step in beside.items():
        at = None if place is None else place + step
        context[name] = in_order[at] if at is not None and 0 <= at < len(in_order) else None
    number = context["number"] = None if doctree is None else chapter_number(app.env, pagename)
    if number is not None and "body" in context:
        said = f'<h1><span class="chapter-number">{number}</span> '
        context["body"] = context["body"].replace("<h1>", said, 1)


def setup(app: Sphinx) -> None:
    """Register the role and connect to the resolving and writing of pages."""
    app.add_node(NumberReference)
    app.add_role_to_domain("std", "numref", NumberRole(), override=True)
    app.add_post_transform(Number)
    app.connect("html-page-context", add_chapter_number)
