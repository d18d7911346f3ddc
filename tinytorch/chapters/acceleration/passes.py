"""Passes of whole models: the climb from loops to kernels, which technique pays where, and what compiling costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tinytorch import models
from tinytorch.chapters.acceleration.ladder import Rung
from tinytorch.core.module import Module
from tinytorch.perf.acceleration.climbing import Chosen, Climb, Move, under
from tinytorch.perf.acceleration.fusion import fuse
from tinytorch.perf.acceleration.techniques import (
    BASELINE,
    CODES,
    CORES,
    FUSED,
    KERNELS,
    Tried,
    forward_pass,
    with_kernels,
    with_references,
)
from tinytorch.perf.machine import Ceilings, ceilings
from tinytorch.perf.measuring import Measurement, difference, interleave, limit_blas_threads, ratio
from tinytorch.perf.measuring.comparison import compare_paired
from tinytorch.perf.measuring.judge import SUPPORTED
from tinytorch.perf.profiling.breakdown import amdahl
from tinytorch.perf.roofline.placement import Placed, place_call
from tinytorch.report import Column, Page, verdict_between

MOVES = (
    Column("op", "Move"),
    Column("share", "Share before"),
    Column("alone", "Faster alone"),
    Column("predicted", "Predicted", "", modelled=True),
    Column("gained", "Measured"),
    Column("kept", "Kept"),
    Column("seconds", "Then the whole takes"),
)
COMPILED = (Column("kernel", "Kernel"), Column("seconds", "Compiled in", "s"))
#: Techniques by what their keys end in, in the order of the table.
_TECHNIQUES = {"kernels": KERNELS, "fused": FUSED, "codes": CODES, "cores": CORES}
#: Workloads whose fastest technique the text tells, by what their keys end in.
_TOLD = {"mlp-one": "MLP, 1", "gpt-many": "GPT, 64", "wide": "GPT-2 block, 128"}


def begin() -> tuple[Page, Ceilings, np.random.Generator]:
    """Return the page, the ceilings of one thread, to which BLAS is held, and a source of random numbers."""
    limit_blas_threads(1)
    return Page("acceleration"), ceilings(threads=1), np.random.default_rng(0)


def whole_passes(model: Module, inputs: Any, loops: Chosen | None = None) -> dict[str, Measurement]:
    """Return the seconds of a forward pass by "NumPy", by "kernels", and "fused", in turns.

    With ``loops``, implementations to learn from, there is also what they take, as "loops".
    """
    run = forward_pass(model, inputs)
    runs = {"loops": under(run, loops)} if loops else {}
    runs |= {
        "NumPy": with_references(run),
        "kernels": with_kernels(run),
        "fused": with_kernels(forward_pass(fuse(model, frozen=True), inputs)),
    }
    return interleave(runs, repeats=30, at_most_seconds=4, warmup_seconds=0.2)


def placed_pass(model: Module, inputs: Any, machine: Ceilings) -> Placed:
    """Return where a forward pass by NumPy stands under the roof."""
    return place_call("GPT, one sequence", with_references(forward_pass(model, inputs)), machine)


def record_first_climb(page: Page, climbed: Climb, finished: Mapping[str, Measurement], placed: Placed) -> None:
    """Show the moves of one sequence from loops to kernels, what they brought, and what bounds NumPy's pass.

    Args:
        page: where to.
        climbed: the moves, in the order in which they were made.
        finished: `whole_passes`, loops among them.
        placed: NumPy's pass.
    """
    moves, gains = climbed.moves, climbed.gains
    _show_climb(
        page,
        "climb-one",
        climbed,
        caption="One sequence through the GPT, from loops to kernels: the largest share first, Amdahl's prediction "
        "beside what was measured. A move is kept where its trial proves the whole to be faster. The stages that kept "
        "moves led to are measured once more, all in turns, so that their gains multiply to the last row.",
    )
    for name in ("loops", "NumPy", "kernels", "fused"):
        page.number(f"one-{name.lower()}", finished[name])
    loops, numpy = finished["loops"], finished["NumPy"]
    page.number("loops-over-numpy", ratio(loops, numpy, "time of loops over NumPy, one sequence"))
    page.compare("numpy-over-kernels", compare_paired(numpy, finished["kernels"]))
    fused = ratio(numpy, finished["fused"], "time of NumPy over the fused model, one sequence")
    page.number("numpy-over-fused", fused)
    off = [move.predicted / gained.median for move, gained in zip(moves, gains, strict=True)]
    page.number(
        "worst-prediction",
        max(max(each, 1 / each) for each in off),
        unit="",
        what="largest ratio between prediction and median of a move, whichever is larger over the other",
    )
    page.word("one-bound", placed.verdict.sentence_word, because=placed.verdict.because, numbers=["one-numpy"])
    page.number("moves", len(moves), unit="moves", what="moves tried for one sequence")
    kept = sum(move.kept for move in moves)
    page.number("moves-kept", kept, unit="1", what="moves kept for one sequence", derived=True)
    page.number("first-alone", moves[0].alone)
    what = "Amdahl's prediction for the first move"
    page.number("first-predicted", moves[0].predicted, unit="", what=what, modelled=True)
    page.number("first-gained", gains[0])


def _show_climb(page: Page, key: str, climbed: Climb, caption: str) -> None:
    nothing = dict.fromkeys(("share", "alone", "predicted", "gained", "kept", "seconds"))
    rows: list[dict[str, Any]] = [{**nothing, "op": "as it begins", "seconds": climbed.stages[0]}]
    rows += [
        {
            "op": f"{move.op}: {move.before} → {move.after}".replace("numba", "kernel"),
            "share": move.share,
            "alone": move.alone,
            "predicted": move.predicted,
            "gained": gained,
            "kept": page.told("yes" if move.kept else "no", move.gained.ratio),
            "seconds": seconds,
        }
        for move, gained, seconds in zip(climbed.moves, climbed.gains, climbed.after, strict=True)
    ]
    if climbed.total is not None:
        rows.append({**nothing, "op": "all that were kept", "gained": climbed.total})
    page.table(key, rows, MOVES, caption=caption)


def record_second_climb(page: Page, climbed: Climb, finished: Mapping[str, Measurement]) -> None:
    """Show the moves of 64 sequences from NumPy on, and what the products' kernel does by itself."""
    _show_climb(page, "climb-many", climbed, caption="Sixty-four sequences through the GPT, from NumPy on.")
    numpy = finished["NumPy"]
    kernels = ratio(numpy, finished["kernels"], "time of NumPy over the kernels, 64 sequences")
    page.number("many-kernels", kernels)
    page.number("many-fused", ratio(numpy, finished["fused"], "time of NumPy over the fused model, 64 sequences"))
    products = _products(climbed)
    page.number("many-products", products.share)
    page.number("many-products-alone", products.alone)


