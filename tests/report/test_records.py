"""Records against their schema, and back to the measurements that they were made of."""

import json
import math
from copy import deepcopy
from dataclasses import astuple, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, ValidationError

from tests.perf.measuring.test_conditions import conditions
from tinytorch.perf.measuring import Counted, Derived, Measurement, Modelled, Quoted, Unmeasured, quotient
from tinytorch.perf.measuring.conditions import Conditions
from tinytorch.perf.measuring.statistics import Stated
from tinytorch.report import Page
from tinytorch.report.figures import draw_bars, draw_line, subplots
from tinytorch.report.numbers import interval_of, measurement_from_record, number_body
from tinytorch.report.records import checked_key, page_file, schema
from tinytorch.report.tables import Column

pytestmark = pytest.mark.usefixtures("figures_drawn_once")

RUN = Measurement("a run", (1.0e-3, 1.1e-3, 1.2e-3, 1.05e-3, 1.15e-3, 1.3e-3), "s", Conditions(inner_loops=4))


def validate(content: Any) -> None:
    checker = Draft202012Validator.FORMAT_CHECKER
    Draft202012Validator(schema(), format_checker=checker).validate(json.loads(json.dumps(content, allow_nan=False)))


@pytest.fixture(scope="module")
def page() -> Page:
    """A page with one record of every kind."""
    page = Page("sample")
    page.number("latency", RUN)
    page.number("parameters", 12345, unit="parameters", what="weights and biases")
    page.number("mean", Derived(1.25e-3, "s", "mean of the runs", (RUN,), "it is a mean"))
    page.number("wish", Modelled(1.5, "s", "a run on a machine that nobody has", "a guess"))
    page.number("published", Quoted(3.0, "s", "their run", "Someone 2009 <https://example.org/paper>"))
    page.fill({"bottleneck": "memory-bound"}, "bottleneck")
    columns = [Column("op", "Op"), Column("time", "Time"), Column("calls", "Calls", "1")]
    page.table("ops", [{"op": "linear", "time": RUN, "calls": 3}], columns, caption="Where the time goes")
    figure, axes = subplots()
    draw_bars(axes, ["one"], [RUN], quantity="latency", variants="numpy")
    axes.set_ylabel("operation")
    page.figure("bars", figure, caption="One bar.", alt="A bar for the one operation.")
    words = {"statement": "It is slow.", "source": "Folklore", "source_url": None, "quote": "Slow."}
    page.test("slow", RUN, above=9).record.update(words | {"evidence": "It took little.", "numbers": []})
    page.number("other-engine", Unmeasured("It is not installed: `make book PEERS=1` measures it."))
    return page


def test_a_page_of_every_kind_keeps_to_the_schema(page: Page) -> None:
    kinds = "provenance measured counted derived modelled quoted verdict table figure claim absent"
    assert {record["kind"] for record in page.records} == set(kinds.split())
    validate(page_file("sample", page.records, duration_seconds=1.5))


COUNTED = Counted(4096, "B", "weights")
VALUES: dict[str, list[Measurement | Derived | Modelled | Quoted]] = {
    "measured": [RUN, Measurement("one run", (2.0,), "s"), quotient(RUN, RUN, "over itself")],
    "counted": [COUNTED, Counted(0.75, "%", "right answers"), Measurement("state", (4096.0,), "B")],
    "derived": [
        COUNTED.over(COUNTED, "saved"),
        Derived(3, "1", "runs that were faster", (RUN,), "it is a count"),
        quotient(COUNTED, COUNTED, "saved"),
    ],
    "modelled": [Modelled(2.0, "s", "a faster run", "a law"), Modelled.by("a law", RUN), Modelled.by("a law", COUNTED)],
    "quoted": [Quoted(2.0, "s", "their run", "Someone 2009")],
}


@pytest.mark.parametrize(("kind", "value"), [(kind, value) for kind, values in VALUES.items() for value in values])
def test_a_record_is_of_the_kind_that_its_value_is(kind: str, value: Measurement | Derived | Modelled | Quoted) -> None:
    page = Page("kinds")
    shown = page.number("it", value)
    column = Column("it", "It", modelled=kind == "modelled", quoted=kind == "quoted")
    page.table("cells", [{"it": value}], [column], caption="A cell.")
    figure, axes = subplots()
    draw_line(axes, [1], [value], quantity="it", variant="numpy")
    axes.set_xlabel("run (number)")
    page.figure("drawn", figure, caption="It, drawn.", alt="A point.")
    cell, drawn = page.records[-2]["rows"][0]["it"], page.records[-1]["series"][0]["numbers"][0]
    assert (shown.record["kind"], cell["kind"], drawn["kind"]) == (kind, kind, kind)
    source = {"modelled": "model", "quoted": "source"}.get(kind)
    assert source is None or cell[source] == getattr(value, source)
    validate(page_file("kinds", page.records))


