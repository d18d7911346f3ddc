"""Sparse storage and its product: against float64 NumPy, SciPy's bytes and finite differences."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.cases import check_gradients
from tests.perf.quantization.small_zoo import batch, make
from tests.perf.small_models import drawn
from tinytorch import models
from tinytorch.core.dispatch import apply, implementations, no_grad
from tinytorch.core.layers import Linear
from tinytorch.core.module import Parameter
from tinytorch.core.op import Array, Implementation
from tinytorch.core.optimizers import SGD
from tinytorch.core.tensor import Tensor
from tinytorch.core.training import train_step
from tinytorch.perf.compression import (
    SparseLinear,
    csr_nbytes,
    layer_sparsity,
    magnitude_prune,
    measure_sparsity,
    sparse_model,
)
from tinytorch.perf.kernels import sparse
from tinytorch.perf.kernels.runtime import threads, vectors
from tinytorch.perf.kernels.runtime.evidence import evidence
from tinytorch.perf.ops.sparse import matrix_of, sparse_linear
from tinytorch.perf.profiling import Profiler
from tinytorch.perf.quantization import stored_bytes

WAYS = [sparse_linear.reference, *sparse.IMPLEMENTATIONS.values()]


def pruned(depth: int, width: int, sparsity: float, seed: int = 0, bias: bool = True) -> Linear:
    layer: Any = magnitude_prune(Linear(depth, width, bias=bias, seed=seed), sparsity)
    return layer


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
@given(st.integers(0, 140), st.integers(1, 70), st.integers(1, 40), st.sampled_from([0, 0.5, 0.9, 1]), st.booleans())
@settings(max_examples=25, deadline=None)
def test_products_are_those_of_the_dense_weight(
    way: Implementation, rows: int, depth: int, width: int, sparsity: float, bias: bool
) -> None:
    layer = pruned(depth, width, sparsity, bias=bias)
    twin, x = SparseLinear(layer), drawn(rows, depth)
    expected = x.astype(np.float64) @ layer.weight.data
    if layer.bias is not None:
        expected += layer.bias.data
    with implementations({sparse_linear: way}):
        got = twin(Tensor(x)).data
        flipped = twin(Tensor(np.asfortranarray(x)[::-1])).data
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(flipped, expected[::-1], rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(twin.dense(), layer.weight.data)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_more_axes_other_dtypes_and_numbers_that_are_none(way: Implementation) -> None:
    twin = SparseLinear(pruned(9, 4, 0.5))
    with implementations({sparse_linear: way}):
        assert twin(Tensor(drawn(2, 3, 9))).shape == (2, 3, 4)
        assert twin(Tensor(drawn(9))).shape == (4,)
        assert twin(Tensor(drawn(2, 9).astype(np.float64))).dtype == np.float64
        x = drawn(70, 9)
        x[3, 2], x[5] = np.inf, np.nan
        got = twin(Tensor(x)).data
        with pytest.raises(ValueError, match="the last axis"):
            twin(Tensor(drawn(2, 8)))
    reads = twin.dense()[2] != 0
    np.testing.assert_array_equal(np.isfinite(got[3]), ~reads)
    assert np.isnan(got[5]).all()
    rest = np.delete(np.arange(70), [3, 5])
    assert twin.bias is not None
    np.testing.assert_allclose(got[rest], x[rest] @ twin.dense() + twin.bias.data, rtol=1e-4, atol=1e-5)


def test_a_block_of_rows_is_multiplied_in_packed_instructions() -> None:
    flat, span = "float32[::1]", "int64, int64"
    signature = f"void({span}, {flat}, {flat}, uint16[::1], int32[::1], {flat})"
    found = evidence(vectors.compiled(sparse.sparse_block.py_func, signature))
    sums = [count for name, count in found.items() if re.match(r"vfmadd|v?mulps|fmla", name)]
    assert sum(sums) >= 4, found


def test_no_vector_of_a_block_crosses_a_cache_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever NumPy's arrays happen to begin, those of a block begin at a multiple of the widest vector."""
    begins: list[int] = []
    split = threads.split

    def watched(kernel: Any, count: int, cost: float, *arrays: Array) -> None:
        begins.extend(each.ctypes.data % 64 for each in (arrays[0], arrays[-1]))
        split(kernel, count, cost, *arrays)

    monkeypatch.setattr(threads, "split", watched)
    with no_grad(), implementations({sparse_linear: sparse.IMPLEMENTATIONS[sparse_linear]}):
        for depth in range(8, 1032, 64):
            SparseLinear(pruned(depth, depth + 8, 0.5))(Tensor(drawn(70, depth)))
    assert begins == [0] * 64, "tile and sums of two blocks of each layer"


