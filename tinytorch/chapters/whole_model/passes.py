"""Passes of whole models: the climb from loops to kernels, what techniques cost, and which one a situation asks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tinytorch import models
from tinytorch.chapters.gpt2 import GPT2, call_seconds, read_seconds, step_calls
from tinytorch.core.module import Module
from tinytorch.perf.acceleration.climbing import Chosen, Climb, Move, under
from tinytorch.perf.acceleration.techniques import (
    BASELINE,
    CODES,
    FUSED,
    KERNELS,
    Tried,
    forward_pass,
    with_kernels,
    with_references,
)
from tinytorch.perf.engines import AdamWSettings, subject
from tinytorch.perf.engines.ours import references, training
from tinytorch.perf.kernels.registry import accelerated
from tinytorch.perf.machine import Ceilings, ceilings
from tinytorch.perf.measuring import (
    Counted,
    Derived,
    Measurement,
    Modelled,
    difference,
    interleave,
    limit_blas_threads,
    quotient,
    ratio,
)
from tinytorch.perf.measuring.comparison import compare_paired
from tinytorch.perf.measuring.judge import Judgement, Verdict
from tinytorch.perf.profiling.breakdown import amdahl
from tinytorch.report import Column, Page
from tinytorch.report.verdicts import words_of

MOVES = (
    Column("op", "Move"),
    Column("share", "Share before"),
    Column("alone", "Faster alone"),
    Column("predicted", "Whole, predicted", "", modelled=True),
    Column("gained", "Whole, measured", total="sofar"),
    Column("sofar", "So far"),
)
TECHNIQUES = (
    Column("workload", "Model, examples"),
    Column("technique", "Technique"),
    Column("gained", "Times as fast as NumPy"),
    Column("held", "Held", "B"),
    Column("error", "Error", "%"),
    Column("built", "Made in"),
)
SITUATIONS = (
    Column("situation", "Situation"),
    Column("asks", "What it asks"),
    Column("choice", "Choice"),
    Column("gained", "Times as fast"),
    Column("price", "Price"),
)
#: Workloads whose fastest technique the text tells, by what their keys end in.
_TOLD = {"mlp-one": "MLP, 1", "gpt-one": "GPT, 1", "gpt-many": "GPT, 64", "wide": "GPT-2 block, 128"}
_FUSED_KERNELS = "fused kernels"
#: What a technique asks that is not time.
_PRICES = {
    BASELINE: "none",
    KERNELS: "compiling once",
    _FUSED_KERNELS: "compiling once",
    FUSED: "one shape, copied weights",
    CODES: "an error",
}
#: Names that a reader knows, of ops and of implementations.
_SAID = {
    "linear": "linear layers",
    "self_attention": "attention",
    "layer_norm": "normalization",
    "gelu": "GELU",
    "numba": "kernel",
    "numpy": "NumPy",
    "a dot product an element": "loops",
}


def begin() -> tuple[Page, Ceilings]:
    """Return the page, and the ceilings of one thread, to which BLAS is held."""
    limit_blas_threads(1)
    return Page("whole_model"), ceilings(threads=1)


def whole_passes(model: Module, inputs: Any, loops: Chosen) -> dict[str, Measurement]:
    """Return the seconds of a forward pass by "loops", by "NumPy" and by "kernels", in turns."""
    run = forward_pass(model, inputs)
    runs = {
        "loops": under(run, loops),
        "NumPy": with_references(run),
        "kernels": with_kernels(run),
    }
    return interleave(runs, repeats=36, at_most_seconds=4.0, warmup_seconds=0.05)


def training_steps() -> dict[str, Measurement]:
    """Return the seconds of a training step of 64 sequences of the GPT by "NumPy", and fused on the "kernels"."""
    gpt = subject("gpt-64")
    steps = {
        name: training(setting, gpt.make(), gpt.batch(), gpt.loss, AdamWSettings()).step
        for name, setting in (("NumPy", "numpy"), ("kernels", "fused"))
    }
    within = {"NumPy": references, "kernels": accelerated}
    return interleave(steps, resolve=0.1, at_most_seconds=6.0, warmup_seconds=0.1, within=within)


def batched_gain() -> Measurement:
    """Return sequences a second of the GPT in a batch of 64 over one at a time, by NumPy."""
    runs = {str(batch): forward_pass(models.trained("gpt"), models.example("gpt", batch)) for batch in (1, 64)}
    pair = interleave(runs, repeats=9, at_most_seconds=0.5, warmup_seconds=0.05)
    called = "sequences a second in a batch of 64 over one at a time, GPT, NumPy"
    return ratio(pair["1"], pair["64"]).scaled(64, "", called)


def record_proof(page: Page, before: Measurement, after: Measurement) -> None:
    """Record what a `Profiler` said: how long the GPT took over its plan."""
    what = "median latency of the GPT over that of its plan, one after the other, by a Profiler"
    page.number("proof-gain", quotient(before, after, what))


def record_climb(page: Page, climbed: Climb, finished: Mapping[str, Measurement]) -> None:
    """Show the moves of one sequence that were kept from loops to kernels, and what the products' kernel did.

    Args:
        page: where to.
        climbed: the moves, in the order in which they were made.
        finished: `whole_passes`.
    """
    first, kept = climbed.stages[0], [move for move in climbed.moves if move.kept]
    gains = [gain for move, gain in zip(climbed.moves, climbed.gains, strict=True) if move.kept]
    page.table(
        "climb",
        [
            {
                "op": _named(move),
                "share": move.share,
                "alone": move.alone,
                "predicted": Modelled(move.predicted, "", "speedup of the whole", "Amdahl's law"),
                "gained": gained,
                "sofar": ratio(first, stage, f"the whole as it began over {stage.name}"),
            }
            for move, gained, stage in zip(kept, gains, climbed.stages[1:], strict=True)
        ],
        MOVES,
        caption="One sequence through the GPT, from loops to kernels: the moves that were kept, the largest share "
        "first. The stages that they led to were timed once more, all in turns.",
    )
    loops, numpy = finished["loops"], finished["NumPy"]
    page.number("loops-over-numpy", ratio(loops, numpy, "time of loops over NumPy, one sequence"))
    page.compare("numpy-over-kernels", compare_paired(numpy, finished["kernels"], matters=0.1))
    off = [move.predicted / gained.median for move, gained in zip(kept, gains, strict=True)]
    page.number(
        "worst-prediction",
        Derived(
            max((max(each, 1 / each) for each in off), default=1.0),
            "",
            "largest ratio between prediction and median of a kept move, whichever is larger over the other",
            tuple(climbed.gains),
            "it is a largest one",
        ),
    )
    page.number("moves", len(climbed.moves), unit="moves", what="moves tried for one sequence")
    page.number(
        "moves-kept",
        Derived(
            len(kept), "1", "moves kept for one sequence", tuple(gain for gain in climbed.gains), "it counts verdicts"
        ),
    )
    opening = climbed.moves[0]
    page.number("first-share", opening.share)
    page.number("first-alone", opening.alone)
    what = "Amdahl's prediction for the first move"
    page.number("first-predicted", Modelled(opening.predicted, "", what, "Amdahl's law"))
    page.number("first-gained", climbed.gains[0])
    _record_products(page, climbed)


def _named(move: Move) -> str:
    """Return a move in a reader's words."""
    op, before, after = (_SAID.get(name, name) for name in (move.op, move.before, move.after))
    return f"{op}: {before} to {after}"


