"""Gate: what each page says is spelled as `spelling.py` has it, also what code made.

Read is what a reader reads: text, captions, titles, descriptions of pictures. Code, formulas and sources, which are
full of names, are left out.
"""

import spelling
from bs4 import BeautifulSoup

_LEFT_OUT = (
    "pre, code, kbd, samp, script, style, math, template, .visually-hidden, "
    ".kind-tag, a.external, .quoted-source, .claim-source, .claim-quote, .reference-list, [translate=no], "
    # What a machine says of itself.
    "#how-this-was-measured, #table-identity"
)
#: Within these, text is one line of its own.
_BLOCKS = {
    *("h1", "h2", "h3", "h4", "h5", "h6", "p", "li", "dt", "dd", "td", "th", "caption", "figcaption", "summary"),
    *("label", "legend", "desc", "text", "button", "option", "div", "section"),
}
_SAID = ("alt", "title", "aria-label", "placeholder")


def read_aloud(html: str) -> list[str]:
    """Return what a page says in words, a line for each block."""
    page = BeautifulSoup(html, "html.parser")
    lines = [page.title.get_text(" ")] if page.title else []
    lines += [str(meta["content"]) for meta in page.select('meta[name="description"][content]')]
    body = page.find("main") or page.body or page
    for tag in body.select(_LEFT_OUT):
        tag.replace_with(" ")
    for line in body.select("br"):
        line.replace_with("\n")
    lines += [str(tag[name]) for name in _SAID for tag in body.select(f"[{name}]")]
    blocks: dict[int, list[str]] = {}
    for text in body.find_all(string=True):
        block = text.find_parent(lambda tag: tag.name in _BLOCKS) or body
        blocks.setdefault(id(block), []).append(str(text))
    lines += ["".join(pieces) for pieces in blocks.values()]
    return list(dict.fromkeys(" ".join(line.split()) for line in lines if line.strip()))


def check(pages: dict[str, str]) -> dict[str, list[str]]:
    """Return the misspelled words of each page that has any, a line for each, with what stands around it.

    Args:
        pages: the HTML of each page, by its address.
    """
    found: dict[str, list[str]] = {}
    for address, html in pages.items():
        text = "\n".join(read_aloud(html))
        for word in dict.fromkeys(spelling.words_in(text)):
            if said := spelling.fault_of(word):
                at = text.index(word)
                around = " ".join(text[max(0, at - 30) : at + len(word) + 30].split())
                found.setdefault(address, []).append(f"{said} (... {around} ...)")
    return found
