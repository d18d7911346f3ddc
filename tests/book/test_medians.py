"""Linting of clocked floats: what reaches a page bare or chooses a word is found with its line, the rest is let be."""

import pytest
from medians import faults

FAULTY = [
    'page.number("gain", Counted(a.median / b.median, "", "gain"))',
    'page.table("t", [{"gain": a.median / b.median}], [("gain", "Gain", "")], caption="c")',
    'word = "faster" if a.median / b.median > 2 else "slower"',
    "is_faster = a.median - b.median > 0",
    'page.test("slow", gain, above=a.median / b.median)',
    "def study(a):\n    if a.median > 1e-3:\n        return Row(a, 'slow')\n    return Row(a, 'fast')",
    "rows.append(Row(a, 'slow' if a.median > 1e-3 else 'fast'))",
    'began = perf_counter()\nrun()\ntook = perf_counter() - began\npage.number("t", took, unit="s", what="t")',
    'rows = []\nrows.append({"gain": round(a.median * 2)})\npage.table("t", rows, columns, caption="c")',
    "def study(a, b):\n    return SUPPORTED if max(a.median, 1.0) > 2 else REFUTED",
]
FINE = [
    'page.number("gain", ratio(a, b))',
    'page.number("law", Modelled(a.median / b.median, "", "gain", "a law"))',
    "ax.plot([one.median * 1e3 for one in series])",
    "shown = [one for one in shares if one.median > 0.01]",
    "best = min(times, key=lambda one: one.median)",
    "score = right.mean()",
    'SAID = "none" if level.capacity > 2 else "some"',
    "def one(a):\n    took = a.median * 2\n\ndef other(took):\n    page.number('t', took)",
]


@pytest.mark.parametrize("python", [*FAULTY, *FINE])
def test_a_clocked_float_is_found_where_it_reaches_a_page_or_chooses_a_word_and_no_other(python: str) -> None:
    found = faults(f"x = 1\n{python}")
    assert len(found) == (python in FAULTY)
    assert [line - 1 for line, _ in found] == [line for line, _ in faults(python)]
