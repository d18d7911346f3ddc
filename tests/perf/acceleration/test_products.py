"""Products by name, and ops in loops of Python, give the results of NumPy and say what they refuse."""

import math
from typing import Any

import numpy as np
import pytest
import scipy.special

from tests.perf.small_models import drawn, small_gpt, tokens_of
from tinytorch.core import dispatch, ops
from tinytorch.core.dispatch import no_grad
from tinytorch.core.tensor import Tensor
from tinytorch.perf.acceleration import products
from tinytorch.perf.acceleration.teaching import TEACHING
from tinytorch.perf.kernels.gemm.product_tiles import ROWS, WIDTH


@pytest.mark.parametrize("function", [products.register_tiles, products.cache_tiles, products.packed_blocks])
def test_tiles_in_registers_must_be_whole(function: Any) -> None:
    a, b = drawn(ROWS, 5), drawn(5, 2 * WIDTH)
    np.testing.assert_allclose(function(a, b), a.astype(np.float64) @ b, rtol=0, atol=1e-5)
    with pytest.raises(ValueError, match="whole"):
        function(a[1:], b)
    with pytest.raises(ValueError, match="whole"):
        function(a, b[:, 1:])


@pytest.mark.parametrize("deep", [1, 2, 5, 7])
@pytest.mark.parametrize("function", [products.cache_tiles, products.packed_blocks])
def test_a_panel_may_be_cut_anywhere(function: Any, deep: int) -> None:
    a, b = drawn(2 * ROWS, 5), drawn(5, 2 * WIDTH)
    np.testing.assert_allclose(function(a, b, deep), a.astype(np.float64) @ b, rtol=0, atol=1e-5)
    with pytest.raises(ValueError, match="deep"):
        function(a, b, 0)


def test_matrices_are_copied_only_if_they_must_be() -> None:
    a = drawn(4, 4)
    assert products._matrices(a, a)[0] is a
    a.setflags(write=False)
    assert products._matrices(a, a)[0].flags.writeable


@pytest.mark.parametrize("function", [products.vectorized_matmul, products.tiled_matmul, products.compiled_loops])
@pytest.mark.parametrize(("a", "b", "said"), [((3,), (3, 2), "2D+"), ((2, 3), (4, 5), "shape mismatch")])
def test_errors_name_both_shapes(function: Any, a: tuple[int, ...], b: tuple[int, ...], said: str) -> None:
    with pytest.raises(ValueError, match=said.replace("+", r"\+")) as caught:
        function(np.zeros(a, np.float32), np.zeros(b, np.float32))
    assert str(a) in str(caught.value)
    assert str(b) in str(caught.value)


def test_vectorized_matmul_broadcasts_and_keeps_tensors() -> None:
    a, b = drawn(4, 1, 2, 3), drawn(5, 3, 6)
    assert np.array_equal(products.vectorized_matmul(a, b), np.matmul(a, b))
    for x, y in ((Tensor(drawn(2, 3)), drawn(3, 4)), (drawn(2, 3), Tensor(drawn(3, 4)))):
        assert isinstance(products.vectorized_matmul(x, y), Tensor)


@pytest.mark.parametrize("tile", [1, 4, 64])
def test_any_tile_gives_the_product(tile: int) -> None:
    a, b = drawn(10, 9), drawn(9, 11)
    np.testing.assert_allclose(products.tiled_matmul(a, b, tile), a @ b, rtol=0, atol=1e-5)
    with pytest.raises(ValueError, match="tile_size"):
        products.tiled_matmul(a, b, 0)


@pytest.mark.parametrize("causal", [False, True])
def test_attention_is_softmax_of_scores_times_values(causal: bool) -> None:
    heads, depth, length = 2, 3, 5
    packed = drawn(2, length, 3 * heads * depth)
    q, k, v = packed.astype(np.float64).reshape(2, length, 3, heads, depth).transpose(2, 0, 3, 1, 4)
    seen = np.tri(length, dtype=bool) if causal else True
    scores = np.where(seen, q @ k.swapaxes(2, 3) / math.sqrt(depth), -np.inf)
    exact = (scipy.special.softmax(scores, -1) @ v).transpose(0, 2, 1, 3).reshape(2, length, -1)
    found, _ = TEACHING[ops.self_attention].forward(False, packed, heads=heads, causal=causal)
    np.testing.assert_allclose(found, exact, rtol=0, atol=1e-6)


def test_a_whole_gpt_runs_on_loops() -> None:
    model, tokens = small_gpt(), tokens_of(1, 4)
    with no_grad():
        expected = model(tokens).data
        with dispatch.implementations(TEACHING):
            found = model(tokens).data
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


def test_loops_say_that_they_have_no_backward() -> None:
    with dispatch.implementations(TEACHING), pytest.raises(ValueError, match="no backward"):
        small_gpt()(tokens_of(1, 2))
