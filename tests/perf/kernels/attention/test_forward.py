"""The attention kernels against float64 NumPy, the op's own reference, and what they may keep in memory."""

from __future__ import annotations

import re
import tracemalloc
from typing import Any

import numpy as np
import pytest
from numba import config as numba_config
from numba import types

from tests.core.recording import Recorder
from tinytorch.core import ops
from tinytorch.core.dispatch import apply, implementations, no_grad, observed_by
from tinytorch.core.op import Array
from tinytorch.core.tensor import Tensor
from tinytorch.perf.kernels.attention.implementations import IMPLEMENTATIONS
from tinytorch.perf.kernels.attention.vectors import weigh
from tinytorch.perf.kernels.gemm import register_tiles
from tinytorch.perf.kernels.gemm.register_tiles import LANES, ROWS, tile
from tinytorch.perf.kernels.runtime import threads, vectors
from tinytorch.perf.kernels.runtime.evidence import evidence
from tinytorch.perf.measuring import blas_threads

#: Of float32 sums over at most 135 keys and 128 columns, relative to the largest element: about 50 roundings of 6e-8.
TOLERANCE = 3e-6
CASES = [
    ((1, 1), (1, 1), 1),
    ((2, 3), (5, 7), 4),
    ((2, 2), (20, 20), 24),
    ((1, 2), (1, 33), 40),
    ((1, 2), (70, 135), 64),
    ((1, 1), (17, 64), 128),
]


def drawn(*shape: int, seed: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def operands(lead: tuple[int, int], lengths: tuple[int, int], depth: int) -> list[Array]:
    return [drawn(*lead, length, depth, seed=i) for i, length in enumerate((lengths[0], lengths[1], lengths[1]))]


def run(op: Any, arrays: list[Array], down: Array | None, chosen: Any, **params: Any) -> list[Array]:
    """Return the output and the gradients of all operands."""
    tensors = [Tensor(array, requires_grad=True) for array in arrays]
    with implementations(chosen):
        made = apply(op, *tensors, **params)
    made.backward(np.ones_like(made.data) if down is None else down)
    return [made.data, *[np.asarray(tensor.grad) for tensor in tensors]]


def assert_near(found: list[Array], exact: list[Array], scale: float = 1.0) -> None:
    for one, other in zip(found, exact, strict=True):
        assert one.dtype == np.float32
        assert one.shape == other.shape
        largest = max(float(np.abs(other).max(initial=0)), scale)
        np.testing.assert_allclose(one, other, rtol=0, atol=TOLERANCE * largest)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("lead", "lengths", "depth"), CASES)
def test_output_and_gradients_are_those_of_float64(lead: Any, lengths: Any, depth: int, causal: bool) -> None:
    arrays = operands(lead, lengths, depth)
    down = drawn(*arrays[0].shape, seed=9)
    before = [array.copy() for array in arrays]
    found = run(ops.attention, arrays, down, IMPLEMENTATIONS, causal=causal)
    exact = run(
        ops.attention, [array.astype(np.float64) for array in arrays], down.astype(np.float64), {}, causal=causal
    )
    assert_near(found, exact)
    for array, kept in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, kept)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("length", "heads", "depth"), [(1, 2, 8), (20, 3, 24), (130, 2, 64)])
def test_packed_operands(length: int, heads: int, depth: int, causal: bool) -> None:
    packed = drawn(2, length, 3 * heads * depth, seed=3)
    down = drawn(2, length, heads * depth, seed=4)
    found = run(ops.self_attention, [packed], down, IMPLEMENTATIONS, heads=heads, causal=causal)
    wide = packed.astype(np.float64)
    exact = run(ops.self_attention, [wide], down.astype(np.float64), {}, heads=heads, causal=causal)
    assert_near(found, exact)


def test_views_are_read_where_they_lie() -> None:
    """Heads behind positions, part of a longer cache, and an axis that runs backwards."""
    q, k, v = drawn(2, 9, 3, 8, seed=0).transpose(0, 2, 1, 3), drawn(2, 3, 30, 8, seed=1), drawn(2, 3, 30, 8, seed=2)
    arrays = [q, k[:, :, :12], v[:, :, ::-1][:, :, :12]]
    found = run(ops.attention, arrays, None, IMPLEMENTATIONS, causal=True)
    exact = run(ops.attention, [array.astype(np.float64) for array in arrays], None, {}, causal=True)
    assert_near(found, exact)


def test_only_wanted_gradients_are_handed_out() -> None:
    q, k, v = (Tensor(array) for array in operands((1, 1), (4, 4), 8))
    k.requires_grad = True
    with implementations(IMPLEMENTATIONS):
        made = apply(ops.attention, q, k, v, causal=False)
    made.backward(np.ones_like(made.data))
    assert k.grad is not None
    assert q.grad is None
    assert v.grad is None


