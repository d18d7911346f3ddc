"""What the page on memory computes, from a synthetic machine and from synthetic times."""

import numpy as np
import pytest

from tests.perf.synthetic_machine import synthetic_ceilings
from tinytorch.chapters.memory import studies as study
from tinytorch.perf.host.memory_pages import Arena
from tinytorch.perf.measuring import Unmeasured

MACHINE = synthetic_ceilings()


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