def _products(climbed: Climb) -> Move:
    """Return the first move of the products, which every GPT makes."""
    return next(move for move in climbed.moves if move.op == "linear")


def batched_gains() -> dict[str, Measurement]:
    """Return, for each model of the zoo, examples a second in a batch of 64 over one at a time, by NumPy."""
    found = {}
    for name in models.ZOO:
        runs = {str(batch): forward_pass(models.trained(name), models.example(name, batch)) for batch in (1, 64)}
        pair = interleave(runs, repeats=9, at_most_seconds=2, warmup_seconds=0.2)
        called = f"examples a second in a batch of 64 over one at a time, {name.upper()}, NumPy"
        found[name] = ratio(pair["1"], pair["64"]).scaled(64, "", called)
    return found


def record_techniques(page: Page, tried: Sequence[Tried], batched: Mapping[str, Measurement]) -> None:
    """Show which technique is the fastest for which workload, and what a batch gains without any.

    Args:
        page: where to.
        tried: of each workload, the same techniques for all; a second core is one where there is one.
        batched: `batched_gains`.
    """
    techniques = {key: name for key, name in _TECHNIQUES.items() if name in tried[0].times}
    page.table(
        "techniques",
        [
            {
                "workload": each.workload,
                "numpy": each.times[BASELINE],
                **{key: each.gained[name].ratio for key, name in techniques.items()},
                "fastest": page.told(" or ".join(each.fastest), *(one.ratio for one in each.gained.values())),
            }
            for each in tried
        ],
        [
            Column("workload", "Model, examples"),
            Column("numpy", "NumPy"),
            *[Column(key, name.capitalize()) for key, name in techniques.items()],
            Column("fastest", "Fastest"),
        ],
        caption="Forward passes with each technique: how many times as fast as NumPy on one thread. The last column "
        "names what is proven faster than NumPy and than which nothing else is; where it names several, this run "
        "cannot tell which of them is the fastest.",
    )
    for name, gain in batched.items():
        page.number(f"batched-{name}", gain)
    by_workload = {each.workload: each for each in tried}
    for key, workload in _TOLD.items():
        found = by_workload[workload]
        for technique, called in techniques.items():  # each could have won had others left it the machine
            page.number(f"gain-{key}-{technique}", found.gained[called].ratio)
        page.word(
            f"fastest-{key}",
            " or ".join(found.fastest),
            because="of what is proven faster than NumPy, nothing else is proven faster than this",
            numbers=[f"gain-{key}-{technique}" for technique in techniques],
        )


