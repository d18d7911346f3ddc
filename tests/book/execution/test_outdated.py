"""What a page is read from counts by what it holds, whatever the dates of files say."""

import os
from pathlib import Path

import pytest

from tests.book.small_book import HEADER, Book
from tests.book.sphinx_process import SphinxProcess

#: Asks for a module that lies beside the page, as another tree's may on the path of a kernel.
CELL = "```{code-cell} ipython3\n:tags: [remove-output]\nimport ship\n```\n"


def replace(path: Path, text: str) -> None:
    """Give the file another text and a date of long ago, as a copy or a clock that was set back does."""
    path.write_text(text, "utf-8")
    os.utime(path, (1e9, 1e9))


def test_a_page_and_what_it_includes_are_read_again_when_they_changed(tmp_path: Path, sphinx: SphinxProcess) -> None:
    book = Book(tmp_path, sphinx)
    page = "# A page\n\n{}\n\n```{{literalinclude}} included.txt\n:language: text\n```\n"
    book.write("index", page.format("It says one."))
    replace(book.source / "included.txt", "included one\n")
    assert "It says one." in book.build().pages["index.html"]
    replace(book.source / "index.md", page.format("It says two."))
    assert "It says two." in book.build().pages["index.html"]
    replace(book.source / "included.txt", "included two\n")
    assert "included two" in book.build().pages["index.html"]
    assert "0 added, 0 changed" in book.build().output


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_page_whose_kernel_loaded_another_tree_s_package_is_no_result(
    tmp_path: Path, sphinx: SphinxProcess, elsewhere: bool
) -> None:
    from scripts.building.settings import build_settings, write_startup

    book = Book(tmp_path, sphinx)
    for folder in (tmp_path / "ship", *([book.source / "ship"] if elsewhere else [])):
        folder.mkdir()
        (folder / "__init__.py").touch()
    configuration = (book.source / "conf.py").read_text("utf-8")
    configuration = configuration.replace("execution_packages = []", 'execution_packages = ["../ship"]')
    (book.source / "conf.py").write_text(configuration, "utf-8")
    book.write("index", HEADER + "# A page\n\n" + CELL)
    write_startup(tmp_path / "_build")
    settings = build_settings(tmp_path / "_build")
    built = book.build(**settings, PYTHONPATH=str(tmp_path))
    assert (built.code != 0) == elsewhere, built.output
    if elsewhere:
        wanted, loaded = (folder / "ship" / "__init__.py" for folder in (tmp_path, book.source))
        assert f"index: its cells loaded ship from {loaded} and not from {wanted}" in built.output
        assert not list((tmp_path / "_build").glob(".jupyter_cache/*/*/global.db"))
