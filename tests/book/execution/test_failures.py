"""After a failed build only what failed is read again, and what others show of it is written."""

import re
from pathlib import Path

import pytest

from tests.book.small_book import HEADER, Book, Build
from tests.book.sphinx_process import SphinxProcess

INDEX = "# Index\n\n```{toctree}\nbefore\ncells\nlater\n```\n"
CELLS = (
    HEADER
    + """
# Cells

```{code-cell} ipython3
from tinytorch.report import Page
page = Page("cells")
page.number("total", 41, unit="ops", what="operations")
```
"""
)
SHOWS = "# {}\n\nIt takes {{measured}}`cells:total`.\n"


@pytest.fixture
def book(tmp_path: Path, sphinx: SphinxProcess) -> Book:
    made = Book(tmp_path, sphinx)
    made.write("index", INDEX)
    made.write("before", SHOWS.format("Before"))
    made.write("cells", CELLS)
    made.write("later", SHOWS.format("Later"))
    return made


def read(build: Build) -> list[str]:
    return re.findall(r"reading sources\.\.\. \[[ \d]+%\] (\w+)", build.output)


def test_only_pages_that_failed_and_those_behind_a_cell_that_did_are_read_again_until_they_are_mended(
    book: Book,
) -> None:
    book.write("before", "# Before\n\nHere {measured}`cells:nothing`.\n")  # a fault that is met as pages are written
    failed, again = book.build(), book.build()
    assert (failed.code, again.code) == (1, 1)
    assert read(failed) == ["before", "cells", "index", "later"]
    assert read(again) == ["before"]
    assert again.output.count("has no number 'nothing'") == 1
    book.write("before", SHOWS.format("Before"))
    mended, unchanged = book.build(), book.build()
    assert (mended.code, unchanged.code) == (0, 0), mended.output
    assert (read(mended), read(unchanged)) == (["before"], [])
    book.write("before", SHOWS.format("Before, anew"))
    book.write("cells", CELLS.replace("41", "1 // 0"))
    book.write("later", SHOWS.format("Later, anew"))
    failed = book.build()
    assert failed.code != 0
    assert "ZeroDivisionError" in failed.output
    book.write("cells", CELLS.replace("41", "42"))
    mended = book.build()
    assert mended.code == 0, mended.output
    assert read(mended) == ["cells", "later"]
    for name in ("before", "later"):
        said = " ".join(mended.page(f"{name}.html").get_text().split())
        assert "anew" in said
        assert "42 ops" in said


def test_a_page_that_wrote_to_standard_error_runs_again(book: Book) -> None:
    with (book.source / "conf.py").open("a") as configuration:
        configuration.write('nb_output_stderr = "error"\n')
    book.write("cells", CELLS.replace("41", "__import__('sys').stderr.write('careful')"))
    failed, again = book.build(), book.build()
    assert (failed.code, again.code) == (1, 1)
    assert (read(again), again.executed()) == (["cells"], ["cells"])


def test_a_module_that_is_no_python_is_named_with_its_line(book: Book) -> None:
    configuration, module = book.source / "conf.py", book.folder / "package" / "module.py"
    (book.folder / "package" / "__init__.py").touch()
    configuration.write_text(configuration.read_text().replace("_packages = []", '_packages = ["../package"]'))
    book.write("cells", CELLS.replace("from", "import package.module\nfrom", 1))
    module.write_text("x = 1 +\n")
    failed = book.build()
    assert failed.code != 0
    assert f"{module}:1 is no Python: invalid syntax" in failed.output
