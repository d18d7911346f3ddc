"""A browser takes files of measurements: good ones are shown, all others are refused in words, and none ever runs."""

import copy
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from built_site import serve
from gate_accessibility import check as accessibility_problems
from made_page import made_page, opened_page
from measured_book.machines.explorers import (
    PUBLISHED,
    SCRIPTS,
    STYLES,
    RooflineExplorerNode,
    YourMachineNode,
    roofs_of,
    rules,
    script,
)
from playwright.sync_api import Browser, Locator
from playwright.sync_api import Page as Tab

from tests.report.made_measurements import made_measurements
from tinytorch.report.measurements import LARGEST_BYTES, parse
from tinytorch.report.numbers import format_record

BOOK = made_measurements("The book's")
#: Markup that would run if it were ever taken for more than text.
HOSTILE = '<img src=x onerror="window.ran=1"><script>window.ran=1</script>"\'`</script><svg onload=window.ran=1>'
NOT_APP: Any = None
LOAD = """address => new Promise((done) => {
  const script = document.createElement("script");
  script.addEventListener("load", done);
  script.src = address;
  document.head.append(script);
})"""
DROP = """text => {
  const dataTransfer = new DataTransfer();
  dataTransfer.items.add(new File([text], "mine.json"));
  const dropped = new DragEvent("drop", { dataTransfer, bubbles: true, cancelable: true });
  document.querySelector(".your-machine-zone").dispatchEvent(dropped);
}"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a page with both places, as the extension writes them."""
    folder = tmp_path_factory.mktemp("machines")
    data = folder / "_measurements"
    data.mkdir()
    whole = {"measurements": BOOK, "titles": [["your_machine", "Your machine"]], **rules()}
    (data / "book.js").write_text(script("tinytorchBook", whole), "utf-8")
    roofs = {"measurements": roofs_of(BOOK), "published": list(PUBLISHED)}
    (data / "roofs.js").write_text(script("tinytorchRoofs", roofs), "utf-8")
    places = YourMachineNode().html(NOT_APP, "index")
    places += '<figure id="figure-roofline">drawn</figure>'
    places += RooflineExplorerNode(instead="figure-roofline").html(NOT_APP, "index")
    return made_page(folder, STYLES, SCRIPTS, places)


@pytest.fixture
def tab(browser: Browser, site: Path) -> Iterator[Tab]:
    """Return the page, opened as a file; it must not have failed or run a file's markup when the test is over."""
    with opened_page(browser, site) as opened:
        yield opened
        assert opened.evaluate("window.ran") is None


def said_by(place: Locator) -> str:
    """Return the text of a place with plain spaces."""
    return place.inner_text().replace("\u00a0", " ")


def give(tab: Tab, content: bytes, name: str = "mine.json") -> str:
    """Choose a file, and return what the page says of it."""
    tab.evaluate("document.querySelector('.your-machine-status').textContent = ''")
    tab.locator("#your-machine-file").set_input_files({"name": name, "mimeType": "application/json", "buffer": content})
    tab.locator(".your-machine-status:not(:empty)").wait_for()
    return said_by(tab.locator(".your-machine-status"))


def changed(**changes: Any) -> bytes:
    return json.dumps({**BOOK, **changes}).encode()


def own() -> tuple[Any, Any]:
    """Return a reader's measurements, as the book's are, and their records by key."""
    mine = copy.deepcopy(BOOK)
    return mine, {record["key"]: record for record in mine["pages"][0]["records"]}


def beside(tab: Tab, mine: Any) -> dict[str, list[str]]:
    """Return by name what the cells of the page say beside the rows of all tables."""
    give(tab, json.dumps(mine).encode())
    tab.locator("details.beside-page").evaluate("part => part.open = true")
    rows = [row.locator("th, td").all_inner_texts() for row in tab.locator("details tbody tr").all()]
    return {name: [" ".join(cell.split()) for cell in cells] for name, *cells in rows}


