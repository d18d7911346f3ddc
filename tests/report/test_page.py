"""A page collects what its cells record, and refuses what a reader could not use."""

import gc
import math
from collections.abc import Callable

import pytest

from tests.chosen_settings import choose_settings
from tests.report.made_measurements import bounded
from tinytorch.perf.engines.snippets import Printed
from tinytorch.perf.measuring import Counted, Measurement, Unmeasured
from tinytorch.perf.measuring.comparison import Comparison, judged
from tinytorch.prose import Ends
from tinytorch.report import Page
from tinytorch.report.page import PROVENANCE_KEY
from tinytorch.report.records import RECORD_MIME

RUN = Measurement("a run", (1.0e-3, 1.1e-3, 1.2e-3, 1.05e-3, 1.15e-3, 1.3e-3), "s")


def compared(ratio: float, matters: float = 0.01, half: float = 0.003) -> Comparison:
    """Return a comparison whose interval reaches by a factor of 1 + half to either side."""
    return judged(bounded(ratio, ratio / (1 + half), ratio * (1 + half)), ("before", "after"), matters)


@pytest.fixture
def page() -> Page:
    return Page("sample")


def test_nothing_is_recorded_when_something_is_wrong(page: Page) -> None:
    wrong: list[tuple[str, Callable[[], object]]] = [
        ("finite", lambda: page.number("latency", Counted(math.nan, "B", "a run"))),
        ("rows", lambda: page.table("ops", [], [("op", "Op")], caption="c")),
        ("taken", lambda: page.number(PROVENANCE_KEY, RUN)),
        ("reason", lambda: page.number("a", Unmeasured(" "))),
        ("hold values", lambda: page.test("c")),
    ]
    for word, call in wrong:
        with pytest.raises(ValueError, match=word):
            call()
    assert [record["key"] for record in page.records] == [PROVENANCE_KEY]


def test_a_build_takes_all_but_drawings_and_notes_from_records(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    choose_settings(monkeypatch, building_book="")
    bundle = page.number("latency", RUN)._repr_mimebundle_()
    assert (bundle[RECORD_MIME]["key"], "n = 6" in bundle["text/plain"]) == ("latency", True)
    choose_settings(monkeypatch, building_book="1")
    assert set(page.number("again", RUN)._repr_mimebundle_()) == {RECORD_MIME}
    table = page.table("ops", [{"op": "linear"}], [("op", "Op")], caption="c")
    assert set(table._repr_mimebundle_()) == {RECORD_MIME}
    note = page.table("engines", Unmeasured("PyTorch is not installed."), [("op", "Op")], caption="c")
    assert set(note._repr_mimebundle_()) == {RECORD_MIME, "text/html"}


@pytest.mark.parametrize(
    ("ratio", "matters", "half", "word", "outcome"),
    [
        (1.05, 0.01, 0.002, "faster", "decided"),
        (0.95, 0.01, 0.002, "slower", "decided"),
        (1.005, 0.01, 0.002, "faster", "decided"),
        (1.0, 0.01, 0.002, "no difference beyond 0.2 %", "no difference"),
        (1.0, 0.1, 0.06, "no difference beyond 6 %", "no difference"),
        (1.05, 0.01, 0.08, "between 2.9 % slower and 14 % faster", "open"),
        (0.95, 0, 0.08, "between 14 % slower and 2.6 % faster", "open"),
        (1.0, 0.01, 0.06, "between 6 % slower and 6 % faster", "open"),
        (1.0, 0, 0.002, "between 0.2 % slower and 0.2 % faster", "open"),
    ],
)
def test_a_verdict_is_what_the_interval_leaves(
    page: Page, ratio: float, matters: float, half: float, word: str, outcome: str
) -> None:
    comparison = compared(ratio, matters, half)
    texts: dict[str, tuple[Ends | None, str]] = {
        each: (None, "") for each in ("faster", "slower", "no difference", "open") if matters or each != "no difference"
    }
    page.number("change", comparison)
    page.decide({"comparison": comparison}, "comparison", texts)
    number, verdict = page.records[-2:]
    assert (number["key"], verdict["key"]) == ("change", "comparison-outcome")
    assert (verdict["word"], verdict["outcome"], verdict["fixed"]) == (word, outcome, False)
    assert number["value"] == ratio
    assert [number["interval"][end] for end in ("low", "high")] == pytest.approx(
        [ratio / (1 + half), ratio * (1 + half)]
    )
    assert verdict["tests"][0]["interval"] == number["interval"]
    page.table("changes", {"new": {"change": comparison}}, {"name": "Version", "change": "It is"}, caption="c")
    assert page.records[-1]["rows"][0]["change"] == {
        name: verdict[name] for name in ("word", "outcome", "fixed", "tests")
    }


def test_what_is_absent_says_why_in_every_place(page: Page) -> None:
    why = Unmeasured("PyTorch is not <installed>.")
    number = page.number("torch", why)
    assert number.record["kind"] == "absent"
    assert number.record["reason"] == "PyTorch is not <installed>."
    assert number.on_page is None
    table = page.table("engines", why, [("op", "Op")], caption="c")
    assert 'id="table-engines"' in table.html
    assert "PyTorch is not &lt;installed&gt;." in table.html
    assert page.test("slow", why, above=1).record["kind"] == "absent"
    with pytest.raises(ValueError, match="torch"):
        page.number("torch", RUN)


@pytest.mark.parametrize("building", [True, False])
def test_what_was_imported_is_not_searched_for_garbage_by_each_measurement_of_a_build(
    building: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    gc.unfreeze()
    if building:
        choose_settings(monkeypatch, building_book="1")
    else:
        choose_settings(monkeypatch, building_book="")
    try:
        Page("frozen")
        assert (gc.get_freeze_count() > 10_000) is building
    finally:
        gc.unfreeze()


def test_what_a_snippet_printed_is_shown(page: Page, capsys: pytest.CaptureFixture[str]) -> None:
    page.printed(Printed("one\ntwo\n", "PyTorch 9.9"))
    assert capsys.readouterr().out == "one\ntwo\n"
    page.printed(Unmeasured("PyTorch is not here"))
    assert capsys.readouterr().out == ""
