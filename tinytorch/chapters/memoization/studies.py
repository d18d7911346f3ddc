"""Experiments of the page on memoization: what a token costs by length, batch and bytes, with and without cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tinytorch.core import ops
from tinytorch.core.dispatch import apply, no_grad
from tinytorch.core.layers import Linear
from tinytorch.core.op import Array
from tinytorch.core.ops.attention import causal_mask
from tinytorch.core.tensor import Tensor
from tinytorch.core.transformers import GPT
from tinytorch.perf.acceleration import accelerated
from tinytorch.perf.engines import NotMeasured, Raced, study
from tinytorch.perf.events.flops import flops_of
from tinytorch.perf.events.stream import recording
from tinytorch.perf.kernels.gemm.packing import pack
from tinytorch.perf.measuring import Measurement, interleave, ratio
from tinytorch.perf.measuring.memory import MemoryProfiler
from tinytorch.perf.measuring.model_io import MIB
from tinytorch.perf.memoization import KVCache, QuantizedKVCache, disable_kv_cache, enable_kv_cache, fuse_decoding
from tinytorch.perf.memoization.generation import Tokens, generate
from tinytorch.perf.profiling.shares import time_between_ops
from tinytorch.perf.quantization import Plan, QuantizedLinear, Scheme, quantize_model

#: Enough to be warm; a call here is a whole text, so that a second of it would be long.
_WARMUP_SECONDS = 0.1
_EIGHT, _FOUR = Scheme(8, per="channel"), Scheme(4, per="group", group=32)
#: Name, scheme of the weights (None for float32) and kind of cache.
_VARIANTS: tuple[tuple[str, Scheme | None, type[KVCache]], ...] = (
    ("float32", None, KVCache),
    ("8-bit weights", _EIGHT, KVCache),
    ("8-bit weights and cache", _EIGHT, QuantizedKVCache),
    ("4-bit weights in groups of 32", _FOUR, KVCache),
)
#: Engines that write the same text: ours on NumPy and in one op a token, and PyTorch with either kind of cache.
NUMPY, COMPILED = "tinytorch", "tinytorch accelerated"
PYTORCH = ("PyTorch eager", "PyTorch eager, cache concatenated")


def cache_shape(model: GPT, batch: int) -> tuple[int, int, int, int, int]:
    """Return what a `KVCache` that serves ``batch`` sequences of the model is made with."""
    heads = model.blocks[0].attention.num_heads
    return batch, model.max_seq_len, len(model.blocks), heads, model.embed_dim // heads


def text_flops(model: GPT, count: int, cached: bool) -> int:
    """Return the FLOPs of contractions of ``count`` tokens that are written one by one from the first, by formula."""
    width, layers = model.embed_dim, len(model.blocks)
    products, scores, head = 2 * 12 * width * width * layers, 4 * width * layers, 2 * width * model.vocab_size
    rows = [(1, p + 1) if cached else (p + 1, (p + 1) ** 2) for p in range(count)]
    return sum(read * products + pairs * scores + head for read, pairs in rows)


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


@contextmanager
def _serving(model: GPT, cache: KVCache) -> Iterator[None]:
    """Let the model remember in ``cache`` for the body."""
    enable_kv_cache(model, cache=cache)
    try:
        yield
    finally:
        disable_kv_cache(model)


def step_times(model: GPT, caches: Mapping[str, KVCache], position: int, repeats: int = 30) -> dict[str, Measurement]:
    """Return, by name, the seconds of a step with each cache, sampled in turns, between which the model changes caches.

    A step reads one token for each sequence at ``position``, given all before it. What the cache holds does not change
    the time, so that it is not filled by the model.

    Raises:
        ValueError: if a cache does not fit the model, or has no such position.
    """

    def stepping(cache: KVCache) -> Callable[[], None]:
        tokens = np.zeros((cache.batch_size, 1), np.int64)

        def step() -> None:
            cache.stand_at(position)
            model(tokens, last=True)

        return step

    return interleave(
        {name: stepping(cache) for name, cache in caches.items()},
        repeats=repeats,
        warmup_seconds=_WARMUP_SECONDS,
        within={name: partial(_serving, model, cache) for name, cache in caches.items()},
    )


@dataclass(frozen=True, slots=True)
class CachedStep:
    """A step at one position with one kind of cache: bytes of the cache, and seconds."""

    nbytes: int
    step: Measurement


def cached_steps(model: GPT, position: int) -> dict[str, CachedStep]:
    """Return the step of one sequence at ``position``, with a cache of "float32" numbers and of "int8" codes."""
    caches = {name: kind(*cache_shape(model, 1)) for name, kind in (("float32", KVCache), ("int8", QuantizedKVCache))}
    times = step_times(model, caches, position)
    return {name: CachedStep(cache.nbytes, times[name]) for name, cache in caches.items()}


def batch_times(model: GPT, batches: Sequence[int], position: int) -> list[Measurement]:
    """Return the seconds of a step of each number of sequences, in turns, each with a cache for as many."""
    caches = {f"batch {batch}": KVCache(*cache_shape(model, batch)) for batch in batches}
    return [*step_times(model, caches, position).values()]


def scored_codes(
    answers: Callable[[KVCache], Tokens], questions: Tokens, model: GPT, tokens: Tokens, whole: Array
) -> tuple[dict[str, float], float]:
    """Return the share (0 to 1) of questions sorted right, by the kind of cache, and the error of logits with codes.

    Args:
        answers: returns what the model answers to the ``questions`` with a cache: of "float32", and of "int8" codes.
        questions: of the sorting task, with the right answer behind each.
        model: that answers.
        tokens: read by it five at once and then one by one with a cache of codes.
        whole: its logits of them without a cache, whose largest the error is a share of.
    """
    half = model.max_seq_len // 2
    right = np.sort(questions[:, :half], axis=1)
    shape = cache_shape(model, len(questions))
    caches = {"float32": KVCache(*shape), "int8": QuantizedKVCache(*shape)}
    scores = {name: float((answers(cache) == right).all(axis=1).mean()) for name, cache in caches.items()}
    enable_kv_cache(model, cache=QuantizedKVCache(*cache_shape(model, len(tokens))))
    parts = [tokens[:, :5], *(tokens[:, at : at + 1] for at in range(5, tokens.shape[1]))]
    coded = np.concatenate([model(part).data for part in parts], axis=1)
    disable_kv_cache(model)
    return scores, float(abs(coded - whole).max() / abs(whole).max())


def one_op_a_token(
    stepping: Callable[[GPT, KVCache], None], plain: tuple[GPT, KVCache], fused: tuple[GPT, KVCache]
) -> tuple[Measurement, dict[str, Measurement]]:
    """Return the share of a step that passes between ops, and the seconds of a step op by op and in one op.

    Args:
        stepping: takes a step of a model with the cache that serves it.
        plain: the model and its cache; neither has a cache afterwards.
        fused: the same from `fuse_decoding`, and its cache.
    """
    between = time_between_ops(lambda: stepping(*plain))
    stepping(*fused)

    @accelerated()
    def compiled_step() -> None:
        stepping(*fused)

    runs = {"op by op": lambda: stepping(*plain), "one op a token": compiled_step}
    step = interleave(runs, repeats=30, warmup_seconds=0.3)
    disable_kv_cache(plain[0])
    disable_kv_cache(fused[0])
    return between, step


def race_with_pytorch() -> Raced | NotMeasured:
    """Return the times of the same text by our engines and by PyTorch, one core each, or why there are none."""
    found = study((NUMPY, COMPILED, *PYTORCH), ["gpt-1"], ["decode"], rounds=15)
    return found if isinstance(found, NotMeasured) else found[0]


def attention_times(lengths: Sequence[int], heads: int, depth: int, repeats: int = 30) -> list[Measurement]:
    """Return the seconds that one query takes over keys and values of each length, float32, in one layer, in turns.

    Each turn begins with a call that is not timed: the other lengths have taken the caches.
    """
    draw = np.random.default_rng(0)
    query = draw.standard_normal((1, heads, 1, depth), dtype=np.float32)
    held: dict[int, list[Array]] = {}

    def attend(length: int) -> None:
        apply(ops.attention, query, *held[length], causal=True)

    runs: dict[str, Callable[[], None]] = {f"{length} keys": partial(attend, length) for length in lengths}

    def fresh() -> dict[str, Callable[[], None]]:
        for length in lengths:
            held[length] = [draw.standard_normal((1, heads, length, depth), dtype=np.float32) for _ in range(2)]
        return runs

    within = {name: partial(_warm, run) for name, run in runs.items()}
    return [*interleave(fresh, repeats=repeats, warmup_seconds=_WARMUP_SECONDS, within=within).values()]


@contextmanager
def _warm(run: Callable[[], None]) -> Iterator[None]:
    """Begin the body with a call of ``run``."""
    run()
    yield


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
        made.append(round(MemoryProfiler().profile(attend, calls=1)["needed_mb"] * MIB))
    return made


@dataclass(frozen=True, slots=True)
class Recomputed:
    """Something that a forward pass makes again each time.

    Attributes:
        anew, looked_up: seconds to make it, and to find it where it was kept.
        share: of the pass that making it takes.
        nbytes: to keep it.
    """

    name: str
    anew: Measurement
    looked_up: Measurement
    share: Measurement
    nbytes: int


def recomputed(model: GPT, length: int, repeats: int = 15) -> list[Recomputed]:
    """Return what a pass of ``length`` positions can make anew that depends on the length or the weights alone.

    All of it is timed in turns with the pass by NumPy. The last two are what a product needs before it starts: float
    weights in the order that a kernel reads (`fuse` with ``frozen`` keeps them so), and 8-bit weights as floats.
    """
    rows, columns = np.arange(length), np.arange(length)[:, None]
    weights = [layer.weight.data for _, layer in model.named_modules() if isinstance(layer, Linear)]
    coded = [QuantizedLinear(layer, Plan("weight-only")) for _, layer in model.named_modules() if type(layer) is Linear]
    table, tokens = model.token_embedding.weight.data, np.zeros((1, length), np.int64)
    cases: dict[str, Callable[[], list[Array]]] = {
        "causal mask": lambda: [np.where(rows > columns, np.float32(-np.inf), np.float32(0))],
        "position embeddings": lambda: [model.position_embedding(np.arange(length)).data],
        "transposed head": lambda: [np.ascontiguousarray(table.T)],
        "packed weights": lambda: [pack(weight) for weight in weights],
        "8-bit weights as floats": lambda: [layer.dequantized().data for layer in coded],
    }
    with no_grad():
        kept = {name: {length: make()} for name, make in cases.items()}
        runs: dict[str, Callable[[], Any]] = {"forward pass": lambda: model(tokens)}
        for name, make in cases.items():
            runs |= {name: make, f"{name}, looked up": partial(kept[name].__getitem__, length)}
        times = interleave(runs, repeats=repeats, warmup_seconds=_WARMUP_SECONDS)
    made = []
    for name in cases:
        anew, looked_up = times[name], times[f"{name}, looked up"]
        share = ratio(anew, times["forward pass"], f"{name}: share of a forward pass").scaled(1, "%")
        nbytes = sum(array.nbytes for array in kept[name][length])
        made.append(Recomputed(name, anew, looked_up, share, nbytes))
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


def hits_of_growth(model: GPT, prompt: Tokens) -> dict[str, float]:
    """Return `mask_hits` of eight passes over the "same" 64 positions, and of a text "growing" to 65 uncached."""
    with no_grad():
        same = mask_hits(lambda: [model(np.zeros((1, 64), int)) for _ in range(8)])
        return {"same": same, "growing": mask_hits(lambda: generate(model, prompt, 64))}


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


def decoding_variants(model: GPT, position: int, repeats: int = 30) -> list[Decoding]:
    """Return one row for each way to take the token at ``position`` in one compiled op, timed in turns, float32 first.

    Raises:
        ValueError: if there is no such position, or the model has a cache.
    """
    if not 0 < position < model.max_seq_len:
        raise ValueError(f"position must lie in 1..{model.max_seq_len - 1}, not {position}")
    tokens = np.random.default_rng(0).integers(0, model.vocab_size, (1, position + 1))
    with no_grad():
        whole = model(tokens).data
    steps: dict[str, Callable[[], Array]] = {}
    held: dict[str, tuple[int, int, float]] = {}
    with accelerated():
        for name, scheme, kind in _VARIANTS:
            variant = model if scheme is None else quantize_model(model, plan=Plan("weight-only", scheme))
            assert isinstance(variant, GPT)
            weights = sum(array.nbytes for array in variant.state_dict().values())
            fused, cache = fuse_decoding(variant), kind(*cache_shape(model, 1))
            enable_kv_cache(fused, cache=cache)
            made = np.concatenate([fused(tokens[:, at : at + 1]).data for at in range(position + 1)], axis=1)
            held[name] = weights, cache.nbytes, float(np.abs(made - whole).max() / np.abs(whole).max())
            steps[name] = _stepping(fused, cache, tokens[:, -1:], position)
        times = interleave(steps, repeats=repeats, warmup_seconds=_WARMUP_SECONDS)
    return [Decoding(name, times[name], *held[name]) for name in steps]


def _stepping(model: GPT, cache: KVCache, token: Array, position: int) -> Callable[[], Array]:
    def step() -> Array:
        cache.stand_at(position)
        return model(token, last=True).data

    return step
