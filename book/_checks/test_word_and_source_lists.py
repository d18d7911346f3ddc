"""A book of four pages without code: words of its glossary where they are used, and its sources listed once."""

import re
from pathlib import Path

import pytest
from docutils import nodes
from docutils.utils import new_document
from hypothesis import given
from hypothesis import strategies as st
from measured_book.pages.references import faults, sources_in, users
from measured_book.sources.bibliography import addresses_of, entry_for, read_references
from measured_book.state import Sources
from pybtex.database import parse_string  # type: ignore[import-untyped]

from tests.book.small_book import Book, Build, one
from tests.book.sphinx_process import SphinxProcess

BOOK = Path(__file__).resolve().parents[2] / "book"
BIB = """
@article{max1960, author = {Max, Joel}, title = {Quantizing for Minimum Distortion}, journal = {IRE}, year = {1960},
  doi = {10.1109/TIT.1960.1057548}}
@misc{han2015, author = {Han, Song}, title = {Learning both}, year = {2015}, eprint = {1506.02626}}
@misc{course, author = {{Somebody}}, title = {A course}, url = {https://example.org/course}}
"""
REFERENCES = parse_string(BIB, "bibtex")
MAX, HAN = "https://doi.org/10.1109/TIT.1960.1057548", "https://arxiv.org/abs/1506.02626"
INDEX = "# Book\n\n```{toctree}\npage\nwords\nsources\n```\n"
PAGE = f"""# Page

The {{term}}`latency` and once more the {{term}}`latency <latency>`, under {{term}}`load`.
They found {{quoted}}`2 %|Han 2015 <{HAN}>`.
See [the course](https://example.org/course/module/1).

## Further reading

- J. Max, [Quantizing]({MAX.lower()}).
"""
WORDS = """# Words

```{glossary}
latency
  The time of one `call` & no <more>.

  A second paragraph.

load
  What runs besides, which makes the {term}`latency` longer.
```
"""
SOURCES = "# Sources\n\n```{reference-list}\n```\n"


@pytest.mark.parametrize(
    ("address", "key"),
    [
        (MAX, "max1960"),
        (MAX.lower(), "max1960"),
        (HAN, "han2015"),
        (f"{HAN}/", "han2015"),
        (f"{HAN}9", None),
        ("https://example.org/course/a/b", "course"),
        ("https://example.org/courses", None),
        ("https://example.org", None),
    ],
)
def test_an_address_belongs_to_the_entry_whose_it_is_or_below_which_it_lies(address: str, key: str | None) -> None:
    assert entry_for(address, REFERENCES) == key


@given(st.sets(st.sampled_from([MAX, HAN, "https://example.org/course/x", "https://example.org/else"])))
def test_every_source_is_listed_or_reported(links: set[str]) -> None:
    sources = {"page": Sources(frozenset(links), frozenset(links))}
    said = list(faults(sources, REFERENCES))
    assert len(said) == ("https://example.org/else" in links)
    assert sum(bool(pages) for pages in users(sources, REFERENCES).values()) == len(links) - len(said)


def test_links_outside_of_further_reading_need_no_entry() -> None:
    document = new_document("page")
    section = nodes.section("", nodes.title("", "Text"))
    section += nodes.paragraph("", "", nodes.reference("", "a tool", refuri="https://example.org/tool"))
    document += section
    found = sources_in(document)
    assert (found.cited, found.linked) == (frozenset(), frozenset({"https://example.org/tool"}))


def test_the_books_own_references_have_an_address_each_no_two_the_same_and_are_used_on_a_page() -> None:
    references = read_references(BOOK / "references.bib")
    sources = (*BOOK.glob("*.md"), *(BOOK.parent / "tinytorch" / "chapters").rglob("*.py"))
    text = "\n".join(path.read_text("utf-8") for path in sources).lower()
    named = set(re.findall(r"^:source: ([\w-]+)$", text, re.MULTILINE))
    assert list(references.entries) == sorted(references.entries)
    for key, entry in references.entries.items():
        assert "title" in entry.fields, key
        assert {"doi", "eprint", "url"} & set(entry.fields), key
        for name, host in (("doi", "doi.org"), ("eprint", "arxiv.org/abs")):
            if name in entry.fields:
                assert entry_for(f"https://{host}/{entry.fields[name]}", references) == key
        assert key.lower() in named or any(address.lower() in text for address in addresses_of(entry)), key


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory, sphinx: SphinxProcess) -> Book:
    made = Book(tmp_path_factory.mktemp("lists"), sphinx)
    (made.source / "references.bib").write_text(BIB, "utf-8")
    for name, text in (("index", INDEX), ("page", PAGE), ("words", WORDS), ("sources", SOURCES)):
        made.write(name, text)
    return made


@pytest.fixture(scope="module")
def built(book: Book) -> Build:
    build = book.build()
    assert build.code == 0, build.output
    return build


def test_each_use_of_a_word_opens_a_meaning_that_stands_behind_it(built: Build) -> None:
    page = built.page("page.html")
    words = page.select("button.term")
    assert [word.get_text() for word in words] == ["latency", "latency", "load"]
    assert [one(page, f"button[popovertarget='{word['popovertarget']}'] + *")["id"] for word in words] == [
        word["popovertarget"] for word in words
    ]
    meaning = one(page, f"[id='{words[0]['popovertarget']}'][popover]")
    assert "The time of one call & no <more>." in " ".join(meaning.get_text().split())
    assert "A second" not in meaning.get_text()
    target, _, anchor = str(one(meaning, "a")["href"]).partition("#")
    assert built.page(target).find(id=anchor) is not None


def test_within_the_glossary_words_are_links(built: Build) -> None:
    words = built.page("words.html")
    assert words.select("button.term") == []
    assert words.select_one('a[href="#term-latency"]') is not None


def test_each_source_is_listed_with_its_address_and_its_pages(built: Build) -> None:
    items = {str(item["id"]): item for item in built.page("sources.html").select(".reference-list > li")}
    assert set(items) == {"reference-max1960", "reference-han2015", "reference-course"}
    assert items["reference-max1960"].select_one(f'a[href="{MAX}"]') is not None
    assert "Joel Max" in items["reference-max1960"].get_text()
    for item in items.values():
        assert item.select_one('.used-in a[href="page.html"]') is not None


@pytest.mark.usefixtures("built")
def test_a_changed_meaning_changes_the_pages_that_use_it_and_an_unknown_source_fails(book: Book) -> None:
    book.write("words", WORDS.replace("The time of one", "How long is one"))
    book.write("sources", SOURCES + "\nThey found {quoted}`3 %|Nobody <https://example.org/nobody>`.\n")
    again = book.build()
    assert "How long is one call" in again.pages["page.html"]
    assert again.code != 0
    assert "sources.md: WARNING: https://example.org/nobody is a source of this page" in again.output
