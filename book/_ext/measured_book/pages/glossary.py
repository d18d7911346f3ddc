"""Meanings of the glossary's words where they are used: at a press without script, at hover and focus with one."""

from collections import Counter
from html import escape
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

from measured_book.state import state_of


def _is_term(node: nodes.Node) -> bool:
    return isinstance(node, nodes.inline) and "std-term" in node.get("classes", [])


def words_in(doctree: nodes.document) -> dict[str, tuple[str, str]]:
    """Return name and meaning of each word that the page's glossaries explain, by the word's id."""
    words: dict[str, tuple[str, str]] = {}
    for glossary in doctree.findall(addnodes.glossary):
        for item in glossary.findall(nodes.definition_list_item):
            paragraph = next(item.findall(nodes.definition)).next_node(nodes.paragraph)
            meaning = "" if paragraph is None else " ".join(paragraph.astext().split())
            for term in item.findall(nodes.term):
                words |= dict.fromkeys(term["ids"], (term.astext(), meaning))
    return words


def meaning_html(ident: str, name: str, meaning: str, address: str) -> str:
    """Return what a press on the word shows: phrasing content only, so that it may stand in a paragraph."""
    return (
        f'<span popover class="measured-detail term-detail" id="{ident}"> '
        f'<span class="line">{escape(name)}</span> <span class="line">{escape(meaning)}</span> '
        f'<span class="line"><a href="{escape(address)}">Glossary</a></span></span>'
    )


class ShowMeanings(SphinxPostTransform):
    """Replacement of each link to the glossary by a button with the meaning behind it.

    Each use has a meaning of its own: the keyboard goes from a word into what was opened by it and on from there, so
    one that stood elsewhere on the page would lead the focus away.
    """

    default_priority = 20  # behind the resolution of references
    formats = ("html",)

    def run(self, **_: Any) -> None:
        """Change every such link of the page."""
        meanings: dict[str, tuple[str, str]] = {}
        for page in state_of(self.env).pages.values():
            meanings |= page.words
        uses: Counter[str] = Counter()  # each popover has an id of its own
        for link in list(self.document.findall(nodes.reference)):
            address = str(link.get("refuri") or f"#{link.get('refid', '')}")
            ident = address.partition("#")[2]
            found = meanings.get(ident)
            if found is None or not any(_is_term(child) for child in link.children) or _in_glossary(link):
                continue
            uses[ident] += 1
            popover = f"meaning-{ident}" if uses[ident] == 1 else f"meaning-{ident}-{uses[ident]}"
            html = (
                f'<button type="button" class="term" popovertarget="{popover}" popovertargetaction="show">'
                f"{escape(link.astext())}</button>"
            )
            link.replace_self(nodes.raw("", html + meaning_html(popover, *found, address), format="html"))


def _in_glossary(node: nodes.Node) -> bool:
    """Return whether the link stands in a glossary, where it leads to another line of the same list."""
    above: nodes.Node | None = node.parent
    while above is not None:
        if isinstance(above, addnodes.glossary):
            return True
        above = above.parent
    return False


def setup(app: Sphinx) -> None:
    """Register the transform."""
    app.add_post_transform(ShowMeanings)
