"""The steps of a forward with several inputs or outputs, or with ops that no entry point runs.

What entry points run is laid out as one table for each stretch of it; between them an op runs as it does outside of
plans, by its fastest implementation, on arrays that stay where they are from call to call.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from tinytorch.core.dispatch import apply
from tinytorch.core.op import Array, Gradients, Implementation, Op, Saved
from tinytorch.core.tensor import Tensor
from tinytorch.perf.acceleration.recorded_graph import Graph
from tinytorch.perf.kernels.gemm.packed_matmul import FLOPS_PER_NS
from tinytorch.perf.kernels.plan_ops.binding import (
    ArrayStep,
    Binder,
    EntryStep,
    RecordedOp,
    Table,
    UnplannedError,
    View,
    lay_out,
    memory_of,
    most_shares,
    new_arena,
)
from tinytorch.perf.kernels.plan_ops.driver import replay, replay_row, replay_together, timed_replay
from tinytorch.perf.kernels.registry import kernel_implementations
from tinytorch.perf.kernels.runtime import threads

_NOTHING = np.zeros(1, np.float32)


class Stretch:
    """Consecutive steps that entry points run, and a table of them for each thread that has run them.

    Args:
        steps: what it does.
        arena: gives the memory of intermediate results, new for each thread that runs blocks of its own.
        whole: bytes of the input and of the output of a block.
    """

    def __init__(self, steps: list[EntryStep], arena: Callable[[], Array], whole: tuple[int, int] = (0, 0)) -> None:
        self.steps, self._arena, self._whole = steps, arena, whole
        works = [step.work for step in steps if step.work is not None]
        self.ns = 2 * sum(work.macs for work in works) / FLOPS_PER_NS
        self._tables: dict[tuple[int, bool], list[Table]] = {}
        self._frames: dict[tuple[int, bool], Array] = {}
        self._meeting = np.zeros(1, np.int64)

    def table(self) -> Table:
        """Return the table that one thread runs."""
        self.frames(1)
        return self._tables[1, False][0]

    def frames(self, count: int, together: bool = False) -> Array:
        """Return what so many threads run, a frame for each: a block with an arena of its own, or one together."""
        key = (count, together)
        if key not in self._frames:
            arenas = [self._arena()] * count if together else [self._arena() for _ in range(count)]
            self._tables[key] = [
                Table(self.steps, arena, self._whole, (number, count) if together else (0, 1))
                for number, arena in enumerate(arenas)
            ]
            self._frames[key] = np.concatenate([table.frame for table in self._tables[key]])
        return self._frames[key]

    def meet(self, worth_ns: float, x: Array = _NOTHING, out: Array = _NOTHING) -> bool:
        """Run a block on several threads together, and return whether it takes so long that this is worth it."""
        if self.ns <= worth_ns or not threads.POSSIBLE or (count := threads.shares(most_shares(), self.ns)) <= 1:
            return False
        self._meeting[0] = 0
        frames = self.frames(count, together=True)
        threads.split(replay_together, count, self.ns / count, frames, x, out, self._meeting)
        return True

    def observed(self, number: int, reads: Any, made: Array, x: Array = _NOTHING, out: Array = _NOTHING) -> None:
        """Run one step through the seam, so that observers are told of it."""
        step, frame = self.steps[number], self.table().frame

        def forward(keep: bool, *operands: Array) -> tuple[Array, Saved]:
            """Run the step, whose operands the table knows."""
            del keep, operands
            replay_row(frame, x, out, 0, number)
            return made, ()

        work = step.work
        op = Op(step.name, forward, no_backward, None if work is None else lambda _: work)
        op.default = Implementation("plan", forward, no_backward)
        apply(op, *reads)

    def step_times(self, x: Array = _NOTHING, out: Array = _NOTHING, block: int = 0) -> Array:
        """Return the nanoseconds of each step of a block."""
        times = np.empty(len(self.steps) + 1, np.int64)
        timed_replay(self.table().frame, x, out, block, times)
        return np.diff(times)


#: Gives what an operand is at each call: an array over its memory, or a copy where a reshape has another order.
_Read = Callable[[], Any]


@dataclass(eq=False)
class _ByArrays:
    """A step that an implementation runs on arrays."""

    step: ArrayStep
    operands: list[_Read]
    made: Array

    def __post_init__(self) -> None:
        self._forward = kernel_implementations().get(self.step.op, self.step.op.reference).forward

    def run(self, observed: bool = False) -> None:
        """Run it, through the seam if it is to be ``observed``, and keep what it makes."""
        operands, params = [read() for read in self.operands], self.step.params
        made = (
            apply(self.step.op, *operands, **params).data if observed else self._forward(False, *operands, **params)[0]
        )
        np.copyto(self.made, made)


class ArrayProgram:
    """The steps of one forward; its inputs and outputs are copied to and from memory of its own.

    Args:
        graph: the forward as it was recorded.
        bind: binds a node to an entry point, or raises UnplannedError.
        binder: to which that adds steps.
        worth_ns: nanoseconds of a stretch from which on threads do it together.

    Attributes:
        steps: what it does, in order.
        rounds: whether a step rounds to codes, where a last digit can move a number by a whole step.
    """

    def __init__(
        self, graph: Graph, bind: Callable[[RecordedOp, Binder], View], binder: Binder, worth_ns: float
    ) -> None:
        self._inputs = [binder.own(source) for source in graph.sources]
        for node in graph.nodes:
            before = len(binder.steps)
            binder.begin(node)
            try:
                binder.place(node.output, bind(node, binder))
            except UnplannedError:
                del binder.steps[before:]
                binder.run_as_arrays(node)
        if not binder.steps:
            raise ValueError(
                "cannot make a plan: no op of the model connects its input to its output; compute the output with ops"
            )
        results = [binder.view(each) if each.array is None else None for each in graph.results]
        binder.keep([view for view in results if view is not None])
        self._arena = new_arena(lay_out(binder.buffers))
        self._worth_ns = worth_ns
        self.steps: list[EntryStep | ArrayStep] = list(binder.steps)
        self.rounds = any("quantize" in step.name or "dynamic_parameters" in step.name for step in self.steps)
        self._given = [self._array(view) for view in self._inputs]
        self._results = [
            partial(_itself, value.array) if view is None else self._read(view)
            for value, view in zip(graph.results, results, strict=True)
        ]
        self._parts = [part for is_step, some in groupby(self.steps, _is_bound) for part in self._made(is_step, some)]

    def _made(self, is_step: bool, some: Any) -> list[Stretch | _ByArrays]:
        if is_step:
            return [Stretch(list(some), lambda: self._arena)]
        return [
            _ByArrays(
                step,
                [self._read(each) if isinstance(each, View) else partial(_itself, each) for each in step.operands],
                self._array(step.writes),
            )
            for step in some
        ]

    def _read(self, view: View) -> _Read:
        if view.source is None:
            return partial(_itself, self._array(view))
        return partial(self._array(view.source).reshape, view.shape)

    def _array(self, view: View) -> Array:
        """Return the memory of a view as an array."""
        flat = memory_of(view.buffer, self._arena)
        return as_strided(flat[view.offset :], view.shape, [stride * flat.itemsize for stride in view.strides])

    def run(self, inputs: Sequence[Array], observed: bool = False) -> list[Array]:
        """Return the outputs; ``observed`` through the seam, so that observers are told of each step."""
        self._take(inputs)
        for part in self._parts:
            if isinstance(part, _ByArrays):
                part.run(observed)
            elif observed:
                for number, step in enumerate(part.steps):
                    part.observed(number, [self._read(view)() for view in step.reads], self._array(step.writes))
            elif not part.meet(self._worth_ns):
                replay(0, 1, part.frames(1), _NOTHING, _NOTHING, 1)
        return [np.array(read(), order="C") for read in self._results]

    def _take(self, inputs: Sequence[Array]) -> None:
        for memory, given in zip(self._given, inputs, strict=True):
            np.copyto(memory, given)

    def step_times(self, inputs: Sequence[Array]) -> list[tuple[EntryStep | ArrayStep, float]]:
        """Return the steps, and the nanoseconds of each."""
        self._take(inputs)
        found: list[float] = []
        for part in self._parts:
            if isinstance(part, _ByArrays):
                start = time.perf_counter_ns()
                part.run()
                found.append(time.perf_counter_ns() - start)
            else:
                found += part.step_times().tolist()
        return [*zip(self.steps, found, strict=True)]


def _itself(operand: Any) -> Any:
    return operand


def _is_bound(step: EntryStep | ArrayStep) -> bool:
    return isinstance(step, EntryStep)


def no_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    """Raise: a plan has no gradients."""
    del gradient, saved, needs, owned
    raise RuntimeError("a plan cannot be trained: train the model, and then make a new plan of it")


def as_outputs(made: Sequence[Array]) -> Any:
    """Return arrays as a forward returns them: a Tensor, or a tuple of several."""
    outputs = tuple(Tensor._made(each, None) for each in made)
    return outputs[0] if len(outputs) == 1 else outputs
