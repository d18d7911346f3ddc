"""Every kernel of the registry and every op's entry in a plan against the op's reference in float64, case by case.

A new kernel, or an op that a plan binds, without a case fails.
"""

import gc
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from tests.core.cases import CASES, Case, convolution, normal, positive, strided, turned
from tests.perf.small_models import small_gpt, tokens_of
from tinytorch.core import ops
from tinytorch.core.dispatch import Observer, apply, implementations, no_grad, observed_by
from tinytorch.core.layers import Linear
from tinytorch.core.module import Module
from tinytorch.core.op import Call, Implementation, Op
from tinytorch.core.spatial import Conv2d
from tinytorch.core.tensor import Tensor
from tinytorch.perf.acceleration.plans import BlockProgram, bindings, plan
from tinytorch.perf.compression.sparsity import SparseLinear
from tinytorch.perf.kernels.registry import AS_GOOD_IN_NUMPY, kernel_implementations
from tinytorch.perf.kernels.runtime import threads
from tinytorch.perf.memoization import enable_kv_cache, fuse_decoding
from tinytorch.perf.ops import fused, pointwise
from tinytorch.perf.ops.decode import decode_token
from tinytorch.perf.ops.quantized import quantized_conv2d, quantized_linear
from tinytorch.perf.ops.sparse import sparse_linear
from tinytorch.perf.ops.weight_only import weight_only_linear, weight_only_projection
from tinytorch.perf.quantization import Plan as Coding
from tinytorch.perf.quantization import QuantizedConv2d, QuantizedLinear, Scheme, quantize_model

#: Of float32 sums over at most some hundreds of products, relative to the largest element.
TOLERANCE = 4e-6
#: Ops whose kernel draws other numbers than the reference: `test_special` holds what they are.
DRAWN = {ops.dropout}
#: Ops that round their input to codes: in float64 some would fall to the other side.
ROUNDING = {quantized_linear, quantized_conv2d}


class Held(Case):
    """A call whose fixed operands are given as they are: integers, codes, None."""

    def tensors(self, dtype: Any = np.float64, wanted: tuple[int, ...] | None = None) -> list[Any]:
        whole = enumerate(self.operands)
        return [each if i in self.fixed else Tensor(each.astype(dtype), requires_grad=True) for i, each in whole]


class _Call(Observer):
    """Keeps the operands and params of the last call of an op."""

    def __init__(self, op: Op) -> None:
        self.op = op

    def after_op(self, call: Call, inputs: tuple[Any, ...], outputs: Any, saved: Any) -> None:
        if call.op is self.op and call.phase == "forward":
            self.operands, self.params = inputs, call.params


def seen(op: Op, run: Callable[[], Any], learns: tuple[int, ...] = (0,)) -> Case:
    """Return the call of ``op`` that a model makes; gradients are those of the operands ``learns``."""
    observer = _Call(op)
    with no_grad(), observed_by(observer):
        run()
    fixed = tuple(index for index in range(len(observer.operands)) if index not in learns)
    operands = tuple(each.copy() if isinstance(each, np.ndarray) else each for each in observer.operands)
    return Held(op.name, op, operands, observer.params, fixed)


def _rows() -> list[Case]:
    cases = []
    for shape in ((30, 50), (2, 3, 768), (5, 1), (70, 17), (3, 5000)):
        x, weight, bias = 2 * normal(*shape), normal(shape[-1]), normal(shape[-1], seed=1)
        labels = np.random.default_rng(4).integers(0, shape[-1], shape[:-1])
        cases += [Case(f"{op.name} {shape}", op, (x,)) for op in (ops.softmax, ops.log_softmax)]
        cases.append(Case(f"layer_norm {shape}", ops.layer_norm, (x, weight, bias), {"epsilon": 1e-5}))
        cases.append(Case(f"bias_gelu {shape}", fused.bias_gelu, (x, bias)))
        cases.append(Case(f"cross_entropy {shape}", ops.cross_entropy, (x, labels), fixed=(1,)))
        cases.append(Case(f"mse {shape}", ops.mean_squared_error, (x, normal(*shape, seed=1))))
    cases.append(Case("bias_gelu strided", fused.bias_gelu, (strided(normal(9, 7)), normal(7))))
    for queries, keys in ((1, 1), (7, 7), (3, 20), (1, 9)):
        cases.append(Case(f"causal {queries} {keys}", fused.causal_softmax, (normal(2, 3, queries, keys),)))
    for rows in (500, 3000):  # of which a row is picked more often than float32 adds up well
        picked = np.random.default_rng(0).integers(0, 5, rows)
        cases.append(Case(f"embedding {rows}", ops.embedding, (picked, normal(5, 70)), fixed=(0,)))
    return cases


