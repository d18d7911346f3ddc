"""The small book's pages, and what each of its builds did."""

import json
import os
from pathlib import Path

import built_pages
import nbformat
import pytest
from bs4 import BeautifulSoup, Tag
from built_pages import check_site, is_left_out
from built_site import find_pages
from jsonschema import Draft202012Validator

from tests.book.small_book import HEADER, SECOND, Book, Build, Story, one, whole_book
from tests.book.sphinx_process import SphinxProcess
from tinytorch.perf.measuring.conditions import Conditions
from tinytorch.perf.measuring.measurement import Statistic
from tinytorch.perf.measuring.statistics import Interval
from tinytorch.report.records import Json, measurement_from_record, schema

SAMPLES = (1.0e-3, 1.1e-3, 1.2e-3, 1.05e-3, 1.15e-3, 1.3e-3, 1.12e-3)


def text(tag: Tag) -> str:
    return " ".join(tag.get_text(" ").split())


def numbers(page: Tag) -> list[str]:
    return [" ".join(button.get_text().split()) for button in page.select("p > button.measured, p > .keep > button")]


def behind(page: Tag, button: Tag) -> Tag:
    """Return the pop-over of a number."""
    return one(page, f"[id='{button['popovertarget']}'][popover]")


def sentences(page: Tag) -> list[str]:
    """Return what the first page says under its conditions, without its numbers."""
    return [text(p).partition(" with ")[0] for p in page.find_all("p") if "entence" in p.get_text()]


def download(story: Story) -> Json:
    made: Json = json.loads((story.book.site / "_records" / "first.json").read_text("utf-8"))
    return made


@pytest.fixture(scope="module")
def first(story: Story) -> BeautifulSoup:
    return story.fresh.page("first.html")


@pytest.mark.parametrize(
    ("name", "executed"),
    [
        ("fresh", ["first", "second"]),
        ("unchanged", []),
        ("from_cache", []),
        ("number_changed", ["second"]),
        ("package_changed", ["first", "second"]),
    ],
)
def test_a_build_runs_the_pages_that_changed_once_and_has_no_warning(
    story: Story, name: str, executed: list[str]
) -> None:
    build: Build = getattr(story, name)
    assert build.code == 0, build.output
    assert sorted(build.executed()) == executed


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
    details = {button.get_text(): behind(first, button) for button in first.select("button.measured")}
    said = text(next(iter(details.values())))
    for words in ("median of 7 samples", "interval: 1.00 to 1.30 ms", "a run", "4 calls in a sample"):
        assert words in said
    other = next(detail for shown, detail in details.items() if "41" in shown)
    assert other.select_one('a[href="second.html"]') is not None
    assert "Because a run takes 1.12 ms." in text(behind(first, one(first, "button.verdict")))


def test_kinds_look_different(first: BeautifulSoup) -> None:
    kinds = {tuple(sorted(button.get_attribute_list("class"))) for button in first.select("button.measured")}
    assert {
        ("measured",),
        ("counted", "measured"),
        ("derived", "measured"),
        ("measured", "modelled"),
        ("measured", "verdict"),
    } <= kinds
    quoted = one(first, ".quoted")
    assert text(quoted) == "73 % ( Someone 2009 )"
    assert quoted.select_one('a[href="https://example.org/paper"]') is not None


def test_what_was_not_measured_says_so_in_its_place(story: Story, first: BeautifulSoup) -> None:
    buttons = first.select("button.absent")
    assert [text(button) for button in buttons] == ["not measured in this build"] * 3
    assert {text(behind(first, button)) for button in buttons} == {"The other engine is not here."}
    assert text(one(first, "#table-engines")) == "Not measured in this build: The other engine is not here."
    assert "not measured in this build" in text(story.fresh.page("index.html"))
    assert text(one(first, "#claim-other-wins")) == "Not tested in this build: The other <engine> is not here."


def test_what_says_nothing_without_a_number_is_left_out_with_its_heading(story: Story, first: BeautifulSoup) -> None:
    assert sentences(first) == ["Measured sentence", "Sentence without the other."]
    assert text(first.select("h2")[0]).startswith("Claim beside the other")
    assert "Race with the other" not in story.fresh.pages["first.html"]


def test_a_condition_on_what_nobody_recorded_fails_the_build(tmp_path: Path, sphinx: SphinxProcess) -> None:
    book = Book(tmp_path, sphinx)
    book.write("index", "# Index\n\n```{toctree}\nfirst\n```\n")
    book.write("first", HEADER + SECOND.replace('"second"', '"first"') + "\n:::{if-measured} totel\nNo.\n:::\n")
    build = book.build()
    assert build.code == 1
    assert "{if-measured} names 'totel', but page 'first' has recorded nothing so" in build.output


