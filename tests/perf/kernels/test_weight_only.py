"""Weight-only products against float64: packings, odd shapes, what is not finite, threads, and the assembly."""

import copy
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.perf.small_models import drawn
from tinytorch.core.dispatch import apply, implementations, no_grad
from tinytorch.core.layers import Embedding, Linear
from tinytorch.core.op import Array
from tinytorch.core.tensor import Tensor
from tinytorch.core.transformers import GPT
from tinytorch.perf.events.stream import recording
from tinytorch.perf.kernels import weight_only
from tinytorch.perf.kernels.runtime.evidence import evidence
from tinytorch.perf.kernels.runtime.vectors import compiled
from tinytorch.perf.kernels.weight_only import tiles_product
from tinytorch.perf.ops.packed_codes import in_tiles, pack
from tinytorch.perf.ops.weight_only import weight_only_linear
from tinytorch.perf.profiling import Profiler
from tinytorch.perf.quantization import Plan, QuantizedEmbedding, QuantizedLinear, Scheme, quantize, quantize_model
from tinytorch.perf.quantization.storage import Arranged

SCHEMES = [
    Scheme(8, True, "channel"),
    Scheme(8, False, "tensor"),
    Scheme(4, True, "group", group=32),
    Scheme(4, False, "group", group=32),
    Scheme(2, True, "channel"),
]


def operands(weight: Array, scheme: Scheme, tiled: bool) -> tuple[tuple[Any, ...], dict[str, Any], Array]:
    """Return the op's operands after x, its params, and by the definition the float64 weight."""
    made = quantize(weight, scheme)
    group = scheme.group if scheme.per == "group" else None
    shape = made.scale.shape if made.scale.ndim else (1, 1)
    scale, zero = made.scale.reshape(shape), made.zero_point.reshape(shape)
    wide = [np.repeat(each.astype(float), group or len(weight), axis=0)[: len(weight)] for each in (scale, zero)]
    codes = pack(made.codes, scheme.bits)
    params: dict[str, Any] = {"bits": scheme.bits, "group": group, "length": len(weight), "packed": {}}
    held = in_tiles(codes) if tiled else codes
    offset = None if scheme.symmetric else zero.astype(np.int8)
    return (held, scale, offset, None), params, (made.codes - wide[1]) * wide[0]


def close(got: Array, x: Array, weight: Array) -> None:
    """A sum of n products in float32 is within a few roundings of n times the size of its terms, mostly far less."""
    size = np.abs(x).astype(float) @ np.abs(weight)
    assert (np.abs(got - x.astype(float) @ weight) <= 1e-6 * size + 1e-30).all()


@given(
    depth=st.integers(1, 130),
    columns=st.integers(1, 140) | st.sampled_from([64, 128]),
    rows=st.integers(1, 9),
    seed=st.integers(0, 10_000),
    scheme=st.sampled_from(SCHEMES),
)
@settings(max_examples=60, deadline=None)
def test_products_of_any_shape_and_strides(depth: int, columns: int, rows: int, seed: int, scheme: Scheme) -> None:
    weight, params, exact = operands(drawn(depth, columns, seed=seed), scheme, tiled=columns % 64 == 0)
    x = drawn(depth, 2 * rows, seed=seed)[:, ::2].T
    before = x.copy()
    got = apply(weight_only_linear, Tensor(x), *weight, **params).data
    close(got, x, exact)
    np.testing.assert_array_equal(x, before)
    # Rows in whole blocks do not depend on those that follow.
    np.testing.assert_array_equal(got[:4], apply(weight_only_linear, Tensor(x[:4]), *weight, **params).data)


@pytest.mark.parametrize("bits", [8, 4, 2])
def test_codes_at_their_extremes_are_exact(bits: int) -> None:
    """Whole numbers whose sums float32 holds: not one rounding is allowed, wherever a code lies."""
    half = 2 ** (bits - 1)
    codes = np.random.default_rng(bits).integers(-half, half, (70, 150)).astype(np.int8)
    codes[0], codes[1] = -half, half - 1
    scale, zero = np.ones((1, 150), np.float32), np.full((1, 150), half - 1, np.int8)
    x = np.random.default_rng(0).integers(-9, 10, (5, 70)).astype(np.float32)
    params: dict[str, Any] = {"bits": bits, "group": None, "length": 70, "packed": {}}
    for offset in (None, zero):
        for columns in (150, 128):
            held = in_tiles(pack(codes[:, :columns], bits))
            given_zero = None if offset is None else offset[:, :columns]
            got = apply(weight_only_linear, Tensor(x), held, scale[:, :columns], given_zero, None, **params).data
            less = 0 if offset is None else half - 1
            np.testing.assert_array_equal(got, x.astype(int) @ (codes[:, :columns].astype(int) - less))