@pytest.mark.parametrize("shape", [(0, 5, 24), (2, 0, 24)])
def test_nothing_in_nothing_out(shape: tuple[int, ...]) -> None:
    with implementations(IMPLEMENTATIONS), no_grad():
        made = apply(ops.self_attention, Tensor(np.zeros(shape, np.float32)), heads=2, causal=True)
    assert made.shape == (*shape[:2], shape[2] // 3)


def test_float64_is_the_references() -> None:
    arrays = [array.astype(np.float64) for array in operands((1, 2), (6, 6), 8)]
    for one, other in zip(
        run(ops.attention, arrays, None, IMPLEMENTATIONS, causal=True),
        run(ops.attention, arrays, None, {}, causal=True),
        strict=True,
    ):
        np.testing.assert_array_equal(one, other)


def test_shapes_that_do_not_fit_are_named() -> None:
    q = Tensor(drawn(1, 1, 3, 4, seed=0))
    with implementations(IMPLEMENTATIONS), pytest.raises(ValueError, match="at least as many keys as queries"):
        apply(ops.attention, q, *[Tensor(drawn(1, 1, 2, 4, seed=1))] * 2, causal=True)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("operand", [0, 1, 2])
def test_what_is_not_finite_spreads_as_in_numpy(operand: int, odd: float, causal: bool) -> None:
    arrays = operands((1, 2), (70, 70), 8)
    arrays[operand][0, 1, 66, 3] = odd
    with np.errstate(invalid="ignore"):
        exact = run(ops.attention, [array.astype(np.float64) for array in arrays], None, {}, causal=causal)
    found = run(ops.attention, arrays, None, IMPLEMENTATIONS, causal=causal)
    for one, other in zip(found, exact, strict=True):
        np.testing.assert_array_equal(np.isnan(one), np.isnan(other))
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


def test_large_scores_do_not_overflow() -> None:
    q = np.full((1, 1, 20, 8), 1e3, np.float32)
    found = run(ops.attention, [q, q, drawn(1, 1, 20, 8, seed=1)], None, IMPLEMENTATIONS, causal=True)
    assert all(np.isfinite(array).all() for array in found)


def test_threads_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "WORTH_A_THREAD_NS", 1)
    packed = drawn(1, 200, 3 * 3 * 16, seed=0)
    results = []
    for count in (1, 2):
        with blas_threads(count):
            results.append(run(ops.self_attention, [packed], None, IMPLEMENTATIONS, heads=3, causal=True))
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)


def peak(length: int) -> int:
    """Return the bytes that forward and backward hold at most, beyond the operand."""
    packed = Tensor(drawn(1, length, 3 * 16, seed=0), requires_grad=True)
    with implementations(IMPLEMENTATIONS):
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
    arrays = [Tensor(array, requires_grad=True) for array in operands((2, 3), (5, 7), 4)]
    recorder = Recorder()
    with implementations(IMPLEMENTATIONS), observed_by(recorder):
        apply(ops.attention, *arrays, causal=True).sum().backward()
    macs = {call.phase: call.work.macs for call in recorder.calls if call.op is ops.attention}
    pairs = 2 * 3 * 4 * (3 + 4 + 5 + 6 + 7)
    assert macs == {"forward": 2 * pairs, "backward": 5 * pairs}


@pytest.mark.parametrize("features", ["+avx512f,+avx2", "+avx2,+fma", "+neon,+dotprod", ""])
def test_a_tile_has_no_more_rows_than_a_vector_has_floats(features: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels lay keys in panels of as many, and hold as many offsets: a taller tile read beyond both."""
    monkeypatch.setattr(numba_config, "CPU_FEATURES", features)
    lanes, rows = register_tiles._register_file()
    assert rows <= lanes
    assert lanes % rows == 0


def test_products_and_exponentials_are_packed_instructions() -> None:
    floats, offsets, size = types.float32[::1], types.int64[::1], types.int64

    def multiply(target: Any, rows: Any, x: Any, y: Any, count: Any) -> None:
        tile(2, 1, target, 0, rows, x, 0, rows, y, 0, (1, 1, count), (0, 0, 1), (0, 0, 32))

    def exponentiate(block: Any, rows: Any, held: Any) -> None:
        weigh(block, 0, rows, 32, held, held, held, 0)

    products = evidence(vectors.compiled(multiply, types.void(floats, offsets, floats, floats, size)))
    exponentials = evidence(vectors.compiled(exponentiate, types.void(floats, size, floats)))
    width = " v" if "neon" in vectors.cpu_features() else {16: "zmm", 8: "ymm"}.get(LANES, "")
    multiply_adds = [count for name, count in products.items() if re.search(f"(fmadd|fmla).*{width}$", name)]
    assert sum(multiply_adds) >= 2 * ROWS
    assert any(re.search(f"(fmadd|fmla).*{width}$", name) for name in exponentials)
