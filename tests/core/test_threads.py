"""What a body observes or switches holds in its thread or task alone, and ends with it in whatever order bodies end."""

import asyncio
import gc
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pytest

from tests.chosen_settings import PATIENCE
from tests.core.recording import Recorder
from tinytorch.core import autograd, dispatch, ops, optimizers
from tinytorch.core.layers import Dropout, Linear
from tinytorch.core.module import Module, Sequential
from tinytorch.core.op import Implementation
from tinytorch.core.tensor import Tensor
from tinytorch.perf.acceleration import accelerated
from tinytorch.perf.events.stream import recording
from tinytorch.perf.measuring import collector_off
from tinytorch.perf.profiling import Profiler
from tinytorch.perf.quantization import quantize_model

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
