"""The records of the page on memoization: numbers, words, tables, figures and claims, from its studies' results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tinytorch.chapters.gpt2 import GPT2, NUMBER, read_seconds
from tinytorch.chapters.memoization.studies import (
    COMPILED,
    NUMPY,
    PYTORCH,
    CachedStep,
    Calls,
    Decoding,
    FewRows,
    Prompt,
    ReadStep,
    cache_shape,
    predicted_step,
    step_bytes,
    text_flops,
)
from tinytorch.chapters.sources import COURSE_MEMOIZATION, COURSE_MEMOIZATION_URL
from tinytorch.core.op import Array
from tinytorch.core.transformers import GPT
from tinytorch.perf.engines import Raced
from tinytorch.perf.machine import Ceilings
from tinytorch.perf.measuring import Counted, Measurement, Modelled, Unmeasured, quotient, ratio
from tinytorch.perf.measuring.comparison import compare_all, compare_paired
from tinytorch.perf.measuring.judge import why_undecided
from tinytorch.perf.memoization import KVCache
from tinytorch.perf.roofline.bounds import best_bandwidth, slope_at
from tinytorch.report import Column, Page, verdict_between, verdict_between_all, verdict_of_all
from tinytorch.report.figures import draw_line, subplots

#: Tokens of the text whose arithmetic is counted: the longest that is timed.
TEXT = 200
#: What the course expects by length of text.
COURSE_SPEEDUPS = {10: 7.5, 25: 12.5, 50: 16.0, 100: 16.7}
#: The lengths that the course calls typical reach from the first to the last.
TYPICAL = (50, 100, 200)
#: OPT-13B: layers, heads and head size, and its parameters (W. Kwon et al., 2023); numbers of two bytes.
OPT_SHAPE, OPT_PARAMETERS, HALF = (40, 40, 128), 13e9, 2
#: Positions of OPT's longest text (W. Kwon et al., 2023), and B/s of the A100's memory of 40 GB (NVIDIA, 2020).
OPT_LENGTH, A100 = 2048, 1555e9
#: How many times the tokens per second of PyTorch the page asks whether one op a token writes.
_TWICE = 2.0

ARITHMETIC = (
    Column("part", "Part"),
    Column("again", "Without a cache", "FLOP"),
    Column("once", "With a cache", "FLOP"),
    Column("ratio", "Ratio", ""),
)
STEPS = (
    Column("model", "Model, positions kept"),
    Column("bytes", "Reads", "B"),
    Column("level", "From"),
    Column("predicted", "Predicted"),
    Column("step", "Measured"),
    Column("over", "Measured over predicted"),
)
OPT = (
    Column("batch", "Sequences"),
    Column("short", "Caches, 512 positions", "GB", modelled=True),
    Column("long", "Caches, 2,048 positions", "GB", modelled=True),
    Column("all", "With the weights", "GB", modelled=True),
    Column("step", "Step at 2,048", "s", modelled=True),
    Column("rate", "All together", "tokens/s", modelled=True),
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
    Column("bytes", "Reads", "B"),
    Column("predicted", "Predicted speedup"),
    Column("gain", "Speedup"),
    Column("error", "Logit error", "%"),
)
PEAKS = (
    Column("n", "Positions", "1"),
    Column("training", "NumPy, kept to train", "B"),
    Column("forward", "NumPy, forward alone", "B"),
    Column("compiled", "Compiled, forward alone", "B"),
)


def record_arithmetic(page: Page, again: Mapping[str, int], once: Mapping[str, int]) -> None:
    """Record the arithmetic of a text by part, counted without a cache, ``again``, and with one, ``once``."""
    names = {"products": "products with weights", "attention": "attention"}
    rows = [(said, again[part], once[part]) for part, said in names.items()]
    rows.append(("with the logits, together", sum(again.values()), sum(once.values())))
    page.table(
        "arithmetic",
        [
            {
                "part": part,
                "again": Counted(a, "FLOP", "arithmetic without a cache"),
                "once": Counted(o, "FLOP", "arithmetic with a cache"),
                "ratio": Counted(a / o, "", "arithmetic without a cache over that with one"),
            }
            for part, a, o in rows
        ],
        ARITHMETIC,
        caption=f"Arithmetic of a text of {TEXT} tokens, counted on the operations that ran.",
    )
    for key, (said, a, o) in zip(("saved-products", "saved-attention", "saved"), rows, strict=True):
        page.number(key, Counted(a / o, "", f"{said}: FLOPs of {TEXT} tokens without a cache over those with one"))


def record_logits(page: Page, error: float, whole: Array) -> None:
    """Record the largest ``error`` of a cached logit beside the ``whole`` of the uncached ones."""
    largest = abs(whole).max()
    page.number(
        "logit-error",
        Counted(
            float(error), "1", "largest difference of a cached logit to the uncached one, 64 sequences of 20 positions"
        ),
    )
    page.number("largest-logit", Counted(float(largest), "1", "largest logit by magnitude"))
    page.word(
        "same-logits",
        "equal to rounding" if error <= 1e-5 * largest else "different",
        because="the largest difference is {logit-error}, where logits reach {largest-logit}",
    )


#: Seconds of a text without a cache and with one, by its number of tokens.
Times = Mapping[int, tuple[Measurement, Measurement]]


def record_speedups(page: Page, times: Times, some: Times, model: GPT) -> None:
    """Record how much faster a cache makes a text, by its length, beside the arithmetic that it saves.

    Args:
        page: that records.
        times: of the page's model.
        some: of a larger model, for the shorter texts.
        model: the page's.
    """
    figure, ax = subplots(height=3.0)
    for found, variant, label in ((times, "cached", "time, 2 layers of 96"), (some, "numpy", "time, 4 layers of 256")):
        speedups = {n: ratio(*both, f"speedup at {n} tokens, {label[6:]}") for n, both in found.items()}
        draw_line(ax, list(speedups), list(speedups.values()), quantity="ratio", variant=variant, label=label)
        for n, speedup in speedups.items():
            page.number(f"speedup-{n}" if found is times else f"larger-speedup-{n}", speedup)
    saved = [
        Modelled(_saved(model, n), "", f"{n} tokens without a cache over that with one", "arithmetic") for n in times
    ]
    draw_line(ax, list(times), saved, quantity="ratio", variant="modelled", label="arithmetic, 2 layers of 96")
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    ax.set_xticks(list(times), [str(n) for n in times])
    ax.set_xlabel("text (tokens)")
    ax.legend()
    page.figure(
        "speedup",
        figure,
        caption="What a cache saves, by the length of the text: arithmetic, and time as medians of interleaved pairs "
        "with their intervals.",
        alt="Two ratios over the number of new tokens, on logarithmic axes: arithmetic without a cache over that with "
        "one, and time, the latter for two models.",
    )


def _saved(model: GPT, count: int) -> float:
    """Return the arithmetic of ``count`` tokens without a cache over that with one."""
    again, once = (sum(text_flops(model, count, cached).values()) for cached in (False, True))
    return again / once


def record_steps(page: Page, calls: Calls, steps: Sequence[ReadStep], ceilings: Ceilings) -> None:
    """Record where the time of a step goes, and steps beside what their bytes predict.

    Args:
        page: that records.
        calls: a step op by op and in one op, each beside its calls.
        steps: of three models, from small to large, each with none to all positions kept.
        ceilings: of this machine.
    """
    _record_calls(page, calls, ceilings)
    page.table(
        "steps",
        [
            {
                "model": f"{each.model}, {each.position:,} kept",
                "bytes": each.weights + each.cache,
                "level": each.level,
                "predicted": each.predicted,
                "step": each.step,
                "over": quotient(each.step, each.predicted, f"step of {each.model} over its prediction"),
            }
            for each in steps
        ],
        STEPS,
        caption="A step in one compiled operation: the bytes that it reads, the memory whose bandwidth they are held "
        "against, the time that one call and the bytes predict, and the time. In the last column 1 is a right "
        "prediction.",
    )
    by_model: dict[str, list[ReadStep]] = {}
    for each in steps:
        by_model.setdefault(each.model, []).append(each)
    smallest, middle, (first, *_, last) = by_model.values()
    _record_worked(page, middle[-1], ceilings)
    small = f"{smallest[-1].model}: step with all positions kept over that with none"
    page.number("smallest-grown", ratio(smallest[-1].step, smallest[0].step, small))
    predicted = quotient(smallest[-1].predicted, smallest[0].predicted, f"{small}, by one call and the bytes")
    page.number("smallest-grown-predicted", Modelled.by("one call, and the bytes at the bandwidth", predicted))
    for key, each in (("middle-over", middle[-1]), ("largest-over", last)):
        assert each.alone is not None
        page.number(key, ratio(each.step, each.alone, f"step of {each.model} over one product of as many bytes"))
    page.number("largest-grown", ratio(last.step, first.step, "step with all positions kept over that with none"))
    page.number(
        "largest-grown-predicted",
        Modelled(
            (last.weights + last.cache) / (first.weights + first.cache),
            "",
            "bytes of the step with all positions kept over those with none",
            "time that grows with the bytes",
        ),
    )
    memory = best_bandwidth(ceilings.levels[-1])
    page.number(
        "ridge-rows",
        quotient(
            ceilings.fp32_peak, memory, "rows at which arithmetic takes as long as reading float32 weights"
        ).scaled(2, "rows"),
    )


def _record_worked(page: Page, found: ReadStep, ceilings: Ceilings) -> None:
    """Record the lines of the calculation of one step that the page does by hand."""
    total = found.weights + found.cache
    slope = slope_at(total, ceilings)
    page.number("worked-bytes", total, unit="B", what=f"weights and kept positions that a step of {found.model} reads")
    page.word(
        "worked-level",
        found.level,
        because="by the ladder of this machine it is the nearest that holds {worked-bytes}, or the two between which "
        "the ladder is still falling there",
    )
    page.number("worked-bandwidth", slope.bandwidth)
    reading = slope.bandwidth.per(total, "s", f"those bytes at the bandwidth of {slope.of}")
    page.number("worked-reading", Modelled.by("the bytes, at the bandwidth", reading))
    page.number("worked-predicted", Modelled.by("one call, and the bytes at the bandwidth", found.predicted))
    page.number("worked-measured", found.step)


def _record_calls(page: Page, found: Calls, ceilings: Ceilings) -> None:
    """Record what a step takes besides arithmetic: the calls, and what is left of them in one op."""
    page.number("step-op-by-op", found.step)
    arithmetic = ceilings.fp32_peak.per(found.flops, "s", "a step's arithmetic at the peak")
    page.number("arithmetic-alone", arithmetic)
    slope = slope_at(found.nbytes, ceilings)
    page.number("bytes-alone", slope.bandwidth.per(found.nbytes, "s", f"a step's bytes at the bandwidth of {slope.of}"))
    page.number("calls-share", ratio(found.calls, found.step, "calls of a step over the step").scaled(1, "%"))
    page.number("one-call", found.one_call)
    page.number("step-fused", found.fused)
    page.compare("fused", compare_paired(found.step, found.fused, matters=0.05))


def record_prompt(page: Page, found: Prompt) -> None:
    """Record a prompt read whole, with a kept prefix, and a step."""
    total = found.kept + found.new
    page.compare("prefix", compare_paired(found.whole, found.rest, matters=0.1))
    per_token = found.whole.scaled(1 / total, "s", f"a token of a prompt of {total}")
    page.number("prompt-token", per_token)
    page.number("prompt-step", found.step)
    page.number("prompt-steps", ratio(found.whole, found.step, f"a prompt of {total} tokens over a step"))


def record_guesses(page: Page, found: FewRows, right: float) -> None:
    """Record what products of a few rows take beside those of one, and the gain if each guess is ``right`` so often."""
    what = f"time of all products with weights, of {found.rows} rows over one"
    one, few = found.packed
    page.number("library-rows", ratio(found.library[1], found.library[0], f"{what}, by NumPy"))
    page.number("packed-rows", ratio(few, one, f"{what}, weights packed"))
    written = sum(right**count for count in range(found.rows))
    what = f"time of one row over that of {found.rows}, weights packed, times {written:.3g} tokens; guesses are free"
    page.number(
        "guess-gain",
        Modelled.by("guesses that are right each as often, and free", ratio(one, few).scaled(written, "", what)),
    )


def record_memory(page: Page, gpt2: KVCache) -> None:
    """Record what caches hold: one of GPT-2's shape, as made, and those of OPT-13B by the formula."""
    page.number(
        "gpt2-bytes",
        gpt2.nbytes,
        unit="B",
        what="a cache of GPT-2's shape at 1024 positions, float32, as allocated",
    )
    layers, heads, size = OPT_SHAPE
    opt, all_weights = 2 * layers * heads * size * HALF, OPT_PARAMETERS * HALF
    page.number(
        "opt-limit",
        Modelled(
            A100 / (opt * OPT_LENGTH),
            "tokens/s",
            "tokens per second of OPT-13B that the caches of 2,048 positions alone allow on an A100",
            "the bytes, at the bandwidth of the data sheet",
        ),
    )
    rows = []
    for batch, shared in ((1, 1), (8, 1), (32, 1), (32, 5)):
        long = batch * opt * OPT_LENGTH / shared
        seconds = (all_weights + long) / A100
        rows.append(
            {
                "batch": f"{batch}, five heads share a key" if shared > 1 else str(batch),
                "short": Modelled(long * 512 / OPT_LENGTH / 1e9, "GB", "bytes of the caches", "arithmetic"),
                "long": Modelled(long / 1e9, "GB", "bytes of the caches", "arithmetic"),
                "all": Modelled((all_weights + long) / 1e9, "GB", "bytes of caches and weights", "arithmetic"),
                "step": Modelled(seconds, "s", "least time of a step", "the bytes, at the bandwidth of the data sheet"),
                "rate": Modelled(
                    batch / seconds,
                    "tokens/s",
                    "tokens of all sequences",
                    "the bytes, at the bandwidth of the data sheet",
                ),
            }
        )
    page.table(
        "opt",
        rows,
        OPT,
        caption="OPT-13B in numbers of two bytes on an A100: caches by sequences and length, and the least time of a "
        "step that reads them and the weights. Worked from the two formulas, not measured.",
    )


