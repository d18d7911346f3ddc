"""The seam: what observers are told, module paths, other implementations, and state after errors."""

import time
from typing import Any

import numpy as np
import pytest

from tests.core.cases import normal
from tests.core.gradients import gradient_of
from tests.core.recording import Recorder
from tinytorch.core import dispatch, ops
from tinytorch.core.dispatch import Observer, apply, implementations, is_observed, observed_by, unobserved
from tinytorch.core.layers import Linear
from tinytorch.core.module import Module, Parameter, Sequential
from tinytorch.core.op import Implementation, Op, Spec, UncountedError
from tinytorch.core.tensor import Tensor


class Branches(Module):
    """Modules in an attribute, a list, a dict, one of them twice, and one made on the way."""

    def __init__(self) -> None:
        self.first = Linear(2, 2, seed=0)
        self.many = [Sequential(Linear(2, 2, seed=1)), self.first]
        self.named = {"last": Linear(2, 2, seed=2)}
        self.scale = Parameter(np.ones(2, np.float32))

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        for module in self.many:
            x = module(x)
        x = Double()(x)
        last: Tensor = self.named["last"](x)
        return last * self.scale


class Outer(Module):
    def __init__(self, inner: Module) -> None:
        self.inner = inner

    def forward(self, x: Tensor) -> Any:
        return self.inner(x)


