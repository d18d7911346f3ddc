"""The small book's pages, and what each of its builds did."""

import json
import os
from pathlib import Path
from typing import cast

import nbformat
import pytest
from bs4 import BeautifulSoup, Tag
from built_pages import check_site, is_left_out
from built_site import find_pages
from jsonschema import Draft202012Validator

from tests.book.small_book import FIRST, HEADER, INDEX, SECOND, Book, Build, Story
from tests.book.sphinx_process import SphinxProcess
from tinytorch.perf.measuring.conditions import Conditions
from tinytorch.perf.measuring.measurement import Statistic
from tinytorch.perf.measuring.statistics import Interval
from tinytorch.report.records import measurement_from_record, schema

SAMPLES = (1.0e-3, 1.1e-3, 1.2e-3, 1.05e-3, 1.15e-3, 1.3e-3, 1.12e-3)


def text(tag: Tag) -> str:
    return " ".join(tag.get_text(" ").split())


def numbers(page: BeautifulSoup) -> list[str]:
    return [" ".join(button.get_text().split()) for button in page.select("p > button.measured, p > .keep > button")]


@pytest.fixture(scope="module")
def first(story: Story) -> BeautifulSoup:
    return story.fresh.page("first.html")


def test_it_builds_without_a_warning(story: Story) -> None:
    assert story.fresh.code == 0, story.fresh.output


def test_each_page_runs_once_one_after_the_other(story: Story) -> None:
    assert sorted(story.fresh.executed()) == ["first", "second"]


def test_the_prose_shows_the_numbers(first: BeautifulSoup) -> None:
    paragraph = next(text(p) for p in first.find_all("p") if p.get_text().startswith("A run takes"))
    shown = numbers(first)
    assert shown[:2] == ["1.12 ms", "560 µsmodel"]
    assert "12,345 parameters" in shown
    assert "41 ops" in shown
    assert "memory-bound" in paragraph


def test_punctuation_goes_along_with_the_number_that_it_touches_alone(first: BeautifulSoup) -> None:
    paragraph = next(p for p in first.find_all("p") if p.get_text().startswith("A run takes"))
    quoted, last = paragraph.select(".quoted")[0], paragraph.contents[-1]
    assert str(quoted.next_sibling).startswith(".")
    assert isinstance(last, Tag)
    assert last.get_attribute_list("class") == ["keep"]
    assert str(last.contents[-1]) == "."


def test_what_stands_behind_a_number_can_be_reached(first: BeautifulSoup) -> None:
    for button in first.select("button.measured"):
        detail = first.find(id=str(button["popovertarget"]))
        assert isinstance(detail, Tag)
        assert detail.has_attr("popover")
    detail = first.find(id=str(first.select("button.measured")[0]["popovertarget"]))
    assert isinstance(detail, Tag)
    assert "median of 7 samples" in text(detail)
    assert "interval: 1.00 to 1.30 ms" in text(detail)
    assert "a run" in text(detail)
    assert "4 calls in a sample" in text(detail)


def test_a_number_of_another_page_says_where_it_is_from(first: BeautifulSoup) -> None:
    button = next(b for b in first.select("button.measured") if "41" in b.get_text())
    detail = first.find(id=str(button["popovertarget"]))
    assert isinstance(detail, Tag)
    assert detail.select_one('a[href="second.html"]') is not None


def test_kinds_look_different(first: BeautifulSoup) -> None:
    kinds = {tuple(sorted(button.get_attribute_list("class"))) for button in first.select("button.measured")}
    assert {
        ("measured",),
        ("counted", "measured"),
        ("derived", "measured"),
        ("measured", "modelled"),
        ("measured", "verdict"),
    } <= kinds
    quoted = first.select_one(".quoted")
    assert quoted is not None
    assert text(quoted) == "73 % ( Someone 2009 )"
    assert quoted.select_one('a[href="https://example.org/paper"]') is not None


def test_a_verdict_gives_its_reason_with_the_number(first: BeautifulSoup) -> None:
    button = first.select_one("button.verdict")
    assert button is not None
    reason = first.find(id=str(button["popovertarget"]))
    assert isinstance(reason, Tag)
    assert "Because a run takes 1.12 ms." in text(reason)


