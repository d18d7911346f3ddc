"""The state of the book over builds: what goes with a page, and which pages are written again because of others."""

from types import SimpleNamespace
from typing import Any

import pytest
from docutils import nodes
from measured_book.sources.names import split_reference
from measured_book.state import Agreement, BookState, PageRecords, short_titles

from tinytorch.report.records import ABSENT


@pytest.mark.parametrize(
    ("reference", "expected"),
    [("key", ("here", "key")), ("there:key", ("there", "key")), ("part/there:key", ("part/there", "key"))],
)
def test_references(reference: str, expected: tuple[str, str]) -> None:
    assert split_reference(reference, "here") == expected


def test_titles_are_short_unless_two_pages_would_be_called_alike() -> None:
    titles = {"one": "Acceleration: one", "model": "Acceleration: a model", "kept": "Memoization: the KV cache"}
    env: Any = SimpleNamespace(titles={name: nodes.title("", title) for name, title in titles.items()})
    assert short_titles(env, ["one", "kept"]) == ["Acceleration: one", "Memoization"]


def state(*names: str) -> BookState:
    """Return a state of pages that were read in an earlier build."""
    made = BookState()
    for name in names:
        made.of(name)
    return made


def again(book: BookState, wheel: str | None = None, *, of_all: bool = True) -> set[str]:
    return book.begin_writing(wheel, of_all=of_all)


def test_all_pages_are_written_again_once_when_one_gave_something_new() -> None:
    book = state("a", "b", "c")
    assert again(book) == set()
    book.forget("b")
    book.of("b")
    assert again(book) == {"b"}, "it gave what it gave"
    book.forget("b")
    book.of("b").about = "It was."
    assert again(book) == {"a", "b", "c"}
    assert again(book) == set()
    assert again(book, "package-2.whl") == {"a", "b", "c"}, "to which all link"


def test_a_build_of_some_pages_writes_those_that_name_their_records_and_the_next_of_all_the_others() -> None:
    book = state("a", "b", "c")
    book.of("a").uses = {"b"}
    book.forget("b")
    book.of("b").about = "It was."
    assert again(book, of_all=False) == {"a", "b"}
    assert again(book, of_all=False) == set()
    assert again(book) == {"a", "b", "c"}


def test_a_page_that_gives_what_it_gave_keeps_how_it_agrees() -> None:
    book = state("a", "b")
    book.of("b").records = PageRecords("b", {"total": {"value": 1}}, agreement=Agreement(3))
    book.forget("b")
    book.of("b").records = PageRecords("b", {"total": {"value": 1}})
    assert again(book) == {"b"}
    assert book.records["b"].agreement == Agreement(3)


def test_a_record_is_found_by_page_key_and_kind_and_on_a_page_that_was_left_out_all_are_absent() -> None:
    book = state("left")
    book.of("page").records = PageRecords("page", {"total": {"key": "total", "kind": "counted"}})
    book.of("left").left_out = True
    assert book.find("total", "page", "counted") == book.find("page:total", "left", "counted")
    assert book.find("total", "page", "claim") is None
    assert book.find("other", "page", "counted") is None
    assert book.find("nowhere:total", "page", "counted") is None
    assert (book.find("total", "left", "counted", ABSENT) or {})["kind"] == ABSENT