def test_a_table_stands_once_and_a_drawing_in_its_figure(story: Story, first: BeautifulSoup) -> None:
    assert len(first.select("#table-ops")) == 1
    assert {tag.name for tag in story.fresh.page("second.html").select("#figure-mechanism > *")} >= {
        "svg",
        "figcaption",
    }


def test_cells_that_only_record_show_no_output(first: BeautifulSoup) -> None:
    outputs = first.select("div.cell_output")
    assert outputs
    assert all(text(output) for output in outputs)
    assert "vnd.tinytorch" not in first.get_text()


def test_the_claim_stands_where_it_is_discussed_and_in_the_ledger(story: Story, first: BeautifulSoup) -> None:
    box, ledger = one(first, "#claim-slow"), story.fresh.page("index.html")
    for words in ("refuted", "It took", "1.12 ms", "41"):
        assert words in " ".join(box.get_text().split())
    assert text(one(ledger, ".ledger-counts")) == "2 claims measured: 1 refuted, 1 open."
    assert ledger.select_one('.ledger a[href="first.html#claim-slow"]') is not None
    assert one(box, "a.claim-ledger-link")["href"] == "index.html#ledger-first-slow"
    assert ledger.find(id="ledger-first-slow") is not None


def test_the_page_ends_with_how_it_was_measured(first: BeautifulSoup) -> None:
    section = one(first, "#how-this-was-measured")
    for word in ("Machine", "BLAS", "Code", "source hash", "Made", "UTC", "Noise", "Records", "NumPy"):
        assert word in text(section)
    assert section.select_one('a[href="_records/first.json"][download]') is not None
    assert section.select_one('a[href="_notebooks/first.ipynb"]') is not None


def test_a_page_without_records_has_no_card(story: Story) -> None:
    assert story.fresh.page("index.html").find(id="how-this-was-measured") is None


def test_the_download_keeps_the_schema_and_gives_the_measurement_back(story: Story) -> None:
    content = download(story)
    Draft202012Validator(schema()).validate(content)
    assert content["duration_seconds"] > 0
    record = next(r for r in content["records"] if r["key"] == "latency")
    conditions, bounds = Conditions(inner_loops=4, statistic="median"), Interval(1e-3, 1.3e-3, 0.97)
    assert measurement_from_record(record) == Statistic("a run", SAMPLES, "s", conditions, value=1.12e-3, bounds=bounds)


def test_the_notebook_download_is_the_executed_one_also_from_the_cache(story: Story) -> None:
    notebook = nbformat.read(story.book.site / "_notebooks" / "first.ipynb", as_version=4)
    nbformat.validate(notebook)
    assert any(cell.get("outputs") for cell in notebook.cells)


def test_under_the_title_stand_time_machine_files_and_a_report(story: Story) -> None:
    line = one(story.package_changed.page("first.html"), ".page-line")
    said, made = one(line, ".page-measured"), download(story)["provenance"]
    assert line.select_one(f'time[datetime="{made["when"]}"]') is not None
    assert made["machine"]["cpu"] in text(said)
    assert said.select_one('a[href="#how-this-was-measured"]') is not None
    files = [str(link["href"]) for link in line.select("a[download]")]
    assert {"_records/first.json", "_notebooks/first.ipynb", "_notebooks/first-empty.ipynb"} <= set(files)
    assert all((story.book.site / file).is_file() for file in files)
    row = [(text(link), link["href"]) for link in line.select(".page-launch a")]
    assert row == [("Download notebook", "_notebooks/first-empty.ipynb")], "this book offers no source"
    assert "First page (first)" in text(one(line, ".page-mismatch"))


def test_a_page_that_shows_other_pages_numbers_says_when_these_were_measured(story: Story) -> None:
    said = one(story.fresh.page("index.html"), ".page-measured")
    assert text(said).startswith("Last measured")
    assert said.select_one("a") is None


def test_a_table_is_led_to_by_its_number_from_the_list_and_from_text(story: Story) -> None:
    listing = one(story.fresh.page("index.html"), ".listing")
    assert "1 table." in text(listing)
    assert text(one(listing, 'a[href="first.html#table-ops"]')) == "Table 1: Where the time goes"
    number = one(story.fresh.page("first.html"), "#table-ops caption > a.number")
    assert (text(number), number["href"]) == ("Table 1", "#table-ops")
    assert text(one(story.fresh.page("second.html"), 'a[href="first.html#table-ops"]')) == "Table 1"


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