def test_what_was_not_measured_says_so_in_its_place(story: Story, first: BeautifulSoup) -> None:
    buttons = first.select("button.absent")
    assert [text(button) for button in buttons] == ["not measured in this build"] * 3
    for button in buttons:
        detail = first.find(id=str(button["popovertarget"]))
        assert isinstance(detail, Tag)
        assert text(detail) == "The other engine is not here."
    note = first.find(id="table-engines")
    assert isinstance(note, Tag)
    assert text(note) == "Not measured in this build: The other engine is not here."
    assert "not measured in this build" in text(story.fresh.page("index.html"))
    claim = first.find(id="claim-other-wins")
    assert isinstance(claim, Tag)
    assert text(claim) == "Not tested in this build: The other <engine> is not here."


def test_sentences_about_what_was_not_measured_are_left_out(first: BeautifulSoup) -> None:
    said = [p for p in first.find_all("p") if "entence" in p.get_text()]
    assert [text(p).partition(" with ")[0] for p in said] == ["Measured sentence", "Sentence without the other."]
    assert numbers(BeautifulSoup(str(said[0]), "html.parser")) == ["1.12 ms"]


def test_a_section_of_which_nothing_is_left_goes_with_its_heading(story: Story, first: BeautifulSoup) -> None:
    titles = [text(heading) for heading in first.find_all("h2")]
    assert titles[0].startswith("Claim beside the other")
    assert "Race with the other" not in story.fresh.pages["first.html"]


def test_a_condition_on_what_nobody_recorded_fails_the_build(tmp_path: Path, sphinx: SphinxProcess) -> None:
    book = Book(tmp_path, sphinx)
    book.write("index", "# Index\n\n```{toctree}\nfirst\n```\n")
    book.write("first", HEADER + SECOND.replace('"second"', '"first"') + "\n:::{if-measured} totel\nNo.\n:::\n")
    build = book.build()
    assert build.code == 1
    assert "{if-measured} names 'totel', but page 'first' has recorded nothing so" in build.output


def test_a_table_as_the_last_expression_is_shown_once(first: BeautifulSoup) -> None:
    assert len(first.select("#table-ops")) == 1


def test_a_drawing_stands_in_its_figure_where_styles_look_for_it(story: Story) -> None:
    page = story.fresh.page("second.html")
    assert page.select("#figure-mechanism > svg")
    assert page.select("#figure-mechanism > figcaption")


def test_cells_that_only_record_show_no_output(first: BeautifulSoup) -> None:
    outputs = first.select("div.cell_output")
    assert outputs
    assert all(text(output) for output in outputs)
    assert "vnd.tinytorch" not in first.get_text()


def test_the_claim_stands_where_it_is_discussed_and_in_the_ledger(story: Story, first: BeautifulSoup) -> None:
    box = first.find(id="claim-slow")
    assert isinstance(box, Tag)
    assert "refuted" in text(box)
    assert "It took" in text(box)
    assert "1.12 ms" in " ".join(box.get_text().split())
    assert "41" in text(box)
    ledger = story.fresh.page("index.html")
    counts = ledger.select_one(".ledger-counts")
    assert counts is not None
    assert text(counts) == "2 claims measured: 1 refuted, 1 open."
    assert ledger.select_one('.ledger a[href="first.html#claim-slow"]') is not None
    link = box.select_one("a.claim-ledger-link")
    assert link is not None
    assert link["href"] == "index.html#ledger-first-slow"
    assert ledger.find(id="ledger-first-slow") is not None


def test_the_page_ends_with_how_it_was_measured(first: BeautifulSoup) -> None:
    section = first.find(id="how-this-was-measured")
    assert isinstance(section, Tag)
    said = text(section)
    for word in ("Machine", "BLAS", "Code", "source hash", "Made", "UTC", "Noise", "Records", "NumPy"):
        assert word in said
    assert section.select_one('a[href="_records/first.json"][download]') is not None


