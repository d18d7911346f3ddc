"""Rows are read by the names of what they hold; tables are read back by a parser of HTML that is not ours."""

import json
from dataclasses import dataclass
from typing import Any

import pytest
from bs4 import BeautifulSoup
from hypothesis import given
from hypothesis import strategies as st

from tests.report.made_measurements import bounded
from tinytorch.perf.measuring import Counted, Measurement, Modelled, Quoted, Unmeasured
from tinytorch.perf.measuring.judge import Judgement, Verdict
from tinytorch.report import Page
from tinytorch.report.rows import listed, value_at
from tinytorch.report.tables import (
    Column,
    checked_columns,
    checked_rows,
    declared,
    from_body,
    to_body,
    to_html,
    to_markdown,
    to_text,
)


def run(median: float) -> Measurement:
    return bounded(median, median * 0.97, median * 1.03, "s")


SHARES = [Modelled(share, "%", "share", "a law") for share in (0.25, 0.75)]
ROWS: list[dict[str, Any]] = [
    {"op": "linear <b>", "time": run(1.2e-3), "flops": 524_288, "share": SHARES[0], "note": None},
    {"op": "relu", "time": run(0.3e-3), "flops": 512, "share": SHARES[1], "note": "cheap"},
]
COLUMNS = [
    Column("op", "Operation"),
    Column("time", "Time"),
    Column("flops", "FLOPs", "FLOP"),
    Column("share", "Share", modelled=True),
    Column("note", "Note"),
]


def parsed(rows: list[dict[str, Any]], columns: list[Column]) -> BeautifulSoup:
    made = checked_rows(rows, columns, "ops")
    return BeautifulSoup(to_html(made, columns, caption="Time & work", key="ops"), "html.parser")


def test_it_has_a_caption_scopes_and_headers_can_have_the_focus_and_is_named() -> None:
    page = parsed(ROWS, COLUMNS)
    table = page.div
    assert table is not None
    assert (table["role"], table["tabindex"]) == ("region", "0")
    (named,) = table.select(f"caption #{table['aria-labelledby']}, caption#{table['aria-labelledby']}")
    assert named.get_text() == "Time & work"
    assert [th["scope"] for th in table.select("thead th, tbody th")] == ["col"] * 5 + ["row"] * 2
    assert [" ".join(th.get_text(" ").split()) for th in table.select("thead th")][:3] == [
        "Operation",
        "Time (ms)",
        "FLOPs",
    ]
    assert "model" in table.select("thead th")[3].get_text()
    assert [[cell.get_text() for cell in row.select("th, td")] for row in table.select("tbody tr")] == [
        ["linear <b>", "1.20 (1.16 to 1.24)", "524,288", "25.0", "–"],
        ["relu", "0.300 (0.291 to 0.309)", "512", "75.0", "cheap"],
    ]
    assert len(table.select("tbody .modelled")) == 2
    assert [float(str(cell["data-value"])) for cell in table.select("td:nth-child(2)")] == [1.2e-3, 0.3e-3]


GAINS = [
    {"op": "point", "gain": bounded(1.29, 0.9, 1.8)},
    {"op": "ends", "gain": bounded(2.93, 0.0029, 1308.0)},
    {"op": "once", "gain": Measurement("once", (1.0,), "")},
    {"op": "alike", "gain": bounded(2.5, 2.5, 2.5)},
    {"op": "together", "gain": bounded(1.1, 1.0, 1.2, n=1).together(10)},
]
SHOWN_GAINS = ["1.3 (0.9 to 1.8)", "0.0029 to 1,400", "1.00", "2.500", "1.10 (0.95 to 1.25)"]


def test_a_cell_shows_the_digits_that_its_interval_allows_or_its_ends() -> None:
    columns = [Column("op", "Op"), Column("gain", "Gain")]
    page = parsed(GAINS, columns)
    assert page.select("thead th")[1].get_text() == "Gain (×)"
    shown = page.select("tbody td")
    assert [cell.get_text() for cell in shown] == SHOWN_GAINS
    assert [cell.get("title") for cell in shown] == [
        "95% interval 0.9 to 1.8×, n = 6",
        "95% interval 0.0029 to 1,400×, n = 6",
        None,
        "95% interval 2.500×, n = 6",
        "99.5% interval 0.95 to 1.25×",
    ]
    assert [cell.get("data-value") for cell in shown] == ["1.29", "2.93", "1.0", "2.5", "1.1"]


