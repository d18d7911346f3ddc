"""Tells search engines and social networks where the site is, if that is known: no address is typed anywhere.

The address is TINYTORCH_SITE_URL, else GitHub Pages of GITHUB_REPOSITORY. With it the pages have canonical links
and cards, and the site a sitemap.xml and a robots.txt; without it they have none, rather than broken ones.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from docutils import nodes
from site_description import description_of
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.errors import ConfigError

VARIABLE = "TINYTORCH_SITE_URL"
#: Pages that nobody should find by a search engine.
UNLISTED = ["search.html", "404.html"]
#: How cards look. Their font lies beside the extension that draws them, so they are the same on every machine.
CARDS = {"line_color": "#0a6475", "image_mini": "_static/card.png"}
EXTENSIONS_WITH_ADDRESS = ("sphinx_sitemap", "sphinxext.opengraph")


def site_address(environment: Mapping[str, str]) -> str | None:
    """Return the address of the site's root with a final slash, or None if the environment does not tell.

    Raises:
        ConfigError: if TINYTORCH_SITE_URL is no web address.
    """
    if given := environment.get(VARIABLE, "").strip():
        parts = urlsplit(given)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ConfigError(
                f"{VARIABLE} must be the address of the site's root, such as https://example.org/book/, not {given!r}"
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
    config.ogp_site_name = config.project
    config.ogp_type = "book"
    config.ogp_social_cards = CARDS


def add_card(app: Sphinx, _: str, __: str, context: dict[str, Any], doctree: nodes.document | None) -> None:
    """Add the card of a page, described by its first sentences: the extension by itself would take tables in, too."""
    if doctree is None:
        return
    # Loads Matplotlib, which a site without an address does without.
    from sphinxext.opengraph import get_tags  # type: ignore[import-untyped]

    text = nodes.document(doctree.settings, doctree.reporter)
    text.append(nodes.paragraph("", description_of(doctree)))
    where = {"srcdir": app.srcdir, "outdir": app.outdir, "env": app.env}
    context["metatags"] += get_tags({**context, "meta": {}}, text, config=app.config, builder=app.builder, **where)
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


def setup(app: Sphinx) -> dict[str, Any]:
    """Load what needs an address only where there is one."""
    if site_address(os.environ) is not None:
        for name in EXTENSIONS_WITH_ADDRESS:
            app.setup_extension(name)
        # The cards' font has one weight, of which Matplotlib complains for each card.
        logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)
        app.connect("html-page-context", add_card, priority=450)  # before the extension's own
    app.connect("config-inited", set_address, priority=100)
    app.connect("build-finished", write_robots)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
