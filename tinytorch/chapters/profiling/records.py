"""The records of the page on profiling: numbers, words, tables, figures and claims, from the results of its studies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from tinytorch.chapters import calls, sources
from tinytorch.chapters.gpt2 import GPT2
from tinytorch.chapters.profiling.studies import (
    NORMAL_SPREAD,
    TRANSFORMER_WIDTH,
    Grown,
    StudiedModel,
    half_batch,
    seconds_by_law,
)
from tinytorch.perf.events.array_life import CATEGORIES, MemoryProfile
from tinytorch.perf.events.call_tree import call_tree
from tinytorch.perf.events.trace import trace_text
from tinytorch.perf.measuring import Counted, Derived, Measurement, Modelled, Statistic, quotient, ratio
from tinytorch.perf.measuring.judge import decided, largest, verdict_of_any, word_between
from tinytorch.perf.profiling import Profiler
from tinytorch.perf.profiling.breakdown import LayerRow, predicted_speedup
from tinytorch.report import Column, Page, color, format_number, verdict_between, verdict_between_all
from tinytorch.report.figures import draw_bars, draw_line, subplots
from tinytorch.report.flame_graph import flame_boxes

MODELS = (
    Column("model", "Model"),
    Column("parameters", "Parameters", "1"),
    Column("flops", "Arithmetic for one example", "FLOP"),
    Column("score", "Score", "%"),
    Column("what", "Measured as"),
)
CONVENTIONS = (
    Column("convention", "Convention"),
    Column("count", "The GPT, one sequence", "1"),
    Column("relative", "Relative to ours", ""),
)
LAYERS = (
    Column("path", "Module"),
    Column("total", "Time with what is inside"),
    Column("share", "Share of the run"),
    Column("flops", "Arithmetic", "FLOP"),
    Column("rate", "Rate in operations"),
)
PHASES = (
    Column("model", "Model"),
    Column("forward", "Forward and loss"),
    Column("backward", "Backward"),
    Column("update", "AdamW update"),
    Column("ratio", "Time, backward / forward"),
    Column("flops", "Arithmetic, backward / forward", ""),
)
MEMORY = (
    Column("model", "Model"),
    Column("parameters", "Parameters", "B"),
    Column("gradients", "Gradients", "B"),
    Column("optimizer", "AdamW state", "B"),
    Column("activations", "Activations", "B"),
    Column("doubled", "Activations, batch of 128", "B"),
)
GROWTH = (
    Column("doubling", "Positions"),
    Column("wide-formula", "Formula, 768 wide", modelled=True),
    Column("wide-counted", "Counted, 768 wide"),
    Column("narrow-formula", "Formula, 96 wide", modelled=True),
    Column("narrow-counted", "Counted, 96 wide"),
)
#: Lengths whose shares of attention the text names.
_NAMED_LENGTHS = (128, 512, 1024)
#: Shares of a block's time that would support the claims on attention in a transformer, and in BERT's training.
_ATTENTION, _IN_BERT = (0.68, 0.78), (0.75, 0.85)
#: Shares of memory, of time and of calls in the claims that name them.
_MOST_OF_MEMORY, _MOST_OF_TIME = 0.8, 0.8
#: Width of GPT-2's smallest model, which the course takes for its own analysis.
_WIDTH = 768
#: What the course says of how many numbers its comparison of linear layers and attention takes in.
_FEATURES = 1_000_000
#: How many times as expensive it says attention is.
_A_THOUSAND = 1000
#: How far a time may be from the settled one and pass for settled.
_STEADY = 0.2
_NO_LAW = "the time of a call was not larger than that of its examples here: a quieter machine would tell them apart"
#: What the worked case has to serve in a day, and the memory of its device.
CASE_SEQUENCES, CASE_MEMORY = 1_000_000, 2**30


def record_models(page: Page, studied: Mapping[str, StudiedModel]) -> None:
    """Record the parameters, arithmetic and score of each model under study."""
    rows = []
    for name, model in studied.items():
        rows.append(
            {
                "model": name.upper(),
                "parameters": model.parameters,
                "flops": model.flops,
                "score": Counted(model.score, "%", "score on the test set"),
                "what": f"{model.score_name}, {model.examples} examples",
            }
        )
        page.number(f"{name}-score", Counted(model.score, "%", f"{model.score_name} of {model.examples}"))
        page.number(f"{name}-parameters", model.parameters, unit="parameters", what=f"parameters of the {name.upper()}")
        page.number(
            f"{name}-flops",
            model.flops,
            unit="FLOP",
            what=f"contractions of one forward pass of the {name.upper()}",
        )
    page.table(
        "models",
        rows,
        MODELS,
        caption="The models under study, trained in this build and scored on data that they have not seen.",
    )


def record_first_calls(
    page: Page, calls: Sequence[Measurement], later: Measurement, slower: Sequence[Measurement], warmed: Measurement
) -> None:
    """Record the first calls of a fresh process, and the claims on them.

    Args:
        page: that records.
        calls: seconds of the first, second, ... call.
        later: seconds of the settled ones.
        slower: the first three calls, each over those.
        warmed: the calls that follow ten warm-ups, over those.
    """
    page.number("first-call", calls[0])
    page.number("settled-call", later)
    page.number("first-over-settled", slower[0])
    page.number("third-over-settled", slower[2])
    page.number("warmed-over-settled", warmed)
    figure, ax = subplots(height=2.8)
    draw_line(ax, range(1, len(calls) + 1), calls, quantity="time of the call", variant="mlp", label="MLP, one image")
    ax.set_xlabel("call in a fresh process (count)")
    ax.set_yscale("log")
    page.figure(
        "first-calls",
        figure,
        caption="The first thirty calls of a fresh process, one by one: median of the processes, 95 % interval.",
        alt="Line of the time of each of the first thirty forward passes of a fresh process, with error bars.",
    )
    page.claim(
        "first-runs-slower",
        statement="The first runs are slower than those that follow.",
        source=sources.COURSE_PROFILING_TEXT,
        source_url=sources.COURSE_PROFILING_TEXT_URL,
        quote="The first few runs are slower due to cold CPU caches, Python interpreter warmup, and NumPy "
        "initialization.",
        verdict=verdict_between_all(slower, low=1.0, strict=True),
        evidence="The first call of a fresh process took {first-over-settled} as long as calls 21 to 30, the third "
        "{third-over-settled}. Each of the first three must surely take longer.",
    )
    page.claim(
        "ten-warm-ups",
        statement="After ten warm-up runs the times have settled.",
        source=sources.COURSE_PROFILING_TEXT,
        source_url=sources.COURSE_PROFILING_TEXT_URL,
        quote="Running 10+ warmup iterations ensures the system reaches steady state before measurement begins.",
        verdict=verdict_between(warmed, 1 - _STEADY, 1 + _STEADY),
        evidence="Calls 11 to 20 took {warmed-over-settled} as long as calls 21 to 30 of the same process; within a "
        "fifth counts as settled. One model in fresh processes: another program may need more.",
    )


def record_scatter(page: Page, single: Measurement, steadier: Measurement) -> None:
    """Record how warm calls scatter, and the claim on the median.

    Args:
        page: that records.
        single: seconds of many calls, one by one.
        steadier: spread of means over spread of medians of the same calls.
    """
    page.number("single-median", calls.zoo_pass(single, "mlp", 1))
    page.number(
        "single-mean",
        Derived(
            single.mean, "s", "mean of the same calls", (single,), "an interval of a mean holds for normal noise alone"
        ),
    )
    page.number("single-p99", single.tail(99))
    page.number(
        "single-worst",
        Derived(single.maximum, "s", "slowest of the same calls", (single,), "nothing bounds the slowest call"),
    )
    page.number("mean-over-median-spread", steadier)
    what = "spread of means of normal noise over that of medians of the same samples"
    page.number("normal-spread", Modelled(NORMAL_SPREAD, "", what, "normal noise"))
    figure, ax = subplots(height=2.6)
    ordered = np.sort(single.samples) * 1e6
    ax.plot(ordered, np.arange(1, ordered.size + 1) / ordered.size * 100, color=color("mlp"))
    ax.set_xscale("log")
    ax.set_xlabel("time of one call (µs)")
    ax.set_ylabel("calls at most this long (%)")
    page.figure(
        "latency-distribution",
        figure,
        caption="How long calls of the same function on the same input took, as shares of all calls.",
        alt="Cumulative share of calls over the logarithm of their time.",
    )
    page.claim(
        "median-resists",
        statement="The median resists outliers, the mean does not.",
        source=sources.COURSE_PROFILING_TEXT,
        source_url=sources.COURSE_PROFILING_TEXT_URL,
        quote="Using median instead of mean makes the measurement robust against outliers.",
        verdict=verdict_between(steadier, low=1.0, strict=True),
        evidence="Means of twenty calls scattered {mean-over-median-spread} as much as medians of the same twenty. "
        "More than once as much supports the claim. Of normal noise, which has no outliers, it would be about "
        "{normal-spread}: the verdict is on noise as it was here.",
    )


def record_conventions(page: Page, counts: Mapping[str, int], flops: int) -> None:
    """Show ``counts`` of the same forward pass by convention, and each over ``flops``, this book's."""
    page.table(
        "conventions",
        [
            {"convention": name, "count": count, "relative": Counted(count / flops, "", "count over this book's")}
            for name, count in counts.items()
        ],
        CONVENTIONS,
        caption="One forward pass of the GPT, counted by the conventions in use. "
        "Papers that compare FLOPs compare these, too.",
    )


