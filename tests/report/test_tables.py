"""Tables, read back by a parser of HTML that is not ours."""

import json
import math
from typing import Any

import pytest
from bs4 import BeautifulSoup, Tag
from hypothesis import given
from hypothesis import strategies as st

from tests.report.made_numbers import bounded
from tinytorch.perf.measuring import Counted, Measurement, Modelled
from tinytorch.report.tables import (
    Column,
    checked_columns,
    checked_rows,
    from_body,
    laid_html,
    laid_out,
    to_body,
    to_html,
    to_markdown,
    to_text,
)


def run(median: float) -> Measurement:
    return bounded(median, median * 0.97, median * 1.03, "s")


ROWS: list[dict[str, Any]] = [
    {
        "op": "linear <b>",
        "time": run(1.2e-3),
        "flops": 524_288,
        "share": Modelled(0.25, "%", "share", "a law"),
        "note": None,
    },
    {"op": "relu", "time": run(0.3e-3), "flops": 512, "share": Modelled(0.75, "%", "share", "a law"), "note": "cheap"},
]
COLUMNS = [
    Column("op", "Operation"),
    Column("time", "Time"),
    Column("flops", "FLOPs", "FLOP"),
    Column("share", "Share", modelled=True),
    Column("note", "Note"),
]


@pytest.fixture(scope="module")
def table() -> Tag:
    rows = checked_rows(ROWS, COLUMNS, "ops")
    page = BeautifulSoup(to_html(rows, COLUMNS, caption="Time & work", key="ops"), "html.parser")
    assert isinstance(page.div, Tag)
    return page.div


def cells(table: Tag, column: int) -> list[Tag]:
    return [row.find_all(["th", "td"])[column] for row in table.select("tbody tr")]


def test_it_has_a_caption_and_scopes(table: Tag) -> None:
    assert table.select_one("caption").get_text() == "Time & work"  # type: ignore[union-attr]
    assert [th["scope"] for th in table.select("thead th")] == ["col"] * 5
    assert [th["scope"] for th in table.select("tbody th")] == ["row"] * 2


def test_it_scrolls_and_can_have_the_focus_and_is_named(table: Tag) -> None:
    assert (table["role"], table["tabindex"]) == ("region", "0")
    named = table.find(id=str(table["aria-labelledby"]))
    assert isinstance(named, Tag)
    assert named.get_text() == "Time & work"


def test_text_is_escaped(table: Tag) -> None:
    assert cells(table, 0)[0].get_text() == "linear <b>"
    assert table.find("b") is None


def test_one_unit_stands_in_the_header(table: Tag) -> None:
    assert table.select("thead th")[1].get_text() == "Time (ms)"
    assert [cell.get_text() for cell in cells(table, 1)] == ["1.20 (1.16 to 1.24)", "0.300 (0.291 to 0.309)"]


GAINS = [
    {"op": "point", "gain": bounded(1.29, 0.9, 1.8)},
    {"op": "ends", "gain": bounded(2.93, 0.0029, 1308.0)},
    {"op": "nothing", "gain": bounded(1.0, -math.inf, math.inf)},
    {"op": "alike", "gain": bounded(2.5, 2.5, 2.5)},
    {"op": "few", "gain": Measurement("few", (1.0, 1.2, 1.1), "")},
]
SHOWN_GAINS = ["1.3 (0.9 to 1.8)", "0.0029 to 1,400", "not resolved", "2.500", "1.10 (1.00 to 1.20)"]


def test_a_cell_shows_the_digits_that_its_interval_allows_or_its_ends_or_says_that_nothing_is_known() -> None:
    columns = [Column("op", "Op"), Column("gain", "Gain")]
    page = BeautifulSoup(to_html(GAINS, columns, caption="c", key="k"), "html.parser")
    assert page.select("thead th")[1].get_text() == "Gain (×)"
    shown = page.select("tbody td")
    assert [cell.get_text() for cell in shown] == SHOWN_GAINS
    assert [cell.get("title") for cell in shown] == [
        "97% interval 0.9 to 1.8×, n = 6",
        "97% interval 0.0029 to 1,400×, n = 6",
        "n = 6",
        "97% interval 2.500×, n = 6",
        "samples: 1.00, 1.20 and 1.10×",
    ]
    assert [cell.get("data-value") for cell in shown] == ["1.29", "2.93", None, "2.5", "1.1"], (
        "what is not known sorts last"
    )


