"""That kernels are made of packed instructions, their innermost loops of registers alone."""

import re
from typing import Any

import pytest
from numba import config as numba_config
from numba import types

from tinytorch.perf.kernels import normalization, optimizers, pointwise, pooling, softmax
from tinytorch.perf.kernels.attention.vectors import weigh
from tinytorch.perf.kernels.gemm import register_tiles
from tinytorch.perf.kernels.gemm.register_tiles import LANES, ROWS, tile
from tinytorch.perf.kernels.runtime import vectors
from tinytorch.perf.kernels.runtime.evidence import evidence
from tinytorch.perf.kernels.runtime.vectors import compiled

SPAN, FLAT, MATRIX, MAPS, PAIR = (
    "int64, int64",
    "float32[::1]",
    "float32[:,::1]",
    "float32[:,:,:,::1]",
    "UniTuple(int64, 2)",
)
SHARES: dict[str, tuple[Any, str]] = {
    "gelu": (pointwise.gelu_share, f"{SPAN}, {FLAT}, {FLAT}"),
    "gelu backward": (pointwise.gelu_backward_share, f"{SPAN}, {FLAT}, {FLAT}, {FLAT}"),
    "softmax": (softmax.softmax_row, f"{FLAT}, {FLAT}"),
    "layer norm": (normalization.layer_norm_share, f"{SPAN}, {MATRIX}, {FLAT}, {FLAT}, float32, {MATRIX}, {MATRIX}"),
    "cross-entropy": (softmax.cross_entropy_share, f"{SPAN}, {MATRIX}, int64[::1], float64[::1], {MATRIX}"),
    "bias gelu": (pointwise.bias_gelu_share, f"{SPAN}, {MATRIX}, {FLAT}, {MATRIX}"),
    "dropout": (pointwise.dropout_share, f"{SPAN}, {FLAT}, {FLAT}, uint64, uint64, float32"),
    "adam": (optimizers.adam_line, f"{FLAT}, {FLAT}, {FLAT}, {FLAT}, {FLAT}"),
    "batch norm": (
        normalization.normalize,
        f"{MATRIX}, {FLAT}, {FLAT}, float64, {MATRIX}, {MATRIX}, float64[:,::1]",
    ),
    "batch norm backward": (
        normalization.normalize_backward,
        f"{MATRIX}, {MATRIX}, {FLAT}, {MATRIX}, {MATRIX}, float64[:,::1]",
    ),
    "mean pool": (pooling.mean_of, f"int64, {PAIR}, {PAIR}, float32, int64, int64"),
    "max pool": (pooling.max_of, f"int64, {PAIR}, {PAIR}, int64, int64"),
}


@pytest.mark.parametrize("name", SHARES)
def test_kernels_are_made_of_packed_instructions(name: str) -> None:
    share, types = SHARES[name]
    found = evidence(compiled(share.py_func, f"void({types})"))
    # A loop of SVE's takes one vector at a time, of whatever length; others take several.
    least = 4 if any(kind.endswith(" z") for kind in found) else 8
    assert sum(count for kind, count in found.items() if not kind.startswith(("vmov", "mov"))) >= least, found


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
