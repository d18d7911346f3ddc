"""Reads every page of a built site as a file, and reports what a reader should never meet.

That is: a number that is empty or not a number, a page without its policy, a link that leads nowhere, a file of records
that breaks its schema, a run that held more memory than a small server such as Binder's offers, a picture whose words
are the name of its file, a script that stands in the page. Ids, pictures without any words and resources of other hosts
are the matter of html-validate, axe and the browser.
"""

import json
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

from bs4 import BeautifulSoup, Tag
from bs4.element import CData, NavigableString
from jsonschema import Draft202012Validator

from tinytorch.report.records import schema

_NOT_A_NUMBER = re.compile(r"(?<![\w-])(?:nan|[-\u2212]?inf)(?![\w-])", re.IGNORECASE)
#: A policy that allows nothing but the site's own files, a style by its hash, and pictures that stand in the page.
_POLICY = re.compile(
    r"default-src 'none'"
    r"(?:; img-src(?: 'self')? data:|; [a-z]+-(?:src|uri|action)(?: (?:'self'|'none'|'sha256-[\w+/=]+'))+)+"
)
#: What docutils says of an image of which nobody says anything, also of one that a cell prints.
_FILE_NAME = re.compile(r"^\s*\S*\.(?:svg|png|jpe?g|gif|webp)\s*$", re.IGNORECASE)
_ADDRESSES = ("href", "xlink:href", "src", "action", "formaction")
#: Bytes that the processes of a page may hold together while it runs.
MOST_HELD = 700 * 2**20
_CODE = ["pre", "code", "script", "style", "math", "template"]


@cache
def parsed(path: Path) -> BeautifulSoup:
    """Return a page, read once: it is not to be changed."""
    return BeautifulSoup(path.read_text("utf-8"), "html.parser")


@cache
def _ids(path: Path) -> set[str]:
    return {str(tag["id"]) for tag in parsed(path).find_all(id=True)}


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


def unguarded(page: BeautifulSoup) -> Iterator[str]:
    """Yield that a page has no policy, or one that allows more than the site, or comes too late to hold for it."""
    policy = page.select_one('meta[http-equiv="Content-Security-Policy"]')
    content = str(policy["content"]) if policy else ""
    if not _POLICY.fullmatch(content) or "; base-uri " not in content or "; form-action " not in content:
        yield f"the page must have a policy that allows the site's own files alone, not {content!r}"
    elif policy and isinstance(early := policy.find_previous(["script", "link", "style"]), Tag):
        yield f"the policy comes after {str(early)[:80]}, which it must precede to hold for it"


def nameless_pictures(page: BeautifulSoup) -> Iterator[str]:
    """Yield each image that says no more than the name of its file to who does not see it."""
    for image in page.find_all("img", alt=_FILE_NAME):
        yield f"an image has the name of a file as its alt text: {image['alt']}"


def inline_code(page: BeautifulSoup) -> Iterator[str]:
    """Yield each handler and each address that is a script, which the policy keeps from running."""
    for tag in page.find_all(True):
        for name, value in tag.attrs.items():
            is_script = name in _ADDRESSES and str(value).strip().lower().startswith("javascript:")
            if is_script or name.startswith("on"):
                yield f"<{tag.name}> has a script as its {name}, which must be a file: {str(value)[:60]}"


def broken_links(page: BeautifulSoup, path: Path, root: Path) -> Iterator[str]:
    """Yield each link to a file or an anchor of the site that is not there."""
    for link in page.find_all("a", href=True):
        address = str(link["href"])
        parts = urlsplit(address)
        if parts.scheme or parts.netloc or address == "#":
            continue
        base, anchor = root if parts.path.startswith("/") else path.parent, unquote(parts.fragment)
        target = (base / unquote(parts.path).lstrip("/")).resolve() if parts.path else path.resolve()
        target = target / "index.html" if target.is_dir() else target
        if not target.is_file():
            yield f"a link leads nowhere: {address}"
        elif anchor and target.suffix == ".html" and anchor not in _ids(target) and not is_left_out(target):
            yield f"a link leads to no anchor: {address}"


def unaddressed(page: BeautifulSoup) -> Iterator[str]:
    """Yield each figure, table and equation that has no number which leads to it."""
    for part in page.select("figure.measured-figure[id], .measured-table[id^=table-], .math-block"):
        name = str(part.get("id", ""))
        if not name or part.find("a", class_=["number", "eqno"], href=f"#{name}") is None:
            yield f"{name or 'a formula'} has no number that leads to it"


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
        *unguarded(page),
        *nameless_pictures(page),
        *inline_code(page),
        *broken_links(page, path, root),
        *unaddressed(page),
        *heavy_runs(page),
    ]


def check_records(path: Path) -> list[str]:
    """Return what is wrong with a file of records."""
    content = json.loads(path.read_text("utf-8"))
    return [
        f"{error.json_path}: {error.message[:200]}" for error in Draft202012Validator(schema()).iter_errors(content)
    ]


def check_site(root: Path, pages: Sequence[str]) -> dict[str, list[str]]:
    """Return the problems of these pages of the site below ``root`` and of their records, also where there are none."""
    for known in (parsed, _ids, is_left_out):
        known.cache_clear()
    found = {name: check_page(root / name, root) for name in pages}
    for path in sorted(root.glob("_records/**/*.json")):
        name = path.relative_to(root)
        if name.relative_to("_records").with_suffix(".html").as_posix() in pages:
            found[str(name)] = check_records(path)
    return found