def test_what_is_not_finite_propagates_as_in_the_reference() -> None:
    weight, params, _ = operands(drawn(64, 80), Scheme(4, False, "group", group=32), tiled=False)
    x = drawn(4, 64, seed=2)
    x[0, 3], x[1, 5], x[2, 7], x[2, 9] = np.nan, np.inf, np.inf, -np.inf
    with np.errstate(invalid="ignore"):
        got = apply(weight_only_linear, Tensor(x), *weight, **params).data
        with implementations({weight_only_linear: weight_only_linear.reference}):
            expected = apply(weight_only_linear, Tensor(x), *weight, **params).data
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


def test_nothing_in_gives_nothing_or_the_bias_out() -> None:
    weight, params, _ = operands(drawn(64, 64), SCHEMES[0], tiled=True)
    assert apply(weight_only_linear, Tensor(np.empty((0, 64), np.float32)), *weight, **params).shape == (0, 64)
    bias = drawn(64)
    zeros = Tensor(np.zeros((2, 3, 64), np.float32))
    got = apply(weight_only_linear, zeros, *weight[:3], bias, **params).data
    np.testing.assert_array_equal(got, np.broadcast_to(bias, (2, 3, 64)))
    with pytest.raises(ValueError, match="the last axis"):
        apply(weight_only_linear, Tensor(drawn(2, 63)), *weight, **params)


def test_float64_and_groups_that_end_inside_a_byte_go_to_the_reference() -> None:
    weight, params, exact = operands(drawn(64, 64), SCHEMES[2], tiled=True)
    x = drawn(3, 64).astype(np.float64)
    got = apply(weight_only_linear, Tensor(x), *weight, **params).data
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, x @ exact, rtol=1e-5, atol=1e-5)
    weight, params, exact = operands(drawn(64, 64), Scheme(4, True, "group", group=5), tiled=True)
    close(apply(weight_only_linear, Tensor(drawn(3, 64)), *weight, **params).data, drawn(3, 64), exact)


