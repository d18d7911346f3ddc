"""What a decoding step costs in floats and in codes: its time, the bytes that it reads, and the error that it makes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tinytorch.core.dispatch import no_grad
from tinytorch.core.op import Array
from tinytorch.core.transformers import GPT
from tinytorch.perf.acceleration import accelerated
from tinytorch.perf.measuring import Measurement, interleave
from tinytorch.perf.memoization.cache import KVCache, enable_kv_cache
from tinytorch.perf.memoization.decoding import fuse_decoding
from tinytorch.perf.memoization.quantized_cache import QuantizedKVCache
from tinytorch.perf.quantization import Plan, Scheme, quantize_model

_EIGHT, _FOUR = Scheme(8, per="channel"), Scheme(4, per="group", group=32)
#: Name, scheme of the weights (None for float32) and kind of cache.
_VARIANTS: tuple[tuple[str, Scheme | None, type[KVCache]], ...] = (
    ("float32", None, KVCache),
    ("8-bit weights", _EIGHT, KVCache),
    ("8-bit weights and cache", _EIGHT, QuantizedKVCache),
    ("4-bit weights in groups of 32", _FOUR, KVCache),
)


@dataclass(frozen=True, slots=True)
class Decoding:
    """One way to take a step: its seconds, bytes of all weights and of the cache, and its error.

    ``error`` is the largest difference of a logit from the float32 model's without a cache, as a share of the largest.
    """

    name: str
    step: Measurement
    weight_bytes: int
    cache_bytes: int
    error: float


def decoding_variants(model: GPT, position: int, repeats: int = 12) -> list[Decoding]:
    """Return one row for each way to take the token at ``position`` in one compiled op, timed in turns, float32 first.

    Raises:
        ValueError: if there is no such position, or the model has a cache.
        ModuleNotFoundError: if Numba, which compiles the op, is not installed.
    """
    if not 0 < position < model.max_seq_len:
        raise ValueError(f"position must lie in 1..{model.max_seq_len - 1}, not {position}")
    tokens = np.random.default_rng(0).integers(0, model.vocab_size, (1, position + 1))
    heads = model.blocks[0].attention.num_heads
    shape = (1, model.max_seq_len, len(model.blocks), heads, model.embed_dim // heads)
    with no_grad():
        whole = model(tokens).data
    steps: dict[str, Callable[[], Array]] = {}
    held: dict[str, tuple[int, int, float]] = {}
    with accelerated():
        for name, scheme, kind in _VARIANTS:
            variant = model if scheme is None else quantize_model(model, plan=Plan("weight-only", scheme))
            assert isinstance(variant, GPT)
            weights = sum(array.nbytes for array in variant.state_dict().values())
            fused, cache = fuse_decoding(variant), kind(*shape)
            enable_kv_cache(fused, cache=cache)
            made = np.concatenate([fused(tokens[:, at : at + 1]).data for at in range(position + 1)], axis=1)
            held[name] = weights, cache.nbytes, float(np.abs(made - whole).max() / np.abs(whole).max())
            steps[name] = _stepping(fused, cache, tokens[:, -1:], position)
        times = interleave(steps, repeats=repeats, warmup_seconds=0.1)
    return [Decoding(name, times[name], *held[name]) for name in steps]


def _stepping(model: GPT, cache: KVCache, token: Array, position: int) -> Callable[[], Array]:
    def step() -> Array:
        cache.stand_at(position)
        return model(token, last=True).data

    return step
