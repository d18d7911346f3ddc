"""Experiments of the chapter on memoization: what a token costs by length, batch and bytes, with and without cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinytorch.core import ops
from tinytorch.core.dispatch import apply, no_grad
from tinytorch.core.layers import Linear
from tinytorch.core.op import Array
from tinytorch.core.ops.attention import causal_mask
from tinytorch.core.tensor import Tensor
from tinytorch.core.transformers import GPT
from tinytorch.perf.events.flops import flops_of
from tinytorch.perf.events.stream import recording
from tinytorch.perf.measuring import Measurement, interleave, measure
from tinytorch.perf.measuring.memory import MemoryProfiler
from tinytorch.perf.measuring.model_io import MIB
from tinytorch.perf.memoization.cache import KVCache, disable_kv_cache, enable_kv_cache
from tinytorch.perf.memoization.generation import Tokens, generate
from tinytorch.perf.quantization import Plan, QuantizedLinear

#: Enough to be warm; a call here is a whole text, so that a second of it would be long.
_WARMUP_SECONDS = 0.1


def step_flops(model: GPT, position: int, cached: bool) -> int:
    """Return the FLOPs of contractions of the token at ``position`` (0 is the first), counted on a run.

    Raises:
        ValueError: if the model has a cache already, or no such position.
    """
    tokens = np.zeros((1, position + 1), np.int64)
    if not cached:
        return _flops(lambda: model(tokens, last=True))
    enable_kv_cache(model)
    try:
        if position:
            model(tokens[:, :-1])
        return _flops(lambda: model(tokens[:, -1:], last=True))
    finally:
        disable_kv_cache(model)


def _flops(run: Callable[[], Any]) -> int:
    with no_grad(), recording() as recorded:
        run()
    return flops_of(recorded.profile)


def generation_times(
    model: GPT, prompt: Tokens, new_tokens: Sequence[int], repeats: int = 9
) -> dict[int, tuple[Measurement, Measurement]]:
    """Return, by number of new tokens, the seconds of `generate` without and with a cache, sampled in turns."""
    cache = enable_kv_cache(model, batch_size=len(prompt))
    disable_kv_cache(model)

    def cached(count: int) -> None:
        enable_kv_cache(model, cache=cache)
        generate(model, prompt, count)
        disable_kv_cache(model)

    made = {}
    for count in new_tokens:
        both = interleave(
            {
                f"{count} tokens, uncached": lambda count=count: generate(model, prompt, count),
                f"{count} tokens, cached": lambda count=count: cached(count),
            },
            repeats=repeats,
            warmup_seconds=_WARMUP_SECONDS,
        )
        uncached_time, cached_time = both.values()
        made[count] = (uncached_time, cached_time)
    return made


def step_time(model: GPT, cache: KVCache, position: int, repeats: int = 12) -> Measurement:
    """Return the seconds of a step that reads one token for each sequence at ``position``, given all before it.

    What the cache holds does not change the time, so that it is not filled by the model.

    Raises:
        ValueError: if the cache does not serve the model, or has no such position.
    """
    if cache.user is not model:
        raise ValueError("cache must serve the model: give it to enable_kv_cache first")
    tokens = np.zeros((cache.batch_size, 1), np.int64)

    def step() -> None:
        cache.stand_at(position)
        model(tokens, last=True)

    name = f"step at position {position}, batch {cache.batch_size}"
    return measure(step, name, repeats=repeats, warmup_seconds=_WARMUP_SECONDS)


def attention_times(lengths: Sequence[int], heads: int, depth: int, repeats: int = 12) -> list[Measurement]:
    """Return the seconds that one query takes over keys and values of each length, float32, in one layer."""
    draw = np.random.default_rng(0)
    query = draw.standard_normal((1, heads, 1, depth), dtype=np.float32)
    made = []
    for length in lengths:
        keys, values = (draw.standard_normal((1, heads, length, depth), dtype=np.float32) for _ in range(2))

        def attend(keys: Array = keys, values: Array = values) -> None:
            apply(ops.attention, query, keys, values, causal=True)

        made.append(measure(attend, f"{length} keys", repeats=repeats, warmup_seconds=_WARMUP_SECONDS))
    return made


def attention_peaks(lengths: Sequence[int], heads: int, depth: int, training: bool) -> list[int]:
    """Return the most bytes that self-attention over each length holds at a time beyond its input, by tracemalloc.

    ``training`` keeps what a backward needs.
    """
    draw = np.random.default_rng(0)
    made = []
    for length in lengths:
        packed = Tensor(draw.standard_normal((1, length, 3 * heads * depth), dtype=np.float32), requires_grad=training)

        def attend(packed: Tensor = packed) -> Tensor:
            return apply(ops.self_attention, packed, heads=heads, causal=False)

        # Without a mask: it is kept from call to call. The first call may compile, which takes memory of its own.
        attend()
        made.append(round(MemoryProfiler().profile(attend, calls=1)["allocated_mb"] * MIB))
    return made


@dataclass(frozen=True, slots=True)
class Recomputed:
    """Something that a forward pass makes again each time: ``anew`` and ``looked_up`` in seconds, bytes to keep it."""

    name: str
    anew: Measurement
    looked_up: Measurement
    nbytes: int


def recomputed(model: GPT, length: int, repeats: int = 15) -> list[Recomputed]:
    """Return what a pass of ``length`` positions can make anew that depends on the length or the weights alone.

    The last two are what a product needs before it starts: float weights in the order that a kernel reads
    (`fuse` with ``frozen`` keeps them so), and 8-bit weights as floats.
    """
    rows, columns = np.arange(length), np.arange(length)[:, None]
    from tinytorch.perf.kernels.gemm.packing import pack

    weights = [layer.weight.data for _, layer in model.named_modules() if isinstance(layer, Linear)]
    coded = [QuantizedLinear(layer, Plan("weight-only")) for _, layer in model.named_modules() if type(layer) is Linear]
    table = model.token_embedding.weight.data
    cases: list[tuple[str, Callable[[], list[Array]]]] = [
        ("causal mask", lambda: [np.where(rows > columns, np.float32(-np.inf), np.float32(0))]),
        ("position embeddings", lambda: [model.position_embedding(np.arange(length)).data]),
        ("transposed head", lambda: [np.ascontiguousarray(table.T)]),
        ("packed weights", lambda: [pack(weight) for weight in weights]),
        ("8-bit weights as floats", lambda: [layer.dequantized().data for layer in coded]),
    ]
    made = []
    for name, make in cases:
        with no_grad():
            kept = {length: make()}
            both = interleave(
                {"anew": make, "looked up": lambda kept=kept: kept[length]},
                repeats=repeats,
                warmup_seconds=_WARMUP_SECONDS,
            )
        nbytes = sum(array.nbytes for array in kept[length])
        made.append(Recomputed(name, both["anew"], both["looked up"], nbytes))
    return made


def mask_hits(run: Callable[[], Any]) -> float:
    """Return the share of causal masks that NumPy's attention found kept from before, not made anew, during a call.

    Raises:
        ValueError: if the call asked for none.
    """
    causal_mask.cache_clear()
    run()
    found = causal_mask.cache_info()
    if not found.hits + found.misses:
        raise ValueError("run must attend with a mask, but asked for none: give several positions at a time")
    return found.hits / (found.hits + found.misses)
