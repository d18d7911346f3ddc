"""The order of pages, which results of executed pages are kept, and what is wrong with records."""

import json
import os
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import nbformat
import pytest
from measured_book.execution import cache
from measured_book.execution.cache import CACHE_FOLDER, KEPT, SECONDS_FILE, Execution, order_pages, prepare_pages
from measured_book.execution.key import Surroundings
from measured_book.execution.results import RecordError, read_page
from nbformat.v4 import new_code_cell, new_notebook
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.errors import ExtensionError
from sphinx_external_toc.parsing import parse_toc_yaml

from tests.book.small_book import HEADER, Book
from tests.book.sphinx_process import SphinxProcess
from tests.chosen_settings import choose_settings
from tinytorch.perf.measuring import Measurement
from tinytorch.report import Page
from tinytorch.report.kinds import of_kind
from tinytorch.report.records import RECORD_MIME, Json


def test_pages_run_in_the_order_of_the_contents(tmp_path: Path) -> None:
    contents = tmp_path / "_toc.yml"
    contents.write_text(
        "format: jb-book\nroot: index\nchapters:\n"
        "  - file: zebra\n    sections:\n      - file: zebra-more\n  - file: apple\n"
    )
    app = SimpleNamespace(config=SimpleNamespace(external_site_map=parse_toc_yaml(contents)))
    docnames = ["apple", "index", "unlisted", "zebra", "zebra-more"]
    order_pages(cast(Sphinx, app), cast(BuildEnvironment, None), docnames)
    assert docnames == ["index", "zebra", "zebra-more", "apple", "unlisted"]


CONTENTS = "root: index\nentries:\n  - file: one\n  - file: two\n"
CELL = HEADER + "\n# {}\n\n```{{code-cell}} ipython3\n1\n```\n"


def two_pages(folder: Path, sphinx: SphinxProcess) -> Book:
    """Return a book whose contents are a file, as Jupyter Book's are."""
    made = Book(folder, sphinx)
    with (made.source / "conf.py").open("a") as configuration:
        configuration.write("extensions.append('sphinx_external_toc')\nexternal_toc_exclude_missing = True\n")
    (made.source / "_toc.yml").write_text(CONTENTS)
    made.write("index", "# Index\n")
    for name in ("one", "two"):
        made.write(name, CELL.format(name))
    return made


def test_a_page_after_a_byte_order_mark_runs_and_runs_again_when_a_module_changed(
    tmp_path: Path, sphinx: SphinxProcess
) -> None:
    book = two_pages(tmp_path, sphinx)
    book.write("one", "\ufeff" + CELL.format("one"))
    assert book.build().executed() == ["one", "two"]
    assert book.build().executed() == []
    (book.folder / "package" / "module.py").write_text("x = 2\n", "utf-8")
    assert book.build().executed() == ["one", "two"]


def test_a_book_in_a_folder_with_brackets_is_built(tmp_path: Path, sphinx: SphinxProcess) -> None:
    book = two_pages(tmp_path / "a [draft] of it*", sphinx)
    done = book.build()
    assert (done.code, done.executed()) == (0, ["one", "two"]), done.output
    assert {"index.html", "one.html", "two.html"} <= done.pages.keys()


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, sphinx: SphinxProcess) -> Path:
    """Return what the first build of the book of two pages keeps."""
    book = two_pages(tmp_path_factory.mktemp("book"), sphinx)
    assert book.build().executed() == ["one", "two"]
    return book.folder / "_build" / CACHE_FOLDER


@pytest.fixture
def book(tmp_path: Path, sphinx: SphinxProcess, results: Path) -> Book:
    """Return a book of two pages that was built, but for what is not kept in the cache."""
    made = two_pages(tmp_path, sphinx)
    shutil.copytree(results, made.folder / "_build" / CACHE_FOLDER)
    return made


def kept(book: Book, page: str) -> list[Path]:
    return sorted((book.folder / "_build" / CACHE_FOLDER / page).glob("*"))


def test_a_failed_build_keeps_all_results_and_a_good_one_the_latest_of_each_page(book: Book) -> None:
    for page in ("one", "gone"):
        for age in range(4):
            old = book.folder / "_build" / CACHE_FOLDER / page / f"old-{age}"
            old.mkdir(parents=True)
            os.utime(old, (1e9 - age, 1e9 - age))
    (book.source / "_toc.yml").write_text(CONTENTS.replace("two", "gone"))
    failed = book.build()
    assert failed.code == 1
    assert [len(kept(book, page)) for page in ("one", "two", "gone")] == [5, 1, 4]
    (book.source / "_toc.yml").write_text(CONTENTS)
    mended = book.build()
    assert (mended.code, mended.executed()) == (0, []), mended.output
    assert [path.name for path in kept(book, "one")][1:] == ["old-0", "old-1"]
    assert len(kept(book, "one")) == KEPT
    assert not kept(book, "gone")


def test_a_build_of_some_pages_keeps_older_results_of_those_that_it_leaves_out(book: Book) -> None:
    module = book.folder / "package" / "module.py"
    module.write_text("x = 2\n")
    assert book.build(TINYTORCH_BUILD_PAGES="one").executed() == ["one"]
    module.write_text("x = 1\n")
    assert book.build().executed() == []