class Double(Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2


def test_observers_see_both_phases_with_the_path_of_the_module() -> None:
    model, recorder = Branches(), Recorder()
    with observed_by(recorder):
        made = model(Tensor(np.ones((3, 2), np.float32)))
        made = made.sum()
        made.backward()
    forward = [
        ("linear", "forward", "first"),
        ("linear", "forward", "many.0.0"),
        ("linear", "forward", "first"),
        ("multiply", "forward", "Double"),
        ("linear", "forward", "named.last"),
        ("multiply", "forward", ""),
        ("sum", "forward", ""),
    ]
    backward = [(name, "backward", path) for name, _, path in reversed(forward)]
    assert recorder.seen() == forward + backward
    assert recorder.started == len(recorder.calls)
    walked = " ".join({"enter": "+", "leave": "-"}[kind] + path for kind, path in recorder.modules)
    nested = "+many.0 +many.0.0 -many.0.0 -many.0"
    assert walked == f"+ +first -first {nested} +first -first +Double -Double +named.last -named.last -"


def test_a_module_that_the_outer_one_does_not_hold_is_named_below_its_caller() -> None:
    class Inner(Module):
        def forward(self, x: Tensor) -> Any:
            return Double()(x)

    recorder = Recorder()
    with observed_by(recorder):
        Outer(Inner())(Tensor([1.0]))
        Double()(Tensor([1.0]))
    assert recorder.seen() == [("multiply", "forward", "inner.Double"), ("multiply", "forward", "")]


def test_an_event_says_what_ran() -> None:
    x, w = Tensor(normal(5, 3), requires_grad=True), Tensor(normal(3, 4), requires_grad=True)
    recorder = Recorder()
    began = time.perf_counter_ns()
    with observed_by(recorder):
        (x @ w).backward(np.ones((5, 4)))
        (x * 2.0).sum(axis=0)
    ended = time.perf_counter_ns()
    forward, backward, scaled, summed = recorder.calls
    double = np.dtype(np.float64)
    for call in (forward, backward):
        assert call.op is ops.matmul
        assert call.implementation is ops.matmul.reference
        assert call.inputs == (Spec((5, 3), double), Spec((3, 4), double))
        assert call.output == Spec((5, 4), double)
    assert (forward.needs, backward.needs) == ((), (True, True))
    assert scaled.inputs == (Spec((5, 3), double), Spec((), None))
    assert scaled.inputs[1].nbytes == 0
    assert (summed.output.shape, summed.params) == ((3,), {"axis": 0, "keepdims": False})
    times = [moment for call in recorder.calls for moment in (call.start, call.end)]
    assert times == sorted(times)
    assert began <= times[0]
    assert times[-1] <= ended
    assert forward.seconds == pytest.approx((forward.end - forward.start) / 1e9)


def test_arrays_that_observers_are_given() -> None:
    recorder = Recorder()
    x, frozen = Tensor(normal(2, 3), requires_grad=True), Tensor(normal(2, 3))
    with observed_by(recorder):
        made = x * frozen
        made.backward(np.ones((2, 3)))
        _ = frozen * frozen
    (inputs, outputs, saved), (_, gradients, _), (_, _, nothing) = recorder.arrays
    assert inputs[0] is x.data
    assert outputs[0] is made.data
    assert any(kept is frozen.data for kept in saved)
    np.testing.assert_array_equal(gradients[0], frozen.data)
    assert gradients[1] is None
    assert nothing == ()


def test_a_forward_without_observers_is_described_when_its_backward_has_one() -> None:
    x = Tensor(normal(2, 3), requires_grad=True)
    made = x * 3.0
    recorder = Recorder()
    with observed_by(recorder):
        made.backward(np.ones((2, 3)))
    (call,) = recorder.calls
    assert call.inputs == (Spec((2, 3), np.dtype(np.float64)), Spec((), None))
    assert call.output.shape == (2, 3)


def test_observers_come_and_go_with_the_body() -> None:
    outer, inner = Recorder(), Recorder()
    x = Tensor([1.0])
    with observed_by(outer):
        _ = x + 1
        with observed_by(inner):
            _ = x + 1
        with pytest.raises(ZeroDivisionError), observed_by(inner):
            raise ZeroDivisionError
        with pytest.raises(ValueError, match="observers"), observed_by(outer):
            pass
        with unobserved():
            assert not is_observed()
            _ = x * 2
        _ = x + 1
        assert is_observed()
    _ = x + 1
    with pytest.raises(ValueError, match="observers"), observed_by(inner, inner):
        pass
    assert not is_observed()
    assert (len(outer.calls), len(inner.calls)) == (3, 1)


def test_observers_that_equal_each_other_come_and_go_by_themselves() -> None:
    alike = type("Alike", (Recorder,), {"__eq__": lambda *_: True, "__hash__": lambda _: 0})
    outer, inner = alike(), alike()
    with observed_by(outer):
        for _ in range(2):
            with observed_by(inner):
                pass
        with pytest.raises(ValueError, match="observers"), observed_by(outer):
            pass


@pytest.mark.parametrize("method", ["enter_module", "leave_module", "after_op", "before_op"])
def test_an_observer_that_raises_leaves_the_seam_as_it_was(method: str) -> None:
    def fail(self: Any, *arguments: Any) -> None:
        raise OSError("broken")

    with pytest.raises(OSError, match="broken"), observed_by(type("Broken", (Observer,), {method: fail})()):
        Branches()(Tensor(np.ones((1, 2), np.float32)))
    recorder = Recorder()
    with observed_by(recorder):
        _ = Tensor([1.0]) + 1
        Double()(Tensor([1.0]))
    assert [path for _, _, path in recorder.seen()] == ["", ""]


def test_a_module_that_raises_is_left_and_its_path_with_it() -> None:
    recorder = Recorder()
    with observed_by(recorder), pytest.raises(ValueError, match="features"):
        Outer(Linear(2, 2, seed=0))(Tensor([1.0]))
    assert recorder.modules == [("enter", ""), ("enter", "inner"), ("leave", "inner"), ("leave", "")]
    assert (dispatch._state.path, dispatch._state.paths) == ("", {})


def _other(name: str, factor: float) -> Implementation:
    """Return an addition that is told apart by its numbers: forward and backward are scaled by ``factor``."""
    return Implementation(
        name,
        lambda keep, a, b: ((a + b) * factor, (np.shape(a),) if keep else ()),
        lambda gradient, saved, needs, owned: tuple(gradient * factor if needed else None for needed in needs),
    )


def test_a_backward_runs_the_implementation_whose_forward_ran() -> None:
    x, y = (Tensor(np.ones(2), requires_grad=True) for _ in range(2))
    recorder = Recorder()
    with observed_by(recorder):
        with implementations({ops.add: _other("tenfold", 10)}):
            chosen = x + y
        plain = x + y
        np.testing.assert_array_equal(chosen.data, [20, 20])
        np.testing.assert_array_equal(plain.data, [2, 2])
        chosen.backward(np.ones(2))
        np.testing.assert_array_equal(gradient_of(x), [10, 10])
        with implementations({ops.add: _other("hundredfold", 100)}):
            plain.backward(np.ones(2))
        np.testing.assert_array_equal(gradient_of(x), [11, 11])
    assert [(call.implementation.name, call.phase) for call in recorder.calls] == [
        ("tenfold", "forward"),
        ("numpy", "forward"),
        ("tenfold", "backward"),
        ("numpy", "backward"),
    ]


def test_choices_nest_and_end_with_the_body_also_by_an_error() -> None:
    one, two = _other("one", 1), _other("two", 2)
    with implementations({ops.add: one}):
        with implementations({ops.add: two, ops.multiply: ops.multiply.reference}):
            assert ops.add.selected is two
            assert repr(ops.add) == "Op('add', implementation='two')"
        assert ops.add.selected is one
        with pytest.raises(KeyError), implementations({ops.add: two}):
            raise KeyError
        assert ops.add.selected is one
    assert ops.add.selected is ops.add.reference


def test_an_op_without_a_formula_is_not_guessed() -> None:
    silent = Op("silent", lambda keep, x: (x + 1, ()), lambda gradient, saved, needs, owned: (gradient,), None)
    recorder = Recorder()
    with observed_by(recorder):
        apply(silent, Tensor([1.0]))
    with pytest.raises(UncountedError, match="declares"):
        _ = recorder.calls[0].work
