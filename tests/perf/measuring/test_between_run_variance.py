"""The spread between repeats, on made processes whose spread is known, and places that move what is allocated."""

import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.chosen_settings import choose_settings
from tinytorch.perf.measuring import Measurement, between_run_variance, interleave
from tinytorch.perf.measuring.between_run_variance import (
    PRIOR,
    BetweenRunVariance,
    Process,
    RunStatistics,
    known_variance,
    spread_sample_is_due,
    variance_from,
    with_between_run_spread,
    with_prior_spread,
)
from tinytorch.perf.measuring.codec import to_json
from tinytorch.perf.measuring.conditions import BetweenRuns, Conditions, of_interleaved
from tinytorch.perf.measuring.sampling import BLOCKS, LayoutRandomizer
from tinytorch.perf.measuring.statistics import block_spread

#: Nothing is known from elsewhere.
UNKNOWN = BetweenRunVariance(0, 0, 0, 0)
WORKLOADS = ("a", "b", "c", "d", "e", "f", "g")


def parts_of(conditions: Conditions) -> tuple[float | None, ...]:
    """Return deviation, interleaved part and part of each block."""
    spread = conditions.between_runs
    return () if spread is None else (spread.deviation, spread.interleaved, spread.per_block)


def made(processes: int, common: float, own: float, seed: int = 0, error: float = 0.0) -> list[Process]:
    """Return processes: each draws one part for all workloads, and one for each of them; their blocks are alike.

    Samples err by ``error`` besides.
    """
    draw, found = np.random.default_rng(seed), []
    for when in range(processes):
        moment = draw.normal(0, common)
        logs = {name: draw.normal(0, np.hypot(own, error), 2) for name in WORKLOADS}
        calls = {f"{name}, {way}": moment + log[way] for name, log in logs.items() for way in (0, 1)}
        ratios = {name: log[0] - log[1] for name, log in logs.items()}
        found.append(Process(when, statistics_of(calls, error), statistics_of(ratios, 2**0.5 * error)))
    return found


def statistics_of(logs: dict[str, float], error: float = 0.0) -> dict[str, RunStatistics]:
    return {name: RunStatistics(log, 0.0, error) for name, log in logs.items()}


@pytest.mark.parametrize(("error", "within"), [(0.0, 0.15), (0.05, 0.7)])
def test_the_spread_of_processes_is_found_without_what_samples_err_by_and_a_moment_drops_out_of_ratios(
    error: float, within: float
) -> None:
    found = variance_from(made(400, common=0.03, own=0.01, error=error), UNKNOWN)
    assert found.alone == pytest.approx(np.hypot(0.03, 0.01), rel=0.2 if error else 0.15)
    assert found.interleaved == pytest.approx(np.sqrt(2) * 0.01, rel=within)
    assert (found.per_block, found.processes) == (0, 400)


def test_workloads_that_do_not_differ_do_not_hide_one_that_does() -> None:
    draw, found = np.random.default_rng(2), []
    for when in range(300):
        seen = statistics_of(dict.fromkeys(WORKLOADS, 0.0) | {WORKLOADS[0]: draw.normal(0, 0.08)})
        found.append(Process(when, seen, seen))
    # One of the four that are steadiest.
    assert variance_from(found, UNKNOWN).interleaved == pytest.approx(0.08 / 2, rel=0.15)


def test_few_processes_say_more_than_they_saw() -> None:
    many, few = ([variance_from(made(n, 0.03, 0, seed), UNKNOWN).alone for seed in range(40)] for n in (200, 6))
    assert np.mean(few) > 1.1 * np.mean(many)
    with pytest.raises(ValueError, match="least"):
        variance_from(made(1, 0.01, 0.01))


def test_a_workload_that_varies_with_its_blocks_tells_how_far_that_reaches() -> None:
    draw, found = np.random.default_rng(1), []
    for when in range(300):
        blocks = {name: 0.01 * at for at, name in enumerate(WORKLOADS)}
        seen = {name: RunStatistics(draw.normal(0, 2.0 * spread), spread, 0.0) for name, spread in blocks.items()}
        found.append(Process(when, seen, seen))
    assert variance_from(found, UNKNOWN).per_block == pytest.approx(2.0, rel=0.1)


def test_what_is_known_from_elsewhere_counts_until_there_are_many() -> None:
    quiet = [variance_from(made(n, 1e-5, 1e-5)).alone for n in (2, 20, 2000)]
    assert quiet[0] > 0.8 * PRIOR.alone
    assert quiet[0] > quiet[1] > quiet[2]
    assert quiet[2] < 0.1 * PRIOR.alone


def test_what_was_found_elsewhere_stands_in_where_nothing_was_found_here() -> None:
    found = with_prior_spread(Measurement("call", (1.0, 1.0, 1.0, 1.0), "s"))
    assert parts_of(found.conditions)[0] == pytest.approx(PRIOR.alone * 2.776445 / 1.959964), "of so few processes"
    known = Measurement("call", (1.0,), "s", Conditions(between_runs=BetweenRuns(0.5)))
    assert with_prior_spread(known) is known


