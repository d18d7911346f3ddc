"""Gate: the first load of a page is light, so that it opens at once on a phone far from a mast.

What holds back the first picture, styles and scripts that are not deferred, has a limit of its own.

Counted is all that the browser asked for until it came to rest, in the bytes that a web host sends: text compressed.
Figures are the drawings inside of ``<figure>``, which are part of the page's file, and the pictures of its text; they
and the fonts, which all pages share, count for the whole alone.
"""

import gzip
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote, urlsplit

from bs4 import BeautifulSoup
from built_site import LEVEL, sent_bytes

WITHOUT_FIGURES = 100_000
WITH_FIGURES = 250_000
BLOCKING = 15_000
#: Folders that Sphinx and our extensions put the pictures of a page's text into.
PICTURES = ("/_images/", "/_figures/")
_HEAVIEST = 4


def weights(site: Path, address: str, page: BeautifulSoup, requests: Iterable[str]) -> dict[str, tuple[int, int]]:
    """Return what was sent for each file of a page's first load: bytes without and with figures and fonts.

    Args:
        site: folder of the site.
        address: of the page, relative to it.
        page: what stands there; the drawings of its figures are taken out of it.
        requests: paths on the host of all that the browser asked for, the page itself included.
    """
    for drawing in page.select("figure svg"):
        drawing.decompose()
    sent: dict[str, tuple[int, int]] = {}
    for path in requests:
        file = site / unquote(urlsplit(path).path).lstrip("/")
        if not file.is_file():
            continue  # a request that failed is another gate's
        size = len(sent_bytes(file))
        rest = 0 if any(folder in path for folder in PICTURES) or file.suffix == ".woff2" else size
        if file == site / address:
            rest = len(gzip.compress(str(page).encode(), LEVEL, mtime=0))
        sent[file.relative_to(site).as_posix()] = (rest, size)
    return sent


def blocking(site: Path, address: str, page: BeautifulSoup) -> dict[str, int]:
    """Return the bytes that are sent for each own file that a page waits for before it shows anything."""
    addresses = [str(style["href"]) for style in page.select("link[rel~=stylesheet][href]")]
    addresses += [str(script["src"]) for script in page.select("script[src]:not([defer], [async], [type=module])")]
    files = [((site / address).parent / unquote(urlsplit(each).path)).resolve() for each in addresses]
    return {file.name: len(sent_bytes(file)) for file in files if file.is_file()}


def check(site: Path, address: str, requests: Iterable[str]) -> list[str]:
    """Return which limits a page's first load breaks, with its heaviest files; see `weights` and `blocking`."""
    page = BeautifulSoup((site / address).read_text("utf-8"), "html.parser")
    held, sent = blocking(site, address, page), weights(site, address, page, requests)
    problems = []
    if (total := sum(held.values())) > BLOCKING:
        problems.append(
            f"nothing is shown before {total / 1000:.0f} kB of styles and scripts are there, at most "
            f"{BLOCKING / 1000:.0f} kB are right: "
            + ", ".join(f"{name} {size / 1000:.0f} kB" for name, size in held.items())
        )
    for part, limit, words in ((0, WITHOUT_FIGURES, "without figures"), (1, WITH_FIGURES, "with figures and fonts")):
        total = sum(sizes[part] for sizes in sent.values())
        if total > limit:
            heaviest = sorted(sent, key=lambda name, part=part: -sent[name][part])[:_HEAVIEST]  # type: ignore[misc]
            files = ", ".join(f"{name} {sent[name][part] / 1000:.0f} kB" for name in heaviest)
            problems.append(
                f"the first load is {total / 1000:.0f} kB compressed {words}, at most {limit / 1000:.0f} kB are "
                f"allowed; heaviest: {files}"
            )
    return problems
