"""What the page on memoization times: texts, prefills and steps, caches of codes, and the same in PyTorch."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tinytorch.chapters.gpt2 import NUMBER
from tinytorch.chapters.memoization.counts import step_flops
from tinytorch.core.op import Array
from tinytorch.core.transformers import GPT
from tinytorch.perf.acceleration import accelerated
from tinytorch.perf.measuring import Counted, Measurement, Modelled, interleave, ratio
from tinytorch.perf.measuring.judge import Judgement, verdict_between, verdict_of_all
from tinytorch.perf.measuring.measurement import derived
from tinytorch.perf.memoization import KVCache, disable_kv_cache, enable_kv_cache, fuse_decoding
from tinytorch.perf.memoization.generation import Tokens, generate

#: Enough to be warm; a call here is a whole text, so that a second of it would be long.
_WARMUP_SECONDS = 0.1
#: What predicts the time of a call: the longer of its FLOPs and its bytes.
_BOUNDS = "the two bounds"


def step_bytes(model: GPT, cache: KVCache, position: int) -> Counted:
    """Return the bytes of weights and cache that a step reads when each sequence of the cache is at ``position``.

    Of the position embedding that is one row; the token embedding is read whole, as it makes the logits.
    """
    weights = sum(
        array.nbytes // (model.max_seq_len if name.startswith("position_embedding.") else 1)
        for name, array in model.state_dict().items()
    )
    read = weights + cache.nbytes // cache.max_seq_len * position
    return Counted(read, "B", f"weights and kept positions of {cache.batch_size} texts")


@contextmanager
def _serving(model: GPT, cache: KVCache) -> Iterator[None]:
    """Let the model remember in ``cache`` for the body."""
    enable_kv_cache(model, cache=cache)
    try:
        yield
    finally:
        disable_kv_cache(model)


def speedups(model: GPT, prompt: Tokens, new_tokens: Sequence[int], repeats: int = 6) -> dict[int, Measurement]:
    """Return, by number of new tokens, the time of `generate` without a cache over that with one, timed in turns."""
    cache, found = KVCache.of(model, len(prompt)), {}
    for count in new_tokens:
        write = partial(generate, model, prompt, count)
        plain, short = interleave(
            {f"{count} tokens, uncached": write, f"{count} tokens, cached": write},
            repeats=repeats,
            warmup_seconds=_WARMUP_SECONDS,
            within={f"{count} tokens, cached": partial(_serving, model, cache)},
        ).values()
        found[count] = ratio(plain, short, f"speedup at {count} tokens")
    return found


def all_reach(found: Mapping[int, Measurement], least: Mapping[int, float]) -> Judgement:
    """Return whether at each length the speedup is at least what ``least`` says."""
    return verdict_of_all(verdict_between(found[n], low=said) for n, said in least.items())


def stepping(model: GPT, cache: KVCache, token: Array, position: int) -> Callable[[], Array]:
    """Return a call that reads tokens at a position of the cache, again and again.

    What the cache holds does not change the time, so it need not be filled before.
    """

    def step() -> Array:
        cache.stand_at(position)
        return model(token, last=True).data

    return step


@dataclass(frozen=True)
class Calls:
    """Times of calls that read 1 to some hundred tokens, and what their bytes and their FLOPs alone would take.

    Attributes:
        prefill: of the longest call: what its FLOPs and its bytes alone would take, its time, and that over its bound.
        step: the same of a call that reads one token after all others.
        ridge: tokens whose FLOPs take as long as the bytes of a step.
        curve: a row for each number of tokens: the time of the call over that of the step, by the two bounds and
            measured, and the time of its products with weights over that of the products of one row.
    """

    prefill: dict[str, Any]
    step: dict[str, Any]
    ridge: Modelled
    curve: list[dict[str, Any]]


def time_calls(model: GPT, lengths: Sequence[int]) -> Calls:
    """Return the times of calls that read so many tokens without a cache, in rising order, and of a step after them.

    Interleaved with them are what their bounds are taken from: a product of the most rows with a matrix of the MLP,
    which says how fast this machine multiplies, and one of a row and a single matrix of as many bytes as the step
    reads.
    """
    width, most = model.embed_dim, lengths[-1]
    cache = enable_kv_cache(model, max_seq_len=most + 1)
    nbytes = int(step_bytes(model, cache, most).value)
    matrix = np.ones((nbytes // (NUMBER * width), width), np.float32)
    many, wide = np.ones((most, width), np.float32), np.ones((width, 4 * width), np.float32)
    times = interleave(
        {
            "step": stepping(model, cache, np.zeros((1, 1), int), most),
            "many rows": partial(np.matmul, many, wide),
            "one row": partial(np.matmul, np.ones(len(matrix), np.float32), matrix),
            **{f"products, {n}": _products(model, n) for n in (1, *lengths)},
            **{f"call, {n}": stepping(model, cache, np.zeros((1, n), int), 0) for n in lengths},
        },
        repeats=10,
        at_most_seconds=5.0,
        warmup_seconds=_WARMUP_SECONDS,
    )
    disable_kv_cache(model)
    reading = times["one row"].scaled(nbytes / matrix.nbytes, "s", "the bytes, at the rate of one large matrix")
    computing, of_step = (
        times["many rows"].scaled(flops / (2 * most * wide.size), "s", "the FLOPs, at the rate of one product")
        for flops in (step_flops(model, most - 1, False), step_flops(model, most, True))
    )
    ridge = ratio(reading, computing).scaled(most, "tokens", "tokens whose FLOPs take as long as the bytes of a step")
    curve = [
        {
            "tokens": n,
            "measured": ratio(times[f"call, {n}"], times["step"], f"call of {n} tokens over a step"),
            "products": ratio(times[f"products, {n}"], times["products, 1"], f"products of {n} rows over one row"),
            "bounds": Modelled.by(_BOUNDS, derived(f"call of {n} tokens over a step", partial(_over_step, n), ridge)),
        }
        for n in lengths
    ]
    return Calls(
        _beside(times[f"call, {most}"], computing, reading, computing),
        _beside(times["step"], of_step, reading, reading),
        Modelled.by(_BOUNDS, ridge),
        curve,
    )


def _beside(taken: Measurement, by_flops: Measurement, by_bytes: Measurement, bound: Measurement) -> dict[str, Any]:
    """Return the time of a call beside what its FLOPs and its bytes alone would take, and over one of the two."""
    return {
        "by_flops": Modelled.by("the FLOPs, at the rate of one product", by_flops),
        "by_bytes": Modelled.by("the bytes, at the rate of one large matrix", by_bytes),
        "measured": taken,
        "over": ratio(taken, bound, "time over its lower bound"),
    }


def _over_step(tokens: int, ridge: Any) -> Any:
    """Return the time of a call of so many tokens over that of a step, by the two bounds."""
    return np.maximum(tokens / ridge, 1.0)


def _products(model: GPT, rows: int) -> Callable[[], None]:
    """Return a call that multiplies so many rows with each matrix of the model's blocks."""
    matrices = [array for name, array in model.state_dict().items() if array.ndim == 2 and "embedding" not in name]
    given = {size: np.ones((rows, size), np.float32) for size in {len(matrix) for matrix in matrices}}

    def multiply() -> None:
        for matrix in matrices:
            np.matmul(given[len(matrix)], matrix)

    return multiply


