"""A page is described by its own first sentences, whole ones where they fit."""

from __future__ import annotations

from docutils import nodes
from hypothesis import given
from hypothesis import strategies as st
from site_description import LONGEST, description_of, first_sentences


def page(*children: nodes.Node) -> nodes.document:
    document = nodes.document(None, None)  # type: ignore[arg-type]
    section = nodes.section("", nodes.title("", "Title"), *children)
    document.append(section)
    return document


def test_whole_sentences_that_fit_are_taken() -> None:
    long = "word " * 40
    assert first_sentences(f"Is it slow? It is.\nHere is why. {long}.") == "Is it slow? It is. Here is why."


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1).filter(str.strip))
def test_it_is_never_longer_than_is_shown_and_never_invents(text: str) -> None:
    found = first_sentences(text)
    assert len(found) <= LONGEST
    assert " ".join(text.split()).startswith(found.removesuffix("…").rstrip(",;:"))


def test_paragraphs_with_a_number_are_left_out_as_it_is_not_known_yet() -> None:
    number = nodes.paragraph("", "", nodes.Text("It takes "), nodes.raw("", "<b>3</b>", format="html"))
    assert description_of(page(number, nodes.paragraph("", "It is slow."))) == "It is slow."


def test_what_lies_in_a_table_is_not_the_first_paragraph() -> None:
    cell = nodes.table(
        "", nodes.tgroup("", nodes.tbody("", nodes.row("", nodes.entry("", nodes.paragraph("", "Cell")))))
    )
    assert description_of(page(cell, nodes.container("", nodes.paragraph("", "Text.")))) == "Text."


def test_a_page_without_text_has_none() -> None:
    assert description_of(page()) == ""
