"""The forward of a model as a graph: recorded at the seam, what is constant folded, what belongs together joined."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tinytorch.core import ops
from tinytorch.core.dispatch import Observer, no_grad, observed_by
from tinytorch.core.op import Array, Call, Op, Saved, UncountedError, Work
from tinytorch.core.tensor import Tensor
from tinytorch.perf.kernels.plan_ops.binding import RecordedOp, Value
from tinytorch.perf.ops import pointwise
from tinytorch.perf.ops.fused import fused_linear

#: Activations that a product takes along, and those that a convolution does.
_AFTER_PRODUCT: dict[Op, str] = {ops.relu: "relu", ops.gelu: "gelu"}


#: Ops that a formula of one array is looked for, those of them without which it is none, and the most of one.
_OF_FORMULAS = {
    *(ops.add, ops.subtract, ops.multiply, ops.divide, ops.negative, ops.power),
    *(ops.exp, ops.sigmoid, ops.tanh, pointwise.erf),
}
_CURVES = {ops.exp, ops.sigmoid, ops.tanh, pointwise.erf}
_LONGEST_FORMULA = 10
#: Functions that models write out, numbers on which a formula must be one, and how near.
_FUNCTIONS: tuple[Op, ...] = (ops.gelu, pointwise.exact_gelu, ops.silu)
_TRIED = np.linspace(-8, 8, 65, dtype=np.float32)
_NEAR = 4e-6


class Graph:
    """Ops of one forward in the order in which they ran, between its inputs and its outputs."""

    def __init__(self, sources: tuple[Value, ...], nodes: list[RecordedOp], results: tuple[Value, ...]) -> None:
        self.sources, self.nodes, self.results = sources, nodes, results

    def readers(self) -> dict[Value, int]:
        """Return how often each value is read, a result once more."""
        counts: dict[Value, int] = dict.fromkeys(self.results, 1)
        for node in self.nodes:
            for operand in node.operands:
                if isinstance(operand, Value):
                    counts[operand] = counts.get(operand, 0) + 1
        return counts


class _Recorder(Observer):
    """Writes down ops. It keeps every array until the end, so that each has an identity of its own."""

    def __init__(self, sources: Sequence[Array]) -> None:
        self.sources = tuple(Value(source.shape, source.dtype) for source in sources)
        self.nodes: list[RecordedOp] = []
        self._values = dict(zip(map(id, sources), self.sources, strict=True))
        self._kept: list[Any] = [*sources]

    def after_op(self, call: Call, inputs: tuple[Any, ...], outputs: tuple[Array | None, ...], saved: Saved) -> None:
        """Add a node, or a constant if nothing that the op reads depends on the input."""
        del saved
        (output,) = outputs
        assert output is not None
        self._kept += [inputs, output]
        operands = tuple(self._value(each) if isinstance(each, np.ndarray) else each for each in inputs)
        depends = any(isinstance(each, Value) and each.array is None for each in operands)
        alike = np.empty_like(output)  # in its order of the axes
        strides = tuple(stride // output.itemsize for stride in alike.strides)
        made = Value(output.shape, output.dtype, None if depends else output, strides)
        self._values[id(output)] = made
        if depends:
            node = RecordedOp(call.op, operands, dict(call.params), made, _work(call), call.op.name, call.path)
            self.nodes.append(node)

    def _value(self, array: Array) -> Value:
        """Return the value of an array: what made it, or a constant."""
        return self._values.setdefault(id(array), Value(array.shape, array.dtype, array))

    def results(self, outputs: Sequence[Array]) -> tuple[Value, ...]:
        """Return the values of the forward's outputs."""
        return tuple(map(self._value, outputs))


def _work(call: Call) -> Work | None:
    try:
        return call.work
    except UncountedError:
        return None


def tensors(output: Any) -> tuple[Tensor, ...]:
    """Return the outputs of a forward, one or several.

    Raises:
        TypeError: if what is returned are no Tensors.
    """
    outputs = output if isinstance(output, tuple) else (output,)
    for each in outputs:
        if not isinstance(each, Tensor):
            raise TypeError(f"model must return Tensors, not {type(each).__name__}")
    return outputs


def array_of(x: Any) -> Array:
    """Return the array of an input, a Tensor or what NumPy makes an array of."""
    return np.asarray(x.data if isinstance(x, Tensor) else x)


def as_input(x: Array) -> Tensor | Array:
    """Return what a model takes: floats as a Tensor, integers as they are."""
    return Tensor(x) if x.dtype.kind == "f" else x


def difference(found: Array, expected: Array) -> float:
    """Return the largest difference over the largest finite element; what is not finite must be the same."""
    if expected.dtype.kind != "f":
        return 0.0 if np.array_equal(found, expected) else math.inf
    finite = np.isfinite(expected)
    if not np.array_equal(found[~finite], expected[~finite], equal_nan=True):
        return math.inf
    if not finite.any():
        return 0.0
    largest = float(np.abs(expected[finite]).max())
    return float(np.abs(found[finite] - expected[finite]).max()) / max(largest, 1e-30)


