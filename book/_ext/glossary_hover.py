"""Shows what a word of the glossary means where it is used: at a press without script, at hover and focus with one."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from html import escape
from typing import Any

from docutils import nodes
from environment_state import state_of
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.typing import ExtensionMetadata

SCRIPT = "glossary.js"


@dataclass
class Meanings:
    """What the environment keeps over builds.

    Attributes: each glossary page's words and meanings by the word's id; the pages that use words; whether a
    glossary was read in this build.
    """

    words: dict[str, dict[str, tuple[str, str]]] = field(default_factory=dict)
    users: set[str] = field(default_factory=set)
    changed: bool = False

    def of(self, ident: str) -> tuple[str, str] | None:
        """Return word and meaning of an id; None if no glossary has it."""
        return next((words[ident] for words in self.words.values() if ident in words), None)


def meanings_of(env: BuildEnvironment) -> Meanings:
    """Return the environment's meanings, made when missing."""
    return state_of(env, "glossary_meanings", Meanings)


def _is_term(node: nodes.Node) -> bool:
    return isinstance(node, nodes.inline) and "std-term" in node.get("classes", [])


def collect(app: Sphinx, doctree: nodes.document) -> None:
    """Keep the meanings that a page with a glossary gives, and remember pages that use words."""
    kept, docname = meanings_of(app.env), app.env.docname
    words: dict[str, tuple[str, str]] = {}
    for glossary in doctree.findall(addnodes.glossary):
        for item in glossary.findall(nodes.definition_list_item):
            paragraph = next(item.findall(nodes.definition)).next_node(nodes.paragraph)
            meaning = "" if paragraph is None else " ".join(paragraph.astext().split())
            for term in item.findall(nodes.term):
                words |= dict.fromkeys(term["ids"], (term.astext(), meaning))
    kept.users.discard(docname)
    kept.changed |= docname in kept.words or bool(words)
    kept.words.pop(docname, None)
    if words:
        kept.words[docname] = words
    if any(xref.get("reftype") == "term" for xref in doctree.findall(addnodes.pending_xref)):
        kept.users.add(docname)


def forget(_: Sphinx, env: BuildEnvironment, docname: str) -> None:
    """Forget a page that is gone or about to be read again."""
    kept = meanings_of(env)
    kept.users.discard(docname)
    kept.changed |= kept.words.pop(docname, None) is not None


def merge(_: Sphinx, env: BuildEnvironment, docnames: list[str], other: BuildEnvironment) -> None:
    """Take over what another process read."""
    kept, read = meanings_of(env), meanings_of(other)
    kept.words.update((name, words) for name, words in read.words.items() if name in docnames)
    kept.users |= read.users & set(docnames)
    kept.changed |= read.changed


def rewrite(_: Sphinx, env: BuildEnvironment) -> list[str]:
    """Return the pages to write again because a glossary was read."""
    kept = meanings_of(env)
    changed, kept.changed = kept.changed, False
    return sorted(kept.users & env.found_docs) if changed else []


def meaning_html(ident: str, name: str, meaning: str, address: str) -> str:
    """Return what a press on the word shows: phrasing content only, so that it may stand in a paragraph."""
    return (
        f'<span popover class="measured-detail term-detail" id="{ident}"> '
        f'<span class="line">{escape(name)}</span> <span class="line">{escape(meaning)}</span> '
        f'<span class="line"><a href="{escape(address)}">Glossary</a></span></span>'
    )


class ShowMeanings(SphinxPostTransform):
    """Makes a button of each link to the glossary, with its meaning behind it.

    Each use has a meaning of its own: the keyboard goes from a word into what was opened by it and on from there, so
    one that stood elsewhere on the page would lead the focus away.
    """

    default_priority = 20  # behind the resolution of references
    formats = ("html",)

    def run(self, **_: Any) -> None:
        """Change every such link of the page."""
        meanings = meanings_of(self.env)
        uses: Counter[str] = Counter()
        for link in list(self.document.findall(nodes.reference)):
            address = str(link.get("refuri") or f"#{link.get('refid', '')}")
            ident = address.partition("#")[2]
            found = meanings.of(ident)
            if found is None or not any(_is_term(child) for child in link.children) or _in_glossary(link):
                continue
            uses[ident] += 1
            popover = f"meaning-{ident}" if uses[ident] == 1 else f"meaning-{ident}-{uses[ident]}"
            html = (
                f'<button type="button" class="term" popovertarget="{popover}" popovertargetaction="show">'
                f"{escape(link.astext())}</button>"
            )
            link.replace_self(nodes.raw("", html + meaning_html(popover, *found, address), format="html"))
        if uses:
            self.document["uses_glossary"] = True


def _in_glossary(node: nodes.Node) -> bool:
    """Return whether the link stands in a glossary, where it leads to another line of the same list."""
    above: nodes.Node | None = node.parent
    while above is not None:
        if isinstance(above, addnodes.glossary):
            return True
        above = above.parent
    return False


def add_script(app: Sphinx, _: str, __: str, ___: dict[str, Any], doctree: nodes.document | None) -> None:
    """Load the script on the pages that use words of the glossary."""
    if doctree is not None and doctree.get("uses_glossary"):
        app.add_js_file(SCRIPT, loading_method="defer")


def setup(app: Sphinx) -> ExtensionMetadata:
    """Connect to the reading and writing of pages."""
    app.add_post_transform(ShowMeanings)
    app.connect("doctree-read", collect)
    app.connect("env-purge-doc", forget)
    app.connect("env-merge-info", merge)
    app.connect("env-updated", rewrite)
    app.connect("html-page-context", add_script)
    return {"version": "1", "env_version": 1, "parallel_read_safe": True, "parallel_write_safe": True}
