"""The records of the page on profiling: numbers, words, tables, figures and claims, from the results of its studies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from tinytorch.chapters.profiling.studies import StudiedModel
from tinytorch.chapters.sources import COURSE_PROFILING, COURSE_PROFILING_URL
from tinytorch.perf.events.array_life import CATEGORIES, MemoryProfile
from tinytorch.perf.measuring import Measurement
from tinytorch.perf.profiling.breakdown import LayerRow
from tinytorch.report import Column, Page, bars, color, format_number, line, subplots, verdict_between, verdict_of_all

MODELS = (
    Column("model", "Model"),
    Column("parameters", "Parameters", "1"),
    Column("flops", "Arithmetic for one example", "FLOP"),
    Column("score", "Score", "%"),
    Column("what", "which is the"),
)
CONVENTIONS = (
    Column("convention", "Convention"),
    Column("count", "The GPT, one sequence", "1"),
    Column("relative", "Relative to ours", ""),
)
LAYERS = (
    Column("path", "Module"),
    Column("total", "Time with what is inside", "s"),
    Column("share", "Share of the run", "%"),
    Column("flops", "Arithmetic", "FLOP"),
    Column("rate", "Rate", "FLOP/s"),
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
    Column("temporary", "Largest temporary", "B"),
    Column("peak", "Peak of the step", "B"),
)
#: Lengths whose shares of attention the text names.
_NAMED_LENGTHS = (128, 512, 1024)
#: Shares of a block's time that would support the claim on attention.
_ATTENTION_LOW, _ATTENTION_HIGH = 0.68, 0.78


def record_models(page: Page, studied: Mapping[str, StudiedModel]) -> None:
    """Record the parameters, arithmetic and score of each model under study."""
    rows = []
    for name, model in studied.items():
        rows.append(
            {
                "model": name.upper(),
                "parameters": model.parameters,
                "flops": model.flops,
                "score": model.score,
                "what": f"{model.score_name}, {model.examples} examples",
            }
        )
        page.number(f"{name}-score", model.score, unit="%", what=f"{model.score_name} of {model.examples}")
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


def record_first_calls(page: Page, calls: Sequence[Measurement], later: Measurement, slower: Measurement) -> None:
    """Record the first calls of a fresh process, and the claim on them.

    Args:
        page: that records.
        calls: seconds of the first, second, ... call.
        later: seconds of the settled ones.
        slower: the first call over those.
    """
    page.number("first-call", calls[0])
    page.number("settled-call", later)
    page.number("first-over-settled", slower)
    figure, ax = subplots(height=2.8)
    line(ax, range(1, len(calls) + 1), calls, quantity="time of the call", variant="mlp", label="MLP, one image")
    ax.set_xlabel("call in a fresh process (count)")
    ax.set_yscale("log")
    page.figure(
        "first-calls",
        figure,
        caption="The first thirty calls of a fresh process, one by one: median of nine processes, 95 % interval.",
        alt="Line of the time of each of the first thirty forward passes of a fresh process, with error bars.",
    )
    page.claim(
        "first-runs-slower",
        statement="The first runs are slower than those that follow.",
        source=COURSE_PROFILING,
        source_url=COURSE_PROFILING_URL,
        verdict=verdict_between(slower, low=1.1),
        evidence="The first call of a fresh process took {first-call}, calls 21 to 30 took {settled-call}: "
        "{first-over-settled} as long.",
    )


def record_scatter(page: Page, single: Measurement, steadier: Measurement) -> None:
    """Record how warm calls scatter, and the claim on the median.

    Args:
        page: that records.
        single: seconds of many calls, one by one.
        steadier: spread of means over spread of medians of the same calls.
    """
    page.number("single-median", single)
    page.number("single-mean", single.mean, unit="s", what="mean of the same calls")
    page.number("single-p99", single.percentile(99), unit="s", what="99th percentile of the same calls")
    page.number("single-worst", single.maximum, unit="s", what="slowest of the same calls")
    page.number("mean-over-median-spread", steadier)
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
        source="T. Hoefler and R. Belli, Scientific Benchmarking of Parallel Computing Systems, SC 2015",
        source_url="https://doi.org/10.1145/2807591.2807644",
        verdict=verdict_between(steadier, low=1.0),
        evidence="Means of twenty calls scattered {mean-over-median-spread} as much as medians of the same twenty.",
    )


def record_conventions(page: Page, counts: Mapping[str, int], flops: int) -> None:
    """Show ``counts`` of the same forward pass by convention, and each over ``flops``, this book's."""
    page.table(
        "conventions",
        [{"convention": name, "count": count, "relative": count / flops} for name, count in counts.items()],
        CONVENTIONS,
        caption="One forward pass of the GPT, counted by the conventions in use. "
        "Papers that compare FLOPs compare these, too.",
    )


