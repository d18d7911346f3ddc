"""Levels, found in made ladders, and the probes: teams, memory, page faults, and how runs become rates."""

import mmap
import os
import threading
import time
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.chosen_settings import choose_settings
from tests.perf.made_ceilings import CACHES, LATENCIES, RATES, REPORTED, made_curves
from tinytorch.perf.host import pinned_threads as team_module
from tinytorch.perf.host.memory_pages import HUGE_PAGE, Arena, huge_page_policy, minor_page_faults
from tinytorch.perf.host.pinned_threads import Team, may_pin, pinned_to, usable_cores
from tinytorch.perf.machine import bandwidth_sweep
from tinytorch.perf.machine.bandwidth_sweep import (
    LARGEST,
    ladder_end,
    make_arenas,
    shows_memory,
    stream_arrays,
    stream_probes,
    working_sets,
)
from tinytorch.perf.machine.levels import CURVES, STREAMS, Point, find_levels
from tinytorch.perf.machine.peaks import page_fault
from tinytorch.perf.machine.probing import FEWEST_REPEATS, Probe, calibrated_rounds, interleaved_rates, team_conditions
from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.conditions import Conditions, PageProbe
from tinytorch.perf.measuring.measurement import same_rounds

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


MIB = 2**20


def test_each_thread_has_a_core_of_its_own_and_the_caller_keeps_its() -> None:
    before = usable_cores()
    seen: list[tuple[str, int]] = []

    def look() -> None:
        seen.extend((threading.current_thread().name, core) for core in usable_cores())

    with Team(len(before)) as team:
        for _ in range(2):
            team.run([look] * team.threads)
    assert len({name for name, _ in seen}) == len(before)
    assert team.pinned == may_pin()
    if team.pinned:
        assert sorted(core for _, core in seen) == sorted(2 * before)
    assert usable_cores() == before


@pytest.mark.parametrize("machine", ["no affinity call", "quota"])
def test_where_nothing_may_be_pinned_threads_run_unpinned_and_their_conditions_say_so(
    monkeypatch: pytest.MonkeyPatch, machine: str
) -> None:
    monkeypatch.setattr(team_module, "allowed_cores", lambda: [3, 5, 6, 9])
    if machine == "quota":
        monkeypatch.setattr(team_module, "cpu_quota", lambda: 2.0)
        monkeypatch.setattr(os, "sched_setaffinity", None, raising=False)
    else:
        monkeypatch.delattr(os, "sched_setaffinity", raising=False)
    with Team(2) as team:
        assert team.run([lambda: None] * 2) >= 0
        assert not team.pinned
        assert team_conditions(team, 1, None).cores is None
        with pinned_to([3]):
            pass
    choose_settings(monkeypatch, cores="1")
    assert usable_cores() == [3]


