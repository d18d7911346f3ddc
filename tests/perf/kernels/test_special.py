"""What is special of single kernels: tails, dropout, geometry, memory, refusals; and entry points of plans."""

import re
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit, types

from tests.core.cases import Case, Recorder, convolution, normal
from tests.core.test_values import convolutions
from tests.perf.kernels.test_registry import assert_near, run, widened
from tinytorch.core import ops
from tinytorch.core.dispatch import apply, implementations, observed_by
from tinytorch.core.op import Array, Op, Work
from tinytorch.core.tensor import Tensor
from tinytorch.perf.kernels import pointwise
from tinytorch.perf.kernels.gemm.register_tiles import LANES
from tinytorch.perf.kernels.gemm.row_products import row_product
from tinytorch.perf.kernels.plan_ops import conv_pool
from tinytorch.perf.kernels.plan_ops.binding import (
    Binder,
    Buffer,
    Constants,
    RecordedOp,
    Value,
    View,
    joined_axes,
    lay_out,
)
from tinytorch.perf.kernels.plan_ops.driver import FRAME, PATCH, WORDS, Entry, address_of, replay
from tinytorch.perf.kernels.registry import kernel_implementations
from tinytorch.perf.kernels.runtime.evidence import packed_instructions
from tinytorch.perf.kernels.runtime.flat import floats_at
from tinytorch.perf.kernels.runtime.vectors import compiled
from tinytorch.perf.measuring import blas_threads

EPSILON = float(np.finfo(np.float32).eps)


