"""What two loops of requests see of the same slow stretch, from a queue that is calculated."""

import numpy as np
import pytest

from tinytorch.chapters.benchmarking import load
from tinytorch.perf.measuring.conditions import Conditions


def served(slow: float, arrives_after: float | None) -> np.ndarray:
    """Return arrival, begin and end of requests to a server that needs 1, and ``slow`` from 6 to 18 of 30."""
    now, done = 0.0, list[tuple[float, float, float]]()
    while (arrived := now if arrives_after is None else len(done) * arrives_after) < 30:
        begun = max(now, arrived)
        now = begun + (slow if 6 <= begun < 18 else 1.0)
        done.append((arrived, begun, now))
    return np.array(done)


@pytest.mark.parametrize("slow", [2.1, 2.5, 3.0])
def test_as_many_are_late_as_the_formulas_say(slow: float) -> None:
    """Late by the formula is who waits at all; who waits for less than an answer is not counted as late."""
    found = load.met([(served(slow, None), served(slow, 1 / 0.6))] * 6, 1.0, Conditions())
    assert found.slow.median == pytest.approx(slow)
    assert found.closed.median == pytest.approx(found.closed_by_formula.value, abs=0.05)
    assert found.opened.median == pytest.approx(found.opened_by_formula.value, abs=0.12)
    assert found.hidden.median == pytest.approx(found.opened.median - found.closed.median)
    assert found.missed.median == pytest.approx(0, abs=0.12)
