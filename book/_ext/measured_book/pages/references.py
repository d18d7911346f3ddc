"""References, ``{reference-list}``: every source of the book once, with its address and the pages that use it.

A source that a page quotes, tests or recommends but that ``references.bib`` lacks fails the build. That no entry is
there for nothing is left to the tests, as a claim may be tested on some machines only.
"""

from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path

from docutils import nodes
from pybtex.database import BibliographyData  # type: ignore[import-untyped]
from pybtex.plugin import find_plugin  # type: ignore[import-untyped]
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

from measured_book.elements.nodes import LateHtml
from measured_book.sources.bibliography import FILE, entry_for, read_references
from measured_book.state import Sources, reading_order, short_titles, state_of

LOGGER = logging.getLogger(__name__)
#: The section of a chapter that recommends sources.
READING = "Further reading"


def _is_reading(section: nodes.Node) -> bool:
    title = section.next_node(nodes.title) if isinstance(section, nodes.section) else None
    return title is not None and title.astext() == READING


def _web_links(node: nodes.Node) -> set[str]:
    links = (str(link.get("refuri", "")) for link in node.findall(nodes.reference))
    return {link for link in links if link.startswith(("http://", "https://"))}


def sources_in(doctree: nodes.document) -> Sources:
    """Return the addresses that a page quotes, recommends, or else links to."""
    quoted = {str(raw["address"]) for raw in doctree.findall(nodes.raw) if raw.get("address")}
    recommended = {link for section in doctree.findall(_is_reading) for link in _web_links(section)}
    return Sources(frozenset(quoted | recommended), frozenset(quoted | _web_links(doctree)))


def all_sources(env: BuildEnvironment) -> dict[str, Sources]:
    """Return the sources of each page, those of the claims that it tests among them."""
    found = {}
    for name, page in state_of(env).pages.items():
        if page.sources is not None and name in env.found_docs:
            claims = page.records.of_kind("claim") if page.records is not None else []
            claimed = {record["source_url"] for record in claims if record["source_url"]}
            found[name] = Sources(page.sources.cited | claimed, page.sources.linked | claimed)
    return found


def users(sources: Mapping[str, Sources], references: BibliographyData) -> dict[str, list[str]]:
    """Return for each entry the pages that link to it, sorted by name."""
    found: dict[str, set[str]] = {str(key): set() for key in references.entries}
    for docname, page in sources.items():
        for address in page.linked:
            key = entry_for(address, references)
            if key is not None:
                found[key].add(docname)
    return {key: sorted(pages) for key, pages in found.items()}


def faults(sources: Mapping[str, Sources], references: BibliographyData) -> Iterator[tuple[str, str]]:
    """Yield each source without an entry, in words, and the page that it concerns."""
    for docname, page in sorted(sources.items()):
        for address in sorted(page.cited):
            if entry_for(address, references) is None:
                yield (
                    f"{address} is a source of this page, but {FILE} has no entry with this doi, eprint or url",
                    docname,
                )


class ReferenceList(LateHtml):
    """List of all references, sorted by author."""

    def html(self, app: Sphinx, docname: str) -> str:
        """Return the list, each entry with links to the pages that use it."""
        references = read_references(Path(app.srcdir, FILE))
        found = users(all_sources(app.env), references)
        order = reading_order(app.env)
        backend = find_plugin("pybtex.backends", "html")()
        style = find_plugin("pybtex.style.formatting", "plain")()
        items = []
        for entry in style.format_entries(references.entries.values()):
            pages = sorted(found[entry.key], key=lambda name: order.get(name, len(order)))
            names = short_titles(app.env, pages)
            links = ", ".join(self._link(app, docname, *each) for each in zip(pages, names, strict=True))
            used = f' <span class="used-in">Used in: {links}.</span>' if links else ""
            text = entry.text.render(backend).replace("\n", " ")
            items.append(f'<li id="reference-{escape(entry.key)}">{text}{used}</li>')
        return '<ul class="reference-list">\n' + "\n".join(items) + "\n</ul>"

    def _link(self, app: Sphinx, docname: str, target: str, title: str) -> str:
        return f'<a href="{escape(app.builder.get_relative_uri(docname, target))}">{escape(title)}</a>'


class ReferenceListDirective(SphinxDirective):
    """``{reference-list}``."""

    def run(self) -> list[nodes.Node]:
        """Return the place of the list."""
        self.env.note_dependency(str(Path(self.env.srcdir, FILE)))
        node = ReferenceList()
        self.set_source_info(node)
        return [node]


def check(app: Sphinx, env: BuildEnvironment) -> None:
    """Warn of each fault, which fails the build."""
    references = read_references(Path(app.srcdir, FILE))
    for message, docname in faults(all_sources(env), references):
        LOGGER.warning("%s [references]", message, location=docname, type="references")


def setup(app: Sphinx) -> None:
    """Register the directive and the check; a list that is none ends the build before any page runs."""
    app.add_directive("reference-list", ReferenceListDirective)
    app.connect("builder-inited", lambda app: read_references(Path(app.srcdir, FILE)))
    app.connect("env-check-consistency", check)
