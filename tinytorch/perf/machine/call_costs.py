"""Cost of a call: what an op takes before there is anything to compute, on its smallest operands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tinytorch.core import ops
from tinytorch.core.dispatch import apply, implementations, is_observed, no_grad
from tinytorch.core.op import Array, Implementation, Op
from tinytorch.core.tensor import Tensor
from tinytorch.perf.events.stream import Event, counted
from tinytorch.perf.kernels.registry import kernel_implementations
from tinytorch.perf.machine.probing import REPEATS
from tinytorch.perf.machine.time_bound import added, at_cost
from tinytorch.perf.measuring import Measurement, interleave
from tinytorch.perf.measuring.measurement import Seconds
from tinytorch.perf.ops.fused import fused_linear
from tinytorch.perf.ops.quantized import quantized_conv2d, quantized_linear
from tinytorch.perf.ops.sparse import sparse_linear
from tinytorch.perf.ops.weight_only import weight_only_linear, weight_only_projection

#: Seconds by `call_key`.
Costs = Mapping[str, Seconds]


def call_key(op: str, implementation: str, phase: str, operands: int) -> str:
    """Return the name of a kind of call, such as "linear numpy forward 3"."""
    return f"{op} {implementation} {phase} {operands}"


@dataclass(frozen=True, slots=True)
class CallCosts:
    """Seconds that a call of each op takes on operands of one element, by `call_key`.

    Attributes:
        op: as a caller sees it: through the seam, with the Tensor that is made. Of a backward it is the kernel.
        kernel: as an event's time sees it: the code of the implementation alone. A backward is asked for one gradient.
    """

    op: Costs
    kernel: Costs


def least_call_seconds(events: Sequence[Event], costs: Costs) -> Measurement:
    """Return the seconds that calling these ops takes at least.

    An op that ``costs`` does not hold by the implementation that ran is taken to cost what the cheapest does.
    """
    cheapest = min(costs.values(), key=lambda cost: cost.median)
    keys: Counter[str] = Counter()
    for event, calls in counted(events):
        keys[call_key(event.op, event.implementation, event.phase, len(event.inputs))] += calls
    parts = (at_cost(count, costs.get(key, cheapest)) for key, count in keys.items())
    return added(parts).measurement("least cost of the calls")


def measured_call_costs() -> CallCosts:
    """Return what calls cost by NumPy and, of ops that have one, by their compiled kernel: measured now.

    That takes some seconds, and what it takes to compile the kernels for operands so small.

    Raises:
        RuntimeError: if an observer is installed, because it would be measured too.
    """
    if is_observed():
        raise RuntimeError("the cost of calls is measured without observers: measure it outside of `with Profiler()`")
    numpy = _measured({op: op.reference for op, _, _ in _smallest()})
    compiled = _measured(kernel_implementations())
    return CallCosts({**numpy.op, **compiled.op}, {**numpy.kernel, **compiled.kernel})


def compile_measured_calls() -> None:
    """Make each call of a kernel that `measured_call_costs` measures once, so that it is compiled."""
    for run in _calls(kernel_implementations())[0].values():
        run()


def _measured(chosen: Mapping[Op, Implementation]) -> CallCosts:
    """Return what calls of these ops cost by these implementations."""
    runs, kinds = _calls(chosen)
    with no_grad(), implementations(chosen):
        found = interleave(runs, repeats=REPEATS, at_most_seconds=3.0, warmup_seconds=0.01)

    def by_key(kind: str, phase: str = "forward") -> dict[str, Measurement]:
        return {call_key(op, one, phase, n): found[f"{name} {kind}"] for name, (op, one, n) in kinds.items()}

    backward = by_key("backward", "backward")
    return CallCosts({**by_key("op"), **backward}, {**by_key("kernel"), **backward})


def _calls(
    chosen: Mapping[Op, Implementation],
) -> tuple[dict[str, Callable[[], Any]], dict[str, tuple[str, str, int]]]:
    """Return the calls to measure, three of each kind, and each kind's op, implementation and number of operands.

    A kind's name is followed by "op", "kernel" or "backward" in the name of a call.
    """
    runs: dict[str, Callable[[], Any]] = {}
    kinds: dict[str, tuple[str, str, int]] = {}
    for op, operands, params in _smallest():
        if op not in chosen:
            continue
        one, name = chosen[op], f"{op.name} {len(operands)}"
        kinds[name] = (op.name, one.name, len(operands))
        tensors = [None if operand is None else Tensor(operand) for operand in operands]
        runs[f"{name} op"] = partial(apply, op, *tensors, **params)
        runs[f"{name} kernel"] = partial(one.forward, False, *operands, **params)
        output, saved = one.forward(True, *operands, **params)
        gradient, needs = np.ones_like(output), _one_gradient(operands)
        runs[f"{name} backward"] = partial(one.backward, gradient, saved, needs, False)
    return runs, kinds


def _one_gradient(operands: tuple[Array | None, ...]) -> tuple[bool, ...]:
    """Return which operand's gradient is asked for: the first that can have one."""
    floats = (index for index, operand in enumerate(operands) if operand is not None and operand.dtype.kind == "f")
    first = next(floats)
    return tuple(index == first for index in range(len(operands)))