def test_a_good_file_is_shown_beside_the_book_s(tab: Tab) -> None:
    mine, records = own()
    records["latency"]["value"] *= 2
    records["latency"]["interval"] = {"low": 1.8e-3, "high": 2.2e-3, "confidence": 0.95}
    records["slow"]["verdict"] = "supported"
    said = beside(tab, mine)
    assert "Of 1 claim the two machines agree on 0 and differ on 1." in said_by(tab.locator(".your-machine-status"))
    assert said["made"] == ["1.00 ms (0.90 to 1.10)", "2.0 ms (1.8 to 2.2)", "2.0 times as slow (1.7 to 2.4)"]
    assert said["Slow."] == ["refuted", "supported", "differ"]
    assert said["weights"][-1] == "the same"


REFUSED = [
    (b"", "This file is empty."),
    (b"\x89PNG\r\n\x1a\n\x00\xff", "This file is not JSON"),
    (b'{"schema": NaN}', "This file is not JSON"),
    (b"[]", "tinytorch measure did not write it"),
    (b'{"schema": "tinytorch-records"}', "the records of one page"),
    (changed(schema_version=4), "This file has version 4, but this book reads version 3"),
    (changed(schema_version=HOSTILE), "This file has version <img"),
    (changed(pages=[0] * 100_000), "more than 1000 entries"),
    (b"[" * 50_000 + b"]" * 50_000, "tinytorch measure did not write it"),
    (changed(note=json.loads("[" * 400 + "]" * 400)), "nested deeper than 12 levels"),
    (changed(label="x" * 81), "at most 80 characters"),
    (changed(pages=[]), "1 entry or more"),
    (changed(pages=BOOK["pages"] * 2), "two entries belong to the same page"),
    (json.dumps(BOOK).replace('"label"', '"__proto__"', 1).encode(), "lacks label"),
    (json.dumps(BOOK)[:-1].encode() + b', "__proto__": {"a": 1}}', "__proto__ must not be present"),
    (json.dumps(BOOK)[:-1].encode() + b', "constructor": 1}', "constructor must not be present"),
    (json.dumps(BOOK).replace("0.001", "1e999", 1).encode(), "a number beyond"),
    (b" " * (LARGEST_BYTES + 1), "larger than 4 MiB, so it was not read"),
]


def test_what_is_wrong_is_refused_in_words(tab: Tab) -> None:
    for content, said in REFUSED:
        assert said in give(tab, content)
        assert tab.locator(".your-machine-results").inner_text() == ""


def hostile(value: Any, name: str = "") -> Any:
    """Put markup into every text that the schema lets a stranger choose."""
    if isinstance(value, dict):
        return {key: hostile(item, key) for key, item in value.items()}
    if isinstance(value, list):
        return [hostile(item, name) for item in value]
    free = ("label", "note", "what", "word", "statement", "reason", "caption", "rows", "cpu", "system")
    return HOSTILE[:80] if isinstance(value, str) and name in (*free, "version", "python") else value


def test_a_label_turns_no_other_words(tab: Tab) -> None:
    assert give(tab, changed(label="Mine\u202e\u2066")).startswith("Mine: ")


def test_markup_in_any_text_is_shown_as_text(tab: Tab) -> None:
    mine = hostile(BOOK)
    assert parse(json.dumps(mine).encode(), "mine.json")["label"] == HOSTILE[:80]
    assert HOSTILE[:80] in give(tab, json.dumps(mine).encode())
    tab.locator("details.beside-page").evaluate("part => part.open = true")
    assert tab.locator(".your-machine-results").inner_text().count("<img src=x onerror") > 5
    assert tab.locator(".your-machine img, .your-machine script, .your-machine svg").count() == 0


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for name, item in inside for place in _places(item, (*path, name)))]


def test_the_browser_and_the_command_agree_on_what_can_be_used(tab: Tab) -> None:
    chance = random.Random(0)
    ends: list[Any] = [None, True, -1, 0, 0.5, 1e200, "", " ", HOSTILE, "x" * 5000, "-", "a-b"]
    values = [*ends, [], {}, [[]], {"kind": "measured"}]
    places = [place for place in _places(BOOK) if place]
    files = []
    for _ in range(400):
        made = copy.deepcopy(BOOK)
        where = chance.choice(places)
        inside: Any = made
        for name in where[:-1]:
            inside = inside[name]
        if isinstance(inside, dict) and chance.random() < 0.2:
            del inside[where[-1]]
        else:
            inside[where[-1]] = chance.choice(values)
        files.append(json.dumps(made))
    tab.evaluate(LOAD, "_measurements/book.js")
    taken = tab.evaluate("files => files.map(text => 'document' in machines.read(text, tinytorchBook))", files)

    def usable(text: str) -> bool:
        try:
            parse(text.encode(), "mine.json")
        except ValueError:
            return False
        return True

    differing = [text for text, one in zip(files, taken, strict=True) if one is not usable(text)]
    assert differing == []
    assert 20 < sum(taken) < 380


