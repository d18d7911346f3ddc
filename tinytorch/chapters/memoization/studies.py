"""Experiments of the page on memoization: what a token costs by length, batch and bytes, with and without cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
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
from tinytorch.perf.engines import Raced, study
from tinytorch.perf.events.flops import flops_of
from tinytorch.perf.events.stream import recording
from tinytorch.perf.kernels.gemm.packed_matmul import packed_product
from tinytorch.perf.kernels.gemm.packing import pack
from tinytorch.perf.machine import Ceilings
from tinytorch.perf.machine.time_bound import added, at_cost, at_rate
from tinytorch.perf.measuring import Measurement, Unmeasured, interleave
from tinytorch.perf.measuring.memory import MemoryProfiler
from tinytorch.perf.measuring.model_io import MIB
from tinytorch.perf.memoization import (
    KVCache,
    QuantizedKVCache,
    disable_kv_cache,
    enable_kv_cache,
    fuse_decoding,
)
from tinytorch.perf.memoization.generation import Tokens, generate
from tinytorch.perf.quantization import Plan, Scheme, quantize_model
from tinytorch.perf.roofline.bounds import slope_at

#: Enough to be warm; a call here is a whole text, so that a second of it would be long.
_WARMUP_SECONDS = 0.1
_EIGHT = Scheme(8, per="channel")
#: Name, scheme of the weights (None for float32) and kind of cache.
_VARIANTS: tuple[tuple[str, Scheme | None, type[KVCache]], ...] = (
    ("float32", None, KVCache),
    ("8-bit weights", _EIGHT, KVCache),
    ("8-bit weights and cache", _EIGHT, QuantizedKVCache),
)
#: Numbers of a head where a model is to make the same calls on hardly any numbers.
_NARROWEST_HEAD = 4
#: Engines that write the same text: ours on NumPy and in one op a token, and PyTorch with either kind of cache.
NUMPY, COMPILED = "tinytorch", "tinytorch accelerated"
PYTORCH = ("PyTorch eager", "PyTorch eager, cache concatenated")


def cache_shape(model: GPT, batch: int) -> tuple[int, int, int, int, int]:
    """Return what a `KVCache` that serves ``batch`` sequences of the model is made with."""
    heads = model.blocks[0].attention.num_heads
    return batch, model.max_seq_len, len(model.blocks), heads, model.embed_dim // heads


def text_flops(model: GPT, count: int, cached: bool) -> dict[str, int]:
    """Return the FLOPs of contractions of ``count`` tokens that are written one by one from the first, by formula.

    They are those of the layers' "products", of "attention", and of the "logits".
    """
    width, layers = model.embed_dim, len(model.blocks)
    rows = sum(1 if cached else length for length in range(1, count + 1))
    pairs = sum(length if cached else length**2 for length in range(1, count + 1))
    products, attention = 24 * width**2 * layers * rows, 4 * width * layers * pairs
    return {"products": products, "attention": attention, "logits": 2 * width * model.vocab_size * count}


def counted_text(model: GPT, prompt: Tokens, count: int, cached: bool) -> dict[str, int]:
    """Return what `text_flops` does, counted on the ops that ran when ``count`` tokens were written after ``prompt``.

    Raises:
        ValueError: if the model has a cache already.
    """
    if cached:
        enable_kv_cache(model, batch_size=len(prompt))
    try:
        with no_grad(), recording() as recorded:
            generate(model, prompt, count)
    finally:
        disable_kv_cache(model)
    found = {"products": 0, "attention": 0, "logits": 0}
    for event in recorded.profile.events:
        of_vocabulary = bool(event.output.shape) and event.output.shape[-1] == model.vocab_size
        part = "attention" if "attention" in event.op else "logits" if of_vocabulary else "products"
        found[part] += event.flops or 0
    return found


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
    model: GPT, prompt: Tokens, new_tokens: Sequence[int], repeats: int = 6
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


def step_times(
    model: GPT, caches: Mapping[str, KVCache], position: int, resolve: float | None = None
) -> dict[str, Measurement]:
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
        resolve=resolve,
        at_most_seconds=3.0,
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
    times = step_times(model, caches, position, resolve=0.05)
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


@dataclass(frozen=True, slots=True)
class Calls:
    """A step at one position, op by op and in one op, each beside that of a model of the same calls and few numbers.

    Attributes:
        step, fused: seconds of the model.
        calls, one_call: seconds of the narrow model, which is all but the calls' cost.
        flops, nbytes: what the model's step computes and reads.
    """

    step: Measurement
    calls: Measurement
    fused: Measurement
    one_call: Measurement
    flops: int
    nbytes: int


def cost_of_calls(model: GPT, position: int, repeats: int = 30) -> Calls:
    """Return the step at ``position``, its calls and what is left of both in one op, timed in turns.

    Raises:
        ValueError: if there is no such position, or the model has a cache.
    """
    heads = model.blocks[0].attention.num_heads
    narrow = GPT(model.vocab_size, _NARROWEST_HEAD * heads, len(model.blocks), heads, model.max_seq_len, seed=0).eval()
    flops = step_flops(model, position, cached=True)
    steps: dict[str, Callable[[], Array]] = {}
    within: dict[str, Callable[[], AbstractContextManager[None]]] = {}
    served: list[GPT] = []
    nbytes = sum(step_bytes(model, KVCache(*cache_shape(model, 1)), position))
    for name, one in (("step", model), ("calls", narrow)):
        for how, serving, warm in (("op by op", one, _warm), ("one op", fuse_decoding(one), _warm_compiled)):
            cache = enable_kv_cache(serving)
            steps[f"{name}, {how}"] = step = _stepping(serving, cache, np.zeros((1, 1), np.int64), position)
            within[f"{name}, {how}"] = partial(warm, step)
            served.append(serving)
    times = interleave(steps, repeats=repeats, warmup_seconds=_WARMUP_SECONDS, within=within)
    for one in served:
        disable_kv_cache(one)
    plain, calls = (times[f"{name}, op by op"] for name in ("step", "calls"))
    return Calls(plain, calls, times["step, one op"], times["calls, one op"], flops, nbytes)


def step_bytes(model: GPT, cache: KVCache, position: int) -> tuple[int, int]:
    """Return the bytes of the weights and of the cache that the step of one sequence at ``position`` reads.

    Of the position embedding that is one row; the token embedding is read whole, as it makes the logits.
    """
    weights = sum(
        array.nbytes // (model.max_seq_len if name.startswith("position_embedding.") else 1)
        for name, array in model.state_dict().items()
    )
    return weights, cache.nbytes // cache.max_seq_len // cache.batch_size * position


@dataclass(frozen=True, slots=True)
class ReadStep:
    """A step in one op at ``position``: the bytes that it reads and from where, and its seconds.

    Attributes:
        model: its name.
        weights, cache: bytes.
        level: whose bandwidth they are held against, such as "L3".
        predicted: seconds of one call, and of the bytes at that bandwidth.
        step: seconds, measured.
        alone: seconds of one product of a row and a matrix of as many bytes, in turns; None but of a model's last step.
    """

    model: str
    position: int
    weights: int
    cache: int
    level: str
    predicted: Measurement
    step: Measurement
    alone: Measurement | None = None


def predicted_step(nbytes: int, call: Measurement, ceilings: Ceilings) -> Measurement:
    """Return the seconds of a call and of so many bytes at the bandwidth of the memory that holds them."""
    bandwidth = slope_at(nbytes, ceilings).bandwidth
    return added([at_cost(1, call), at_rate(nbytes, bandwidth)]).statistic("one call and the bytes at their bandwidth")


def read_steps(models: Mapping[str, GPT], call: Measurement, ceilings: Ceilings, repeats: int = 18) -> list[ReadStep]:
    """Return steps of each model in one compiled op beside what the bytes predict: none, half and all positions kept.

    One model after the other, that none takes another's place in the caches; its positions in turns, and with them one
    product of a row and a matrix of as many bytes as the last of these steps reads.
    """
    made = []
    for name, model in models.items():
        fused = fuse_decoding(model)
        cache, token = enable_kv_cache(fused), np.zeros((1, 1), np.int64)
        positions = (0, model.max_seq_len // 2, model.max_seq_len - 1)
        steps = {f"{position} kept": _stepping(fused, cache, token, position) for position in positions}
        rows = sum(step_bytes(model, cache, positions[-1])) // (4 * model.embed_dim)
        matrix = np.ones((rows, model.embed_dim), np.float32)
        steps["one product"] = partial(np.matmul, np.ones(rows, np.float32), matrix)
        within = {key: partial(_warm, step) for key, step in steps.items()}
        with accelerated():
            times = interleave(steps, repeats=repeats, warmup_seconds=_WARMUP_SECONDS, within=within)
        disable_kv_cache(fused)
        for position in positions:
            weights, cached = step_bytes(model, cache, position)
            total = weights + cached
            predicted = predicted_step(total, call, ceilings)
            level, step = slope_at(total, ceilings).of, times[f"{position} kept"]
            alone = times["one product"] if position == positions[-1] else None
            made.append(ReadStep(name, position, weights, cached, level, predicted, step, alone))
    return made


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt that is read whole, and one of which all but the last tokens were kept; beside a step.

    Attributes:
        kept, new: positions whose keys and values were kept, and that are read.
        whole, rest: seconds to read all of them, and only the new ones.
        step: seconds of a step behind the kept ones.
    """

    kept: int
    new: int
    whole: Measurement
    rest: Measurement
    step: Measurement