UNITS = ["s", "B/s", "FLOP/s", "items/s", "Hz", "years", "", "%", "points", "B", "dB"]
REFUSED: list[tuple[Any, str, str | None, type[Exception], str]] = [
    *[(0.0123, unit, "a run", ValueError, "interleave") for unit in UNITS],
    *[
        (3, unit, "a run", ValueError, "bare number 3, which does not say where it comes from")
        for unit in ("s", "B/s", "", "%", "points")
    ],
    *[(value, "s", "a run", ValueError, "latency") for value in (math.nan, math.inf, np.float64("nan"))],
    *[(value, "s", "a run", TypeError, "number") for value in ("1.2 ms", None, [1.0], True)],
    (3, "parameters", None, ValueError, "unit"),  # it says nothing of what it counts
    (RUN, "ms", None, ValueError, "unit"),
]


@pytest.mark.parametrize(("value", "unit", "what", "error", "word"), REFUSED)
def test_what_is_no_number_of_its_kind_is_refused(
    value: Any, unit: str, what: str | None, error: type[Exception], word: str
) -> None:
    with pytest.raises(error, match=word):
        number_body("mlp-latency", value, unit=unit, what=what)


@pytest.mark.parametrize("modelled", [True, False])
def test_a_column_looks_as_its_values_are(modelled: bool) -> None:
    value = RUN if modelled else Modelled.by("a law", RUN)
    with pytest.raises(ValueError, match="table"):
        Page("cells").table("cells", [{"it": value}], [Column("it", "It", modelled=modelled)], caption="A cell.")


@pytest.mark.parametrize(
    ("kind", "field", "wrong"),
    [
        ("measured", "unit", None),
        ("measured", "n", 0),
        ("measured", "samples", []),
        ("measured", "interval", {"low": 1}),
        ("measured", "what", " "),
        ("measured", "kind", "guessed"),
        ("measured", "key", "No Key"),
        *[("figure", field, None) for field in ("caption", "alt", "series")],
    ],
)
def test_the_schema_is_one_and_refuses_a_wrong_record(page: Page, kind: str, field: str, wrong: object) -> None:
    Draft202012Validator.check_schema(schema())
    content = deepcopy(page_file("sample", page.records))
    next(record for record in reversed(content["records"]) if record["kind"] == kind)[field] = wrong
    with pytest.raises(ValidationError):
        validate(content)


def test_what_is_no_record_is_refused() -> None:
    with pytest.raises(ValueError, match="provenance"):
        page_file("sample", [])
    with pytest.raises(ValueError, match="number"):
        measurement_from_record({"key": "word", "kind": "verdict"})


samples = st.lists(st.floats(min_value=1e-9, max_value=1e9), min_size=1, max_size=20)


@given(samples, st.sampled_from(["s", "B/s", "", "%"]), conditions)
def test_a_measurement_comes_back_from_its_record(values: list[float], unit: str, how: Conditions) -> None:
    measurement = Measurement("what ran", tuple(values), unit, replace(how, part_of=None, statistic=None))
    back = json.loads(json.dumps(number_body("key", measurement)))
    assert measurement_from_record(back) == measurement
    assert back["value"] == measurement.median
    interval = interval_of(measurement)
    assert back["interval"] == (interval and {name: getattr(interval, name) for name in back["interval"]})


def again(made: Measurement) -> Measurement:
    """Return what comes back of a measurement from its record."""
    return measurement_from_record(json.loads(json.dumps({"key": "key", **number_body("key", made)}, allow_nan=False)))


MEAN = Measurement("gain", (1.0, 1.1, 1.2), "", Conditions(statistic="mean"), law=Stated(1.1, 0.9, 1.2))


@pytest.mark.parametrize("made", [MEAN, MEAN.together(8), Measurement("a run", (1.5,) * 40, "s").tail(90)])
def test_another_statistic_comes_back_with_its_interval(made: Measurement) -> None:
    back = again(made)
    assert (back.median, back.n, back.is_counted) == (made.median, made.n, False)
    assert astuple(back.interval) == pytest.approx(astuple(made.interval))
    wider = back.interval_at(0.99)
    assert astuple(wider) == pytest.approx(astuple(made.interval_at(0.99)))


def test_a_number_at_the_level_of_several_comes_back_at_it_and_one_sample_without_an_interval() -> None:
    assert again(RUN.together(8)).interval == RUN.together(8).interval
    once = again(Measurement("gain", (1.5,), "", Conditions(statistic="mean")))
    assert (once.median, interval_of(once)) == (1.5, None)


@pytest.mark.parametrize("key", ["", "Latency", "a b", "-a", "a--b", "ä", "a_b"])
def test_keys_are_lower_case_words_joined_by_hyphens(key: str) -> None:
    with pytest.raises(ValueError, match="lower"):
        checked_key(key)