def test_numbers_look_as_they_do_in_the_book(tab: Tab) -> None:
    chance = random.Random(1)
    cases: list[tuple[str, float, str, tuple[float, float] | None]] = [
        ("counted", 12345, "1", None), ("counted", 7_372_800, "B", None), ("counted", 1000, "B", None),
        ("derived", 12345, "positions", None), ("derived", 0.25, "s", None), ("modelled", 1234.5, "B/s", None),
    ]  # fmt: skip
    for unit in ("s", ""):
        cases += [("measured", 0.0, unit, ends) for ends in (None, (0.0, 0.1))]
        cases += [("measured", 999.6e-6, unit, ends) for ends in (None, (998e-6, 1001e-6))]
        cases.append(("measured", 2.93, unit, (0.0029, 1308.0)))
    for unit in ("s", "B", "FLOP/s", "B/s", "%", "points", "", "1", "items/s") * 150:
        value = chance.choice((1, 1, -1)) * chance.uniform(1, 10) * 10 ** chance.randint(-9, 13)
        below, above = (chance.choice((0.0, 10 ** chance.uniform(-6, 2))) * abs(value) for _ in range(2))
        cases.append(("measured", value, unit, None if chance.random() < 0.2 else (value - below, value + above)))
    records = [
        {"kind": kind, "value": value, "unit": unit, "n": 7 if ends else 1}
        | {"interval": ends and {"low": ends[0], "high": ends[1]}}
        for kind, value, unit, ends in cases
    ]
    shown = tab.evaluate("cases => cases.map(machines.numberText)", records)
    for case, made in zip(records, shown, strict=True):
        like = format_record(case)
        expected = {"text": like.text, "cell": like.cell_text, "beside": like.beside}
        assert made == expected, case
    assert sum(made["text"].startswith("between") for made in shown) > 100


def test_what_has_no_interval_is_shown_and_has_no_ratio(tab: Tab) -> None:
    mine, records = own()
    cells = [cell for row in records["roofs"]["rows"] for cell in row if isinstance(cell, dict)]
    for one in (records["latency"], *(cell for cell in cells if cell["kind"] == "measured")):
        one["interval"] = None
    assert beside(tab, mine)["made"][1:] == ["1.00 ms", "–"]


def test_threads_are_compared_with_as_many_and_two_rows_of_one_name_with_none(tab: Tab) -> None:
    mine, records = own()
    rows = records["roofs"]["rows"]
    for row in rows:
        rate, factor = row[3], {1: 1, 2: 4}[row[1]["value"]]
        rate["value"] *= factor
        rate["interval"] = {**rate["interval"], **{end: rate["interval"][end] * factor for end in ("low", "high")}}
    rows.reverse()
    said = beside(tab, mine)
    assert said["FP32, Threads 1, arithmetic: At most"][-1].endswith("between 7 % slower and 8 % faster")
    assert said["FP32, Threads 2, arithmetic: At most"][-1] == "4.0 times as fast (3.7 to 4.3)"
    assert said["L1, Threads 2, memory: At most"][-1].startswith("4.0 times")
    chart = str(tab.locator(".beside-ratios svg").get_attribute("aria-label"))
    assert "FP32, Threads 1, arithmetic: At most: 1.00×" in chart
    assert "FP32, Threads 2, arithmetic: At most: 4.00×" in chart
    for row in rows:
        row[1]["value"] = 2
    said = beside(tab, mine)
    assert said["FP32, Threads 2, arithmetic"][-1] == "not compared: several rows have this name"
    assert said["FP32, Threads 1, arithmetic"][-1] == "not in your file"
    assert tab.locator(".beside-ratios").count() == 0