def _smallest() -> list[tuple[Op, tuple[Array | None, ...], dict[str, Any]]]:
    """Return each op with operands of one element each."""
    one, row, image = (np.ones(shape, np.float32) for shape in ((1,), (1, 1), (1, 1, 1, 1)))
    pair = np.ones((2, 1, 1, 1), np.float32)  # the least that has a variance
    index, truth = np.zeros(1, np.int64), np.ones(1, np.bool_)
    window = {"kernel": (1, 1), "stride": (1, 1), "padding": (0, 0)}
    sliding = {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1), "groups": 1}
    epsilon = {"epsilon": 1e-5}
    unary = (
        ops.negative,
        ops.exp,
        ops.log,
        ops.sqrt,
        ops.absolute,
        ops.tanh,
        ops.sigmoid,
        ops.relu,
        ops.silu,
        ops.gelu,
    )
    binary = (ops.add, ops.subtract, ops.multiply, ops.divide, ops.maximum, ops.powers, ops.mean_squared_error)
    reductions = (ops.sum_, ops.mean, ops.max_, ops.softmax, ops.log_softmax)
    return [
        *((op, (one,), {}) for op in (*unary, *reductions)),
        *((op, (one, one), {}) for op in binary),
        (ops.where, (truth, one, one), {}),
        (ops.power, (one,), {"exponent": 3}),
        (ops.leaky_relu, (one,), {"slope": 0.1}),
        (ops.cast, (one,), {"dtype": np.dtype(np.float64)}),
        (ops.dropout, (one,), {"probability": 0.5, "generator": np.random.default_rng(0)}),
        (ops.reshape, (one,), {"shape": (1, 1)}),
        (ops.transpose, (row,), {"axes": (1, 0)}),
        (ops.getitem, (one,), {"index": slice(None)}),
        (ops.concatenate, (one, one), {}),
        (ops.embedding, (index, row), {}),
        (ops.cross_entropy, (row, index), {}),
        (ops.matmul, (row, row), {}),
        (ops.linear, (row, row), {}),
        (ops.linear, (row, row, one), {}),
        (ops.layer_norm, (row, one, one), epsilon),
        (ops.batch_norm, (pair, one, one), epsilon),
        (ops.batch_norm, (image, one, one, one, one), epsilon),
        (ops.attention, (image, image, image), {"causal": False}),
        (ops.self_attention, (np.ones((1, 1, 3), np.float32),), {"heads": 1, "causal": False}),
        (ops.conv2d, (image, image), sliding),
        (ops.conv2d, (image, image, one), sliding),
        (ops.max_pool2d, (image,), window),
        (ops.avg_pool2d, (image,), window),
        (ops.adaptive_avg_pool2d, (image,), {"size": (1, 1)}),
        (fused_linear, (row, row, one, None), {"activation": "none"}),
        *(
            (sparse_linear, (row, one, np.zeros(1, np.uint16), np.array([0, 1], np.int32), *more), {"in_features": 1})
            for more in ((), (one,))
        ),
        *_smallest_quantized(row),
    ]


def _smallest_quantized(row: Array) -> list[tuple[Op, tuple[Array | None, ...], dict[str, Any]]]:
    """Return the products of quantized layers with operands of one element each."""
    codes, read = np.ones((1, 1), np.int8), {"bits": 8, "group": None, "length": 1}
    weight = (codes, row, None)
    product = {"activations": "row", "symmetric": True, "columns": 1, **read}
    sliding = {"kernel": (1, 1), "stride": (1, 1), "padding": (0, 0), "dilation": (1, 1), "groups": 1}
    image = row.reshape(1, 1, 1, 1)
    return [
        (weight_only_linear, (row, *weight, None), {**read, "packed": {}}),
        (weight_only_projection, (row, *weight), read),
        (quantized_linear, (row, *weight, None, None, None), {**product, "packed": {}}),
        (quantized_conv2d, (image, *weight, None, None, None), {**product, **sliding, "packed": {}}),
    ]
