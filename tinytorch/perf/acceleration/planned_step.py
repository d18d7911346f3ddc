"""Planned training steps: forward, backward and optimizer for batches of one shape, recorded once, run without a graph.

A step of a small model spends much of its time between ops: on Tensors, on the nodes of the graph and their order, on
which gradients are wanted and whose memory may be written to. The answers are the same in each step, so they are
written down once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter, is_
from typing import Any

import numpy as np

from tinytorch.core.dispatch import Observer, is_observed, observed_by, unobserved
from tinytorch.core.module import Module
from tinytorch.core.op import Array, Backward, Call, Forward, Saved
from tinytorch.core.ops import batch_norm
from tinytorch.core.optimizers import Optimizer, step_rules
from tinytorch.core.spatial import BatchNorm2d
from tinytorch.core.tensor import Tensor
from tinytorch.core.training import Step
from tinytorch.core.undisturbed import undisturbed
from tinytorch.perf.acceleration.recorded_graph import array_of, as_input, difference
from tinytorch.perf.kernels.registry import accelerated, kernel_step_rules

#: Largest difference between a planned gradient and the graph's, over the largest element of the latter.
TOLERANCE = 1e-5
#: What becomes of a gradient: it is the first of its value, or the first as a copy, is added to what is there, takes up
#: what is there, or makes a new array with it.
_FIRST, _COPY, _INTO_OLD, _INTO_NEW, _SUM = range(5)
#: An op's forward: the kernel, the places of its operands, parameters, and the place of its result.
_Forward = tuple[Forward, tuple[int, ...], dict[str, Any], int]
#: Which gradient of an op goes to which place, and what becomes of it there.
_Move = tuple[int, int, int]
#: An op's backward: the kernel, the place of its result, which gradients it makes, whether the one that arrives may be
#: written to, and where those that it makes go.
_Backward = tuple[Backward, int, tuple[bool, ...], bool, tuple[_Move, ...]]
_Loss = Callable[[Tensor, Any], Tensor]
_data = attrgetter("_data")


class _Recorder(Observer):
    """Writes down the ops of a forward, with the places of what they read and make."""

    def __init__(self, wanted: Sequence[Array]) -> None:
        self.values: list[Any] = []
        self.forwards: list[_Forward] = []
        self.backwards: list[tuple[Backward, int, tuple[bool, ...]]] = []
        self.statistics: list[tuple[str, list[Array]]] = []
        self._places: dict[int, int] = {}
        self._needed = set(map(self.place, wanted))

    def place(self, value: Any) -> int:
        """Return the place of an operand: that of its array, or a new one."""
        known = self._places.get(id(value)) if isinstance(value, np.ndarray) else None
        return self._new(value) if known is None else known

    def _new(self, value: Any) -> int:
        """Return a new place of a value, which is held, so that no other array gets its address."""
        self.values.append(value)
        self._places[id(value)] = len(self.values) - 1
        return len(self.values) - 1

    def after_op(self, call: Call, inputs: tuple[Any, ...], outputs: tuple[Array | None, ...], saved: Saved) -> None:
        """Write an op down."""
        del saved
        operands = tuple(map(self.place, inputs))
        needs = tuple(place in self._needed for place in operands)
        made = self._new(outputs[0])
        if call.op is batch_norm and call.params.get("statistics") is not None:
            self.statistics.append((call.path, call.params["statistics"]))
        self.forwards.append((call.implementation.forward, operands, call.params, made))
        if any(needs):
            self._needed.add(made)
            self.backwards.append((call.implementation.backward, made, needs))


class PlannedStep:
    """A training step on batches of one shape, made by `plan_step`: call it with inputs and targets.

    It is frozen as it was recorded: the ops that ran and so every branch, their implementations, the mode of the model
    and the arrays of its parameters. The numbers in them, and the optimizer with its settings, are the live ones. Under
    observers it runs by its graph, so that a profiler sees each op.
    """

    def __init__(self, model: Module, loss: _Loss, optimizer: Optimizer, inputs: Array, targets: Array) -> None:
        self._graph = model, loss
        self._optimizer = optimizer
        self._parameters = [each for each in model.parameters() if each.requires_grad]
        self._arrays = [parameter.data for parameter in self._parameters]
        recorder = _Recorder(self._arrays)
        self._given = recorder.place(inputs), recorder.place(targets)
        buffers = {name: buffer.data.copy() for name, buffer in model.named_buffers()}
        with observed_by(recorder):
            value = loss(model(as_input(inputs)), targets)
        layers = {path: layer for path, layer in model.named_modules() if isinstance(layer, BatchNorm2d)}
        self._normalizing = [(layers[path], statistics) for path, statistics in recorder.statistics]
        followed = {f"{path}.{name}" for path, _ in recorder.statistics for name in ("running_mean", "running_var")}
        for name, buffer in model.named_buffers():
            if name not in followed and not np.array_equal(buffer.data, buffers[name]):
                raise ValueError(
                    f"model must not change the buffer {name} in its forward pass, because a plan does not"
                )
        self._values, self._forwards = recorder.values, recorder.forwards
        self._result = recorder.place(value.data)
        read = {place for _, operands, _, _ in self._forwards for place in operands}
        if value.size != 1 or not set(self._given) <= read:
            raise ValueError(
                "model and loss must compute one number with ops that read the inputs and targets directly, floats as "
                "float32 and whole numbers as int64"
            )
        self._leaves = [(each, recorder.place(each.data)) for each in self._parameters]
        self._backwards = list(self._followed(recorder))

    def _followed(self, recorder: _Recorder) -> Iterator[_Backward]:
        """Run the ops backwards once; yield each, with what becomes of its gradients."""
        saved, leaves = self._run_forward(), {place for _, place in self._leaves}
        operands_of = {made: operands for _, operands, _, made in self._forwards}
        gradients: dict[int, tuple[Array, bool]] = {self._result: (np.ones_like(self._values[self._result]), True)}
        for backward, made, needs in reversed(recorder.backwards):
            if made not in gradients:
                continue  # the loss does not depend on it
            arrived, owned = gradients.pop(made)
            downs = backward(arrived, saved[made], needs, owned)
            looking = sum(each is not None and np.may_share_memory(each, arrived) for each in downs)
            moves: list[_Move] = []
            for index, place in enumerate(operands_of[made]):
                if not needs[index]:
                    continue
                down = np.asarray(downs[index])
                if down.dtype != np.float32:
                    raise ValueError(f"model must compute in float32 to be planned, but a gradient is {down.dtype}")
                free = down.flags.writeable and (not np.may_share_memory(down, arrived) or (owned and looking == 1))
                how = _becomes(gradients.get(place), down, free, place in leaves)
                moves.append((index, place, how))
                before = gradients[place][0] if place in gradients else np.float32(0)
                gradients[place] = (down, free) if how == _FIRST else (np.array(before + down), True)
            yield backward, made, needs, owned, tuple(moves)

    def __call__(self, inputs: Any, targets: Any) -> float:
        """Run the step on a batch of the recorded shapes and dtypes; return the loss before it.

        Raises:
            ValueError: if a shape or dtype is another, or a parameter got another array.
            FloatingPointError: if the loss is not finite; no parameter is changed then.
        """
        found = self.gradients(inputs, targets)
        with step_rules(kernel_step_rules()):
            self._optimizer.step()
        return found

    def gradients(self, inputs: Any, targets: Any) -> float:
        """Give every parameter its gradient for a batch; return the loss. Errors are those of a call."""
        for place, name, given in zip(self._given, ("inputs", "targets"), (inputs, targets), strict=True):
            array, recorded = _array(given), self._values[place]
            if array.shape != recorded.shape or array.dtype != recorded.dtype:
                raise ValueError(
                    f"{name} must have shape {recorded.shape} and dtype {recorded.dtype} as the example had, not "
                    f"{array.shape} and {array.dtype}: plan another step for them"
                )
            self._values[place] = array
        if not all(map(is_, map(_data, self._parameters), self._arrays)):
            raise ValueError("a parameter of the model has another array than the plan: plan the step again")
        if is_observed():
            return self._gradients_by_graph(inputs, targets)
        saved = self._run_forward()
        found = float(self._values[self._result])
        if not math.isfinite(found):
            raise FloatingPointError(f"the loss became {found}: lower lr, now {self._optimizer.lr}")
        self._run_backward(saved)
        return found

    def _gradients_by_graph(self, inputs: Any, targets: Any) -> float:
        model, loss = self._graph
        with accelerated():
            value = loss(model(as_input(_array(inputs))), _array(targets))
            for parameter in self._parameters:
                parameter.grad = None
            value.backward()
        return float(value.item())

    def _run_forward(self) -> list[Saved]:
        """Run the ops; return what each keeps for its backward, by the place of its result."""
        values = self._values
        saved: list[Saved] = [()] * len(values)
        for _, statistics in self._normalizing:
            statistics.clear()
        for forward, operands, params, made in self._forwards:
            values[made], saved[made] = forward(True, *[values[place] for place in operands], **params)
        for module, statistics in self._normalizing:
            module.follow(statistics)
        return saved

    def _run_backward(self, saved: list[Saved]) -> None:
        gradients: list[Any] = [None] * len(saved)
        gradients[self._result] = np.ones_like(self._values[self._result])
        for backward, made, needs, owned, moves in self._backwards:
            downs = backward(gradients[made], saved[made], needs, owned)
            gradients[made] = None
            for index, place, how in moves:
                if how == _FIRST:
                    gradients[place] = downs[index]
                elif how == _COPY:
                    gradients[place] = np.array(downs[index])
                elif how == _INTO_OLD:
                    gradients[place] += downs[index]
                elif how == _INTO_NEW:
                    down: Any = downs[index]
                    gradients[place] = np.add(gradients[place], down, out=down)
                else:
                    gradients[place] = gradients[place] + downs[index]
        for parameter, place in self._leaves:
            parameter.grad = gradients[place]


def _becomes(before: tuple[Array, bool] | None, down: Array, free: bool, is_leaf: bool) -> int:
    """Return what becomes of a gradient that may be written to or not, where one is before it or not."""
    if before is None:
        return _COPY if is_leaf and not (free and down.base is None) else _FIRST
    return _INTO_OLD if before[1] else _INTO_NEW if free else _SUM


def plan_step(model: Module, loss: _Loss, optimizer: Optimizer, inputs: Any, targets: Any) -> PlannedStep:
    """Return a training step of ``model`` for batches of the shapes of ``inputs`` and ``targets``, without its graph.

    Forward and loss are recorded at the seam, on the compiled kernels and in the mode that the model is in; the step is
    then held against the graph's gradients on the batch and on another order of it. Nothing is trained yet.

    Args:
        model: any module that takes one input. Of its buffers only running statistics may change.
        loss: makes one number of the model's output and the targets.
        optimizer: of the model's parameters.
        inputs, targets: a batch; floats are taken as float32, whole numbers as int64.

    Raises:
        ValueError: if the step cannot be planned, or computes something else than the graph.
    """
    x, y = _array(inputs), _array(targets)
    with unobserved(), accelerated():
        with undisturbed(model):
            step = PlannedStep(model, loss, optimizer, x, y)
        for order in (np.arange(len(x)), np.arange(len(x))[::-1]):
            _check(step, model, loss, x[order], y[order] if len(y) == len(x) else y)
    return step


def planned_steps() -> Step:
    """Return a step for one training: it plans each shape of batch when it first meets it, see `plan_step`.

    Give this function to `tinytorch.core.training.training_steps`.
    """
    plans: dict[Any, PlannedStep] = {}

    def step(model: Module, inputs: Any, targets: Any, loss: _Loss, optimizer: Optimizer) -> float:
        batch = _array(inputs), _array(targets)
        shapes = tuple((each.shape, each.dtype) for each in batch)
        if shapes not in plans:
            plans[shapes] = plan_step(model, loss, optimizer, *batch)
        return plans[shapes](*batch)

    return step


def _check(step: PlannedStep, model: Module, loss: _Loss, x: Array, y: Array) -> None:
    """Raise ValueError unless the step makes the graph's gradients."""

    def gradients(run: Callable[[], Any]) -> list[Array | None]:
        with undisturbed(model):
            run()
            return [None if each.grad is None else each.grad.copy() for each in model.parameters()]

    expected = gradients(lambda: loss(model(as_input(x)), y).backward())
    found = gradients(lambda: step.gradients(x, y))
    for one, other in zip(found, expected, strict=True):
        alike = one is other is None or (one is not None and other is not None and difference(one, other) <= TOLERANCE)
        if not alike:
            raise ValueError(
                "model must run the same ops for every input, but the gradients of its planned step are different from "
                "those of its graph: a branch or an array depends on the input outside of ops"
            )


def _array(x: Any) -> Array:
    array = array_of(x)
    return array.astype(np.float32 if array.dtype.kind == "f" else np.int64, copy=False)
