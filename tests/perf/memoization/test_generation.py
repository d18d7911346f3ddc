"""Cached generation: logits equal the uncached at every position, samples follow their law, wrong use raises."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special
import scipy.stats

from tests.perf.memoization.small_gpt import small_gpt, tokens_of
from tinytorch.core.dispatch import no_grad
from tinytorch.core.layers import Linear
from tinytorch.core.op import Array
from tinytorch.core.transformers import GPT
from tinytorch.perf.acceleration import fuse
from tinytorch.perf.events.stream import recording
from tinytorch.perf.memoization import (
    KVCache,
    QuantizedKVCache,
    cache_of,
    disable_kv_cache,
    enable_kv_cache,
    generate,
    sample_tokens,
)
from tinytorch.perf.quantization import Plan, quantize_model


def _in_parts(model: GPT, tokens: Array, *sizes: int) -> Array:
    """Return the logits of all positions, read in parts of these sizes and then one by one."""
    parts, start = [], 0
    for size in [*sizes, *[1] * (tokens.shape[1] - sum(sizes))]:
        parts.append(model(tokens[:, start : start + size]).data)
        start += size
    return np.concatenate(parts, axis=1)


def _weight_only() -> GPT:
    model = quantize_model(small_gpt(), plan=Plan("weight-only"))
    assert isinstance(model, GPT)
    return model


def _fused() -> GPT:
    model = fuse(small_gpt())
    assert isinstance(model, GPT)
    return model


@pytest.mark.parametrize("make", [small_gpt, _weight_only, _fused])
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("sizes", [(), (1,), (5,), (4, 3), (12,)])
def test_cached_logits_equal_uncached_ones_at_every_position(
    make: Callable[[], GPT], batch: int, sizes: tuple[int, ...]
) -> None:
    model, tokens = make(), tokens_of(batch, 12)
    with no_grad():
        whole = model(tokens).data
    for _ in range(2):
        enable_kv_cache(model, batch_size=batch)
        np.testing.assert_allclose(_in_parts(model, tokens, *sizes), whole, rtol=0, atol=1e-5)
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


def test_sampling_follows_softmax_of_scaled_logits() -> None:
    logits = np.array([0.3, -1.0, 2.0, 1.1], np.float32)
    drawn = sample_tokens(np.tile(logits, (20_000, 1)), 0.7, None, np.random.default_rng(0))
    counts = np.bincount(drawn, minlength=4)
    assert scipy.stats.chisquare(counts, scipy.special.softmax(logits / 0.7) * 20_000).pvalue > 1e-3
    kept = sample_tokens(np.tile(logits, (20_000, 1)), 0.7, 2, np.random.default_rng(1))
    assert set(kept) == {2, 3}
    share = scipy.special.softmax(logits[2:] / 0.7)
    assert scipy.stats.chisquare(np.bincount(kept - 2), share * 20_000).pvalue > 1e-3


def test_ties_at_the_edge_of_top_k_keep_the_smaller_token() -> None:
    drawn = sample_tokens(np.zeros((200, 5), np.float32), 1.0, 2, np.random.default_rng(0))
    assert set(drawn) == {0, 1}


def test_sampling_depends_on_the_seed_alone() -> None:
    model, prompt = small_gpt(), tokens_of(2, 3)
    enable_kv_cache(model, batch_size=2)
    first, again, other = (generate(model, prompt, 8, temperature=2.0, top_k=6, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    disable_kv_cache(model)
    np.testing.assert_array_equal(generate(model, prompt, 8, temperature=2.0, top_k=6, seed=1), first)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((tokens_of(1, 4), 9), "prompt must hold 2 sequences"),
        ((tokens_of(2, 4), 10), "13 positions, but the model has 12"),
        ((tokens_of(2, 4), 0), "new_tokens must be"),
        ((tokens_of(2, 4)[0], 1), "prompt must have shape"),
        ((tokens_of(2, 4) + 10, 1), r"tokens in 0\.\.12"),
    ],
)
def test_wrong_requests_raise_and_leave_the_cache_alone(arguments: Any, message: str) -> None:
    model = small_gpt()
    cache = enable_kv_cache(model, batch_size=2)
    model(tokens_of(2, 3))
    with pytest.raises(ValueError, match=message):
        generate(model, *arguments)
    assert cache.seq_pos == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [({"temperature": -1.0}, "temperature must be"), ({"temperature": np.nan}, "temperature"), ({"top_k": 0}, "top_k")],
)
def test_wrong_sampling_raises(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        generate(small_gpt(), tokens_of(1, 2), 1, **options)
    with pytest.raises(TypeError, match="prompt"):
        generate(small_gpt(), tokens_of(1, 2) + 0.5, 1)


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


def _twice(model: GPT) -> None:
    enable_kv_cache(model)
    enable_kv_cache(model)


def _of_another(model: GPT) -> None:
    enable_kv_cache(model, cache=enable_kv_cache(small_gpt(1)))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (_twice, "must not have a cache already"),
        (_of_another, "must not serve another model"),
        (lambda model: enable_kv_cache(model, cache=KVCache(1, 12, 2, 4, 5)), "it is another's"),
        (lambda model: enable_kv_cache(model, max_seq_len=13), "at most the model's 12"),
        (lambda model: enable_kv_cache(model) and model(tokens_of(2, 3)), "of 1 sequences as the cache is"),
    ],
)
def test_wrong_use_of_a_cache_raises(wrong: Callable[[GPT], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        wrong(small_gpt())


def test_only_a_gpt_takes_a_cache() -> None:
    for function in (enable_kv_cache, disable_kv_cache):
        with pytest.raises(TypeError, match="model"):
            function(Linear(2, 3))


def test_disabling_frees_the_cache_for_another_model() -> None:
    model, other = small_gpt(), small_gpt(1)
    cache = enable_kv_cache(model)
    model(tokens_of(1, 4))
    disable_kv_cache(model)
    disable_kv_cache(model)
    assert cache_of(model) is None
    assert enable_kv_cache(other, cache=cache) is cache
    assert cache.seq_pos == 0


def test_last_gives_the_logits_of_the_last_position() -> None:
    model, tokens = small_gpt(), tokens_of(2, 7)
    with no_grad():
        np.testing.assert_allclose(model(tokens, last=True).data, model(tokens).data[:, -1:], rtol=1e-5, atol=1e-5)


def test_cached_logits_record_nothing_for_backward() -> None:
    model = small_gpt()
    enable_kv_cache(model)
    assert not model(tokens_of(1, 4)).requires_grad