def block_growth(length: int, width: int) -> float:
    """Return by which factor the arithmetic of a transformer block grows when its ``length`` positions double."""
    return 2 * (6 * width + 2 * length) / (6 * width + length)


def record_growth(
    page: Page, lengths: Sequence[int], wide: Sequence[Mapping[str, int]], narrow: Sequence[Mapping[str, int]]
) -> None:
    """Show what the formula says of the growth of a block's arithmetic, beside the counts.

    Args:
        page: that records.
        lengths: positions, each twice those before.
        wide, narrow: FLOPs by op of a block 768 wide and of one 96 wide at these lengths.
    """
    rows = []
    for index, (before, after) in enumerate(pairwise(lengths)):
        row: dict[str, Any] = {"doubling": f"{before:,} to {after:,}"}
        for name, width, flops in (("wide", _WIDTH, wide), ("narrow", 96, narrow)):
            row[f"{name}-formula"] = Modelled(block_growth(before, width), "", "growth of a block", "arithmetic")
            grown = sum(flops[index + 1].values()) / sum(flops[index].values())
            row[f"{name}-counted"] = Counted(grown, "", "growth of a block's arithmetic")
        rows.append(row)
    page.table(
        "growth",
        rows,
        GROWTH,
        caption="By which factor a block's arithmetic grows when the sequence doubles: by the formula, and counted on "
        "the operations that ran.",
    )
    page.number("doubling-least", rows[0]["wide-counted"], what="growth of the count, 128 to 256 positions")
    page.number("doubling-most", rows[-1]["wide-counted"], what="growth of the count, 512 to 1,024 positions")