def test_terminal_and_markdown_show_what_the_page_shows() -> None:
    columns = [Column("op", "Op"), Column("gain", "Gain")]
    text = to_text(GAINS, columns, caption="c").splitlines()[2:7]
    assert [" ".join(line.split()[1:]) for line in text] == SHOWN_GAINS
    markdown = to_markdown(GAINS, columns).splitlines()[2:]
    assert [line.split("|")[2].strip() for line in markdown] == SHOWN_GAINS


def test_a_column_s_unit_fits_the_ends_of_its_intervals() -> None:
    rows = [{"t": bounded(0.0, 0.0, 1.3e-5, "s")}, {"t": bounded(12e-6, 11e-6, 13e-6, "s")}]
    page = BeautifulSoup(to_html(rows, [Column("t", "Time")], caption="c", key="k"), "html.parser")
    assert page.select("thead th")[0].get_text() == "Time (µs)"
    assert [cell.get_text() for cell in page.select("tbody th")] == ["0 to 13", "12.0 (11.0 to 13.0)"]


def test_a_header_that_names_its_unit_does_not_say_it_twice(table: Tag) -> None:
    assert table.select("thead th")[2].get_text() == "FLOPs"
    assert [cell.get_text() for cell in cells(table, 2)] == ["524,288", "512"]


def test_modelled_columns_say_so(table: Tag) -> None:
    assert "model" in table.select("thead th")[3].get_text()
    assert all("modelled" in cell.get_attribute_list("class") for cell in cells(table, 3))


def test_numbers_sort_by_value_and_gaps_are_marked(table: Tag) -> None:
    assert [float(str(cell["data-value"])) for cell in cells(table, 1)] == pytest.approx([1.2e-3, 0.3e-3])
    assert cells(table, 4)[0].get_text() == "–"


@pytest.mark.parametrize(
    ("unit", "first", "second", "shown"),
    [
        ("B", 2**18, 2**21, {"one (MiB)", "other (MiB)"}),
        ("FLOP", 2e9, 9e7, {"one (GFLOP)", "other (GFLOP)"}),
        ("B", 8, 2**30, {"one (B)", "other (GiB)"}),
        ("s", 142e-6, 11.1e-3, {"one (ms)", "other (ms)"}),
        ("s", 1.4e-6, 13e-3, {"one (µs)", "other (ms)"}),
    ],
)
def test_columns_to_be_compared_have_one_unit_unless_they_are_far_apart(
    unit: str, first: float, second: float, shown: set[str]
) -> None:
    columns = [Column("name", "name"), Column("one", "one", unit), Column("other", "other", unit)]
    html = to_html([{"name": "a", "one": first, "other": second}], columns, caption="Two columns.", key="k")
    heads = BeautifulSoup(html, "html.parser").select("thead th")
    assert {" ".join(head.get_text().split()) for head in heads[1:]} == shown


def test_a_column_has_one_unit_from_nanoseconds_to_a_millisecond() -> None:
    rows = [{"t": bounded(1.09e-3, 0.92e-3, 1.3e-3, "s")}, {"t": bounded(290e-6, 270e-6, 330e-6, "s")}]
    rows += [{"t": bounded(43e-6, 39e-6, 47e-6, "s")}, {"t": bounded(24e-9, 22e-9, 27e-9, "s")}]
    page = BeautifulSoup(to_html(rows, [Column("t", "Time")], caption="c", key="k"), "html.parser")
    assert page.select("thead th")[0].get_text() == "Time (µs)"
    shown = [cell.get_text() for cell in page.select("tbody th")]
    assert shown == ["1,090 (920 to 1,300)", "290 (270 to 330)", "43 (39 to 47)", "0.024 (0.022 to 0.027)"]


def test_numbers_far_apart_keep_their_own_units() -> None:
    rows = checked_rows([{"t": run(1e-9)}, {"t": run(10.0)}], [Column("t", "Time")], "far")
    html = BeautifulSoup(to_html(rows, [Column("t", "Time")], caption="c", key="far"), "html.parser")
    texts = [cell.get_text() for cell in html.select("tbody th")]
    assert "ns" in texts[0]
    assert texts[1].split()[0].startswith("10.0")


