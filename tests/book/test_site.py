"""The small book's pages, and what each of its builds did."""

import json
from pathlib import Path

import built_pages
import nbformat
import pytest
from bs4 import BeautifulSoup, Tag
from built_pages import check_site, is_left_out
from built_site import find_pages
from jsonschema import Draft202012Validator

from tests.book.small_book import HEADER, SECOND, Book, Build, Story, one
from tests.book.sphinx_process import SphinxProcess
from tinytorch.perf.measuring.conditions import Conditions
from tinytorch.perf.measuring.measurement import Measurement
from tinytorch.report.numbers import measurement_from_record
from tinytorch.report.records import Json, schema

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
        ("prose_changed", []),
        ("from_cache", []),
        ("number_changed", ["second"]),
        ("second_alone", ["second"]),
        ("first_alone", ["first"]),
        ("all_pages", []),
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
    for words in ("median of 7 samples", "interval: 1.00 to 1.30 ms", "a run", "4 calls per sample"):
        assert words in said
    other = next(detail for shown, detail in details.items() if "41" in shown)
    assert other.select_one('a[href="second.html"]') is not None
    why = one(first, "p:-soup-contains('Sentence of the slower') button.why")
    assert "Found: slower. Because the estimate is 0.50" in text(behind(first, why)).replace("0.500", "0.50")


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
    assert [text(button) for button in buttons] == ["not measured in this build"]
    assert {text(behind(first, button)) for button in buttons} == {"The other engine is not here."}
    assert text(one(first, "#table-engines")) == "Not measured in this build: The other engine is not here."
    assert "not measured in this build" in text(story.fresh.page("index.html"))
    assert text(one(first, "#claim-other-wins")) == "Not tested in this build: The other <engine> is not here."


def test_what_says_nothing_without_a_number_is_left_out_with_its_heading(story: Story, first: BeautifulSoup) -> None:
    assert sentences(first) == ["Sentence of the slower", "Sentence without the other."]
    assert text(first.select("h2")[0]).startswith("Claim beside the other")
    assert "Race with the other" not in story.fresh.pages["first.html"]


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
    line, ledger = one(first, "#claim-slow"), story.fresh.page("index.html")
    assert "refuted" in text(line)
    row = one(ledger, "#ledger-first-slow")
    for words in ("It took", "1.12 ms", "41"):
        assert words in text(row)
    assert text(one(ledger, ".ledger-counts")) == "2 claims measured: 1 refuted, 1 open."
    assert ledger.select_one('.ledger a[href="first.html#claim-slow"]') is not None
    assert one(line, "a.claim-ledger-link")["href"] == "index.html#ledger-first-slow"
    assert [square["href"] for square in ledger.select(".wall a.refuted")] == ["#ledger-first-slow"]


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
    made = measurement_from_record(record)
    assert made == Measurement("a run", SAMPLES, "s", Conditions(inner_loops=4, statistic="median"))
    assert (made.median, made.interval.confidence) == (1.12e-3, 0.95)
    assert (made.interval.low, made.interval.high) == pytest.approx((1e-3, 1.3e-3))


def test_the_notebook_download_is_the_executed_one_also_from_the_cache(story: Story) -> None:
    notebook = nbformat.read(story.book.site / "_notebooks" / "first.ipynb", as_version=4)
    nbformat.validate(notebook)
    assert any(cell.get("outputs") for cell in notebook.cells)


def test_under_the_title_stand_time_and_machine_and_at_the_end_files_and_a_report(story: Story) -> None:
    page = story.all_pages.page("first.html")
    said, made = one(page, ".page-top .page-measured"), download(story)["provenance"]
    assert page.select_one(f'.page-top time[datetime="{made["when"]}"]') is not None
    assert made["machine"]["cpu"] in text(said)
    assert said.select_one('a[href="#how-this-was-measured"]') is not None
    line = one(page, "#page-downloads")
    assert line.find_next("section") is None
    files = [str(link["href"]) for link in page.select(".measured-card a[download]")]
    assert {"_records/first.json", "_notebooks/first.ipynb", "_notebooks/first-empty.ipynb"} <= set(files)
    assert all((story.book.site / file).is_file() for file in files)
    row = [(text(link), link["href"]) for link in line.select(".page-launch a")]
    assert row == [("Download notebook", "_notebooks/first-empty.ipynb")], "this book offers no source"
    assert "First page (first)" in text(one(line, ".page-mismatch"))


def test_a_chapter_opens_with_a_copy_of_its_figure_and_the_numbers_that_are_measured_below(story: Story) -> None:
    page = story.fresh.page("second.html")
    opening = one(page, ".chapter-result")
    assert [text(button) for button in opening.select("button.measured")] == ["41 ops", "41 ops", "10 ms"]
    drawn, figure = one(opening, "figure"), one(page, "#figure-mechanism")
    assert one(drawn, "figcaption").get_text() == "Figure\N{NO-BREAK SPACE}1: How it works."
    assert one(drawn, "a")["href"] == "#figure-mechanism"
    copied, original = (one(place, "svg").find_all(recursive=False) for place in (drawn, figure))
    assert [part.name for part in copied] == [part.name for part in original]
    ids = [part["id"] for part in page.select("[id]")]
    assert len(ids) == len({*ids})
    assert page.select_one('.page-top a[href="#about-this-chapter"]')
    sections = [section["id"] for section in page.select("section > section")]
    assert sections == ["about-this-chapter", "how-this-was-measured"]
    assert "To count." in text(one(page, "#about-this-chapter"))


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


