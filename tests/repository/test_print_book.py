"""The book in one page, for paper: articles in the menu's order, with links that lead within it."""

from pathlib import Path

from bs4 import BeautifulSoup

from scripts.print_book import combined

LISTED = ("b.html", "a.html", "reference/index.html")
MENU = f'<nav id="site-contents"><ul>{"".join(f"<li><a href={name!r}>x</a></li>" for name in LISTED)}</ul></nav>'


def write(folder: Path, name: str, article: str) -> None:
    style = '<link rel="stylesheet" href="_static/book.css">'
    (folder / name).write_text(f"<html><head>{style}</head><body>{MENU}<article>{article}</article></body></html>")


def test_articles_follow_one_another_and_links_lead_within(tmp_path: Path) -> None:
    write(tmp_path, "index.html", '<p><a href="a.html#here">A</a> <a href="https://example.org">out</a></p>')
    write(
        tmp_path,
        "a.html",
        '<h2 id="here">A</h2><a href="#here">up</a><a href="b.html">B</a><span popover id="p">x</span>',
    )
    write(tmp_path, "b.html", '<details id="fold"><summary>more</summary>B</details><a href="reference/r.html#x">x</a>')
    page = BeautifulSoup(combined(tmp_path), "html.parser")
    assert [article["id"] for article in page.select("article")] == ["index.html", "b.html", "a.html"]
    assert [link.get("href") for link in page.select("a")] == [
        "#a.html--here",
        "https://example.org",
        None,  # the reference is left out
        "#a.html--here",
        "#b.html",
    ]
    assert all(page.find(id=str(link["href"])[1:]) for link in page.select("a[href^='#']"))
    assert page.select_one("[popover]") is None
    assert page.select_one("details[open]") is not None
    assert len(page.select("link[rel=stylesheet]")) == 1