def _maps() -> list[Case]:
    cases = []
    for shape, weight, changed in (
        ((9, 20, 12, 12), (50, 20, 3, 3), {"padding": (1, 1)}),
        ((9, 64, 9, 9), (32, 32, 3, 3), {"padding": (1, 1), "groups": 2}),
        ((3, 45, 11, 9), (45, 1, 5, 3), {"padding": (2, 1), "stride": (2, 1), "groups": 45}),
        ((2, 1, 8, 8), (33, 1, 3, 3), {"dilation": (1, 2), "padding": (1, 0)}),
    ):
        operands = (normal(*shape), normal(*weight), normal(weight[0]))
        cases.append(Case(f"conv2d {shape} {weight} {changed}", ops.conv2d, operands, convolution(**changed)))
    few = np.round(normal(5, 3, 8, 8))  # maxima are often equal, and the first must be found
    for op in (ops.max_pool2d, ops.avg_pool2d):
        wide = normal(2, 32, 9, 8)
        cases.append(Case(f"{op.name} wide", op, (wide,), {"kernel": (3, 2), "stride": (2, 1), "padding": (1, 1)}))
        cases.append(Case(f"{op.name} few", op, (few,), {"kernel": (3, 3), "stride": (2, 2), "padding": (1, 1)}))
    cases.append(Case("adaptive wide", ops.adaptive_avg_pool2d, (normal(2, 32, 9, 8),), {"size": (4, 3)}))
    for x in (normal(64, 33, 5, 4), normal(3, 1, 7, 7), turned(normal(2, 5, 3, 4))):
        channels = x.shape[1]
        operands = (x, positive(channels), normal(channels))
        cases.append(Case(f"batch_norm {x.shape}", ops.batch_norm, operands, {"epsilon": 1e-5}))
        fixed = (each.astype(np.float32) for each in (normal(channels, seed=1), positive(channels, seed=1)))
        cases.append(
            Case(f"batch_norm given {x.shape}", ops.batch_norm, (*operands, *fixed), {"epsilon": 1e-5}, (3, 4))
        )
    return cases


def _products() -> list[Case]:
    cases = []
    for rows, inner, outputs in ((1, 65, 37), (30, 300, 70), (2, 700, 400), (130, 64, 97)):
        x, weight, bias = normal(rows, inner), normal(inner, outputs) / 8, normal(outputs)
        cases.append(Case(f"linear {rows} {inner}", ops.linear, (x, weight, bias)))
        for activation in ("none", "relu", "gelu"):
            operands = (x, weight, bias, normal(rows, outputs) if activation == "none" else None)
            fixed = () if activation == "none" else (3,)
            cases.append(
                Held(f"fused {activation} {rows}", fused.fused_linear, operands, {"activation": activation}, fixed)
            )
    for causal in (False, True):
        for length, heads, depth in ((1, 2, 8), (20, 4, 24), (130, 2, 64)):
            params = {"heads": heads, "causal": causal}
            packed = normal(2, length, 3 * heads * depth)
            cases.append(Case(f"self_attention {length} {causal}", ops.self_attention, (packed,), params))
        for (queries, keys), depth in (((5, 7), 4), ((1, 33), 40), ((70, 135), 64), ((17, 64), 128)):
            q, k, v = normal(1, 2, queries, depth), normal(1, 2, keys, depth), normal(1, 2, keys, depth, seed=1)
            cases.append(Case(f"attention {queries} {keys} {causal}", ops.attention, (q, k, v), {"causal": causal}))
    q, k, v = normal(2, 9, 3, 8).transpose(0, 2, 1, 3), normal(2, 3, 30, 8), normal(2, 3, 30, 8, seed=1)
    views = (q, k[:, :, :12], v[:, :, ::-1][:, :, :12])  # behind positions, a part of more, and backwards
    cases.append(Case("attention views", ops.attention, views, {"causal": True}))
    return cases


