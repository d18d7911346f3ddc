"""What calls cost: every op of the framework is measured, and what is not known costs what the cheapest does."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tests.perf.made_ceilings import spread
from tests.perf.small_models import rows, two_layers
from tinytorch.core import ops
from tinytorch.core.dispatch import apply, implementations, observed_by
from tinytorch.core.layers import Linear
from tinytorch.core.losses import MSELoss
from tinytorch.core.op import Array, Implementation, Op, Saved
from tinytorch.core.tensor import Tensor
from tinytorch.perf.events.stream import Recorder, recording
from tinytorch.perf.machine.call_costs import CallCosts, call_costs, least_call_seconds, measured_costs
from tinytorch.perf.quantization import Plan, QuantizedLinear


@pytest.fixture(scope="module")
def costs() -> CallCosts:
    measured_costs.cache_clear()
    return call_costs()


def test_they_are_measured_once_and_not_under_an_observer(costs: CallCosts) -> None:
    assert call_costs() is costs
    measured_costs.cache_clear()
    with observed_by(Recorder()), pytest.raises(RuntimeError, match="without observers"):
        call_costs()


def test_every_op_has_a_cost_in_both_phases(costs: CallCosts) -> None:
    every = {op.name for name in ops.__all__ if isinstance(op := getattr(ops, name), Op)}
    for kind in (costs.op, costs.kernel):
        for phase in ("forward", "backward"):
            assert {name for name, by, ran, _ in kind if ran == phase and by == "numpy"} >= every
        assert all(cost.unit == "s" and cost.minimum > 0 and cost.n >= 6 for cost in kind.values())


def test_calls_add_up_by_op_phase_and_operands() -> None:
    known = {
        ("linear", "numpy", "forward", 3): spread(3e-6, "s", 0.1),
        ("linear", "numpy", "forward", 2): spread(100e-6, "s"),
        ("relu", "numpy", "forward", 1): spread(5e-6, "s"),
        ("linear", "numpy", "backward", 3): spread(7e-6, "s"),
        ("add", "numpy", "forward", 2): spread(1e-6, "s", 0.5),
    }
    with recording() as recorded:
        MSELoss()(two_layers()(rows()), np.zeros((4, 3), np.float32)).backward()
    # Two linears with bias and a ReLU; two backwards of linear; of the loss and ReLU three events are not known.
    expected = (2 * 3 + 5 + 2 * 7 + 3 * 1) * 1e-6
    found = least_call_seconds(recorded.profile.events, known)
    assert found == pytest.approx((expected, expected - (0.6 + 1.5) * 1e-6, expected + (0.6 + 1.5) * 1e-6))


def test_another_implementation_is_not_charged_for_numpys() -> None:
    with recording() as recorded:
        two_layers()(rows())
    (event, *_) = recorded.profile.events
    known = {("linear", "numpy", "forward", 3): spread(3e-6, "s"), ("add", "numpy", "forward", 2): spread(1e-6, "s")}
    assert least_call_seconds([event], known)[0] == pytest.approx(3e-6)
    compiled = dataclasses.replace(event, implementation="compiled")
    assert least_call_seconds([compiled], known)[0] == pytest.approx(1e-6)
    known["linear", "compiled", "forward", 3] = spread(2e-6, "s")
    assert least_call_seconds([compiled], known)[0] == pytest.approx(2e-6)


def test_what_ran_and_is_selected_is_measured_too(costs: CallCosts) -> None:
    def forward(keep: bool, x: Array) -> tuple[Array, Saved]:
        for _ in range(2000):
            x = x + 0
        return ops.relu.reference.forward(keep, x)

    slow = Implementation("slow", forward, ops.relu.reference.backward)
    x = Tensor(np.ones(1, np.float32))
    with implementations({ops.relu: slow}):
        with recording() as recorded:
            apply(ops.relu, x)
        found = call_costs(recorded.profile.events)
    for kind, before in ((found.op, costs.op), (found.kernel, costs.kernel)):
        assert kind["relu", "slow", "forward", 1].minimum > 10 * kind["relu", "numpy", "forward", 1].median
        assert ("relu", "slow", "forward", 1) not in before
    with recording() as recorded:
        QuantizedLinear(Linear(1, 1, seed=0), Plan("weight-only"))(Tensor(np.ones((1, 1), np.float32)))
    found = call_costs(recorded.profile.events)
    assert ("weight_only_linear", "numba", "forward", 5) in found.kernel
    assert ("weight_only_linear", "numpy", "forward", 5) in costs.kernel
