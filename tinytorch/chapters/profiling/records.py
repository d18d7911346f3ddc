"""The records of the page on profiling: numbers, words, tables, figures and claims, from the results of its studies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from tinytorch.chapters import calls
from tinytorch.chapters.profiling.studies import StudiedModel
from tinytorch.chapters.sources import COURSE_PROFILING, COURSE_PROFILING_URL
from tinytorch.chapters.words import largest, word_between
from tinytorch.perf.events.array_life import CATEGORIES, MemoryProfile
from tinytorch.perf.measuring import Measurement, Statistic, quotient, ratio
from tinytorch.perf.measuring.judge import CANNOT_TELL, REFUTED, SUPPORTED
from tinytorch.perf.profiling.breakdown import LayerRow, predicted_speedup
from tinytorch.report import (
    Column,
    Page,
    bars,
    color,
    format_number,
    line,
    subplots,
    verdict_between,
    verdict_between_all,
    verdict_of_all,
)

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
        evidence="The first call of a fresh process took {first-call}, calls 21 to 30 took {settled-call}. "
        "It took {first-over-settled} as long.",
    )


def record_scatter(page: Page, single: Measurement, steadier: Measurement) -> None:
    """Record how warm calls scatter, and the claim on the median.

    Args:
        page: that records.
        single: seconds of many calls, one by one.
        steadier: spread of means over spread of medians of the same calls.
    """
    page.number("single-median", calls.zoo_pass(single, "mlp", 1))
    page.number("single-mean", single.mean, unit="s", what="mean of the same calls")
    page.number("single-p99", single.tail(99))
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
        verdict=verdict_between(steadier, low=1.0, strict=True),
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
        verdict=SUPPORTED if min(growth) > 3.8 else REFUTED,
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
        named = {kind: share for kind, share in found.items() if kind != "other"}
        first, second = sorted(named, key=lambda kind: -named[kind].median)[:2]
        page.word(
            f"{name}-largest",
            largest(named),
            because=f"of the kinds with a name, {first} takes {{{name}-{first}-share}} and {second} "
            f"{{{name}-{second}-share}}",
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
    inside = [verdict_between(found, _ATTENTION_LOW, _ATTENTION_HIGH, together=len(whole)) for found in whole]
    verdict = SUPPORTED if SUPPORTED in inside else REFUTED if set(inside) == {REFUTED} else CANNOT_TELL
    page.word(
        "attention-73-word",
        verdict,
        because=f"the test allows {allowed} at any length from 32 to 1,024; at 512 it was {{attention-module-512}}",
        numbers=[f"attention-module-{n}" for n in _NAMED_LENGTHS],
    )
    page.claim(
        "attention-73",
        statement="Attention takes 73 % of a transformer's time.",
        source=COURSE_PROFILING,
        source_url=COURSE_PROFILING_URL,
        verdict=verdict,
        evidence="The whole attention module, projections included, took {attention-module-128} of a block's time at "
        "128 positions and {attention-module-512} at 512. At 1,024 it took {attention-module-1024}. "
        f"The test allows {allowed} at any length up to 1,024.",
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
    page.number("amdahl-predicted", predicted, modelled=True)
    limit = predicted_speedup(share, None, "Amdahl's limit for an operation that takes no time")
    page.number("amdahl-limit", limit, modelled=True)
    page.number("amdahl-found", found)
    over = quotient(found, predicted, "speedup as measured over as predicted")
    page.number("amdahl-over", over)
    page.word(
        "amdahl-verdict",
        {SUPPORTED: "they agree", REFUTED: "they disagree"}.get(verdict_between(over, 1 / 1.1, 1.1), CANNOT_TELL),
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
        flop_ratio = counted[name]["backward_flops"] / counted[name]["forward_flops"]
        page.number(f"{name}-back", times)
        page.number(
            f"{name}-back-flops",
            flop_ratio,
            unit="",
            what=f"contractions of the backward over those of the forward pass, {name.upper()}",
        )
        rows.append({"model": name.upper(), **steps[name], "ratio": times, "flops": flop_ratio})
    page.table("phases", rows, PHASES, caption="A training step on a batch of 64, phase by phase.")
    page.claim(
        "backward-twice",
        statement="The backward pass costs twice the forward pass.",
        source="J. Kaplan et al., Scaling Laws for Neural Language Models, 2020, section 2.1",
        source_url="https://arxiv.org/abs/2001.08361",
        verdict=verdict_between_all(back.values(), 1.8, 2.2),
        evidence="For the MLP the ratio is {mlp-back} in time and {mlp-back-flops} in arithmetic. "
        "For the CNN it is {cnn-back} and {cnn-back-flops}. For the GPT it is {gpt-back} and {gpt-back-flops}. "
        "The test allows 1.8 to 2.2 in time.",
    )


def record_memory(page: Page, memory: Mapping[str, MemoryProfile]) -> None:
    """Record the memory of a training step of each model, a figure of the GPT's, and two claims."""
    rows, verdicts = [], []
    for name, found in memory.items():
        kept = {what: found.highest[what] for what in ("parameters", "gradients", "optimizer", "activations")}
        # The peak holds Python's own objects, which are not the same in each run.
        rows.append({"model": name.upper(), **kept, "temporary": found.temporary, "peak": float(found.peak)})
        share = kept["activations"] / sum(kept.values())
        verdicts.append(SUPPORTED if share > 0.5 else REFUTED)
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
        evidence="At a batch of 64 they are {mlp-activation-memory} of the MLP's memory and {cnn-activation-memory} of "
        "the CNN's. Of the GPT's they are {gpt-activation-memory}. More than half in all three would support it.",
    )
    page.claim(
        "gradients-equal-parameters",
        statement="Gradients take as much memory as parameters.",
        source="S. Rajbhandari et al., ZeRO: Memory Optimizations Toward Training Trillion Parameter Models, 2020, "
        "section 3.1",
        source_url="https://arxiv.org/abs/1910.02054",
        verdict=SUPPORTED if equal else REFUTED,
        evidence="The MLP has {mlp-gradient-bytes} of gradients for {mlp-parameter-bytes} of parameters. "
        "The CNN has {cnn-gradient-bytes} for {cnn-parameter-bytes}. "
        "The GPT has {gpt-gradient-bytes} for {gpt-parameter-bytes}.",
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


def record_throughput(page: Page, seconds: Mapping[int, Mapping[str, Measurement]]) -> None:
    """Record what ``seconds`` of a call, by batch and by model, make of latency and of throughput."""
    figure, ax = subplots(height=3.0)
    batches = list(seconds)
    for name in seconds[batches[0]]:
        rates = [seconds[batch][name].per(batch, "items/s") for batch in batches]
        line(ax, batches, rates, quantity="throughput", variant=name, label=name.upper())
        page.number(f"{name}-rate-one", rates[0])
        page.number(f"{name}-rate-largest", rates[-1])
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
    seconds: Mapping[str, Measurement],
    memory: MemoryProfile,
) -> None:
    """Record the answers to the page's questions.

    Args:
        page: that records.
        studied: the models under study.
        shares: of each kind of op in the time of the GPT's.
        single: seconds of warm calls, one by one.
        seconds: of a forward pass of each model in a batch of 64, taken in turns.
        memory: of a training step of the GPT.
    """
    limit = predicted_speedup(shares["attention"], None, "Amdahl's limit for attention in the GPT")
    page.number("q-attention-limit", limit, modelled=True)
    page.number(
        "q-tail", single.percentile(99) / single.median, unit="", what="99th percentile over median of warm calls"
    )
    page.number("q-macs", studied["gpt"].flops // 2, unit="MAC", what="multiply-accumulates of the GPT, one sequence")
    flops = studied["cnn"].flops / studied["mlp"].flops
    times = ratio(seconds["cnn"], seconds["mlp"], "time of the CNN over the MLP's, batch of 64")
    page.number("q-cnn-flops", flops, unit="", what="arithmetic of the CNN over the MLP's")
    page.number("q-cnn-time", times)
    per_flop = times.scaled(1 / flops, name="time of the CNN for each FLOP over the MLP's")
    page.number("q-cnn-per-flop", per_flop)
    page.word(
        "q-cnn-proportion",
        word_between(
            per_flop,
            {
                "in proportion": (0.8, 1.25),
                "more than in proportion": (1.25, None),
                "less than in proportion": (None, 0.8),
            },
        ),
        because="a FLOP of the CNN takes {q-cnn-per-flop} as long as one of the MLP; "
        "within a quarter counts as proportion",
    )
    page.number("q-adam", memory.highest["optimizer"], unit="B", what="state of AdamW for the GPT")