def record(run: Callable[..., Any], examples: Sequence[Array], given: Sequence[Any]) -> Graph:
    """Return the graph of ``run(*given)``, whose arrays are ``examples``.

    Raises:
        TypeError: if what is returned are no Tensors.
    """
    recorder = _Recorder(examples)
    with no_grad(), observed_by(recorder):
        outputs = tensors(run(*given))
    return Graph(recorder.sources, recorder.nodes, recorder.results([each.data for each in outputs]))


def joined(graph: Graph) -> Graph:
    """Return the graph with what belongs together joined, in patterns of ops alone.

    A formula of GELU or SiLU becomes that function, however it is written: it is told by its values. Batch
    normalization goes into the weights of a convolution before it, a product of a constant matrix and the bias behind
    it become linear, and an activation or a residual sum belongs to the product before it, if nothing else reads what
    lies between.
    """
    nodes = [
        replace(node, op=ops.linear) if node.op is ops.matmul and _has_constant_matrix(node) else node
        for node in graph.nodes
    ]
    graph = _with_functions(Graph(graph.sources, nodes, graph.results))
    for join in (_join_guard, _join_normalization, _join_bias, _join_view, _join_activation, _join_residual):
        graph = _rewritten(graph, join)
    return graph


def _has_constant_matrix(node: RecordedOp) -> bool:
    weight = _array(node.operands[1])
    return weight is not None and weight.ndim == 2


def _with_functions(graph: Graph) -> Graph:
    """Return the graph with each formula that is one of `_FUNCTIONS` as that op."""
    readers, nodes, makers = graph.readers(), list[RecordedOp](), dict[Value, RecordedOp]()
    for node in graph.nodes:
        found = _formula(node, makers, readers) if node.op in (ops.multiply, ops.divide) else None
        if found is not None:
            formula, source, function = found
            nodes = [each for each in nodes if each not in formula]
            works = [each.work for each in formula if each.work is not None]
            work = Work(elementwise=sum(each.elementwise for each in works)) if len(works) == len(formula) else None
            node = replace(node, op=function, operands=(source,), params={}, work=work, name=function.name)
        nodes.append(node)
        makers[node.output] = node
    return Graph(graph.sources, nodes, graph.results)


def _formula(
    last: RecordedOp, makers: dict[Value, RecordedOp], readers: dict[Value, int]
) -> tuple[list[RecordedOp], Value, Op] | None:
    """Return the nodes up to ``last`` that make a function of one value, that value, and the function."""
    formula = [last]
    order = {id(maker): number for number, maker in enumerate(makers.values())}
    while len(formula) <= _LONGEST_FORMULA:
        made = {node.output for node in formula}
        read = [each for node in formula for each in node.operands if isinstance(each, Value) and each.array is None]
        outside = {each for each in read if each not in made}
        inner = all(readers[value] == read.count(value) for value in made if value is not last.output)
        if len(outside) == 1 and inner and any(node.op in _CURVES for node in formula):
            (source,) = outside
            function = _function_of([*sorted(formula[1:], key=lambda node: order[id(node)]), last], source)
            if function is not None and source.shape == last.output.shape:
                return formula, source, function
        before = [makers[value] for value in outside if value in makers]
        latest = max(before, key=lambda node: order[id(node)], default=None)
        if latest is None or latest.op not in _OF_FORMULAS or latest.output.shape != last.output.shape:
            return None
        formula.append(latest)
    return None


def _function_of(formula: Sequence[RecordedOp], source: Value) -> Op | None:
    """Return which function the nodes, in order, make of ``source``; None if it is none of them."""
    values: dict[Value, Array] = {source: _TRIED}
    with np.errstate(all="ignore"):
        for node in formula:
            given = []
            for each in node.operands:
                constant = _array(each)
                if constant is not None and constant.size != 1:
                    return None
                number = each if constant is None else constant.reshape(())
                given.append(values[each] if isinstance(each, Value) and constant is None else np.float32(number))
            values[node.output] = node.op.reference.forward(False, *given, **node.params)[0]
        made = values[formula[-1].output]
        for function in _FUNCTIONS:
            if np.allclose(made, function.reference.forward(False, _TRIED)[0], rtol=_NEAR, atol=_NEAR):
                return function
    return None


#: Takes the node before and one that reads its result; gives the node that does both, or None.
_Join = Callable[[RecordedOp, RecordedOp], RecordedOp | None]


def _rewritten(graph: Graph, join: _Join) -> Graph:
    """Return the graph in which ``join`` was tried on each node and each of those that it alone reads."""
    readers, nodes, makers = graph.readers(), list[RecordedOp](), dict[Value, RecordedOp]()
    for node in graph.nodes:
        for operand in node.operands:
            before = makers.get(operand) if isinstance(operand, Value) else None
            if before is None or readers[operand] > 1:
                continue
            both = join(before, node)
            if both is not None:
                # Where the later one ran: by then all that either reads is there.
                nodes.remove(before)
                node = both
                break
        nodes.append(node)
        makers[node.output] = node
    return Graph(graph.sources, nodes, graph.results)