@pytest.mark.parametrize(
    ("ends", "unit", "said"),
    [
        ((0.84, 1.005), "B/s", "up to 16 % slower, perhaps the same"),
        ((0.995, 1.16), "s", "up to 16 % slower, perhaps the same"),
        ((0.91, 1.16), "items/s", "between 9 % slower and 16 % faster"),
        ((0.91, 1.16), "B", "between 9 % less and 16 % more"),
        ((0.98, 1.03), "s", "no difference beyond 3 %"),
        ((1.01, 1.03), "s", None),
    ],
)
def test_what_a_ratio_leaves_open_is_said_with_its_reach(
    tab: Tab, ends: tuple[float, float], unit: str, said: str | None
) -> None:
    words = tab.evaluate("([low, high, unit]) => machines.reach({low, high}, unit)", [*ends, unit])
    assert (words and words.replace("\u00a0", " ")) == said


def test_the_ratio_of_two_machines_covers_the_true_one_as_often_as_it_says(tab: Tab) -> None:
    chance = random.Random(2)
    pairs = []
    for _ in range(2000):
        pair = []
        for true in (3.0, 2.0):
            estimate = true * chance.lognormvariate(0, 0.05)
            ends = {"low": estimate * 2.718281828 ** (-1.96 * 0.05), "high": estimate * 2.718281828 ** (1.96 * 0.05)}
            pair.append({"kind": "measured", "value": estimate, "unit": "s", "interval": ends})
        pairs.append(pair)
    made = tab.evaluate("pairs => pairs.map(([a, b]) => machines.ratio(a, b))", pairs)
    covered = sum(one["low"] <= 1.5 <= one["high"] for one in made) / len(made)
    assert 0.93 < covered < 0.97
    once = {"kind": "derived", "value": 0.5, "unit": "s", "interval": None}
    share = {**once, "unit": "%", "interval": {"low": 0.4, "high": 0.6}}
    without = [[once, pairs[0][0]], [share, share]]  # intervals, and other units than of shares
    assert tab.evaluate("pairs => pairs.map(([a, b]) => machines.ratio(a, b))", without) == [None, None]


@pytest.mark.parametrize(
    ("value", "low", "high", "unit", "said"),
    [
        (0.294, 0.277, 0.313, "FLOP/s", "3.4 times as slow (3.1 to 3.7)"),
        (3.4, 3.2, 3.6, "items/s", "3.4 times as fast (3.2 to 3.6)"),
        (3.4, 3.2, 3.6, "s", "3.4 times as slow (3.2 to 3.6)"),
        (0.5, 0.4, 0.6, "s", "2.0 times as fast (1.6 to 2.5)"),
    ],
)
def test_a_speed_is_a_factor_above_one(tab: Tab, value: float, low: float, high: float, unit: str, said: str) -> None:
    ratio = {"value": value, "low": low, "high": high}
    shown = tab.evaluate("([ratio, unit]) => machines.speed(ratio, unit)", [ratio, unit])
    assert f"{shown['said']} {shown['beside']}" == said


def test_a_busy_machine_wide_intervals_and_single_recordings_are_told(tab: Tab) -> None:
    mine, records = own()
    machine = mine["pages"][0]["provenance"]["machine"]
    machine["load"] = 0.9
    give(tab, json.dumps(mine).encode())
    assert tab.locator(".your-machine-results .card-caution").count() == 0
    machine["load"] = 3.2
    records["latency"]["interval"] = None
    for cell in (cell for row in records["roofs"]["rows"] for cell in row if isinstance(cell, dict)):
        if cell["kind"] == "measured":
            low, high = (cell["value"] + 3 * (cell["interval"][end] - cell["value"]) for end in ("low", "high"))
            cell["interval"] |= {"low": low, "high": high}
    give(tab, json.dumps(mine).encode())
    busy, noisy, single = tab.locator(".your-machine-results .card-caution").all_inner_texts()
    assert "the load average was already 3.2" in busy
    assert "3.00 times as wide" in noisy
    assert "1 number has no interval" in single