def coded_steps(model: GPT, caches: Mapping[str, KVCache]) -> dict[str, Measurement]:
    """Return the seconds of a step with each cache, full, with NumPy and compiled; and compiled with an empty one."""
    runs, within = {}, {}
    for name, cache in caches.items():
        token, last = np.zeros((cache.batch_size, 1), int), cache.max_seq_len - 1
        fused = fuse_decoding(model)
        runs[f"NumPy, {name}"] = stepping(model, cache, token, last)
        within[f"NumPy, {name}"] = partial(_serving, model, cache)
        for kind, position in ((name, last), ("empty", 0)):
            step = runs[f"compiled, {kind}"] = stepping(fused, cache, token, position)
            within[f"compiled, {kind}"] = partial(_warm, fused, cache, step)
    return interleave(runs, repeats=18, at_most_seconds=4.0, warmup_seconds=_WARMUP_SECONDS, within=within)


def gain_if_rest_stays(rest: Measurement, factor: float) -> Modelled:
    """Return by Amdahl's law how many times as fast a step becomes if all but the share ``rest`` gains ``factor``."""
    what = "gain of a step if only the reading of its cache becomes faster"
    return Modelled.by("Amdahl's law", derived(what, lambda share: 1 / (share + (1 - share) / factor), rest))


@contextmanager
def _warm(model: GPT, cache: KVCache, run: Callable[[], Any]) -> Iterator[None]:
    """Begin the body, with compiled kernels, with a call of ``run``: what else takes turns took the caches."""
    with _serving(model, cache), accelerated():
        run()
        yield