def _record_products(page: Page, climbed: Climb) -> None:
    """Record what the kernel of the products gained by itself and in the whole, where it was tried."""
    keys = ("products-share", "products-alone", "products-whole", "products-whole-verdict")
    tried = [move for move in climbed.moves if move.op == "linear" and move.after == "numba"]
    if not tried:
        page.absent(*keys, reason="the products take too little of a pass to try another kernel for them")
        return
    page.number("products-share", tried[0].share)
    page.number("products-alone", tried[0].alone)
    page.compare("products-whole", tried[0].gained)


def record_techniques(page: Page, tried: Sequence[Tried]) -> None:
    """Show what each technique gains, holds and errs on each workload, and which is the fastest.

    Args:
        page: where to.
        tried: of each workload, the same techniques for all.
    """
    page.table(
        "techniques",
        [
            {
                "workload": each.workload,
                "technique": name,
                "gained": each.gained[name].estimate if name in each.gained else None,
                "held": each.held[name],
                "error": Counted(each.errors[name], "%", "largest error over the largest number")
                if name != BASELINE
                else None,
                "built": each.built.get(name),
            }
            for each in tried
            for name in each.times
        ],
        TECHNIQUES,
        caption="Forward passes with each technique, all on one thread and from one run: the speedup, the bytes kept "
        "between passes, the largest difference from NumPy's output over its largest number, and the time to make what "
        "runs out of the model.",
    )
    by_workload = {each.workload: each for each in tried}
    for key, workload in _TOLD.items():
        found = by_workload[workload]
        for technique, called in {"kernels": KERNELS, "fused": FUSED, "codes": CODES}.items():
            page.number(f"gain-{key}-{technique}", found.gained[called].estimate)
        page.word(
            f"fastest-{key}",
            " or ".join(found.fastest),
            because="of what is proven faster than NumPy, nothing else is proven faster than this",
            numbers=[f"gain-{key}-{technique}" for technique in ("kernels", "fused", "codes")],
        )
    wide = by_workload[_TOLD["wide"]]
    page.number(
        "wide-saved", Counted(wide.held[BASELINE] / wide.held[CODES], "", "bytes of the block over 8-bit layers")
    )
    page.number("wide-error", Counted(wide.errors[CODES], "%", "error of 8-bit layers, GPT-2 block"))
    one = by_workload[_TOLD["gpt-one"]]
    held = one.held[FUSED] / one.held[BASELINE]
    page.number("plan-held", Counted(held, "", "bytes that a plan of the GPT keeps with its model, over the model's"))