def record_attention_growth(page: Page, flops: Sequence[Mapping[str, int]]) -> None:
    """Record two claims on attention's arithmetic.

    On n positions of width d, attention does 2n/d times the arithmetic of a linear layer from d to d features.

    Args:
        page: that records.
        flops: of a block, by op, at lengths of which each is twice the one before.
    """
    growth = [after["self_attention"] / before["self_attention"] for before, after in pairwise(flops)]
    page.number("attention-doubling", Counted(min(growth), "", "growth of attention's count, smallest"))
    page.claim(
        "double-length",
        statement="Twice the sequence is four times the computation of attention.",
        source=sources.COURSE_PROFILING,
        source_url=sources.COURSE_PROFILING_README_URL,
        quote="Attention is O(n²): 2x sequence length = 4x computation",
        counted=True,
        verdict=decided(set(growth) == {4.0}),
        evidence="Counted on scores and weighted sums, each doubling multiplies attention by {attention-doubling}. "
        "A whole block, of which attention is a part, grows by {doubling-least} from 128 positions and by "
        "{doubling-most} from 512.",
    )
    positions = _FEATURES / _WIDTH
    page.number(
        "attention-over-linear",
        Counted(
            2 * positions / _WIDTH,
            "",
            "arithmetic of attention over that of one linear layer, for a million numbers, 768 at each position",
        ),
    )
    page.number(
        "thousand-positions",
        _A_THOUSAND * _WIDTH // 2,
        unit="positions",
        what="length from which attention does a thousand times",
    )
    page.claim(
        "attention-thousand",
        statement="Attention is a thousand times as expensive as linear layers.",
        source=sources.COURSE_PROFILING,
        source_url=sources.COURSE_PROFILING_CODE_URL,
        quote="FLOPs Required by Architecture (1M input features): Linear (MLP) 1B, Attention 1T. "
        "Attention is 1000x more expensive than linear layers!",
        counted=True,
        verdict=decided(2 * positions / _WIDTH >= _A_THOUSAND),
        evidence="On n positions of width d the ratio to one linear layer is 2n/d. A million input features at the "
        "width of the course's own analysis give {attention-over-linear}; a thousandfold takes {thousand-positions}.",
    )


#: Sets a module one step in under the one that it is in; a page collapses plain spaces.
_INDENT = "\u00a0\u00a0"


def _once(path: str, value: float, unit: str) -> Measurement:
    """Return what the one recording of the page's says of a module."""
    return Measurement(path or "outside of modules", (value,), unit)


def record_layers(page: Page, rows: Sequence[LayerRow]) -> None:
    """Show the modules of the GPT down to the parts of its blocks."""
    page.table(
        "gpt-layers",
        [
            {
                "path": _INDENT * row.depth + (row.path.split(".", 1)[-1] or "outside of modules"),
                "total": _once(row.path, (row.total_seconds or 0) + (row.between_seconds or 0), "s"),
                "share": None if row.share is None else _once(row.path, row.share, "%"),
                "flops": row.flops,
                "rate": _once(row.path, row.gflops_per_second * 1e9, "FLOP/s") if row.gflops_per_second else None,
            }
            for row in rows
            if row.depth <= 2
        ],
        LAYERS,
        caption="One recorded forward pass of the GPT on 64 sequences, by module. The time "
        "includes what passes between operations, the rate is that of the operations.",
    )


#: Share of the width below which the page's flame graph leaves a box out: less than two pixels of a desk's page.
_LEAST_BOX = 2e-3


def record_training(page: Page, recorded: Profiler, parts: Mapping[str, Measurement]) -> None:
    """Record how the time of a training loop is shared out, and show one recording as a flame graph with its files.

    Args:
        page: that records.
        recorded: one run.
        parts: of `studies.training_shares`, of several runs.
    """
    run = recorded.run
    for name, share in parts.items():
        page.number(f"fit-{name}", share)
    page.flames(
        "flames",
        flame_boxes(call_tree(run), least=_LEAST_BOX),
        caption="The recorded training loop of the MLP as a flame graph. A click or Enter zooms, Escape leaves, arrows "
        "walk, a slash searches; the files are for other tools.",
        alt="Flame graph: the run, in it the training loop, in that loading, the model, backward, the optimizer's step "
        "and what else takes time, each with the operations in it. The width of a box is its share of the time.",
        files={"fit.collapsed.txt": recorded.collapsed_stacks(), "fit.trace.json": trace_text(run)},
    )


