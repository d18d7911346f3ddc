"""What the page on memoization times: texts, steps by length, batch and bytes, prompts, and the same in PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tinytorch.chapters.memoization.counts import step_flops
from tinytorch.core.dispatch import no_grad
from tinytorch.core.layers import Linear
from tinytorch.core.op import Array
from tinytorch.core.transformers import GPT
from tinytorch.perf.acceleration import accelerated
from tinytorch.perf.engines.turns import study
from tinytorch.perf.kernels.gemm.packed_matmul import packed_product
from tinytorch.perf.kernels.gemm.packing import pack
from tinytorch.perf.machine import Ceilings
from tinytorch.perf.machine.time_bound import added, at_cost, at_rate
from tinytorch.perf.measuring import Counted, Measurement, Modelled, Unmeasured, interleave, quotient, ratio
from tinytorch.perf.measuring.comparison import Comparison, compare_all
from tinytorch.perf.measuring.judge import Judgement, verdict_between, verdict_of_all
from tinytorch.perf.measuring.values import as_measurement
from tinytorch.perf.memoization import KVCache, QuantizedKVCache, disable_kv_cache, enable_kv_cache, fuse_decoding
from tinytorch.perf.memoization.generation import Tokens, generate
from tinytorch.perf.quantization import Plan, Scheme, quantize_model
from tinytorch.perf.roofline.bounds import Slope, slope_at

#: Enough to be warm; a call here is a whole text, so that a second of it would be long.
_WARMUP_SECONDS = 0.1
#: Name, scheme of the weights (None for float32) and kind of cache.
_VARIANTS: tuple[tuple[str, Scheme | None, type[KVCache]], ...] = (
    ("float32", None, KVCache),
    ("8-bit weights", Scheme(8, per="channel"), KVCache),
    ("8-bit weights and cache", Scheme(8, per="channel"), QuantizedKVCache),
)
#: Our engines that write the same text as PyTorch: on NumPy, and in one op a token.
_NUMPY, _COMPILED = "tinytorch", "tinytorch accelerated"
_BY_BYTES = "one call, and the bytes at the bandwidth"


def step_bytes(model: GPT, cache: KVCache, position: int) -> tuple[int, int]:
    """Return the bytes of the weights and of the cache that the step of one sequence at ``position`` reads.

    Of the position embedding that is one row; the token embedding is read whole, as it makes the logits.
    """
    weights = sum(
        array.nbytes // (model.max_seq_len if name.startswith("position_embedding.") else 1)
        for name, array in model.state_dict().items()
    )
    return weights, cache.nbytes // cache.max_seq_len // cache.batch_size * position


def predicted_step(nbytes: int, call: Measurement, machine: Ceilings) -> Measurement:
    """Return the seconds of a call and of so many bytes at the bandwidth of the memory that holds them."""
    bandwidth = slope_at(nbytes, machine).bandwidth
    return added([at_cost(1, call), at_rate(nbytes, bandwidth)]).statistic("one call and the bytes at their bandwidth")


def speedups(model: GPT, prompt: Tokens, new_tokens: Sequence[int], repeats: int = 6) -> dict[int, Measurement]:
    """Return, by number of new tokens, the time of `generate` without a cache over that with one, timed in turns."""
    cache = enable_kv_cache(model, batch_size=len(prompt))
    disable_kv_cache(model)

    def cached(count: int) -> None:
        enable_kv_cache(model, cache=cache)
        generate(model, prompt, count)
        disable_kv_cache(model)

    made = {}
    for count in new_tokens:
        ways: dict[str, Callable[[int], Any]] = {"uncached": partial(generate, model, prompt), "cached": cached}
        runs = {f"{count} tokens, {how}": partial(write, count) for how, write in ways.items()}
        plain, short = interleave(runs, repeats=repeats, warmup_seconds=_WARMUP_SECONDS).values()
        what = f"speedup at {count} tokens, {len(model.blocks)} layers of {model.embed_dim}"
        made[count] = ratio(plain, short, what)
    return made


def all_reach(found: Mapping[int, Measurement], least: Mapping[int, float]) -> Judgement:
    """Return whether at each length the speedup is at least what ``least`` says."""
    return verdict_of_all(verdict_between(found[n], low=said, together=len(least)) for n, said in least.items())


@contextmanager
def _serving(model: GPT, cache: KVCache) -> Iterator[None]:
    """Let the model remember in ``cache`` for the body."""
    enable_kv_cache(model, cache=cache)
    try:
        yield
    finally:
        disable_kv_cache(model)


def _stepping(model: GPT, cache: KVCache, token: Array, position: int) -> Callable[[], Array]:
    def step() -> Array:
        cache.stand_at(position)
        return model(token, last=True).data

    return step


def step_times(
    model: GPT, caches: Mapping[str, KVCache], position: int, resolve: float | None = None
) -> dict[str, Measurement]:
    """Return, by name, the seconds of a step with each cache, sampled in turns, between which the model changes caches.

    A step reads one token for each sequence at ``position``, given all before it. What the cache holds does not change
    the time, so that it is not filled by the model.
    """
    return interleave(
        {name: _stepping(model, each, np.zeros((each.batch_size, 1), int), position) for name, each in caches.items()},
        resolve=resolve,
        at_most_seconds=3.0,
        warmup_seconds=_WARMUP_SECONDS,
        within={name: partial(_serving, model, cache) for name, cache in caches.items()},
    )


@dataclass(frozen=True)
class Batches:
    """Tokens per second, and seconds of a step, by number of sequences; and as one step and all caches allow them."""

    rates: Mapping[int, Measurement]
    waits: Mapping[int, Measurement]
    allowed_rates: Mapping[int, Modelled]
    allowed_waits: Mapping[int, Modelled]


def batches(model: GPT, sizes: Sequence[int], position: int, machine: Ceilings) -> Batches:
    """Return steps at ``position`` of so many sequences, from one on, in turns, each with a cache for as many."""
    caches = {f"batch {size}": KVCache.of(model, size) for size in sizes}
    steps = dict(zip(sizes, step_times(model, caches, position).values(), strict=True))
    _, cached = step_bytes(model, caches[f"batch {sizes[0]}"], position)
    allowed = {size: predicted_step((size - 1) * cached, steps[sizes[0]], machine) for size in sizes}
    rates, most = ({size: step.per(size, "tokens/s") for size, step in each.items()} for each in (steps, allowed))
    told = partial(Modelled.by, "one step, and the bytes of all caches")
    return Batches(rates, steps, {n: told(rate) for n, rate in most.items()}, {n: told(t) for n, t in allowed.items()})


@dataclass(frozen=True)
class Kept:
    """A kind of cache: its bytes for one sequence, seconds of a step, and share of the questions answered right."""

    nbytes: Counted
    step: Measurement
    score: Counted


def cached_codes(
    answers: Callable[[KVCache], Tokens], questions: Tokens, model: GPT, timed: GPT, position: int
) -> dict[str, Kept]:
    """Return a cache of "float32" numbers and one of "int8 codes", with a step of ``timed`` at ``position``.

    ``answers`` returns what the ``model`` answers with a cache to ``questions`` of the sorting task.
    """
    right = np.sort(questions[:, : model.max_seq_len // 2], axis=1)
    kinds: dict[str, type[KVCache]] = {"float32": KVCache, "int8 codes": QuantizedKVCache}
    scores = {
        name: float((answers(kind.of(model, len(questions))) == right).all(axis=1).mean())
        for name, kind in kinds.items()
    }
    caches = {name: kind.of(timed) for name, kind in kinds.items()}
    times = step_times(timed, caches, position, resolve=0.05)
    return {
        name: Kept(
            Counted(cache.nbytes, "B", "bytes of a cache"),
            times[name],
            Counted(scores[name], "%", "share answered right"),
        )
        for name, cache in caches.items()
    }


def code_error(model: GPT, tokens: Tokens, whole: Array) -> Counted:
    """Return by how much logits differ from the ``whole`` ones, with codes, five tokens at once and then one by one."""
    with _serving(model, QuantizedKVCache.of(model, len(tokens))):
        parts = [tokens[:, :5], *(tokens[:, at : at + 1] for at in range(5, tokens.shape[1]))]
        coded = np.concatenate([model(part).data for part in parts], axis=1)
    what = "largest difference of a logit with the cache of codes, relative to the largest logit"
    return Counted(abs(coded - whole).max() / abs(whole).max(), "%", what)


@contextmanager
def _warm(run: Callable[[], Any], compiled: bool = False) -> Iterator[None]:
    """Begin the body, with compiled kernels or not, with a call of ``run``: what else takes turns took the caches."""
    with accelerated() if compiled else nullcontext():
        run()
        yield


@dataclass(frozen=True)
class Calls:
    """A step op by op and ``fused``, beside one of the same calls and few numbers, and bounds of its FLOPs and bytes.

    ``share`` is that of the calls in the step, op by op, and ``one_call`` the seconds of the narrow model, fused.
    """

    step: Measurement
    fused: Measurement
    one_call: Measurement
    share: Measurement
    arithmetic: Measurement
    reading: Measurement


def cost_of_calls(model: GPT, position: int, machine: Ceilings, repeats: int = 30) -> Calls:
    """Return the step at ``position`` beside that of a model whose heads have four numbers, timed in turns."""
    heads = model.blocks[0].attention.num_heads
    narrow = GPT(model.vocab_size, 4 * heads, len(model.blocks), heads, model.max_seq_len, seed=0).eval()
    flops = step_flops(model, position, cached=True)
    nbytes = sum(step_bytes(model, KVCache.of(model), position))
    steps: dict[str, Callable[[], Array]] = {}
    within: dict[str, Callable[[], AbstractContextManager[None]]] = {}
    for name, one in (("step", model), ("calls", narrow)):
        for how, serving in (("op by op", one), ("one op", fuse_decoding(one))):
            step = _stepping(serving, enable_kv_cache(serving), np.zeros((1, 1), int), position)
            steps[f"{name}, {how}"], within[f"{name}, {how}"] = step, partial(_warm, step, compiled=how == "one op")
    times = interleave(steps, repeats=repeats, warmup_seconds=_WARMUP_SECONDS, within=within)
    disable_kv_cache(model)
    slope, plain = slope_at(nbytes, machine), times["step, op by op"]
    return Calls(
        plain,
        times["step, one op"],
        times["calls, one op"],
        ratio(times["calls, op by op"], plain, "calls of a step over the step").scaled(1, "%"),
        machine.fp32_peak.per(flops, "s", "a step's arithmetic at the peak"),
        slope.bandwidth.per(nbytes, "s", f"a step's bytes at the bandwidth of {slope.of}"),
    )


@dataclass(frozen=True)
class ReadStep:
    """A step in one op: what it reads and from where, seconds of that, alone and with one call, and what it took.

    ``over`` is the step over what is predicted; ``product`` is one of as many bytes as its model's last step, in turns.
    """

    nbytes: Counted
    slope: Slope
    reading: Modelled
    predicted: Modelled
    step: Measurement
    over: Measurement
    product: Measurement


def read_steps(
    models: Mapping[str, GPT], call: Measurement, machine: Ceilings, repeats: int = 18
) -> dict[str, ReadStep]:
    """Return steps of each model in one compiled op beside what the bytes predict: none, half and all positions kept.

    One model after the other, that none takes another's place in the caches; its positions in turns, and with them one
    product of a row and a matrix of as many bytes as the last of these steps reads.
    """
    made = {}
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
            nbytes, step = sum(step_bytes(model, cache, position)), times[f"{position} kept"]
            slope, predicted = slope_at(nbytes, machine), predicted_step(nbytes, call, machine)
            reading = slope.bandwidth.per(nbytes, "s", f"those bytes at the bandwidth of {slope.of}")
            made[f"{name}, {position:,} kept"] = ReadStep(
                Counted(nbytes, "B", f"weights and kept positions that a step of {name} reads"),
                slope,
                Modelled.by("the bytes, at the bandwidth", reading),
                Modelled.by(_BY_BYTES, predicted),
                step,
                quotient(step, predicted, f"step of {name} over its prediction"),
                times["one product"],
            )
    return made


def times_as_long(last: Modelled, first: Modelled, what: str) -> Modelled:
    """Return how many times as long the last takes as the first, as predicted."""
    return Modelled.by(last.model, quotient(as_measurement(last), as_measurement(first), what))


def reused_prompt(model: GPT, kept: int, new: int, resolve: float = 0.1) -> dict[str, Measurement]:
    """Return, in turns, a "whole" prompt, its "rest" where some is "kept", and a "step"; and a "token" of the whole."""
    cache, total = enable_kv_cache(model), kept + new
    tokens = np.zeros((1, total), np.int64)
    read = {"whole": (0, total), "rest": (kept, new), "step": (kept, 1)}
    steps = {name: _stepping(model, cache, tokens[:, :count], position) for name, (position, count) in read.items()}
    times = interleave(steps, resolve=resolve, at_most_seconds=3.0, warmup_seconds=_WARMUP_SECONDS)
    disable_kv_cache(model)
    return {**times, "token": times["whole"].scaled(1 / total, "s", f"a token of a prompt of {total}")}


def few_rows(model: GPT, rows: int, repeats: int = 18) -> dict[str, dict[int, Measurement]]:
    """Return products of one and of so many rows with all weights, by the "library" and "packed" once, in turns."""
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
    times = interleave(runs, repeats=repeats, warmup_seconds=_WARMUP_SECONDS)
    return {way: {count: times[f"{way}, {count}"] for count in (1, rows)} for way in ("library", "packed")}


def guess_gain(products: Mapping[int, Measurement], right: float) -> Modelled:
    """Return what guesses gain that are free and each as often ``right``, in a call that is nothing but products."""
    one, rows = products
    written = sum(right**count for count in range(rows))
    what = f"time of one row over that of {rows}, weights packed, times {written:.3g} tokens; guesses are free"
    gain = ratio(products[one], products[rows]).scaled(written, "", what)
    return Modelled.by("guesses that are right each as often, and free", gain)


@dataclass(frozen=True)
class Decoding:
    """One way of a model to take a step: the bytes that it reads, its gain over float32, if it is not that, and error.

    ``error`` is the largest difference of a logit from the float32 model's without a cache, as a share of the largest.
    """

    model: str
    kept: str
    nbytes: Counted
    error: Counted
    predicted: Modelled | None
    gain: Measurement | None


def decoding_variants(
    models: Mapping[str, GPT], position: int, call: Measurement, machine: Ceilings, matters: float, repeats: int = 30
) -> tuple[dict[str, Decoding], dict[str, Comparison]]:
    """Return the ways of each model to take the token at ``position`` in one compiled op, and these beside float32.

    ``call`` are the seconds of a step without bytes to read, and ``matters`` is what makes a difference of times one.
    """
    made: dict[str, Decoding] = {}
    speeds: dict[str, Comparison] = {}
    for name, model in models.items():
        tokens = np.random.default_rng(0).integers(0, model.vocab_size, (1, position + 1))
        with no_grad():
            whole = model(tokens).data
        steps: dict[str, Callable[[], Array]] = {}
        held: dict[str, tuple[int, float]] = {}
        with accelerated():
            for kept, scheme, kind in _VARIANTS:
                variant = model if scheme is None else quantize_model(model, plan=Plan("weight-only", scheme))
                assert isinstance(variant, GPT)
                fused, cache = fuse_decoding(variant), kind.of(model)
                enable_kv_cache(fused, cache=cache)
                logits = np.concatenate([fused(tokens[:, at : at + 1]).data for at in range(position + 1)], axis=1)
                error = float(np.abs(logits - whole).max() / np.abs(whole).max())
                held[kept] = sum(step_bytes(variant, cache, position)), error
                steps[kept] = _stepping(fused, cache, tokens[:, -1:], position)
            within = {kept: partial(_warm, step) for kept, step in steps.items()}
            plain, *others = interleave(steps, repeats=repeats, warmup_seconds=_WARMUP_SECONDS, within=within).values()
        compared = compare_all(plain, *others, matters=matters)
        before = predicted_step(held[plain.name][0], call, machine)
        speeds |= {f"{name}, {kept}": comparison for kept, comparison in compared.items()}
        for kept, (nbytes, error) in held.items():
            gain = quotient(before, predicted_step(nbytes, call, machine), f"predicted speedup, {name}, {kept}")
            made[f"{name}, {kept}"] = Decoding(
                name,
                kept,
                Counted(nbytes, "B", "weights and kept positions that a step reads"),
                Counted(error, "%", "largest error of a logit over the largest"),
                Modelled.by(_BY_BYTES, gain) if kept in compared else None,
                compared[kept].estimate if kept in compared else None,
            )
    return made, speeds


@dataclass(frozen=True)
class BesidePyTorch:
    """Time of a text in PyTorch, with the ``cache`` that was faster there, over ours on NumPy and in one op a token."""

    cache: str
    over_numpy: Measurement
    over_ours: Measurement


def race_with_pytorch(caches: Mapping[str, str]) -> BesidePyTorch | Unmeasured:
    """Return a text by PyTorch and by ours in turns, one core each; ``caches`` names the cache of each engine."""
    found = study((_NUMPY, _COMPILED, *caches), ["gpt-1"], ["decode"], rounds=15)
    if isinstance(found, Unmeasured):
        return found
    times, theirs = found[0].times, found[0].fastest(caches)
    return BesidePyTorch(
        next(said for engine, said in caches.items() if times[engine] is theirs),
        ratio(theirs, times[_NUMPY], "time of PyTorch eager over ours on NumPy"),
        ratio(theirs, times[_COMPILED], "time of PyTorch eager over ours in one op a token"),
    )
