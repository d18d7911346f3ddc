"""The parts of the first page: the picture of numbers, and the entry to cite."""

from pathlib import Path

import yaml
from measured_book.pages.front import CITATION, bibtex, evidence_drawing, written_by

from tinytorch.perf.measuring import Measurement
from tinytorch.report import Page

BOOK = Path(__file__).resolve().parents[3] / "book"


def test_each_number_has_its_samples_and_its_value_in_the_picture() -> None:
    page = Page("made")
    for key, factor in (("straw", 100.0), ("fair", 3.0)):
        page.number(key, Measurement(key, tuple(factor * (1 + 0.01 * k) for k in range(-4, 5)), ""))
    records = [record for record in page.records if record["key"] in ("straw", "fair")]
    text = evidence_drawing(records, ["Against naive NumPy", "Against good NumPy"]).svg(key="e", alt="two numbers")
    assert "Against naive NumPy: 100×" in text
    assert "9 samples" in text
    assert text.count("<polyline") > 2 * 9
    assert [tick in text for tick in ("1×", "10×", "100×")] == [True] * 3


def test_the_entry_to_cite_names_authors_title_and_version() -> None:
    cited = yaml.safe_load((BOOK / CITATION).read_text("utf-8"))
    entry = bibtex(cited)
    assert cited["title"] in entry
    assert cited["version"] in entry
    assert entry.count("{") == entry.count("}")
    people = [{"family-names": "Doe", "given-names": "Jo"}, {"name": "A group"}]
    assert "author = {Doe, Jo and {A group}}" in bibtex({**cited, "authors": people})


def test_a_group_has_its_article_small_in_the_middle_of_a_sentence() -> None:
    people = [{"name": "The group"}, {"family-names": "Doe", "given-names": "Jo"}]
    assert written_by({"authors": people, "version": "1.2"}) == "Written by the group, Jo Doe; version 1.2."
