"""What the page on memoization times: texts, prefills and steps, caches of codes, and the same in PyTorch."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tinytorch.chapters.gpt2 import NUMBER
from tinytorch.chapters.memoization.counts import shape_of
from tinytorch.core.dispatch import no_grad
from tinytorch.core.op import Array
from tinytorch.core.transformers import GPT
from tinytorch.perf.acceleration import accelerated
from tinytorch.perf.engines.turns import study
from tinytorch.perf.measuring import Counted, Derived, Measurement, Modelled, Unmeasured, interleave, quotient, ratio
from tinytorch.perf.measuring.comparison import Comparison, compare_paired
from tinytorch.perf.measuring.judge import Judgement, verdict_between, verdict_of_all
from tinytorch.perf.measuring.values import Value, as_measurement
from tinytorch.perf.memoization import KVCache, QuantizedKVCache, disable_kv_cache, enable_kv_cache, fuse_decoding
from tinytorch.perf.memoization.generation import Tokens, generate

#: Enough to be warm; a call here is a whole text, so that a second of it would be long.
_WARMUP_SECONDS = 0.1
#: Our engines that write the same text as PyTorch: on NumPy, and in one op a token.
_NUMPY, _COMPILED = "tinytorch", "tinytorch accelerated"


def step_bytes(model: GPT, cache: KVCache, position: int) -> tuple[int, int]:
    """Return the bytes of the weights and of the cache that the step of one sequence at ``position`` reads.

    Of the position embedding that is one row; the token embedding is read whole, as it makes the logits.
    """
    weights = sum(
        array.nbytes // (model.max_seq_len if name.startswith("position_embedding.") else 1)
        for name, array in model.state_dict().items()
    )
    return weights, cache.nbytes // cache.max_seq_len // cache.batch_size * position


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
    return verdict_of_all(verdict_between(found[n], low=said) for n, said in least.items())


@contextmanager
def _serving(model: GPT, cache: KVCache) -> Iterator[None]:
    """Let the model remember in ``cache`` for the body."""
    enable_kv_cache(model, cache=cache)
    try:
        yield
    finally:
        disable_kv_cache(model)


def stepping(model: GPT, cache: KVCache, token: Array, position: int) -> Callable[[], Array]:
    """Return a call that reads tokens at a position of the cache, again and again."""

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
        {name: stepping(model, each, np.zeros((each.batch_size, 1), int), position) for name, each in caches.items()},
        resolve=resolve,
        at_most_seconds=3.0,
        warmup_seconds=_WARMUP_SECONDS,
        within={name: partial(_serving, model, cache) for name, cache in caches.items()},
    )


@contextmanager
def warm(run: Callable[[], Any]) -> Iterator[None]:
    """Begin the body, with compiled kernels, with a call of ``run``: what else takes turns took the caches."""
    with accelerated():
        run()
        yield


@dataclass(frozen=True)
class Workload:
    """A call of a model: its FLOPs and bytes, the seconds that each takes at least, and those that it took.

    ``balance`` is the time of the arithmetic over that of the bytes, and ``over`` the time over the larger of the two.
    """

    flops: Counted
    nbytes: Counted
    by_flops: Modelled
    by_bytes: Modelled
    measured: Measurement
    balance: Measurement
    over: Measurement


def two_workloads(models: Mapping[str, GPT], rows: int, at_most_seconds: float) -> dict[str, Workload]:
    """Return the prefill of so many rows, and the step behind them, of each model by name.

    In turns with them ran what their bounds are taken from: a product of as many rows with a matrix of the MLP, which
    says how fast this machine multiplies, and one of a row and a single matrix of as many bytes as the step reads.
    """
    found = {}
    for name, model in models.items():
        cache, width, shape = enable_kv_cache(model), model.embed_dim, shape_of(model)
        nbytes = sum(step_bytes(model, cache, rows))
        flops = {"prefill": shape.reread_flops(rows), "step": shape.step_flops(rows + 1)}
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
            at_most_seconds=at_most_seconds,
            warmup_seconds=_WARMUP_SECONDS,
        )
        disable_kv_cache(model)
        reading = times["one row"].scaled(nbytes / matrix.nbytes, "s", "the bytes, at the rate of one large matrix")
        for phase, count in flops.items():
            share = count / (2 * rows * wide.size)
            computing = times["many rows"].scaled(share, "s", "the FLOPs, at the rate of one product")
            larger = computing if phase == "prefill" else reading
            found[f"{name}, {phase}"] = Workload(
                Counted(count, "FLOP", f"arithmetic of the {phase}"),
                Counted(nbytes, "B", "weights and kept positions"),
                Modelled.by("the FLOPs, at the rate of one product", computing),
                Modelled.by("the bytes, at the rate of one large matrix", reading),
                times[phase],
                ratio(computing, reading, "time of the arithmetic over that of the bytes"),
                ratio(times[phase], larger, f"{name}: {phase} over its bound"),
            )
    return found


def rows_saved(found: Mapping[str, Workload], name: str) -> tuple[Modelled, Comparison]:
    """Return how many times as fast a token is with its cache than when all is read again: by the bounds, and timed."""
    again, once = found[f"{name}, prefill"], found[f"{name}, step"]
    bounds = ratio(as_measurement(again.by_flops), as_measurement(once.by_bytes), "bound of a prefill over a step's")
    return Modelled.by("the two bounds", bounds), compare_paired(again.measured, once.measured, matters=0.05)


def text_gain(last: Modelled, tokens: int, rows: int) -> Modelled:
    """Return how many times as fast a whole text is with its cache, by what the token behind so many ``rows`` gains.

    The token behind n rows gains n over the rows of the ridge, and nothing below the ridge.
    """
    ridge = rows / last.value
    gain = sum(max(n / ridge, 1.0) for n in range(1, tokens + 1)) / tokens
    return Modelled(gain, "", f"speedup at {tokens} tokens, by the two bounds", "the two bounds")


def over_predicted(gain: Comparison | Measurement, predicted: Value) -> Measurement:
    """Return a measured gain over the predicted one."""
    found, expected = gain.estimate if isinstance(gain, Comparison) else gain, as_measurement(predicted)
    what = f"{found.name}, over its prediction"
    return quotient(found, expected, what) if expected.n > 1 else found.scaled(1 / expected.median, "", what)


#: Caches of floats and of codes, by their names in the table.
_KINDS: Mapping[str, type[KVCache]] = {"float32": KVCache, "8-bit codes": QuantizedKVCache}


@dataclass(frozen=True)
class Coded:
    """A kind of cache: bytes that it takes, bytes that a step of all texts reads, and the error of logits by depth."""

    nbytes: Counted
    read: Counted
    one: Counted
    deep: Counted


def logit_errors(model: GPT, rows: int) -> dict[str, Counted]:
    """Return by kind of cache how much logits of a prefill of so many rows change with it, over the largest logit."""
    tokens = np.random.default_rng(0).integers(0, model.vocab_size, (1, rows))
    with no_grad():
        whole = model(tokens).data
    found = {}
    for name, kind in _KINDS.items():
        with _serving(model, kind.of(model, len(tokens))):
            error = abs(model(tokens).data - whole).max() / abs(whole).max()
        found[name] = Counted(error, "%", "largest difference of a logit, over the largest logit")
    return found


def coded_caches(
    one: GPT, errors: Sequence[Mapping[str, Counted]], texts: int
) -> tuple[dict[str, Coded], dict[str, Comparison], Derived]:
    """Return caches of floats and of codes for so many texts of a model of one block, full, and steps with each.

    The comparisons are of a step by NumPy, op by op, and of one in a compiled op; the last is what bytes alone predict.
    The ``errors`` are `logit_errors` of the block and of a deep model.
    """
    last, caches = one.max_seq_len - 1, {name: kind.of(one, texts) for name, kind in _KINDS.items()}
    ways, found, fused, within = {"NumPy": step_times(one, caches, last)}, {}, {}, {}
    for name, cache in caches.items():
        serving = fuse_decoding(one)
        enable_kv_cache(serving, cache=cache)
        step = stepping(serving, cache, np.zeros((texts, 1), int), last)
        fused[name], within[name] = step, partial(warm, step)
        weights, kept = step_bytes(one, cache, last)
        found[name] = Coded(
            Counted(cache.nbytes, "B", "bytes of the caches"),
            Counted(weights + texts * kept, "B", "weights and kept positions"),
            *(error[name] for error in errors),
        )
    ways["one op"] = interleave(fused, repeats=30, warmup_seconds=_WARMUP_SECONDS, within=within)
    floats, codes = found.values()
    predicted = floats.read.over(codes.read, "bytes that a step reads with a cache of floats over one of codes")
    plain, coded = _KINDS
    return found, {way: compare_paired(t[plain], t[coded], matters=0.05) for way, t in ways.items()}, predicted


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
        next(said for engine, said in caches.items() if times[engine].samples == theirs.samples),
        ratio(theirs, times[_NUMPY], "time of PyTorch eager over ours on NumPy").together(len(caches)),
        ratio(theirs, times[_COMPILED], "time of PyTorch eager over ours in one op a token").together(len(caches)),
    )
