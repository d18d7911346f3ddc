"""What the page on memory computes: from made ceilings, from made times, and on a few small walks."""

from functools import partial
from typing import Any

import numpy as np
import pytest

from tests.perf.synthetic_machine import around, synthetic_ceilings
from tinytorch.chapters.memory import studies as study
from tinytorch.perf.host.memory_pages import Arena
from tinytorch.perf.measuring import Measurement, Unmeasured
from tinytorch.perf.measuring.conditions import Conditions

MACHINE = synthetic_ceilings()


def made(monkeypatch: pytest.MonkeyPatch, **seconds: float) -> list[str]:
    """Have studies find these seconds for what they time, which still runs once; return the names of what ran."""
    ran: list[str] = []

    def taken(functions: dict[str, Any], **_: Any) -> dict[str, Measurement]:
        ran.extend(functions)
        for function in functions.values():
            function()
        times = {name: around(seconds[name.replace(", ", "_").replace(" ", "_")], "s", 0.01) for name in functions}
        names = tuple(functions)
        return {
            name: Measurement(name, one.samples, "s", Conditions(interleaved_with=names, turns="one"))
            for name, one in times.items()
        }

    monkeypatch.setattr(study, "interleave", taken)
    return ran


def test_waits_are_those_of_the_ladder() -> None:
    found = study.waits(MACHINE)
    assert [one.size.value for one in found.curve] == [point.working_set for point in MACHINE.curves["latency"]]
    assert found.ratio.median == pytest.approx(found.far.median / found.near.median)
    assert found.cycles.median == pytest.approx(found.far.median * MACHINE.clock.median)
    assert len(found.borders) == len(MACHINE.levels) - 1


def test_a_stride_is_predicted_by_its_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixteen numbers of four bytes share a line: up to there a number brings as many bytes as its stride."""
    numbers = np.ones((4, 64 + 16), np.int32)[:, :-16]
    made(monkeypatch, **{"1": 8e-9, "16": 6e-9, "32": 3e-9})
    found = study.every(numbers, (1, 16, 32), MACHINE)
    read = MACHINE.levels[-1].read.median
    assert [one.predicted.value * read for one in found.values()] == pytest.approx([4, 64, 64])
    assert [one.found.median for one in found.values()] == pytest.approx([8e-9 / 256, 6e-9 / 16, 3e-9 / 8], rel=0.02)
    assert study.left(found, 16, of=1).median == pytest.approx(0.75, rel=0.02)
    assert study.per_number(found, 16).median == pytest.approx(0.75 * 16, rel=0.02)


def test_arrays_in_turn_are_predicted_by_the_staircase(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight halves of a cache are four of it: the wait is that of the level behind it."""
    second = MACHINE.levels[1]
    lines = (second.capacity or 0) // 2 // 64
    made(monkeypatch, **{"1": 8e-9 * lines, "2": 8e-9 * lines, "4": 16e-9 * lines, "8": 32e-9 * lines})
    found = study.company(MACHINE)
    assert isinstance(found, study.Company)
    assert (found.cache, found.all.value) == (second.name, 8 * found.size.value)
    assert {count: one.found.median for count, one in found.curve.items()} == pytest.approx(
        {1: 1e-9, 2: 1e-9, 4: 2e-9, 8: 4e-9}, rel=0.02
    )
    assert found.found.median == pytest.approx(4, rel=0.02)
    at = {one.working_set: one.reached.median for one in MACHINE.curves["latency"]}
    near, far = (at[min(at, key=lambda size: abs(size - wanted))] for wanted in (found.size.value, found.all.value))
    assert found.predicted.value == pytest.approx(far / near)


def test_walks_of_two_pitches_are_compared_by_their_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    made(monkeypatch, rows_16=1e-9, rows_20=1e-9, columns_16=9e-9, columns_20=3e-9)
    found = study.walks_of(8, 8, [16, 20])
    assert [one.apart.value for one in found.values()] == [64, 80]
    assert found[16].slowdown.median == pytest.approx(9, rel=0.02)
    assert found[20].columns.median == pytest.approx(3e-9 / 64, rel=0.02)
    assert study.slowdown(found, 16, 20).median == pytest.approx(3, rel=0.02)


def test_chains_are_predicted_by_littles_law(monkeypatch: pytest.MonkeyPatch) -> None:
    made(monkeypatch, **{"1": 1e-6, "4": 1.25e-6})
    found = study.together((1, 4), MACHINE, steps=10)
    assert found[1].found.median == pytest.approx(1e-7, rel=0.02)
    assert found[4].predicted.value == pytest.approx(1e-7 / 4, rel=0.02)
    assert study.gain(found, 4).median == study.in_flight(found, 4).median == pytest.approx(3.2, rel=0.02)


def test_a_chase_over_pages_goes_through_each_line_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What ran walked as many steps as there are lines, so each chain is back where it began."""
    chains: dict[str, Any] = {}

    def taken(functions: dict[str, Any], **_: Any) -> dict[str, Measurement]:
        for name, function in functions.items():
            assert isinstance(function, partial)
            following, places, steps = function.args
            at, seen = int(places[0]), set()
            for _step in range(steps):
                seen.add(at)
                at = int(following[at])
            chains[name] = (at == int(places[0]), len(seen), len({one // 512 for one in seen}))
        ones = around(1e-6, "s", 0.01).samples
        return {name: Measurement(name, ones, "s", Conditions(interleaved_with=tuple(functions))) for name in functions}

    monkeypatch.setattr(study, "interleave", taken)
    monkeypatch.setattr(Arena, "huge_bytes", lambda self: 2**21)
    found = study.pages(96, "together", "apart", "huge", matters=0.1)
    assert not isinstance(found, Unmeasured)
    assert chains == {"together": (True, 96, 2), "apart": (True, 96, 96), "huge": (True, 96, 96)}
    assert [one.lie for one in found.chases] == ["together", "apart", "huge"]
    assert found.chases[0].found.median == pytest.approx(1e-6 / 96, rel=0.02)


def test_without_huge_pages_nothing_is_said_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    for none in (0, None):
        monkeypatch.setattr(Arena, "huge_bytes", lambda self, none=none: none)
        assert isinstance(study.pages(8, "a", "b", "c", matters=0.1), Unmeasured)


def test_a_second_core_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "usable_cores", lambda: [0])
    assert isinstance(study.shared_line(0.1), Unmeasured)


def test_a_habit_is_compared_with_what_it_replaces() -> None:
    found = study.habit("do", "instead", sums(3.0) | {})
    assert found.compared.verdict == "slower"


def sums(ratio: float, seed: int = 0) -> dict[str, Measurement]:
    """Return times of a sum into a new array, ``ratio`` times those into the same one, in pairs."""
    draw = np.random.default_rng(seed)
    both = {}
    for name, seconds in (("new", 1e-3 * ratio), ("same", 1e-3)):
        samples = seconds * np.exp(0.002 * draw.standard_normal(40))
        conditions = Conditions(page_faults_per_call=7.5 * ratio, interleaved_with=("new", "same"))
        both[name] = Measurement(name, tuple(samples.tolist()), "s", conditions)
    return both


@pytest.mark.parametrize(("ratio", "word"), [(3.0, "faster"), (1.0, "no difference"), (0.3, "slower")])
def test_writing_into_what_is_there_is_compared_with_a_new_array(ratio: float, word: str) -> None:
    found = study.fresh(sums(ratio), 1000, matters=0.1)
    assert found["compared"].verdict == word
    assert found["compared"].estimate.median == pytest.approx(ratio, rel=0.01)
    assert (found["faults"].value, found["size"].value) == (7.5 * ratio, 4000)