def record_growth(page: Page, growth: Sequence[float]) -> None:
    """Record the ``growth`` of a block's arithmetic with each doubling of the sequence, and the claim on it."""
    page.number("doubling-least", min(growth), unit="", what="growth of the count per doubling, smallest")
    page.number("doubling-most", max(growth), unit="", what="growth of the count per doubling, largest")
    page.claim(
        "double-length",
        statement="Twice the sequence is four times the computation.",
        source=COURSE_PROFILING,
        source_url=COURSE_PROFILING_URL,
        verdict="supported" if min(growth) > 3.8 else "refuted",
        evidence="For a block of GPT-2's size, doublings from 128 to 1,024 positions multiplied the count by "
        "{doubling-least} to {doubling-most}.",
    )


def record_layers(page: Page, rows: Sequence[LayerRow]) -> None:
    """Show the modules of the GPT down to the parts of its blocks."""
    page.table(
        "gpt-layers",
        [
            {
                "path": "  " * row.depth + (row.path.split(".", 1)[-1]),
                "total": row.total_seconds,
                "share": row.share,
                "flops": row.flops,
                "rate": (row.gflops_per_second or 0) * 1e9 or None,
            }
            for row in rows
            if row.depth <= 2
        ],
        LAYERS,
        caption="One recorded forward pass of the GPT on 64 sequences, by module. "
        "One run: see the figure below for the scatter.",
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
    bars(ax, labels, values, quantity="share of the time in operations", variants=variants)
    page.figure(
        "shares",
        figure,
        caption="Shares of the time that operations take in a forward pass, batch of 64.",
        alt="Bars of the share of each kind of operation for MLP, CNN and GPT, sorted within each model.",
    )
    page.number("between-64", between[64])
    page.number("between-1", between[1])
    for name, found in by_model.items():
        kind = max((kind for kind in found if kind != "other"), key=lambda kind: found[kind].median)
        page.word(
            f"{name}-largest", kind, because=f"its share is {{{name}-{kind}-share}}, the largest of the kinds shown"
        )


def record_attention(page: Page, by_length: Mapping[int, Mapping[str, Measurement]]) -> None:
    """Record attention's shares of a block's time by length, and the claim on them.

    Args:
        page: that records.
        by_length: for each number of positions the shares of the product alone, "core", and of the "module".
    """
    figure, ax = subplots(height=3.0)
    core = [found["core"] for found in by_length.values()]
    whole = [found["module"] for found in by_length.values()]
    quantity = "share of the block's time"
    line(ax, list(by_length), whole, quantity=quantity, variant="linear", label="whole module, with its projections")
    line(ax, list(by_length), core, quantity=quantity, variant="attention", label="scores, softmax and weighted sum")
    ax.set_xscale("log", base=2)
    ax.set_xticks(list(by_length), [str(n) for n in by_length])
    ax.set_ylim(0, 100)
    ax.set_xlabel("sequence length (positions)")
    ax.legend()
    page.figure(
        "attention-share",
        figure,
        caption="Attention's share of a block of GPT-2's size (768 wide, 12 heads) by the length of the sequence: "
        "the product alone, and the module with its projections.",
        alt="Two lines over sequence length from 32 to 1024: the share of the whole attention module, "
        "and below it that of the attention product itself.",
    )
    for n in _NAMED_LENGTHS:
        page.number(f"attention-core-{n}", by_length[n]["core"])
        page.number(f"attention-module-{n}", by_length[n]["module"])
    allowed = f"{format_number(_ATTENTION_LOW, '%')} to {format_number(_ATTENTION_HIGH, '%')}"
    inside = [verdict_between(found, _ATTENTION_LOW, _ATTENTION_HIGH) for found in whole]
    verdict = "supported" if "supported" in inside else "refuted" if set(inside) == {"refuted"} else "cannot tell here"
    page.word(
        "attention-73-word",
        verdict,
        because=f"the test allows {allowed} at any length from 32 to 1,024; at 512 it was {{attention-module-512}}",
    )
    page.claim(
        "attention-73",
        statement="Attention takes 73 % of a transformer's time.",
        source=COURSE_PROFILING,
        source_url=COURSE_PROFILING_URL,
        verdict=verdict,
        evidence="The whole attention module, projections included, took {attention-module-128} of a block's time at "
        "128 positions, {attention-module-512} at 512 and {attention-module-1024} at 1,024. "
        f"The test allows {allowed} at any length up to 1,024.",
    )


def record_amdahl(page: Page, share: Measurement, faster: Measurement, predicted: float, found: Measurement) -> None:
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
    page.number(
        "amdahl-predicted",
        predicted,
        unit="",
        what="Amdahl's law from the share and the operation's speedup",
        modelled=True,
    )
    page.number(
        "amdahl-limit",
        1 / (1 - share.median),
        unit="",
        what="Amdahl's limit for an operation that takes no time",
        modelled=True,
    )
    page.number("amdahl-found", found)
    off = abs(found.median / predicted - 1)
    page.number("amdahl-error", off, unit="%", what="relative difference of prediction and measurement")
    page.word(
        "amdahl-verdict",
        "agree" if off < 0.1 else "disagree",
        because="prediction and measurement differ by {amdahl-error}; within a tenth counts as agreement",
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
    for name, ratio in back.items():
        flop_ratio = counted[name]["backward_flops"] / counted[name]["forward_flops"]
        page.number(f"{name}-back", ratio)
        page.number(
            f"{name}-back-flops",
            flop_ratio,
            unit="",
            what=f"contractions of the backward over those of the forward pass, {name.upper()}",
        )
        rows.append({"model": name.upper(), **steps[name], "ratio": ratio, "flops": flop_ratio})
    page.table("phases", rows, PHASES, caption="A training step on a batch of 64, phase by phase.")
    page.claim(
        "backward-twice",
        statement="The backward pass costs twice the forward pass.",
        source="J. Kaplan et al., Scaling Laws for Neural Language Models, 2020, section 2.1",
        source_url="https://arxiv.org/abs/2001.08361",
        verdict=verdict_of_all([verdict_between(ratio, 1.8, 2.2) for ratio in back.values()]),
        evidence="In time the ratio is {mlp-back} for the MLP, {cnn-back} for the CNN and {gpt-back} for the GPT; "
        "in arithmetic {mlp-back-flops}, {cnn-back-flops} and {gpt-back-flops}. The test allows 1.8 to 2.2 in time.",
    )


def record_memory(page: Page, memory: Mapping[str, MemoryProfile]) -> None:
    """Record the memory of a training step of each model, a figure of the GPT's, and two claims."""
    rows, verdicts = [], []
    for name, found in memory.items():
        kept = {what: found.highest[what] for what in ("parameters", "gradients", "optimizer", "activations")}
        # The peak holds Python's own objects, which are not the same in each run.
        rows.append({"model": name.upper(), **kept, "temporary": found.temporary, "peak": float(found.peak)})
        share = kept["activations"] / sum(kept.values())
        verdicts.append("supported" if share > 0.5 else "refuted")
        page.number(
            f"{name}-activation-memory",
            share,
            unit="%",
            what="activations saved for backward, of parameters, gradients, optimizer state and activations of the "
            f"{name.upper()}",
        )
        page.number(f"{name}-gradient-bytes", kept["gradients"], unit="B", what=f"gradients of the {name.upper()}")
        page.number(f"{name}-parameter-bytes", kept["parameters"], unit="B", what=f"parameters of the {name.upper()}")
    page.table(
        "memory",
        rows,
        MEMORY,
        caption="Memory of one training step on a batch of 64. "
        "Columns are the most that each held; the peak is what stood at one moment.",
    )
    equal = all(found.highest["gradients"] == found.highest["parameters"] for found in memory.values())
    page.claim(
        "activations-dominate",
        statement="Activations dominate the memory of training.",
        source="T. Chen et al., Training Deep Nets with Sublinear Memory Cost, 2016, of deep networks",
        source_url="https://arxiv.org/abs/1604.06174",
        verdict=verdict_of_all(verdicts),
        evidence="At a batch of 64 they are {mlp-activation-memory} of the MLP's memory, {cnn-activation-memory} of "
        "the CNN's and {gpt-activation-memory} of the GPT's; more than half in all three would support it.",
    )
    page.claim(
        "gradients-equal-parameters",
        statement="Gradients take as much memory as parameters.",
        source="S. Rajbhandari et al., ZeRO: Memory Optimizations Toward Training Trillion Parameter Models, 2020, "
        "section 3.1",
        source_url="https://arxiv.org/abs/1910.02054",
        verdict="supported" if equal else "refuted",
        evidence="MLP: {mlp-gradient-bytes} for {mlp-parameter-bytes}; CNN: {cnn-gradient-bytes} for "
        "{cnn-parameter-bytes}; GPT: {gpt-gradient-bytes} for {gpt-parameter-bytes}.",
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
    ax.legend(loc="upper right")
    return figure


def record_throughput(
    page: Page,
    batches: Sequence[int],
    latency: Mapping[str, Sequence[Measurement]],
    rate: Mapping[str, Sequence[Measurement]],
) -> None:
    """Record the ``latency`` of a call and the ``rate`` of examples of each model at each of the ``batches``."""
    figure, ax = subplots(height=3.0)
    for name, values in rate.items():
        line(ax, batches, values, quantity="throughput", variant=name, label=name.upper())
        page.number(f"{name}-one", latency[name][0])
        page.number(f"{name}-rate-one", values[0])
        page.number(f"{name}-rate-most", max(values, key=lambda m: m.median))
        page.number(
            f"{name}-best-batch",
            batches[int(np.argmax([m.median for m in values]))],
            unit="1",
            what="batch with the highest throughput measured",
            derived=True,
        )
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    ax.set_xticks(batches, [str(b) for b in batches])
    ax.set_xlabel("batch (examples)")
    ax.legend()
    page.figure(
        "throughput",
        figure,
        caption="Throughput of the three models by batch: median with its 95 % interval.",
        alt="Three lines of throughput over batch size from 1 to 256, one for each model.",
    )


def record_answers(
    page: Page,
    studied: Mapping[str, StudiedModel],
    shares: Mapping[str, Measurement],
    single: Measurement,
    batches: Sequence[int],
    latency: Mapping[str, Sequence[Measurement]],
    memory: MemoryProfile,
) -> None:
    """Record the answers to the page's questions.

    Args:
        page: that records.
        studied: the models under study.
        shares: of each kind of op in the time of the GPT's.
        single: seconds of warm calls, one by one.
        batches: among them 64.
        latency: seconds of a forward pass of each model at each of them.
        memory: of a training step of the GPT.
    """
    page.number(
        "q-attention-limit",
        1 / (1 - shares["attention"].median),
        unit="",
        what="Amdahl's limit for attention in the GPT",
        modelled=True,
    )
    page.number(
        "q-tail", single.percentile(99) / single.median, unit="", what="99th percentile over median of warm calls"
    )
    page.number("q-macs", studied["gpt"].flops // 2, unit="MAC", what="multiply-accumulates of the GPT, one sequence")
    flops = studied["cnn"].flops / studied["mlp"].flops
    at_64 = batches.index(64)
    seconds = latency["cnn"][at_64].median / latency["mlp"][at_64].median
    page.number("q-cnn-flops", flops, unit="", what="arithmetic of the CNN over the MLP's")
    page.number("q-cnn-time", seconds, unit="", what="time of the CNN over the MLP's, batch of 64")
    per_flop = seconds / flops
    page.number("q-cnn-per-flop", per_flop, unit="", what="time of the CNN for each FLOP over the MLP's")
    more = "more than in proportion" if per_flop > 1 else "less than in proportion"
    page.word(
        "q-cnn-proportion",
        "in proportion" if 0.8 < per_flop < 1.25 else more,
        because="a FLOP of the CNN takes {q-cnn-per-flop} as long as one of the MLP; "
        "within a quarter counts as proportion",
    )
    page.number("q-adam", memory.highest["optimizer"], unit="B", what="state of AdamW for the GPT")
