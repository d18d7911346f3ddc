"""Vector code: what assembly shows, what features CPUs have, and functions of vectors in units of the last place."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from llvmlite import binding
from numba import config as numba_config
from numba import types
from scipy.special import erf, expit

from tinytorch.core.op import Array
from tinytorch.perf.kernels import normalization, optimizers, pointwise, pooling, probes, row_ops
from tinytorch.perf.kernels.attention.forward import weigh
from tinytorch.perf.kernels.gemm import register_tiles
from tinytorch.perf.kernels.gemm.register_tiles import LANES, ROWS, tile
from tinytorch.perf.kernels.runtime import vector_math, vectors
from tinytorch.perf.kernels.runtime.compiling import kernel
from tinytorch.perf.kernels.runtime.evidence import evidence, function_assembly, packed_instructions, spills
from tinytorch.perf.kernels.runtime.vectors import arm_features, compiled, cpu_features

ASSEMBLY = """
	.p2align	4
.LBB0_4:
	vaddps	(%rcx,%r9,4), %zmm7, %zmm7
	vaddps	64(%rcx,%r9,4), %zmm6, %zmm6
	vfmadd213ps	%ymm1, %ymm0, %ymm2
	mulps	%xmm1, %xmm2
	vaddss	%xmm1, %xmm0, %xmm1
	vmovss	%xmm0, (%rdi)
	vpdpbusd	%zmm1, %zmm2, %zmm3
	movq	%rdx, (%rdi)
	popq	%rbp
	fmla	v0.4s, v1.4s, v2.4s
	mov	v0.s[1], v1.s[0]
	fmul	z0.s, z1.s, z2.s
	fadd	s0, s1, s2
	fmla.4s	v0, v1, v2[0]
	ld1.4s	{ v0 }, [x0]
	mov.s	v0[1], v1[0]
	b.ne	LBB0_4
	retq
"""


def test_packed_instructions_are_counted_with_their_widest_register() -> None:
    assert packed_instructions(ASSEMBLY) == {
        "fmla v": 2,
        "fmul z": 1,
        "ld1 v": 1,
        "mulps xmm": 1,
        "vaddps zmm": 2,
        "vfmadd213ps ymm": 1,
        "vpdpbusd zmm": 1,
    }
    with pytest.raises(ValueError, match="loop"):
        spills(ASSEMBLY, 12)


def test_the_chains_have_no_packed_instruction_and_their_assembly_is_theirs_alone() -> None:
    assert evidence(probes.integer_chain()) == {}
    assert evidence(probes.chase()) == {}
    assembly = function_assembly(probes.chase())
    assert "cpython" not in assembly
    assert "PyErr" not in assembly


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
    "softmax": (row_ops.softmax_row, f"{FLAT}, {FLAT}"),
    "layer norm": (normalization.layer_norm_share, f"{SPAN}, {MATRIX}, {FLAT}, {FLAT}, float32, {MATRIX}, {MATRIX}"),
    "cross-entropy": (row_ops.cross_entropy_share, f"{SPAN}, {MATRIX}, int64[::1], float64[::1], {MATRIX}"),
    "bias gelu": (pointwise.bias_gelu_share, f"{SPAN}, {MATRIX}, {FLAT}, {MATRIX}"),
    "dropout": (pointwise.dropout_share, f"{SPAN}, {FLAT}, {FLAT}, uint64, uint64, float32"),
    "adam": (optimizers.adam_line, f"{FLAT}, {FLAT}, {FLAT}, {FLAT}, {FLAT}"),
    "batch norm": (normalization.normalize, f"{MATRIX}, {FLAT}, {FLAT}, float64, {MATRIX}, {MATRIX}, float64[:,::1]"),
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


LINUX, MACOS = "aarch64-unknown-linux-gnu", "arm64-apple-darwin23.0.0"


@pytest.fixture
def every_target() -> None:
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()


@pytest.mark.usefixtures("every_target")
@pytest.mark.parametrize(
    ("triple", "cpu", "listed", "has"),
    [
        # What LLVM lists of these hosts: under Linux no dot products, under macOS nothing.
        (LINUX, "cortex-a72", "+crc,+fp-armv8,+neon,-rand,-sve", {"neon"}),
        (LINUX, "neoverse-n1", "+crc,+fp-armv8,+lse,+neon,-rand,-sve", {"neon", "dotprod"}),
        (LINUX, "neoverse-v1", "+crc,+fp-armv8,+lse,+neon,+rand,+sve", {"neon", "dotprod", "i8mm"}),
        (LINUX, "a64fx", "+crc,+fp-armv8,+lse,+neon,+sve", {"neon"}),
        (MACOS, "apple-m1", "", {"neon", "dotprod"}),
        (MACOS, "apple-m2", "", {"neon", "dotprod", "i8mm"}),
        # What the user says of them counts.
        (LINUX, "neoverse-v1", "-i8mm", {"neon", "dotprod"}),
        (LINUX, "neoverse-n1", "-dotprod", {"neon"}),
        (LINUX, "generic", "+neon,+dotprod,+i8mm", {"neon", "dotprod", "i8mm"}),
        (LINUX, "generic", "-neon", set()),
    ],
)
def test_an_arm_target_has_what_its_cpu_s_name_says(triple: str, cpu: str, listed: str, has: set[str]) -> None:
    """Against the manuals: dot products are in Armv8.2 and later, matrix products in 8.6, and in neither of A64FX."""
    assert arm_features(triple, cpu, listed) == has


@pytest.mark.usefixtures("every_target")
@pytest.mark.parametrize(("triple", "cpu"), [(LINUX, "neoverse-n1"), (MACOS, "apple-m1")])
def test_an_arm_host_s_features_are_those_of_its_list_and_of_its_name(
    triple: str, cpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numba_config, "CPU_NAME", cpu)
    monkeypatch.setattr(numba_config, "CPU_FEATURES", "+crc,-sve")
    monkeypatch.setattr(binding, "get_process_triple", lambda: triple)
    assert cpu_features() == {"crc", "neon", "dotprod"}


def test_another_host_has_what_numba_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numba_config, "CPU_FEATURES", "+avx2,-avx512f,+fma")
    monkeypatch.setattr(binding, "get_process_triple", lambda: "x86_64-unknown-linux-gnu")
    assert cpu_features() == {"avx2", "fma"}


def applied(function: Any, dtype: Any = np.float32) -> Callable[[Array], Array]:
    def loop(x: Any, output: Any) -> None:
        for i in range(x.size):
            output[i] = function(x[i])

    compiled = kernel(loop, f"of_{function.__name__}")

    def run(x: Array) -> Array:
        output = np.empty(x.size, dtype)
        compiled(x, output)
        return output

    return run


def largest_error(found: Array, exact: Array) -> float:
    """Return the largest error in units of the last place of the exact result's float32."""
    inside = np.abs(exact) < np.finfo(np.float32).max
    last_place = np.spacing(np.abs(exact[inside]).astype(np.float32)).astype(np.float64)
    return float(np.max(np.abs(found[inside] - exact[inside]) / last_place))