def record_batches(
    page: Page, batches: Sequence[int], steps: Sequence[Measurement], model: GPT, machine: Ceilings
) -> None:
    """Record the tokens a second that the ``model`` writes for so many sequences at a time, and the time of their step.

    Beside both stands what bytes predict.

    Args:
        page: that records.
        batches: numbers of sequences, from one on.
        steps: seconds of a step at position 255 of each, in turns.
        model: of this page.
        machine: its ceilings.
    """
    _, cached = step_bytes(model, KVCache(*cache_shape(model, 1)), 255)
    bounds = [predicted_step((batch - 1) * cached, steps[0], machine) for batch in batches]
    figure, (rate, wait) = subplots(rows=2, sharex=True, height=4.6)
    told = "one step, and the bytes of all caches"
    for found, variant, label in ((steps, "cached", "measured"), (bounds, "reference", told)):
        rates = [
            step.per(batch, "tokens/s", f"batch {batch}, {label}") for batch, step in zip(batches, found, strict=True)
        ]
        for ax, values, quantity in ((rate, rates, "throughput"), (wait, found, "time of a step")):
            shown = values if found is steps else [Modelled.by(told, one) for one in values]
            draw_line(ax, batches, shown, quantity=quantity, variant=variant, label=label)
    for ax in (rate, wait):
        ax.set_yscale("log")
    wait.set_xscale("log", base=2)
    wait.set_xticks(batches, [str(b) for b in batches])
    wait.set_xlabel("batch (sequences)")
    rate.legend()
    page.figure(
        "batches",
        figure,
        caption="Tokens per second at position 256 by the number of sequences that are written together, and the time "
        "that each of them waits for its token; dashed, what a step of one sequence and the bytes of all would allow.",
        alt="Throughput and time of a step over batch size from 1 to 64, measured and predicted.",
    )
    gain = ratio(steps[0], steps[-1], f"throughput of {batches[-1]} sequences over that of one")
    page.number("batch-gain", gain.scaled(batches[-1] / batches[0]))
    page.number("batch-wait", ratio(steps[-1], steps[0], f"step of {batches[-1]} sequences over that of one"))


