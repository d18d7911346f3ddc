"""Products by name give the product, for tensors too, and say what they refuse."""

from typing import Any

import numpy as np
import pytest

from tests.perf.drawn import drawn
from tinytorch.core.tensor import Tensor
from tinytorch.perf.acceleration import products
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
    x = Tensor(drawn(2, 3), requires_grad=True)
    found = products.vectorized_matmul(x, drawn(3, 4))
    assert isinstance(found, Tensor)
    found.sum().backward()
    assert x.grad is not None
    assert np.allclose(x.grad, drawn(3, 4).sum(axis=1))
    assert isinstance(products.vectorized_matmul(drawn(2, 3), Tensor(drawn(3, 4))), Tensor)


@pytest.mark.parametrize("tile", [1, 4, 64])
def test_any_tile_gives_the_product(tile: int) -> None:
    a, b = drawn(10, 9), drawn(9, 11)
    np.testing.assert_allclose(products.tiled_matmul(a, b, tile), a @ b, rtol=0, atol=1e-5)
    with pytest.raises(ValueError, match="tile_size"):
        products.tiled_matmul(a, b, 0)
