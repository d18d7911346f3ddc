"""Generate text: read the prompt once, then one token at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tinytorch.core.dispatch import no_grad
from tinytorch.core.layers import as_indices, check_scores
from tinytorch.core.op import Array, whole_numbers
from tinytorch.core.random import Seed, generator_from
from tinytorch.core.transformers import GPT
from tinytorch.perf.memoization.cache import cache_of

Tokens = npt.NDArray[np.int64]


@whole_numbers
def generate(
    model: GPT, prompt: Any, new_tokens: int, *, temperature: float = 0.0, top_k: int | None = None, seed: Seed = 0
) -> Tokens:
    """Generate ``new_tokens`` tokens after each prompt; return prompts and tokens, int64 (B, P + new_tokens).

    With a cache (`enable_kv_cache`) the prompt is read once, the prefill, and then each token on its own; the cache
    is reset first. Without one every token reads all before it again. Both choose the same tokens except where logits
    are equal to rounding.

    Args:
        model: reads token numbers, and gives logits.
        prompt: whole numbers (B, P), P at least 1.
        new_tokens: how many to add, at least 1. The last one is not read, so P + new_tokens - 1 positions must fit.
        temperature: 0 takes the likeliest token; above it tokens are drawn from softmax(logits / temperature).
        top_k: draws only among the k likeliest; all if None.
        seed: random seed of the draws.

    Raises:
        ValueError: if the prompt's shape, or a number, is out of range, the positions do not fit, or the model's logits
            are NaN or infinite.
        TypeError: if the prompt is not of whole numbers.

    Examples:
        >>> import numpy as np
        >>> from tinytorch.core.transformers import GPT
        >>> from tinytorch.perf.memoization import enable_kv_cache, generate
        >>> model = GPT(11, 16, 1, 2, 8, seed=0).eval()
        >>> plain = generate(model, np.array([[3, 1]]), new_tokens=4)
        >>> cache = enable_kv_cache(model)
        >>> cached = generate(model, np.array([[3, 1]]), new_tokens=4)
        >>> plain.shape, np.array_equal(plain, cached)
        ((1, 6), True)
    """
    tokens = _checked_prompt(prompt)
    _check_plan(model, tokens, new_tokens, temperature, top_k)
    draw = generator_from(seed)
    length = tokens.shape[1]
    output = np.empty((len(tokens), length + new_tokens), np.int64)
    output[:, :length] = tokens
    cache = cache_of(model)
    if cache is not None:
        cache.reset()
    with no_grad():
        for end in range(length, length + new_tokens):
            fresh = output[:, end - 1 : end] if cache is not None and end > length else output[:, :end]
            logits = model(fresh, last=True).data[:, -1]
            output[:, end] = sample_tokens(logits, temperature, top_k, draw)
    return output


def sample_tokens(logits: Array, temperature: float, top_k: int | None, draw: np.random.Generator) -> Tokens:
    """Return one token for each row of logits (B, V), shape (B,): see `generate` for the arguments.

    Among the k likeliest, equal logits at the edge are broken towards the smaller token.

    Raises:
        ValueError: if ``temperature`` or ``top_k`` is out of its range, or a row's largest logit is not finite.
    """
    _check_sampling(temperature, top_k)
    check_scores(logits)
    if temperature == 0:
        return np.asarray(logits.argmax(axis=-1), np.int64)
    if top_k is not None and top_k < logits.shape[1]:
        kept = np.argsort(-logits, axis=-1, kind="stable")[:, :top_k]
    else:
        kept = np.broadcast_to(np.arange(logits.shape[1]), logits.shape)
    chosen = np.take_along_axis(logits, kept, axis=-1).astype(np.float64)
    weights = np.exp((chosen - chosen.max(axis=-1, keepdims=True)) / temperature)
    reached = weights.cumsum(axis=-1)
    spots = draw.random((len(logits), 1)) * reached[:, -1:]
    index = np.minimum((reached <= spots).sum(axis=-1, keepdims=True), kept.shape[1] - 1)
    return np.asarray(np.take_along_axis(kept, index, axis=-1)[:, 0], np.int64)


def _checked_prompt(prompt: Any) -> Tokens:
    tokens = as_indices(prompt, "prompt")
    if tokens.ndim != 2 or not tokens.size:
        raise ValueError(f"prompt must have shape (batch, positions), both at least 1, not {tokens.shape}")
    return tokens.astype(np.int64)


def _check_sampling(temperature: float, top_k: int | None) -> None:
    if not 0 <= temperature < np.inf:
        raise ValueError(f"temperature must be 0 or above and finite, not {temperature}")
    if top_k is not None and (not isinstance(top_k, (int, np.integer)) or top_k < 1):
        raise ValueError(f"top_k must be a whole number of at least 1, or None for all, not {top_k}")


def _check_plan(model: GPT, tokens: Tokens, new_tokens: int, temperature: float, top_k: int | None) -> None:
    """Raise ValueError before anything runs, unless all that `generate` is asked for can be done."""
    if not isinstance(new_tokens, (int, np.integer)) or new_tokens < 1:
        raise ValueError(f"new_tokens must be a whole number above 0, not {new_tokens!r}")
    _check_sampling(temperature, top_k)
    low, high = tokens.min(), tokens.max()
    if low < 0 or high >= model.vocab_size:
        raise ValueError(f"prompt must hold tokens in 0..{model.vocab_size - 1}, but they run from {low} to {high}")
    positions = tokens.shape[1] + new_tokens - 1
    cache = cache_of(model)
    if positions > model.max_seq_len:
        raise ValueError(
            f"prompt and new_tokens take {positions} positions, but the model has {model.max_seq_len}: ask for less"
        )
    if cache is not None and len(tokens) != cache.batch_size:
        raise ValueError(f"prompt must hold {cache.batch_size} sequences as the cache does, not {len(tokens)}")
    if cache is not None and positions > cache.max_seq_len:
        raise ValueError(f"prompt and new_tokens take {positions} positions, but the cache has {cache.max_seq_len}")
