"""What the page on memoization counts: arithmetic of texts and of steps, bytes of caches and memory of attention."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial

import numpy as np

from tinytorch.chapters.gpt2 import GPT2, read_seconds
from tinytorch.core import ops
from tinytorch.core.dispatch import apply, no_grad
from tinytorch.core.tensor import Tensor
from tinytorch.core.transformers import GPT
from tinytorch.perf.events.flops import flops_of
from tinytorch.perf.events.stream import recording
from tinytorch.perf.machine import Ceilings
from tinytorch.perf.measuring import Counted, Modelled
from tinytorch.perf.measuring.memory import MemoryProfiler
from tinytorch.perf.measuring.model_io import MIB
from tinytorch.perf.measuring.values import Value
from tinytorch.perf.memoization import KVCache, generate
from tinytorch.perf.memoization.cache import empty_cache
from tinytorch.perf.memoization.generation import Tokens
from tinytorch.perf.roofline.bounds import best_bandwidth

#: What the parts of a text's arithmetic are called together.
WHOLE = "with the logits, together"


@dataclass(frozen=True)
class Published:
    """A published model: parameters, layers, heads with keys and values, and bytes of a weight and of a kept number."""

    parameters: float
    layers: int
    kv_heads: int
    head_size: int = 128
    weight: int = 2
    kept: int = 2

    @property
    def weights(self) -> float:
        """Bytes of all weights."""
        return self.parameters * self.weight

    @property
    def position(self) -> int:
        """Bytes of a position's keys and values."""
        return 2 * self.layers * self.kv_heads * self.head_size * self.kept

    def step(self, positions: int) -> dict[str, Modelled]:
        """Return what a step of one text reads: its cache, in GB, and the share of the cache in all bytes."""
        kept = positions * self.position
        return {
            "cache": Modelled(kept / 1e9, "GB", "bytes of the cache", "arithmetic"),
            "share": Modelled(kept / (self.weights + kept), "%", "share of the cache in a step", "arithmetic"),
        }


def counted_text(model: GPT, prompt: Tokens, count: int, cached: bool) -> dict[str, Counted]:
    """Return the FLOPs that ran when ``count`` tokens followed a prompt, by part, and those of all parts together."""
    with empty_cache(model, len(prompt)) if cached else nullcontext(), no_grad(), recording() as recorded:
        generate(model, prompt, count)
    products, attention = "products with weights", "attention"
    found = {products: 0, attention: 0, WHOLE: flops_of(recorded.profile)}
    for event in recorded.profile.events:
        if event.output.shape[-1:] != (model.vocab_size,):  # which logits have
            found[attention if attention in event.op else products] += event.flops or 0
    return {part: Counted(flops, "FLOP", f"{part}: FLOPs of {count} tokens") for part, flops in found.items()}


def step_flops(model: GPT, position: int, cached: bool) -> int:
    """Return the FLOPs of contractions of the token at ``position`` (0 is the first), counted on a run."""
    tokens = np.zeros((1, position + 1), np.int64)
    with empty_cache(model, 1) if cached else nullcontext(), no_grad():
        if cached and position:
            model(tokens[:, :-1])
        with recording() as recorded:
            model(tokens[:, -1:] if cached else tokens, last=True)
    return flops_of(recorded.profile)


def keys_of(tokens: int) -> dict[str, Counted]:
    """Return how many keys a text without a cache computes again, all over those needed, and pairs likewise."""
    computed = tokens * (tokens + 1) // 2
    pairs = sum(n * n for n in range(1, tokens + 1)) / computed
    return {
        "repeated": Counted(computed - tokens, "1", f"keys of {tokens} steps that were computed before"),
        "keys": Counted(computed / tokens, "", f"keys computed for {tokens} tokens over those needed"),
        "pairs": Counted(pairs, "", f"pairs of query and key of {tokens} tokens without a cache over with"),
    }


def attention_peaks(lengths: Sequence[int], heads: int, depth: int, training: bool) -> dict[int, Counted]:
    """Return the most bytes that attention over each length holds beyond its input, for a backward if ``training``."""
    draw = np.random.default_rng(0)
    made = {}
    for length in lengths:
        packed = Tensor(draw.standard_normal((1, length, 3 * heads * depth), dtype=np.float32), requires_grad=training)
        attend = partial(apply, ops.self_attention, packed, heads=heads, causal=False)
        # Without a mask: it is kept from call to call. The first call may compile, which takes memory of its own.
        attend()
        peak = round(MemoryProfiler().profile(attend, calls=1)["needed_mb"] * MIB)
        made[length] = Counted(peak, "B", f"peak memory of attention over {length} positions")
    return made


def squares(peaks: Mapping[int, Counted], heads: int) -> dict[int, Counted]:
    """Return each peak over the bytes of a square of scores in each head."""
    what = "peak memory over that of one square of scores in each head"
    return {n: Counted(peak.value / (4 * heads * n * n), "", what) for n, peak in peaks.items()}


def answers(
    cache: KVCache, again: Mapping[str, Counted], once: Mapping[str, Counted], machine: Ceilings
) -> dict[str, Value]:
    """Return what questions ask of a full cache of GPT-2, and of a text that was counted without and with a cache."""
    least = read_seconds(GPT2.step_bytes + cache.nbytes, machine).measurement("GPT-2's weights and a full cache, read")
    saved = 1 - once[WHOLE].value / again[WHOLE].value
    return {
        "repetition": Counted(saved, "%", "share of the arithmetic that repeats"),
        "equal work": Counted(6 * 96, "positions", "positions whose attention equals the products, 96 wide"),
        "seven billion": best_bandwidth(machine.levels[-1]).scaled(1 / 7e9, "tokens/s"),
        "full step": Modelled.by("the bytes, at the bandwidth", least),
        "outweigh floats": Counted(GPT2.step_bytes // cache.nbytes + 1, "texts", "caches that outweigh floats"),
        "outweigh codes": Counted(GPT2.coded_bytes // cache.nbytes + 1, "texts", "caches that outweigh codes"),
    }
