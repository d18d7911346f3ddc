"""What two loops of requests see of the same slow stretch, by a made clock."""

import pytest

from tinytorch import models
from tinytorch.chapters.benchmarking import load
from tinytorch.perf.measuring.conditions import Conditions


class Clock:
    """A clock that moves a little whenever it is read, and an answer that takes ``seconds`` of it for each token."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.seconds = 0.0, 0.001
        monkeypatch.setattr("tinytorch.chapters.benchmarking.load.time.perf_counter", self.read)

    def read(self) -> float:
        self.now += 1e-6
        return self.now

    def answer(self) -> list[float]:
        moments = []
        for _ in range(10):
            self.now += self.seconds
            moments.append(self.read())
        return moments


def loops(monkeypatch: pytest.MonkeyPatch, slow: float) -> dict[str, load.Loop]:
    clock, found = Clock(monkeypatch), {}

    def beside(part: float) -> None:
        clock.seconds = 0.001 * (slow if 0.2 <= part < 0.6 else 1)

    for name, arrival in (("closed", load.after_the_last()), ("open", load.each(0.01 / 0.6))):
        series = load.requests(clock.answer, 4.0, arrival, beside)
        clock.seconds = 0.001
        found[name] = [series] * 6
    shares = {"closed": load._late_in_a_closed_loop(slow), "open": load._late_in_an_open_loop(slow)}
    return load._loops(found, 0.01, shares, Conditions())


@pytest.mark.parametrize("slow", [2.1, 2.5, 3.0])
def test_as_many_are_late_as_the_formulas_say(monkeypatch: pytest.MonkeyPatch, slow: float) -> None:
    """Late by the formula is who waits at all; who waits for less than an answer is not counted as late."""
    found = loops(monkeypatch, slow)
    assert found["closed"].late.median == pytest.approx(found["closed"].predicted.value, abs=0.02)
    assert found["open"].late.median == pytest.approx(found["open"].predicted.value, abs=0.04)
    between = found["open"].predicted.value - found["closed"].predicted.value
    hidden = load.hidden(found, "closed", "open")
    assert hidden.median == pytest.approx(between, abs=0.05)
    assert hidden.unit == "points"


def test_a_loop_in_which_nothing_is_late_hides_all() -> None:
    shares = {"closed": 0.0, "open": 0.5}
    soon, late = [0.0, 1.0, 2.0], [0.0, 11.0, 12.0]
    of_each = {"closed": [[soon, soon]] * 6, "open": [[soon, late]] * 6}
    found = load._loops(of_each, 2.0, shares, Conditions())
    assert load.hidden(found, "closed", "open").median == pytest.approx(0.5)


def test_the_queue_stands_before_the_first_token(monkeypatch: pytest.MonkeyPatch) -> None:
    found = loops(monkeypatch, 3.0)
    assert found["open"].first.median > 50 * found["closed"].first.median
    assert found["open"].between.median < 3.1 * found["closed"].between.median


def test_a_gpt_is_asked_in_both_loops_while_neighbours_are_held_up_and_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "_SERIES", 1)
    monkeypatch.setattr(load, "_ANSWERS", 5)
    monkeypatch.setattr(load, "usable_cores", lambda: [0])
    found = load.under_load(models.gpt().eval(), "closed", "open")
    assert found["open"].first.n == 1
    assert found["closed"].predicted.value == pytest.approx(0.4 / 3 / (0.4 / 3 + 0.6))
    assert found["open"].late.conditions.cpu_per_wall is None
