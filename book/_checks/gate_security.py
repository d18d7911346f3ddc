"""Gate: a Content-Security-Policy in each page allows only the site's own files, and no script stands in a page."""

from collections.abc import Iterator

from bs4 import BeautifulSoup, Tag

#: What does not fall back to ``default-src``, and so must be said.
STATED = ("default-src", "base-uri", "form-action")
#: Sources that are the site itself, also in a folder, or nothing.
OWN = {"'self'", "'none'"}
#: A picture that stands in the page or its style sheet.
HELD = ("img-src", "data:")
#: Kinds of ``<script>`` that are data.
DATA = {"application/json", "application/ld+json"}


def _directives(policy: str) -> dict[str, list[str]]:
    parts = [part.split() for part in policy.split(";") if part.strip()]
    return {name.lower(): sources for name, *sources in parts}


def _is_allowed(directive: str, source: str) -> bool:
    is_hash = source.startswith(("'sha256-", "'sha384-", "'sha512-"))
    return source in OWN or is_hash or (directive, source) == HELD


def policy_problems(page: BeautifulSoup) -> Iterator[str]:
    """Yield what is wrong with a page's policy."""
    metas = page.select('meta[http-equiv="Content-Security-Policy" i]')
    if not metas:
        yield "has no <meta http-equiv=Content-Security-Policy>: it must allow the site's own files only"
        return
    for meta in metas:
        early = meta.find_previous(["script", "link", "style"])
        if isinstance(early, Tag):
            yield f"the policy comes after {str(early)[:80]}, which it must precede to hold for it"
        directives = _directives(str(meta.get("content", "")))
        for name in STATED:
            if name not in directives:
                yield f"the policy must state {name}"
        for name, sources in directives.items():
            yield from (
                f"the policy allows {source} as {name}: only the site's own files may be allowed"
                for source in sources
                if not _is_allowed(name, source)
            )


def inline_code(page: BeautifulSoup) -> Iterator[str]:
    """Yield each script that stands in the page itself: as an element, a handler or an address."""
    for script in page.find_all("script"):
        if not script.get("src") and str(script.get("type", "")).lower() not in DATA:
            code = " ".join(script.get_text().split())[:60]
            yield f"<script> in the page: {code!r}; it must be a file of its own"
    for tag in page.find_all(True):
        for name, value in tag.attrs.items():
            if name.lower().startswith("on"):
                yield f"<{tag.name}> has the handler {name}: a script file must add it"
            elif name in ("href", "src", "action", "formaction") and str(value).strip().lower().startswith(
                "javascript:"
            ):
                yield f"<{tag.name}> has a script as its address: {str(value)[:60]}"


def check(page: BeautifulSoup) -> list[str]:
    """Return what a page allows or holds that it must not, a line for each."""
    return [*policy_problems(page), *inline_code(page)]