def record_shares(
    page: Page, by_model: Mapping[str, Mapping[str, Measurement]], between: Mapping[int, Measurement]
) -> None:
    """Record the kinds of ops that take each model's time, and the time between ops.

    Args:
        page: that records.
        by_model: share of each kind of op in the time of a model's ops.
        between: share of the GPT's time that passes between ops, for 64 sequences and for one.
    """
    labels, values, variants = [], [], []
    for name, found in by_model.items():
        for kind, share in sorted(found.items(), key=lambda item: -item[1].median):
            if share.median > 0.01:
                labels.append(f"{name.upper()}: {kind}")
                values.append(share)
                variants.append(kind)
            page.number(f"{name}-{kind}-share", share)
    figure, ax = subplots(height=0.32 * len(labels) + 0.9)
    draw_bars(ax, labels, values, quantity="share of the time in operations", variants=variants)
    page.figure(
        "shares",
        figure,
        caption="Shares of the time that operations take in a forward pass, batch of 64.",
        alt="Bars of the share of each kind of operation for MLP, CNN and GPT, sorted within each model.",
    )
    page.number("between-64", between[64])
    page.number("between-1", between[1])
    for name, found in by_model.items():
        named = {kind: share for kind, share in found.items() if kind != "other"}
        first, second = sorted(named, key=lambda kind: -named[kind].median)[:2]
        page.word(
            f"{name}-largest",
            largest(named),
            because=f"of the kinds with a name, {first} takes {{{name}-{first}-share}} and {second} "
            f"{{{name}-{second}-share}}",
        )


def module_share(length: int, width: int) -> float:
    """Return the share of attention, with its four projections, in the arithmetic of a transformer block."""
    return (2 * width + length) / (6 * width + length)


def core_share(length: int, width: int) -> float:
    """Return the share of scores and weighted sums in the arithmetic of a transformer block."""
    return length / (6 * width + length)


def record_attention(page: Page, by_length: Mapping[int, Mapping[str, Measurement]]) -> None:
    """Record attention's shares of a block's time by length, beside those of its arithmetic.

    Args:
        page: that records.
        by_length: for each number of positions the shares of the product alone, "core", and of the "module".
    """
    figure, ax = subplots(height=3.0)
    quantity_shown = "share of the block's time"
    for part, variant, formula, label in (
        ("module", "linear", module_share, "module with its projections"),
        ("core", "attention", core_share, "scores and weighted sum"),
    ):
        counted = [Modelled(formula(n, _WIDTH), "%", f"share of {part}", "arithmetic") for n in by_length]
        found = [shares[part] for shares in by_length.values()]
        draw_line(ax, list(by_length), found, quantity=quantity_shown, variant=variant, label=f"{label}: time")
        draw_line(
            ax,
            list(by_length),
            counted,
            quantity=quantity_shown,
            variant=variant,
            label=f"{label}: arithmetic",
        )
    ax.set_xscale("log", base=2)
    ax.set_xticks(list(by_length), [str(n) for n in by_length])
    ax.set_ylim(0, 100)
    ax.set_xlabel("sequence length (positions)")
    ax.legend()
    page.figure(
        "attention-share",
        figure,
        caption="Attention's share of a block of GPT-2's size (768 wide, 12 heads) by the length of the sequence: "
        "measured in time, and dashed what its arithmetic predicts.",
        alt="Four lines over sequence length up to 1024: the measured share of the whole attention module and of the "
        "attention product, each with a dashed line of its share of the arithmetic.",
    )
    for n in _NAMED_LENGTHS:
        page.number(f"attention-core-{n}", by_length[n]["core"])
        page.number(f"attention-module-{n}", by_length[n]["module"])
    page.number(
        "attention-counted-512",
        Counted(
            module_share(512, _WIDTH),
            "%",
            "attention's share of a block's arithmetic at 512 positions, projections included",
        ),
    )


