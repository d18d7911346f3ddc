"""What calls cost: every op of the framework is measured, and what is not known costs what the cheapest does."""

import dataclasses

import numpy as np
import pytest

from tests.perf.made_ceilings import spread
from tests.perf.small_models import rows, two_layers
from tinytorch.core import ops
from tinytorch.core.dispatch import observed_by
from tinytorch.core.losses import MSELoss
from tinytorch.core.op import Op
from tinytorch.perf.events.stream import Recorder, recording
from tinytorch.perf.machine.call_costs import CallCosts, call_key, least_call_seconds, measured_call_costs


@pytest.fixture(scope="module")
def costs() -> CallCosts:
    return measured_call_costs()


def test_they_are_not_measured_under_an_observer() -> None:
    with observed_by(Recorder()), pytest.raises(RuntimeError, match="without observers"):
        measured_call_costs()


def test_every_op_has_a_cost_in_both_phases_and_those_with_a_kernel_by_it_too(costs: CallCosts) -> None:
    every = {op.name for op in vars(ops).values() if isinstance(op, Op)}
    for kind in (costs.op, costs.kernel):
        for phase in ("forward", "backward"):
            keys = [key.split() for key in kind]
            assert {name for name, by, ran, _ in keys if ran == phase and by == "numpy"} >= every
        assert all(cost.unit == "s" and cost.minimum > 0 and cost.n >= 6 for cost in kind.values())
        for op, operands in (("gelu", 1), ("layer_norm", 3), ("sparse_linear", 5), ("quantized_linear", 7)):
            assert {call_key(op, by, "forward", operands) for by in ("numpy", "numba")} <= kind.keys()


def test_calls_add_up_by_op_phase_and_operands() -> None:
    known = {
        call_key("linear", "numpy", "forward", 3): spread(3e-6, "s", 0.1),
        call_key("linear", "numpy", "forward", 2): spread(100e-6, "s"),
        call_key("relu", "numpy", "forward", 1): spread(5e-6, "s"),
        call_key("linear", "numpy", "backward", 3): spread(7e-6, "s"),
        call_key("add", "numpy", "forward", 2): spread(1e-6, "s", 0.5),
    }
    with recording() as recorded:
        MSELoss()(two_layers()(rows()), np.zeros((4, 3), np.float32)).backward()
    # Two linears with bias and a ReLU; two backwards of linear; of the loss and ReLU three events are not known.
    expected = (2 * 3 + 5 + 2 * 7 + 3 * 1) * 1e-6
    found = least_call_seconds(recorded.profile.events, known)
    assert found.median == pytest.approx(expected)
    assert found.unit == "s"
    # Two of three microseconds and a tenth, three of one and a half of it: each sample of one beside that of the other.
    assert sorted(found.samples) == pytest.approx(np.linspace(expected - 2.1e-6, expected + 2.1e-6, 7).tolist())
    assert found.interval.low < expected - 1e-6 < expected + 1e-6 < found.interval.high


def test_another_implementation_is_not_charged_for_numpys() -> None:
    with recording() as recorded:
        two_layers()(rows())
    (event, *_) = recorded.profile.events
    keys = (("linear", "numpy", 3, 3e-6), ("add", "numpy", 2, 1e-6), ("linear", "compiled", 3, 2e-6))
    known = {call_key(op, by, "forward", operands): spread(cost, "s") for op, by, operands, cost in keys}
    compiled = dataclasses.replace(event, implementation="compiled")
    assert least_call_seconds([event], known).median == pytest.approx(3e-6)
    assert least_call_seconds([compiled], known).median == pytest.approx(2e-6)
    del known[call_key("linear", "compiled", "forward", 3)]
    assert least_call_seconds([compiled], known).median == pytest.approx(1e-6)
