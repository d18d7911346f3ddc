"""Reads every page of a built site as a file, and reports what a reader should never meet.

That is: a number that is empty or not a number, a picture without words for it, a resource of another host, a
link that leads nowhere, an id used twice, a file of records that breaks its schema, a run that held more memory than a
small server such as Binder's offers.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

from bs4 import BeautifulSoup, Tag
from bs4.element import CData, NavigableString
from jsonschema import Draft202012Validator

from tinytorch.report.records import schema

_NOT_A_NUMBER = re.compile(r"(?<![\w-])(?:nan|[-\u2212]?inf)(?![\w-])", re.IGNORECASE)
_IMAGE_NAME = re.compile(r"\S*\.(?:svg|png|jpe?g|gif|webp)", re.IGNORECASE)
_CSS_ADDRESS = re.compile(r"(?:@import\s+|url\(\s*)['\"]?((?:https?:)?//[^'\")\s]+)")
#: Kinds of ``<link>`` that a browser fetches.
_FETCHED = {"stylesheet", "icon", "preload", "prefetch", "modulepreload", "manifest", "preconnect", "apple-touch-icon"}
#: Bytes that the processes of a page may hold together while it runs.
MOST_HELD = 700 * 2**20
_CODE = ["pre", "code", "script", "style", "math", "template"]


@cache
def parsed(path: Path) -> BeautifulSoup:
    """Return a page, read once: it is not to be changed."""
    return BeautifulSoup(path.read_text("utf-8"), "html.parser")


@cache
def _ids(path: Path) -> Counter[str]:
    return Counter(str(tag["id"]) for tag in parsed(path).find_all(id=True))


@cache
def is_left_out(path: Path) -> bool:
    """Return whether a build of other pages wrote the page without running it, so that it lacks most of itself."""
    return '<p class="page-measured left-out">' in path.read_text("utf-8")


def _text(tag: Tag) -> str:
    return " ".join(tag.get_text(" ").split())


def unusable_numbers(page: BeautifulSoup) -> Iterator[str]:
    """Yield what is wrong with the numbers of a page."""
    for missing in page.select(".missing"):
        yield f"something is missing: {_text(missing)}"
    for number in page.select("button.measured, .quoted-value, td.numeric"):
        text, classes = _text(number), number.get_attribute_list("class")
        if text == "–" and "numeric" in classes:
            continue  # does not apply
        if not text or text == "–":
            yield f"a number is empty: {number}"
        elif not {"verdict", "absent", "why"} & set(classes) and not re.search(r"\d", text):
            yield f"a number has no digit: {text!r}"
    ids = {str(tag["id"]) for tag in page.find_all(id=True)}
    for number in page.select("button.measured"):
        if str(number.get("popovertarget")) not in ids:
            yield f"the detail of {_text(number)!r} is missing"


def _strings(tag: Tag) -> Iterator[str]:
    """Yield the pieces of a text, without code."""
    for child in tag.children:
        if isinstance(child, Tag):
            if child.name not in _CODE:
                yield from _strings(child)
        elif type(child) in (NavigableString, CData):  # no comment
            yield str(child)


def not_numbers(page: BeautifulSoup) -> Iterator[str]:
    """Yield each "nan" and "inf" that stands in a page's text, outside of code."""
    main = page.find("main")
    for found in _NOT_A_NUMBER.finditer(" ".join(_strings(main if isinstance(main, Tag) else page.body or page))):
        yield f"{found[0]!r} stands in the text"


def silent_pictures(page: BeautifulSoup) -> Iterator[str]:
    """Yield each picture that says nothing to who does not see it."""
    for image in page.find_all("img"):
        alt = str(image.get("alt", "")).strip()
        if not alt or _IMAGE_NAME.fullmatch(alt):
            yield f"an image has no alt text: {image.get('src')}"
    for drawing in page.select("svg[role=img]"):
        named = page.find(id=str(drawing.get("aria-labelledby", "")))
        if not (isinstance(named, Tag) and _text(named)) and not str(drawing.get("aria-label", "")).strip():
            yield f"a drawing has no alt text: {str(drawing)[:80]}"
    for figure in page.select("figure.measured-figure"):
        caption = figure.find("figcaption")
        if not isinstance(caption, Tag) or not _text(caption):
            yield f"figure {figure.get('id')} has no caption"
        if figure.find("svg", role="img") is None:
            yield f"figure {figure.get('id')} has no drawing with words for it"


def _is_of_another_host(address: str) -> bool:
    parts = urlsplit(address)
    return bool(parts.netloc) or parts.scheme in ("http", "https")


