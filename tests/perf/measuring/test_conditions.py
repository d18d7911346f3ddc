"""Conditions: what of them survives each operation, that all of them are read, and their JSON with its schema."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass, replace
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from scripts.format_pages import RECORDS, with_conditions
from tinytorch.chapters.compression.speed import time_break_even
from tinytorch.chapters.quantization.versions import recovered_share
from tinytorch.chapters.roofline.studies import bend
from tinytorch.perf.distributed.collectives.link_fit import fit
from tinytorch.perf.machine.time_bound import TimeBound, added, at_cost, at_rate
from tinytorch.perf.measuring import Measurement, difference, of_rounds, quotient, ratio
from tinytorch.perf.measuring.codec import conditions_schema, from_json, to_json
from tinytorch.perf.measuring.conditions import (
    BetweenRuns,
    BlasThreads,
    Conditions,
    Sample,
    Side,
    of_all,
    of_processes,
    of_sides,
)
from tinytorch.perf.measuring.judge import had_less_than_a_core, why_incomparable
from tinytorch.perf.measuring.measurement import Seconds
from tinytorch.perf.measuring.processes import Fresh, compare_in_processes
from tinytorch.perf.profiling.breakdown import predicted_speedup
from tinytorch.report.numbers import measurement_from_record, number_body

SAMPLES = tuple(1 + 0.01 * ((7 * at) % 12) for at in range(12))


def side(name: str, cpu: float = 1.0, spread: float = 0.0, sample: Sample = Sample.CALLS) -> Measurement:
    conditions = Conditions(
        sample=sample,
        cpu_per_wall=cpu,
        blas_threads=1,
        block=1,
        between_runs=BetweenRuns(spread, spread, 1.0) if spread else None,
        interleaved_with=tuple({"one", "other"} - {name}),
    )
    return Measurement(name, SAMPLES, "s", conditions)


def _json(one: Measurement) -> Measurement:
    return from_json(json.loads(json.dumps(to_json(Kept(one)))), Kept, "it").seconds


@dataclass(frozen=True)
class Kept:
    """A file."""

    seconds: Seconds


def part_of_all(one: Measurement) -> Measurement:
    return replace(one.scaled(1 / 3, "%"), conditions=replace(one.conditions, part_of="all"))


def reach(*parts: TimeBound) -> Measurement:
    return added(parts).measurement("reach")


TWO: dict[str, Callable[[Measurement, Measurement], Any]] = {
    "ratio": ratio,
    "difference": lambda one, other: difference(one, other, "difference"),
    "quotient": lambda one, other: quotient(one, other, "quotient"),
    "scaled quotient": lambda one, other: quotient(one, other, "quotient").scaled(3.0),
    "rate of a quotient": lambda one, other: quotient(one, other, "quotient").per(3.0, ""),
    "of all": lambda one, other: Measurement("all", SAMPLES, "", of_all((one.conditions, other.conditions))),
    "of sides": lambda one, other: Measurement(
        "sides", SAMPLES, "", of_sides({"one": one.conditions, "other": other.conditions})
    ),
    "break-even": lambda one, other: time_break_even((0.01, 0.999), [one.scaled(0.001), other.scaled(1.1)], "even"),
    "sum at costs": lambda one, other: reach(at_cost(2, one), at_cost(3, other).longer(at_cost(1, other))),
    "sum at rates": lambda one, other: reach(at_rate(2, one.per(1, "/s")), at_rate(3, other.per(1, "/s"))),
    # A gain near 1 would hide the share's spread.
    "Amdahl's law": lambda one, other: predicted_speedup(part_of_all(one), other.scaled(5.0), "law"),
    "line through messages": lambda one, other: fit({8: one, 1000: other.scaled(1.5), 2000: one.scaled(2.0)}).alpha,
    "ratio of a round": lambda one, other: of_rounds("made", lambda first, second: first / second, one, other),
    "where a curve bends": lambda one, other: bend({1: one, 32: other.scaled(2.0), 128: other.scaled(9.0)}),
    "part that was recovered": lambda one, other: recovered_share(one.tail(50).scaled(-1.0), other.tail(50)),
}
ONE: dict[str, Callable[[Measurement], Measurement]] = {
    "rate": lambda one: one.per(3.0, "/s"),
    "multiple": lambda one: one.scaled(3.0),
    "statistic": lambda one: one.tail(50),
    "rate of a statistic": lambda one: one.tail(50).per(3.0, "/s"),
    "multiple of a statistic": lambda one: one.tail(50).scaled(3.0),
    "limit": lambda one: predicted_speedup(one.scaled(0.3, "%"), None, "limit"),
    "JSON": _json,
    "record": lambda one: measurement_from_record({"key": "it", **number_body("it", one)}),
    "JSON of a statistic": lambda one: _json(one.tail(50)),
    "record of a statistic": lambda one: ONE["record"](one.tail(50)),
}
#: Made of ratios, of which what hits both sides alike drops out, or of the side that differs most.
OF_RATIOS = {*("ratio", "difference", "ratio of a round", "break-even", "serial share"), "where a curve bends"}
each_operation = pytest.mark.parametrize(
    "operation", [(name, at) for name in (*TWO, *ONE) for at in (0, 1) if at == 0 or name in TWO], ids=str
)
few = settings(deadline=None, max_examples=5)


def made_by(operation: tuple[str, int], changed: dict[str, Any], kept: dict[str, Any] | None = None) -> Measurement:
    """Return what an operation makes where the side of its number is ``changed``."""
    name, at = operation
    how = [changed, kept or {}][:: -1 if at else 1]
    sides = [side(each, **said) for each, said in zip(("one", "other"), how, strict=True)]
    found = ONE[name](sides[0]) if name in ONE else TWO[name](*sides)
    assert isinstance(found, Measurement)
    return found


@each_operation
@given(st.floats(0.01, 0.99), st.sampled_from([kind for kind in Sample if kind.are_independent]))
@few
def test_what_disturbed_a_side_disturbed_what_is_made_and_only_independent_sides_make_independent_samples(
    operation: tuple[str, int], cpu: float, kind: Sample
) -> None:
    found = made_by(operation, {"cpu": cpu, "sample": kind}, {"sample": kind}).conditions
    assert (found.cpu_per_wall, found.sample) == (cpu, kind)
    assert had_less_than_a_core(found) is (cpu < 0.9)
    for kept in ({"sample": kind}, {}):
        assert not made_by(operation, {}, kept).conditions.sample.are_independent


@each_operation
@given(st.floats(0.1, 0.5))
@few
def test_what_runs_differ_by_widens_what_is_made_of_them(operation: tuple[str, int], spread: float) -> None:
    wide, plain = (made_by(operation, {"spread": each}).interval for each in (spread, 0.0))
    assert wide.low < plain.low - 1e-7
    assert wide.high > plain.high + 1e-7


@pytest.mark.parametrize("name", sorted(TWO.keys() - OF_RATIOS))
@given(st.floats(0.1, 0.3), st.floats(0.2, 0.3))
@few
def test_both_sides_count_in_what_runs_differ_by(name: str, first: float, second: float) -> None:
    one, both = (TWO[name](side("one", spread=first), side("other", spread=each)).interval for each in (0.0, second))
    assert both.half_width > one.half_width


def test_the_longer_of_two_may_be_either() -> None:
    first, second = at_cost(2, side("one", cpu=0.5, sample=Sample.PROCESSES)), at_cost(2, side("other"))
    for found in (first.longer(second), second.longer(first)):
        conditions = found.measurement("longer").conditions
        assert (conditions.cpu_per_wall, conditions.sample) == (0.5, Sample.CALLS)


def test_one_number_of_each_process_is_independent_and_has_the_least_core_of_all() -> None:
    times = [{"one": side("one", cpu=cpu, spread=0.1), "other": side("other")} for cpu in (0.5, *[1.0] * 6)]
    found = compare_in_processes([Fresh((), each) for each in times], "one", "other", 0).estimate.conditions
    assert (found.cpu_per_wall, found.sample, found.between_runs) == (0.5, Sample.PROCESSES, None)
    assert of_processes([side("one", cpu=0.5, spread=0.1).conditions]).between_runs is None


def test_one_thread_of_several_sides_is_enough_to_have_less_than_a_core() -> None:
    one, two = (Conditions(cpu_per_wall=share, blas_threads=threads) for share, threads in ((0.5, 1), (1.8, 2)))
    assert had_less_than_a_core(of_sides({"one": one, "two": two}))
    assert had_less_than_a_core(two) is None
    assert why_incomparable([one], [two], (0.3, 0.3)) is not None
    with pytest.raises(ValueError, match="least"):
        of_all([])


def test_what_is_said_of_one_measurement_alone_is_said_of_nothing_made_of_it() -> None:
    own = Conditions(call="a call", part_of="all", statistic="mean", interval_by="it", sides=(Side("x", Conditions()),))
    assert of_all([own, own]) == Conditions()
    assert (own.rescaled().call, own.rescaled().part_of) == (None, None)
    one = side("one", spread=0.1)
    assert one.tail(50).conditions == replace(one.conditions, statistic="percentile 50")


def values(hint: Any) -> st.SearchStrategy[Any]:
    if hint is BlasThreads:
        return st.integers(1, 64) | st.just("unknown")
    if isinstance(hint, type) and is_dataclass(hint):
        return st.builds(hint, **{name: values(each) for name, each in get_type_hints(hint).items()})
    if get_origin(hint) is tuple:
        return st.lists(values(get_args(hint)[0]), max_size=2).map(tuple)
    if get_origin(hint) in (Union, UnionType):
        return st.one_of(*(values(each) for each in get_args(hint)))
    if hint is float:
        return st.floats(0, 2)
    return st.from_type(hint)


HINTS = get_type_hints(Conditions)
PLAN = {"resolve": 0.03, "power": 0.9, "pilot": 12, "aimed": 0.03, "number": 40, "least": 0.0}
sides = st.lists(st.builds(Side, st.text(max_size=5), st.builds(Conditions, inner_loops=st.integers())), max_size=2)
conditions = st.builds(
    Conditions,
    **{name: values(hint) for name, hint in HINTS.items() if name not in ("sides", "blas_threads")},
    sides=sides.map(tuple),
    blas_threads=st.none() | st.integers(1, 64) | st.just("unknown"),
)


@given(conditions)
def test_conditions_come_back_from_json_which_keeps_the_schema(made: Conditions) -> None:
    written = json.loads(json.dumps(to_json(made), allow_nan=False))
    assert from_json(written, Conditions, "conditions") == made
    Draft202012Validator({"$ref": "#/$defs/Conditions", "$defs": conditions_schema()}).validate(written)
    assert to_json(Conditions()) == {}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"how": {}}, "how"),
        ({"inner_loops": "4"}, "must be a whole number"),
        ({"blas_threads": "two"}, "number of threads"),
        ({"sample": "moons"}, "moons"),
        ({"instrument": {"kind": "Sextant"}}, "kind of an instrument"),
        ({"instrument": {"kind": "MemoryProbe"}}, "working_set_bytes"),
        ({"sides": [{"name": "old"}]}, "'conditions' is missing"),
        ({"sides": [{"name": "old", "conditions": {}, "note": ""}]}, "note"),
        ({"planned": {"resolve": 0.03}}, "'power' is missing"),
        ({"planned": {**PLAN, "pairs": 40}}, "pairs"),
    ],
)
def test_what_are_no_conditions_is_refused(given: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        from_json(given, Conditions, "it")
    errors = Draft202012Validator({"$ref": "#/$defs/Conditions", "$defs": conditions_schema()}).iter_errors(given)
    assert next(errors, None) is not None


def test_the_schema_of_records_has_the_conditions_of_the_types() -> None:
    text = RECORDS.read_text("utf-8")
    assert with_conditions(text) == text, "run make format"


def test_every_definition_of_the_schema_is_used() -> None:
    text = RECORDS.read_text("utf-8")
    assert json.loads(text)["$defs"].keys() == set(re.findall(r'"#/\$defs/(\w+)"', text))