def reused_prompt(model: GPT, kept: int, new: int, resolve: float = 0.1) -> Prompt:
    """Return the times of a prompt with and without what was ``kept`` of an earlier one, and of a step, in turns."""
    cache = enable_kv_cache(model)
    tokens = np.zeros((1, kept + new), np.int64)

    def read(position: int, count: int) -> Callable[[], Array]:
        return _stepping(model, cache, tokens[:, :count], position)

    steps = {"whole": read(0, kept + new), "rest": read(kept, new), "step": read(kept, 1)}
    times = interleave(steps, resolve=resolve, at_most_seconds=3.0, warmup_seconds=_WARMUP_SECONDS)
    disable_kv_cache(model)
    return Prompt(kept, new, times["whole"], times["rest"], times["step"])


@dataclass(frozen=True, slots=True)
class FewRows:
    """Products of a few rows, and of one, with all weights of a model: as NumPy has them, and packed once before.

    Attributes:
        rows: how many.
        library: seconds for one row and for all, by NumPy's BLAS.
        packed: the same by the package's kernels, with weights packed in tiles.
    """

    rows: int
    library: tuple[Measurement, Measurement]
    packed: tuple[Measurement, Measurement]


def few_rows(model: GPT, rows: int, repeats: int = 18) -> FewRows:
    """Return the times of all products with weights that a call of one row, and of ``rows``, makes, in turns."""
    weights = [one.weight.data for _, one in model.named_modules() if isinstance(one, Linear)]
    panels = [pack(weight) for weight in weights]
    given = {(len(each), count): np.ones((count, len(each)), np.float32) for each in weights for count in (1, rows)}

    def library(count: int) -> None:
        for weight in weights:
            np.matmul(given[len(weight), count], weight)

    def packed(count: int) -> None:
        for weight, panel in zip(weights, panels, strict=True):
            packed_product(given[len(weight), count], panel, weight.shape[1])

    runs = {f"{way.__name__}, {count}": partial(way, count) for way in (library, packed) for count in (1, rows)}
    times = list(interleave(runs, repeats=repeats, warmup_seconds=_WARMUP_SECONDS).values())
    return FewRows(rows, (times[0], times[1]), (times[2], times[3]))