def test_terminal_and_markdown_show_what_the_page_shows() -> None:
    columns = [Column("op", "Op"), Column("gain", "Gain")]
    text = to_text(GAINS, columns, caption="c").splitlines()[2:7]
    assert [" ".join(line.split()[1:]) for line in text] == SHOWN_GAINS
    markdown = to_markdown(GAINS, columns).splitlines()[2:]
    assert [line.split("|")[2].strip() for line in markdown] == SHOWN_GAINS


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
    made = to_html([{"name": "a", "one": first, "other": second}], columns, caption="Two columns.", key="k")
    heads = BeautifulSoup(made, "html.parser").select("thead th")
    assert {" ".join(head.get_text().split()) for head in heads[1:]} == shown


@pytest.mark.parametrize(
    ("times", "head", "shown"),
    [
        ([(0.0, 0.0, 1.3e-5), (12e-6, 11e-6, 13e-6)], "Time (µs)", ["0 to 13", "12.0 (11.0 to 13.0)"]),
        (
            [(1.09e-3, 0.92e-3, 1.3e-3), (290e-6, 270e-6, 330e-6), (43e-6, 39e-6, 47e-6), (24e-9, 22e-9, 27e-9)],
            "Time (µs)",
            ["1,090 (920 to 1,300)", "290 (270 to 330)", "43 (39 to 47)", "0.024 (0.022 to 0.027)"],
        ),
        ([(1e-9, 1e-9, 1e-9), (10.0, 10.0, 10.0)], "Time", ["1.000 ns", "10.00 s"]),
    ],
)
def test_a_column_has_one_unit_that_fits_its_ends_unless_they_are_far_apart(
    times: list[tuple[float, float, float]], head: str, shown: list[str]
) -> None:
    page = parsed([{"t": bounded(*each, "s")} for each in times], [Column("t", "Time")])
    assert page.select("thead th")[0].get_text() == head
    assert [cell.get_text().replace("\u00a0", " ") for cell in page.select("tbody th")] == shown


@given(st.lists(st.text(min_size=1), min_size=1, max_size=4))
def test_any_text_survives(words: list[str]) -> None:
    page = parsed([{"a": word} for word in words], [Column("a", "A")])
    shown = [cell.get_text() for cell in page.select("tbody th")]
    assert [" ".join(text.split()) for text in shown] == [" ".join(word.split()) for word in words]


