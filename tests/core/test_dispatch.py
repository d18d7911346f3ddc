"""The seam that ops go through: implementations, observers and switches, which hold in their thread or task alone."""

import asyncio
import gc
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pytest

from tests.chosen_settings import PATIENCE
from tests.core.cases import Recorder, gradient_of, normal
from tinytorch.core import autograd, dispatch, ops, optimizers
from tinytorch.core.dispatch import Observer, apply, implementations, is_observed, observed_by, unobserved
from tinytorch.core.layers import Dropout, Linear
from tinytorch.core.module import Module, Parameter, Sequential
from tinytorch.core.op import Implementation, Op, Spec, UncountedError
from tinytorch.core.tensor import Tensor
from tinytorch.perf.acceleration import accelerated
from tinytorch.perf.events.stream import recording
from tinytorch.perf.measuring import collector_off
from tinytorch.perf.profiling import Profiler
from tinytorch.perf.quantization import quantize_model


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
    with observed_by(recorder), pytest.raises(ValueError, match="the last axis"):
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


OTHER = Implementation("other", ops.add.reference.forward, ops.add.reference.backward)
Body = Callable[[], AbstractContextManager[Any]]
#: What is switched, and how it looks from where one stands.
SWITCHES: dict[str, tuple[Body, Callable[[], Any]]] = {
    "no_grad": (dispatch.no_grad, lambda: (Tensor([1.0], requires_grad=True) * 1).requires_grad),
    "observers": (lambda: dispatch.observed_by(Recorder()), dispatch.is_observed),
    "implementations": (lambda: dispatch.implementations({ops.add: OTHER}), lambda: ops.add.selected),
    "step rules": (lambda: optimizers.step_rules(optimizers.StepRules(print, print)), optimizers._selected.get),
    "accelerated": (accelerated, lambda: (ops.gelu.selected, optimizers._selected.get())),
    "listeners": (lambda: autograd.when_ready(print), autograd._listeners.get),
}


@pytest.mark.parametrize("name", SWITCHES)
def test_tasks_and_threads_do_not_share_what_they_switch(name: str) -> None:
    body, look = SWITCHES[name]
    before = look()

    async def switches(inside: asyncio.Event, end: asyncio.Event) -> Any:
        with body():
            inside.set()
            await end.wait()
            return look()

    async def both() -> list[Any]:
        inside, end = asyncio.Event(), asyncio.Event()
        task = asyncio.create_task(switches(inside, end))
        await inside.wait()
        outside = look()
        end.set()
        return [outside, await task, look()]

    outside, within, after = asyncio.run(both())
    with body(), ThreadPoolExecutor(1) as pool:
        on_a_thread = pool.submit(look).result()
    assert outside == on_a_thread == after == before != within


@pytest.mark.parametrize("name", [name for name in SWITCHES if name != "listeners"])
def test_bodies_of_one_thread_may_end_in_any_order(name: str) -> None:
    body, look = SWITCHES[name]
    before = look()
    one, two = body(), body()
    one.__enter__()
    two.__enter__()
    one.__exit__(None, None, None)
    assert look() != before
    two.__exit__(None, None, None)
    assert look() == before


def test_the_collector_is_off_until_the_last_body_that_wants_it_off_ends() -> None:
    one, two = collector_off(), collector_off()
    one.__enter__()
    two.__enter__()
    one.__exit__(None, None, None)
    assert not gc.isenabled()
    two.__exit__(None, None, None)
    assert gc.isenabled()


class Waits(Module):
    """Runs its layer when it may."""

    def __init__(self, here: threading.Event, may: threading.Event) -> None:
        self.here, self.may, self.layer = here, may, Linear(4, 4)

    def forward(self, x: Any) -> Any:
        self.here.set()
        assert self.may.wait(PATIENCE)
        return self.layer(x)


def test_modules_of_two_threads_do_not_mix_their_names_and_the_unseen_thread_is_named() -> None:
    one, two = threading.Event(), threading.Event()
    mine, theirs, x = Sequential(Waits(one, two)), Sequential(Linear(4, 4)), Tensor(np.ones((1, 4), np.float32))

    def other() -> None:
        assert one.wait(PATIENCE)
        theirs(x)
        two.set()

    with Profiler() as profiler:
        thread = threading.Thread(target=other, name="the other one")
        thread.start()
        mine(x)
        thread.join()
    assert [row.path for row in profiler.by_layer()] == ["Sequential", "Sequential.0", "Sequential.0.layer", ""]
    assert len(profiler.run.events) == 1
    assert profiler.run.unseen == ("the other one",)
    assert any("the other one" in note for note in profiler.notes())


def together(count: int, work: Callable[[int], Any]) -> list[Any]:
    """Return what ``work`` returns on as many threads, which begin at the same time."""
    meet = threading.Barrier(count, timeout=PATIENCE)

    def begin(index: int) -> Any:
        meet.wait()
        return work(index)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(begin, range(count)))


def test_a_thread_records_and_calibrates_its_own_work_beside_others() -> None:
    def work(index: int) -> tuple[int, int]:
        model, x = Sequential(*[Linear(4, 4, seed=0) for _ in range(index + 1)]), Tensor(np.ones((1, 4), np.float32))
        with recording(timed=False) as done:
            for _ in range(50):
                model(x)
        return len(done.profile.events), len(quantize_model(model, x).state_dict())

    (one, fewer), (two, more) = together(2, work)
    assert (one, two) == (50, 100)
    assert more == 2 * fewer


def test_a_copy_of_a_context_on_another_thread_is_not_taken_for_the_recorded_one() -> None:
    async def aside() -> None:
        await asyncio.to_thread(lambda: Tensor([1.0]) + 1)

    with Profiler() as profiler:
        asyncio.run(aside())
    assert len(profiler.run.events) == 0
    assert len(profiler.run.unseen) == 1


def numbers() -> Iterator[int]:
    yield 1


async def later() -> int:
    return 1


async def stream() -> Any:
    yield 1


@pytest.mark.parametrize("function", [numbers, later, stream])
@pytest.mark.parametrize("context", [autograd.no_grad, accelerated, dispatch.unobserved])
def test_what_runs_after_a_body_has_ended_is_not_decorated(context: Body, function: Callable[[], Any]) -> None:
    with pytest.raises(TypeError, match=function.__name__):
        context()(function)  # type: ignore[operator]


def test_threads_that_analyse_one_model_leave_it_as_it_was() -> None:
    model, x = Sequential(Linear(4, 4, seed=0), Dropout(0.5)), Tensor(np.ones((2, 4), np.float32))

    def work(_: int) -> None:
        for _ in range(10):
            quantize_model(model, x)

    together(4, work)
    assert [module.training for _, module in model.named_modules()] == [True] * 3