def _both(before: RecordedOp, node: RecordedOp, **changes: Any) -> RecordedOp:
    """Return ``before`` with the result of ``node``, and the work of both."""
    work = None if before.work is None or node.work is None else _sum(before.work, node.work)
    return replace(before, output=node.output, work=work, name=f"{before.name}+{node.name}", **changes)


def _sum(a: Work, b: Work) -> Work:
    return Work(a.macs + b.macs, a.elementwise + b.elementwise, a.integer_macs + b.integer_macs)


def _array(operand: Any) -> Array | None:
    return operand.array if isinstance(operand, Value) else None


def _join_guard(before: RecordedOp, node: RecordedOp) -> RecordedOp | None:
    """Put a number where NaN is in one step, as exporters of attention do it in two."""
    if before.op is not pointwise.is_nan or node.op is not ops.where or node.operands[0] is not before.output:
        return None
    number, kept = node.operands[1:]
    value = number if isinstance(number, float | int) else _array(number)
    if value is None or np.size(value) != 1 or kept is not before.operands[0] or kept.shape != node.output.shape:
        return None
    return replace(node, op=pointwise.without_nan, operands=(kept,), params={"value": float(np.asarray(value).item())})


def _join_normalization(before: RecordedOp, node: RecordedOp) -> RecordedOp | None:
    """Put batch normalization by running statistics into a convolution's weight and bias, worked out in float64."""
    if before.op is not ops.conv2d or node.op is not ops.batch_norm or len(node.operands) < 5:
        return None
    weight, bias = (_array(operand) for operand in (*before.operands[1:], None)[:2])
    scale, shift, mean, variance = (_array(operand) for operand in node.operands[1:5])
    if weight is None or scale is None or shift is None or mean is None or variance is None:
        return None
    factor = scale / np.sqrt(variance.astype(np.float64) + node.params["epsilon"])
    folded_bias = ((0 if bias is None else bias) - mean.astype(np.float64)) * factor + shift
    folded = (weight * factor[:, None, None, None]).astype(weight.dtype)
    operands = (before.operands[0], _constant(folded), _constant(folded_bias.astype(weight.dtype)))
    # The normalization is done: only the bias is left of its arithmetic.
    elementwise = math.prod(node.output.shape)
    work = None if before.work is None else Work(before.work.macs, elementwise)
    return replace(before, output=node.output, operands=operands, work=work)


def _constant(array: Array) -> Value:
    return Value(array.shape, array.dtype, array)


def _join_bias(before: RecordedOp, node: RecordedOp) -> RecordedOp | None:
    """Make one linear layer of a product with a constant matrix, or one without bias, and a constant row."""
    if node.op is not ops.add or not _is_product(before) or len(before.operands) != 2:
        return None
    others = [each for each in node.operands if each is not before.output]
    row = others[0] if len(others) == 1 else None
    added = _array(row)
    if added is None or added.shape != before.output.shape[-1:] or node.output.shape != before.output.shape:
        return None
    return _both(before, node, operands=(*before.operands, row))


def _join_view(before: RecordedOp, node: RecordedOp) -> RecordedOp | None:
    """Let a product write its rows where they are seen along other axes, so that it ends with what follows."""
    if node.op is not ops.reshape or not _is_product(before) or node.output.shape[-1:] != before.output.shape[-1:]:
        return None
    if any(each is not None and _array(each) is None for each in before.operands[1:]):
        return None
    return replace(before, output=node.output)


def _join_activation(before: RecordedOp, node: RecordedOp) -> RecordedOp | None:
    """Let a product with a constant matrix or a convolution end with the activation behind it."""
    if before.op is ops.conv2d and node.op in (ops.relu, pointwise.clip) and "ends" not in before.params:
        ends = (0.0, math.inf) if node.op is ops.relu else (node.params["low"], node.params["high"])
        return _both(before, node, params={**before.params, "ends": ends})
    if node.op not in _AFTER_PRODUCT or not _is_product(before):
        return None
    operands = (*before.operands, None, None)[:4]
    return _both(before, node, op=fused_linear, operands=operands, params={"activation": _AFTER_PRODUCT[node.op]})


def _is_product(node: RecordedOp) -> bool:
    return node.op is ops.linear and _has_constant_matrix(node)


def _join_residual(before: RecordedOp, node: RecordedOp) -> RecordedOp | None:
    """Let a product add what is added to it."""
    if node.op is not ops.add or not _is_product(before) or node.output.shape != before.output.shape:
        return None
    others = [each for each in node.operands if each is not before.output]
    if len(others) != 1 or not isinstance(others[0], Value) or others[0].shape != node.output.shape:
        return None
    operands = (*before.operands, None)[:3]
    return _both(before, node, op=fused_linear, operands=(*operands, others[0]), params={"activation": "none"})