def record_weights(
    page: Page, narrow: Sequence[Decoding], broad: Sequence[Decoding], call: Measurement, ceilings: Ceilings
) -> None:
    """Record steps in one op with weights of codes, float32 first, of a ``narrow`` and of a ``broad`` model.

    Args:
        page: that records.
        narrow, broad: the ways of each.
        call: seconds of a step without bytes to read.
        ceilings: of this machine.
    """
    compared = [
        compare_all(found[0].step, *(each.step for each in found[1:]), matters=0.05) for found in (narrow, broad)
    ]
    rows = []
    for name, found, gains in zip(("2 layers of 96", "4 layers of 256"), (narrow, broad), compared, strict=True):
        before = predicted_step(found[0].nbytes, call, ceilings)
        for each in found:
            after = predicted_step(each.nbytes, call, ceilings)
            plain = each is found[0]
            rows.append(
                {
                    "model": name,
                    "kept": each.name,
                    "bytes": each.nbytes,
                    "predicted": None if plain else quotient(before, after, f"predicted speedup, {name}, {each.name}"),
                    "gain": None if plain else gains[each.step.name].estimate,
                    "error": Counted(each.error, "%", "largest error of a logit over the largest"),
                }
            )
    page.table(
        "weights",
        rows,
        WEIGHTS,
        caption="A step at position 129 in one compiled operation: what it reads, the speedup that one call and these "
        "bytes predict, the speedup, and the largest error of a logit as a share of the largest logit.",
    )
    page.compare("wide-gain", compared[1][broad[1].step.name])
    page.number(
        "wide-error",
        Counted(
            broad[1].error,
            "%",
            "largest logit error of 8-bit weights, 4 layers of 256, as a share of the largest logit",
        ),
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
        Counted(error, "%", "largest difference of a logit with the cache of codes, relative to the largest logit"),
    )
    page.table(
        "codes",
        [
            {
                "cache": "float32",
                "bytes": plain.nbytes,
                "step": plain.step,
                "score": Counted(scores["float32"], "%", "share answered right"),
            },
            {
                "cache": "int8 codes",
                "bytes": coded.nbytes,
                "step": coded.step,
                "score": Counted(scores["int8"], "%", "share answered right"),
            },
        ],
        CODES,
        caption="A cache of float32 numbers and one of 8-bit codes: bytes and time of the model of this chapter, "
        "answers of the trained GPT.",
    )
    page.number(
        "code-bytes-ratio",
        Counted(plain.nbytes / coded.nbytes, "", "bytes of a float32 cache over those of one of codes, head size 24"),
    )
    page.compare("code-speed", compare_paired(plain.step, coded.step, matters=0.05))


