"""Verdicts read off made-up steps whose truth is known."""

from __future__ import annotations

import pytest

from tests.chapters.distributed.made_steps import overlapped
from tinytorch.perf.measuring import Unmeasured
from tinytorch.perf.measuring.comparison import Comparison


@pytest.mark.parametrize("hidden", [-0.5, 0.0, 0.5, 1.0])
def test_the_gain_of_overlap_is_that_of_whole_steps(hidden: float) -> None:
    gain = overlapped(hidden).gain
    assert isinstance(gain, Comparison)
    assert gain.estimate.median == pytest.approx(0.012 / (0.012 - 0.002 * hidden), rel=0.01)


def test_nothing_is_said_of_overlap_where_ranks_share_cores() -> None:
    assert isinstance(overlapped(0.5, shared=True).gain, Unmeasured)
