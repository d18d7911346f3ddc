"""The records of the page on memoization: numbers, words, tables, figures and claims, from its studies' results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tinytorch.chapters.memoization.studies import (
    COMPILED,
    NUMPY,
    PYTORCH,
    CachedStep,
    Decoding,
    Recomputed,
    cache_shape,
    text_flops,
)
from tinytorch.chapters.sources import COURSE_MEMOIZATION, COURSE_MEMOIZATION_URL
from tinytorch.core.op import Array
from tinytorch.core.transformers import GPT
from tinytorch.perf.engines import NotMeasured, Raced
from tinytorch.perf.machine import Level
from tinytorch.perf.measuring import Measurement, quantity, quotient, ratio
from tinytorch.perf.measuring.comparison import compare_all, compare_paired
from tinytorch.perf.measuring.judge import CANNOT_TELL, REFUTED, SUPPORTED
from tinytorch.perf.memoization import KVCache
from tinytorch.report import Column, Page, color, line, subplots, verdict_between, verdict_between_all, verdict_of_all

STEP_FLOPS = (
    Column("position", "Token", "1"),
    Column("again", "Reading all again", "FLOP"),
    Column("once", "With a cache", "FLOP"),
    Column("ratio", "Ratio", ""),
)
CODES = (
    Column("cache", "Cache"),
    Column("bytes", "512 positions", "B"),
    Column("step", "A step at position 400", "s"),
    Column("score", "Sorted right, of 500", "%"),
)
WEIGHTS = (
    Column("model", "Model"),
    Column("kept", "Kept as"),
    Column("step", "Step", "s"),
    Column("gain", "Speedup"),
    Column("weights", "Weights", "B"),
    Column("cache", "Cache", "B"),
    Column("error", "Logit error", "%"),
)
PEAKS = (
    Column("n", "Positions", "1"),
    Column("training", "NumPy, kept to train", "B"),
    Column("forward", "NumPy, forward alone", "B"),
    Column("compiled", "Compiled, forward alone", "B"),
)
RECOMPUTED = (
    Column("what", "What"),
    Column("anew", "Made anew", "s"),
    Column("kept", "Looked up", "s"),
    Column("bytes", "Bytes kept", "B"),
    Column("share", "Of a forward pass", "%"),
)


def record_step_flops(page: Page, positions: Sequence[int], again: Sequence[int], once: Sequence[int]) -> None:
    """Record the arithmetic of one more token at each of the ``positions``, reading all ``again`` and each ``once``."""
    page.table(
        "step-flops",
        [
            {"position": p + 1, "again": a, "once": o, "ratio": a / o}
            for p, a, o in zip(positions, again, once, strict=True)
        ],
        STEP_FLOPS,
        caption="Arithmetic of one more token, counted on the operations that ran.",
    )
    page.number(
        "last-ratio",
        again[-1] / once[-1],
        unit="",
        what="FLOPs of the last token without a cache over those with one",
    )
    page.number(
        "once-growth", once[-1] / once[0], unit="", what="FLOPs of the last cached token over those of the first"
    )


def record_logits(page: Page, error: float, whole: Array) -> None:
    """Record the largest ``error`` of a cached logit beside the ``whole`` of the uncached ones."""
    largest = abs(whole).max()
    page.number(
        "logit-error",
        float(error),
        unit="1",
        what="largest difference of a cached logit to the uncached one, 64 sequences of 20 positions",
    )
    page.number("largest-logit", float(largest), unit="1", what="largest logit by magnitude")
    page.word(
        "same-logits",
        "equal to rounding" if error <= 1e-5 * largest else "different",
        because="the largest difference is {logit-error}, where logits reach {largest-logit}",
    )


#: Seconds of a text without a cache and with one, by its number of tokens.
Times = Mapping[int, tuple[Measurement, Measurement]]


def record_speedups(page: Page, times: Times, some: Times) -> None:
    """Record how much faster a cache makes a text, by its length, and the claim on it.

    Args:
        page: that records.
        times: of the page's model.
        some: of a larger model, for the shorter texts.
    """
    speedups = {n: ratio(*both, f"speedup at {n} tokens") for n, both in times.items()}
    larger = {n: ratio(*both, f"speedup at {n} tokens, larger model") for n, both in some.items()}
    figure, ax = subplots(height=3.0)
    line(
        ax,
        list(speedups),
        list(speedups.values()),
        quantity="speedup",
        variant="cached",
        label="the book's GPT, 2 layers of 96",
    )
    line(ax, list(larger), list(larger.values()), quantity="speedup", variant="numpy", label="4 layers of 256")
    ax.set_xscale("log", base=2)
    ax.set_xticks(list(speedups), [str(n) for n in speedups])
    ax.set_xlabel("text (tokens)")
    ax.legend()
    page.figure(
        "speedup",
        figure,
        caption="How many times faster a text is written with a cache, by its length: medians of interleaved pairs "
        "with their intervals.",
        alt="Speedup over the number of new tokens from 8 to 256, for two models.",
    )
    page.number("larger-speedup-64", larger[64])
    for n, speedup in speedups.items():
        page.number(f"speedup-{n}", speedup)
    for n in (8, 256):
        again, once = times[n]
        page.number(f"rate-again-{n}", again.per(n, "tokens/s", f"tokens per second, uncached, {n} tokens"))
        page.number(f"rate-once-{n}", once.per(n, "tokens/s", f"tokens per second, cached, {n} tokens"))
    page.claim(
        "kv-cache-speedup",
        statement="A key-value cache makes text generation 10 to 15 times faster.",
        source=COURSE_MEMOIZATION,
        source_url=COURSE_MEMOIZATION_URL,
        verdict=verdict_between_all(speedups.values(), low=10, high=15),
        evidence="For the book's GPT the speedup was {speedup-8} at 8 new tokens and {speedup-64} at 64. At 256 it was "
        "{speedup-256}: a length belongs to the number.",
    )
    for at, way in enumerate(("again", "once")):
        what = f"time of 256 {'cached' if at else 'uncached'} tokens over that of 128"
        page.number(f"growth-{way}", quotient(times[256][at], times[128][at], what))


def record_cache_bytes(page: Page, hundred: float, gpt2: KVCache, model: GPT) -> None:
    """Record what caches hold, and the claim on it.

    Args:
        page: that records.
        hundred: bytes of a cache of 100 positions of one head of 64.
        gpt2: a cache of GPT-2's shape.
        model: of this page.
    """
    page.number(
        "hundred-bytes",
        hundred,
        unit="B",
        what="a cache of 100 positions of one head of 64, float32, as allocated",
    )
    page.number(
        "gpt2-bytes",
        gpt2.nbytes,
        unit="B",
        what="a cache of GPT-2's shape at 1024 positions, float32, as allocated",
    )
    page.number(
        "opt-bytes",
        2 * 40 * 5120 * 2,
        unit="B",
        what="bytes of one position of OPT-13B by the formula: 40 layers, 5,120 wide, half precision",
        modelled=True,
    )
    weights = 4 * sum(parameter.size for parameter in model.parameters())
    page.number("weight-bytes", weights, unit="B", what="bytes of the parameters of the model of this chapter")
    a_position = KVCache(*cache_shape(model, 1)).nbytes // model.max_seq_len
    page.number(
        "position-bytes", a_position, unit="B", what="bytes of one position in the cache of the model of this chapter"
    )
    page.number(
        "positions-of-weights",
        weights / a_position,
        unit="positions",
        what="positions whose cache takes as much memory as the weights",
    )
    page.claim(
        "course-cache-bytes",
        statement="For 100 positions and a head size of 64 the cache takes 6.4 KB a layer.",
        source=COURSE_MEMOIZATION,
        source_url=COURSE_MEMOIZATION_URL,
        verdict=verdict_between(quantity(hundred, "B", "a cache of 100 positions"), high=6400 * 1.05),
        evidence="A cache of one layer with one such head held {hundred-bytes}. "
        "The sentence counts numbers instead of bytes, and keys without values.",
    )


def record_fitting(
    page: Page,
    held: Sequence[int],
    seconds: Sequence[Measurement],
    levels: Sequence[Level],
    gpt2: KVCache,
) -> None:
    """Record how fast the attention of a step reads its keys and values, by their size.

    Args:
        page: that records.
        held: bytes of keys and values, from few to many; the second are those of 256 keys.
        seconds: of one query over them, in turns.
        levels: of the memory; the last is memory itself.
        gpt2: a cache of GPT-2's shape at 1,024 positions.
    """
    rates = [
        each.per(nbytes, "B/s", f"cache read by attention over {each.name}")
        for nbytes, each in zip(held, seconds, strict=True)
    ]
    caches = {level.name: level.capacity_measured for level in levels if level.capacity_measured is not None}
    figure, ax = subplots(height=3.0)
    line(
        ax,
        [size / 2**20 for size in held],
        rates,
        quantity="rate",
        variant="measured",
        label="one layer of GPT-2's shape",
    )
    for name, capacity in caches.items():
        size = capacity / 2**20
        ax.axvline(size, color=color("baseline"), linestyle=":", linewidth=1)
        ax.text(size, ax.get_ylim()[0], f" {name}", rotation=90, va="bottom", ha="right")
    ax.set_xscale("log", base=2)
    ax.set_xlabel("keys and values of one layer (MiB)")
    page.figure(
        "fitting",
        figure,
        caption="How fast the attention of a step reads its keys and values, by their size; dotted where the levels "
        "of the memory end.",
        alt="Rate in gigabytes per second over the size of keys and values, with vertical lines at the measured ends "
        "of the caches.",
    )
    page.number("rate-near", rates[1])
    page.number("rate-largest", rates[-1])
    near, far = (seconds[at].scaled(1 / held[at]) for at in (1, -1))  # for each byte
    page.compare("rate-drop", compare_paired(far, near))
    page.number(
        "fits-l3",
        list(caches.values())[-1] // (gpt2.nbytes // 1024),
        unit="positions",
        what="positions of all layers of GPT-2's shape that fit into the last cache",
        derived=True,
    )


def record_codes(page: Page, scores: Mapping[str, float], error: float, steps: Mapping[str, CachedStep]) -> None:
    """Record a cache of codes beside one of floats.

    Args:
        page: that records.
        scores: share of questions that are answered right with a cache of "float32" and of "int8".
        error: largest difference of a logit that codes make, as a share of the largest logit.
        steps: a step with either.
    """
    plain, coded = steps["float32"], steps["int8"]
    page.number(
        "code-error",
        error,
        unit="%",
        what="largest difference of a logit with the cache of codes, relative to the largest logit",
    )
    page.table(
        "codes",
        [
            {"cache": "float32", "bytes": plain.nbytes, "step": plain.step, "score": scores["float32"]},
            {"cache": "int8 codes", "bytes": coded.nbytes, "step": coded.step, "score": scores["int8"]},
        ],
        CODES,
        caption="A cache of float32 numbers and one of 8-bit codes: bytes and time of the model of this chapter, "
        "answers of the trained GPT.",
    )
    page.number(
        "code-bytes-ratio",
        plain.nbytes / coded.nbytes,
        unit="",
        what="bytes of a float32 cache over those of one of codes, head size 24",
    )
    page.number("code-score", scores["int8"], unit="%", what="exact sequences with a cache of codes, of 500")
    page.number("float-score", scores["float32"], unit="%", what="exact sequences with a float32 cache, of 500")
    page.compare("code-speed", compare_paired(plain.step, coded.step))


def record_batches(page: Page, batches: Sequence[int], steps: Sequence[Measurement], model: GPT) -> None:
    """Record the tokens a second that the ``model`` writes for so many sequences at a time.

    Args:
        page: that records.
        batches: numbers of sequences, from one on; ``steps``: seconds of a step of each, in turns.
        model: of this page.
    """
    rates = [step.per(batch, "tokens/s", f"batch {batch}") for batch, step in zip(batches, steps, strict=True)]
    figure, ax = subplots(height=2.8)
    line(ax, batches, rates, quantity="throughput", variant="cached", label="cached")
    ax.set_xscale("log", base=2)
    ax.set_xticks(batches, [str(b) for b in batches])
    ax.set_xlabel("batch (sequences)")
    page.figure(
        "batches",
        figure,
        caption="Tokens per second at position 256 by the number of sequences that are written together.",
        alt="Throughput over batch size from 1 to 64.",
    )
    page.number("batch-one", rates[0])
    page.number("batch-most", rates[-1])
    gain = ratio(steps[0], steps[-1], "throughput of 64 sequences over that of one")
    page.number("batch-gain", gain.scaled(batches[-1] / batches[0]))
    page.number(
        "batch-bytes",
        KVCache(*cache_shape(model, batches[-1])).nbytes,
        unit="B",
        what="bytes of the cache of 64 sequences of 512 positions",
    )


def record_fused(page: Page, between: Measurement, step: Mapping[str, Measurement]) -> None:
    """Record the share of a step ``between`` ops, and the ``step`` "op by op" and in "one op a token"."""
    page.number("between", between)
    page.number("step-op-by-op", step["op by op"])
    page.number("step-fused", step["one op a token"])
    page.compare("fused", compare_paired(step["op by op"], step["one op a token"]))


def record_weights(page: Page, narrow: Sequence[Decoding], broad: Sequence[Decoding]) -> None:
    """Record steps in one op with weights of codes, float32 first, of a ``narrow`` and of a ``broad`` model."""
    compared = [compare_all(found[0].step, *(each.step for each in found[1:])) for found in (narrow, broad)]
    page.table(
        "weights",
        [
            {
                "model": name,
                "kept": each.name,
                "step": each.step,
                "gain": None if each is found[0] else gains[each.step.name].ratio,
                "weights": each.weight_bytes,
                "cache": each.cache_bytes,
                "error": each.error,
            }
            for name, found, gains in zip(("2 layers of 96", "4 layers of 256"), (narrow, broad), compared, strict=True)
            for each in found
        ],
        WEIGHTS,
        caption="A step at position 129 in one compiled operation: its time, what it reads, and the largest error of "
        "a logit as a share of the largest logit.",
    )
    for key, found, gains in zip(("narrow", "wide"), (narrow, broad), compared, strict=True):
        page.compare(f"{key}-gain", gains[found[1].step.name])
    page.number(
        "wide-error",
        broad[1].error,
        unit="%",
        what="largest logit error of 8-bit weights, 4 layers of 256, as a share of the largest logit",
    )
    page.number("wide-bytes", broad[0].weight_bytes, unit="B", what="float32 weights of the model of 4 layers of 256")
    page.number("narrow-bytes", narrow[0].weight_bytes, unit="B", what="float32 weights of the model of 2 layers of 96")


def record_pytorch(page: Page, raced: Raced | NotMeasured) -> None:
    """Record what PyTorch takes over ours for the same text; where it is not here, why nothing is said of it."""
    if isinstance(raced, NotMeasured):
        page.absent("pytorch-over-ours", "pytorch-over-numpy", "pytorch-cache", "pytorch-twice", reason=raced.reason)
        return
    eager = raced.fastest(PYTORCH)
    over_ours = ratio(eager, raced.times[COMPILED], "time of PyTorch eager over ours in one op a token")
    page.number("pytorch-over-ours", over_ours)
    page.number("pytorch-over-numpy", ratio(eager, raced.times[NUMPY], "time of PyTorch eager over ours on NumPy"))
    page.word(
        "pytorch-cache",
        "concatenation" if "concatenated" in eager.name else "buffers taken at the start",
        because="of PyTorch's two caches it had the shorter median in this run",
    )
    page.word(
        "pytorch-twice",
        {SUPPORTED: "yes", REFUTED: "no", CANNOT_TELL: CANNOT_TELL}[verdict_between(over_ours, low=2.0)],
        because="the time of PyTorch over ours is {pytorch-over-ours}",
    )


def record_peaks(
    page: Page, sizes: Sequence[int], training: Sequence[int], forward: Sequence[int], compiled: Sequence[int]
) -> None:
    """Record the bytes that attention holds over so many positions, in three ways, and the claim on them.

    Args:
        page: that records.
        sizes: numbers of positions, each twice the one before.
        training: bytes in NumPy, with what a backward needs.
        forward: bytes in NumPy without it.
        compiled: bytes of the compiled kernel.
    """
    page.table(
        "peaks",
        [
            {"n": n, "training": float(t), "forward": float(f), "compiled": float(c)}
            for n, t, f, c in zip(sizes, training, forward, compiled, strict=True)
        ],
        PEAKS,
        caption="The most that attention of GPT-2's shape holds at a time beyond its input, its output included, "
        "by tracemalloc.",
    )
    ways = {"training": training, "forward": forward, "compiled": compiled}
    growth = {name: peaks[-1] / peaks[-2] for name, peaks in ways.items()}
    for name, value in growth.items():
        page.number(
            f"peak-growth-{name}",
            value,
            unit="",
            what=f"peak memory of 2,048 positions over that of 1,024, {name}",
        )
    page.claim(
        "attention-square-memory",
        statement="The memory of self-attention is quadratic in the length of the sequence.",
        source="T. Dao et al., FlashAttention, 2022",
        source_url="https://arxiv.org/abs/2205.14135",
        verdict=verdict_of_all(
            verdict_between(quantity(peaks[-1], "B", way), low=3.5 * peaks[-2]) for way, peaks in ways.items()
        ),
        evidence="Twice the length took {peak-growth-training} the memory where all scores are kept for a backward, "
        "and {peak-growth-forward} where one head at a time is scored and forgotten. In a kernel that stores no scores "
        "it took {peak-growth-compiled}. The square belongs to a way of computing attention.",
    )


def record_recomputed(page: Page, found: Sequence[Recomputed], hits: Mapping[str, float]) -> None:
    """Record what a forward pass could look up instead of making it.

    Args:
        page: that records.
        found: what it makes anew.
        hits: share of masks that were found kept over the "same" positions, and while a text is "growing".
    """
    page.table(
        "recomputed",
        [
            {
                "what": each.name,
                "anew": each.anew,
                "kept": each.looked_up,
                "bytes": each.nbytes,
                "share": each.share,
            }
            for each in found
        ],
        RECOMPUTED,
        caption="What a forward pass over 256 positions could look up instead, the share of the pass that making it "
        "takes, and the bytes to keep it.",
    )
    by_name = {each.name: each for each in found}
    packed, floats = by_name["packed weights"], by_name["8-bit weights as floats"]
    page.number("memo-mask", by_name["causal mask"].share)
    page.number("memo-packed", packed.share)
    page.number("packed-bytes", packed.nbytes, unit="B", what="packed weights of the linear layers")
    page.number("memo-floats", floats.share)
    page.number("floats-bytes", floats.nbytes, unit="B", what="those weights kept as floats")
    page.number("hits-same", hits["same"], unit="%", what="masks found kept in eight passes over 64 positions")
    page.number(
        "hits-growing",
        hits["growing"],
        unit="%",
        what="masks found kept while 64 tokens are generated without a cache",
    )


def record_answers(page: Page, gpt2: KVCache, model: GPT) -> None:
    """Record the answers to the page's questions: of a cache of GPT-2's shape, and of the page's ``model``."""
    page.number(
        "q-with-queries",
        gpt2.nbytes * 3 // 2,
        unit="B",
        what="a cache of GPT-2's shape that keeps queries too",
        modelled=True,
    )
    again, once = (text_flops(model, 256, cached) for cached in (False, True))
    page.number(
        "q-repeated",
        1 - once / again,
        unit="%",
        what="share of the arithmetic of 256 uncached steps that a cache saves",
    )
    page.number(
        "q-flop-ratio",
        again / once,
        unit="",
        what="arithmetic of 256 uncached steps over that of cached ones",
    )
    page.number(
        "q-users",
        16 * gpt2.nbytes,
        unit="B",
        what="caches of sixteen full sequences of GPT-2's shape, float32",
        modelled=True,
    )
    page.number(
        "q-users-codes",
        16 * gpt2.nbytes // 256 * 68,
        unit="B",
        what="the same in codes of 8 bits with a scale for each head and position",
        modelled=True,
    )
    page.number(
        "q-equal",
        12 * model.embed_dim**2 // (2 * model.embed_dim),
        unit="positions",
        what="positions at which attention does as many FLOPs as the layers' products",
        modelled=True,
    )
