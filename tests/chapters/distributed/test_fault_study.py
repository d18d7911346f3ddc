"""What the page tells of a lost rank: the difference of weights. Restarts: see test_run."""

import numpy as np
import pytest

from tinytorch.chapters.distributed import fault_study
from tinytorch.chapters.distributed.fault_study import Trained


def trained(**weights: list[float]) -> Trained:
    return Trained({name: np.array(values) for name, values in weights.items()})


def test_the_difference_is_that_of_the_weight_that_is_farthest_off_in_the_scale_of_the_largest() -> None:
    one, other = trained(a=[1.0, -8.0], b=[0.5]), trained(a=[1.0, -8.0], b=[0.1])
    assert one.difference(other).value == pytest.approx(0.4 / 8)
    assert one.difference(one).value == 0


def test_a_rank_stops_between_two_checkpoints_and_before_the_end() -> None:
    fatal = fault_study.FATAL_STEP.value
    assert fault_study.EVERY < fatal < fault_study.STEPS
    assert fatal % fault_study.EVERY != 0, "or nothing would be lost"