@pytest.mark.parametrize("symmetric", [True, False])
def test_scales_of_groups_lie_beside_their_tile_and_are_a_matrix_to_whoever_asks(symmetric: bool) -> None:
    linear = Linear(96, 192, seed=0)
    layer = QuantizedLinear(linear, Plan("weight-only", Scheme(4, symmetric, "group")))
    made = quantize(linear.weight.data, Scheme(4, symmetric, "group"))
    assert isinstance(layer.scale, Arranged)
    assert (layer.codes.shape, layer.scale.stored.shape) == ((48, 3, 64), (3, 3, 64))
    np.testing.assert_array_equal(layer.scale.stored[1, 2], made.scale[2, 64:128])
    assert layer.scale.shape == (3, 192)
    x = drawn(2, 96)
    expected = x @ layer.dequantized().data + linear.bias.data  # type: ignore[union-attr]
    for _ in range(2):
        np.testing.assert_allclose(layer(Tensor(x)).data, expected, rtol=1e-4, atol=1e-5)
        with implementations({weight_only_linear: weight_only_linear.reference}):
            np.testing.assert_allclose(layer(Tensor(x)).data, expected, rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(layer.state_dict()["scale"], made.scale)
    other = QuantizedLinear(Linear(96, 192, seed=1), Plan("weight-only", Scheme(4, symmetric, "group")))
    other(Tensor(x))
    other.load_state_dict(layer.state_dict())
    np.testing.assert_array_equal(other(Tensor(x)).data, layer(Tensor(x)).data)
    np.testing.assert_array_equal(copy.deepcopy(layer)(Tensor(x)).data, layer(Tensor(x)).data)


def test_a_weight_only_layer_that_becomes_static_multiplies_a_matrix() -> None:
    linear = Linear(64, 128, seed=0)
    layer = QuantizedLinear(linear, Plan("weight-only")).calibrate([drawn(50, 64)])
    assert layer.codes.shape == (64, 128)
    expected = QuantizedLinear(linear, Plan("static")).calibrate([drawn(50, 64)])
    np.testing.assert_array_equal(layer(Tensor(drawn(3, 64))).data, expected(Tensor(drawn(3, 64))).data)


@pytest.mark.parametrize("bits", [8, 4])
def test_codes_become_floats_in_vector_registers(bits: int) -> None:
    from numba import types

    byte, number, index = (types.int8 if bits == 8 else types.uint8)[::1], types.float32[::1], types.intp
    arrays = (number, number, byte, number, types.int8[::1])
    signature = types.void(index, index, *arrays, *[index] * 10)
    found = evidence(compiled(tiles_product(bits, 1, 0).py_func, signature))
    assert any(name.startswith(("vfmadd", "fmla", "mulps", "vmulps")) for name in found)
    if weight_only.LOOKS_UP:
        assert sum(count for name, count in found.items() if name.startswith("vfmadd") and name.endswith("zmm")) >= 8
        # A look-up in 16 words of a register, whatever their type; or signed bytes made words.
        wanted = ("vpermps", "vpermd") if bits == 4 else ("vpmovsxbd",)
        assert any(name.startswith(wanted) and name.endswith("zmm") for name in found)


def test_without_the_lookup_the_numbers_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """What CPUs without AVX-512 run: mask, shift and convert."""
    weight, params, exact = operands(drawn(64, 80), SCHEMES[2], tiled=False)
    x = drawn(1, 64)
    expected = apply(weight_only_linear, Tensor(x), *weight, **params).data
    monkeypatch.setattr(weight_only, "LOOKS_UP", False)
    monkeypatch.setattr(weight_only, "tiles_product", uncached_product)
    got = apply(weight_only_linear, Tensor(x), *weight, **params).data
    np.testing.assert_array_equal(got, expected)
    close(got, x, exact)


def uncached_product(bits: int, rows: int, affine: int) -> Any:
    from numba import njit

    return njit(tiles_product(bits, rows, affine).py_func, nogil=True, error_model="numpy")


TABLE_SCHEMES = [
    Scheme(8, True, "channel"),
    Scheme(8, False, "channel"),
    Scheme(8, True, "tensor"),
    Scheme(4, True, "group", group=32),
    Scheme(4, False, "group", group=32),
    Scheme(2, False, "channel"),
]


def table(rows: int, features: int, scheme: Scheme) -> QuantizedEmbedding:
    return QuantizedEmbedding(Embedding(rows, features, seed=0), Plan(weights=scheme))


@pytest.mark.parametrize("scheme", TABLE_SCHEMES, ids=str)
@pytest.mark.parametrize("shape", [(50, 128), (11, 96), (7, 192), (1, 64), (5, 30)], ids=str)
def test_a_projection_is_the_product_with_the_dequantized_table(scheme: Scheme, shape: tuple[int, int]) -> None:
    layer = table(*shape, scheme)
    exact = layer.dequantized().data.astype(float).T
    for count in (1, 3, 12):
        x = drawn(2, count, shape[1])[:, ::-1]
        got = layer.project(Tensor(x)).data
        assert got.shape == (2, count, shape[0])
        assert (np.abs(got - x.astype(float) @ exact) <= 1e-6 * (np.abs(x) @ np.abs(exact)) + 1e-30).all()


def test_nan_stays_in_its_row_and_nothing_and_other_widths() -> None:
    layer, x = table(300, 128, TABLE_SCHEMES[4]), drawn(2, 128)
    x[1, 3] = np.nan
    got = layer.project(Tensor(x)).data
    assert np.isfinite(got[0]).all()
    assert np.isnan(got[1]).all()
    assert layer.project(Tensor(np.empty((0, 128), np.float32))).shape == (0, 300)
    with pytest.raises(ValueError, match="the last axis"):
        layer.project(Tensor(drawn(2, 127)))


def test_the_gradient_of_the_input_is_that_of_the_product() -> None:
    layer, down = table(20, 64, TABLE_SCHEMES[3]), drawn(3, 20, seed=1)
    x = Tensor(drawn(3, 64), requires_grad=True)
    layer.project(x).backward(down)
    assert x.grad is not None
    np.testing.assert_allclose(x.grad, down @ layer.dequantized().data, rtol=1e-4, atol=1e-5)


def test_a_tied_gpt_multiplies_codes_and_never_makes_the_table() -> None:
    model = GPT(4000, 64, 1, 2, 8, seed=0).eval()
    made: Any = quantize_model(model, plan=Plan("weight-only"))
    tokens = np.arange(6).reshape(1, 6)
    with no_grad():
        with recording() as recorded:
            logits = made(tokens).data
        assert [event.op for event in recorded.profile.events].count("weight_only_projection") == 1
        assert not any(event.op == "dequantize" for event in recorded.profile.events)
        with Profiler(memory=True) as profiler:
            made(tokens)
        assert profiler.memory.peak < 4000 * 64 * 4
        hidden = made.norm(tied_input(made, tokens))
        expected = hidden.data.astype(float) @ made.token_embedding.weight.data.T
    np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-6)


def tied_input(model: Any, tokens: Array) -> Tensor:
    """What arrives at the last normalization."""
    x = model.token_embedding(tokens) + model.position_embedding(np.arange(tokens.shape[1]))
    for block in model.blocks:
        x = block(x)
    return Tensor(x.data)