def test_gradients_of_input_values_and_bias() -> None:
    twin = SparseLinear(pruned(5, 4, 0.5))
    x, values, bias = (
        Parameter(np.asarray(each, np.float64)) for each in (drawn(3, 5), twin.values.data, np.arange(4.0))
    )
    indices, starts = twin.indices.data, twin.starts.data
    check_gradients(lambda x, v, b: apply(sparse_linear, x, v, indices, starts, b, in_features=5), x, values, bias)
    check_gradients(lambda x, v: apply(sparse_linear, x, v, indices, starts, in_features=5), x, values)


def test_bytes_and_flops_are_those_of_the_weights_that_are_left() -> None:
    twin = SparseLinear(pruned(300, 200, 0.9))
    theirs = matrix_of(twin.values.data, twin.indices.data, twin.starts.data, 300)
    assert twin.values.size == theirs.nnz == 6000
    assert theirs.data.nbytes + theirs.indices.nbytes // 2 + theirs.indptr.nbytes == twin.weight_nbytes
    assert twin.weight_nbytes == csr_nbytes(300, 200, 6000) == stored_bytes(twin) - 800
    assert layer_sparsity(twin)[0].stored_bytes == twin.weight_nbytes
    assert measure_sparsity(twin) == 100 * twin.sparsity == pytest.approx(90)
    assert Profiler().count_flops(twin, (7, 300)) == 2 * 6000
    with Profiler() as profiler:
        twin(Tensor(np.ones((7, 300), np.float32), requires_grad=True)).sum().backward()
    flops = [event.flops for event in profiler.run.events if event.op == "sparse_linear"]
    assert flops == [7 * 12_000, 2 * 7 * 12_000], "forward and backward"
    wide, x = SparseLinear(pruned(70_000, 2, 0.999, bias=False)), drawn(3, 70_000)
    assert wide.indices.dtype == np.int32
    np.testing.assert_allclose(wide(Tensor(x)).data, x @ wide.dense(), rtol=1e-3, atol=1e-4)


def test_a_sparse_model_replaces_what_gets_smaller_and_trains(tmp_path: Path) -> None:
    model: Any = magnitude_prune(make("mlp"), 0.95, keep=["5"])
    small: Any = sparse_model(model)
    assert [type(layer).__name__ for layer in small][1::2] == ["SparseLinear", "SparseLinear", "Linear"]
    assert stored_bytes(small) < 0.2 * stored_bytes(model)
    with no_grad():
        np.testing.assert_allclose(small(batch("mlp")).data, model(batch("mlp")).data, rtol=1e-4, atol=1e-5)
    optimizer = SGD(small.parameters(), lr=0.05)
    targets = models.entry("mlp").example_target(5)
    losses = [train_step(small, batch("mlp"), targets, models.loss_function(), optimizer) for _ in range(8)]
    assert losses[-1] < losses[0]
    small.save(tmp_path / "small.npz")
    again = sparse_model(model).load(tmp_path / "small.npz")
    np.testing.assert_array_equal(again(batch("mlp")).data, small(batch("mlp")).data)
    layer = Linear(2, 2, seed=0)
    layer.weight.data[0, 0] = np.nan
    with pytest.raises(ValueError, match="sparse enough"):
        sparse_model(make("mlp"))
    with pytest.raises(ValueError, match="least_sparsity"):
        sparse_model(model, 1.5)
    with pytest.raises(ValueError, match="finite weights"):
        SparseLinear(layer)
