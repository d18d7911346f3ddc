"""Elements whose HTML is made once all pages are read, because it tells what other pages hold."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from docutils import nodes
from environment_state import state_of
from record_store import store_of
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.transforms.post_transforms import SphinxPostTransform


class LateHtml(nodes.General, nodes.Element):
    """Holds the place of HTML that a subclass makes when the page is written."""

    def html(self, app: Sphinx, docname: str) -> str:
        """Return what stands here on the page ``docname``."""
        raise NotImplementedError


class ResolveLateHtml(SphinxPostTransform):
    """Replaces each `LateHtml` by its HTML; other builders show nothing there."""

    default_priority = 6

    def run(self, **_: Any) -> None:
        """Resolve every node of the page."""
        for node in list(self.document.findall(LateHtml)):
            if self.app.builder.format == "html":
                html = node.html(self.app, self.env.docname)
                node.replace_self(nodes.raw("", html, format="html"))
            else:
                node.parent.remove(node)


def late_pages(env: BuildEnvironment) -> set[str]:
    """Return the pages that hold such elements; the environment keeps them."""
    return state_of(env, "late_pages", set)


def remember(app: Sphinx, doctree: nodes.document) -> None:
    """Remember whether the page holds such elements."""
    pages = late_pages(app.env)
    pages.discard(app.env.docname)
    if next(iter(doctree.findall(LateHtml)), None) is not None:
        pages.add(app.env.docname)


def forget(_: Sphinx, env: BuildEnvironment, docname: str) -> None:
    """Forget a page before it is read again, or because it is gone."""
    late_pages(env).discard(docname)


def merge(_: Sphinx, env: BuildEnvironment, docnames: list[str], other: BuildEnvironment) -> None:
    """Take over what another process read."""
    late_pages(env).difference_update(docnames)
    late_pages(env).update(late_pages(other) & set(docnames))


def rewrite(_: Sphinx, env: BuildEnvironment) -> Iterable[str]:
    """Return the pages to write again since another page was read."""
    return sorted(late_pages(env) & env.found_docs) if store_of(env).touched else []


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect to the reading and writing of pages."""
    app.setup_extension("measured")
    app.add_post_transform(ResolveLateHtml)
    app.connect("doctree-read", remember)
    app.connect("env-purge-doc", forget)
    app.connect("env-merge-info", merge)
    app.connect("env-updated", rewrite, priority=400)  # before measured.py forgets which pages were read
    return {"version": "1", "env_version": 1, "parallel_read_safe": True, "parallel_write_safe": True}
