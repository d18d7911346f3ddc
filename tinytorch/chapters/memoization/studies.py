"""What the page on memoization times: texts, prefills and steps, caches of codes, and the same in PyTorch."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from tinytorch.chapters.gpt2 import NUMBER
from tinytorch.chapters.memoization.counts import step_flops
from tinytorch.core.op import Array
from tinytorch.core.transformers import GPT
from tinytorch.perf.acceleration import accelerated
from tinytorch.perf.engines.turns import study
from tinytorch.perf.measuring import Counted, Measurement, Modelled, Unmeasured, interleave, ratio
from tinytorch.perf.measuring.judge import Judgement, verdict_between, verdict_of_all
from tinytorch.perf.measuring.measurement import derived
from tinytorch.perf.memoization import KVCache, disable_kv_cache, enable_kv_cache, fuse_decoding
from tinytorch.perf.memoization.generation import Tokens, generate

#: Enough to be warm; a call here is a whole text, so that a second of it would be long.
_WARMUP_SECONDS = 0.1


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


def two_workloads(model: GPT, rows: int) -> dict[str, dict[str, Any]]:
    """Return the "prefill" of so many rows and the "step" behind them: the time of each, and its two bounds.

    In turns with them ran what their bounds are taken from: a product of as many rows with a matrix of the MLP, which
    says how fast this machine multiplies, and one of a row and a single matrix of as many bytes as the step reads.
    ``balance`` is the time of the arithmetic over that of the bytes, and ``over`` the time over the expected bound.
    """
    cache, width = enable_kv_cache(model), model.embed_dim
    nbytes = int(step_bytes(model, cache, rows).value)
    matrix = np.ones((nbytes // (NUMBER * width), width), np.float32)
    many, wide = np.ones((rows, width), np.float32), np.ones((width, 4 * width), np.float32)
    times = interleave(
        {
            "prefill": stepping(model, cache, np.zeros((1, rows), int), 0),
            "step": stepping(model, cache, np.zeros((1, 1), int), rows),
            "many rows": partial(np.matmul, many, wide),
            "one row": partial(np.matmul, np.ones(len(matrix), np.float32), matrix),
        },
        repeats=18,
        at_most_seconds=4.0,
        warmup_seconds=_WARMUP_SECONDS,
    )
    disable_kv_cache(model)
    reading = times["one row"].scaled(nbytes / matrix.nbytes, "s", "the bytes, at the rate of one large matrix")
    found: dict[str, dict[str, Any]] = {}
    for phase, flops in (("prefill", step_flops(model, rows - 1, False)), ("step", step_flops(model, rows, True))):
        share = flops / (2 * rows * wide.size)
        computing = times["many rows"].scaled(share, "s", "the FLOPs, at the rate of one product")
        found[phase] = {
            "by_flops": Modelled.by("the FLOPs, at the rate of one product", computing),
            "by_bytes": Modelled.by("the bytes, at the rate of one large matrix", reading),
            "measured": times[phase],
            "balance": ratio(computing, reading, f"{phase}: time of the arithmetic over that of the bytes"),
            "over": ratio(times[phase], computing if phase == "prefill" else reading, f"{phase} over its bound"),
        }
    return found


def text_gain(last: Measurement, tokens: int, rows: int) -> Modelled:
    """Return how many times as fast a whole text is with its cache, by what the token behind so many ``rows`` gains.

    The token behind n rows gains n over the rows of the ridge, and nothing below the ridge.
    """

    def gain(at_rows: Any) -> Any:
        return sum(np.maximum(n * at_rows / rows, 1.0) for n in range(1, tokens + 1)) / tokens

    return Modelled.by("the two bounds", derived(f"speedup at {tokens} tokens, by the two bounds", gain, last))


def coded_steps(model: GPT, caches: Mapping[str, KVCache]) -> dict[str, Measurement]:
    """Return the seconds of a step with each cache, full, in turns: by NumPy op by op, and in one compiled op."""
    runs, within = {}, {}
    for name, cache in caches.items():
        token, last = np.zeros((cache.batch_size, 1), int), cache.max_seq_len - 1
        fused = fuse_decoding(model)
        runs[f"NumPy, {name}"] = stepping(model, cache, token, last)
        within[f"NumPy, {name}"] = partial(_serving, model, cache)
        step = runs[f"one op, {name}"] = stepping(fused, cache, token, last)
        within[f"one op, {name}"] = partial(_warm, fused, cache, step)
    return interleave(runs, repeats=18, at_most_seconds=4.0, warmup_seconds=_WARMUP_SECONDS, within=within)


@contextmanager
def _warm(model: GPT, cache: KVCache, run: Callable[[], Any]) -> Iterator[None]:
    """Begin the body, with compiled kernels, with a call of ``run``: what else takes turns took the caches."""
    with _serving(model, cache), accelerated():
        run()
        yield


def race_with_pytorch() -> Measurement | Unmeasured:
    """Return the time of a text in PyTorch, with the faster of its two caches, over ours in one op a token.

    They take turns, on one core each.
    """
    ours, theirs = "tinytorch accelerated", ("PyTorch eager", "PyTorch eager, cache concatenated")
    found = study((ours, *theirs), ["gpt-1"], ["decode"], rounds=15)
    if isinstance(found, Unmeasured):
        return found
    over = ratio(found[0].fastest(theirs), found[0].times[ours], "time of PyTorch eager over ours in one op a token")
    return over.together(len(theirs))
