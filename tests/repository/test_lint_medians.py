"""Linting of clocked floats: what reaches a page bare or chooses a word is found with its line, the rest is let be."""

import pytest

from scripts.lint_medians import faults

FAULTY = [
    'page.number("gain", a.median / b.median, unit="", what="gain")',
    'page.number("gain", Counted(a.median / b.median, "", "gain"))',
    'page.table("t", [{"gain": a.median / b.median}], [("gain", "Gain", "")], caption="c")',
    'page.word("faster", "faster" if a.median > b.median else "slower", because="so")',
    'word = "faster" if a.median / b.median > 2 else "slower"',
    "is_faster = a.median / b.median > 2",
    "is_faster = a.median - b.median > 0",
    'if a.median > 1e-3:\n    page.word("slow", "slow", because="so")',
    'page.test("slow", a.median, above=1)',
    'page.test("slow", gain, above=a.median / b.median)',
    'page.lines("t", [a.median / b.median], x="width", y="gain", caption="c", alt="a")',
    "row = Row(gain=Counted(a.median / b.median, '', 'gain'))",
    "def study(a):\n    if a.median > 1e-3:\n        return Row(a, 'slow')\n    return Row(a, 'fast')",
    "rows.append(Row(a, 'slow' if a.median > 1e-3 else 'fast'))",
    'page.claim("c", verdict=SUPPORTED if a.median < 2e-3 else REFUTED)',
    'began = perf_counter()\nrun()\ntook = perf_counter() - began\npage.number("t", took, unit="s", what="t")',
    'gain = a.median / b.median\nrows = [{"gain": gain}]\npage.table("t", rows, columns, caption="c")',
    'rows = []\nrows.append({"gain": round(a.median * 2)})\npage.table("t", rows, columns, caption="c")',
    "def study(a, b):\n    return SUPPORTED if max(a.median, 1.0) > 2 else REFUTED",
    'page.word("w", "w", because=f"it took {a.median:.3f}")',
]
FINE = [
    'page.number("gain", ratio(a, b))',
    'page.test("slow", ratio(a, b), above=1)',
    "row = Row(took=a, share=Counted(len(a.samples), '', 'samples'))",
    'page.number("law", Modelled(a.median / b.median, "", "gain", "a law"))',
    'page.number("mean", Derived(a.mean, "s", "mean", (a,), "it is a mean"))',
    "ax.plot([one.median * 1e3 for one in series])",
    "shown = [one for one in shares if one.median > 0.01]",
    "best = min(times, key=lambda one: one.median)",
    "score = right.mean()",
    'page.word("w", word_between(gain, words), because="so")',
    'SAID = "none" if level.capacity > 2 else "some"',
    "def one(a):\n    took = a.median * 2\n\ndef other(took):\n    page.number('t', took)",
]


@pytest.mark.parametrize("python", FAULTY)
def test_a_clocked_float_is_found_where_it_reaches_a_page_or_chooses_a_word(python: str) -> None:
    assert len(faults(python)) == 1
    assert faults(f"x = 1\n{python}")[0][0] == faults(python)[0][0] + 1


@pytest.mark.parametrize("python", FINE)
def test_what_carries_its_interval_is_let_be(python: str) -> None:
    assert faults(python) == []
