"""Tables of rows: every cell is shown, on a terminal of any width and in plain text."""

from dataclasses import dataclass

import pytest

from tinytorch.perf.measuring.text_table import Column, mebibytes, milliseconds, percent, print_table, text_table


@dataclass(frozen=True)
class Row:
    name: str
    value: float | None


COLUMNS = (
    Column("name", "name", numeric=False),
    *(Column("value", f"seconds {k} (ms)", milliseconds) for k in range(9)),
)
ROWS = [Row("first", 0.0012345), Row("second", None), Row("third", 1.5)]


def test_text_aligns_numbers_to_the_right_and_shows_what_is_unknown_as_a_dash() -> None:
    lines = text_table(ROWS, COLUMNS[:2]).splitlines()
    assert [line.split() for line in lines[:2]] == [["name", "seconds", "0"], ["(ms)"]]
    assert lines[3:] == ["first       1.234", "second          –", "third   1,500.000"]
    assert {len(line) for line in lines} == {len(lines[0])}
    assert len(text_table(ROWS, COLUMNS[:1]).splitlines()) == 5, "without units there is one line of names"
    assert [milliseconds(0.25), percent(0.125), mebibytes(3 * 2**19)] == ["250.000", "12.5", "1.50"]
    assert milliseconds(float("nan")) == "–"


def test_notes_stand_below_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(ROWS, COLUMNS, ["a note [in brackets]"])
    *table, note = capsys.readouterr().out.splitlines()
    assert (table, note) == (text_table(ROWS, COLUMNS).splitlines(), "a note [in brackets]")