def drawn(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(0, 2, shape).astype(np.float32)


def test_gelu_keeps_its_relative_error_in_the_negative_tail() -> None:
    x = np.linspace(-10, 10, 40_001).astype(np.float32)
    wanted = x.astype(np.float64)
    u = np.sqrt(2 / np.pi) * (wanted + 0.044715 * wanted**3)
    exact = wanted / (1 + np.exp(-2 * u))
    found = kernel_implementations()[ops.gelu].forward(False, x)[0]
    bound = (2 + 1.5 * np.abs(2 * u)) * EPSILON * np.abs(exact)
    assert np.all(np.abs(found - exact) <= bound)


def splitmix64(seed: int, index: int) -> int:
    """Return a number of the sequence as its authors' paper gives it, in whole numbers of any size."""
    z = (seed + (index + 1) * 0x9E3779B97F4A7C15) % 2**64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return z ^ (z >> 31)


@given(seed=st.integers(0, 2**64 - 1), index=st.integers(0, 2**40))
@settings(deadline=None)
def test_dropout_s_numbers_are_splitmix64_s_with_products_of_64_bits_and_of_32(seed: int, index: int) -> None:
    expected = splitmix64(seed, index)
    assert pointwise.random_bits(np.uint64(seed), np.uint64(index)) == expected
    z = (seed + (index + 1) * 0x9E3779B97F4A7C15) % 2**64
    assert pointwise.upper_bits(np.uint64(z)) == expected >> 32


@pytest.mark.parametrize("by_halves", [True, False])
def test_dropout_drops_the_same_with_either_product(by_halves: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pointwise, "BY_HALVES", by_halves)
    share = compiled(
        pointwise.dropout_share.py_func, "void(int64, int64, float32[::1], float32[::1], uint64, uint64, float32)"
    )
    x, output = np.ones(1000, np.float32), np.full(1000, np.nan, np.float32)
    share(3, 990, x, output, np.uint64(2**63 + 5), np.uint64(2**30), np.float32(1.5))
    kept = [splitmix64(2**63 + 5, index) >= 2**62 for index in range(3, 990)]
    assert np.array_equal(output[3:990], np.where(kept, 1.5, 0))
    assert np.isnan(output[:3]).all()
    assert np.isnan(output[990:]).all()


def test_dropout_drops_its_share_scales_the_rest_and_remembers_for_backward() -> None:
    kernel = kernel_implementations()[ops.dropout]
    x = np.ones((400, 500), np.float32)
    output, saved = kernel.forward(True, x, probability=0.25, generator=np.random.default_rng(0))
    dropped = float(np.mean(output == 0))
    assert abs(dropped - 0.25) < 5 * np.sqrt(0.25 * 0.75 / x.size)
    assert set(np.unique(output)) == {0.0, np.float32(1 / 0.75)}
    np.testing.assert_array_equal(kernel.backward(x, saved, (True,), False)[0], output)
    again, other = (
        kernel.forward(False, x, probability=0.25, generator=np.random.default_rng(seed))[0] for seed in (0, 1)
    )
    assert np.array_equal(again, output)
    assert not np.array_equal(other, output)


def test_many_rows_far_from_zero_keep_their_variance() -> None:
    x = (drawn(100, 2, 20, 20) + 301).astype(np.float32)
    statistics: list[Array] = []
    kernel_implementations()[ops.batch_norm].forward(
        False, x, np.ones(2, np.float32), np.zeros(2, np.float32), epsilon=0.0, statistics=statistics
    )
    wide = x.astype(np.float64)
    np.testing.assert_allclose(statistics[0], wide.mean(axis=(0, 2, 3)), rtol=1e-6)
    np.testing.assert_allclose(statistics[1], wide.var(axis=(0, 2, 3), ddof=1), rtol=1e-4)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(case=convolutions(5))
def test_convolutions_of_any_geometry_and_their_gradients(case: Case) -> None:
    tensors = case.tensors(np.float32)
    assert_near(case, run(case, tensors, kernel_implementations()), run(case, widened(tensors), {}))


def test_large_scores_do_not_overflow() -> None:
    q = np.full((1, 1, 20, 8), 1e3, np.float32)
    case = Case("attention", ops.attention, (q, q, drawn(1, 1, 20, 8)), {"causal": True})
    found = run(case, case.tensors(np.float32), kernel_implementations())
    assert all(np.isfinite(each).all() for each in found if each is not None)


def peak(length: int) -> int:
    """Return the bytes that forward and backward hold at most, beyond the operand."""
    packed = Tensor(drawn(1, length, 3 * 16), requires_grad=True)
    with implementations(kernel_implementations()):
        tracemalloc.start()
        try:
            apply(ops.self_attention, packed, heads=1, causal=True).sum().backward()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()


def test_memory_grows_linearly_with_the_length() -> None:
    """All scratch that grows is NumPy's, so that it is counted; the matrix of scores alone would be 64 MiB at 4096."""
    with blas_threads(1):
        peak(64)
        short, middle, long = peak(1024), peak(2048), peak(4096)
    assert long < 4096 * 4096 * 4 / 8
    assert (long - middle) / (middle - short) == pytest.approx(2, rel=0.1)


def test_only_visible_scores_are_counted_and_backward_makes_them_again() -> None:
    arrays = [Tensor(array, requires_grad=True) for array in (drawn(2, 3, 5, 4), drawn(2, 3, 7, 4), drawn(2, 3, 7, 4))]
    recorder = Recorder()
    with implementations(kernel_implementations()), observed_by(recorder):
        apply(ops.attention, *arrays, causal=True).sum().backward()
    macs = {call.phase: call.work.macs for call in recorder.calls if call.op is ops.attention}
    pairs = 2 * 3 * 4 * (3 + 4 + 5 + 6 + 7)
    assert macs == {"forward": 2 * pairs, "backward": 5 * pairs}


def test_no_position_attends_to_nothing() -> None:
    with implementations(kernel_implementations()):
        assert apply(ops.self_attention, Tensor(drawn(2, 0, 24)), heads=2, causal=True).shape == (2, 0, 8)


WINDOW = {"kernel": (2, 2), "stride": (2, 2), "padding": (0, 0)}
#: What the reference runs: other dtypes, nothing, windows of more taps than a byte numbers.
LEFT: list[tuple[Op, tuple[Array, ...], dict[str, Any]]] = [
    *[(op, (normal(4, 6),), {}) for op in (ops.gelu, ops.softmax)],
    (ops.conv2d, (normal(2, 3, 5, 5), normal(4, 3, 3, 3)), convolution()),
    (ops.conv2d, (drawn(0, 3, 5, 5), drawn(4, 3, 3, 3)), convolution()),
    (ops.attention, tuple(normal(1, 2, 6, 8, seed=i) for i in range(3)), {"causal": True}),
    (ops.self_attention, (drawn(0, 5, 24),), {"heads": 2, "causal": True}),
    (ops.max_pool2d, (drawn(0, 3, 4, 4),), WINDOW),
    (ops.avg_pool2d, (drawn(2, 0, 4, 4),), WINDOW),
    (ops.max_pool2d, (drawn(1, 2, 20, 20),), {"kernel": (17, 17), "stride": (1, 1), "padding": (0, 0)}),
    (ops.avg_pool2d, (normal(1, 2, 20, 20),), WINDOW),
    (ops.power, (np.abs(drawn(4, 6)),), {"exponent": 1.5}),
]


@pytest.mark.parametrize(("op", "arrays", "params"), LEFT, ids=lambda value: getattr(value, "name", ""))
def test_what_no_kernel_is_for_is_the_reference_s(op: Op, arrays: tuple[Array, ...], params: dict[str, Any]) -> None:
    case = Case(op.name, op, arrays, params)
    tensors = [[Tensor(array, requires_grad=True) for array in arrays] for _ in range(2)]
    for one, other in zip(
        run(case, tensors[0], kernel_implementations()), run(case, tensors[1], {op: op.reference}), strict=True
    ):
        np.testing.assert_array_equal(one, other)


def _add_number(w: Any) -> None:
    floats_at(w.place, 1)[0] += w.whole + w.part


def test_the_loop_calls_each_row_with_its_own_words() -> None:
    entry = [Entry(_add_number, "place whole", "part") for _ in range(2)][1]  # the second is read from disk
    numbers = np.zeros(3, np.float32)
    rows = np.zeros((3, WORDS), np.int64)
    for index in range(3):
        rows[index, :3] = entry.address, address_of(numbers) + 4 * index, 10**index
        rows[index, 3:4].view(np.float64)[:] = 0.5
    patches = np.zeros(0, PATCH)
    frames = np.array([(address_of(rows), address_of(patches), 3, 0, 0, 0)], FRAME).view(np.int64)
    replay(0, 1, frames, numbers, numbers, 4)
    assert numbers.tolist() == [6, 42, 402]


@pytest.mark.parametrize(
    ("function", "takes"),
    [
        (row_product.py_func, (types.float32[::1],) * 4 + (types.int64,)),
        (conv_pool.convolve_windows.compiled.py_func, (types.int64,)),
    ],
)
def test_the_innermost_loops_are_of_packed_multiply_adds(function: Any, takes: tuple[Any, ...]) -> None:
    version = njit(nogil=True, error_model="numpy")(function)
    version.compile(takes)
    # What it calls is inlined, or beside it in its library.
    (made,) = version.overloads.values()
    found = packed_instructions(made.library.get_asm_str())
    register = "zmm" if LANES == 16 else r"\w+"
    kinds = [name for name in found if re.fullmatch(rf"(vfmadd\w+|fmla|mulps) {register}", name)]
    assert sum(found[name] for name in kinds) >= 12, found


def array(*shape: int) -> Array:
    return np.zeros(shape, np.float32)


def test_neighbours_that_lie_in_a_row_are_one_axis() -> None:
    maps = array(2, 8, 4, 3)[:, :, 1:3]
    strides = tuple(stride // 4 for stride in maps.strides)
    assert joined_axes(maps.shape, [strides], 4) == ([1, 1, 16, 6], [[0, 0, 12, 1]])
    assert joined_axes((1, 5, 1), [(99, 1, 7)], 2) == ([1, 5], [[0, 1]])


def test_buffers_overlap_only_if_their_lives_do_not() -> None:
    draw = np.random.default_rng(0)
    buffers = []
    for _ in range(200):
        first = int(draw.integers(0, 50))
        buffers.append(Buffer("arena", int(draw.integers(1, 5000)), first=first, last=first + int(draw.integers(0, 9))))
    end = lay_out(buffers)
    assert end < sum(buffer.floats for buffer in buffers)
    for one in buffers:
        assert one.start + one.floats <= end
        for other in buffers:
            if one is other or one.last < other.first or other.last < one.first:
                continue
            assert one.start + one.floats <= other.start or other.start + other.floats <= one.start


def test_views_see_the_same_memory_and_the_first_step_of_an_op_carries_its_work() -> None:
    binder = Binder(Constants(), np.zeros(1, np.int64))
    made = Value((6, 4), np.dtype(np.float32))
    node = RecordedOp(ops.relu, (made,), {}, made, Work(elementwise=24), "relu", "")
    binder.begin(node)
    whole = binder.new((4, 6))
    turned = whole.moved(lambda each: each.T)
    assert (turned.buffer, turned.shape, turned.strides) == (whole.buffer, (6, 4), (1, 6))
    copied = binder.contiguous(turned)
    assert isinstance(copied, View)
    assert copied.buffer is not whole.buffer
    assert [getattr(step, "work", None) for step in binder.steps] == [Work()]
    assert binder.contiguous(whole).buffer is whole.buffer
