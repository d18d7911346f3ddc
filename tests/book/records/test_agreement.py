"""Calls that several pages time: which disagree, and what is said of them; and factors that miss their total."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from measured_book.records import agreement
from measured_book.records.agreement import agree, compare_calls, multiplies
from measured_book.state import Agreement, BookState, PageRecords

from tests.report.made_measurements import bounded
from tinytorch.report import Page
from tinytorch.report.records import Json
from tinytorch.report.tables import Column

Ends = tuple[float, float]


def number(low: float, high: float, **changed: Any) -> Json:
    return {
        "kind": "measured",
        "value": (low + high) / 2,
        "unit": "s",
        "interval": {"low": low, "high": high, "confidence": 0.95},
        "n": 9,
        "samples": [low, high],
        "what": "a pass",
        "conditions": {"call": "forward"},
        **changed,
    }


def page(name: str, **numbers: Json) -> PageRecords:
    """Return a page with these numbers, and with a table that holds them in one row behind a name."""
    records = {key: {"key": key, "page": name, **record} for key, record in numbers.items()}
    return PageRecords(name, records)


def with_table(made: PageRecords, *cells: Json) -> PageRecords:
    rows = [{"name": "it", "time": cell} for cell in cells]
    made.records["all"] = {"key": "all", "page": made.docname, "kind": "table", "rows": rows}
    return made


def compared(*pages: PageRecords) -> dict[str, Agreement]:
    return compare_calls({page.docname: page for page in pages})


def test_intervals_apart_are_told_on_both_pages_with_what_the_other_found() -> None:
    found = compared(page("a", time=number(1.0, 2.0)), page("b", other=number(3.0, 4.0)))
    (ours,), (theirs,) = found["a"].apart, found["b"].apart
    assert ours.replace("\u00a0", " ") == (
        "time: 1.5 s (95% interval 1.0 to 2.0 s, n = 9) here, 3.5 s (95% interval 3.0 to 4.0 s, n = 9) on the page “b”"
    )
    assert theirs.startswith("other: 3.5")


def test_cells_are_compared_as_numbers_are_and_words_and_verdicts_among_them_are_no_times() -> None:
    judged: Json = {"word": "faster", "outcome": "decided", "fixed": False, "tests": []}
    made = with_table(page("a"), number(1.0, 2.0), number(9.0, 9.5, conditions={}), judged)
    found = compared(made, page("b", time=number(3.0, 4.0)))
    assert [each.partition(":")[0] for each in found["a"].apart] == ["all"]
    assert found["a"].repeated == 1


@pytest.mark.parametrize(
    "other",
    [
        number(3.0, 4.0, unit=""),
        number(3.0, 4.0, conditions={"call": "backward"}),
        number(3.0, 4.0, conditions={}),
        number(3.0, 4.0, conditions={"call": "forward", "statistic": "percentile 99"}),
        number(3.0, 4.0, interval=None),
    ],
    ids=["a ratio", "another call", "no name", "another statistic", "no interval"],
)
def test_only_times_of_one_call_on_other_pages_are_compared(other: Json) -> None:
    alone = page("a", time=number(1.0, 2.0), again=number(3.0, 4.0))
    assert compared(alone, page("b", time=other))["a"] == Agreement(), "nor with times of the page itself"


def _ends(pair: Ends) -> Ends:
    return min(pair), max(pair)


SOME = st.tuples(st.floats(0.1, 10), st.floats(0.1, 10)).map(_ends)


@given(st.lists(SOME, min_size=2, max_size=5))
def test_a_page_disagrees_if_and_only_if_its_interval_misses_one_of_the_others(intervals: list[Ends]) -> None:
    found = compared(*(page(f"p{index}", time=number(*each)) for index, each in enumerate(intervals)))
    for index, (low, high) in enumerate(intervals):
        missed = [at for at, (least, most) in enumerate(intervals) if most < low or high < least]
        said = " ".join(found[f"p{index}"].apart)
        assert [at for at in range(len(intervals)) if f"on the page “p{at}”" in said] == missed


def test_pages_that_disagree_anew_are_told_and_written_again_once(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(agreement.LOGGER, "info", lambda text, *values: said.append(text % values))
    state = BookState()
    for made in (page("a", time=number(1.0, 2.0)), page("b", time=number(3.0, 4.0)), page("c", x=number(1.0, 2.0))):
        state.of(made.docname).records = made
    state.of("quotes").uses = {"a"}
    state.of("silent").uses = {"c"}
    state.of("c").records.records["x"]["conditions"] = {}  # type: ignore[union-attr]
    assert agree(state) == {"a", "b"}
    assert [one.split(", time: ")[0] for one in said] == [
        f"{name}: two measurements of one call disagree" for name in ("a", "b")
    ]
    assert agree(state) == set()
    assert state.find("a:time", "quotes", "measured") == {"key": "time", "page": "a", **number(1.0, 2.0)}
    state.of("b").records = page("b", time=number(2.0, 4.0))
    assert agree(state) == {"a", "b"}
    assert state.records["a"].agreement == Agreement(1)
    assert len(said) == 2


def factors_table(factors: list[tuple[float, float] | None], totals: list[tuple[float, float] | None]) -> Json:
    """Return a table of factors with these intervals, and of their totals."""

    def gain(ends: tuple[float, float] | None) -> Any:
        return ends and bounded(sum(ends) / 2, *ends)

    rows = [
        {"step": f"step {index}", "gain": gain(factor), "all": gain(total)}
        for index, (factor, total) in enumerate(zip(factors, totals, strict=True))
    ]
    columns = [Column("step", "Step"), Column("gain", "Gain", total="all"), Column("all", "All")]
    return Page("page").table("steps", rows, columns, caption="Steps").record


@pytest.mark.parametrize(
    ("totals", "equal"),
    [
        ([None, (1.9, 2.1), (2.7, 3.3), None], True),
        ([None, (2.1, 2.2), (3.3, 3.6), None], True),
        ([None, (1.9, 2.1), (3.5, 3.6), None], False),
        ([None, None, (1.4, 1.6), (0.4, 0.45)], False),
    ],
)
def test_factors_multiply_to_their_total_as_far_as_intervals_tell(totals: list[Any], equal: bool) -> None:
    table = factors_table([None, (1.9, 2.1), (1.4, 1.6), (0.5, 0.6)], totals)
    assert multiplies(table) is equal
    del table["columns"][1]["total"]
    assert multiplies(table), "nothing says that they are factors"