def test_a_page_without_records_has_no_card(story: Story) -> None:
    assert story.fresh.page("index.html").find(id="how-this-was-measured") is None


def test_the_download_keeps_the_schema_and_gives_the_measurement_back(story: Story) -> None:
    content = json.loads((story.book.site / "_records" / "first.json").read_text("utf-8"))
    Draft202012Validator(schema()).validate(content)
    assert content["duration_seconds"] > 0
    record = next(r for r in content["records"] if r["key"] == "latency")
    conditions, bounds = Conditions(inner_loops=4, statistic="median"), Interval(1e-3, 1.3e-3, 0.97)
    assert measurement_from_record(record) == Statistic("a run", SAMPLES, "s", conditions, value=1.12e-3, bounds=bounds)


def test_the_notebook_download_is_the_executed_one_also_from_the_cache(story: Story, first: BeautifulSoup) -> None:
    card = first.find(id="how-this-was-measured")
    assert isinstance(card, Tag)
    links = [str(link["href"]) for link in card.find_all("a", href=True)]
    assert "_notebooks/first.ipynb" in links
    notebook = nbformat.read(story.book.site / "_notebooks" / "first.ipynb", as_version=4)
    nbformat.validate(notebook)
    assert any(cell.get("outputs") for cell in notebook.cells)


def test_under_the_title_stand_time_machine_files_and_a_report(story: Story) -> None:
    line = story.package_changed.page("first.html").select_one(".page-line")
    assert isinstance(line, Tag)
    said = line.select_one(".page-measured")
    assert isinstance(said, Tag)
    content = json.loads((story.book.site / "_records" / "first.json").read_text("utf-8"))
    assert line.select_one(f'time[datetime="{content["provenance"]["when"]}"]') is not None
    assert content["provenance"]["machine"]["cpu"] in text(said)
    assert said.select_one('a[href="#how-this-was-measured"]') is not None
    files = [str(link["href"]) for link in line.select("a[download]")]
    assert {"_records/first.json", "_notebooks/first.ipynb", "_notebooks/first-empty.ipynb"} <= set(files)
    assert all((story.book.site / file).is_file() for file in files)
    row = [(text(link), link["href"]) for link in line.select(".page-launch a")]
    assert row == [("Download notebook", "_notebooks/first-empty.ipynb")], "this book offers no source"
    report = line.select_one(".page-mismatch")
    assert isinstance(report, Tag)
    assert "First page (first)" in text(report)


def test_a_page_that_shows_other_pages_numbers_says_when_these_were_measured(story: Story) -> None:
    ledger = story.fresh.page("index.html")
    said = ledger.select_one(".page-measured")
    assert isinstance(said, Tag)
    assert text(said).startswith("Last measured")
    assert said.select_one("a") is None


def test_the_list_of_tables_leads_to_each(story: Story) -> None:
    listing = story.fresh.page("index.html").select_one(".listing")
    assert isinstance(listing, Tag)
    assert "1 table." in text(listing)
    link = listing.select_one('a[href="first.html#table-ops"]')
    assert isinstance(link, Tag)
    assert text(link) == "Table 1: Where the time goes"
    table = story.fresh.page("first.html").select_one("#table-ops")
    assert isinstance(table, Tag)
    number = table.select_one("caption > a.number")
    assert isinstance(number, Tag)
    assert (text(number), number["href"]) == ("Table 1", "#table-ops")


def test_a_reference_by_number_leads_to_what_has_it(story: Story) -> None:
    link = story.fresh.page("second.html").select_one('a[href="first.html#table-ops"]')
    assert isinstance(link, Tag)
    assert text(link) == "Table 1"


def executions(build: Build) -> dict[str, list[str]]:
    rows = build.page("index.html").select("table:has(#last-executions) > tbody > tr")
    return {text(cells[0]): [text(cell) for cell in cells[1:]] for row in rows if (cells := row.select("th, td"))}


