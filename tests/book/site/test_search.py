"""The site's address comes from the environment alone; a page is described by its own first sentences."""

import pytest
from docutils import nodes
from hypothesis import given
from hypothesis import strategies as st
from measured_book.site.search import LONGEST, description_of, first_sentences, site_address
from sphinx.errors import ConfigError


@pytest.mark.parametrize(
    ("environment", "address"),
    [
        ({}, None),
        ({"TINYTORCH_SITE_URL": "  "}, None),
        ({"TINYTORCH_SITE_URL": "https://example.org/book"}, "https://example.org/book/"),
        ({"GITHUB_REPOSITORY": "Owner/Name"}, "https://owner.github.io/Name/"),
        ({"GITHUB_REPOSITORY": "owner/Owner.github.io"}, "https://owner.github.io/"),
        ({"GITHUB_REPOSITORY": "o/n", "GITHUB_SERVER_URL": "https://git.example.org"}, None),
        ({"GITHUB_REPOSITORY": "o/n", "TINYTORCH_SITE_URL": "http://example.org/"}, "http://example.org/"),
        ({"GITHUB_REPOSITORY": "no slash"}, None),
    ],
)
def test_where_the_site_is(environment: dict[str, str], address: str | None) -> None:
    assert site_address(environment) == address


@pytest.mark.parametrize(
    "given", ["example.org", "ftp://example.org/", "https://", "https://example.org/?a", "https://a/#b"]
)
def test_what_is_no_address_is_refused(given: str) -> None:
    with pytest.raises(ConfigError, match="address"):
        site_address({"TINYTORCH_SITE_URL": given})


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


def test_what_leads_a_page_describes_it() -> None:
    lead = nodes.container("", nodes.paragraph("", "Where does the time go?"))
    assert description_of(page(lead, nodes.paragraph("", "It is for students."))) == "Where does the time go?"


def test_a_page_without_text_has_none() -> None:
    assert description_of(page()) == ""
