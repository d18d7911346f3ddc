"""Calls of every op, an observer that keeps what it is told, and gradients by differences."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tinytorch.core import ops
from tinytorch.core.dispatch import Observer, apply
from tinytorch.core.module import Module
from tinytorch.core.op import Array, Call, Op, Saved
from tinytorch.core.tensor import Tensor


@dataclass(frozen=True)
class Case:
    """One call of an op. ``fixed`` are the positions of operands that have no gradient."""

    name: str
    op: Op
    operands: tuple[Any, ...]
    params: dict[str, Any] = field(default_factory=dict)
    fixed: tuple[int, ...] = ()

    def tensors(self, dtype: Any = np.float64, wanted: tuple[int, ...] | None = None) -> list[Tensor]:
        """Return fresh operands, of the same memory layout; those of ``wanted`` (default: all) require a gradient."""
        made = []
        for index, operand in enumerate(self.operands):
            array = np.asarray(operand)
            if index in self.fixed:
                made.append(Tensor(array.copy()))
                continue
            fresh = np.array(array, copy=True, order="K")
            if not array.flags.c_contiguous and not array.flags.f_contiguous:
                fresh = strided(array)
            fresh = fresh.astype(dtype, order="K", copy=False)
            made.append(Tensor(fresh, requires_grad=wanted is None or index in wanted))
        return made

    def differentiable(self) -> list[int]:
        return [index for index in range(len(self.operands)) if index not in self.fixed]

    def __call__(self, *tensors: Any) -> Tensor:
        """Run the op; a dropout draws the same elements each time."""
        params = dict(self.params)
        if self.op is ops.batch_norm and "mean" in params:
            params |= {name: params[name].astype(tensors[0].dtype) for name in ("mean", "variance")}
        if self.op is ops.dropout:
            params["generator"] = np.random.default_rng(5)
        return apply(self.op, *tensors, **params)


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng([seed, *shape]).normal(size=shape)


def positive(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng([seed, *shape]).uniform(0.5, 2, shape)


def strided(array: Array) -> Array:
    """Return the same numbers with a gap after each element of the last axis: not contiguous."""
    wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
    wide[..., ::2] = array
    return wide[..., ::2]


def turned(array: Array) -> Array:
    """Return the same numbers in Fortran order."""
    return np.asfortranarray(array)


def _broadcasting() -> list[Case]:
    shapes = [((3, 4), (3, 4)), ((2, 3, 4), (4,)), ((3, 1), (1, 4)), ((), (2, 3)), ((2, 1, 4), (3, 1)), ((1,), (3,))]
    cases = []
    for op in (ops.add, ops.subtract, ops.multiply, ops.divide, ops.maximum):
        for a, b in shapes:
            cases.append(Case(f"{op.name} {a} {b}", op, (normal(*a), positive(*b, seed=1))))
            cases.append(Case(f"{op.name} {b} {a}", op, (normal(*b), positive(*a, seed=1))))
        cases.append(Case(f"{op.name} strided", op, (strided(normal(3, 4)), turned(positive(3, 4, seed=1)))))
        cases.append(Case(f"{op.name} empty", op, (normal(0, 3), positive(1, 3))))
    for a, b in shapes:
        cases.append(Case(f"powers {a} {b}", ops.powers, (positive(*a), normal(*b, seed=1))))
    condition = np.array([[True, False, True], [False, False, True]])
    cases.append(Case("where", ops.where, (condition, normal(2, 3), normal(2, 3, seed=1)), fixed=(0,)))
    cases.append(Case("where broadcast", ops.where, (condition, normal(3), normal(2, 1)), fixed=(0,)))
    cases.append(Case("where scalar", ops.where, (condition, normal(), normal(2, 2, 3)), fixed=(0,)))
    return cases


def _elementwise() -> list[Case]:
    plain: list[tuple[Op, Callable[..., Array], dict[str, Any]]] = [
        (ops.negative, normal, {}),
        (ops.exp, normal, {}),
        (ops.log, positive, {}),
        (ops.sqrt, positive, {}),
        (ops.absolute, normal, {}),
        (ops.tanh, normal, {}),
        (ops.sigmoid, normal, {}),
        (ops.relu, normal, {}),
        (ops.leaky_relu, normal, {"slope": 0.1}),
        (ops.silu, normal, {}),
        (ops.gelu, normal, {}),
        (ops.power, positive, {"exponent": 3}),
        (ops.power, positive, {"exponent": -1.5}),
        (ops.power, normal, {"exponent": 0}),
        (ops.power, normal, {"exponent": 2}),
        (ops.cast, normal, {"dtype": np.dtype(np.float64)}),
        (ops.dropout, normal, {"probability": 0.4}),
    ]
    cases = []
    for op, draw, params in plain:
        name = " ".join([op.name, *(str(value) for value in params.values())])
        for kind, operand in [
            ("flat", draw(3, 4)),
            ("strided", strided(draw(3, 4))),
            ("turned", turned(draw(3, 4))),
            ("one", draw()),
            ("empty", draw(0, 3)),
        ]:
            cases.append(Case(f"{name} {kind}", op, (operand,), params))
    return cases


def _reductions() -> list[Case]:
    cases = []
    for op in (ops.sum_, ops.mean, ops.max_):
        for axis in (None, 0, -1, (0, 2), (-1, -2)):
            for keepdims in (False, True):
                params = {"axis": axis, "keepdims": keepdims}
                cases.append(Case(f"{op.name} {axis} {keepdims}", op, (normal(2, 3, 4),), params))
        cases.append(Case(f"{op.name} strided", op, (strided(normal(3, 4)),), {"axis": 1}))
        cases.append(Case(f"{op.name} one", op, (normal(),)))
    for op in (ops.softmax, ops.log_softmax):
        for axis in (-1, 0, 1):
            cases.append(Case(f"{op.name} {axis}", op, (3 * normal(2, 3, 4),), {"axis": axis}))
        cases.append(Case(f"{op.name} strided", op, (strided(normal(3, 4)),)))
        cases.append(Case(f"{op.name} one", op, (normal(1),)))
        cases.append(Case(f"{op.name} empty", op, (normal(2, 0),)))
    return cases


def _shapes() -> list[Case]:
    x = normal(2, 3, 4)
    repeated = np.array([1, 0, 1])
    indices: dict[str, Any] = {
        "integer": 1,
        "slice": (slice(None), slice(0, 3, 2)),
        "ellipsis": (Ellipsis, 1),
        "new axis": (None, 0),
        "mask": x[..., 0] > 0,
        "repeats": repeated,
        "list": [1, 1],
        "two arrays": (repeated, np.array([2, 0, 2])),
        "array and slice": (slice(None), repeated),
        "nested tuple": ((1, 1),),
        "element": (1, 2, 3),
    }
    cases = [Case(f"getitem {name}", ops.getitem, (x,), {"index": index}) for name, index in indices.items()]
    for axes in ((2, 0, 1), (0, 2, 1), (-1, 0, -2)):
        cases.append(Case(f"transpose {axes}", ops.transpose, (x,), {"axes": axes}))
    cases.append(Case("transpose strided", ops.transpose, (strided(x),), {"axes": (1, 2, 0)}))
    for shape in ((6, 4), (24,), (-1, 2), (1, 2, 3, 4)):
        cases.append(Case(f"reshape {shape}", ops.reshape, (x,), {"shape": shape}))
    cases.append(Case("reshape turned", ops.reshape, (turned(x),), {"shape": (4, 6)}))
    for axis in (0, 1, -1):
        parts = tuple(np.moveaxis(normal(length, 2, 3), 0, axis) for length in (1, 3, 2))
        cases.append(Case(f"concatenate {axis}", ops.concatenate, parts, {"axis": axis}))
    cases.append(Case("concatenate one", ops.concatenate, (normal(2, 3),)))
    return cases


def _contractions() -> list[Case]:
    shapes = [
        ((2, 3), (3, 4)),
        ((3,), (3,)),
        ((3,), (3, 4)),
        ((2, 3), (3,)),
        ((5, 2, 3), (3, 4)),
        ((2, 5, 2, 3), (3,)),
        ((3,), (5, 3, 2)),
        ((5, 2, 3), (5, 3, 2)),
        ((2, 1, 2, 3), (5, 3, 2)),
        ((1, 3), (2, 3, 2)),
        ((0, 3), (3, 2)),
        ((2, 2, 0), (0, 3)),
    ]
    cases = [Case(f"matmul {a} {b}", ops.matmul, (normal(*a), normal(*b, seed=1))) for a, b in shapes]
    cases.append(Case("matmul strided", ops.matmul, (strided(normal(2, 3)), turned(normal(3, 4)))))
    cases.append(Case("matmul batch turned", ops.matmul, (turned(normal(2, 2, 3)), strided(normal(3, 2)))))
    for lead in ((), (2,), (2, 3), (0,)):
        cases.append(Case(f"linear {lead}", ops.linear, (normal(*lead, 3), normal(3, 4), normal(4))))
        cases.append(Case(f"linear {lead} no bias", ops.linear, (normal(*lead, 3), normal(3, 4))))
    cases.append(Case("linear strided", ops.linear, (strided(normal(2, 2, 3)), turned(normal(3, 4)), normal(4))))
    return cases


def convolution(**changed: Any) -> dict[str, Any]:
    """Return parameters of a convolution: stride and dilation 1, no padding, one group, but for what is given."""
    return {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1), "groups": 1, **changed}


def _images() -> list[Case]:
    cases = []
    settings: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
        ((2, 2, 5, 4), (3, 2, 3, 2), {}),
        ((1, 1, 4, 4), (1, 1, 1, 1), {}),
        ((2, 2, 5, 6), (2, 2, 3, 3), {"padding": (1, 2)}),
        ((1, 2, 6, 7), (2, 2, 2, 3), {"stride": (2, 3), "padding": (1, 0)}),
        ((1, 2, 6, 6), (2, 2, 2, 2), {"dilation": (2, 3)}),
        ((2, 4, 4, 4), (6, 2, 3, 3), {"groups": 2, "padding": (1, 1)}),
        ((1, 3, 5, 4), (3, 1, 3, 3), {"groups": 3, "stride": (2, 1), "padding": (1, 1)}),
        ((1, 4, 7, 7), (4, 2, 2, 2), {"groups": 2, "stride": (2, 2), "padding": (2, 1), "dilation": (3, 2)}),
        ((0, 2, 4, 4), (2, 2, 2, 2), {}),
    ]
    for shape, kernels, changed in settings:
        params = convolution(**changed)
        name = f"conv2d {shape} {kernels} {changed}"
        cases.append(Case(name, ops.conv2d, (normal(*shape), normal(*kernels), normal(kernels[0])), params))
        cases.append(Case(f"{name} no bias", ops.conv2d, (normal(*shape), normal(*kernels)), params))
    images = normal(2, 3, 5, 4)
    for kind, x in (("strided", strided(images)), ("channels last", images.transpose(0, 3, 1, 2))):
        weight = normal(2, x.shape[1], 2, 2)
        cases.append(Case(f"conv2d {kind}", ops.conv2d, (x, weight, normal(2)), convolution(padding=(1, 1))))
    for op in (ops.max_pool2d, ops.avg_pool2d):
        for kernel, stride, padding in (((2, 2), (2, 2), (0, 0)), ((3, 2), (1, 2), (1, 1)), ((2, 3), (3, 1), (0, 1))):
            params = {"kernel": kernel, "stride": stride, "padding": padding}
            cases.append(Case(f"{op.name} {kernel} {stride} {padding}", op, (normal(2, 2, 5, 4),), params))
        params = {"kernel": (2, 2), "stride": (1, 1), "padding": (0, 0)}
        cases.append(Case(f"{op.name} strided", op, (strided(images),), params))
    for size in ((1, 1), (2, 3), (5, 4), (7, 6)):
        cases.append(Case(f"adaptive {size}", ops.adaptive_avg_pool2d, (images,), {"size": size}))
    return cases


def _normalizations() -> list[Case]:
    cases = []
    for kind, x in (("matrix", normal(3, 4)), ("deep", normal(2, 3, 4)), ("strided", strided(normal(3, 4)))):
        operands = (x, positive(4), normal(4))
        cases.append(Case(f"layer_norm {kind}", ops.layer_norm, operands, {"epsilon": 1e-3}))
    given = {"mean": normal(3), "variance": positive(3), "epsilon": 1e-3}
    for kind, x in (("plain", normal(2, 3, 2, 3)), ("strided", strided(normal(3, 3, 1, 2)))):
        operands = (x, positive(3), normal(3))
        cases.append(Case(f"batch_norm {kind}", ops.batch_norm, operands, {"epsilon": 1e-3}))
        cases.append(Case(f"batch_norm given {kind}", ops.batch_norm, operands, given))
    return cases


def _attentions() -> list[Case]:
    cases = []
    for causal in (False, True):
        for heads in (1, 2):
            params = {"heads": heads, "causal": causal}
            cases.append(Case(f"self_attention {heads} {causal}", ops.self_attention, (normal(2, 3, 12),), params))
        cases.append(Case(f"self_attention strided {causal}", ops.self_attention, (strided(normal(2, 3, 6)),), params))
        cases.append(Case(f"self_attention empty {causal}", ops.self_attention, (normal(2, 0, 12),), params))
        for queries, keys in ((3, 3), (1, 4), (2, 5), (0, 0), (0, 3), *([] if causal else [(2, 0)])):
            operands = (normal(2, 2, queries, 3), normal(2, 2, keys, 3, seed=1), normal(2, 2, keys, 3, seed=2))
            cases.append(Case(f"attention {queries} {keys} {causal}", ops.attention, operands, {"causal": causal}))
    return cases


def _lookups_and_losses() -> list[Case]:
    target = np.array([2, 0, 2, 1])
    return [
        Case("embedding", ops.embedding, (np.array([[0, 2, 2], [1, 2, 0]]), normal(4, 3)), fixed=(0,)),
        Case("embedding one", ops.embedding, (np.array(1), normal(4, 3)), fixed=(0,)),
        Case("embedding none", ops.embedding, (np.zeros((0,), int), normal(4, 3)), fixed=(0,)),
        Case("mse", ops.mean_squared_error, (normal(3, 4), normal(3, 4, seed=1))),
        Case("mse turned", ops.mean_squared_error, (turned(normal(3, 4)), strided(normal(3, 4, seed=1)))),
        Case("mse one", ops.mean_squared_error, (normal(), normal(seed=1))),
        Case("cross_entropy", ops.cross_entropy, (3 * normal(4, 3), target), fixed=(1,)),
        Case("cross_entropy one", ops.cross_entropy, (normal(3), np.array(1)), fixed=(1,)),
        Case("cross_entropy deep", ops.cross_entropy, (strided(normal(2, 2, 3)), target.reshape(2, 2)), fixed=(1,)),
        Case("cross_entropy ignore", ops.cross_entropy, (normal(4, 3), target), {"ignore_index": 2}, fixed=(1,)),
        Case(
            "cross_entropy ignore -100",
            ops.cross_entropy,
            (normal(4, 3), np.array([0, -100, 2, -100])),
            {"ignore_index": -100},
            fixed=(1,),
        ),
    ]


CASES: list[Case] = [
    *_broadcasting(),
    *_elementwise(),
    *_reductions(),
    *_shapes(),
    *_contractions(),
    *_images(),
    *_normalizations(),
    *_attentions(),
    *_lookups_and_losses(),
]


#: Half the distance of the two points of a difference: its cut-off error is about STEP**2, its rounding 1e-16 / STEP.
STEP = 1e-5
#: Largest error of a gradient's element, relative to the gradient's largest element (or to 1, if that is smaller).
TOLERANCE = 1e-7


def check_gradients(function: Callable[..., Tensor], *tensors: Tensor) -> None:
    """Assert that the backward of ``function`` agrees with central differences for every tensor that requires one.

    The output is weighted by random numbers, so that errors of two of its elements cannot cancel. Tensors are
    of float64. Their data may be strided; it must not be changed by forward or backward.
    """
    before = [tensor.data.copy() for tensor in tensors]
    for tensor in tensors:
        tensor.grad = None
    output = function(*tensors)
    weights = np.random.default_rng(20).normal(size=output.shape)
    output.backward(weights)
    assert output.dtype == np.float64
    for tensor, kept in zip(tensors, before, strict=True):
        np.testing.assert_array_equal(tensor.data, kept, err_msg="forward or backward changed an input")
    wanted = [tensor for tensor in tensors if tensor.requires_grad]
    assert wanted, "no tensor requires a gradient"
    for index, tensor in enumerate(wanted):
        assert tensor.grad is not None
        assert tensor.grad.shape == tensor.shape
        assert tensor.grad.dtype == np.float64
        expected = _differences(function, tensors, tensor, weights)
        scale = max(1.0, float(np.abs(expected).max(initial=0)))
        np.testing.assert_allclose(tensor.grad, expected, rtol=0, atol=TOLERANCE * scale, err_msg=f"tensor {index}")


def gradient_of(tensor: Tensor) -> Array:
    """Return the gradient that a backward left in ``tensor``; AssertionError if there is none."""
    assert tensor.grad is not None, "backward left no gradient"
    return tensor.grad


def _differences(function: Callable[..., Tensor], tensors: tuple[Tensor, ...], moved: Tensor, weights: Array) -> Array:
    """Return (f(x + STEP) - f(x - STEP)) / (2 STEP) for each element x of ``moved``."""
    slopes = np.zeros(moved.shape)
    for index in np.ndindex(moved.shape):
        kept = moved.data[index]
        moved.data[index] = kept + STEP
        above = function(*tensors).data.copy()  # it may be a view of the data that moves
        moved.data[index] = kept - STEP
        below = function(*tensors).data.copy()
        moved.data[index] = kept
        slopes[index] = np.sum((above - below) * weights) / (2 * STEP)
    return slopes


class Recorder(Observer):
    """Keeps every call, and the order in which modules began and ended."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.arrays: list[tuple[Any, Any, Any]] = []
        self.modules: list[tuple[str, str]] = []
        self.started = 0

    def before_op(self) -> None:
        self.started += 1

    def after_op(self, call: Call, inputs: tuple[Any, ...], outputs: tuple[Array | None, ...], saved: Saved) -> None:
        self.calls.append(call)
        self.arrays.append((inputs, outputs, saved))

    def enter_module(self, path: str, module: Module) -> None:
        self.modules.append(("enter", path))

    def leave_module(self, path: str, module: Module) -> None:
        self.modules.append(("leave", path))

    def seen(self) -> list[tuple[str, str, str]]:
        return [(call.op.name, call.phase, call.path) for call in self.calls]