def test_executions_say_when_and_for_how_long_each_page_ran_last(story: Story) -> None:
    fresh, unchanged, changed = (executions(b) for b in (story.fresh, story.unchanged, story.number_changed))
    assert {page: cells for page, (_, cells, _, _) in fresh.items()} == {"Second page": "1", "First page": "4"}
    assert all(time[0].isdigit() for _, _, time, _ in fresh.values())
    assert all(memory.endswith("MiB") for _, _, _, memory in fresh.values())
    assert unchanged == executions(story.from_cache) == fresh
    assert changed["First page"] == fresh["First page"]
    assert changed["Second page"][0] != fresh["Second page"][0], "it ran again, as its number had changed"


def test_mathematics_is_mathml_and_asks_no_other_host(first: BeautifulSoup) -> None:
    assert [math.get("display") or math["displaystyle"] for math in first.find_all("math")] == ["inline", "true"]
    assert [script["src"] for script in first.find_all("script", src=True) if "mathjax" in str(script["src"])] == []


def test_the_built_pages_pass_their_checks(story: Story) -> None:
    problems = {
        name: found for name, found in check_site(story.book.site, find_pages(story.book.site)).items() if found
    }
    assert problems == {}


def test_a_second_build_reads_and_writes_nothing(story: Story) -> None:
    assert story.unchanged.code == 0
    assert story.unchanged.executed() == []
    assert "0 added, 0 changed, 0 removed" in story.unchanged.output
    assert "no targets are out of date" in story.unchanged.output


def test_downloads_are_written_when_a_page_was_read_and_else_left(story: Story) -> None:
    assert story.fresh.written
    assert story.unchanged.written == story.fresh.written
    assert story.number_changed.written["second.json"] > story.from_cache.written["second.json"]


def test_records_come_from_the_cache_as_well(story: Story) -> None:
    assert story.from_cache.code == 0, story.from_cache.output
    assert story.from_cache.executed() == []
    assert story.from_cache.output.count("Using cached notebook") == 2
    assert numbers(story.from_cache.page("first.html")) == numbers(story.fresh.page("first.html"))


def test_a_change_of_prose_writes_no_other_page(tmp_path: Path, sphinx: SphinxProcess) -> None:
    book = Book(tmp_path, sphinx)
    for name, source in (("index", INDEX), ("first", HEADER + FIRST), ("second", HEADER + SECOND)):
        book.write(name, source)
    assert book.build().code == 0
    book.write("second", f"{HEADER}{SECOND}\nMore.\n")
    changed = book.build()
    assert changed.code == 0, changed.output
    assert "More." in text(changed.page("second.html"))
    assert "] first" not in changed.output


def test_a_changed_number_changes_the_pages_that_show_it(story: Story) -> None:
    assert story.number_changed.code == 0, story.number_changed.output
    assert story.number_changed.executed() == ["second"]
    assert "42 ops" in numbers(story.number_changed.page("first.html"))
    assert "41 ops" not in numbers(story.number_changed.page("first.html"))


def forward_passes(build: Build) -> dict[str, str]:
    """Return what the first page says of a call that the second times too: its pop-over, cell and card."""
    page = build.page("first.html")
    button = page.select_one('button[data-key="first:forward"]')
    cell = page.select_one("#table-ops tbody tr:last-child td")
    card = next(row for row in page.select(".measured-card dl > div") if text(row).startswith("Same calls"))
    assert button is not None
    assert cell is not None
    detail = page.find(id=str(button["popovertarget"]))
    assert isinstance(detail, Tag)
    return {"pop-over": text(detail), "cell": str(cell["title"]), "card": text(card)}


def test_a_call_that_pages_time_apart_is_shown_with_an_interval_that_holds_both(story: Story) -> None:
    for build in (story.fresh, story.from_cache):
        said = forward_passes(build)
        for name in ("pop-over", "cell"):
            shown, _, why = said[name].partition("idened to hold what the same call took elsewhere: ")
            assert "2.3" in shown
            assert "on the page “second”" in why
        assert "2 timed on other pages as well; 2 of them with intervals that do not touch" in said["card"]
    other = story.fresh.page("first.html").select_one("#table-ops tbody tr:first-child td")
    assert other is not None
    assert "2.3" not in str(other["title"])
    content = json.loads((story.book.site / "_records" / "first.json").read_text("utf-8"))
    record = next(record for record in content["records"] if record["key"] == "forward")
    assert (record["conditions"], record["interval"]["high"]) == ({"call": "forward"}, 1.3e-3)


