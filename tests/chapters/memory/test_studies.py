"""What the page on memory computes, from a synthetic machine and from synthetic times."""

import numpy as np
import pytest

from tests.perf.synthetic_machine import synthetic_ceilings
from tinytorch.chapters.memory import studies as study
from tinytorch.perf.host.memory_pages import Arena
from tinytorch.perf.measuring import Measurement, Unmeasured
from tinytorch.perf.measuring.conditions import Conditions

MACHINE = synthetic_ceilings()


def test_waits_are_those_of_the_ladder() -> None:
    found = study.waits(MACHINE)
    assert found["ratio"].median == pytest.approx(found["far"].median / found["near"].median)
    assert len(found["borders"]) == len(MACHINE.levels) - 1


def test_stride_is_predicted_by_its_lines() -> None:
    """Sixteen numbers of four bytes share a line: up to there a number brings as many bytes as its stride."""
    found = study.every(np.ones((4, 64 + 16), np.int32)[:, :-16], (1, 16, 32), MACHINE)
    read = MACHINE.levels[-1].read.median
    assert [one["predicted"].value * read for one in found.values()] == pytest.approx([4, 64, 64])


def test_cycle_goes_through_each_line_once() -> None:
    cycle, at, seen = study._cycle(64), 0, set()
    for _ in range(64):
        seen.add(at)
        at = int(cycle[at])
    assert (at, len(seen)) == (0, 64)


def test_without_huge_pages_nothing_is_said_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Arena, "huge_bytes", lambda self: None)
    assert isinstance(study.pages(8, matters=0.1), Unmeasured)


@pytest.mark.parametrize(("ratio", "word"), [(3.0, "faster"), (1.0, "no difference"), (0.3, "slower")])
def test_writing_into_what_is_there_is_compared_with_a_new_array(ratio: float, word: str) -> None:
    draw, times = np.random.default_rng(0), {}
    for name, seconds in (("new", 1e-3 * ratio), ("same", 1e-3)):
        samples = seconds * np.exp(0.002 * draw.standard_normal(40))
        conditions = Conditions(page_faults_per_call=7.5, interleaved_with=("new", "same"))
        times[name] = Measurement(name, tuple(samples.tolist()), "s", conditions)
    found = study.fresh(times, 1000, matters=0.1)
    assert found["compared"].verdict == word
    assert (found["faults"].value, found["size"].value) == (7.5, 4000)
