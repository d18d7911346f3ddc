"""A call timed alone, a program beside a neighbour, and what so many pairs see, by a made clock and made times."""

import subprocess
from contextlib import contextmanager

import numpy as np
import pytest

from tinytorch.chapters.noise import order
from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.conditions import Conditions, new_turns


class Clock:
    """A clock in nanoseconds that takes time to read, and of which a call takes ``call``."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, reading: int, call: int) -> None:
        self.now, self.reading, self.call = 0, reading, call
        self.draw = np.random.default_rng(0)
        monkeypatch.setattr("tinytorch.chapters.noise.order.time.perf_counter_ns", self.read)

    def read(self) -> int:
        self.now += self.reading + int(self.draw.integers(-2, 3))
        return self.now

    def __call__(self) -> None:
        self.now += self.call + int(self.draw.integers(-2, 3))


def test_a_call_alone_takes_the_readings_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    found = order.one_call(Clock(monkeypatch, reading=3000, call=2000))
    assert found.nothing.median == pytest.approx(3e-6, rel=0.01)
    assert found.in_a_row.median == pytest.approx(2e-6 + 3e-6 / 500, rel=0.01)
    assert found.alone.median == pytest.approx(found.predicted.value, rel=0.01)
    assert found.ratio.median == pytest.approx(2.5, rel=0.02)
    assert found.over_predicted.median == pytest.approx(1, rel=0.01)


def test_a_neighbour_deceives_one_after_the_other_and_not_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch, reading=10, call=5_000_000)
    came: list[int] = []

    @contextmanager
    def beside(count: int):  # type: ignore[no-untyped-def]
        came.append(count)
        clock.call = 15_000_000
        yield
        clock.call = 5_000_000

    monkeypatch.setattr(order, "neighbours", beside)
    monkeypatch.setattr(order, "usable_cores", lambda: [0])
    found = order.beside_a_neighbour(clock)
    assert came == [2] * 6
    assert found.predicted.value == pytest.approx(1 / 3)
    assert found.sequence.median == pytest.approx(1 / 3, rel=0.01)
    assert (found.turns.verdict, found.turns.n) == ("no difference", 120)
    assert [one["number"] for one in found.timeline] == [*range(1, 41)]
    quiet, busy = (found.timeline[at]["seconds"].median for at in (19, 20))
    assert busy == pytest.approx(3 * quiet, rel=0.01)
    assert found.turns.estimate.conditions.cpu_per_wall is None


def test_neighbours_end_with_the_body_also_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[subprocess.Popen[bytes]] = []

    class Kept(subprocess.Popen[bytes]):
        def __init__(self, command: list[str]) -> None:
            super().__init__(command)
            made.append(self)

    monkeypatch.setattr(subprocess, "Popen", Kept)

    def failing() -> None:
        with order.neighbours(2):
            assert [process.poll() for process in made] == [None, None]
            raise RuntimeError("inside")

    with pytest.raises(RuntimeError, match="inside"):
        failing()
    assert len(made) == 2
    assert all(process.returncode is not None for process in made)


def pairs(scatter: float, count: int = 3200) -> dict[str, Measurement]:
    draw, turns = np.random.default_rng(0), new_turns()
    made = {}
    for name, other in (("once", "again"), ("again", "once")):
        samples = np.exp(draw.normal(0, scatter / 2**0.5, count))
        conditions = Conditions(interleaved_with=(other,), turns=turns)
        made[name] = Measurement(name, tuple(samples.tolist()), "s", conditions)
    return made


def test_sixteen_times_the_pairs_see_a_quarter_of_the_difference() -> None:
    times = pairs(0.02)
    seen = order.seen_by(times, (200, 800, 3200))
    assert [seen[number].found.n for number in seen] == [60, 60, 60]
    assert seen[3200].predicted.value == pytest.approx(seen[200].found.median / 4)
    assert order.gain(seen, 200, 3200).median == pytest.approx(4, rel=0.15)
    assert order.gain_by_ranks(times, 200, 3200).value == pytest.approx(4, rel=0.15)
    assert order.gain_by_root(200, 3200).value == 4
    # 16.5 (σ/d)²
    assert order.pairs_for(times, 0.01).value == pytest.approx(16.5 * 4, rel=0.1)
