"""Neighbours, and what so many pairs see, by made times."""

import numpy as np
import pytest

from tinytorch.chapters.noise import order
from tinytorch.perf.measuring import Measurement, quotient


def test_neighbours_are_held_up_and_end_with_the_body_also_after_an_error() -> None:
    started = []

    def failing() -> None:
        with order.neighbours() as beside:
            started.extend(beside.processes)
            assert all(one.poll() is None for one in started)
            beside.run(False)
            raise RuntimeError("inside")

    with pytest.raises(RuntimeError, match="inside"):
        failing()
    assert started
    assert all(one.returncode is not None for one in started)


def test_sixteen_times_the_pairs_see_a_quarter_of_the_difference() -> None:
    samples = np.exp(np.random.default_rng(0).normal(0, 0.02, 3200))
    pairs = Measurement("pairs", tuple(samples.tolist()), "")
    few, many = (order.reach(pairs, number) for number in (200, 3200))
    assert quotient(few, many, "gain").median == pytest.approx(4, rel=0.15)
    # 16.5 (σ/d)²
    assert order.pairs_for(pairs, 0.01).value == pytest.approx(16.5 * 4, rel=0.1)
