"""Records against their schema, and back to the measurements that they were made of."""

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, ValidationError

from tests.perf.measuring.test_conditions import conditions
from tinytorch.perf.measuring import Counted, Derived, Measurement, Modelled, Quoted, quotient
from tinytorch.perf.measuring.conditions import Conditions
from tinytorch.perf.measuring.judge import Judgement, Verdict
from tinytorch.perf.measuring.measurement import Statistic
from tinytorch.perf.measuring.statistics import Interval
from tinytorch.report import Column, Page
from tinytorch.report.figures import draw_bars, draw_line, subplots
from tinytorch.report.numbers import interval_of
from tinytorch.report.records import (
    Record,
    checked_key,
    measurement_from_record,
    now,
    number_body,
    page_file,
    plain,
    schema,
)

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
    page.word("bottleneck", "memory-bound", because="it takes {latency}")
    page.table(
        "ops",
        [{"op": "linear", "time": RUN, "calls": 3}],
        [("op", "Op"), ("time", "Time"), ("calls", "Calls", "1")],
        caption="Where the time goes",
    )
    figure, axes = subplots()
    draw_bars(axes, ["one"], [RUN], quantity="latency", variants="numpy")
    axes.set_ylabel("operation")
    page.figure("bars", figure, caption="One bar.", alt="A bar for the one operation.")
    page.claim(
        "slow",
        statement="It is slow.",
        source="Folklore",
        quote="Slow.",
        verdict=Judgement(Verdict.REFUTED),
        evidence="It takes {latency}.",
    )
    page.absent("other-engine", reason="It is not installed: `make book PEERS=1` measures it.")
    return page


def test_a_page_of_every_kind_keeps_to_the_schema(page: Page) -> None:
    assert {record.kind for record in page.records} == {
        "provenance",
        "measured",
        "counted",
        "derived",
        "modelled",
        "quoted",
        "verdict",
        "table",
        "figure",
        "claim",
        "absent",
    }
    validate(page_file("sample", page.records, duration_seconds=1.5))


COUNTED = Counted(4096, "B", "weights")
VALUES: dict[str, list[Measurement | Derived | Modelled | Quoted]] = {
    "measured": [
        RUN,
        Measurement("one run", (2.0,), "s"),
        Measurement("the same over itself", (1.0,), ""),
        quotient(RUN, RUN, "over itself"),
    ],
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
    page.table(
        "cells",
        [{"it": value}],
        [Column("it", "It", modelled=kind == "modelled", quoted=kind == "quoted")],
        caption="A cell.",
    )
    figure, axes = subplots()
    draw_line(axes, [1], [value], quantity="it", variant="numpy")
    axes.set_xlabel("run (number)")
    page.figure("drawn", figure, caption="It, drawn.", alt="A point.")
    cell, drawn = page.records[-2].body["rows"][0]["it"], page.records[-1].body["series"][0]["numbers"][0]
    assert (shown.record.kind, cell["kind"], drawn["kind"]) == (kind, kind, kind)
    validate(page_file("kinds", page.records))


@given(st.floats(1e-9, 1e9), st.sampled_from(["s", "%", "", "dB"]), st.floats(1e-9, 1e9))
def test_a_record_keeps_what_its_value_knows(value: float, unit: str, other: float) -> None:
    body = number_body("key", Derived(value, unit, "it", (Measurement("this", (other,), "s"), COUNTED)))
    assert (body["kind"], body["value"], body["unit"], body["of"]) == ("derived", value, unit, ["this", "weights"])
    body = number_body("key", Modelled(value, unit, "it", "Amdahl's law"))
    assert (body["kind"], body["value"], body["unit"], body["model"]) == ("modelled", value, unit, "Amdahl's law")
    body = number_body("key", Quoted(value, unit, "it", "Someone"))
    assert (body["kind"], body["value"], body["unit"], body["source"]) == ("quoted", value, unit, "Someone")


def test_what_a_model_makes_of_samples_keeps_their_interval() -> None:
    body = number_body("wish", Modelled.by("a law", RUN.scaled(0.5)))
    assert (body["n"], body["interval"]["low"]) == (RUN.n, RUN.scaled(0.5).interval.low)


#: What a type checker would refuse, too.
BARE: Any = 0.0123


@pytest.mark.parametrize("unit", ["s", "B/s", "FLOP/s", "items/s", "Hz", "years", "", "%", "points", "B", "dB"])
def test_a_bare_float_is_refused_in_any_unit(unit: str) -> None:
    with pytest.raises(ValueError, match="interleave"):
        number_body("took", BARE, unit=unit, what="a run")
    with pytest.raises(ValueError, match="table"):
        Page("cells").table("cells", [{"it": 0.0123}], [Column("it", "It", unit)], caption="A cell.")


@pytest.mark.parametrize("unit", ["s", "B/s", "", "%", "points"])
def test_a_whole_number_of_what_is_not_counted_is_refused(unit: str) -> None:
    with pytest.raises(ValueError, match="bare 3"):
        number_body("took", 3, unit=unit, what="a run")


@pytest.mark.parametrize("modelled", [True, False])
def test_a_column_looks_as_its_values_are(modelled: bool) -> None:
    value = RUN if modelled else Modelled.by("a law", RUN)
    with pytest.raises(ValueError, match="table"):
        Page("cells").table("cells", [{"it": value}], [Column("it", "It", modelled=modelled)], caption="A cell.")


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(schema())


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("unit", None),
        ("n", 0),
        ("samples", []),
        ("interval", {"low": 1}),
        ("what", " "),
        ("kind", "guessed"),
        ("key", "No Key"),
    ],
)
def test_the_schema_refuses_a_wrong_number(page: Page, field: str, wrong: object) -> None:
    content = page_file("sample", page.records)
    number = next(record for record in content["records"] if record["key"] == "latency")
    number[field] = wrong
    with pytest.raises(ValidationError):
        validate(content)