def record_attention_claims(
    page: Page, by_length: Mapping[int, Mapping[str, Measurement]], in_training: Measurement
) -> None:
    """Record what the course says of attention's share of time.

    Args:
        page: that records.
        by_length: see `record_attention`.
        in_training: share of the module in a training step of a block of BERT's size, at its longest input.
    """
    whole = [found["module"] for found in by_length.values()]
    allowed = " to ".join(str(format_number(end, "%")) for end in _ATTENTION)
    inside = [verdict_between(found, *_ATTENTION, together=len(whole)) for found in whole]
    verdict = verdict_of_any(inside)
    page.word(
        "attention-73-word",
        verdict,
        because=f"the test allows {allowed} at any length up to 1,024; at 512 it was {{attention-module-512}}",
        numbers=[f"attention-module-{n}" for n in _NAMED_LENGTHS],
    )
    page.claim(
        "attention-73",
        statement="Attention takes 73 % of a transformer's time.",
        source=sources.COURSE_PROFILING,
        source_url=sources.COURSE_PROFILING_README_URL,
        quote="Reveal the transformer bottleneck … Result: Attention consumes 73% of compute time!",
        verdict=verdict,
        evidence="The whole attention module, projections included, took {attention-module-128} of a block's time at "
        "128 positions and {attention-module-512} at 512. At 1,024 it took {attention-module-1024}. "
        f"The source names no length: the test allows {allowed} at any up to 1,024.",
    )
    page.number("attention-training", in_training)
    page.claim(
        "attention-in-bert",
        statement="Training BERT spends 80 % of its time in self-attention.",
        source=sources.COURSE_PROFILING_TEXT,
        source_url=sources.COURSE_PROFILING_TEXT_URL,
        quote="BERT training: 80% of time in self-attention.",
        verdict=verdict_between(in_training, *_IN_BERT),
        evidence="Forward and backward of one block of BERT-base's size, at the 512 positions that it takes at most: "
        "attention with its projections took {attention-training} of the time in operations. "
        f"The test allows {' to '.join(str(format_number(end, '%')) for end in _IN_BERT)}.",
    )


def record_attention_memory(page: Page, by_length: Mapping[int, float]) -> None:
    """Record attention's share of the memory of a training step of a block, by length, and the claim on it."""
    for length, share in by_length.items():
        page.number(
            f"attention-memory-{length}",
            Counted(share, "%", f"attention's share of a block's parameters and activations, {length} positions"),
        )
    page.claim(
        "attention-memory",
        statement="Attention takes 80 % of a model's memory or more.",
        source=sources.COURSE_PROFILING,
        source_url=sources.COURSE_PROFILING_CODE_URL,
        quote="MEMORY HOTSPOT: Attention Layer - Uses 80%+ of total memory",
        counted=True,
        verdict=decided(max(by_length.values()) >= _MOST_OF_MEMORY),
        evidence="Of the parameters and activations of a block of GPT-2's size, attention holds "
        "{attention-memory-128} at 128 positions and {attention-memory-1024} at the 1,024 that GPT-2 takes at most.",
        numbers=[f"attention-memory-{length}" for length in by_length],
    )


def record_busiest(page: Page, busiest: Mapping[str, Measurement]) -> None:
    """Record the share of each model's time that the busiest fifth of its calls take, and the claim on it."""
    for name, share in busiest.items():
        page.number(f"{name}-busiest", share)
    page.claim(
        "busiest-fifth",
        statement="A fifth of the code takes four fifths of the time.",
        source=sources.COURSE_PROFILING,
        source_url=sources.COURSE_PROFILING_README_URL,
        quote="Bottleneck Identification: Find the 20% of code using 80% of time",
        verdict=verdict_between_all(busiest.values(), low=_MOST_OF_TIME),
        evidence="The busiest fifth of the calls took {mlp-busiest} of the MLP's time in operations and "
        "{cnn-busiest} of the CNN's. Of the GPT's it took {gpt-busiest}. Four fifths in all three would support it.",
    )


def record_architectures(page: Page, grown: Mapping[int, Grown]) -> None:
    """Show what three architectures cost as their input grows, and record the claim on their order.

    Args:
        page: that records.
        grown: by the count of numbers in the input, each four times the one before.
    """
    counts = list(grown)
    last, before = grown[counts[-1]], grown[counts[-2]]
    names = {"mlp": "MLP", "cnn": "CNN", "transformer": "Transformer"}
    timed = {
        name: ratio(last.seconds[name], before.seconds[name], f"growth of the time, {label}")
        for name, label in names.items()
    }
    page.table(
        "architectures",
        [
            {
                "model": label,
                **{str(count): grown[count].seconds[name] for count in counts},
                "counted": Counted(last.flops[name] / before.flops[name], "", "growth of the arithmetic"),
                "timed": timed[name],
            }
            for name, label in names.items()
        ],
        [
            Column("model", "Architecture"),
            *(Column(str(count), f"{count:,} inputs") for count in counts),
            Column("counted", "Arithmetic, last step", ""),
            Column("timed", "Time, last step"),
        ],
        caption="A forward pass of three small models on one input, as the input grows fourfold twice. The last two "
        "columns say by which factor the last step multiplies arithmetic and time.",
    )
    page.number("transformer-growth", timed["transformer"])
    width, length = TRANSFORMER_WIDTH, counts[-2]
    page.number(
        "block-fourfold",
        Counted(
            4 * (6 * width + 4 * length) / (6 * width + length),
            "",
            f"growth of a block's arithmetic from {length} positions to four times as many, {width} wide, by formula",
        ),
    )
    orders = []
    for count in counts:
        for slower, faster in (("cnn", "mlp"), ("transformer", "cnn")):
            key = f"{slower}-over-{faster}-{count}"
            over = ratio(
                grown[count].seconds[slower],
                grown[count].seconds[faster],
                f"time of the {names[slower]} over the {names[faster]}'s, {count} numbers",
            )
            page.number(key, over)
            orders.append((key, over))
    page.claim(
        "architecture-order",
        statement="An MLP is the fastest, a CNN moderate, a transformer the slowest.",
        source=sources.COURSE_PROFILING,
        source_url=sources.COURSE_PROFILING_CODE_URL,
        quote="MLP (Linear): Fastest for small inputs … CNN (Convolutional): Moderate speed … "
        "Transformer (Attention): Slowest but most powerful",
        verdict=verdict_between_all([over for _, over in orders], low=1.0, strict=True),
        evidence=f"On {counts[0]} numbers the CNN took {{{orders[0][0]}}} as long as the MLP, the transformer "
        f"{{{orders[1][0]}}} as long as the CNN. On {counts[-1]:,} it was {{{orders[-2][0]}}} and {{{orders[-1][0]}}}. "
        "The order must be so at every size; the models are this page's own.",
        numbers=[key for key, _ in orders],
    )


