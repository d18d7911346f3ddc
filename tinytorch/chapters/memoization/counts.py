"""What the page on memoization counts: arithmetic of texts, bytes and times of steps."""

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinytorch.chapters.gpt2 import GPT2, read_seconds
from tinytorch.core.dispatch import no_grad
from tinytorch.core.transformers import GPT
from tinytorch.perf.events.flops import flops_of
from tinytorch.perf.events.stream import recording
from tinytorch.perf.machine import Ceilings
from tinytorch.perf.measuring import Counted, Measurement, Modelled, Quoted
from tinytorch.perf.measuring.values import Value
from tinytorch.perf.memoization import KVCache, generate
from tinytorch.perf.memoization.cache import empty_cache
from tinytorch.perf.memoization.generation import Tokens

#: What the parts of a text's arithmetic are called together.
WHOLE = "with the logits, together"
#: What predicts the time of a step of a published model.
BANDWIDTH = "the bytes, at the bandwidth"
#: Bytes per second that the memory of an H100 delivers, as https://jax-ml.github.io/scaling-book/gpus quotes it.
H100 = 3.35e12


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

    def step(self, positions: int, sequences: int = 1) -> dict[str, Modelled]:
        """Return the bytes of the caches of so many sequences, and the time and tokens of a step on an H100."""
        kept = sequences * positions * self.position
        seconds = (self.weights + kept) / H100
        return {
            "caches": Modelled(kept / 1e9, "GB", "bytes of the caches", "arithmetic"),
            "time": Modelled(seconds, "s", "lower bound on the time of a step", BANDWIDTH),
            "rate": Modelled(sequences / seconds, "tokens/s", "upper bound on the tokens of all sequences", BANDWIDTH),
        }


def compared_with_bound(measured: Mapping[str, tuple[float, float]], bandwidth: float, source: str) -> dict[str, Any]:
    """Return what others measured of steps of one sequence, next to what the bandwidth allows.

    Args:
        measured: by name, tokens per second, and bytes per second that were read for them.
        bandwidth: bytes per second that the memory delivers.
        source: who measured.
    """
    return {
        name: {
            "read": Modelled(used / rate / 1e9, "GB", "bytes of a step, from the published rates", "arithmetic"),
            "bound": Modelled(bandwidth * rate / used, "tokens/s", "most steps per second", BANDWIDTH),
            "found": Quoted(rate, "tokens/s", "measured steps per second", source),
            "share": Modelled(used / bandwidth, "%", "measured rate over its bound", "arithmetic"),
        }
        for name, (rate, used) in measured.items()
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
    """Return how many keys a sequence without a cache computes, all over those needed, and pairs likewise."""
    computed = tokens * (tokens + 1) // 2
    pairs = sum(n * n for n in range(1, tokens + 1)) / computed
    return {
        "computed": Counted(computed, "1", f"keys that {tokens} steps without a cache compute"),
        "keys": Counted(computed / tokens, "", f"keys computed for {tokens} tokens over those needed"),
        "pairs": Counted(pairs, "", f"pairs of query and key of {tokens} tokens without a cache over with"),
    }


def answers(cache: KVCache, machine: Ceilings, reading: Measurement) -> dict[str, Value]:
    """Return what questions ask of a full cache of GPT-2, and of a model that reads 120 times the bytes of a step.

    Args:
        cache: of GPT-2, full.
        machine: what reads the weights and the cache of GPT-2.
        reading: time in which the bytes of that step are read.
    """
    least = read_seconds(GPT2.step_bytes + cache.nbytes, machine).measurement("GPT-2's weights and a full cache, read")
    return {
        "equal work": Counted(6 * 96, "positions", "positions whose attention equals the products, 96 wide"),
        "seven billion": Modelled.by(BANDWIDTH, reading.scaled(120, "s", "120 times the bytes of a step, read")),
        "full step": Modelled.by(BANDWIDTH, least),
        "outweigh floats": Counted(GPT2.step_bytes // cache.nbytes + 1, "sequences", "caches that outweigh floats"),
        "outweigh codes": Counted(GPT2.coded_bytes // cache.nbytes + 1, "sequences", "caches that outweigh codes"),
    }
