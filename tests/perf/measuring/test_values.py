"""Values that no clock took: what each refuses, and what it knows of what it came from."""

import math
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest

from tinytorch.perf.measuring import Counted, Derived, Measurement, Modelled, Quoted
from tinytorch.perf.measuring.values import as_measurement, is_clocked

RUN = Measurement("a run", (1.0, 1.1, 1.2, 1.05, 1.15, 1.3), "s")
ONCE = Measurement("one run", (2.0,), "s")
STATE = Counted(4096, "B", "state")


@pytest.mark.parametrize(
    ("unit", "clocked"),
    [("s", True), ("ns", True), ("B/s", True), ("s/step", True), ("Hz", True), ("steps", False), ("", False)],
)
def test_a_unit_of_time_or_rate_is_a_clocks_which_counts_nothing(unit: str, clocked: bool) -> None:
    assert is_clocked(unit) == clocked
    with pytest.raises(ValueError, match="counted") if clocked else nullcontext():
        Counted(3, unit, "a run")


def test_what_was_counted_is_exact_whole_or_not_and_names_both_of_a_quotient() -> None:
    share = Counted(0.75, "%", "right answers")
    assert share.is_counted
    assert (share.interval.low, share.interval.high) == (0.75, 0.75)
    saved = STATE.over(Counted(1024, "B", "codes"), "saved")
    assert (saved.value, saved.unit, saved.names) == (4.0, "", ("state", "codes"))


def test_what_is_derived_names_something_and_an_interval_is_not_lost_without_a_reason() -> None:
    slowest = Derived(1.3, "s", "slowest", (RUN,), "nothing bounds it")
    for of, said in (((), "something"), ((STATE, RUN), "interval"), ((slowest,), "interval")):
        with pytest.raises(ValueError, match=said):
            Derived(2.0, "", "twice", of)
    assert Derived(2.0, "", "twice", (STATE, RUN), "it is a guess").measured == (STATE, RUN)
    assert Derived(2.0, "", "twice", (ONCE,)).no_interval is None


def test_what_a_model_makes_of_a_measurement_has_its_samples() -> None:
    made = Modelled.by("a law", RUN)
    assert (made.value, made.unit, made.what, as_measurement(made)) == (RUN.median, "s", "a run", RUN)


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize(
    "make",
    [
        lambda value: Counted(value, "B", "it"),
        lambda value: Derived(value, "", "it", (STATE,)),
        lambda value: Modelled(value, "s", "it", "a law"),
        lambda value: Quoted(value, "s", "it", "Someone"),
    ],
)
def test_what_is_not_finite_is_no_value(make: Callable[[float], Any], value: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        make(value)