def record_amdahl(
    page: Page, share: Measurement, faster: Measurement, predicted: Statistic, found: Measurement
) -> None:
    """Record what Amdahl's law predicts of a faster GELU, and what was found.

    Args:
        page: that records.
        share: of the typed GELU in the block's time.
        faster: its time over that of the framework's own.
        predicted: speedup of the block by the law.
        found: speedup of the block as measured.
    """
    page.number("gelu-share", share)
    page.number("gelu-faster", faster)
    page.number("amdahl-predicted", Modelled.by("Amdahl's law", predicted))
    limit = predicted_speedup(share, None, "Amdahl's limit for an operation that takes no time")
    page.number("amdahl-limit", Modelled.by("Amdahl's law", limit))
    page.number("amdahl-found", found)
    over = quotient(found, predicted, "speedup as measured over as predicted")
    page.number("amdahl-over", over)
    page.word(
        "amdahl-verdict",
        verdict_between(over, 1 / 1.1, 1.1).called(supported="they agree", refuted="they disagree"),
        because="the measurement is {amdahl-over} of the prediction; within a tenth counts as agreement",
    )


def record_phases(
    page: Page,
    steps: Mapping[str, Mapping[str, Measurement]],
    back: Mapping[str, Measurement],
    counted: Mapping[str, Mapping[str, Any]],
) -> None:
    """Record a training step phase by phase, and the claim on the backward pass.

    Args:
        page: that records.
        steps: seconds of "forward", "backward" and "update" of each model.
        back: time of the backward over that of the forward pass.
        counted: "forward_flops" and "backward_flops" of each model.
    """
    rows = []
    for name, times in back.items():
        flop_ratio = Counted(
            counted[name]["backward_flops"] / counted[name]["forward_flops"],
            "",
            f"contractions of the backward over those of the forward pass, {name.upper()}",
        )
        page.number(f"{name}-back", times)
        page.number(f"{name}-back-flops", flop_ratio)
        rows.append({"model": name.upper(), **steps[name], "ratio": times, "flops": flop_ratio})
    page.table("phases", rows, PHASES, caption="A training step on a batch of 64, phase by phase.")
    page.claim(
        "backward-twice",
        statement="The backward pass of a language model does twice the arithmetic of its forward pass.",
        source="J. Kaplan et al., Scaling Laws for Neural Language Models, 2020, section 2.1",
        source_url="https://arxiv.org/abs/2001.08361",
        quote="Accounting for the backwards pass (approximately twice the compute as the forwards pass)",
        counted=True,
        verdict=decided(1.9 <= counted["gpt"]["backward_flops"] / counted["gpt"]["forward_flops"] <= 2.1),
        evidence="Counted on the operations of the GPT the ratio is {gpt-back-flops}; within a twentieth would support "
        "it. The source speaks of compute, not of time.",
    )