def record_pytorch(page: Page, raced: Raced | Unmeasured) -> None:
    """Record what PyTorch takes over ours for the same text; where it is not here, why nothing is said of it."""
    if isinstance(raced, Unmeasured):
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
    twice = verdict_between(over_ours, low=_TWICE)
    doubt = twice.open_test
    why = f"but {why_undecided(doubt)}" if doubt is not None else f"where {_TWICE:g} would be enough"
    page.word(
        "pytorch-twice",
        twice.called(supported="yes", refuted="no"),
        because=f"the time of PyTorch over ours is {{pytorch-over-ours}}, {why}",
    )


def record_peaks(
    page: Page,
    sizes: Sequence[int],
    training: Sequence[int],
    forward: Sequence[int],
    compiled: Sequence[int],
    heads: int,
) -> None:
    """Record the bytes that attention holds over so many positions, in three ways, and the claim on the first.

    Args:
        page: that records.
        sizes: numbers of positions, each twice the one before.
        training: bytes in NumPy, with what a backward needs: all scores.
        forward: bytes in NumPy without it.
        compiled: bytes of the compiled kernel.
        heads: of the attention.
    """
    page.table(
        "peaks",
        [
            {
                "n": n,
                "training": Counted(t, "B", "peak memory"),
                "forward": Counted(f, "B", "peak memory"),
                "compiled": Counted(c, "B", "peak memory"),
            }
            for n, t, f, c in zip(sizes, training, forward, compiled, strict=True)
        ],
        PEAKS,
        caption="The most that attention of GPT-2's shape holds at a time beyond its input, its output included, "
        "by tracemalloc.",
    )
    for name, peaks in {"training": training, "forward": forward, "compiled": compiled}.items():
        page.number(
            f"peak-growth-{name}",
            Counted(
                peaks[-1] / peaks[-2], "", f"peak memory of {sizes[-1]} positions over that of {sizes[-2]}, {name}"
            ),
        )
    shares = [peak / (4 * heads * n * n) for n, peak in zip(sizes, training, strict=True)]
    page.number("peak-squares", Counted(shares[-1], "", "peak memory over that of one square of scores in each head"))
    page.claim(
        "attention-square-memory",
        statement="Attention that stores its scores takes memory that is quadratic in the length.",
        source="T. Dao et al., FlashAttention, 2022, section 2.2",
        source_url="https://arxiv.org/abs/2205.14135",
        quote="Standard attention implementations materialize the matrices S and P to HBM, which takes O(N²) memory.",
        counted=True,
        verdict=verdict_of_all(
            verdict_between(Counted(peak, "B", f"{n} positions"), low=4 * heads * n * n)
            for n, peak in zip(sizes, training, strict=True)
        ),
        evidence="Where all scores are kept, the peak is {peak-squares} of one square of scores for each head, and "
        "twice the length takes {peak-growth-training} the memory. The same result without stored scores takes "
        "{peak-growth-compiled} in the compiled kernel. The test asks for at least one square at every length.",
    )


