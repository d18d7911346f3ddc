"""Reads how each page that measures begins: title, question, what it needs, gives and takes, and what it teaches."""

import re
from collections.abc import Iterator

#: A page that has records is one that teaches; others are lists and explanations of the book itself.
_MEASURES = re.compile(r"^page\b.* = ", re.MULTILINE)
_CELL = re.compile(r"^```\{code-cell\}", re.MULTILINE)
_NEEDS = re.compile(
    r"^\| You need \| You get \| Time \|\n\|---\|---\|---\|\n\| (?P<need>.+) \| (?P<get>.+) \| (?P<time>.+) \|$",
    re.MULTILINE,
)
_TIME = re.compile(r"\d+ minutes")
_LEARN = "**What you will learn.**"
_TEACHES = re.compile(r"^## Exercises$", re.MULTILINE)
#: What a chapter with exercises says besides.
_ALSO = ("**What you will build.**", "**What this chapter leaves out.**")

#: The letters that a browser and a list of results show of a title, and what the site puts behind a page's own.
LONGEST_TITLE, SITE = 70, " – Measured"


def title_fault(title: str) -> str | None:
    """Return what is wrong with a page's title; None if nothing is."""
    over = len(title) + len(SITE) - LONGEST_TITLE
    if over <= 0:
        return None
    return (
        f"the title {title!r} is {over} letters too long: with {SITE!r} behind it, browsers and lists of results show "
        f"{LONGEST_TITLE}"
    )


def _head(text: str) -> str:
    """Return what stands before the first cell and the first section."""
    ends = [found.start() for pattern in (_CELL, re.compile(r"^## ", re.MULTILINE)) if (found := pattern.search(text))]
    return text[: min(ends, default=len(text))]


def read_head(text: str) -> re.Match[str] | None:
    """Return what a page's head says that a reader needs (``need``), gets (``get``), and its ``time``."""
    return _NEEDS.search(_head(text))


def check_head(text: str) -> Iterator[tuple[int, str]]:
    """Yield what the beginning of a page lacks, with the title's line; nothing for a page that measures nothing."""
    if not _MEASURES.search(text):
        return
    head = _head(text)
    title = re.search(r"^# .+$", head, re.MULTILINE)
    if title is None:
        yield 1, "the page has no title: begin with '# Title'"
        return
    line = text.count("\n", 0, title.start()) + 1
    needs = read_head(text)
    if needs is None:
        yield line, "add a table '| You need | You get | Time |' with one row before the first cell"
    else:
        if not head[title.end() : needs.start()].strip():
            yield line, "add a sentence that asks what the page answers between the title and the table"
        if not _TIME.search(needs["time"]):
            yield line, f"the table's time must say minutes, such as '45 minutes to read', not {needs['time']!r}"
    wanted = (_LEARN, *_ALSO) if _TEACHES.search(text) else (_LEARN,)
    for words in wanted:
        found = re.search(rf"^{re.escape(words)}\n\S", head, re.MULTILINE)
        if found is None:
            yield line, f"add a paragraph that begins with a line {words} before the first cell"