def _codes() -> list[Case]:
    x, maps = normal(20, 96).astype(np.float32), normal(2, 4, 9, 8).astype(np.float32)
    linear, conv = Linear(96, 128, seed=0), Conv2d(4, 18, 3, padding=1, seed=0)
    model = small_gpt()
    coded = quantize_model(model, plan=Coding("weight-only", Scheme(8, per="channel")))

    def step() -> None:
        read = fuse_decoding(model)
        enable_kv_cache(read)
        read(tokens_of(1, 1))

    return [
        seen(quantized_linear, lambda: QuantizedLinear(linear, Coding("dynamic"))(Tensor(x)), (0, 4)),
        seen(quantized_conv2d, lambda: QuantizedConv2d(conv, Coding("dynamic"))(Tensor(maps)), (0, 4)),
        seen(weight_only_linear, lambda: QuantizedLinear(linear, Coding("weight-only"))(Tensor(x)), (0, 4)),
        seen(weight_only_projection, lambda: coded(tokens_of(2, 5))),
        seen(sparse_linear, lambda: SparseLinear(linear)(Tensor(x)), (0, 1, 4)),
        seen(decode_token, step, ()),
    ]


def _single() -> list[Case]:
    x = 3 * normal(3, 37)
    plain: dict[Op, dict[str, Any]] = {
        pointwise.without_nan: {"value": 0.5},
        pointwise.clip: {"low": -1.0, "high": 2.0},
        pointwise.hard_sigmoid: {"slope": 0.2, "shift": 0.5},
    }
    plain |= {getattr(pointwise, name): {} for name in ("erf", "softplus", "floor", "exact_gelu", "ceil")}
    cases = [Case(op.name, op, (x,), params) for op, params in plain.items()]
    cases.append(Case("cast float32", ops.cast, (x,), {"dtype": np.dtype(np.float32)}))
    cases.append(Case("minimum", pointwise.minimum, (x, normal(37))))
    many = 2 * normal(30, 600)
    cases += [Case(f"power {exponent} many", ops.power, (many,), {"exponent": exponent}) for exponent in (2, 3)]
    cases.append(Case("leaky_relu many", ops.leaky_relu, (many,), {"slope": 0.1}))
    for op in (ops.gelu, ops.silu, ops.sigmoid, ops.tanh, ops.relu):
        for kind, layout in (("maps", normal(2, 3, 5, 7).transpose(0, 3, 1, 2)), ("long", 3 * normal(33, 500))):
            cases.append(Case(f"{op.name} {kind}", op, (layout,)))
    return cases


EVERY = [*CASES, *_single(), *_rows(), *_maps(), *_products(), *_codes()]
CORE = [op for op in vars(ops).values() if isinstance(op, Op)]


def cases_of(op: Op) -> list[Case]:
    found = [case for case in EVERY if case.op is op]
    assert found, f"{op.name} has no case"
    return found


def widened(tensors: list[Any]) -> list[Any]:
    """Return float32 operands as float64, in the same order of memory, and all others as they are."""
    wide = []
    for each in tensors:
        floats = isinstance(each, Tensor) and each.data.dtype == np.float32
        wide.append(
            Tensor(each.data.astype(np.float64, order="K"), requires_grad=each.requires_grad) if floats else each
        )
    return wide


