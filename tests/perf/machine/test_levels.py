"""Levels: found in made ladders where these were made to step, with the names that the system's report suggests."""

import pytest

from tests.perf.synthetic_machine import CACHES, LATENCIES, RATES, REPORTED, made_curves
from tinytorch.perf.machine.levels import find_levels


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_each_level_has_its_size_rate_and_latency(noise: float) -> None:
    for seed in range(5):
        found = find_levels(made_curves(noise, seed), REPORTED)
        assert [level.name for level in found] == ["L1", "L2", "L3", "memory"]
        assert [level.capacity_measured for level in found] == [*CACHES, None]
        assert [level.capacity_by_latency for level in found] == [*CACHES, None]
        assert [level.capacity_reported for level in found] == [*CACHES, None]
        for level, rate, latency in zip(found, RATES, LATENCIES, strict=True):
            assert level.read.median == pytest.approx(rate, rel=3 * noise or 1e-9)
            assert level.copy.median == pytest.approx(0.9 * rate, rel=3 * noise or 1e-9)
            assert level.triad.median == pytest.approx(1.2 * rate, rel=3 * noise or 1e-9)
            assert level.latency.median == pytest.approx(latency, rel=3 * noise or 1e-9)


def test_a_size_that_is_less_than_reported_is_found() -> None:
    found = find_levels(made_curves(ends=(CACHES[0], CACHES[1] // 2, CACHES[2] // 4)), REPORTED)
    for level, size, reported in zip(found, (CACHES[0], CACHES[1] // 2, CACHES[2] // 4), CACHES, strict=False):
        assert level.capacity_measured == size
        assert level.capacity_reported == reported


def test_a_cache_that_does_not_show_is_left_out_and_the_others_keep_their_names() -> None:
    curves = made_curves(ends=CACHES[::2], rates=(500e9, 100e9, 40e9), latencies=(1e-9, 13e-9, 150e-9))
    assert [level.name for level in find_levels(curves, REPORTED)] == ["L1", "L3", "memory"]


def test_without_a_report_levels_are_numbered() -> None:
    found = find_levels(made_curves(), {})
    assert [level.name for level in found] == ["L1", "L2", "L3", "memory"]
    assert [level.capacity_reported for level in found] == [None] * 4


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
