"""What the page on memory computes, from a synthetic machine and from synthetic times."""

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
import pytest

from tests.perf.made_ceilings import synthetic_ceilings
from tinytorch.chapters.memory import studies as study
from tinytorch.perf.host.memory_pages import Arena
from tinytorch.perf.kernels import probes
from tinytorch.perf.kernels.probes import LINE_ELEMENTS
from tinytorch.perf.measuring import Measurement, Unmeasured

MACHINE = synthetic_ceilings()


def test_stride_is_predicted_by_its_lines() -> None:
    """Sixteen elements of four bytes share a line: up to there an element brings as many bytes as its stride."""
    found = study.every(np.ones((4, 64 + 16), np.int32)[:, :-16], (1, 16, 32), MACHINE)
    read = MACHINE.levels[-1].read.median
    assert [one["predicted"].value * read for one in found.values()] == pytest.approx([4, 64, 64])


def lines_on_the_way(cycle: study.Cycle, start: int) -> list[int]:
    """Return the line of each index that the chain from ``start`` passes until it is back."""
    places = [start]
    while len(places) == 1 or places[-1] != start:
        places.append(int(cycle[places[-1]]))
    return [place // LINE_ELEMENTS for place in places[:-1]]


def test_random_cycle_goes_through_each_line_once() -> None:
    assert sorted(lines_on_the_way(study.random_cycle(64), 0)) == list(range(64))


def test_each_order_goes_through_each_line_once_at_its_distance() -> None:
    cycle = study.random_cycle(64)
    study.in_order(cycle, (1, 5), MACHINE, steps=64)
    assert sorted(lines_on_the_way(cycle, 0)) == list(range(64))
    assert lines_on_the_way(cycle, 1) == list(range(64))
    assert lines_on_the_way(cycle, 2) == [5 * step % 64 for step in range(64)]


def test_elements_at_a_distance_are_that_many_lines_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[npt.NDArray[np.int32]] = []

    def run(passes: Mapping[str, Callable[[], object]]) -> dict[str, Measurement]:
        for one in passes.values():
            one()
        return dict.fromkeys(passes, MACHINE.levels[0].latency)

    monkeypatch.setattr(study, "_in_turns", run)
    monkeypatch.setattr(probes, "add_up", read.append)
    study.at_distances((2, 3), count=10)
    assert [(view.shape, view.strides[1]) for view in read] == [((1, 10), 2 * 64), ((1, 10), 3 * 64)]


def test_sizes_of_the_second_cache_are_those_of_the_machine() -> None:
    found = study.latencies(MACHINE)
    second = MACHINE.levels[1]
    assert (found["reported"].value, found["kept"].value) == (second.capacity_reported, second.capacity)


def test_without_huge_pages_nothing_is_said_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Arena, "huge_bytes", lambda self: None)
    assert isinstance(study.pages([512], matters=0.1), Unmeasured)