def record_compile(page: Page, taken: Mapping[str, float], finished: Mapping[str, Measurement]) -> None:
    """Show what compiling cost, and after how many passes of 64 sequences it is paid back.

    Args:
        page: where to.
        taken: seconds by kernel.
        finished: `whole_passes` of 64 sequences.
    """
    longest = sorted(taken, key=lambda name: taken[name], reverse=True)[:6]
    page.table(
        "compile",
        [{"kernel": name, "seconds": taken[name]} for name in longest],
        COMPILED,
        caption="The kernels that took longest to compile on this machine, beside others on its other cores; once for "
        "each state of their sources.",
    )
    seconds, kernels = sum(taken.values()), len(taken)
    what = f"compile time of all {kernels} kernels that were compiled for this state of the sources"
    page.number("compile-all", seconds, unit="s", what=what)
    what = "kernels compiled for this state of the sources"
    page.number("compile-count", kernels, unit="kernels", what=what, derived=True)
    saved = difference(finished["NumPy"], finished["fused"], "what compiled kernels save of a pass of 64 sequences")
    if verdict_between(saved, low=0.0, strict=True) != SUPPORTED:
        page.absent("payback", reason="in this build no pass of 64 sequences is proven to gain anything")
        return
    what = "calls of the GPT with 64 sequences after which all compile time is paid back"
    page.number("payback", saved.per(seconds, "calls", what), modelled=True)


def record_answers(page: Page, ladder: Sequence[Rung], climbed: Climb, machine: Ceilings) -> None:
    """Record the answers to the questions at the end.

    Args:
        page: where to.
        ladder: whose first step is loops over elements.
        climbed: of 64 sequences from NumPy on.
        machine: ceilings of one thread.
    """
    flops = 2 * 1024**3
    page.number("q-least", machine.fp32_peak.per(flops, "s", "operations over the peak"), modelled=True)
    what = "operations over the rate of loops over elements"
    page.number("q-loops", ladder[0].rate.per(flops, "s", what), modelled=True)
    page.number("q-five", 5 * 3 * 4_000_000, unit="B", what="five operators, three arrays each")
    page.number("q-fused", 3 * 4_000_000, unit="B", what="one pass over two arrays into a third")
    page.number("q-ten", amdahl(0.3, 10), unit="", what="Amdahl's law", modelled=True)
    page.number("q-vanish", amdahl(0.3, float("inf")), unit="", what="Amdahl's law", modelled=True)
    limit = amdahl(1 - min(_products(climbed).share.median, 0.99), float("inf"))
    page.number("q-limit", limit, unit="", what="Amdahl's limit for all but the product", modelled=True)
    per = "memory operations for each multiply-add of"
    page.number("q-plain", 3, unit="operations", what=f"{per} plain loops")
    page.number("q-tile", (3 + 8) / 24, unit="operations", what=f"{per} a tile of 8 × 3 vectors")
