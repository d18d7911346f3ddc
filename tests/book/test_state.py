"""The state of the book over builds: what goes with a page, and which pages are written again because of others."""

from types import SimpleNamespace
from typing import Any

import pytest
from docutils import nodes
from measured_book.sources.names import split_reference
from measured_book.state import Agreement, BookState, Outline, PageRecords, short_titles

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


OUTLINE = Outline((("page", "A page"),), (("page", ("figure-a",)),), None)


def state(*names: str) -> BookState:
    """Return a state of pages that were read in an earlier build."""
    made = BookState(outline=OUTLINE)
    for name in names:
        made.of(name)
    return made


def test_pages_that_depend_on_a_page_are_written_again_once() -> None:
    book = state("a", "b", "c", "ledger", "late")
    book.of("a").uses, book.of("c").uses = {"b"}, {"c"}
    book.of("ledger").has_ledger = book.of("late").tells_of_all_pages = True
    book.of("b").about = "It was."
    assert book.begin_writing(OUTLINE, {}) == set()
    book.forget("b")
    assert book.begin_writing(OUTLINE, {}) == {"a", "ledger", "late"}
    assert book.begin_writing(OUTLINE, {}) == set(), "they are named once"


def test_a_page_that_gives_what_it_gave_changes_no_other_and_keeps_how_it_agrees() -> None:
    book = state("a", "b", "late")
    book.of("a").uses, book.of("late").tells_of_all_pages = {"b"}, True
    book.of("b").records = PageRecords("b", {"total": {"value": 1}}, agreement=Agreement(3))
    book.forget("b")
    book.of("b").records = PageRecords("b", {"total": {"value": 1}})
    assert book.begin_writing(OUTLINE, {}) == {"b"}
    assert book.records["b"].agreement == Agreement(3)
    book.forget("b")
    book.of("b").records = PageRecords("b", {"total": {"value": 2}})
    assert book.begin_writing(OUTLINE, {}) == {"a", "b", "late"}


@pytest.mark.parametrize(
    "changed",
    [
        Outline((("page", "Another"),), OUTLINE.labels, None),
        Outline(OUTLINE.headings, (("page", ("figure-b", "figure-a")),), None),
        Outline(OUTLINE.headings, OUTLINE.labels, "package-2.whl"),
    ],
    ids=["a heading", "a figure before others", "the package's file"],
)
def test_all_pages_are_written_again_when_what_each_shows_of_others_changed(changed: Outline) -> None:
    book = state("a", "b")
    assert book.begin_writing(changed, {}) == {"a", "b"}
    assert book.begin_writing(changed, {}) == set()


def test_users_of_a_word_are_written_again_when_a_glossary_goes() -> None:
    book = state("user", "other")
    book.of("glossary").words = {"term-a": ("a", "A thing.")}
    book.of("user").uses_words = True
    book.forget("other")
    book.of("other").about = "A page of no words."
    assert book.begin_writing(OUTLINE, {}) == {"other"}
    book.forget("glossary")
    assert book.begin_writing(OUTLINE, {}) == {"user"}


def test_a_record_is_found_by_page_key_and_kind_and_on_a_page_that_was_left_out_all_are_absent() -> None:
    book = state("left")
    book.of("page").records = PageRecords("page", {"total": {"key": "total", "kind": "counted"}})
    book.of("left").left_out = True
    assert book.find("total", "page", "counted") == book.find("page:total", "left", "counted")
    assert book.find("total", "page", "claim") is None
    assert book.find("other", "page", "counted") is None
    assert book.find("nowhere:total", "page", "counted") is None
    assert (book.find("total", "left", "counted", ABSENT) or {})["kind"] == ABSENT
