"""Search: what search engines, social networks and the book's own search are told of the site and its pages.

Each page is described by its own first sentences. The site's address is TINYTORCH_SITE_URL, else GitHub Pages of
GITHUB_REPOSITORY; none is typed anywhere. With it the pages have canonical links and cards, and the site a sitemap.xml
and a robots.txt; without it they have none, rather than broken ones.
"""

import logging as standard_logging
import os
import re
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.errors import ConfigError
from sphinx.util import logging

from tinytorch.settings import read_settings

LOGGER = logging.getLogger(__name__)
#: Pages that nobody should find by a search engine.
UNLISTED = ["search.html", "404.html"]
EXTENSIONS_WITH_ADDRESS = ("sphinx_sitemap", "sphinxext.opengraph")
#: Search engines show about this many characters.
LONGEST = 160
#: Pages that have no source, and so no sentence of their own.
GENERATED = {
    "search": "Search all chapters of the book, in your browser alone.",
    "404": "There is no such page in this book; here are those that there are.",
}

_SENTENCE = re.compile(r"(?<=[.?!])\s+")


def site_address(environment: Mapping[str, str]) -> str | None:
    """Return the address of the site's root with a final slash, or None if the environment does not tell.

    Raises:
        ConfigError: if TINYTORCH_SITE_URL is no web address.
    """
    if given := read_settings(environment).site_url.strip():
        parts = urlsplit(given)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ConfigError(
                "TINYTORCH_SITE_URL must be the address of the site's root, such as https://example.org/book/, "
                f"not {given!r}"
            )
        return given.rstrip("/") + "/"
    repository = environment.get("GITHUB_REPOSITORY", "")
    server = environment.get("GITHUB_SERVER_URL", "https://github.com").rstrip("/")
    if server != "https://github.com" or not re.fullmatch(r"[\w.-]+/[\w.-]+", repository):
        return None
    owner, name = repository.split("/")
    host = f"{owner.lower()}.github.io"
    return f"https://{host}/" if name.lower() == host else f"https://{host}/{name}/"


def set_address(_: Sphinx, config: Config) -> None:
    """Hand the address to Sphinx and to the extensions that need it."""
    address = site_address(os.environ)
    if address is None:
        return
    config.html_baseurl = address
    config.sitemap_url_scheme = "{link}"
    config.sitemap_excludes = UNLISTED
    config.ogp_site_url = address
    config.ogp_site_name = config.html_title  # Jupyter Book sets no name of a project
    config.ogp_type = "book"
    config.ogp_social_cards = {"enable": False}  # `site.cards` draws them
    config.ogp_custom_meta_tags = ('<meta name="twitter:card" content="summary_large_image">',)


def first_sentences(text: str) -> str:
    """Return as many whole sentences from the beginning of ``text`` as fit, or the beginning of a longer first one."""
    sentences = _SENTENCE.split(" ".join(text.split()))
    chosen = sentences[0]
    for sentence in sentences[1:]:
        if len(chosen) + 1 + len(sentence) > LONGEST:
            break
        chosen += f" {sentence}"
    if len(chosen) <= LONGEST:
        return chosen
    return chosen[: LONGEST - 1].rsplit(" ", 1)[0].rstrip(",;:") + "…"


def _has_only_text(paragraph: nodes.paragraph) -> bool:
    """Return whether nothing in the paragraph is put in later, such as a number."""
    return not list(paragraph.findall(nodes.raw))


def description_of(doctree: nodes.document) -> str:
    """Return the first sentences of a page's text, tables and notes left out; empty if it has none."""
    paragraphs = [
        paragraph
        for paragraph in doctree.findall(nodes.paragraph)
        if isinstance(paragraph.parent, nodes.section | nodes.container) and _has_only_text(paragraph)
    ]
    return first_sentences(paragraphs[0].astext()) if paragraphs else ""


def describe(_: Sphinx, pagename: str, __: str, context: dict[str, Any], doctree: nodes.document | None) -> None:
    """Add the description to the page's head, unless its source gives one as ``html_meta``."""
    if 'name="description"' in context.get("metatags", ""):
        return
    text = GENERATED.get(pagename, "") if doctree is None else description_of(doctree)
    if not text:
        said = "the page has no sentence that describes it in lists of results: write one below its title [site]"
        LOGGER.warning(said, location=pagename, type="site")
        return
    context["metatags"] = f'{context.get("metatags", "")}<meta name="description" content="{escape(text)}">\n'


def drop_index_entries(_: Sphinx, doctree: nodes.document) -> None:
    """Take a page's entries of an index out, as it is read: this book has no index.

    Sphinx puts them into the search only in the build that writes the page, and forgets them in the next, so that the
    same sources gave two different searches. A glossary's words are found without them.
    """
    for entry in list(doctree.findall(addnodes.index)):
        entry.parent.remove(entry)


def add_card(app: Sphinx, pagename: str, _: str, context: dict[str, Any], doctree: nodes.document | None) -> None:
    """Add the card of a page, described by its first sentences: the extension by itself would take tables in, too."""
    if doctree is None:
        return
    # Load Matplotlib, which a site without an address does without.
    from sphinxext.opengraph import get_tags  # type: ignore[import-untyped]

    from measured_book.site.cards import tags_of

    text = nodes.document(doctree.settings, doctree.reporter)
    text.append(nodes.paragraph("", description_of(doctree)))
    where = {"srcdir": app.srcdir, "outdir": app.outdir, "env": app.env}
    meta = tags_of(app, pagename, doctree)
    context["metatags"] += get_tags({**context, "meta": meta}, text, config=app.config, builder=app.builder, **where)
    context["meta"] = {**(context["meta"] or {}), "ogp_disable": "done"}


def write_robots(app: Sphinx, exception: Exception | None) -> None:
    """Write robots.txt, which leads to the sitemap; remove what an earlier build with an address left."""
    if app.builder.format != "html" or exception is not None:
        return
    address, path = app.config.html_baseurl, Path(app.outdir, "robots.txt")
    if address:
        path.write_text(f"User-agent: *\nAllow: /\nSitemap: {address}sitemap.xml\n", "utf-8")
        return
    for name in ("robots.txt", "sitemap.xml"):
        Path(app.outdir, name).unlink(missing_ok=True)


def setup(app: Sphinx) -> None:
    """Connect to the reading and writing of pages; load what needs an address only where there is one."""
    app.connect("config-inited", set_address)
    app.connect("doctree-read", drop_index_entries)
    app.connect("html-page-context", describe)
    if site_address(os.environ) is not None:
        # The cards' font has one weight, of which Matplotlib complains for each card.
        standard_logging.getLogger("matplotlib.font_manager").setLevel(standard_logging.ERROR)
        app.connect("html-page-context", add_card)  # says the extension below that it is done
        for name in EXTENSIONS_WITH_ADDRESS:
            app.setup_extension(name)
    app.connect("build-finished", write_robots)
