"""Records against their schema, and back to the measurements that they were made of."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, ValidationError

from tinytorch.perf.measuring import Measurement, Statistic
from tinytorch.perf.measuring.statistics import Interval
from tinytorch.report import Page, bars, subplots
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

RUN = Measurement("a run", (1.0e-3, 1.1e-3, 1.2e-3, 1.05e-3, 1.15e-3, 1.3e-3), "s", {"inner_loops": 4})


def validate(content: Any) -> None:
    checker = Draft202012Validator.FORMAT_CHECKER
    Draft202012Validator(schema(), format_checker=checker).validate(json.loads(json.dumps(content, allow_nan=False)))


@pytest.fixture(scope="module")
def page() -> Page:
    """A page with one record of every kind."""
    page = Page("sample")
    page.number("latency", RUN)
    page.number("parameters", 12345, unit="parameters", what="weights and biases")
    page.number("mean", 1.25e-3, unit="s", what="mean of the runs")
    page.number("wish", 1.5, unit="s", what="a run on a machine that nobody has", modelled=True)
    page.word("bottleneck", "memory-bound", because="it takes {latency}")
    page.table(
        "ops",
        [{"op": "linear", "time": RUN, "calls": 3}],
        [("op", "Op"), ("time", "Time"), ("calls", "Calls", "1")],
        caption="Where the time goes",
    )
    figure, axes = subplots()
    bars(axes, ["one"], [RUN], quantity="latency", variants="numpy")
    axes.set_ylabel("operation")
    page.figure("bars", figure, caption="One bar.", alt="A bar for the one operation.")
    page.claim(
        "slow",
        statement="It is slow.",
        source="Folklore",
        quote="Slow.",
        verdict="refuted",
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
        "verdict",
        "table",
        "figure",
        "claim",
        "absent",
    }
    validate(page_file("sample", page.records, duration_seconds=1.5))


@pytest.mark.parametrize(
    ("value", "unit", "kind"),
    [
        (4096, "B", "counted"),
        (Measurement("state", (4096.0,), "B"), "B", "counted"),
        (4096.0, "B", "derived"),
        (1, "", "derived"),
        (Measurement("the same over itself", (1.0,), ""), "", "derived"),
        (Measurement("arithmetic that repeats", (0.75,), "%"), "%", "derived"),
        (Measurement("one run", (2.0,), "s"), "s", "measured"),
        (RUN, "s", "measured"),
    ],
)
def test_what_is_whole_was_counted_unless_it_is_a_ratio_or_a_share(value: Any, unit: str, kind: str) -> None:
    assert number_body("it", value, unit=unit, what="it", modelled=False)["kind"] == kind
    page = Page("cells")
    page.table("cells", [{"what": "it", "value": value}], [("what", "What"), ("value", "Value", unit)], caption="Cells")
    assert page.records[-1].body["rows"][0]["value"]["kind"] == kind


def test_a_count_of_measured_things_is_derived() -> None:
    body = number_body("wins", 3, unit="1", what="variants that were faster", modelled=False, derived=True)
    assert (body["kind"], body["value"]) == ("derived", 3)
    for value, modelled in ((3, True), (RUN, False)):
        with pytest.raises(ValueError, match="derived"):
            number_body("wins", value, unit=None, what=None, modelled=modelled, derived=True)


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


@given(samples, st.sampled_from(["s", "B/s", "", "%"]), st.dictionaries(st.text(max_size=5), st.integers() | st.text()))
def test_a_measurement_comes_back_from_its_record(values: list[float], unit: str, how: dict[str, Any]) -> None:
    measurement = Measurement("what ran", tuple(values), unit, how)
    body = number_body("key", measurement, unit=None, what=None, modelled=False)
    record = Record("key", body.pop("kind"), "page", now(), body)
    back = Record.from_json(json.loads(json.dumps(record.to_json())))
    assert measurement_from_record(back) == measurement


def test_a_record_that_is_no_number_gives_no_measurement() -> None:
    with pytest.raises(ValueError, match="must hold a number"):
        measurement_from_record({"key": "word", "kind": "verdict"})


def test_a_record_that_lacks_its_key_is_refused() -> None:
    with pytest.raises(ValueError, match="lacks key"):
        Record.from_json({"kind": "counted", "page": "p", "when": now()})


def test_interval_and_median_of_a_record_are_the_measurements() -> None:
    body = number_body("key", RUN, unit=None, what=None, modelled=False)
    assert body["value"] == RUN.median
    assert (body["interval"]["low"], body["interval"]["high"]) == (RUN.interval.low, RUN.interval.high)
    assert body["samples"] == list(RUN.samples)


@pytest.mark.parametrize("bounds", [(-math.inf, math.inf, math.nan), (0.5, math.inf, 0.95), (0.5, 2.0, math.nan)])
def test_samples_that_tell_no_ends_have_no_interval_and_get_none_back(bounds: tuple[float, float, float]) -> None:
    made = Statistic("gain", (1.0, 1.1, 1.2), "", {"statistic": "mean"}, value=1.1, bounds=Interval(*bounds))
    body = number_body("key", made, unit=None, what=None, modelled=False)
    assert (body["interval"], body["n"], body["value"]) == (None, 3, 1.1)
    back = measurement_from_record(json.loads(json.dumps({"key": "key", **body}, allow_nan=False)))
    assert (back.median, interval_of(back)) == (1.1, None)


def test_one_sample_has_no_interval() -> None:
    body = number_body("key", Measurement("once", (0.25,), "s"), unit=None, what=None, modelled=False)
    assert body["interval"] is None
    assert body["kind"] == "measured"


@pytest.mark.parametrize("value", [math.nan, math.inf, np.float64("nan")])
def test_what_is_not_finite_is_refused_by_key(value: float) -> None:
    with pytest.raises(ValueError, match=r"mlp-latency.*finite"):
        number_body("mlp-latency", value, unit="s", what="a run", modelled=False)


@pytest.mark.parametrize("value", ["1.2 ms", None, [1.0], True])
def test_what_is_no_number_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match="must be a Measurement or a number"):
        number_body("key", value, unit="s", what="a run", modelled=False)  # type: ignore[arg-type]


def test_a_bare_number_says_what_it_counts() -> None:
    with pytest.raises(ValueError, match="unit= and what="):
        number_body("key", 3, unit="parameters", what=None, modelled=False)


def test_a_measurement_keeps_its_unit() -> None:
    with pytest.raises(ValueError, match="unit of 'key'"):
        number_body("key", RUN, unit="ms", what=None, modelled=False)


@pytest.mark.parametrize("key", ["", "Latency", "a b", "-a", "a--b", "ä", "a_b"])
def test_keys_are_lower_case_words_joined_by_hyphens(key: str) -> None:
    with pytest.raises(ValueError, match="lower-case words"):
        checked_key(key)


def test_numpy_becomes_plain() -> None:
    made = plain({"a": np.float32(0.5), "b": np.arange(3), "c": (1, "x", None, True)}, "how")
    assert made == {"a": 0.5, "b": [0, 1, 2], "c": [1, "x", None, True]}
    assert json.dumps(made)


def test_what_json_cannot_hold_is_refused() -> None:
    with pytest.raises(TypeError, match="how"):
        plain({"f": object()}, "how")