@given(st.lists(st.text(min_size=1), min_size=1, max_size=4))
def test_any_text_survives(words: list[str]) -> None:
    rows = checked_rows([{"a": word} for word in words], [Column("a", "A")], "t")
    html = to_html(rows, [Column("a", "A")], caption="c", key="t")
    shown = [cell.get_text() for cell in BeautifulSoup(html, "html.parser").select("tbody th")]
    assert [" ".join(text.split()) for text in shown] == [" ".join(word.split()) for word in words]


def test_the_text_form_is_aligned() -> None:
    rows = checked_rows(ROWS, COLUMNS, "ops")
    lines = to_text(rows, COLUMNS, caption="Time & work").splitlines()
    assert lines[-1] == "Time & work"
    assert lines[2].startswith("linear <b>")
    assert lines[2].index("524,288") + len("524,288") == lines[3].index("512") + len("512")


def test_a_record_writes_its_table_again() -> None:
    rows = [
        {**ROWS[0], "units": 3, "count": Counted(3, "1", "calls"), "gain": run(2.0).tail(50), "said": "73 %"},
        {**ROWS[1], "units": 4, "count": 4, "gain": None, "said": "< 80 %"},
    ]
    more = [
        Column("units", "Units", "ops"),
        Column("count", "Calls", "1"),
        Column("gain", "Gain"),
        Column("said", "Said", quoted=True),
    ]
    columns = [Column("time", "Time", total="gain"), *(each for each in COLUMNS if each.key != "time"), *more]
    columns.append(columns.pop(0))
    made = checked_rows(rows, columns, "ops")
    body = to_body(made, columns, caption="Time", key="ops")
    written = json.loads(json.dumps(body))
    assert to_html(*from_body(written), caption="Time", key="ops") == to_html(made, columns, caption="Time", key="ops")
    written["rows"][0]["time"]["interval"]["high"] = 5.3e-3
    written["rows"][0]["time"]["conditions"] = {"statistic": "median"}
    assert "5.3" in to_html(*from_body(written), caption="Time", key="ops")


def test_a_number_stands_before_the_caption_and_leads_to_the_table() -> None:
    html = laid_html(laid_out(ROWS, COLUMNS), caption="Time", key="ops", number="Table 3.2")
    caption = BeautifulSoup(html, "html.parser").caption
    assert caption is not None
    assert caption.get_text() == "Table 3.2 Time"
    assert [link["href"] for link in caption.select("a")] == ["#table-ops"]


def test_the_record_keeps_samples() -> None:
    body = to_body(checked_rows(ROWS, COLUMNS, "ops"), COLUMNS, caption="c", key="ops")
    assert body["rows"][0]["time"]["samples"] == list(ROWS[0]["time"].samples)
    assert body["rows"][0]["share"]["kind"] == "modelled"


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        ([], ValueError, "must not be empty"),
        ([{"a": 1}], ValueError, "must have b"),
        ([{"a": 1, "b": object()}], TypeError, "must be text"),
        ([{"a": float("nan"), "b": ""}], ValueError, "finite"),
        ([{"a": "", "b": 3}], ValueError, "must name a unit"),
        ([{"a": True, "b": ""}], TypeError, "must be text"),
    ],
)
def test_rows_that_do_not_fit_are_refused(rows: list[dict[str, object]], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        checked_rows(rows, [Column("a", "A", "1"), Column("b", "B")], "key")


def test_columns_that_do_not_fit_are_refused() -> None:
    wrong = [Column("a", "A", total="b")]
    for columns, message in (
        ([], "at least one"),
        ([("a", "A"), ("a", "B")], "different"),
        ([("a", " ")], "label"),
        (wrong, r"total of column 'a' of table 'key' must be one of \['a'\], not 'b'"),
    ):
        with pytest.raises(ValueError, match=message):
            checked_columns(columns, "key")


def test_a_quoted_column_holds_text_alone_in_the_frame_of_quoted_numbers() -> None:
    column = Column("rate", "Published", quoted=True)
    columns = [Column("name", "Name"), column]
    rows = checked_rows([{"name": "a GPU", "rate": "137 TFLOP/s"}], columns, "rates")
    page = BeautifulSoup(to_html(rows, columns, caption="Rates", key="rates"), "html.parser")
    assert [span.get_text() for span in page.select("td .quoted-value")] == ["137 TFLOP/s"]
    assert not page.select("th .quoted-value")
    with pytest.raises(TypeError, match="elsewhere"):
        checked_rows([{"name": "a GPU", "rate": 137e12}], columns, "rates")