def race_with_pytorch() -> Raced | Unmeasured:
    """Return the times of the same text by our engines and by PyTorch, one core each, or why there are none."""
    found = study((NUMPY, COMPILED, *PYTORCH), ["gpt-1"], ["decode"], rounds=15)
    return found if isinstance(found, Unmeasured) else found[0]


@contextmanager
def _warm(run: Callable[[], Any]) -> Iterator[None]:
    """Begin the body with a call of ``run``: what else takes turns has taken the caches."""
    run()
    yield


@contextmanager
def _warm_compiled(run: Callable[[], Any]) -> Iterator[None]:
    """Run the body with compiled kernels, and begin it with a call of ``run``."""
    with accelerated(), _warm(run):
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
    """One way to take a step: its seconds, the bytes of weights and cache that it reads, and its error.

    ``error`` is the largest difference of a logit from the float32 model's without a cache, as a share of the largest.
    """

    name: str
    step: Measurement
    nbytes: int
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
    held: dict[str, tuple[int, float]] = {}
    with accelerated():
        for name, scheme, kind in _VARIANTS:
            variant = model if scheme is None else quantize_model(model, plan=Plan("weight-only", scheme))
            assert isinstance(variant, GPT)
            fused, cache = fuse_decoding(variant), kind(*cache_shape(model, 1))
            enable_kv_cache(fused, cache=cache)
            made = np.concatenate([fused(tokens[:, at : at + 1]).data for at in range(position + 1)], axis=1)
            read = sum(step_bytes(variant, cache, position))
            held[name] = read, float(np.abs(made - whole).max() / np.abs(whole).max())
            steps[name] = _stepping(fused, cache, tokens[:, -1:], position)
        within = {name: partial(_warm, step) for name, step in steps.items()}
        times = interleave(steps, repeats=repeats, warmup_seconds=_WARMUP_SECONDS, within=within)
    return [Decoding(name, times[name], *held[name]) for name in steps]


def _stepping(model: GPT, cache: KVCache, token: Array, position: int) -> Callable[[], Array]:
    def step() -> Array:
        cache.stand_at(position)
        return model(token, last=True).data

    return step
