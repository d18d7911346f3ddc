"""The spread between repeats, on made processes whose spread is known, and places that move what is allocated."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tinytorch.perf.measuring import Measurement, interleave, repeat_workloads, repeats
from tinytorch.perf.measuring.codec import to_json
from tinytorch.perf.measuring.repeats import (
    ELSEWHERE,
    Process,
    Repeats,
    Seen,
    as_repeated,
    as_repeated_elsewhere,
    block_spread,
    found_from,
    in_turns,
    is_due,
    known_repeats,
)
from tinytorch.perf.measuring.sampling import BLOCKS, Places, rounds_in_block

#: Nothing is known from elsewhere.
UNKNOWN = Repeats(0, 0, 0, 0)
WORKLOADS = ("a", "b", "c", "d", "e", "f", "g")


def made(processes: int, common: float, own: float, seed: int = 0) -> list[Process]:
    """Return processes: each draws one part for all workloads, and one for each of them; their blocks are alike."""
    draw = np.random.default_rng(seed)
    found = []
    for when in range(processes):
        moment = draw.normal(0, common)
        logs = {name: draw.normal(0, own, 2) for name in WORKLOADS}
        calls = {f"{name}, {way}": Seen(moment + log[way], 0.0) for name, log in logs.items() for way in (0, 1)}
        found.append(Process(when, calls, {name: Seen(log[0] - log[1], 0.0) for name, log in logs.items()}))
    return found


def test_the_spread_of_processes_is_found_and_a_moment_drops_out_of_ratios() -> None:
    found = found_from(made(400, common=0.03, own=0.01), UNKNOWN)
    assert found.alone == pytest.approx(np.hypot(0.03, 0.01), rel=0.15)
    assert found.in_turns == pytest.approx(np.sqrt(2) * 0.01, rel=0.15)
    assert (found.per_block, found.processes) == (0, 400)


def test_few_processes_say_more_than_they_saw() -> None:
    many, few = ([found_from(made(n, 0.03, 0, seed), UNKNOWN).alone for seed in range(40)] for n in (200, 6))
    assert np.mean(few) > 1.1 * np.mean(many)


def test_a_workload_that_varies_with_its_blocks_tells_how_far_that_reaches() -> None:
    draw = np.random.default_rng(1)
    blocks = {name: 0.01 * at for at, name in enumerate(WORKLOADS)}

    def process(when: int) -> Process:
        seen = {name: Seen(draw.normal(0, 2.0 * spread), spread) for name, spread in blocks.items()}
        return Process(when, seen, seen)

    assert found_from([process(when) for when in range(300)], UNKNOWN).per_block == pytest.approx(2.0, rel=0.1)


def test_one_process_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 2, not 1"):
        found_from(made(1, 0.01, 0.01))


def test_what_is_known_from_elsewhere_counts_until_there_are_many() -> None:
    quiet = [found_from(made(n, 1e-5, 1e-5)).alone for n in (2, 20, 2000)]
    assert quiet[0] > 0.8 * ELSEWHERE.alone
    assert quiet[0] > quiet[1] > quiet[2]
    assert quiet[2] < 0.1 * ELSEWHERE.alone


def test_what_was_found_elsewhere_stands_in_where_nothing_was_found_here() -> None:
    found = as_repeated_elsewhere(Measurement("call", (1.0, 1.0, 1.0, 1.0), "s"))
    assert found.how["between_repeats"] == pytest.approx(ELSEWHERE.alone * 2.776445 / 1.959964), "of so few processes"
    known = Measurement("call", (1.0,), "s", {"between_repeats": 0.5})
    assert as_repeated_elsewhere(known) is known


def test_block_spread_is_what_blocks_differ_by_beyond_their_samples() -> None:
    draw = np.random.default_rng(0)
    alike = [block_spread(np.exp(draw.normal(0, 0.02, 30)).tolist(), 5) for _ in range(300)]
    apart = [
        block_spread(np.exp(np.repeat(draw.normal(0, 0.05, 6), 5) + draw.normal(0, 0.02, 30)).tolist(), 5)
        for _ in range(300)
    ]
    assert np.median(alike) < 0.006
    assert np.sqrt(np.mean(np.square(apart))) == pytest.approx(0.05, rel=0.15)
    assert block_spread([1.0] * 9, 9) == block_spread([1.0, 2.0], 1) == block_spread([0.0, 1.0, 1.0, 1.0], 2) == 0


def test_what_is_known_of_repeats_goes_into_the_conditions(monkeypatch: pytest.MonkeyPatch) -> None:
    times = Measurement("call", (1.0, 1.0, float(np.exp(0.2)), float(np.exp(0.2))), "s", {"threads": 1})
    monkeypatch.setattr(repeats, "known_repeats", lambda: None)
    assert dict(as_repeated(times).how) == {"threads": 1, "block": 4}
    monkeypatch.setattr(repeats, "known_repeats", lambda: Repeats(0.03, 0.01, 2.0, 10))
    how = as_repeated(times, 2).how
    spread = 2.0 * 0.2 / np.sqrt(2)
    assert how["between_repeats"] == pytest.approx(np.hypot(0.03, spread))
    assert in_turns(how, [1.0, 1.0, 1.0, 1.0])["between_repeats"] == pytest.approx(0.01)
    assert "between_repeats" not in in_turns({"block": 4, "between_repeats": 0.1}, [1.0])


def test_of_a_part_it_is_the_odds_that_differ_between_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeats, "known_repeats", lambda: Repeats(0.03, 0.01, 2.0, 10))
    how = {"part_of": "the run's time"}
    found = as_repeated(Measurement("part", (0.5, 0.5, 0.9, 0.9), "%", how), 2).how
    assert found["between_repeats"] == pytest.approx(np.hypot(0.03, 2.0 * np.log(9) / np.sqrt(2)))
    whole = as_repeated(Measurement("all", (1.0, 1.0, 1.0, 1.0), "%", how), 2).how
    assert whole["between_repeats"] == pytest.approx(0.03)


def process_of(seed: int) -> Process:
    return made(2, 0.01, 0.01, seed)[0]


@pytest.mark.parametrize(("known", "seconds", "due"), [(23, 5, True), (24, 5, False), (24, 13, True)])
def test_who_knows_many_processes_looks_more_seldom(
    known: int, seconds: float, due: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repeats, "known_repeats", lambda: replace(ELSEWHERE, processes=known))
    monkeypatch.setattr(repeats, "_last_look", time.monotonic() - seconds)
    assert is_due() is due


def test_processes_are_kept_and_more_of_them_are_taken_the_next_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repeats, "KEPT", tmp_path / "machine")
    monkeypatch.delenv(repeat_workloads.LOOKS)
    monkeypatch.setattr(
        repeat_workloads, "answer_of", lambda module, seed: json.loads(json.dumps(to_json(process_of(seed))))
    )
    monkeypatch.setattr(repeats, "_last_look", None)
    known_repeats.cache_clear()
    try:
        assert known_repeats() is None
        assert not is_due()
        repeat_workloads.look()
        assert len(repeats.kept_processes()) == 2
        found = known_repeats()
        assert found is not None
        assert found.processes == 2
        assert not is_due()
        monkeypatch.setattr(repeats, "EVERY", 0.0)
        assert is_due()
        interleave({"one": lambda: None}, repeats=1)
        assert len(repeats.kept_processes()) == 3
        repeats.kept_path().write_text("{")
        assert repeats.kept_processes() == []
    finally:
        known_repeats.cache_clear()


def test_places_move_what_is_allocated_next() -> None:
    places, seen = Places(np.random.default_rng(0)), set()
    for _ in range(20):
        places.move()
        seen.add(np.empty(50_000, np.uint8).ctypes.data)
    assert len(seen) > 1


def test_functions_are_made_anew_for_each_block() -> None:
    calls: list[int] = []

    def functions() -> dict[str, Callable[[], int]]:
        calls.append(0)
        return {"sum": lambda: sum(range(1000))}

    found = interleave(functions, repeats=12)["sum"]
    assert found.n == 12
    assert len(calls) == BLOCKS
    assert found.how["block"] == rounds_in_block(12) == 2
