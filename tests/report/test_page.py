"""A page collects what its cells record, and refuses what a reader could not use."""

import gc
import math
from collections.abc import Callable
from dataclasses import astuple
from typing import Any

import pytest

from tests.report.made_numbers import bounded
from tinytorch.perf.engines.snippets import Printed
from tinytorch.perf.measuring import Counted, Measurement, Unmeasured
from tinytorch.perf.measuring.comparison import Comparison, compare_paired, judged
from tinytorch.perf.measuring.judge import Judgement, Verdict
from tinytorch.report import Page
from tinytorch.report.notebook_view import BUILDING, RECORD_MIME
from tinytorch.report.page import PROVENANCE_KEY
from tinytorch.report.records import measurement_from_record

RUN = Measurement("a run", (1.0e-3, 1.1e-3, 1.2e-3, 1.05e-3, 1.15e-3, 1.3e-3), "s")
SUPPORTED = Judgement(Verdict.SUPPORTED)
SAID: dict[str, Any] = {"statement": "So.", "source": "Someone", "quote": "So."}


def compared(ratio: float, matters: float = 0.01, half: float = 0.003) -> Comparison:
    """Return a comparison whose interval reaches by a factor of 1 + half to either side."""
    return judged(bounded(ratio, ratio / (1 + half), ratio * (1 + half)), ("before", "after"), matters)


@pytest.fixture
def page() -> Page:
    return Page("sample")


def test_nothing_is_recorded_when_something_is_wrong(page: Page) -> None:
    wrong: list[tuple[str, Callable[[], object]]] = [
        ("finite", lambda: page.number("latency", Counted(math.nan, "B", "a run"))),
        ("word of", lambda: page.word("verdict", " ", because="it is")),
        ("rows", lambda: page.table("ops", [], [("op", "Op")], caption="c")),
        ("keys must name", lambda: page.absent(reason="why")),
        ("taken", lambda: page.absent("a", PROVENANCE_KEY, reason="why")),
        ("reason", lambda: page.absent("a", reason=" ")),
        ("names latency", lambda: page.word("bottleneck", "memory-bound", because="it takes {latency}")),
        ("recorded", lambda: page.word("slow", "slow", because="it took long", numbers=["latency"])),
        ("is taken", lambda: page.word(PROVENANCE_KEY, "slow", because="it is")),
        ("number", lambda: page.claim("c", evidence="Everybody knows.", verdict=SUPPORTED, **SAID)),
        ("recorded", lambda: page.claim("c", evidence="It took {latency}.", verdict=SUPPORTED, **SAID)),
    ]
    for word, call in wrong:
        with pytest.raises(ValueError, match=word):
            call()
    assert [record.key for record in page.records] == [PROVENANCE_KEY]


def test_what_was_measured_decides_no_counted_claim(page: Page) -> None:
    page.number("latency", RUN)
    page.number("parameters", 12345, unit="parameters", what="weights and biases")
    said = {**SAID, "verdict": SUPPORTED}
    with pytest.raises(ValueError, match="measured"):
        page.claim("c", evidence="{parameters} took {latency}.", counted=True, **said)
    with pytest.raises(ValueError, match="counted"):
        page.claim("c", evidence="It has {parameters}.", numbers=["latency"], counted=True, **said)
    page.claim("c", evidence="It has {parameters}.", counted=True, **said)
    page.claim("d", evidence="{parameters} took {latency}, elsewhere {other:latency}.", **said)
    assert [record.body["counted"] for record in page.records if record.kind == "claim"] == [True, False]