def run(case: Case, tensors: list[Any], chosen: Mapping[Op, Implementation], learns: bool = True) -> list[Any]:
    """Return the output and the gradient of every operand."""
    with implementations(chosen), np.errstate(all="ignore"):
        output = case(*tensors)
        if learns and any(isinstance(each, Tensor) and each.requires_grad for each in tensors):
            down = np.random.default_rng(7).normal(size=output.shape).astype(np.float32)
            output.backward(down.astype(output.dtype))
    return [output.data, *(each.grad if isinstance(each, Tensor) else None for each in tensors)]


def assert_near(case: Case, found: list[Any], exact: list[Any]) -> None:
    for one, other in zip(found, exact, strict=True):
        assert (one is None) == (other is None), case.name
        if other is not None:
            assert one.shape == other.shape, case.name
            largest = max(1.0, float(np.abs(other).max(initial=0)))
            np.testing.assert_allclose(one, other, rtol=0, atol=TOLERANCE * largest, err_msg=case.name)


def test_every_core_op_has_a_kernel_or_says_why_not() -> None:
    assert not set(AS_GOOD_IN_NUMPY) & set(kernel_implementations())
    assert set(CORE) == set(AS_GOOD_IN_NUMPY) | (set(kernel_implementations()) & set(CORE))
    for op in (quantized_linear, quantized_conv2d, weight_only_linear, weight_only_projection):
        assert op.default.name == "numba"