GRID = np.concatenate([np.linspace(-110, 95, 100_003), np.linspace(-1, 1, 20_001), 10.0 ** np.arange(-40, 1)])


@pytest.mark.parametrize(
    ("name", "exact", "bound"),
    [
        ("exp", np.exp, 1.5),
        ("sigmoid", expit, 2.6),
        ("tanh", np.tanh, 4.0),
        ("erf", erf, 1.5),
        ("softplus", lambda x: np.logaddexp(x, 0), 4.0),
    ],
)
def test_error_in_units_of_the_last_place(name: str, exact: Callable[[Array], Array], bound: float) -> None:
    x = GRID.astype(np.float32)
    with np.errstate(over="ignore"):
        assert largest_error(applied(getattr(vector_math, name))(x), exact(x.astype(np.float64))) < bound


def test_exponential_of_negative_numbers_ends_at_the_smallest_normal_one() -> None:
    x = np.linspace(-87.3, 0, 50_001).astype(np.float32)
    run = applied(vector_math.exp_of_negative)
    assert largest_error(run(x), np.exp(x.astype(np.float64))) < 1.5
    assert not run(np.array([-87.5, -1000, -1e30, -np.inf], np.float32)).any()
    assert np.isnan(run(np.array([np.nan], np.float32))).all()


def test_special_values_are_numpys() -> None:
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0], np.float32)
    for name, exact in (("exp", np.exp), ("tanh", np.tanh), ("sigmoid", expit), ("erf", erf)):
        found = applied(getattr(vector_math, name))(x)
        np.testing.assert_array_equal(found, exact(x))
        np.testing.assert_array_equal(np.signbit(found[1:]), np.signbit(exact(x)[1:]))
    log_2 = np.log(2.0)
    np.testing.assert_allclose(applied(vector_math.softplus)(x), [np.nan, np.inf, 0, log_2, log_2], rtol=1e-6)


def test_keys_sort_as_numbers_do() -> None:
    x = np.array([-np.inf, -1e30, -1, -1e-40, 0, 1e-40, 1, 1e30, np.inf, np.nan], np.float32)
    made = applied(vector_math.sort_key, np.int32)(x)
    assert np.all(np.diff(made.astype(np.int64)) > 0)
    np.testing.assert_array_equal(applied(vector_math.of_sort_key)(made), x)