def executions(build: Build) -> dict[str, tuple[str, str, str]]:
    """Return by page when it ran last, how many cells, and how long they took."""
    rows = build.page("index.html").select("table:has(#last-executions-caption) > tbody > tr")
    found = ((one(row, "time"), *row.select("th, td")) for row in rows)
    return {text(page): (str(began["datetime"]), text(cells), text(took)) for began, page, _, cells, took, _ in found}


def test_executions_say_when_and_for_how_long_each_page_ran_last(story: Story) -> None:
    fresh, unchanged, changed = (executions(b) for b in (story.fresh, story.unchanged, story.number_changed))
    assert {page: cells for page, (_, cells, _) in fresh.items()} == {"Second page": "2", "First page": "3"}
    assert all(took[0].isdigit() for _, _, took in fresh.values())
    assert unchanged == executions(story.from_cache) == fresh
    assert changed["First page"] == fresh["First page"]
    assert changed["Second page"][0] != fresh["Second page"][0], "it ran again, as its number had changed"


def test_the_gate_reads_the_memory_of_each_execution(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(built_pages, "MOST_HELD", 2**20)
    found = " ".join(built_pages.heavy_runs(story.fresh.page("index.html")))
    assert all(f"{page!r} held" in found for page in executions(story.fresh))


def test_the_built_pages_pass_their_checks(story: Story) -> None:
    told = {each for said in check_site(story.book.site, find_pages(story.book.site)).values() for each in said}
    assert told == {"the page must have a policy that allows the site's own files alone, not ''"}, "the frame gives it"


def test_a_second_build_reads_and_writes_nothing(story: Story) -> None:
    assert "0 added, 0 changed, 0 removed" in story.unchanged.output
    assert "no targets are out of date" in story.unchanged.output


def test_downloads_are_written_when_a_page_was_read_and_else_left(story: Story) -> None:
    assert (story.fresh.written, story.unchanged.written) == ({"first.json", "second.json"}, set())
    assert "second.json" in story.number_changed.written


def test_records_come_from_the_cache_as_well(story: Story) -> None:
    assert story.from_cache.output.count("Using cached notebook") == 2
    assert numbers(story.from_cache.page("first.html")) == numbers(story.fresh.page("first.html"))


def test_a_change_of_prose_writes_no_other_page(story: Story) -> None:
    assert "More." in text(story.prose_changed.page("second.html"))
    assert "] first" not in story.prose_changed.output


def test_a_changed_number_changes_the_pages_that_show_it(story: Story) -> None:
    assert {"41 ops", "42 ops"} & {*numbers(story.number_changed.page("first.html"))} == {"42 ops"}


def forward_passes(build: Build) -> dict[str, str]:
    """Return what the first page says of a call that the second times too: its pop-over, cell and card."""
    page = build.page("first.html")
    card = next(row for row in page.select(".measured-card dl > div") if text(row).startswith("Same calls"))
    detail = behind(page, one(page, 'button[data-key="first:forward"]'))
    cell = one(page, "#table-ops tbody tr:last-child td")
    return {"pop-over": text(detail), "cell": str(cell["title"]), "card": text(card)}


def test_a_call_that_pages_time_apart_is_told_on_the_card_and_shown_as_measured(story: Story) -> None:
    alike = forward_passes(story.number_changed)
    for build in (story.fresh, story.from_cache):
        said = forward_passes(build)
        assert "2 timed on other pages as well; 2 of them with intervals that do not touch" in said["card"]
        assert said["card"].count("on the page “second”") == 2
        assert (said["pop-over"], said["cell"]) == (alike["pop-over"], alike["cell"])
    assert alike["card"] == "Same calls 2 timed on other pages as well; all intervals touch those there"


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory, sphinx: SphinxProcess) -> Build:
    """A book whose every page asks for what is not there; nothing in it is executed."""
    book = Book(tmp_path_factory.mktemp("broken"), sphinx)
    book.write("index", "# Title\n\n```{toctree}\npage\nheading\n```\n")
    slots = "{measured}`nothing`\n\nIn a line:\n{measured}`other:nothing`\n\n{quoted}`73 %`"
    rest = (
        "```{claim} nothing\n```\n\n$\\unknowncommand{x}$\nand\n{numref}`nothing`\n\n"
        "::::{outcome} totel\n:::open\nNo.\n:::\n::::\n\n"
        ":::{result} plot\nIt is so.\n\n- A number: 1\n:::\n\n:::{result} other\nNo list.\n:::"
    )
    book.write("page", f"# Page\n\nIn the the end.\n\n{slots}\n\n{rest}\n")
    book.write("heading", "# Title {measured}`nothing`\n")
    return book.build()


