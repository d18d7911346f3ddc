"""ONNX operators that treat every element alike, as ops at the seam."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from tinytorch.core import ops
from tinytorch.core.dispatch import apply
from tinytorch.core.op import Op
from tinytorch.core.tensor import Tensor
from tinytorch.perf.onnx.node import Node, Operand, Runner, Translation, Untranslatable
from tinytorch.perf.ops import pointwise


def tensor_of(x: Any) -> Tensor:
    """Return an operand as a Tensor."""
    return x if isinstance(x, Tensor) else Tensor(np.asarray(x))


def widened(x: Any) -> Tensor:
    """Return halves as float32, in which their squares and sums have room, and all else as it is."""
    tensor = tensor_of(x)
    return tensor.astype(np.dtype(np.float32)) if tensor.dtype == np.float16 else tensor


def without_gradient(x: Any) -> Any:
    """Return an operand that requires no gradient, for an op that has none."""
    return x.detach() if isinstance(x, Tensor) else x


def _one(op: Op) -> Translation:
    return Translation(lambda node: lambda x: apply(op, x))


def _two(op: Op) -> Translation:
    return _aligned(lambda node: lambda a, b: apply(op, a, b))


def _judged(op: Op) -> Translation:
    return _aligned(lambda node: lambda a, b: apply(op, without_gradient(a), without_gradient(b)))


def _aligned(make: Callable[[Node], Runner]) -> Translation:
    """Return the translation of an operator of two operands.

    Before version 7 the second may lie along any axes of the first that follow each other, from the one named.
    """

    def made(node: Node) -> Runner:
        runner = make(node)
        axis = node.get("axis", None)
        if node.version >= 7 or not node.get("broadcast", 0) or axis is None:
            return runner

        def run(a: Any, b: Any) -> Any:
            behind = a.ndim - axis % a.ndim - b.ndim
            return runner(a, apply(ops.reshape, b, shape=(*b.shape, *[1] * behind)))

        return run

    return Translation(made)


def _many(op: Op) -> Translation:
    return Translation(lambda node: lambda *operands: reduce(lambda a, b: apply(op, a, b), operands))


def _divide(node: Node) -> Runner:
    def run(a: Any, b: Any) -> Tensor:
        if tensor_of(a).dtype.kind in "iu" and tensor_of(b).dtype.kind in "iu":
            return apply(pointwise.whole_quotient, a, b)
        return apply(ops.divide, a, b)

    return run


def _powers(x: Any, exponents: Any) -> Tensor:
    """Return the powers in the dtype of x, as ONNX wants them whatever the exponents are."""
    base, exponent = tensor_of(x), tensor_of(exponents)
    if base.dtype.kind in "iu" and exponent.dtype.kind == "i" and (exponent.data < 0).any():
        exponent = exponent.astype(np.float64)  # of whole numbers, what lies behind the point is cut off
    made = apply(ops.powers, base, exponent)
    return made if made.dtype == base.dtype else made.astype(base.dtype)


def _power(node: Node) -> Runner:
    exponent = node.constant(1)
    if exponent is None or exponent.ndim:
        return _powers
    number = float(exponent)
    return lambda x, exponents: (
        apply(ops.power, x, exponent=number) if tensor_of(x).dtype.kind == "f" else _powers(x, exponents)
    )


def _clip(node: Node) -> Runner:
    from_attributes = (node.get("min", None), node.get("max", None))

    def run(x: Any, low: Operand = None, high: Operand = None) -> Any:
        ends = [usual if end is None else end for usual, end in zip(from_attributes, (low, high), strict=True)]
        if any(isinstance(end, Tensor) for end in ends) or tensor_of(x).dtype.kind != "f":
            for op, end in zip((ops.maximum, pointwise.minimum), ends, strict=True):
                x = x if end is None else apply(op, x, end)
            return tensor_of(x)
        low_end, high_end = (
            number if end is None else np.asarray(end).item()
            for number, end in zip((-math.inf, math.inf), ends, strict=True)
        )
        return apply(pointwise.clip, x, low=low_end, high=high_end)

    return run


def _leaky_relu(node: Node) -> Runner:
    slope = node.get("alpha", 0.01)
    return lambda x: apply(ops.leaky_relu, x, slope=slope)


def _parametric_relu(node: Node) -> Runner:
    by_channel = node.version < 7

    def run(x: Any, slope: Any) -> Tensor:
        if by_channel and slope.ndim == 1 and slope.shape[0] > 1:
            slope = apply(ops.reshape, slope, shape=(-1, *[1] * (x.ndim - 2)))
        if tensor_of(x).dtype.kind != "f":
            return apply(ops.where, tensor_of(x).data > 0, x, apply(ops.multiply, x, slope))
        below = apply(pointwise.clip, x, low=-math.inf, high=0.0)
        return apply(ops.add, apply(ops.relu, x), apply(ops.multiply, below, slope))

    return run


def _elu(node: Node) -> Runner:
    alpha = node.get("alpha", 1.0)
    return lambda x: apply(pointwise.elu, x, alpha=alpha)


def _selu(node: Node) -> Runner:
    alpha, gamma = node.get("alpha", 1.67326319217681884765625), node.get("gamma", 1.05070102214813232421875)
    return lambda x: apply(ops.multiply, apply(pointwise.elu, x, alpha=alpha), gamma)


def _hard_sigmoid(node: Node) -> Runner:
    slope, shift = node.get("alpha", 0.2), node.get("beta", 0.5)
    return lambda x: apply(pointwise.hard_sigmoid, x, slope=slope, shift=shift)


def _gelu(node: Node) -> Runner:
    if node.only("approximate", "none", "tanh") == "tanh":
        return lambda x: apply(ops.gelu, x)

    def run(x: Any) -> Tensor:
        wide = apply(pointwise.erf, apply(ops.multiply, x, math.sqrt(0.5)))
        return apply(ops.multiply, apply(ops.multiply, x, 0.5), apply(ops.add, wide, 1.0))

    return run


def _swish(node: Node) -> Runner:
    if node.get("alpha", 1.0) != 1:
        raise Untranslatable(f"alpha={node.get('alpha', 1.0)}")
    return lambda x: apply(ops.silu, x)


def _cast(node: Node) -> Runner:
    from onnx import helper

    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(node.get("to", 1)))
    if dtype.kind not in "fiub":
        raise Untranslatable(f"to {dtype}")
    return lambda x: x if tensor_of(x).dtype == dtype else tensor_of(x).astype(dtype)


def _first(x: Any, *others: Any) -> Any:
    return x


def _dropout(node: Node) -> Runner:
    """Nothing, but where a file says that it trains; the mask that it may give has nothing hidden."""
    trains = node.constant(2)
    if (trains is None and node.has(2)) or (trains is not None and trains.any()):
        raise Untranslatable("training_mode")
    if len(node.outputs) > 1 and node.outputs[1]:
        dtype = np.bool_ if node.version >= 10 else None
        return lambda x, *others: (x, np.ones(x.shape, dtype or x.dtype))
    return _first


def _told(op: Op) -> Translation:
    return Translation(lambda node: lambda x: apply(op, without_gradient(x)))


TRANSLATIONS: dict[str, Translation] = {
    "Abs": _one(ops.absolute),
    "Add": _two(ops.add),
    "And": _judged(pointwise.logical_and),
    "Cast": Translation(_cast, ignores=("saturate", "round_mode")),
    "Ceil": _one(pointwise.ceil),
    "Clip": Translation(_clip),
    "Cos": _one(pointwise.cos),
    "Div": _aligned(_divide),
    "Dropout": Translation(_dropout, (1, 2), ignores=("ratio", "seed", "is_test"), outputs=2),
    "Elu": Translation(_elu),
    "Equal": _judged(pointwise.equal),
    "Erf": _one(pointwise.erf),
    "Exp": _one(ops.exp),
    "Floor": _one(pointwise.floor),
    "Gelu": Translation(_gelu),
    "Greater": _judged(pointwise.greater),
    "GreaterOrEqual": _judged(pointwise.greater_equal),
    "HardSigmoid": Translation(_hard_sigmoid),
    "HardSwish": Translation(
        lambda node: lambda x: apply(ops.multiply, x, apply(pointwise.hard_sigmoid, x, slope=1 / 6, shift=0.5))
    ),
    "Identity": Translation(lambda node: _first),
    "IsNaN": _told(pointwise.is_nan),
    "LeakyRelu": Translation(_leaky_relu),
    "Less": _judged(pointwise.less),
    "LessOrEqual": _judged(pointwise.less_equal),
    "Log": _one(ops.log),
    "Max": _many(ops.maximum),
    "Min": _many(pointwise.minimum),
    "Mish": Translation(lambda node: lambda x: apply(ops.multiply, x, apply(ops.tanh, apply(pointwise.softplus, x)))),
    "Mul": _two(ops.multiply),
    "Neg": _one(ops.negative),
    "Not": _told(pointwise.logical_not),
    "Or": _judged(pointwise.logical_or),
    "PRelu": Translation(_parametric_relu),
    "Pow": _aligned(_power),
    "Reciprocal": Translation(lambda node: lambda x: apply(ops.divide, 1, x)),
    "Relu": _one(ops.relu),
    "Round": _one(pointwise.round_),
    "Selu": Translation(_selu),
    "Sigmoid": _one(ops.sigmoid),
    "Sign": _one(pointwise.sign),
    "Sin": _one(pointwise.sin),
    "Softplus": _one(pointwise.softplus),
    "Softsign": Translation(lambda node: lambda x: apply(ops.divide, x, apply(ops.add, apply(ops.absolute, x), 1))),
    "Sqrt": _one(ops.sqrt),
    "Sub": _two(ops.subtract),
    "Sum": _many(ops.add),
    "Swish": Translation(_swish),
    "Tanh": _one(ops.tanh),
    "Where": Translation(lambda node: lambda condition, a, b: apply(ops.where, without_gradient(condition), a, b)),
}