@pytest.mark.parametrize("op", [op for op in kernel_implementations() if op not in DRAWN], ids=lambda op: op.name)
def test_a_kernel_does_what_the_reference_does(op: Op, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = {op: kernel_implementations()[op]}
    monkeypatch.setattr(threads, "WORTH_A_THREAD_NS", 1)
    for case in cases_of(op):
        tensors = case.tensors(np.float32)
        exact = run(case, case.tensors(np.float32) if op in ROUNDING else widened(tensors), {op: op.reference})
        before = [each.data.copy() for each in tensors if isinstance(each, Tensor)]
        for count in (1, 2):
            monkeypatch.setattr(threads, "limit", lambda count=count: count)
            for each in tensors:
                if isinstance(each, Tensor):
                    each.grad = None
            found = run(case, tensors, chosen)
            assert all(each is None or each.dtype == np.float32 for each in found), case.name
            assert_near(case, found, exact)
            with no_grad():
                assert_near(case, run(case, tensors, chosen, False)[:1], exact[:1])
            if count == 1:
                alone = found
        for one, other in zip(alone, found, strict=True):
            assert one is other or np.array_equal(one, other, equal_nan=True), f"{case.name}: depends on threads"
        after = [each.data for each in tensors if isinstance(each, Tensor)]
        assert all(map(np.array_equal, before, after)), case.name


#: Python's frames of one call of an op, its own and those of what it calls, and the operands' numbers of a small call.
FRAMES, SMALL = 12, 8_192


def frames_of(op: Op, operands: list[Any], params: dict[str, Any]) -> tuple[int, bool]:
    """Return the frames of Python of a call that is not the first, and whether NumPy's body is among them."""
    apply(op, *operands, **params)
    seen: list[Any] = []
    gc.disable()  # a collection calls what listens to it
    sys.setprofile(lambda frame, event, _: seen.append(frame.f_code) if event == "call" else None)
    try:
        apply(op, *operands, **params)
    finally:
        sys.setprofile(None)
        gc.enable()
    return len(seen), op.reference.forward.__code__ in seen


@pytest.mark.parametrize("op", kernel_implementations(), ids=lambda op: op.name)
def test_a_small_call_is_at_most_a_dozen_frames(op: Op) -> None:
    def size(case: Case) -> int:
        return sum(np.size(each) for each in case.operands)

    cases = sorted((case for case in cases_of(op) if all(np.size(each) for each in case.operands)), key=size)
    with implementations(kernel_implementations()), np.errstate(all="ignore"):
        for case in [case for case in cases if size(case) <= SMALL] or cases[:1]:
            params = {**case.params, "generator": np.random.default_rng(0)} if op in DRAWN else dict(case.params)
            names = [name for name in ("mean", "variance") if op is ops.batch_norm and name in params]
            given = [np.float32(params.pop(name)) for name in names]
            recorded = [each.copy() if isinstance(each, np.ndarray) else each for each in case.tensors(np.float32)]
            plain = [Tensor(each.data) if isinstance(each, Tensor) else each for each in recorded]
            for operands in (plain, recorded):
                count, is_numpy = frames_of(op, [*operands, *given], params)
                assert count <= FRAMES or is_numpy, f"{case.name}: {count}"


class One(Module):
    """One call of an op: its input is an operand, the others are constants."""

    def __init__(self, case: Case, operands: list[Any], place: int) -> None:
        self.case, self.operands, self.place, self.training = case, operands, place, False

    def forward(self, x: Any) -> Tensor:
        operands = list(self.operands)
        operands[self.place] = x
        return -self.case(*operands)  # so that a plan has a step, also where an op is none


@pytest.mark.parametrize("op", bindings(), ids=lambda op: op.name)
def test_a_plan_does_what_the_reference_does(op: Op) -> None:
    planned = 0
    for case in cases_of(op):
        tensors = case.tensors(np.float32)
        place = 0
        x = tensors[place].data
        if not x.ndim or not all(np.size(each) for each in case.operands if each is not None):
            continue
        with no_grad(), implementations({op: op.reference}), np.errstate(all="ignore"):
            exact = -case(*widened(tensors)).data
            if not exact.size:
                continue
            made = plan(One(case, tensors, place), x if case.fixed == (0,) else Tensor(x))
            assert_near(case, [made(x if case.fixed == (0,) else Tensor(x)).data], [exact])
        planned += isinstance(made.program, BlockProgram)
    assert planned, f"no case of {op.name} is run by its entry"


QUERIES = tuple(normal(1, 2, 70, 8, seed=i) for i in range(3))
#: Calls, and whether gradients are NumPy's too where something is not finite.
ODD: list[tuple[Case, bool]] = [
    *[(Case(op.name, op, (normal(3, 20),)), False) for op in (ops.gelu, ops.silu, ops.sigmoid, ops.tanh, ops.softmax)],
    *[(Case(op.name, op, (normal(3, 20),)), True) for op in (ops.relu, ops.max_)],
    *[(case, False) for case in CASES if case.name in ("layer_norm matrix", "batch_norm plain")],
    *[(case, True) for case in CASES if case.op is ops.conv2d and "groups" in case.name],
    *[(case, True) for case in CASES if case.op in (ops.max_pool2d, ops.avg_pool2d) and "(3, 2) (1, 2)" in case.name],
    *[(Case(f"attention {causal}", ops.attention, QUERIES, {"causal": causal}), True) for causal in (False, True)],
]


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(("case", "backward"), ODD, ids=lambda value: getattr(value, "name", ""))
def test_what_is_not_finite_spreads_as_in_numpy(case: Case, backward: bool, odd: float) -> None:
    for operand, whole in enumerate(case.operands):
        for place in (1, whole.size // 2, whole.size - 2):
            tensors = case.tensors(np.float32)
            tensors[operand].data.reshape(-1)[place] = odd
            exact = run(case, widened(tensors), {})
            found = run(case, tensors, {case.op: kernel_implementations()[case.op]})
            for one, other in list(zip(found, exact, strict=True))[: None if backward else 1]:
                np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4, err_msg=f"{operand} {place}")


@pytest.mark.parametrize("op", [ops.gelu, ops.silu, ops.sigmoid, ops.tanh, ops.relu], ids=lambda op: op.name)
def test_extremes_are_numpy_s(op: Op) -> None:
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e30, -1e30, 100, -100, 1e-40], np.float32)
    with np.errstate(all="ignore"):
        found, exact = (each.forward(False, x)[0] for each in (kernel_implementations()[op], op.reference))
    np.testing.assert_allclose(found, exact, rtol=5e-7, atol=1e-37)
