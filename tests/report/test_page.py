"""A page collects what its cells record, and refuses what a reader could not use."""

from __future__ import annotations

import math

import pytest

from tinytorch.perf.timing import Measurement
from tinytorch.report import Page
from tinytorch.report.shown import BUILDING, RECORD_MIME

RUN = Measurement("a run", (1.0e-3, 1.1e-3, 1.2e-3, 1.05e-3, 1.15e-3, 1.3e-3), "s")


@pytest.fixture
def page() -> Page:
    return Page("sample")


def test_where_it_is_made_comes_first(page: Page) -> None:
    assert [record.kind for record in page.records] == ["provenance"]


def test_nothing_is_printed_outside_of_a_notebook(page: Page, capsys: pytest.CaptureFixture[str]) -> None:
    page.number("latency", RUN)
    assert capsys.readouterr().out == ""
    assert page.records[-1].key == "latency"


def test_a_key_is_used_once(page: Page) -> None:
    page.number("latency", RUN)
    with pytest.raises(ValueError, match="'latency' is taken"):
        page.word("latency", "fast", because="it is")


def test_nothing_is_recorded_when_something_is_wrong(page: Page) -> None:
    with pytest.raises(ValueError, match="finite"):
        page.number("latency", math.nan, unit="s", what="a run")
    with pytest.raises(ValueError, match="word of"):
        page.word("verdict", " ", because="it is")
    with pytest.raises(ValueError, match="rows"):
        page.table("ops", [], [("op", "Op")], caption="c")
    assert len(page.records) == 1


def test_a_verdict_may_name_only_numbers_that_are_recorded(page: Page) -> None:
    with pytest.raises(ValueError, match="names latency"):
        page.word("bottleneck", "memory-bound", because="it takes {latency}")
    page.number("latency", RUN)
    page.word("bottleneck", "memory-bound", because="it takes {latency}")


def test_a_claim_rests_on_numbers(page: Page) -> None:
    with pytest.raises(ValueError, match="at least one number"):
        page.claim("c", statement="So.", source="Someone", verdict="supported", evidence="Everybody knows.")
    with pytest.raises(ValueError, match="has not recorded"):
        page.claim("c", statement="So.", source="Someone", verdict="supported", evidence="It took {latency}.")
    page.claim("c", statement="So.", source="Someone", verdict="supported", evidence="It took {other:latency}.")


def test_a_count_of_what_was_modelled_says_so(page: Page) -> None:
    page.number("wish", 2.5, unit="s", what="a run on a faster machine", modelled=True)
    page.number("wish-too", RUN, modelled=True)
    assert [record.kind for record in page.records[1:]] == ["modelled", "modelled"]


def test_the_bundle_has_the_record_and_words(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(BUILDING, raising=False)
    bundle = page.number("latency", RUN)._repr_mimebundle_()
    assert bundle[RECORD_MIME]["key"] == "latency"
    assert "n = 6" in bundle["text/plain"]


def test_in_a_build_numbers_show_nothing_below_their_cell(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(BUILDING, "1")
    assert set(page.number("latency", RUN)._repr_mimebundle_()) == {RECORD_MIME}
    table = page.table("ops", [{"op": "linear"}], [("op", "Op")], caption="c")
    assert set(table._repr_mimebundle_()) == {RECORD_MIME, "text/html", "text/plain"}
