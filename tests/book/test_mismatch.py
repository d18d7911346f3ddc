"""A report of a mismatch: what a host's form receives, and what stands on the page where there is none."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest
from bs4 import BeautifulSoup
from hypothesis import given
from hypothesis import strategies as st
from mismatch import issue_address, mismatch_html, mismatch_text
from record_store import PageRecords

from tinytorch.report import Page

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\r"), min_size=1, max_size=200)


def options(provider: str) -> dict[str, str]:
    return {"repository_url": f"https://{provider}.com/owner/name", "repository_provider": provider}


def page() -> PageRecords:
    made = Page("page")
    return PageRecords("page", {record.key: record.to_json() for record in made.records}, 1.5)


@given(title=TEXT, text=TEXT)
@pytest.mark.parametrize(
    ("provider", "path", "names"),
    [
        ("github", "/owner/name/issues/new", ("title", "body")),
        ("gitlab", "/owner/name/-/issues/new", ("issue[title]", "issue[description]")),
    ],
)
def test_a_form_receives_title_and_text(
    provider: str, path: str, names: tuple[str, str], title: str, text: str
) -> None:
    address = urlsplit(str(issue_address(options(provider), title, text)))
    assert (address.netloc, address.path) == (f"{provider}.com", path)
    assert parse_qs(address.query, keep_blank_values=True) == {names[0]: [title], names[1]: [text]}


@pytest.mark.parametrize("known", [{}, {"repository_url": ""}, options("bitbucket")])
def test_without_a_host_that_takes_issues_there_is_no_form(known: dict[str, str]) -> None:
    assert issue_address(known, "title", "text") is None


def test_a_text_too_long_for_an_address_is_left_out() -> None:
    address = str(issue_address(options("github"), "title", "é" * 5000))
    assert parse_qs(urlsplit(address).query) == {"title": ["title"]}


def test_the_text_holds_the_card() -> None:
    measured = page()
    text = mismatch_text("A title", "page", measured)
    where = measured.provenance
    for words in ("A title (page)", where["machine"]["cpu"], where["package"]["sha256"][:16], where["numpy"], "BLAS: "):
        assert words in text
    assert "<" not in text


def test_a_real_card_fits_into_an_address() -> None:
    address = str(issue_address(options("github"), "Mismatch: A title", mismatch_text("A title", "page", page())))
    assert "body" in parse_qs(urlsplit(address).query)


def test_the_page_shows_a_link_or_a_folded_text() -> None:
    linked = BeautifulSoup(mismatch_html(options("github"), "A title", "page", page()), "html.parser")
    assert linked.a is not None
    assert str(linked.a["href"]).startswith("https://github.com/owner/name/issues/new?title=Mismatch")
    folded = BeautifulSoup(mismatch_html({}, "A <b>title</b>", "page", None), "html.parser")
    assert folded.details is not None
    assert folded.pre is not None
    assert folded.pre.get_text() == mismatch_text("A <b>title</b>", "page", None)