def test_a_call_that_pages_time_alike_is_shown_as_measured(story: Story) -> None:
    said = forward_passes(story.number_changed)
    assert "2.3" not in said["cell"]
    assert "to hold" not in said["pop-over"]
    assert said["card"] == "Same calls 2 timed on other pages as well; all intervals touch those there"


def test_one_byte_of_the_package_runs_every_page_again(story: Story) -> None:
    assert story.package_changed.code == 0, story.package_changed.output
    assert sorted(story.package_changed.executed()) == ["first", "second"]


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory, sphinx: SphinxProcess) -> Build:
    """A book whose every page asks for what is not there; nothing in it is executed."""
    book = Book(tmp_path_factory.mktemp("broken"), sphinx)
    book.write("index", "# Title\n\n```{toctree}\npage\nheading\n```\n")
    lines = [
        "# Page",
        "In the the end.",
        "{measured}`nothing`",
        "{measured}`other:nothing`",
        "{verdict}`nothing`",
        "{quoted}`73 %`",
    ]
    book.write("page", "\n\n".join([*lines, "```{claim} nothing\n```", "$\\unknowncommand{x}$"]) + "\n")
    book.write("heading", "# Title {measured}`nothing`\n")
    return book.build()


@pytest.mark.parametrize(
    "warning",
    [
        "page 'page' has recorded no number 'nothing'",
        "page 'other' has recorded no number 'nothing'",
        "page 'page' has recorded no verdict 'nothing'",
        "page 'page' has recorded no claim 'nothing'",
        "a quoted number needs its source",
        "a number cannot stand in a heading",
        "\\unknowncommand is unknown",
        "page.md:3: WARNING: 'the' stands twice: “In the the end.” [reading]",
    ],
)
def test_what_is_missing_fails_the_build(broken: Build, warning: str) -> None:
    assert broken.code != 0
    assert warning in broken.output


def test_the_variable_that_marks_a_build_stays_in_it() -> None:
    assert "TINYTORCH_BUILDING_BOOK" not in os.environ


def test_a_build_of_some_pages_runs_no_other(tmp_path: Path, sphinx: SphinxProcess) -> None:
    book = Book(tmp_path, sphinx)
    for name, source in (("index", INDEX), ("first", HEADER + FIRST), ("second", HEADER + SECOND)):
        book.write(name, source)
    one_page = book.build(TINYTORCH_BUILD_PAGES="second")
    other_page = book.build(TINYTORCH_BUILD_PAGES="first", TINYTORCH_BUILD_OUTCOME="other")
    all_pages = book.build()
    assert [each.code for each in (one_page, other_page, all_pages)] == [0, 0, 0], one_page.output + other_page.output
    assert [each.executed() for each in (one_page, other_page, all_pages)] == [["second"], ["first"], []]
    before = one_page.page("first.html")
    assert text(before.select("button.measured:not(.absent)")[0]) == "41 ops", "a number of the page that ran"
    claim = before.find(id="claim-slow")
    assert isinstance(claim, Tag)
    assert text(claim).startswith("Not tested in this build: This build ran other pages only")
    said = before.select_one(".page-line")
    assert isinstance(said, Tag)
    assert text(said).startswith("This page was not run: this build ran others only")
    assert not is_left_out(book.site / "first.html"), "now it is run"
    for build in (other_page, all_pages):
        assert numbers(build.page("first.html"))[0] == "1.12 ms"
        assert not build.page("first.html").select("#claim-slow.not-measured")
    other = other_page.page("first.other.html")
    assert text(other.select("button.verdict")[0]) == "not memory-bound"
    assert "supported" in text(cast(Tag, other.find(id="claim-slow")))
    assert [text(p).partition(" with ")[0] for p in other.find_all("p") if "entence" in p.get_text()] == [
        "Sentence",
        "Sentence about nothing.",
    ]
    assert "first.other.html" not in all_pages.pages
