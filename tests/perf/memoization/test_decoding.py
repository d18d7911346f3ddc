"""A whole GPT in one op: equal to the model op by op, exact in FLOPs and bytes, never stale, and in vectors."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numba import types

from tests.perf.small_models import small_gpt, tokens_of
from tinytorch.core.dispatch import implementations, no_grad
from tinytorch.core.layers import Linear
from tinytorch.core.op import Array
from tinytorch.core.optimizers import SGD
from tinytorch.core.transformers import GPT
from tinytorch.perf.acceleration import fuse
from tinytorch.perf.events.stream import recording
from tinytorch.perf.kernels import decoding
from tinytorch.perf.kernels.gemm import row_products
from tinytorch.perf.kernels.runtime import vectors
from tinytorch.perf.kernels.runtime.evidence import evidence
from tinytorch.perf.memoization import KVCache, QuantizedKVCache, disable_kv_cache, enable_kv_cache, fuse_decoding
from tinytorch.perf.ops.decode import decode_token
from tinytorch.perf.quantization import Plan, Scheme, quantize_model

IMPLEMENTATIONS = {"numpy": {}, "numba": decoding.IMPLEMENTATIONS}
SCHEMES = {
    "float": None,
    "8 bits": Scheme(8, per="channel"),
    "4 bits in groups": Scheme(4, per="group", group=32),
    "8 bits, affine": Scheme(8, False, per="channel"),
    "2 bits": Scheme(2, per="channel"),
}


def _model(scheme: Scheme | None = None) -> Any:
    """Return a GPT, 96 wide: one and a half tiles of codes."""
    model = GPT(13, 96, 2, 4, 12, seed=0).eval()
    draw = np.random.default_rng(0)
    for parameter in model.parameters():
        parameter.data[...] += draw.normal(0, 0.1, parameter.shape).astype(np.float32)
    return model if scheme is None else quantize_model(model, plan=Plan("weight-only", scheme))


def _steps(model: GPT, tokens: Array) -> Array:
    """Return the logits of tokens read one by one."""
    return np.concatenate([model(tokens[:, i : i + 1]).data for i in range(tokens.shape[1])], axis=1)


def _cache(model: GPT, kind: type[KVCache], batch: int) -> KVCache:
    heads = model.blocks[0].attention.num_heads
    return kind(batch, model.max_seq_len, len(model.blocks), heads, model.embed_dim // heads)


@pytest.mark.parametrize("name", list(IMPLEMENTATIONS))
@pytest.mark.parametrize("batch", [1, 5])
@pytest.mark.parametrize("scheme", list(SCHEMES))
def test_logits_equal_those_of_the_model_in_one_op_a_token(name: str, batch: int, scheme: str) -> None:
    model, tokens = _model(SCHEMES[scheme]), tokens_of(batch, 12)
    fused = fuse_decoding(model)
    with no_grad():
        whole = model(tokens).data
    enable_kv_cache(fused, batch_size=batch)
    with implementations(IMPLEMENTATIONS[name]), recording() as recorded:
        made = _steps(fused, tokens)
    np.testing.assert_allclose(made, whole, rtol=0, atol=1e-5)
    assert [(event.op, event.implementation) for event in recorded.profile.events] == [("decode_token", name)] * 12
    with no_grad():
        np.testing.assert_array_equal(model(tokens).data, whole)


@pytest.mark.parametrize("name", list(IMPLEMENTATIONS))
def test_a_cache_of_codes_gives_what_it_gives_op_by_op(name: str) -> None:
    model, tokens = _model(SCHEMES["8 bits"]), tokens_of(1, 12)
    fused = fuse_decoding(model)
    op_by_op, cache = (enable_kv_cache(each, cache=_cache(each, QuantizedKVCache, 1)) for each in (model, fused))
    wanted = _steps(model, tokens)
    with implementations(IMPLEMENTATIONS[name]):
        # A number half way between two codes may get either, and with it all that follows.
        np.testing.assert_allclose(_steps(fused, tokens), wanted, rtol=0, atol=0.01 * np.abs(wanted).max())
    assert cache.seq_pos == 12
    for mine, its in zip(cache.arrays, op_by_op.arrays, strict=True):
        apart = np.abs(mine[0].astype(float) - its[0])  # the first layer's do not depend on codes
        assert mine.dtype == its.dtype
        assert apart.max() <= (1 if mine.dtype == np.int8 else 1e-5)
        assert apart.mean() < 0.01


@pytest.mark.parametrize("scheme", ["float", "8 bits", "4 bits in groups", "8 bits, affine"])
@pytest.mark.parametrize("kind", [KVCache, QuantizedKVCache])
def test_it_counts_the_arithmetic_of_the_model(scheme: str, kind: type[KVCache]) -> None:
    model, tokens = _model(SCHEMES[scheme]), tokens_of(2, 12)
    counts = []
    for each in (model, fuse_decoding(model)):
        enable_kv_cache(each, cache=_cache(each, kind, 2))
        each(tokens[:, :5])
        with recording() as recorded:
            each(tokens[:, 5:6])
        events = recorded.profile.events
        counts.append((sum(e.flops or 0 for e in events), sum(e.elementwise or 0 for e in events)))
        disable_kv_cache(each)
    assert counts[0] == counts[1]


def test_it_reads_weights_once_and_of_the_cache_what_is_there() -> None:
    model = _model()
    fused = fuse_decoding(model)
    cache = enable_kv_cache(fused)
    fused(tokens_of(1, 5))
    with recording() as recorded:
        fused(tokens_of(1, 1))
    weights = 4 * sum(parameter.size for parameter in model.parameters())
    rows = 4 * 96 * 11  # positions of the embedding that are not read
    held = cache.nbytes * 5 // 12
    assert recorded.profile.events[0].traffic == 8 + weights - rows + held + 4 * (13 + 2 * 2 * 96)


def test_weights_are_shared_and_never_stale() -> None:
    model, tokens = _model(), tokens_of(1, 4)
    fused = fuse_decoding(model)
    assert [id(p) for p in model.parameters()] == [id(p) for p in fused.parameters()]
    cache = enable_kv_cache(fused)
    assert model.memory is None
    assert model.blocks[0].attention.memory is None

    def train() -> None:
        (model(tokens) * model(tokens)).sum().backward()
        SGD(model.parameters(), lr=0.01).step()

    def assign() -> None:
        model.blocks[1].mlp.expand.weight.data = model.blocks[1].mlp.expand.weight.data * np.float32(2)

    def replace() -> None:
        model.blocks[0].attention.qkv = fused.blocks[0].attention.qkv = Linear(96, 288, seed=5)

    before = np.zeros((1, 4, 13))
    changes: list[Callable[[], None]] = [lambda: None, train, assign, replace]
    for change in changes:
        change()
        cache.reset()
        with no_grad():
            expected = model(tokens).data
        with implementations(decoding.IMPLEMENTATIONS):
            np.testing.assert_allclose(_steps(fused, tokens), expected, rtol=0, atol=1e-5)
        assert np.abs(expected - before).max() > 0.01
        before = expected


@pytest.mark.parametrize("where", ["weight", "values", "bias"])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_nan_spreads_where_numpys_does(where: str, bad: float) -> None:
    model, tokens = _model(), tokens_of(2, 6)
    fused = fuse_decoding(model)
    cache = enable_kv_cache(fused, batch_size=2)
    fused(tokens)
    if where == "values":
        cache.arrays[1][0, 1, 2, 3, 4] = bad
    else:
        getattr(model.blocks[0].mlp.contract, "weight" if where == "weight" else "bias").data[..., 3] = bad
    made = []
    for chosen in IMPLEMENTATIONS.values():
        cache.stand_at(6)
        with implementations(chosen), np.errstate(all="ignore"):
            made.append(np.isfinite(fused(tokens[:, :1]).data))
    assert not made[0].all()
    np.testing.assert_array_equal(made[0], made[1])


@pytest.mark.parametrize("name", list(IMPLEMENTATIONS))
def test_a_key_that_is_no_number_is_not_remembered_as_codes(name: str) -> None:
    model = _model(SCHEMES["8 bits"])
    model.blocks[1].attention.qkv.bias.data[100] = np.inf
    fused = fuse_decoding(model)
    cache = enable_kv_cache(fused, cache=_cache(fused, QuantizedKVCache, 1))
    with implementations(IMPLEMENTATIONS[name]), pytest.raises(ValueError, match="finite"), np.errstate(all="ignore"):
        fused(tokens_of(1, 1))
    assert cache.seq_pos == 0
    assert not cache.arrays[0].any()


@pytest.mark.parametrize("which", ["float64", "transposed", "float64 cache", "blocks that differ"])
def test_other_dtypes_and_orders_are_right_too(which: str) -> None:
    model, tokens = _model(), tokens_of(2, 5)
    mlp = model.blocks[1].mlp
    if which == "transposed":
        mlp.expand.weight.data = np.asfortranarray(mlp.expand.weight.data)
    if which == "float64":
        for parameter in model.parameters():
            parameter.data = parameter.data.astype(np.float64)
    if which == "blocks that differ":
        mlp.expand, mlp.contract = Linear(96, 50, seed=1), Linear(50, 96, seed=2)
    fused = fuse_decoding(model)
    enable_kv_cache(fused, cache=KVCache(2, 12, 2, 4, 24, dtype=np.float64 if "64" in which else np.float32))
    with implementations(decoding.IMPLEMENTATIONS):
        made = _steps(fused, tokens)
    with no_grad():
        np.testing.assert_allclose(made, model(tokens).data, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", list(IMPLEMENTATIONS))
def test_tokens_that_do_not_fit_raise(name: str) -> None:
    model = _model()
    fused = fuse_decoding(model)
    cache = enable_kv_cache(fused, batch_size=2)
    with implementations(IMPLEMENTATIONS[name]):
        for bad in (13, -1):
            with pytest.raises(IndexError, match="must"):
                fused(np.array([[0], [bad]]))
        with pytest.raises(ValueError, match="sequences"):
            fused(tokens_of(3, 1))
    assert cache.seq_pos == 0
    way = IMPLEMENTATIONS[name].get(decode_token, decode_token.reference)
    tables = [model.token_embedding.weight, model.position_embedding.weight, model.norm.weight, model.norm.bias]
    params: Any = {"epsilons": (1e-5,), "bits": None, "group": None, "prepared": {}}
    for position, tokens, message in ((12, 2, "position"), (0, 3, "tokens")):
        operands = [np.zeros(tokens, np.int64), *(each.data for each in tables), *cache.arrays]
        with pytest.raises(ValueError, match=f"{message} must"):
            way.forward(False, *operands, position=position, **params)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: Linear(2, 2), "model"),
        (lambda: quantize_model(small_gpt()), "scheme"),
        (lambda: quantize_model(small_gpt(), plan=Plan("weight-only"), keep=["blocks.0.mlp.expand"]), "scheme"),
        (lambda: fuse(small_gpt()), "fuse"),
        (lambda: enable_kv_cache(model := small_gpt()) and model, "cache"),
    ],
)
def test_what_cannot_be_fused_raises(make: Callable[[], Any], named: str) -> None:
    with pytest.raises((TypeError, ValueError), match=named):
        fuse_decoding(make())


def test_there_is_no_gradient() -> None:
    with pytest.raises(TypeError, match="no gradient"):
        decode_token.reference.backward(np.zeros(1), (), (True,), False)
    fused = fuse_decoding(_model())
    enable_kv_cache(fused)
    assert not fused(tokens_of(1, 1)).requires_grad


def test_products_and_sums_are_in_vectors() -> None:
    matrix, flat, number = types.float32[:, ::1], types.float32[::1], types.int64
    product = vectors.compiled(row_products.affine.py_func, types.void(matrix, matrix, flat, matrix))
    summed = types.void(flat, number, types.int8[:, ::1], flat, number)
    for found in (evidence(product), evidence(vectors.compiled(row_products.weighted_sum.py_func, summed))):
        assert any(re.match(r"v?fn?m[al][ds]d?\w*ps [xyz]mm|mulps|fmla", name) for name in found)
