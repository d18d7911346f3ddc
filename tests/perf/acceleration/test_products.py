"""Products by name, ops in loops of Python, and every technique on one workload, of which the fastest are named."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import scipy.special

from tests.perf.small_models import drawn, rows, small_gpt, tokens_of, two_layers
from tinytorch.core import dispatch, ops
from tinytorch.core.dispatch import no_grad
from tinytorch.core.layers import Linear
from tinytorch.core.module import Sequential
from tinytorch.core.tensor import Tensor
from tinytorch.perf.acceleration import products
from tinytorch.perf.acceleration.teaching import TEACHING
from tinytorch.perf.acceleration.techniques import BASELINE, CODES, FUSED, KERNELS, Tried, try_techniques
from tinytorch.perf.kernels.gemm.product_tiles import ROWS, WIDTH
from tinytorch.perf.measuring import Measurement, current_blas_threads
from tinytorch.perf.measuring.comparison import compare_all
from tinytorch.perf.measuring.conditions import Conditions


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


def test_all_ways_give_the_result_and_leave_threads_as_they_were() -> None:
    threads = current_blas_threads()
    tried = try_techniques("two layers", two_layers(), rows(7), at_most_seconds=0.05)
    assert current_blas_threads() == threads
    assert set(tried.times) == {BASELINE, KERNELS, FUSED, CODES}
    assert tried.errors[BASELINE].value == 0
    assert max(tried.errors[KERNELS].value, tried.errors[FUSED].value) < 1e-5
    assert 1e-4 < tried.errors[CODES].value < 0.05


def test_a_plan_keeps_the_weights_twice_and_codes_are_smaller() -> None:
    model = Sequential(Linear(256, 512, seed=0), Linear(512, 256, seed=1))
    x = Tensor(np.random.default_rng(0).standard_normal((4, 256), dtype=np.float32))
    tried = try_techniques("wide", model, x, at_most_seconds=0.05)
    held = {name: kept.value for name, kept in tried.held.items()}
    weights = 4 * (2 * 256 * 512 + 512 + 256)
    assert held[BASELINE] == held[KERNELS] == weights
    assert 1.9 * weights < held[FUSED] < 2.3 * weights
    assert held[CODES] < 0.5 * weights


def noisy(seconds: float, number: int) -> list[float]:
    return [seconds * (1 + 0.05 * ((7 * at + 3 * number) % 5 - 2)) for at in range(30)]


def fastest(samples: Mapping[str, Sequence[float]]) -> tuple[str, ...]:
    beside = {name: Conditions(interleaved_with=tuple({*samples} - {name})) for name in samples}
    times = {name: Measurement(name, tuple(each), "s", beside[name]) for name, each in samples.items()}
    first, *others = times.values()
    return Tried("two layers", times, compare_all(first, *others, matters=0.05), {}, {}).fastest


@pytest.mark.parametrize(
    ("seconds", "named"),
    [
        ((6.0, 2.0, 2.001, 4.0), (KERNELS, FUSED)),  # of which two are a hair apart and change places
        ((6.0, 8.0, 8.0, 8.0), (BASELINE,)),
        ((6.0, 3.0, 2.0, 12.0), (FUSED,)),
    ],
)
def test_what_cannot_be_told_from_the_fastest_is_named_beside_it(
    seconds: tuple[float, ...], named: tuple[str, ...]
) -> None:
    ways = zip((BASELINE, KERNELS, FUSED, CODES), seconds, strict=True)
    assert fastest({name: noisy(each, number) for number, (name, each) in enumerate(ways)}) == named
