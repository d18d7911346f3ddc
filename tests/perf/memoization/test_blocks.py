"""Decoder blocks in one op: equal to the block op by op, exact in FLOPs, and compiled like everything else."""

from __future__ import annotations

import numpy as np
import pytest

from tests.perf.memoization.small_gpt import small_gpt, tokens_of
from tinytorch.core.dispatch import implementations, no_grad
from tinytorch.core.layers import Linear
from tinytorch.core.op import Array
from tinytorch.perf.events import recording
from tinytorch.perf.kernels import decoding
from tinytorch.perf.memoization import (
    QuantizedKVCache,
    decoder_block,
    disable_kv_cache,
    enable_kv_cache,
    fuse_decoding,
)
from tinytorch.perf.quantization import quantize_model

IMPLEMENTATIONS = {"numpy": {}, "numba": decoding.IMPLEMENTATIONS}


@pytest.mark.parametrize("name", list(IMPLEMENTATIONS))
@pytest.mark.parametrize("batch", [1, 5])
def test_fused_logits_equal_those_of_the_model(name: str, batch: int) -> None:
    model, tokens = small_gpt(), tokens_of(batch, 12)
    fused = fuse_decoding(model)
    with no_grad():
        whole = model(tokens).data
    enable_kv_cache(fused, batch_size=batch)
    with implementations(IMPLEMENTATIONS[name]), recording() as recorded:
        parts = [fused(tokens[:, i : i + 1]).data for i in range(12)]
    np.testing.assert_allclose(np.concatenate(parts, axis=1), whole, rtol=0, atol=1e-5)
    steps = [event for event in recorded.profile.events if event.op == "decoder_block"]
    assert {event.implementation for event in steps} == {name}
    assert len(steps) == 2 * 11
    with no_grad():
        np.testing.assert_array_equal(model(tokens).data, whole)


def _operands(batch: int, heads: int, length: int, depth: int, hidden: int, dtype: type = np.float32) -> list[Array]:
    """Return the operands of `decoder_block`, drawn from a seed."""
    draw, width = np.random.default_rng(0), heads * depth
    shapes: list[tuple[int, ...]] = [(batch, 1, width)]
    for inner, outer in ((0, width), (width, 3 * width), (width, width), (0, width), (width, hidden), (hidden, width)):
        shapes += [(inner, outer) if inner else (outer,), (outer,)]
    made: list[Array] = [draw.normal(0, 0.4, shape).astype(dtype) for shape in shapes]
    # Keys and values as a cache holds them: with room behind.
    room: Array = draw.normal(0, 0.4, (2, batch, heads, length + 1, depth)).astype(dtype)
    return [*made, *room[:, :, :, :length]]


@pytest.mark.parametrize("sizes", [(1, 2, 0, 1, 3), (1, 4, 9, 24, 96), (3, 2, 1, 17, 50), (9, 2, 40, 64, 35)])
def test_kernel_is_within_rounding_of_float64(sizes: tuple[int, int, int, int, int]) -> None:
    exact = decoder_block.reference.forward(False, *_operands(*sizes, dtype=np.float64), epsilons=(1e-5, 1e-5))[0]
    made = decoding.IMPLEMENTATIONS[decoder_block].forward(False, *_operands(*sizes), epsilons=(1e-5, 1e-5))[0]
    assert made.dtype == np.float32
    np.testing.assert_allclose(made, exact, rtol=0, atol=5e-6 * np.abs(exact).max())


@pytest.mark.parametrize("index", [0, 3, 13, 14])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_kernel_spreads_nan_where_numpy_does(index: int, bad: float) -> None:
    operands = _operands(2, 2, 6, 8, 20)
    operands[index][0, ..., 3] = bad
    with np.errstate(all="ignore"):
        wanted = decoder_block.reference.forward(False, *operands, epsilons=(1e-5, 1e-5))[0]
    made = decoding.IMPLEMENTATIONS[decoder_block].forward(False, *operands, epsilons=(1e-5, 1e-5))[0]
    assert np.isnan(wanted).any()
    np.testing.assert_array_equal(np.isfinite(made), np.isfinite(wanted))


@pytest.mark.parametrize("which", ["float64", "transposed weight", "keys apart"])
def test_operands_of_other_dtype_or_order_are_right_too(which: str) -> None:
    operands = _operands(2, 2, 6, 8, 20, np.float64 if which == "float64" else np.float32)
    if which == "transposed weight":
        operands[3] = np.asfortranarray(operands[3])
    if which == "keys apart":
        operands[13] = np.repeat(operands[13], 2, axis=2)[:, :, ::2]
    wanted = decoder_block.reference.forward(False, *operands, epsilons=(1e-5, 1e-5))[0]
    made = decoding.IMPLEMENTATIONS[decoder_block].forward(False, *operands, epsilons=(1e-5, 1e-5))[0]
    assert made.dtype == wanted.dtype
    np.testing.assert_allclose(made, wanted, rtol=0, atol=5e-6 * np.abs(wanted).max())


def test_fused_step_counts_the_arithmetic_of_the_model() -> None:
    model, tokens = small_gpt(), tokens_of(2, 12)
    counts = []
    for each in (model, fuse_decoding(model)):
        enable_kv_cache(each, batch_size=2)
        each(tokens[:, :5])
        with recording() as recorded:
            each(tokens[:, 5:6])
        events = recorded.profile.events
        counts.append((sum(e.flops or 0 for e in events), sum(e.elementwise or 0 for e in events)))
        disable_kv_cache(each)
    assert counts[0] == counts[1]


def test_fused_model_shares_weights_and_leaves_the_model_alone() -> None:
    model = small_gpt()
    fused = fuse_decoding(model)
    assert [id(p) for p in model.parameters()] == [id(p) for p in fused.parameters()]
    enable_kv_cache(fused)
    assert model.memory is None
    assert model.blocks[0].attention.memory is None
    with pytest.raises(ValueError, match="must not have a cache"):
        fuse_decoding_of_cached()


def fuse_decoding_of_cached() -> None:
    """Fuse a model that has a cache."""
    model = small_gpt()
    enable_kv_cache(model)
    fuse_decoding(model)


def test_what_cannot_be_fused_raises() -> None:
    with pytest.raises(TypeError, match="model must be a GPT"):
        fuse_decoding(Linear(2, 2))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="float Linear layers"):
        fuse_decoding(quantize_model(small_gpt()))  # type: ignore[arg-type]


def test_quantized_cache_and_prompts_run_op_by_op() -> None:
    model, tokens = small_gpt(), tokens_of(1, 6)
    fused = fuse_decoding(model)
    enable_kv_cache(fused, cache=QuantizedKVCache(1, 12, 2, 2, 10))
    with recording() as recorded:
        fused(tokens)
        fused(tokens[:, :1])
    names = {event.op for event in recorded.profile.events}
    assert "quantized_attention" in names
    assert "decoder_block" not in names


@pytest.mark.parametrize("index", [0, 13, 14])
def test_operands_that_do_not_fit_raise(index: int) -> None:
    operands = _operands(2, 2, 6, 8, 20)
    operands[index] = operands[index][:1]
    for way in (decoder_block.reference, decoding.IMPLEMENTATIONS[decoder_block]):
        with pytest.raises(ValueError, match="decoder_block needs x of shape"):
            way.forward(False, *operands, epsilons=(1e-5, 1e-5))


def test_there_is_no_gradient() -> None:
    with pytest.raises(TypeError, match="no gradient"):
        decoder_block.reference.backward(np.zeros(1), (), (True,), False)