def test_the_bundle_has_the_record_and_words_and_nothing_is_printed(
    page: Page, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(BUILDING, raising=False)
    bundle = page.number("latency", RUN)._repr_mimebundle_()
    assert capsys.readouterr().out == ""
    assert bundle[RECORD_MIME]["key"] == "latency"
    assert "n = 6" in bundle["text/plain"]


def test_a_build_takes_all_but_drawings_and_notes_from_records(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(BUILDING, "1")
    assert set(page.number("latency", RUN)._repr_mimebundle_()) == {RECORD_MIME}
    table = page.table("ops", [{"op": "linear"}], [("op", "Op")], caption="c")
    assert set(table._repr_mimebundle_()) == {RECORD_MIME}
    (note,) = page.absent("engines", reason="PyTorch is not installed.", instead_of="table")
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
    page.compare("change", comparison)
    number, verdict = page.records[-2:]
    assert (number.key, verdict.key) == ("change", "change-verdict")
    assert (verdict.body["word"], verdict.body["outcome"], verdict.body["fixed"]) == (word, outcome, False)
    assert number.body["value"] == ratio
    assert [number.body["interval"][end] for end in ("low", "high")] == pytest.approx(
        [ratio / (1 + half), ratio * (1 + half)]
    )
    assert verdict.body["tests"][0]["interval"] == number.body["interval"]
    assert "{change}" in verdict.body["because"]
    page.table("changes", {"new": {"change": comparison}}, {"name": "Version", "change": "It is"}, caption="c")
    assert page.records[-1].body["rows"][0]["change"] == {
        name: verdict.body[name] for name in ("word", "outcome", "fixed", "tests")
    }


def test_a_comparison_takes_both_of_its_keys_or_none(page: Page) -> None:
    page.word("change-verdict", "none", because="it is taken")
    with pytest.raises(ValueError, match="verdict"):
        page.compare("change", compared(1.05))
    assert page.records[-1].key == "change-verdict"


def test_the_interval_of_a_statistic_survives_its_record(page: Page) -> None:
    ratio = compare_paired([1.05, 1.06, 1.04] * 3, [1.0] * 9, 0).estimate
    tail = Measurement("calls", tuple(float(i * 7 % 401) for i in range(1, 401)), "s").tail(99)
    for key, made in (("ratio", ratio), ("tail", tail)):
        page.number(key, made)
        again = measurement_from_record(page.records[-1])
        assert again.median == made.median
        assert astuple(again.interval) == pytest.approx(astuple(made.interval), rel=1e-12)
        assert again.conditions.statistic == made.conditions.statistic


def test_what_is_absent_says_why_in_every_place(page: Page) -> None:
    number, verdict = page.absent("torch", "torch-verdict", reason="PyTorch is not <installed>.")
    assert number.record.to_json()["kind"] == "absent"
    assert verdict.record.body == {"reason": "PyTorch is not <installed>."}
    assert number.on_page is None
    (table,) = page.absent("engines", reason="PyTorch is not <installed>.", instead_of="table")
    assert 'id="table-engines"' in table.html
    assert "PyTorch is not &lt;installed&gt;." in table.html
    with pytest.raises(ValueError, match="torch"):
        page.number("torch", RUN)


def test_a_claim_on_what_is_absent_cannot_be_judged(page: Page) -> None:
    page.absent("torch", reason="PyTorch is not installed.")
    said = {**SAID, "evidence": "It takes {torch}."}
    with pytest.raises(ValueError, match="measured"):
        page.claim("slow", verdict=Judgement(Verdict.REFUTED), **said)
    claim = page.claim("slow", verdict=Judgement(Verdict.OPEN), **said).record.body
    assert (claim["numbers"], claim["verdict"], claim["outcome"]) == (["torch"], "open", "not measured")


@pytest.mark.parametrize("building", [True, False])
def test_what_was_imported_is_not_searched_for_garbage_by_each_measurement_of_a_build(
    building: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    gc.unfreeze()
    if building:
        monkeypatch.setenv(BUILDING, "1")
    else:
        monkeypatch.delenv(BUILDING, raising=False)
    try:
        Page("frozen")
        assert (gc.get_freeze_count() > 10_000) is building
    finally:
        gc.unfreeze()


def test_what_a_snippet_printed_is_shown_and_counted(page: Page, capsys: pytest.CaptureFixture[str]) -> None:
    page.printed("in-pytorch", Printed("one\ntwo\n", "PyTorch 9.9"))
    record = page.records[-1].to_json()
    assert (record["value"], record["unit"], record["what"]) == (2, "lines", "printed by PyTorch 9.9")
    assert capsys.readouterr().out == "one\ntwo\n"
    page.printed("not-here", Unmeasured("PyTorch is not here"))
    assert (page.records[-1].kind, page.records[-1].body["reason"]) == ("absent", "PyTorch is not here")
    assert capsys.readouterr().out == ""