def test_the_gate_reads_the_memory_of_each_execution(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(built_pages, "MOST_HELD", 2**20)
    found = " ".join(built_pages.heavy_runs(story.fresh.page("index.html")))
    assert all(f"{page!r} held" in found for page in executions(story.fresh))


def test_the_built_pages_pass_their_checks(story: Story) -> None:
    assert not any(check_site(story.book.site, find_pages(story.book.site)).values())


def test_a_second_build_reads_and_writes_nothing(story: Story) -> None:
    assert "0 added, 0 changed, 0 removed" in story.unchanged.output
    assert "no targets are out of date" in story.unchanged.output


def test_downloads_are_written_when_a_page_was_read_and_else_left(story: Story) -> None:
    assert story.fresh.written
    assert story.unchanged.written == story.fresh.written
    assert story.number_changed.written["second.json"] > story.from_cache.written["second.json"]


def test_records_come_from_the_cache_as_well(story: Story) -> None:
    assert story.from_cache.output.count("Using cached notebook") == 2
    assert numbers(story.from_cache.page("first.html")) == numbers(story.fresh.page("first.html"))


def test_a_change_of_prose_writes_no_other_page(tmp_path: Path, sphinx: SphinxProcess) -> None:
    book = whole_book(tmp_path, sphinx)
    assert book.build().code == 0
    book.write("second", f"{HEADER}{SECOND}\nMore.\n")
    changed = book.build()
    assert changed.code == 0, changed.output
    assert "More." in text(changed.page("second.html"))
    assert "] first" not in changed.output


def test_a_changed_number_changes_the_pages_that_show_it(story: Story) -> None:
    assert {"41 ops", "42 ops"} & {*numbers(story.number_changed.page("first.html"))} == {"42 ops"}


def forward_passes(build: Build) -> dict[str, str]:
    """Return what the first page says of a call that the second times too: its pop-over, cell and card."""
    page = build.page("first.html")
    card = next(row for row in page.select(".measured-card dl > div") if text(row).startswith("Same calls"))
    detail = behind(page, one(page, 'button[data-key="first:forward"]'))
    cell = one(page, "#table-ops tbody tr:last-child td")
    return {"pop-over": text(detail), "cell": str(cell["title"]), "card": text(card)}


def test_a_call_that_pages_time_apart_is_shown_with_an_interval_that_holds_both(story: Story) -> None:
    for build in (story.fresh, story.from_cache):
        said = forward_passes(build)
        for name in ("pop-over", "cell"):
            shown, _, why = said[name].partition("idened to hold what the same call took elsewhere: ")
            assert "2.3" in shown
            assert "on the page “second”" in why
        assert "2 timed on other pages as well; 2 of them with intervals that do not touch" in said["card"]
    assert "2.3" not in str(one(story.fresh.page("first.html"), "#table-ops tbody tr:first-child td")["title"])
    content = download(story)
    record = next(record for record in content["records"] if record["key"] == "forward")
    assert (record["conditions"], record["interval"]["high"]) == ({"call": "forward"}, 1.3e-3)


def test_a_call_that_pages_time_alike_is_shown_as_measured(story: Story) -> None:
    said = forward_passes(story.number_changed)
    assert "2.3" not in said["cell"]
    assert "to hold" not in said["pop-over"]
    assert said["card"] == "Same calls 2 timed on other pages as well; all intervals touch those there"


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory, sphinx: SphinxProcess) -> Build:
    """A book whose every page asks for what is not there; nothing in it is executed."""
    book = Book(tmp_path_factory.mktemp("broken"), sphinx)
    book.write("index", "# Title\n\n```{toctree}\npage\nheading\n```\n")
    slots = "{measured}`nothing`\n\n{measured}`other:nothing`\n\n{verdict}`nothing`\n\n{quoted}`73 %`"
    rest = "```{claim} nothing\n```\n\n$\\unknowncommand{x}$"
    book.write("page", f"# Page\n\nIn the the end.\n\n{slots}\n\n{rest}\n")
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
    book = whole_book(tmp_path, sphinx)
    one_page = book.build(TINYTORCH_BUILD_PAGES="second")
    other_page = book.build(TINYTORCH_BUILD_PAGES="first", TINYTORCH_BUILD_OUTCOME="other")
    all_pages = book.build()
    assert [each.code for each in (one_page, other_page, all_pages)] == [0, 0, 0], one_page.output + other_page.output
    assert [each.executed() for each in (one_page, other_page, all_pages)] == [["second"], ["first"], []]
    before = one_page.page("first.html")
    assert text(before.select("button.measured:not(.absent)")[0]) == "41 ops", "a number of the page that ran"
    assert text(one(before, "#claim-slow")).startswith("Not tested in this build: This build ran other pages only")
    assert text(one(before, ".page-line")).startswith("This page was not run: this build ran others only")
    assert not is_left_out(book.site / "first.html"), "now it is run"
    for build in (other_page, all_pages):
        assert numbers(build.page("first.html"))[0] == "1.12 ms"
        assert not build.page("first.html").select("#claim-slow.not-measured")
    other = other_page.page("first.other.html")
    assert text(other.select("button.verdict")[0]) == "not memory-bound"
    assert "supported" in text(one(other, "#claim-slow"))
    assert sentences(other) == ["Sentence", "Sentence about nothing."]
    assert "first.other.html" not in all_pages.pages