def test_a_page_of_another_name_is_built_alone_where_the_first_page_has_no_result(book: Book) -> None:
    book.write("index", CELL.format("Index"))
    assert book.build(TINYTORCH_BUILD_PAGES="two").executed() == []
    (book.source / "two.md").rename(book.source / "other.md")
    (book.source / "_toc.yml").write_text(CONTENTS.replace("two", "other"))
    done = book.build(TINYTORCH_BUILD_PAGES="other")
    assert (done.code, done.executed()) == (0, ["other"]), done.output


def test_a_result_that_was_cut_off_or_whose_index_is_broken_is_made_anew(book: Book) -> None:
    for broken in ("executed/*/base.ipynb", "global.db"):
        (path,) = kept(book, "one")[-1].glob(broken)
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) // 2])
        again = book.build()
        assert (again.code, again.executed()) == (0, ["one"]), again.output


HERE = Surroundings((), {}, {"CPU": "one"}, {}, {})
#: Stands in for the preparation: prints as an event what it was given, and ends as told.
PREPARES = "import json, sys; print(json.dumps({'event': 'given', 'words': sys.argv[1:]})); sys.exit(%d)"


def told_by_preparation(monkeypatch: pytest.MonkeyPatch, pages: list[str], around: Surroundings, code: int = 0) -> Any:
    reading, writing = os.pipe()
    command = json.dumps([sys.executable, "-I", "-S", "-c", PREPARES % code])
    choose_settings(monkeypatch, build_events=str(writing), build_preparation=command)
    try:
        prepare_pages(pages, around)
    finally:
        os.close(writing)
        with os.fdopen(reading) as events:
            told = [json.loads(line) for line in events]
    return told


def test_pages_that_run_are_prepared_and_what_that_tells_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    (event,) = told_by_preparation(monkeypatch, ["roofline", "capstone"], HERE)
    assert event["event"] == "given"
    machine, *pages = event["words"]
    assert pages == ["roofline", "capstone"]
    ((same,), (other,)) = (
        told_by_preparation(monkeypatch, ["roofline"], around)
        for around in (HERE, Surroundings((), {}, {"CPU": "another"}, {}, {}))
    )
    assert same["words"][0] == machine != other["words"][0]


def test_a_preparation_that_fails_ends_the_build(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ExtensionError, match="ended"):
        told_by_preparation(monkeypatch, ["roofline"], HERE, code=3)


def test_a_page_that_ever_ran_here_does_not_run_for_the_first_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where what Sphinx knew of it is gone."""
    (tmp_path / SECONDS_FILE).write_text('{"one": 2.5}')
    execution = Execution(cast(Sphinx, SimpleNamespace(outdir=tmp_path / "html")))
    monkeypatch.setattr(execution, "around", HERE, raising=False)
    monkeypatch.setattr(execution, "study", lambda _: new_notebook(cells=[new_code_cell("1")]))
    monkeypatch.setattr(execution, "has_result", lambda *_: False)
    told: list[dict[str, Any]] = []
    monkeypatch.setattr(cache, "tell", lambda _, **facts: told.append(facts))
    environment = cast(BuildEnvironment, SimpleNamespace(all_docs={}))
    execution.plan(cast(Sphinx, None), environment, ["one", "two"])
    assert [(page["why"], page["seconds"]) for page in told[0]["pages"]] == [
        ("no result of it is kept as it is now", 2.5),
        ("it runs here for the first time", None),
    ]


def test_nothing_is_prepared_if_no_page_runs_or_the_build_is_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    assert told_by_preparation(monkeypatch, [], HERE) == []
    choose_settings(monkeypatch, build_preparation="")
    prepare_pages(["roofline"], HERE)


RUN = Measurement("a run", (1.0, 1.1, 1.2, 1.3, 1.4, 1.5), "s")


def records() -> list[Json]:
    page = Page("page")
    page.number("latency", RUN)
    page.table("ops", [{"op": "a", "time": RUN}], [("op", "Op"), ("time", "Time")], caption="c")
    return page.records


def notebook(data: list[Json]) -> nbformat.NotebookNode:
    outputs = [nbformat.v4.new_output("display_data", {RECORD_MIME: record}) for record in data]
    cell = nbformat.v4.new_code_cell("", outputs=outputs, metadata={"tags": ["remove-output"]})
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("text"), cell])


def test_all_records_are_read_whatever_the_cells_tags() -> None:
    page = read_page(notebook(records()), "page", 2.0)
    assert page is not None
    assert list(page.records) == ["provenance", "latency", "ops"]
    assert page.duration == 2.0


def test_a_page_without_records_has_none() -> None:
    assert read_page(notebook([]), "page", None) is None


def changed(which: str, **fields: Any) -> list[Json]:
    made = records()
    next(record for record in made if record["key"] == which).update(fields)
    return made


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (changed("latency", page="other"), r"write Page\('page'\)"),
        (changed("ops", key="latency"), "two records have the key 'latency'"),
        (changed("latency", value=float("nan")), "'latency' holds a number that is not finite"),
        (changed("latency", samples=[]), "break their schema"),
        (changed("latency", what=""), "break their schema"),
    ],
)
def test_what_is_wrong_is_said(data: list[Json], message: str) -> None:
    with pytest.raises(RecordError, match=message):
        read_page(notebook(data), "page", None)


def test_records_without_provenance_are_refused() -> None:
    with pytest.raises((RecordError, ValueError), match="provenance"):
        read_page(notebook(records()[1:]), "page", None)


def test_numbers_in_tables_count_too() -> None:
    assert [number["n"] for record in records()[1:] for number in of_kind(record).numbers()] == [6, 6]