def record_memory(
    page: Page, memory: Mapping[str, MemoryProfile], doubled: Mapping[str, MemoryProfile], hidden_bytes: int
) -> None:
    """Record the memory of a training step of each model, a figure of the GPT's, and two claims.

    Args:
        page: that records.
        memory: of a step on a batch of 64, by model.
        doubled: of a step on twice the batch.
        hidden_bytes: what the hidden layers of the MLP keep for 64 examples, worked out by hand.
    """
    rows, growth = [], {}
    for name, found in memory.items():
        kept = {what: found.highest[what] for what in ("parameters", "gradients", "optimizer", "activations")}
        rows.append({"model": name.upper(), **kept, "doubled": doubled[name].highest["activations"]})
        growth[name] = doubled[name].highest["activations"] / kept["activations"]
        page.number(
            f"{name}-activation-memory",
            Counted(
                kept["activations"] / sum(kept.values()),
                "%",
                "activations saved for backward, of parameters, gradients, optimizer state and activations of the "
                f"{name.upper()}",
            ),
        )
        page.number(f"{name}-gradient-bytes", kept["gradients"], unit="B", what=f"gradients of the {name.upper()}")
        page.number(f"{name}-parameter-bytes", kept["parameters"], unit="B", what=f"parameters of the {name.upper()}")
        page.number(
            f"{name}-doubled", Counted(growth[name], "", f"activations for 128 examples over 64, {name.upper()}")
        )
    page.number("hidden-bytes", hidden_bytes, unit="B", what="hidden layers of the MLP, 64 examples, by hand")
    page.number(
        "mlp-activation-bytes",
        memory["mlp"].highest["activations"],
        unit="B",
        what="activations of the MLP, 64 examples, as the profiler followed them",
    )
    page.table(
        "memory",
        rows,
        MEMORY,
        caption="Memory of one training step on a batch of 64: the most that each kind held. The last column is the "
        "activations of a batch twice as large.",
    )
    equal = all(found.highest["gradients"] == found.highest["parameters"] for found in memory.values())
    page.claim(
        "gradients-equal-parameters",
        statement="Gradients take as much memory as parameters.",
        source=sources.COURSE_PROFILING_TEXT,
        source_url=sources.COURSE_PROFILING_TEXT_URL,
        quote="Gradient memory matches parameter memory exactly. Every parameter needs a gradient during training",
        counted=True,
        verdict=decided(equal),
        evidence="The MLP has {mlp-gradient-bytes} of gradients for {mlp-parameter-bytes} of parameters. "
        "The CNN has {cnn-gradient-bytes} for {cnn-parameter-bytes}. "
        "The GPT has {gpt-gradient-bytes} for {gpt-parameter-bytes}.",
    )
    page.claim(
        "doubled-batch",
        statement="Twice the batch takes twice the memory for activations.",
        source=sources.COURSE_PROFILING_TEXT,
        source_url=sources.COURSE_PROFILING_TEXT_URL,
        quote="Activation memory scales with batch size. Doubling the batch doubles activation memory.",
        counted=True,
        verdict=decided(all(1.98 <= times <= 2.02 for times in growth.values())),
        evidence="From 64 to 128 examples the activations grew by {mlp-doubled} in the MLP and by {cnn-doubled} in "
        "the CNN. In the GPT they grew by {gpt-doubled}; within a hundredth counts as twice.",
    )
    page.figure(
        "memory-timeline",
        _memory_timeline(memory["gpt"]),
        caption="A training step of the GPT: activations pile up on the way forward and are given back on the way "
        "back.",
        alt="Stacked areas over the operations of a training step: parameters and optimizer state are level, "
        "activations rise to the middle and fall to the end.",
    )


def _memory_timeline(found: MemoryProfile) -> Figure:
    """Return stacked areas of what is alive after each op, by category."""
    figure, ax = subplots(height=2.8)
    live = np.array([step.live for step in found.steps]) / 2**20
    below = np.zeros(len(live))
    order = ("parameters", "optimizer", "gradients", "activations")
    looks = ("parameters", "optimizer-state", "gradients", "activations")
    for category, variant in zip(order, looks, strict=True):
        layer = live[:, CATEGORIES.index(category)]
        ax.fill_between(range(len(live)), below, below + layer, color=color(variant), label=category, linewidth=0)
        below = below + layer
    ax.set_xlabel("operation of the step (count)")
    ax.set_ylabel("memory (MiB)")
    ax.set_ylim(0, 1.05 * float(below.max()))
    ax.legend()
    return figure