def test_a_record_writes_its_table_again() -> None:
    rows = [
        {**ROWS[0], "units": 3, "count": Counted(3, "1", "calls"), "gain": run(2.0).tail(50), "said": "73 %"},
        {**ROWS[1], "units": 4, "count": 4, "gain": None, "said": "< 80 %"},
    ]
    more = [Column("units", "Units", "ops"), Column("count", "Calls", "1"), Column("gain", "Gain")]
    more += [Column("said", "Said", quoted=True), Column("time", "Time", total="gain")]
    columns = [*(each for each in COLUMNS if each.key != "time"), *more]
    made = checked_rows(rows, columns, "ops")
    body = to_body(made, columns, caption="Time", key="ops")
    assert body["rows"][0]["time"]["samples"] == list(ROWS[0]["time"].samples)
    assert body["rows"][0]["share"]["kind"] == "modelled"
    written = json.loads(json.dumps(body))
    assert to_html(*from_body(written), caption="Time", key="ops") == to_html(made, columns, caption="Time", key="ops")
    written["rows"][0]["time"]["interval"]["high"] = 5.3e-3
    written["rows"][0]["time"]["conditions"] = {"statistic": "median"}
    assert "5.3" in to_html(*from_body(written), caption="Time", key="ops")


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        ([], ValueError, "must not be empty"),
        ([{"a": 1}], ValueError, "has no b: it has a"),
        ([{"a": 1, "b": object()}], TypeError, "must be text"),
        ([{"a": float("nan"), "b": ""}], ValueError, "finite"),
        ([{"a": "", "b": 3}], ValueError, "bare whole number: give its column the unit"),
        ([{"a": True, "b": ""}], TypeError, "must be text"),
    ],
)
def test_rows_that_do_not_fit_are_refused(rows: list[dict[str, object]], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        checked_rows(rows, [Column("a", "A", "1"), Column("b", "B")], "key")


def test_columns_that_do_not_fit_are_refused() -> None:
    wrong = [Column("a", "A", total="b")]
    different = [("a", "A"), ("a", "B")]
    for columns, message in (
        ([], "at least one"),
        (different, "different"),
        ([("a", " ")], "label"),
        (wrong, "total of"),
    ):
        with pytest.raises(ValueError, match=message):
            checked_columns(columns, "key")


def test_a_quoted_column_holds_text_alone_in_the_frame_of_quoted_numbers() -> None:
    column = Column("rate", "Published", quoted=True)
    columns = [Column("name", "Name"), column]
    page = parsed([{"name": "a GPU", "rate": "137 TFLOP/s"}], columns)
    assert [span.get_text() for span in page.select("td .quoted-value")] == ["137 TFLOP/s"]
    assert not page.select("th .quoted-value")
    with pytest.raises(TypeError, match="elsewhere"):
        checked_rows([{"name": "a GPU", "rate": 137e12}], columns, "rates")


RUN = Measurement("a run", (1.0e-3, 1.1e-3, 1.2e-3, 1.05e-3, 1.15e-3, 1.3e-3), "s")


@dataclass(frozen=True)
class Inner:
    gain: Counted


@dataclass(frozen=True)
class Row:
    count: int
    seconds: Measurement | Unmeasured
    parts: dict[str, Inner]
    law: Modelled
    word: str | Judgement = "text"


ROW = Row(3, RUN, {"8 bits, dynamic": Inner(Counted(4, "B", "bytes"))}, Modelled(2.0, "s", "time", "a law"))


def test_a_path_leads_into_attributes_and_items() -> None:
    assert value_at(ROW, "parts.8 bits, dynamic.gain").value == 4
    assert value_at({"a": {"b": 1}}, "a.b") == 1
    assert value_at({"a": {"b": None}}, "a.b.c.d") is None
    (named,) = listed({"mlp": ROW})
    assert (value_at(named, "name"), value_at(named, "count")) == ("mlp", 3)
    for row, path in ((ROW, "missing"), (ROW, "parts.other"), (named, "missing")):
        with pytest.raises(ValueError, match=path):
            value_at(row, path)
    with pytest.raises(ValueError, match="empty"):
        listed([])


def test_what_was_not_measured_is_so_in_all_its_parts() -> None:
    absent = Unmeasured("it needs a second core")
    assert value_at(absent, "speedup.gain") is absent
    assert absent["two"].values() is absent
    assert absent / RUN is RUN / absent is absent
    with pytest.raises(ValueError, match="reason"):
        Unmeasured(" ")


def test_values_say_how_their_column_looks() -> None:
    judged = Row(1, RUN, {}, ROW.law, Judgement(Verdict.REFUTED))
    headings = {"count": "Count", "seconds": "Time", "law": "Predicted", "word": "Verdict"}
    columns, cells = declared([ROW, judged], headings, "t", quoted=(), totals={})
    assert [one.unit for one in columns] == ["1", None, None, None]
    assert [(one.modelled, one.judged) for one in columns][1:] == [(False, False), (True, False), (False, True)]
    assert cells[0]["seconds"] is RUN
    (quoted,), _ = declared([{"a": Quoted(3, "B", "w", "s")}], {"a": "A"}, "t", quoted=(), totals={})
    assert quoted.quoted
    for wrong in ({"quoted": ("other",), "totals": {}}, {"quoted": (), "totals": {"count": "other"}}):
        with pytest.raises(ValueError, match="other"):
            declared([ROW], headings, "t", **wrong)  # type: ignore[arg-type]


def test_a_page_shows_rows_and_says_what_is_not_measured() -> None:
    page = Page("sample")
    absent = Row(1, Unmeasured("it needs a second core"), {}, ROW.law)
    page.table("ops", {"one": ROW, "two": absent}, {"name": "Op", "seconds": "Time"}, caption="Two ops.")
    rows = page.records[-1]["rows"]
    assert [row["name"] for row in rows] == ["one", "two"]
    assert rows[1]["seconds"] == "not measured"
    missing: Any = absent.seconds
    page.table("t", missing, {"name": "Op"}, caption="c")
    page.number("n", missing)
    page.test("c", missing, above=1)
    page.figure("f", missing, caption="c", alt="a")
    assert [(one["key"], one["kind"]) for one in page.records[-4:]] == [(key, "absent") for key in "tncf"]
    assert {one["reason"] for one in page.records[-4:]} == {"it needs a second core"}


def test_a_table_says_words_as_its_page_calls_them() -> None:
    rows = {"one": {"said": Judgement(Verdict.OPEN)}, "two": {"said": Judgement(Verdict.SUPPORTED, word="small")}}
    words = {"open": "not known", "small": "too small", "two": "the second"}
    table = Page("sample").table("t", rows, {"name": "Row", "said": "It is"}, caption="Rows.", words=words)
    found = [(row["name"], row["said"]["word"], row["said"]["outcome"]) for row in table.record["rows"]]
    assert found == [("one", "not known", "open"), ("the second", "too small", "decided")]