def test_the_file_can_be_dropped_kept_and_forgotten(tab: Tab, site: Path) -> None:
    tab.evaluate(DROP, json.dumps({**BOOK, "label": "Dropped"}))
    tab.get_by_text("Dropped: 1 page").wait_for()
    tab.reload()
    assert tab.locator(".your-machine-results").inner_text() == "", "nothing is kept unless it is asked for"
    give(tab, changed(label="Mine"))
    tab.get_by_label("Keep it in this browser").check()
    tab.reload()
    tab.get_by_text("Mine: 1 page").wait_for()
    assert "The page still shows the earlier file" in give(tab, b"{")
    tab.get_by_role("button", name="Remove it").press("Enter")
    assert "was removed" in said_by(tab.locator(".your-machine-status"))
    tab.reload()
    tab.locator(".your-machine-zone").wait_for()
    assert tab.evaluate("localStorage.length") == 0
    assert tab.locator(".your-machine-results").inner_text() == ""


def test_every_roof_and_point_says_its_value_to_the_keyboard(tab: Tab) -> None:
    assert tab.locator("#figure-roofline").is_hidden()
    readout = tab.locator(".explorer-readout")
    said = []
    for target in tab.locator(".explorer-chart [tabindex='0']").all():
        target.focus()
        assert readout.inner_text() == target.get_attribute("aria-label")
        said.append(said_by(readout))
    assert "FP32 of the book's machine, 1 thread: 100 GFLOP/s (95 to 105)" in said
    assert "memory of the book's machine, 1 thread: 10.0 GB/s (9.5 to 10.5)" in said
    assert len(said) == 4
    tab.get_by_label("all cores").check()
    assert "2 threads" in str(tab.locator(".explorer-chart [tabindex='0']").first.get_attribute("aria-label"))
    tab.get_by_label("NVIDIA A100, 40 GB").check()
    assert "quoted from" in said_by(tab.locator(".roofline-sources"))
    give(tab, changed(label="Mine"))
    assert tab.get_by_label("your machine", exact=True).is_checked()


JUDGED = [
    ("1 G", "100 M", "", ["memory-bound or compute-bound: it lies within the interval of the ridge point of memory"]),
    ("1 G", "1 G", "", ["memory-bound", "at most 10.0 GFLOP/s", "at least 100 ms"]),
    ("1e12", "1 G", "20", ["compute-bound", "at most 100 GFLOP/s", "reaches 50.0 % of this rate"]),
    ("1 G", "1 G", "1 m", ["it is above this roof"]),
]


def test_a_kernel_is_judged_by_the_roofs(tab: Tab) -> None:
    for operations, moved, seconds, said in JUDGED:
        tab.locator("#roofline-operations").fill(operations)
        tab.locator("#roofline-bytes").fill(moved)
        tab.locator("#roofline-seconds").fill(seconds)
        answer = said_by(tab.locator(".roofline-answer"))
        assert all(words in answer for words in said), answer
        assert tab.locator(".spot.kernel").count() == 1


@pytest.mark.parametrize(("typed", "hint"), [("many", "many is not a number: write a number above 0"), ("1e-308", "")])
def test_what_is_no_number_is_said_beside_its_field(tab: Tab, typed: str, hint: str) -> None:
    tab.locator("#roofline-operations").fill("2 G")
    tab.locator("#roofline-bytes").fill(typed)
    assert tab.locator("#roofline-bytes").get_attribute("aria-invalid") == "true"
    assert hint in tab.locator("#roofline-bytes-hint").inner_text()


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("12 MiB", "B", 12 * 2**20),
        ("12Mi", "B", 12 * 2**20),
        ("12,000 B", "B", 12e3),
        ("5 ms", "s", 5e-3),
        ("1,5 ms", "s", 1.5e-3),
        (".5 µs", "s", 0.5e-6),
        ("2 GFLOP", "FLOP", 2e9),
        ("2.5e6", "FLOP", 2.5e6),
        ("1,234,567.5 OPs", "FLOP", 1234567.5),
    ],
)
def test_a_number_may_have_its_unit(tab: Tab, text: str, unit: str, value: float) -> None:
    assert tab.evaluate("given => machines.typedNumber(...given)", [text, unit]) == {"value": pytest.approx(value)}