def record_answers(page: Page, gpt2: KVCache, model: GPT, ceilings: Ceilings, hits: Mapping[str, float]) -> None:
    """Record the answers to the page's questions.

    Args:
        page: that records.
        gpt2: a cache of GPT-2's shape.
        model: the page's.
        ceilings: of this machine.
        hits: share of masks that were found kept over the "same" positions, and while a text is "growing".
    """
    page.number("hits-same", Counted(hits["same"], "%", "masks found kept in eight passes over 64 positions"))
    page.number(
        "hits-growing", Counted(hits["growing"], "%", "masks found kept while 64 tokens are generated without a cache")
    )
    page.number(
        "q-with-queries",
        Modelled(gpt2.nbytes * 3 // 2, "B", "a cache of GPT-2's shape that keeps queries too", "arithmetic"),
    )
    page.number(
        "q-repeated",
        Counted(
            1 - 1 / _saved(model, TEXT), "%", f"share of the arithmetic of {TEXT} uncached steps that a cache saves"
        ),
    )
    page.number(
        "q-equal",
        Modelled(
            12 * model.embed_dim**2 // (2 * model.embed_dim),
            "positions",
            "positions at which attention does as many FLOPs as the layers' products",
            "arithmetic",
        ),
    )
    memory = best_bandwidth(ceilings.levels[-1])
    page.number("q-seven", memory.scaled(1 / 7e9, "tokens/s", "tokens per second that read seven billion bytes each"))
    course = 2 * 12 * 8 * 12 * 2048 * 64 * 4
    page.number(
        "q-course",
        Modelled(
            course, "B", "a cache of 12 layers, 12 heads of 64, 2,048 positions and 8 sequences, float32", "arithmetic"
        ),
    )
    page.number("q-course-share", Modelled(course / 500e6, "", "that cache over the course's weights", "arithmetic"))
    weights = NUMBER * GPT2.parameters
    page.number(
        "q-phone",
        Modelled(
            (10**9 - weights) // gpt2.nbytes,
            "full texts",
            "caches of GPT-2's shape that fit beside its weights into a gigabyte, float32",
            "arithmetic",
        ),
    )
    page.number(
        "q-phone-rate",
        Modelled(
            (weights + gpt2.nbytes) / 0.1,
            "B/s",
            "bandwidth that reads GPT-2's weights and a full cache in a tenth of a second, float32",
            "arithmetic",
        ),
    )
    full = read_seconds(GPT2.step_bytes + gpt2.nbytes, ceilings)
    page.number(
        "gpt2-full-step",
        Modelled.by("the bytes, at the bandwidth", full.statistic("GPT-2's weights and a full cache, read once")),
    )
    for key, nbytes, kept in (("", GPT2.step_bytes, "float32"), ("-coded", GPT2.coded_bytes, "eight-bit codes")):
        page.number(
            f"gpt2-caches{key}",
            Modelled(
                nbytes // gpt2.nbytes + 1,
                "texts",
                f"full caches of GPT-2 that are more bytes than its weights in {kept}",
                "arithmetic",
            ),
        )


def record_course(page: Page, times: Times, some: Times) -> None:
    """Record what the course says of caches, beside what this page measured and counted.

    Args:
        page: that records, on which `record_speedups` has recorded the speedups.
        times: of the page's model, without and with a cache, by tokens.
        some: of the larger model, which gains more.
    """
    _claim_speedups(page, times, some)
    tokens, size = 100, 64
    computed = tokens * (tokens + 1) // 2
    page.number("course-repeated", computed - tokens, unit="1", what="keys of 100 steps that were computed before")
    page.claim(
        "course-redundant",
        statement="Without a cache, a text of 100 tokens computes 5,050 keys and values that it has computed before.",
        source=COURSE_MEMOIZATION,
        source_url=COURSE_MEMOIZATION_URL,
        quote="Total: 1 + 2 + 3 + ... + n = n(n+1)/2 … For a 100-token sequence, this means 5,050 redundant "
        "computations!",
        counted=True,
        verdict=verdict_between(Counted(computed - tokens, "1", "repeated"), low=5050, high=5050),
        evidence="The sum is that of all computations. Each of the 100 positions has to be computed once, so that "
        "{course-repeated} are redundant.",
    )
    page.number("course-products", Counted(computed / tokens, "", "keys computed for 100 tokens over those needed"))
    page.claim(
        "course-fifty",
        statement="At 100 tokens a cache cuts the computations of keys and values to a fiftieth.",
        source=COURSE_MEMOIZATION,
        source_url=COURSE_MEMOIZATION_URL,
        quote="For n=100, d_k=64: … Compute savings: 50x reduction in K,V computations",
        counted=True,
        verdict=verdict_between(Counted(2 * computed / tokens, "1", "twice the ratio"), low=2 * 50, high=2 * 50 + 1),
        evidence="n(n+1)/2 computations become n, which is {course-products}.",
    )
    pairs = sum(n * n for n in range(1, tokens + 1)) / computed
    page.number("course-pairs", Counted(pairs, "", "pairs of query and key of 100 tokens without a cache over with"))
    page.claim(
        "course-operations",
        statement="Writing 100 tokens takes about 170 times fewer operations with a cache.",
        source=COURSE_MEMOIZATION,
        source_url=COURSE_MEMOIZATION_URL,
        quote="100-token generation: ~170× fewer operations!",
        counted=True,
        verdict=verdict_between(Counted(max(pairs, computed / tokens), "1", "the larger"), low=165, high=175),
        evidence="Products with weights fall by {course-products} and attention by {course-pairs}, whatever the model: "
        "no mixture of the two reaches the number.",
    )
    hundred = KVCache(1, tokens, 1, 1, size).nbytes
    page.number(
        "hundred-bytes", hundred, unit="B", what="a cache of 100 positions of one head of 64, float32, as allocated"
    )
    page.claim(
        "course-cache-bytes",
        statement="For 100 positions and a head size of 64 the cache takes 6.4 KB a layer.",
        source=COURSE_MEMOIZATION,
        source_url=COURSE_MEMOIZATION_URL,
        quote="For n=100, d_k=64: Memory cost: 6.4 KB per layer",
        counted=True,
        verdict=verdict_between(Counted(hundred, "B", "a cache of 100 positions"), low=6350, high=6450),
        evidence="A cache of one layer with one such head held {hundred-bytes}. "
        "The sentence counts numbers instead of bytes, and keys without values.",
    )
    page.claim(
        "course-gpt2-bytes",
        statement="A full cache of GPT-2's shape takes about 37 MB.",
        source=COURSE_MEMOIZATION,
        source_url=COURSE_MEMOIZATION_URL,
        quote="Cache memory = batch_size × num_layers × num_heads × max_seq_len × head_dim × 4 bytes. For GPT-2 "
        "(12 layers, 12 heads, seq_len=1024, head_dim=64): ~37 MB per sequence",
        counted=True,
        verdict=verdict_between(
            Counted(KVCache(1, 1024, 12, 12, 64).nbytes, "B", "a full cache"), low=36.5e6, high=37.5 * 2**20
        ),
        evidence="The cache that was made holds {gpt2-bytes}: the formula counts keys without values.",
    )


def _claim_speedups(page: Page, times: Times, some: Times) -> None:
    """Record the claims on speedups, on the larger model, or for a length that only the other wrote."""
    tried = {n: some.get(n) or times[n] for n in (*COURSE_SPEEDUPS, *TYPICAL)}
    speedups = {n: ratio(*both, f"speedup at {n} tokens") for n, both in tried.items()}
    keys = {n: f"larger-speedup-{n}" if n in some else f"speedup-{n}" for n in tried}
    page.claim(
        "kv-cache-speedup",
        statement="A KV cache makes generation 7.5 times as fast at 10 tokens, 12.5 at 25, 16.0 at 50 and 16.7 at 100.",
        source=COURSE_MEMOIZATION,
        source_url=COURSE_MEMOIZATION_URL,
        quote="Expected Speedup by Sequence Length: 10 tokens … 7.5x; 25 tokens … 12.5x; 50 tokens … 16.0x; "
        "100 tokens … 16.7x",
        verdict=verdict_of_all(
            verdict_between(speedups[n], low=said, together=len(COURSE_SPEEDUPS)) for n, said in COURSE_SPEEDUPS.items()
        ),
        evidence=f"Each row at its length, on the larger of two models: {{{keys[10]}}} at 10 tokens and "
        f"{{{keys[100]}}} at 100. The table names no model, and the ratio depends on it.",
        numbers=[keys[25], keys[50]],
    )
    page.claim(
        "kv-cache-typical",
        statement="For texts of 50 to 200 tokens a KV cache makes generation at least 10 times as fast.",
        source=COURSE_MEMOIZATION,
        source_url=COURSE_MEMOIZATION_URL,
        quote="10x+ speedup for typical generation lengths (50-200 tokens)",
        verdict=verdict_between_all((speedups[n] for n in TYPICAL), low=10),
        evidence=f"It was {{{keys[50]}}} at 50 tokens on the larger model, and {{{keys[200]}}} at 200 tokens on the "
        "smaller one.",
        numbers=[keys[100]],
    )