def foreign_resources(page: BeautifulSoup) -> Iterator[str]:
    """Yield each resource that a browser would fetch from another host."""
    for tag in page.find_all(src=True):
        if _is_of_another_host(str(tag["src"])):
            yield f"<{tag.name}> comes from another host: {tag['src']}"
    for link in page.find_all("link", href=True):
        kinds = {str(kind).lower() for kind in link.get_attribute_list("rel")}
        if kinds & _FETCHED and _is_of_another_host(str(link["href"])):
            yield f"<link rel={' '.join(kinds)}> comes from another host: {link['href']}"
    for tag in page.select("svg use[href], svg image[href], object[data]"):
        address = str(tag.get("href") or tag.get("data"))
        if _is_of_another_host(address):
            yield f"<{tag.name}> comes from another host: {address}"
    for style in page.find_all("style"):
        yield from (f"a style comes from another host: {a}" for a in _CSS_ADDRESS.findall(style.get_text()))


def _may_have(file: Path, anchor: str) -> bool:
    return file.suffix != ".html" or anchor in _ids(file) or is_left_out(file)


def broken_links(page: BeautifulSoup, path: Path, root: Path) -> Iterator[str]:
    """Yield each link to a file or an anchor of the site that is not there."""
    for link in page.find_all("a", href=True):
        address = str(link["href"])
        parts = urlsplit(address)
        if parts.scheme or parts.netloc or address == "#":
            continue
        base = root if parts.path.startswith("/") else path.parent
        target = (base / unquote(parts.path).lstrip("/")).resolve() if parts.path else path.resolve()
        target = target / "index.html" if target.is_dir() else target
        if not target.is_file():
            yield f"a link leads nowhere: {address}"
        elif parts.fragment and not _may_have(target, unquote(parts.fragment)):
            yield f"a link leads to no anchor: {address}"


def unaddressed(page: BeautifulSoup) -> Iterator[str]:
    """Yield each figure, table and equation that has no number which leads to it."""
    for part in page.select("figure.measured-figure[id], .measured-table[id^=table-], .math-block"):
        name = str(part.get("id", ""))
        if not name or part.find("a", class_=["number", "eqno"], href=f"#{name}") is None:
            yield f"{name or 'a formula'} has no number that leads to it"


def doubled_ids(path: Path) -> Iterator[str]:
    """Yield each id that a page uses more than once."""
    for name, count in _ids(path).items():
        if count > 1:
            yield f"id {name!r} is used {count} times"


def heavy_runs(page: BeautifulSoup) -> Iterator[str]:
    """Yield each run of a page, in the table of the last ones, whose processes held more than `MOST_HELD`."""
    for row in page.select("table:has(#last-executions-caption) > tbody > tr"):
        name, *_, memory = row.select("th, td")
        held = int(str(memory.get("data-value", "0")))  # 0 where it was not kept
        if held > MOST_HELD:
            found, most = (f"{size / 2**20:.0f} MiB" for size in (held, MOST_HELD))
            yield f"{_text(name)!r} held {found} of memory, at most {most} are allowed: make its arrays smaller"


def check_page(path: Path, root: Path) -> list[str]:
    """Return all problems of one page of the site below ``root``."""
    path, root = path.resolve(), root.resolve()
    page = parsed(path)
    return [
        *unusable_numbers(page),
        *not_numbers(page),
        *silent_pictures(page),
        *foreign_resources(page),
        *broken_links(page, path, root),
        *doubled_ids(path),
        *unaddressed(page),
        *heavy_runs(page),
    ]


def check_styles(path: Path) -> list[str]:
    """Return each address of another host in a style sheet."""
    return [f"comes from another host: {a}" for a in _CSS_ADDRESS.findall(path.read_text("utf-8"))]


def check_records(path: Path) -> list[str]:
    """Return what is wrong with a file of records."""
    content = json.loads(path.read_text("utf-8"))
    return [
        f"{error.json_path}: {error.message[:200]}" for error in Draft202012Validator(schema()).iter_errors(content)
    ]


def check_site(root: Path, pages: Sequence[str]) -> dict[str, list[str]]:
    """Return the problems of these pages of the site below ``root``, of their records and of all style sheets.

    Files without problems are in it too.
    """
    for known in (parsed, _ids, is_left_out):
        known.cache_clear()
    found = {name: check_page(root / name, root) for name in pages}
    found |= {str(path.relative_to(root)): check_styles(path) for path in sorted(root.rglob("*.css"))}
    for path in sorted(root.glob("_records/**/*.json")):
        name = path.relative_to(root)
        if name.relative_to("_records").with_suffix(".html").as_posix() in pages:
            found[str(name)] = check_records(path)
    return found
