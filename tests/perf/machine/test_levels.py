"""Levels: found in made ladders where these were made to step, with the names that the system's report suggests."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.perf.synthetic_machine import CACHES, LATENCIES, RATES, REPORTED, made_curves
from tinytorch.perf.machine.levels import CURVES, Point, find_levels
from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.conditions import Conditions

#: What a machine gives whose second and third cache are alike to a stream, and to a walk.
ALIKE, ALIKE_TO_WALK = (500e9, 100e9, 100e9, 40e9), (1e-9, 13e-9, 13e-9, 150e-9)


@pytest.mark.parametrize("noise", [0.0, 0.1])
@pytest.mark.parametrize("seed", range(5))
def test_each_level_has_its_size_rate_and_latency(noise: float, seed: int) -> None:
    found = find_levels(made_curves(noise, seed), REPORTED)
    assert [level.name for level in found] == ["L1", "L2", "L3", "memory"]
    within = 3 * noise or 1e-9
    for level, size, rate, latency in zip(found, [*CACHES, None], RATES, LATENCIES, strict=True):
        assert level.capacity_measured == level.capacity_by_latency == level.capacity_reported == size
        streams = (level.read.median, level.copy.median, level.triad.median, level.latency.median)
        assert streams == pytest.approx((rate, 0.9 * rate, 1.2 * rate, latency), rel=within)


@pytest.mark.parametrize("seed", range(5))
def test_caches_alike_in_bandwidth_are_told_by_their_latency(seed: int) -> None:
    found = find_levels(made_curves(0.05, seed, rates=ALIKE), REPORTED)
    assert [level.told_by for level in found] == ["bandwidth", "latency", "bandwidth", None]
    second, third = found[1:3]
    assert (second.name, second.capacity_measured, third.capacity_measured) == ("L2", None, CACHES[2])
    assert second.capacity == second.capacity_by_latency == second.capacity_reported == CACHES[1]
    assert (second.latency.median, third.latency.median) == pytest.approx(LATENCIES[1:3], rel=0.1)
    assert second.read.median == pytest.approx(100e9, rel=0.1)


def test_a_cache_that_no_curve_tells_keeps_its_row_and_its_name() -> None:
    curves = made_curves(rates=ALIKE, latencies=ALIKE_TO_WALK)
    found = find_levels(curves, REPORTED)
    assert [(level.name, level.told_by, level.capacity) for level in found] == [
        ("L1", "bandwidth", CACHES[0]),
        ("L2", None, CACHES[1]),
        ("L3", "bandwidth", CACHES[2]),
        ("memory", None, None),
    ]
    second, third = found[1:3]
    assert (second.capacity_measured, second.capacity_by_latency) == (None, None)
    assert (second.read.median, second.latency.median) == pytest.approx((100e9, 13e-9))
    assert second.read.conditions == third.read.conditions == Conditions(threads=1)
    assert [level.name for level in find_levels(curves, {})] == ["L1", "L2", "memory"], "nobody knows of a third"


@pytest.mark.parametrize("seed", range(5))
def test_a_noisy_shared_cache_is_found_where_others_leave_it(seed: int) -> None:
    """An eighth of the reported size, behind it a slope over two octaves, and noise of 15 %."""
    shared = (CACHES[0], CACHES[1], 4 * 2**20, 8 * 2**20, 16 * 2**20, CACHES[2])
    rates, latencies = (500e9, 200e9, 100e9, 75e9, 50e9, 40e9, 40e9), (1e-9, 4e-9, 13e-9, 60e-9, 140e-9, 150e-9, 150e-9)
    found = find_levels(made_curves(0.15, seed, shared, rates, latencies), REPORTED)
    assert [level.name for level in found] == ["L1", "L2", "L3", "memory"]
    assert [level.capacity_measured for level in found[:2]] == list(CACHES[:2])
    assert 4 * 2**20 <= (found[2].capacity_measured or 0) <= 16 * 2**20
    assert found[2].capacity_by_latency in (2**22, round(2**22.5))
    assert found[3].read.median == pytest.approx(40e9, rel=0.4)


def test_no_border_goes_to_a_cache_that_is_too_small_for_it() -> None:
    """The system reports no L3, whose end is far beyond that of L2."""
    first, second, memory = find_levels(made_curves(rates=ALIKE), {1: CACHES[0], 2: CACHES[1]})
    assert (first.told_by, first.capacity) == ("bandwidth", CACHES[0])
    assert (second.told_by, second.capacity, memory.name) == ("latency", CACHES[1], "memory")


def test_a_ladder_that_ends_in_a_cache_does_not_tell_it_from_memory() -> None:
    reported = {1: CACHES[0], 2: CACHES[1], 3: 2**30}
    curves = made_curves(ends=CACHES[:2], rates=RATES[:3], latencies=LATENCIES[:3])
    *_, third, memory = find_levels(curves, reported)
    assert (third.name, third.told_by, third.capacity) == ("L3", None, 2**30)
    assert (third.read.median, memory.read.median) == pytest.approx((RATES[2], RATES[2]))


@given(
    st.lists(st.floats(0.2, 5), min_size=29, max_size=29),
    st.lists(st.floats(0.2, 5), min_size=29, max_size=29),
    st.sets(st.integers(1, 4)),
)
@settings(max_examples=40)
def test_whatever_the_curves_every_reported_cache_has_a_row(
    rates: list[float], walks: list[float], caches: set[int]
) -> None:
    reported = {number: 2 ** (12 + 4 * number) for number in caches}
    sizes = [round(8192 * 2 ** (step / 2)) for step in range(29)]
    curves = {
        curve: tuple(
            Point(size, Measurement("made", (1e11 * rate, 1e11 * rate), "B/s"))
            for size, rate in zip(sizes, made, strict=True)
        )
        for curve, made in zip(CURVES, (rates, rates, rates, walks), strict=True)
    }
    found = find_levels(curves, reported)
    names = [level.name for level in found]
    assert names[-1] == "memory"
    assert all(level.capacity for level in found[:-1])
    if reported:
        assert names[:-1] == [f"L{number}" for number in sorted(caches)]
        assert [level.capacity_reported for level in found[:-1]] == [reported[number] for number in sorted(caches)]
    for told in ("bandwidth", "latency"):
        own = [level.capacity_measured if told == "bandwidth" else level.capacity_by_latency for level in found]
        known = [size for size in own if size is not None]
        assert known == sorted(set(known)), "each cache ends beyond the one inside it"


def test_without_a_report_the_latency_tells_what_the_bandwidth_does_not() -> None:
    found = find_levels(made_curves(rates=ALIKE), {})
    assert [level.name for level in found] == ["L1", "L2", "L3", "memory"]
    assert [level.told_by for level in found] == ["bandwidth", "latency", "bandwidth", None]
    assert [level.capacity for level in found] == [*CACHES, None]


def test_a_shared_cache_may_hold_less_for_a_walk_than_for_a_stream() -> None:
    curves = made_curves()
    curves["latency"] = made_curves(ends=(CACHES[0], CACHES[1], 4 * 2**20))["latency"]
    level = find_levels(curves, REPORTED)[2]
    assert level.capacity_measured == CACHES[2]
    assert level.capacity_by_latency == 4 * 2**20
    assert level.latency.median == pytest.approx(LATENCIES[2]), "where the walk still ran in it"


def test_what_the_inner_cache_still_serves_is_not_the_level() -> None:
    curves = made_curves()
    lifted = [point for point in curves["read"] if 32 * 2**20 < point.working_set < 100 * 2**20]
    curves["read"] = tuple(
        type(point)(point.working_set, point.reached.scaled(1.4 if point in lifted else 1.0))
        for point in curves["read"]
    )
    assert lifted
    assert find_levels(curves, REPORTED)[-1].read.median == pytest.approx(RATES[-1])


def test_curves_of_different_ladders_are_refused() -> None:
    curves = made_curves()
    curves["copy"] = curves["copy"][1:]
    with pytest.raises(ValueError, match="same ladder"):
        find_levels(curves, REPORTED)