@pytest.mark.parametrize(
    "warning",
    [
        "page.md:5: WARNING: page 'page' has no number 'nothing'",
        "page.md:8: WARNING: there is no page 'other', whose number 'nothing' is asked for",
        "page.md:12: WARNING: page 'page' has no claim 'nothing'",
        "page.md:17: WARNING: page 'page' has no figure, table or equation 'nothing'",
        "{outcome}: page 'page' has no outcome 'totel-outcome'",
        "{result}: page 'page' shows no plot or drawing 'plot'",
        "{result} holds one paragraph, and below it a list of numbers",
        "a quoted number needs its source",
        "a number cannot stand in a heading",
        "\\unknowncommand is unknown",
        "page.md:3: WARNING: 'the' stands twice: “In the the end.” [reading]",
    ],
)
def test_what_is_missing_fails_the_build(broken: Build, warning: str) -> None:
    assert broken.code != 0
    assert warning in broken.output


def test_a_wrong_key_of_a_claim_is_one_warning_with_its_line_and_hides_nothing(
    tmp_path: Path, sphinx: SphinxProcess
) -> None:
    book = Book(tmp_path, sphinx)
    book.write("index", "# Index\n\n```{toctree}\nsecond\n```\n")
    claims = (
        "```{code-cell} ipython3\n:tags: [remove-cell]\nfrom tinytorch.perf.measuring import Counted\n"
        'eight = Counted(8, "B", "eight")\npage.test("at-most-nine", eight, below=9)\n'
        'page.test("at-most-ten", eight, below=10)\n```\n\nIt has {measured}`total`.\n\n'
        "## Claims\n\n```{claims}\n```\n\n"
    )
    said = "```{claim} %s\n:source: Someone <https://example.org/paper>\n\n> So.\n\nIt is so.\n```\n\n"
    second = SECOND.replace("As {numref}`first:table-ops` shows.\n", "")
    page = HEADER + second + claims + said % "at-most-ten" + said
    book.write("second", page % "at-most-nien")
    build = book.build()
    warnings = [line.partition("second.md")[2] for line in build.output.splitlines() if "WARNING: " in line]
    line = (page % "at-most-nien").splitlines().index("```{claim} at-most-nien") + 1
    expected = (
        f":{line}: WARNING: page 'second' has no claim 'at-most-nien': did you mean 'at-most-nine' or 'at-most-ten'?"
    )
    assert [each.removesuffix(" [measured]") for each in warnings] == [expected]
    book.write("second", page.removesuffix(said))
    build = book.build()
    [warning] = [line.partition("second.md")[2] for line in build.output.splitlines() if "WARNING: " in line]
    line = page.splitlines().index('page.test("at-most-nine", eight, below=9)') + 1
    assert warning.startswith(
        f":{line}: WARNING: page.test('at-most-nine', ...) tests a claim that the page does not state"
    )


def test_a_claim_shows_the_number_of_the_test_that_decides(tmp_path: Path, sphinx: SphinxProcess) -> None:
    book = Book(tmp_path, sphinx)
    book.write("index", "# Index\n\n```{toctree}\nsecond\n```\n")
    claim = (
        "```{code-cell} ipython3\n:tags: [remove-cell]\nfrom tinytorch.perf.measuring import Counted\n"
        'eight, twelve = Counted(8, "B", "eight"), Counted(12, "B", "twelve")\n'
        'page.test("at-most-ten", eight, twelve, below=10)\n```\n\n'
        "```{claim} at-most-ten\n:source: Someone <https://example.org/paper>\n\n> So.\n\nIt is so.\n\n"
        "They have {measured}`eight` and {measured}`twelve`.\n```\n\n```{claims}\n```\n"
    )
    book.write("second", HEADER + SECOND.replace("As {numref}`first:table-ops` shows.\n", "") + claim)
    build = book.build()
    assert "WARNING: " not in build.output
    *_, found = one(build.page("second.html"), "#claim-at-most-ten").select("td")
    assert text(found).startswith("12")


def test_a_build_of_some_pages_shows_no_older_run_of_others(story: Story) -> None:
    before = story.second_alone.page("first.html")
    assert text(before.select("button.measured:not(.absent)")[0]) == "42 ops", "a number of the page that ran"
    assert text(one(before, "#claim-slow")).startswith("Not tested in this build: This build ran other pages only")
    assert text(one(before, ".page-top")).startswith("This build did not run this page")
    assert not is_left_out(story.book.site / "first.html"), "now it is run"
    for build in (story.first_alone, story.all_pages):
        assert numbers(build.page("first.html"))[0] == "1.12 ms"
        assert not build.page("first.html").select("#claim-slow.not-measured")


def test_a_build_of_the_other_outcome_says_the_opposite(story: Story) -> None:
    other = story.first_alone.page("first.other.html")
    assert "supported" in text(one(other, "#claim-slow"))
    said = [each.partition(".")[0] for each in sentences(other)]
    assert said == ["Sentence of the faster", "Sentence of none", "Sentence of the open", "Sentence"]
    assert "first.other.html" not in story.all_pages.pages