def test_block_spread_is_what_blocks_differ_by_beyond_their_samples() -> None:
    draw = np.random.default_rng(0)
    alike, apart = (
        [
            block_spread(np.exp(np.repeat(draw.normal(0, between, 6), 5) + draw.normal(0, 0.02, 30)).tolist(), 5)
            for _ in range(300)
        ]
        for between in (0.0, 0.05)
    )
    assert np.median(alike) < 0.006
    assert np.sqrt(np.mean(np.square(apart))) == pytest.approx(0.05, rel=0.15)
    assert block_spread([1.0] * 9, 9) == block_spread([1.0, 2.0], 1) == block_spread([0.0, 1.0, 1.0, 1.0], 2) == 0


def test_what_is_known_of_runs_goes_into_the_conditions(monkeypatch: pytest.MonkeyPatch) -> None:
    step = float(np.exp(0.2))
    times = Measurement("call", (1.0, 1.0, step, step), "s", Conditions(threads=1, cpu_per_wall=0.5))
    monkeypatch.setattr(between_run_variance, "known_variance", lambda: None)
    assert with_between_run_spread(times).conditions == replace(times.conditions, block=4)
    monkeypatch.setattr(between_run_variance, "known_variance", lambda: BetweenRunVariance(0.03, 0.01, 2.0, 10))
    found = with_between_run_spread(times, 2).conditions
    assert replace(found, between_runs=None) == replace(times.conditions, block=2)
    assert parts_of(found) == pytest.approx((np.hypot(0.03, 2.0 * 0.2 / np.sqrt(2)), 0.01, 2.0))
    assert parts_of(of_interleaved({"one": found, "other": found}, (), [1.0] * 4)) == pytest.approx((0.01, 0.01, 2.0))
    # Of a part it is the odds that differ between blocks.
    for shares, blocks in (((0.5, 0.5, 0.9, 0.9), 2.0 * np.log(9) / np.sqrt(2)), ((1.0,) * 4, 0.0)):
        part = with_between_run_spread(Measurement("part", shares, "%", Conditions(part_of="the run's time")), 2)
        assert parts_of(part.conditions) == pytest.approx((np.hypot(0.03, blocks), 0.01, 2.0))


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Return the numbers of the processes that are asked for, which make their answers up; they are kept elsewhere."""
    numbers: list[int] = []

    def answered(module: str, number: int) -> Any:
        numbers.append(number)
        return json.loads(json.dumps(to_json(made(2, 0.01, 0.01, number)[0])))

    monkeypatch.setattr(between_run_variance, "kept_path", lambda: tmp_path / "machine" / "kept.json")
    monkeypatch.setattr(between_run_variance, "answer_of", answered)
    monkeypatch.setattr(between_run_variance, "_watches", False)
    choose_settings(monkeypatch, repeats="")
    known_variance.cache_clear()
    yield numbers
    known_variance.cache_clear()


def test_a_process_that_watches_samples_before_it_measures_and_shares_samples_with_others(
    asked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def measure_once() -> list[int]:
        interleave({"one": lambda: None}, repeats=1)
        return asked

    assert measure_once() == [], "this process does not watch"
    between_run_variance.watch_spread()
    assert measure_once() == [0, 1]
    found = known_variance()
    assert found is not None
    assert found.processes == 2
    monkeypatch.setattr(between_run_variance, "EVERY", 1e6)
    assert measure_once() == [0, 1], "the last sample is young, whoever took it"
    monkeypatch.setattr(between_run_variance, "EVERY", -1.0)
    assert measure_once() == [0, 1, 2]
    between_run_variance.kept_path().write_text("{")
    assert between_run_variance.kept_processes() == ()


@pytest.mark.parametrize(
    ("known", "thousands", "due"), [(11, 5, True), (11, 0.5, False), (12, 8, False), (12, 65, True)]
)
def test_many_known_processes_are_sampled_less_often(
    known: int, thousands: float, due: bool, asked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of four thousand seconds, so that a pause of this process decides nothing."""
    monkeypatch.setattr(between_run_variance, "EVERY", 4e3)
    kept = between_run_variance.kept_path()
    kept.parent.mkdir()
    kept.write_text("{}")
    monkeypatch.setattr(between_run_variance, "known_variance", cache(lambda: replace(PRIOR, processes=known)))
    os.utime(kept, (time.time() - 1e3 * thousands,) * 2)
    between_run_variance.watch_spread()
    assert spread_sample_is_due() is due


def test_places_move_what_is_allocated_next() -> None:
    layout, seen = LayoutRandomizer(np.random.default_rng(0)), set()
    for _ in range(20):
        layout.move()
        seen.add(np.empty(50_000, np.uint8).ctypes.data)
    assert len(seen) > 1


def test_functions_are_made_anew_for_each_block() -> None:
    calls: list[int] = []

    def functions() -> dict[str, Callable[[], object]]:
        calls.append(0)
        return {"nothing": lambda: None}

    assert interleave(functions, repeats=12)["nothing"].n == 12
    assert len(calls) == BLOCKS
