"""Rows are read by the names of what they hold, whatever they are."""

from dataclasses import dataclass
from typing import Any

import pytest

from tinytorch.perf.measuring import Counted, Measurement, Modelled, Quoted, Unmeasured
from tinytorch.perf.measuring.judge import Judgement, Verdict
from tinytorch.report import Page
from tinytorch.report.rows import listed, value_at
from tinytorch.report.tables import declared

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
