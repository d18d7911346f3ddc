"""What the page tells of a lost rank: difference of weights, and what is refused. Restarts: see test_checkpoint."""

from __future__ import annotations

import numpy as np
import pytest

from tinytorch.chapters.distributed import fault_study
from tinytorch.chapters.distributed.fault_study import Trained


def trained(**weights: list[float]) -> Trained:
    return Trained(np.zeros(1), {name: np.array(values) for name, values in weights.items()}, ranks=1)


def test_the_difference_is_that_of_the_weight_that_is_farthest_off_in_the_scale_of_the_largest() -> None:
    one, other = trained(a=[1.0, -8.0], b=[0.5]), trained(a=[1.0, -8.0], b=[0.1])
    assert one.difference(other) == pytest.approx(0.4 / 8)
    assert one.difference(one) == 0


def test_a_rank_stops_between_two_checkpoints_and_before_the_end() -> None:
    assert fault_study.EVERY < fault_study.FATAL_STEP < fault_study.STEPS
    assert fault_study.FATAL_STEP % fault_study.EVERY != 0, "or nothing would be lost"