@pytest.mark.parametrize(
    ("text", "unit", "problem"),
    [
        ("", "B", "is not a number"),
        ("GiB", "B", "is not a number"),
        ("-5", "s", "is not above 0"),
        ("0", "B", "is not above 0"),
        ("5 ms", "B", "is in s, not in B"),
        ("12 MiB", "FLOP", "is in B, not in FLOP"),
        ("2 GFLOP/s", "FLOP", "is a rate"),
        ("2 min", "s", "is in minutes"),
        ("5 m", "FLOP", "M means a million"),
        ("5 Mi", "s", "is only for bytes"),
        ("1,23,4", "B", "does not separate thousands"),
        ("1e-308", "B", "too large or too small to be drawn"),
    ],
)
def test_what_is_wrong_with_a_number_is_said(tab: Tab, text: str, unit: str, problem: str) -> None:
    assert problem in tab.evaluate("given => machines.typedNumber(...given)", [text, unit])["problem"]


def test_what_a_reader_chose_stays_in_the_address(browser: Browser, site: Path) -> None:
    with serve(site.parent) as base, opened_page(browser, f"{base}/{site.name}") as tab:
        tab.locator("#roofline-operations").fill("2 GFLOP")
        tab.locator("#roofline-bytes").fill("many")
        chosen = [
            tab.get_by_role("checkbox", name="NVIDIA A100, 40 GB"),
            tab.get_by_role("radio", name="all cores"),
            tab.get_by_role("checkbox", name="INT8"),
        ]
        for choice in chosen:
            choice.check()
        tab.locator("#roofline-arithmetic").select_option("INT8")
        tab.goto(tab.url)
        assert tab.locator("#roofline-operations").input_value() == "2 GFLOP"
        assert tab.locator("#roofline-bytes").input_value() == "", "what is wrong is not handed on"
        assert all(choice.is_checked() for choice in chosen)
        assert tab.get_by_role("checkbox", name="FP32").is_checked()
        assert tab.locator("#roofline-arithmetic").input_value() == "INT8"
        tab.goto(f"{base}/{site.name}?bytes=many")
        assert tab.locator("#roofline-bytes").get_attribute("aria-invalid") == "true"


def test_one_press_shows_the_book_s_own_file_and_a_headline(tab: Tab) -> None:
    tab.get_by_role("button", name="Show the book's own").click()
    tab.locator("details.beside-page").first.wait_for()
    assert "next to those of the book" in said_by(tab.locator(".your-machine-status"))


def test_it_fits_and_everyone_can_use_it(tab: Tab) -> None:
    give(tab, changed(label="Mine"))
    tab.evaluate("document.querySelectorAll('details').forEach(part => part.open = true)")
    for width in (320, 1920):
        tab.set_viewport_size({"width": width, "height": 900})
        assert tab.evaluate("document.querySelector('.roofline-explorer').scrollWidth <= innerWidth")
        assert accessibility_problems(tab) == []


@pytest.mark.parametrize("width", [390, 1280])
def test_no_point_lies_on_the_names_of_roofs(tab: Tab, width: int) -> None:
    tab.locator("#roofline-operations").fill("1")
    tab.locator("#roofline-bytes").fill("1 G")
    tab.set_viewport_size({"width": width, "height": 900})
    tab.wait_for_function("() => document.querySelector('.roofline-explorer svg').clientWidth <= innerWidth")
    edge = "(all, side) => all.map(one => one.getBoundingClientRect()[side])"
    names = tab.locator(".roofline-names").first.locator("text").evaluate_all(edge, "right")
    marks = tab.locator(".spot .mark").evaluate_all(edge, "left")
    assert max(names) < min(marks)
    low = tab.locator(".roof.slope .line").evaluate_all(edge, "bottom")
    assert max(low) < tab.locator(".roofline-explorer svg").evaluate_all(edge, "bottom")[0]


def test_without_scripts_the_drawn_figure_and_a_way_stay(browser: Browser, site: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    still = context.new_page()
    still.goto(site.as_uri())
    assert still.locator("#figure-roofline").is_visible()
    assert "compare it with" in still.locator(".your-machine").inner_text()
    context.close()