def record_throughput(page: Page, seconds: Mapping[int, Mapping[str, Measurement]]) -> None:
    """Record what ``seconds`` of a call, by batch and by model, make of throughput, and what two of them predict.

    The smallest batch and the middle one give the two parts of a call's time: one that each call costs, one that each
    example costs. Where noise leaves nothing of the former, the law is left out.
    """
    figure, ax = subplots(height=3.2)
    batches = list(seconds)
    few, more, many = batches[0], batches[len(batches) // 2], batches[-1]
    for name in seconds[few]:
        rates = [seconds[batch][name].per(batch, "items/s") for batch in batches]
        draw_line(ax, batches, rates, quantity="throughput", variant=name, label=name.upper())
        page.number(f"{name}-rate-one", rates[0])
        page.number(f"{name}-rate-largest", rates[-1])
        two = (few, seconds[few][name]), (more, seconds[more][name])
        half, last = half_batch(*two), seconds_by_law(*two, many)
        if half is None or last is None:
            page.absent(f"{name}-half-batch", f"{name}-law", reason=_NO_LAW)
            continue
        each = (seconds[more][name].median - seconds[few][name].median) / (more - few)
        call, by = seconds[few][name].median - few * each, "the law of two parts"
        law = [Modelled(batch / (call + batch * each), "items/s", "throughput", by) for batch in batches]
        draw_line(ax, batches, law, quantity="throughput", variant=name, label=f"{name.upper()}, law")
        page.number(
            f"{name}-half-batch",
            Modelled.by(
                "the law of two parts",
                half,
                f"batch at which the {name.upper()} reaches half of its limit, from the times of {few} and {more}",
            ),
        )
        page.number(
            f"{name}-law",
            Modelled.by(
                "the law of two parts",
                last.per(many, "items/s"),
                f"throughput of the {name.upper()} in a batch of {many}, from the times of {few} and {more}",
            ),
        )
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    ax.set_xticks(batches, [str(b) for b in batches])
    ax.set_xlabel("batch (examples)")
    ax.legend()
    page.figure(
        "throughput",
        figure,
        caption=f"Throughput of the three models by batch; dashed what the law of two parts says, its parts taken from "
        f"batches of {few} and {more}.",
        alt=f"Three lines of measured throughput over batch size from {few} to {many}, one for each model, and a "
        "dashed line of the predicted one beside each.",
    )


def record_decision(
    page: Page,
    forward: Mapping[str, Any],
    peaks: Mapping[int, int],
    seconds: Mapping[int, Mapping[str, Measurement]],
) -> None:
    """Record the worked case: from a profile of the GPT to a verdict, the batch that fits, the wait and the bill.

    Args:
        page: that records.
        forward: what `Profiler.profile_forward_pass` says of it in a batch of 64, whose latency gives the bill.
        peaks: most bytes of a forward pass by batch, of which the first two predict the third.
        seconds: of a pass by batch and by model; a batch of 256 gives the wait.
    """
    (small, low), (middle, high), (large, most) = peaks.items()
    each = (high - low) / (middle - small)
    standing = low - small * each
    page.number("case-latency", forward["latency"])
    page.word(
        "case-bound",
        forward["verdict"].said,
        because=forward["verdict"].because,
        numbers=["case-latency"],
    )
    page.number("case-each", Counted(each, "B", f"memory for each sequence, from batches of {small} and {middle}"))
    page.number(
        "case-predicted",
        Modelled(
            standing + large * each,
            "B",
            f"memory of a batch of {large}, predicted from {small} and {middle}",
            "memory that grows with the batch",
        ),
    )
    page.number("case-peak", Counted(float(most), "B", f"memory of a batch of {large}, as it was"))
    fits = int((CASE_MEMORY - standing) // each)
    page.number(
        "case-fits",
        Modelled(
            fits, "sequences", "largest batch that fits into a device's memory", "memory that grows with the batch"
        ),
    )
    bill = forward["latency"].scaled(CASE_SEQUENCES / 64, name="time of one core for a million sequences")
    page.number("case-bill", bill)
    page.number("case-wait", seconds[256]["gpt"])


def record_answers(
    page: Page,
    studied: Mapping[str, StudiedModel],
    shares: Mapping[str, Measurement],
    single: Measurement,
    seconds: Mapping[str, Measurement],
) -> None:
    """Record the answers to the page's questions.

    Args:
        page: that records.
        studied: the models under study.
        shares: of each kind of op in the time of the GPT's.
        single: seconds of warm calls, one by one.
        seconds: of a forward pass of each model in a batch of 64, taken in turns.
    """
    limit = predicted_speedup(shares["attention"], None, "Amdahl's limit for attention in the GPT")
    page.number("q-attention-limit", Modelled.by("Amdahl's law", limit))
    ffn = 12 * 2 * 4 * _WIDTH * _WIDTH + 12 * 5 * _WIDTH
    page.number("q-ffn", ffn, unit="parameters", what="twelve feed-forward networks, 768 to 3,072 and back")
    page.number("q-ffn-bytes", 4 * ffn, unit="B", what="those parameters in float32")
    page.number("q-ffn-trained", 16 * ffn, unit="B", what="with gradients and the two moments of Adam")
    page.number("gpt2-parameters", GPT2.parameters, unit="parameters", what="parameters of GPT-2 small, by its formula")
    in_blocks = GPT2.layers * GPT2.block_parameters / GPT2.parameters
    page.number("gpt2-in-blocks", Counted(in_blocks, "%", "share of GPT-2's parameters that its blocks hold"))
    page.number("gpt2-trained", GPT2.training_bytes, unit="B", what="GPT-2's parameters, gradients and Adam's moments")
    page.number(
        "q-tail",
        Derived(
            single.percentile(99) / single.median,
            "",
            "99th percentile over median of warm calls",
            (single,),
            "both are of the same samples",
        ),
    )
    page.number("q-macs", studied["gpt"].flops // 2, unit="MAC", what="multiply-accumulates of the GPT, one sequence")
    flops = studied["cnn"].flops / studied["mlp"].flops
    times = ratio(seconds["cnn"], seconds["mlp"], "time of the CNN over the MLP's, batch of 64")
    page.number("q-cnn-flops", Counted(flops, "", "arithmetic of the CNN over the MLP's"))
    page.number("q-cnn-time", times)
    per_flop = times.scaled(1 / flops, name="time of the CNN for each FLOP over the MLP's")
    page.number("q-cnn-per-flop", per_flop)
    page.word(
        "q-cnn-proportion",
        word_between(
            per_flop,
            {
                "in proportion": (1 / 1.5, 1.5),
                "more than in proportion": (1.5, None),
                "less than in proportion": (None, 1 / 1.5),
            },
        ),
        because="a FLOP of the CNN takes {q-cnn-per-flop} as long as one of the MLP; "
        "within a factor of 1.5 counts as proportion",
    )
