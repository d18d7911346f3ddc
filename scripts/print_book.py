"""Prints the built book into one PDF, with the browser that checks its pages: `make pdf`.

All articles are put behind one another in one page, whose links lead within it, and Chromium prints that with the
book's styles for paper. The site links to the file from its menu where `TINYTORCH_PDF` was set as it was built.
"""

import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

from bs4 import BeautifulSoup, Tag

ROOT = Path(__file__).resolve().parent.parent
SITE = ROOT / "_build" / "html"
PDF, COMBINED = "measured.pdf", "measured-print.html"
#: Pages to look things up in on a screen: the reference alone would be as long as the chapters.
_UNPRINTED_PAGES = "reference/"
#: What no paper shows.
_UNPRINTED = (
    "[popover], .page-line, .page-top, .headerlink, form, script, .exercise-start, svg.narrow, .reading-progress"
)


def pages_in_order(site: Path) -> list[str]:
    """Return the names of the pages' files, as the menu of the first page lists them, without the reference."""
    menu = BeautifulSoup((site / "index.html").read_text("utf-8"), "html.parser").select("#site-contents li a[href]")
    listed = (str(link["href"]) for link in menu)
    pages = (name for name in listed if name.endswith(".html") and not name.startswith(_UNPRINTED_PAGES))
    return list(dict.fromkeys(["index.html", *pages]))


def _settle(article: Tag, name: str, known: set[str]) -> None:
    """Give an article's parts ids of their own in the whole book, and lead its links there."""
    for part in article.select("[id]"):
        part["id"] = f"{name}--{part['id']}"
    for attribute in ("aria-labelledby", "aria-describedby", "for", "href"):
        for part in article.select(f"[{attribute}]"):
            value = str(part[attribute])
            if attribute != "href":
                part[attribute] = f"{name}--{value}"
            elif value.startswith("#"):
                part[attribute] = f"#{name}--{value[1:]}"
            elif not urlsplit(value).scheme and unquote(urlsplit(value).path) in known:
                page, _, anchor = value.partition("#")
                part[attribute] = f"#{page}--{anchor}" if anchor else f"#{page}"
            elif value.startswith(_UNPRINTED_PAGES):
                del part[attribute]


def combined(site: Path) -> str:
    """Return one page of all articles of the site."""
    names = pages_in_order(site)
    styles: dict[str, None] = {}
    articles = []
    for name in names:
        page = BeautifulSoup((site / name).read_text("utf-8"), "html.parser")
        styles |= dict.fromkeys(str(link["href"]) for link in page.select("link[rel=stylesheet]"))
        article = page.select_one("article")
        if article is None:
            continue
        for part in article.select(_UNPRINTED):
            part.decompose()
        for fold in article.select("details"):
            fold["open"] = ""
        _settle(article, name, set(names))
        article["id"] = name
        articles.append(str(article))
    links = "".join(f'<link rel="stylesheet" href="{style}">' for style in styles)
    title = "Measured: Machine-Learning Performance You Can Check"
    head = f'<head><meta charset="utf-8"><title>{title}</title>{links}</head>'
    body = f'<body class="whole-book">{"".join(articles)}</body>'
    return f'<!DOCTYPE html><html lang="en" data-theme="light">{head}{body}</html>'


def main() -> int:
    """Write the PDF into the site; return 0, or 1 if there is no site or no browser."""
    sys.path.insert(0, str(ROOT / "book" / "_checks"))
    from chromium import launched

    if not (SITE / "index.html").is_file():
        print("There is no built book: run `make book` first.", file=sys.stderr)
        return 1
    whole = SITE / COMBINED
    try:
        whole.write_text(combined(SITE), "utf-8")
        with launched() as browser:
            page = browser.new_page()
            page.goto(whole.as_uri(), wait_until="load", timeout=300_000)
            page.pdf(path=SITE / PDF, format="A4", prefer_css_page_size=True, outline=True, tagged=True)
    except FileNotFoundError as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        whole.unlink(missing_ok=True)
    print(f"The book is in {SITE / PDF} ({(SITE / PDF).stat().st_size / 1e6:.1f} MB).")
    return 0


if __name__ == "__main__":
    sys.exit(main())
