"""What the page on memoization counts or works out: arithmetic of texts, bytes of caches and of scores, and answers."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tinytorch.chapters.gpt2 import GPT2, NUMBER, Shape, read_seconds
from tinytorch.core import ops
from tinytorch.core.dispatch import apply, no_grad
from tinytorch.core.ops.attention import causal_mask
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


def steps_of(texts: Mapping[str, tuple[Published, int]]) -> dict[str, dict[str, Modelled]]:
    """Return what a step of one text reads, by name of a model with its positions: weights, cache, and its share."""
    found = {}
    for name, (model, positions) in texts.items():
        kept = positions * model.position
        share = kept / (model.weights + kept)
        found[name] = {
            "weights": Modelled(model.weights / 1e9, "GB", "bytes of the weights", "arithmetic"),
            "cache": Modelled(kept / 1e9, "GB", "bytes of the cache", "arithmetic"),
            "share": Modelled(share, "%", "share of the cache in what a step reads", "arithmetic"),
        }
    return found


def over(one: Counted, other: Counted, what: str) -> Counted:
    """Return how many times the other it is, which is counted, too."""
    return Counted(one.value / other.value, "", what)


def counted_text(model: GPT, prompt: Tokens, count: int, cached: bool) -> dict[str, int]:
    """Return the FLOPs of "products", "attention" and "logits" that ran when so many tokens followed a prompt."""
    with empty_cache(model, len(prompt)) if cached else nullcontext(), no_grad(), recording() as recorded:
        generate(model, prompt, count)
    found = {"products": 0, "attention": 0, "logits": 0}
    for event in recorded.profile.events:
        of_vocabulary = event.output.shape[-1:] == (model.vocab_size,)
        found["attention" if "attention" in event.op else "logits" if of_vocabulary else "products"] += event.flops or 0
    return found


def step_flops(model: GPT, position: int, cached: bool) -> int:
    """Return the FLOPs of contractions of the token at ``position`` (0 is the first), counted on a run."""
    tokens = np.zeros((1, position + 1), np.int64)
    with empty_cache(model, 1) if cached else nullcontext(), no_grad():
        if cached and position:
            model(tokens[:, :-1])
        with recording() as recorded:
            model(tokens[:, -1:] if cached else tokens, last=True)
    return flops_of(recorded.profile)


@dataclass(frozen=True)
class Arithmetic:
    """FLOPs of a part of a text without a cache and with one, and how many times as many the first are."""

    again: Counted
    once: Counted
    ratio: Counted


def arithmetic(again: Mapping[str, int], once: Mapping[str, int], count: int) -> dict[str, Arithmetic]:
    """Return the FLOPs of ``count`` tokens by part, counted without a cache, ``again``, and with one, ``once``."""

    def part(name: str, *kinds: str) -> Arithmetic:
        a, o = (
            Counted(sum(each[kind] for kind in kinds), "FLOP", f"arithmetic {how} a cache")
            for each, how in ((again, "without"), (once, "with"))
        )
        return Arithmetic(a, o, over(a, o, f"{name}: FLOPs of {count} tokens without a cache over those with one"))

    kinds = {"products with weights": ["products"], "attention": ["attention"], "with the logits, together": [*again]}
    return {name: part(name, *each) for name, each in kinds.items()}


def shape_of(model: GPT) -> Shape:
    """Return the sizes of a GPT, whose formulas say what a call takes."""
    heads = model.blocks[0].attention.num_heads
    return Shape(len(model.blocks), model.embed_dim, heads, model.max_seq_len, model.vocab_size)


def _saved(model: GPT, count: int) -> float:
    shape, lengths = shape_of(model), range(1, count + 1)
    return sum(map(shape.reread_flops, lengths)) / sum(map(shape.step_flops, lengths))


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
        made[length] = Counted(peak, "B", "peak memory")
    return made


def by_length(ways: Mapping[str, Mapping[int, Counted]]) -> dict[int, dict[str, Counted]]:
    """Return the peaks of each way of attention by length."""
    return {n: {way: peaks[n] for way, peaks in ways.items()} for n in next(iter(ways.values()))}


def squares(peaks: Mapping[int, Counted], heads: int) -> dict[int, Counted]:
    """Return each peak over the bytes of a square of scores in each head."""
    what = "peak memory over that of one square of scores in each head"
    return {n: Counted(peak.value / (4 * heads * n * n), "", what) for n, peak in peaks.items()}


def mask_hits(run: Callable[[], Any]) -> float:
    """Return the share of causal masks that NumPy's attention found kept from before, not made anew, during a call."""
    causal_mask.cache_clear()
    run()
    found = causal_mask.cache_info()
    return found.hits / (found.hits + found.misses)


def hits_of_growth(model: GPT, prompt: Tokens) -> dict[str, Counted]:
    """Return `mask_hits` of eight passes over the "same" 64 positions, and of a text "growing" to 65 uncached."""
    with no_grad():
        same = mask_hits(lambda: [model(np.zeros((1, 64), int)) for _ in range(8)])
        growing = mask_hits(lambda: generate(model, prompt, 64))
    return {
        "same": Counted(same, "%", "masks found kept in eight passes over 64 positions"),
        "growing": Counted(growing, "%", "masks found kept while 64 tokens are generated without a cache"),
    }


def answers(cache: KVCache, model: GPT, count: int, machine: Ceilings) -> dict[str, Value]:
    """Return what questions ask of a cache of GPT-2's shape, and of a model and its text; the page says what it is."""
    course, weights, nbytes = 2 * 12 * 8 * 12 * 2048 * 64 * NUMBER, NUMBER * GPT2.parameters, cache.nbytes
    read = read_seconds(GPT2.step_bytes + nbytes, machine).measurement("GPT-2's weights and a full cache, read once")
    worked: dict[str, tuple[float, str]] = {
        "with queries": (nbytes * 3 // 2, "B"),
        "positions of equal work": (24 * model.embed_dim**2 // (4 * model.embed_dim), "positions"),
        "the course's cache": (course, "B"),
        "over half a gigabyte": (course / 500e6, ""),
        "in a gigabyte": ((10**9 - weights) // nbytes, "full texts"),
        "a tenth of a second": ((weights + nbytes) / 0.1, "B/s"),
        "outweigh floats": (GPT2.step_bytes // nbytes + 1, "texts"),
        "outweigh codes": (GPT2.coded_bytes // nbytes + 1, "texts"),
    }
    return {
        "repetition": Counted(1 - 1 / _saved(model, count), "%", "share of the arithmetic that repeats"),
        "seven billion bytes": best_bandwidth(machine.levels[-1]).scaled(1 / 7e9, "tokens/s"),
        "full step": Modelled.by("the bytes, at the bandwidth", read),
        **{name: Modelled(value, unit, name, "arithmetic") for name, (value, unit) in worked.items()},
    }
