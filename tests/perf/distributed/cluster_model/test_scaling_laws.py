"""Amdahl's and Gustafson's laws: closed forms, published examples, and the shares of steps that follow them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.chapters.distributed.made_steps import made_scaling
from tinytorch.perf.distributed.cluster_model.scaling_laws import Way, fit_law, gustafson
from tinytorch.perf.measuring import Unmeasured, ratio
from tinytorch.perf.profiling.breakdown import amdahl


@given(st.floats(0, 1), st.integers(2, 100_000))
def test_both_are_one_law_of_a_share_that_counts_from_one_rank_or_from_all(serial: float, ranks: int) -> None:
    scaled = gustafson(serial, ranks)
    of_one_rank = serial / scaled  # of the time that one rank would take for the grown work
    assert amdahl(1 - of_one_rank, ranks) == pytest.approx(scaled)


def test_published_examples() -> None:
    # J. L. Gustafson, 1988: 1,024 processors, shares of 0.4 to 0.8 % serial, scaled speedups of 1,020 down to 1,016.
    assert gustafson(0.004, 1024) == pytest.approx(1020, abs=0.5)
    assert gustafson(0.008, 1024) == pytest.approx(1016, abs=0.5)


@given(st.floats(0.0, 0.9), st.sets(st.integers(2, 64), min_size=1, max_size=5))
def test_laws_find_the_serial_share_of_steps_that_follow_them(serial: float, counts: set[int]) -> None:
    strong = {1: 1.0, **{count: serial + (1 - serial) / count for count in counts}}
    weak = {1: 1.0, **{count: count / (serial + (1 - serial) * count) for count in counts}}
    cases: list[tuple[Way, dict[int, float], str]] = [("strong", strong, "Amdahl"), ("weak", weak, "Gustafson")]
    for way, seconds, law in cases:
        found = made_scaling(way, seconds, noise=0.0).law
        assert found.law == law
        assert found.share.median == pytest.approx(serial, abs=1e-9)
        one = max(counts)
        if found.share.median >= 0:
            assert found.speedup(one).value == pytest.approx((one if way == "weak" else 1) / seconds[one])


def test_what_no_serial_share_explains_has_none() -> None:
    faster = made_scaling("strong", {1: 1.0, 2: 0.4}).law
    assert faster.share.median < 0
    assert isinstance(faster.serial, Unmeasured)
    slower = made_scaling("weak", {1: 1.0, 2: 1.2}).law
    assert slower.serial == slower.share


@pytest.mark.parametrize(("way", "two"), [("strong", 0.6), ("weak", 1.25)])
def test_the_share_of_one_number_of_ranks_is_as_uncertain_as_its_ratio_of_times(way: Way, two: float) -> None:
    """Of two ranks Amdahl's share is 2 T(2) / T(1) - 1, Gustafson's 2 - 2 T(1) / T(2)."""
    times = made_scaling(way, {1: 1.0, 2: two}, noise=0.05, busy={2: 0.7}).times
    law = fit_law(way, times)
    if way == "strong":
        found = ratio(times[2], times[1]).interval
        ends = [2 * found.low - 1, 2 * found.high - 1]
    else:
        found = ratio(times[1], times[2]).interval
        ends = [2 - 2 * found.high, 2 - 2 * found.low]
    assert [law.share.interval.low, law.share.interval.high] == pytest.approx(ends)
    assert law.share.conditions.cpu_per_wall == 0.7
