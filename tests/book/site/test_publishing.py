"""What is published: only what this build made, at addresses that change with it."""

import os
import re
from pathlib import Path

from tests.book.small_book import Book
from tests.book.sphinx_process import SphinxProcess

CONFIGURATION = """
from measured_book.site import publishing
html_copy_source = True
html_sourcelink_suffix = ""

def setup(app):
    measured_book.setup_content(app)
    app.add_config_value("book_pdf", "", "html", str)
    app.add_js_file("data.js")
    publishing.setup(app)
"""


def test_a_renamed_page_leaves_nothing_and_addresses_change_with_what_they_hold(
    tmp_path: Path, sphinx: SphinxProcess
) -> None:
    book = Book(tmp_path, sphinx)
    with (book.source / "conf.py").open("a") as configuration:
        configuration.write(CONFIGURATION)
    book.write("index", "# Index\n\n```{toctree}\nsub/old\n```\n")
    (book.source / "sub").mkdir()
    book.write("sub/old", "# Page\n")
    assert book.build().code == 0
    site = book.site
    for name in ("search-index.js", "_measurements/gone.json", "_images/card.png", "measured.pdf"):
        (site / name).parent.mkdir(exist_ok=True)
        (site / name).write_text("1")
    (book.source / "sub" / "old.md").rename(book.source / "sub" / "new.md")
    page = '# Page\n\n```{raw} html\n<p data-book="../search-index.js"></p>\n```\n'
    book.write("sub/new", page)
    book.write("index", "# Index\n\n```{toctree}\nsub/new\n```\n")
    assert book.build(TINYTORCH_BUILD_PAGES="index").code == 0
    assert (site / "sub" / "old.html").is_file(), "a build of some pages leaves all"
    built = book.build()
    assert built.code == 0, built.output
    left = {path.relative_to(site).as_posix() for path in site.rglob("*") if path.is_file()}
    assert {"sub/new.html", "_sources/sub/new.md", "index.html"} <= left
    assert not {name for name in left if re.search(r"old|gone|card|pdf", name)}
    before = re.findall(r"search-index\.js\?v=\w{8}", (site / "sub/new.html").read_text())
    (site / "search-index.js").write_text("2")
    assert book.build().code == 0
    after = re.findall(r"search-index\.js\?v=\w{8}", (site / "sub/new.html").read_text())
    assert (len(before), len(after)) == (1, 1)
    assert before != after


def test_a_clock_that_was_set_back_leaves_no_file_of_an_earlier_text(tmp_path: Path, sphinx: SphinxProcess) -> None:
    book = Book(tmp_path, sphinx)
    with (book.source / "conf.py").open("a") as configuration:
        configuration.write("extensions.append('measured_book.site.sections')\n")
    book.write("index", "# One\n")
    assert book.build().code == 0
    for path in (path for path in book.site.rglob("*") if path.is_file()):
        os.utime(path, (4e9, 4e9))
    book.write("index", "# Two\n")
    assert book.build().code == 0
    assert "Two" in (book.site / "search-index.js").read_text()