@pytest.mark.parametrize("cores", ["0", "-1", "two", "1.5"])
def test_a_setting_that_is_no_number_of_cores_is_refused_by_its_name(
    cores: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose_settings(monkeypatch, cores=cores)
    with pytest.raises(ValueError, match=f"TINYTORCH_CORES must be a whole number above 0, such as 2, not '{cores}'"):
        usable_cores()


def test_the_time_runs_from_the_first_start_to_the_last_end_and_an_error_arrives() -> None:
    with Team(1) as team:
        assert team.run([lambda: time.sleep(0.02)]) >= 0.02
        with pytest.raises(ValueError, match="tasks"):
            team.run([lambda: None] * 2)
        with pytest.raises(ZeroDivisionError):
            team.run([lambda: 1 // 0])


@pytest.mark.parametrize("threads", [0, -1, 10_000])
def test_a_team_is_as_large_as_there_are_cores(threads: int) -> None:
    with pytest.raises(ValueError, match=f"threads must be 1 to .* not {threads}"):
        Team(threads)


def test_memory_begins_at_a_huge_page_and_holds_zeros() -> None:
    arena = Arena(3 * 2**20 + 5)
    assert (arena.memory.ctypes.data % HUGE_PAGE, arena.memory.size) == (0, 3 * 2**20 + 5)
    assert not arena.memory.any()
    view = arena.view(64, 10, np.float32)
    view[:] = 1
    assert np.flatnonzero(arena.memory)[0] >= 64
    assert view.ctypes.data == arena.memory.ctypes.data + 64
    assert 0 <= (arena.huge_bytes() or 0) <= arena.memory.size + HUGE_PAGE
    assert not Arena(4 * HUGE_PAGE, huge=False).huge_bytes()
    assert huge_page_policy() in (None, "always", "madvise", "never")


@pytest.mark.parametrize(("size", "start", "count"), [(8, -1, 1), (8, 0, 3), (8, 8, 1), (0, 0, 0)])
def test_an_arena_has_a_size_and_a_view_stays_inside(size: int, start: int, count: int) -> None:
    with pytest.raises(ValueError, match=r"must lie in bytes|size"):
        Arena(size).view(start, count, np.float32)


def test_each_fresh_page_costs_a_minor_fault() -> None:
    pages, faults = 300, [minor_page_faults()]
    with mmap.mmap(-1, pages * mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as fresh:
        fresh.madvise(getattr(mmap, "MADV_NOHUGEPAGE", mmap.MADV_NORMAL))
        for value in (1, 2):
            for page in range(pages):
                fresh[page * mmap.PAGESIZE] = value
            faults.append(minor_page_faults())
    once, again = np.diff(faults)
    assert once >= pages
    assert again < pages // 2, "a page is given once"


@pytest.mark.parametrize("page_bytes", [mmap.PAGESIZE, 16 * 2**10, 64 * 2**10])
def test_the_price_of_a_fault_is_of_faults_that_the_system_counted_on_pages_of_its_size(
    page_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Larger pages are made up, so that one touch of each leaves the rest of it, real pages, untouched."""
    monkeypatch.setattr(mmap, "PAGESIZE", page_bytes)
    with Team(1) as team:
        measured = page_fault(team, repeats=3)
    pages = measured.conditions.instrument
    assert isinstance(pages, PageProbe)
    assert (measured.n, pages.page_bytes) == (3, page_bytes)
    # A step of 4 KiB would touch so many real ones.
    assert 1 <= pages.faults_per_page < 1.5


class Clock:
    """A probe whose rounds take a known time."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def run(self, rounds: int) -> float:
        return self.seconds * rounds


@pytest.mark.parametrize(("seconds", "sample"), [(1e-8, 1e-3), (1e-6, 1e-3), (1e-4, 1e-3), (1.0, 1.0)])
def test_rounds_fill_the_time_of_a_sample_and_a_longer_one_runs_once(seconds: float, sample: float) -> None:
    assert calibrated_rounds(Clock(seconds).run, 1e-3) * seconds == pytest.approx(sample, rel=0.05)


def test_a_rate_is_the_amount_of_a_round_over_its_time() -> None:
    told: list[float] = []
    fast, slow = Clock(1e-6), Clock(1e-5)
    with Team(1) as team:
        rates = interleaved_rates(
            team,
            {"fast": Probe("fast", fast.run, 100, "B/s", note="test"), "slow": Probe("slow", slow.run, 7, "OP/s")},
            told.append,
            repeats=5,
        )
    assert rates["fast"].samples == pytest.approx([1e8] * 5)
    assert rates["slow"].samples == pytest.approx([7e5] * 5)
    assert (rates["fast"].unit, rates["fast"].conditions.note, rates["fast"].conditions.threads) == ("B/s", "test", 1)
    assert told == [0.2, 0.4, 0.6, 0.8, 1.0]


def test_a_probe_whose_sample_takes_long_has_fewer_spread_over_all_rounds() -> None:
    order: dict[str, list[int]] = {"a": [], "b": []}
    done: list[float] = []

    def probe(name: str, seconds: float) -> Probe:
        def run(rounds: int) -> float:
            order[name].append(len(done))
            return seconds * rounds

        return Probe(name, run, 1, "B/s")

    with Team(1) as team:
        rates = interleaved_rates(team, {"a": probe("a", 1e-5), "b": probe("b", 0.1)}, done.append, repeats=30)
    assert (rates["a"].n, rates["b"].n) == (30, FEWEST_REPEATS)
    assert rates["b"].samples == pytest.approx([10.0] * FEWEST_REPEATS)
    # Each sample is one run, and one goes before it.
    rounds = {name: order[name][-2 * one.n :: 2] for name, one in rates.items()}
    assert rounds == {"a": list(range(30)), "b": list(range(0, 30, 2))}
    of_a, of_b = same_rounds(rounds["a"], rounds["b"])
    assert np.array_equal(of_a, of_b)


@pytest.mark.parametrize(
    ("rates", "shown"),
    [
        ({64: 30.0, 128: 15.0, 256: 14.0}, True),  # 64 is a quarter of the largest, and no longer near it
        ({64: 30.0, 96: 22.0, 128: 15.0, 256: 14.0}, False),
        ({256: 30.0, 362: 29.0}, False),  # as fast as before: the end of no cache was seen
        ({256: 30.0, 362: 22.0}, False),
    ],
)
def test_memory_is_shown_once_no_cache_helps_sets_of_a_quarter(rates: dict[int, float], shown: bool) -> None:
    assert shows_memory(rates) is shown


@pytest.mark.parametrize(
    ("cache", "reported", "end"),
    [
        (24, 32, 128),  # nothing beyond the usual ladder: no look at all
        (60, 260, 260),  # most of the reported cache is not ours
        (260, 260, 1040),
        (260, 64, 256),  # four times what is reported is the last
    ],
)
def test_a_ladder_ends_where_memory_is_seen(
    monkeypatch: pytest.MonkeyPatch, cache: int, reported: int, end: int
) -> None:
    looked: list[int] = []

    def probe(_team: object, _arenas: object, _curve: object, share: int, _lanes: int) -> Probe:
        looked.append(share)
        return Probe("read", lambda _: share * (1.0 if share <= cache * MIB else 2.0), share, "B/s")

    monkeypatch.setattr(bandwidth_sweep, "_stream_probe", probe)
    monkeypatch.setattr(bandwidth_sweep, "make_arenas", lambda *_: [])
    largest = max(LARGEST, 4 * reported * MIB)
    with Team(1) as team:
        found = ladder_end(team, 8, [*working_sets(1, largest, [reported * MIB]), largest], reported * MIB)
    assert found == pytest.approx(end * MIB, rel=0.01)
    assert bool(looked) is (largest > LARGEST)


def test_working_sets_are_two_an_octave_and_those_asked_for() -> None:
    sizes = working_sets(1)
    assert (sizes[0], sizes[-1], len(sizes)) == (8 * 2**10, 128 * 2**20, 29)
    assert np.diff(np.log2(sizes)) == pytest.approx(0.5, abs=1e-3)
    assert set(working_sets(1, also=[48 * 2**10, 2**40])) ^ set(sizes) == {48 * 2**10, round(2**5.5 * 2**10)}
    assert set(working_sets(1, also=[52 * 2**10])) ^ set(sizes) == {52 * 2**10}
    assert working_sets(1, also=[32 * 2**10]) == sizes
    assert working_sets(3)[0] == 3 * 8 * 2**10
    with pytest.raises(ValueError, match="largest"):
        working_sets(2, largest=10_000)


@pytest.mark.parametrize(("curve", "arrays"), [("read", 1), ("copy", 2), ("triad", 3)])
@pytest.mark.parametrize("share", [8 * 2**10, 100_000, 2**19])
def test_streams_lie_apart_and_fill_their_working_set(curve: Any, arrays: int, share: int) -> None:
    made = stream_arrays(Arena(2**20), curve, share)
    assert len(made) == arrays
    assert share - arrays * 512 < sum(array.nbytes for array in made) <= share
    assert all(one.ctypes.data + one.nbytes <= after.ctypes.data for one, after in pairwise(made))
    assert all(array.ctypes.data % 64 == 0 for array in made)


def test_bytes_of_a_stream_are_those_of_all_arrays_of_all_threads() -> None:
    threads = len(usable_cores())
    with Team(threads) as team:
        sizes = [2**16 * threads]
        arenas = make_arenas(team, sizes)
        probes = stream_probes(team, arenas, 4, sizes)
        for stream, arrays in zip(STREAMS, (1, 2, 3), strict=True):
            probe = probes[stream, sizes[0]]
            assert probe.amount == threads * arrays * 4 * stream_arrays(arenas[0], stream, 2**16)[0].size
            assert probe.run(2) > 0
        target, left, right = stream_arrays(arenas[0], "triad", 2**16)
        assert np.array_equal(target, left + np.float32(0.5) * right)
