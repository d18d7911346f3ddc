"""Caches of keys and values, and generation: logits equal the uncached, samples follow their law, wrong use raises."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from tests.perf.small_models import small_gpt, tokens_of
from tinytorch.core.dispatch import no_grad
from tinytorch.core.layers import Linear
from tinytorch.core.op import Array
from tinytorch.core.tensor import Tensor
from tinytorch.core.transformers import GPT
from tinytorch.perf.acceleration import fuse
from tinytorch.perf.benchmarking.variants import scoring
from tinytorch.perf.events.stream import recording
from tinytorch.perf.memoization import (
    KVCache,
    QuantizedKVCache,
    cache_of,
    disable_kv_cache,
    enable_kv_cache,
    fuse_decoding,
    generate,
)
from tinytorch.perf.memoization.generation import sample_tokens
from tinytorch.perf.quantization import Plan, quantize_model

SIZES: dict[str, Any] = {"batch_size": 2, "max_seq_len": 6, "num_layers": 3, "num_heads": 4, "head_dim": 5}


def _cache(kind: type[KVCache] = KVCache) -> KVCache:
    return kind(**SIZES)


def _drawn(count: int, seed: int) -> Array:
    return np.random.default_rng(seed).standard_normal((2, 4, count, 5), dtype=np.float32)


def test_update_get_and_advance_keep_positions_in_order_and_reset_forgets() -> None:
    cache = _cache()
    keys, values = _drawn(6, 0), _drawn(6, 1)
    for start, stop in ((0, 3), (3, 4), (4, 6)):
        for layer in range(3):
            with pytest.raises(ValueError, match="written"):
                cache.advance(stop - start)  # not by every layer
            part = np.s_[:, :, start:stop]
            seen, _ = cache.update(layer, Tensor(keys[part] + layer), values[part] - layer)
            np.testing.assert_array_equal(seen.data, keys[:, :, :stop] + layer)
            assert cache.get(layer)[0].shape == (2, 4, start, 5)  # not counted in yet
        cache.advance(stop - start)
        assert (cache.seq_pos, cache.get_memory_usage()["used_bytes"]) == (stop, cache.nbytes * stop // 6)
        for layer in range(3):
            found = cache.get(layer)
            np.testing.assert_array_equal(found[0].data, keys[:, :, :stop] + layer)
            np.testing.assert_array_equal(found[1].data, values[:, :, :stop] - layer)
    cache.reset()
    assert (cache.seq_pos, cache.get(0)[0].shape[2]) == (0, 0)
    for layer in (-1, 3):
        with pytest.raises(IndexError, match="layer_idx"):
            cache.update(layer, keys, values)
        with pytest.raises(IndexError, match="layer_idx"):
            cache.get(layer)


@given(
    sizes=st.fixed_dictionaries(dict.fromkeys(SIZES, st.integers(1, 5))),
    dtype=st.sampled_from([np.float16, np.float32, np.float64]),
)
def test_bytes_are_two_for_each_layer_head_dimension_and_position(sizes: dict[str, Any], dtype: Any) -> None:
    batch, positions, layers, heads, depth = (sizes[name] for name in SIZES)
    cache, quantized = KVCache(**sizes, dtype=dtype), QuantizedKVCache(**sizes)
    wanted = 2 * batch * layers * heads * depth * positions * np.dtype(dtype).itemsize
    usage = cache.get_memory_usage()
    assert cache.nbytes == usage["total_bytes"] == wanted == sum(each.nbytes for each in cache.arrays)
    assert (usage["total_mb"], usage["used_bytes"]) == (wanted / 2**20, 0)
    assert usage["per_layer_mb"] == pytest.approx(wanted / 2**20 / layers)
    assert usage["total_elements"] == wanted / np.dtype(dtype).itemsize
    assert quantized.nbytes == 2 * batch * layers * heads * positions * (depth + 4)
    assert quantized.nbytes == sum(each.nbytes for each in quantized.arrays)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda k: (0, k[:1], k[:1]), "key must have shape"),
        (lambda k: (0, k[:, :3], k), "key must have shape"),
        (lambda k: (0, k, k[..., :4]), "value must have shape"),
        (lambda k: (0, k[0], k), "key must have shape"),
        (lambda k: (0, k[:, :, :0], k), "T at least 1"),
        (lambda k: (0, k, k[:, :, :1]), "value must have the key's shape"),
        (lambda k: (0, np.repeat(k, 4, 2), np.repeat(k, 4, 2)), "cannot take 8 more"),
    ],
)
def test_wrong_updates_raise_and_write_nothing(change: Any, message: str) -> None:
    cache = _cache()
    before = cache.update(0, _drawn(2, 0), _drawn(2, 0))[0].data.copy()
    with pytest.raises(ValueError, match=message):
        cache.update(*change(_drawn(2, 3)))
    cache.update(1, _drawn(2, 1), _drawn(2, 1))
    cache.update(2, _drawn(2, 2), _drawn(2, 2))
    cache.advance(2)
    np.testing.assert_array_equal(cache.get(0)[0].data, before)


@pytest.mark.parametrize(("name", "wrong"), [*((name, 0) for name in SIZES), ("dtype", np.int8)])
def test_sizes_must_be_whole_and_positive(name: str, wrong: Any) -> None:
    with pytest.raises(ValueError, match=f"{name} must"):
        KVCache(**{**SIZES, name: wrong})


@pytest.mark.parametrize("size", [1.0, 100.0, 1e-30, 1e37])
def test_quantized_cache_returns_what_its_codes_stand_for(size: float) -> None:
    cache = _cache(QuantizedKVCache)
    keys, values = _drawn(3, 0), _drawn(3, 1) * np.float32(size)
    for bad in (np.nan, np.inf):
        with pytest.raises(ValueError, match="value"):
            cache.update(1, keys, values * np.float32(bad))
    seen = cache.update(1, keys, values)
    for made, true in zip(seen, (keys, values), strict=True):
        step = np.abs(true).max(axis=3, keepdims=True) / 127
        assert (np.abs(made.data - true) <= 0.5001 * step).all()
        assert (np.abs(made.data - true) > 0).any()


def _in_parts(model: GPT, tokens: Array, *sizes: int) -> Array:
    """Return the logits of all positions, read in parts of these sizes and then one by one."""
    parts, start = [], 0
    for size in [*sizes, *[1] * (tokens.shape[1] - sum(sizes))]:
        parts.append(model(tokens[:, start : start + size]).data)
        start += size
    return np.concatenate(parts, axis=1)


MAKE: dict[str, Callable[[], Any]] = {
    "plain": small_gpt,
    "weight-only": lambda: quantize_model(small_gpt(), plan=Plan("weight-only")),
    "fused": lambda: fuse(small_gpt()),
}


@pytest.mark.parametrize("make", MAKE)
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("sizes", [(), (1,), (5,), (4, 3), (12,)])
def test_cached_logits_equal_uncached_ones_at_every_position(make: str, batch: int, sizes: tuple[int, ...]) -> None:
    model, tokens = MAKE[make](), tokens_of(batch, 12)
    with no_grad():
        whole = model(tokens).data
        np.testing.assert_allclose(model(tokens, last=True).data, whole[:, -1:], rtol=1e-5, atol=1e-5)
    for _ in range(2):
        cache = enable_kv_cache(model, batch_size=batch)
        np.testing.assert_allclose(_in_parts(model, tokens, *sizes), whole, rtol=0, atol=1e-5)
        cache.reset()
        assert not model(tokens[:, :1]).requires_grad
        disable_kv_cache(model)
        np.testing.assert_array_equal(model(tokens).data, whole)


def test_quantized_cache_changes_logits_a_little() -> None:
    model, tokens = small_gpt(), tokens_of(2, 12)
    with no_grad():
        whole = model(tokens).data
    enable_kv_cache(model, cache=QuantizedKVCache(2, 12, 2, 2, 10))
    error = np.abs(_in_parts(model, tokens, 4) - whole).max() / np.abs(whole).max()
    assert 1e-6 < error < 0.05


def test_a_step_does_the_work_of_one_position_and_all_keys() -> None:
    model, tokens = small_gpt(), tokens_of(1, 12)
    enable_kv_cache(model)
    model(tokens[:, :7])
    with recording() as recorded:
        model(tokens[:, 7:8])
    flops = sum(event.flops or 0 for event in recorded.profile.events)
    linears = sum(m.weight.size for _, m in model.named_modules() if isinstance(m, Linear))
    assert flops == 2 * (linears + 13 * 20 + 2 * 2 * 8 * 20)  # layers, head, and 2 products of 2 layers over 8 keys


@pytest.mark.parametrize("cached", [False, True])
def test_greedy_tokens_are_the_likeliest_after_their_own(cached: bool) -> None:
    model, prompt = small_gpt(), tokens_of(3, 4)
    if cached:
        enable_kv_cache(model, batch_size=3)
    made = generate(model, prompt, 9)
    disable_kv_cache(model)
    assert made.shape == (3, 13)
    np.testing.assert_array_equal(made[:, :4], prompt)
    with no_grad():
        np.testing.assert_array_equal(model(made[:, :-1]).data.argmax(axis=-1)[:, 3:], made[:, 4:])


@pytest.mark.parametrize(("top_k", "kept"), [(None, [0, 1, 2, 3]), (2, [2, 3])])
def test_sampling_follows_softmax_of_scaled_logits(top_k: int | None, kept: list[int]) -> None:
    logits = np.array([0.3, -1.0, 2.0, 1.1], np.float32)
    drawn = sample_tokens(np.tile(logits, (20_000, 1)), 0.7, top_k, np.random.default_rng(0))
    counts = np.bincount(drawn, minlength=4)
    assert counts[kept].sum() == 20_000
    assert scipy.stats.chisquare(counts[kept], scipy.special.softmax(logits[kept] / 0.7) * 20_000).pvalue > 1e-3
    tied = sample_tokens(np.zeros((200, 5), np.float32), 1.0, top_k, np.random.default_rng(0))
    assert set(tied) == {*range(top_k or 5)}, "of ties at the edge the smaller token"


def test_sampling_depends_on_the_seed_alone() -> None:
    model, prompt = small_gpt(), tokens_of(2, 3)
    enable_kv_cache(model, batch_size=2)
    made = [generate(model, prompt, 8, temperature=2.0, top_k=6, seed=seed) for seed in (1, 2)]
    disable_kv_cache(model)
    np.testing.assert_array_equal(generate(model, prompt, 8, temperature=2.0, top_k=6, seed=1), made[0])
    assert (made[0] != made[1]).any()


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((tokens_of(1, 4), 9), {}, "prompt must hold 2 sequences"),
        ((tokens_of(2, 4), 10), {}, "13 positions, but the model has 12"),
        ((tokens_of(2, 4), 0), {}, "new_tokens must be"),
        ((tokens_of(2, 4)[0], 1), {}, "prompt must have shape"),
        ((tokens_of(2, 4) + 10, 1), {}, r"tokens in 0\.\.12"),
        ((tokens_of(2, 4) + 0.5, 1), {}, "prompt"),
        ((tokens_of(2, 4), 1), {"temperature": -1.0}, "temperature must be"),
        ((tokens_of(2, 4), 1), {"temperature": np.nan}, "temperature"),
        ((tokens_of(2, 4), 1), {"top_k": 0}, "top_k"),
    ],
)
def test_wrong_requests_raise_and_leave_the_cache_alone(arguments: Any, options: Any, message: str) -> None:
    model = small_gpt()
    cache = enable_kv_cache(model, batch_size=2)
    model(tokens_of(2, 3))
    with pytest.raises((ValueError, TypeError), match=message):
        generate(model, *arguments, **options)
    assert cache.seq_pos == 3


def test_a_cache_shorter_than_the_model_is_the_limit() -> None:
    model = small_gpt()
    cache = enable_kv_cache(model, max_seq_len=5)
    with pytest.raises(ValueError, match="positions"):
        generate(model, tokens_of(1, 4), 3)
    model(tokens_of(1, 5))
    with pytest.raises(ValueError, match="positions"):
        model(tokens_of(1, 1))
    cache.reset()
    assert model(tokens_of(1, 1)).shape == (1, 1, 13)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda model: [enable_kv_cache(model) for _ in range(2)], "must not have a cache already"),
        (lambda model: enable_kv_cache(model, cache=enable_kv_cache(small_gpt(1))), "must not belong to another model"),
        (lambda model: enable_kv_cache(model, cache=KVCache(1, 12, 2, 4, 5)), "layers, heads and head_dim"),
        (lambda model: enable_kv_cache(model, max_seq_len=13), "at most the model's 12"),
        (lambda model: enable_kv_cache(model) and model(tokens_of(2, 3)), "have 1 sequences, as the cache has"),
        (lambda _: enable_kv_cache(Linear(2, 3)), "model"),
        (lambda _: disable_kv_cache(Linear(2, 3)), "model"),
    ],
)
def test_wrong_use_of_a_cache_raises(wrong: Callable[[GPT], Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        wrong(small_gpt())


def test_disabling_frees_the_cache_for_another_model() -> None:
    model, other = small_gpt(), small_gpt(1)
    cache = enable_kv_cache(model)
    model(tokens_of(1, 4))
    disable_kv_cache(model)
    disable_kv_cache(model)
    assert cache_of(model) is None
    assert enable_kv_cache(other, cache=cache) is cache
    assert cache.seq_pos == 0


NAN, INF = np.nan, np.inf
BAD = [[0, 1, NAN, 30], [NAN] * 4, [0, INF, 1, 2], [INF, INF, 0, 0], [-INF] * 4]
SAMPLING = [(0.0, None), (1.0, None), (1.0, 1), (0.7, 2)]


@pytest.mark.parametrize(("temperature", "top_k"), SAMPLING)
def test_sampling_refuses_scores_without_a_largest_and_never_draws_what_is_ruled_out(
    temperature: float, top_k: int | None
) -> None:
    for row in BAD:
        with pytest.raises(ValueError, match="logits"):
            sample_tokens(np.array([[0, 1, 2, 3], row], np.float32), temperature, top_k, np.random.default_rng(0))
    logits = np.tile(np.array([-INF, 1, -INF, 1.5], np.float32), (200, 1))
    assert set(sample_tokens(logits, temperature, top_k, np.random.default_rng(0)).tolist()) <= {1, 3}


def test_prompts_are_spelt_as_tokens_are() -> None:
    model = GPT(11, 16, 1, 2, 32, seed=0).eval()
    expected = generate(model, np.array([[3, 1]]), 4)
    fused = fuse_decoding(model)
    enable_kv_cache(fused)
    for made in (model, fused):
        for prompt in (Tensor([[3, 1]]), [[3, 1]], np.array([[3.0, 1.0]])):
            np.testing.assert_array_equal(generate(made, prompt, 4), expected)
    assert fused(Tensor([[0]])).shape == (1, 1, 11)
    with pytest.raises(TypeError, match="tokens"):
        fused(Tensor([[0.5]]))


@pytest.mark.parametrize(
    ("outputs", "targets"),
    [
        *((np.eye(3), [0, last, 2]) for last in (-100, 3, -1, 0.5, NAN)),
        (np.eye(3), [-100, -100, -100]),
        (np.zeros((3, 2, 3)), [[0, 0], [-100, 0], [-100, -100]]),
        ([], [0, 1, 2]),
        (np.full((3, 3), NAN), [0, 1, 2]),
    ],
)
def test_labels_that_are_no_class_and_empty_outputs_are_refused(outputs: Any, targets: Any) -> None:
    with pytest.raises(ValueError, match=r"targets|outputs"):
        scoring(np.zeros((3, 1), np.float32), np.array(targets)).correct(lambda x: outputs)


@pytest.mark.parametrize("targets", [Tensor([0, 1, 2]), np.array([0, 1, 2], np.uint8), np.array([0, 1, 2.0])])
def test_labels_are_spelt_as_tokens_are(targets: Any) -> None:
    right = scoring(np.zeros((3, 1), np.float32), targets).correct(lambda x: np.eye(3)[[0, 1, 1]])
    assert right is not None
    assert right.tolist() == [True, True, False]