@pytest.mark.parametrize("field", ["caption", "alt", "series"])
def test_the_schema_refuses_a_figure_that_lacks_something(page: Page, field: str) -> None:
    content = page_file("sample", page.records)
    del next(record for record in content["records"] if record["kind"] == "figure")[field]
    with pytest.raises(ValidationError):
        validate(content)


def test_a_page_without_provenance_makes_no_file() -> None:
    with pytest.raises(ValueError, match="provenance"):
        page_file("sample", [])


samples = st.lists(st.floats(min_value=1e-9, max_value=1e9), min_size=1, max_size=20)


@given(samples, st.sampled_from(["s", "B/s", "", "%"]), conditions)
def test_a_measurement_comes_back_from_its_record(values: list[float], unit: str, how: Conditions) -> None:
    measurement = Measurement("what ran", tuple(values), unit, replace(how, part_of=None, statistic=None))
    body = number_body("key", measurement)
    record = Record("key", body.pop("kind"), "page", now(), body)
    back = Record.from_json(json.loads(json.dumps(record.to_json())))
    assert measurement_from_record(back) == measurement


def test_a_record_that_is_no_number_gives_no_measurement() -> None:
    with pytest.raises(ValueError, match="number"):
        measurement_from_record({"key": "word", "kind": "verdict"})


def test_a_record_that_lacks_its_key_is_refused() -> None:
    with pytest.raises(ValueError, match="lacks key"):
        Record.from_json({"kind": "counted", "page": "p", "when": now()})


def test_interval_and_median_of_a_record_are_the_measurements() -> None:
    body = number_body("key", RUN)
    assert body["value"] == RUN.median
    assert (body["interval"]["low"], body["interval"]["high"]) == (RUN.interval.low, RUN.interval.high)
    assert body["samples"] == list(RUN.samples)


@pytest.mark.parametrize("bounds", [(-math.inf, math.inf, math.nan), (0.5, math.inf, 0.95), (0.5, 2.0, math.nan)])
def test_samples_that_tell_no_ends_have_no_interval_and_get_none_back(bounds: tuple[float, float, float]) -> None:
    made = Statistic("gain", (1.0, 1.1, 1.2), "", Conditions(statistic="mean"), value=1.1, bounds=Interval(*bounds))
    body = number_body("key", made)
    assert (body["interval"], body["n"], body["value"]) == (None, 3, 1.1)
    back = measurement_from_record(json.loads(json.dumps({"key": "key", **body}, allow_nan=False)))
    assert (back.median, interval_of(back)) == (1.1, None)


def test_one_sample_has_no_interval() -> None:
    body = number_body("key", Measurement("once", (0.25,), "s"))
    assert body["interval"] is None
    assert body["kind"] == "measured"


@pytest.mark.parametrize("value", [math.nan, math.inf, np.float64("nan")])
def test_what_is_not_finite_is_refused_by_key(value: Any) -> None:
    with pytest.raises(ValueError, match="latency"):
        number_body("mlp-latency", value, unit="s", what="a run")


@pytest.mark.parametrize("value", ["1.2 ms", None, [1.0], True])
def test_what_is_no_number_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match="number"):
        number_body("key", value, unit="s", what="a run")  # type: ignore[arg-type]


def test_a_bare_number_says_what_it_counts() -> None:
    with pytest.raises(ValueError, match="unit"):
        number_body("key", 3, unit="parameters", what=None)


def test_a_measurement_keeps_its_unit() -> None:
    with pytest.raises(ValueError, match="unit"):
        number_body("key", RUN, unit="ms", what=None)


@pytest.mark.parametrize("key", ["", "Latency", "a b", "-a", "a--b", "ä", "a_b"])
def test_keys_are_lower_case_words_joined_by_hyphens(key: str) -> None:
    with pytest.raises(ValueError, match="lower"):
        checked_key(key)


def test_numpy_becomes_plain() -> None:
    made = plain({"a": np.float32(0.5), "b": np.arange(3), "c": (1, "x", None, True)}, "it")
    assert made == {"a": 0.5, "b": [0, 1, 2], "c": [1, "x", None, True]}
    assert json.dumps(made)


def test_what_json_cannot_hold_is_refused() -> None:
    with pytest.raises(TypeError, match="it"):
        plain({"f": object()}, "it")