def record_situations(
    page: Page,
    tried: Sequence[Tried],
    steps: Mapping[str, Measurement],
    batched: Measurement,
    taken: Mapping[str, float],
) -> None:
    """Show what the page's measurements answer in the course's five situations, and what compiling costs.

    Args:
        page: where to.
        tried: what `record_techniques` showed.
        steps: what `training_steps` returned.
        batched: what `batched_gain` returned.
        taken: seconds of compilation by kernel.
    """
    by_workload = {each.workload: each for each in tried}
    one, many, wide = (by_workload[_TOLD[key]] for key in ("gpt-one", "gpt-many", "wide"))
    compiled = sum(taken.values())
    page.number(
        "compile-all", Measurement("compile time of all kernels of this state of the sources", (compiled,), "s")
    )
    page.number("batched-gpt", batched)
    step = compare_paired(steps["NumPy"], steps["kernels"], matters=0.1)
    page.compare("training-gain", step)
    saved = difference(steps["NumPy"], steps["kernels"], "seconds that a step saves")
    if step.verdict is Verdict.FASTER and saved.interval.low > 0:
        what = "training steps of 64 sequences after which all compile time is paid back"
        page.number("payback", Modelled.by("a gain that each step has", saved.per(compiled, "steps", what)))
    else:
        page.absent("payback", reason="in this build no training step is proven to gain anything")
    page.table(
        "situations",
        [
            {
                "situation": "research",
                "asks": "any model, changed daily",
                "choice": "NumPy, a batch",
                "gained": batched,
                "price": "none",
            },
            {
                "situation": "production training",
                "asks": "many equal steps",
                **_priced(_chosen(page, step.estimate, _FUSED_KERNELS, step.verdict is Verdict.FASTER)),
                "gained": step.estimate,
            },
            {
                "situation": "real time",
                "asks": "one answer soon",
                **_priced(
                    page.withhold_if_disturbed(
                        " or ".join(one.fastest), *(each.estimate for each in one.gained.values())
                    )
                ),
                "gained": one.gained[FUSED].estimate,
            },
            {
                "situation": "edge",
                "asks": "little memory",
                **_priced(Judgement(Verdict.SUPPORTED, word=CODES, counted=True)),
                "gained": wide.gained[CODES].estimate,
            },
            {
                "situation": "batch",
                "asks": "most a second",
                "choice": words_of(
                    page.withhold_if_disturbed(
                        " or ".join(many.fastest), *(each.estimate for each in many.gained.values())
                    )
                ),
                "gained": many.gained[FUSED].estimate,
                "price": "waiting for a batch",
            },
        ],
        SITUATIONS,
        caption="The course's five situations. The gain is against NumPy: of a batch of 64 for research, of fused "
        "kernels for training, of a plan for real time and batches, of 8-bit layers in the wide block for the edge.",
    )


def _priced(choice: Judgement) -> dict[str, str]:
    """Return a choice, of one technique or of several, and what it asks that is not time."""
    if choice.verdict is Verdict.WITHHELD:
        return {"choice": words_of(choice), "price": "that of the choice"}
    return {"choice": choice.word, "price": " or ".join(_PRICES[each] for each in choice.word.split(" or "))}


def _chosen(page: Page, gained: Measurement, choice: str, is_faster: bool) -> Judgement:
    return page.withhold_if_disturbed(choice if is_faster else BASELINE, gained)


def record_answers(page: Page, climbed: Climb, machine: Ceilings) -> None:
    """Record the answers to the questions at the end.

    Args:
        page: that records.
        climbed: the climb of one sequence.
        machine: ceilings of one thread.
    """
    page.number("q-five", 5 * 3 * 4_000_000, unit="B", what="five operators, three arrays each")
    page.number("q-ten", Modelled(amdahl(0.3, 10), "", "Amdahl's law", "Amdahl's law"))
    page.number("q-vanish", Modelled(amdahl(0.3, float("inf")), "", "Amdahl's law", "Amdahl's law"))
    limit = amdahl(min(max(climbed.moves[0].share.median, 0.0), 0.99), float("inf"))
    page.number("q-limit", Modelled(limit, "", "Amdahl's limit for the first move", "Amdahl's law"))
    calls = call_seconds(machine).statistic("least cost of the calls of GPT-2's step")
    page.number("gpt2-calls", len(step_calls()), unit="operations", what="operations that a step of GPT-2 calls")
    page.number("gpt2-call-seconds", Modelled.by("the least cost of each call", calls))
    for key, nbytes, kept in (("", GPT2.step_bytes, "float32"), ("-coded", GPT2.coded_bytes, "eight-bit codes")):
        read = read_seconds(nbytes, machine).statistic(f"GPT-2's weights in {kept}, read once")
        part = quotient(calls, read, f"calls of GPT-2's step over the least time of its weights in {kept}", "%")
        page.number(
            f"gpt2-call-share{key}", Modelled.by("the least cost of each call, and the bytes at the bandwidth", part)
        )
