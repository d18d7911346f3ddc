"""Passes of whole models: the climb from loops to kernels, which technique pays where, and what compiling costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tinytorch import models
from tinytorch.chapters.acceleration.ladder import Rung
from tinytorch.core.module import Module
from tinytorch.perf.acceleration.climbing import Chosen, Move, under
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
from tinytorch.perf.measuring import Measurement, interleave, limit_blas_threads, ratio
from tinytorch.perf.profiling.breakdown import amdahl
from tinytorch.perf.roofline.placement import Placed, place_call
from tinytorch.report import Column, Page

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
#: Workloads whose best technique the text tells, by what their keys end in.
_TOLD = {"mlp-one": "MLP, 1", "gpt-many": "GPT, 64", "block": "GPT-2 block, 128"}


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
    return interleave(runs, repeats=11, at_most_seconds=4, warmup_seconds=0.2)


def placed_pass(model: Module, inputs: Any, machine: Ceilings) -> Placed:
    """Return where a forward pass by NumPy stands under the roof."""
    return place_call("GPT, one sequence", with_references(forward_pass(model, inputs)), machine)


def record_first_climb(page: Page, moves: Sequence[Move], finished: Mapping[str, Measurement], placed: Placed) -> None:
    """Show the moves of one sequence from loops to kernels, what they brought, and what bounds NumPy's pass.

    Args:
        page: where to.
        moves: in the order in which they were made.
        finished: `whole_passes`, loops among them.
        placed: NumPy's pass.
    """
    _show_moves(
        page,
        "climb-one",
        moves,
        caption="One sequence through the GPT, from loops to kernels: the largest share first, Amdahl's prediction "
        "beside what was measured. A move is kept where the whole interval of its gain lies above one.",
    )
    for name in ("loops", "NumPy", "kernels", "fused"):
        page.number(f"one-{name.lower()}", finished[name])
    loops, numpy = finished["loops"], finished["NumPy"]
    page.number("loops-over-numpy", ratio(loops, numpy, "time of loops over NumPy, one sequence"))
    kernels = ratio(numpy, finished["kernels"], "time of NumPy over the kernels, one sequence")
    page.number("numpy-over-kernels", kernels)
    fused = ratio(numpy, finished["fused"], "time of NumPy over the fused model, one sequence")
    page.number("numpy-over-fused", fused)
    off = [move.predicted / move.gained.ratio.median for move in moves]
    page.number(
        "worst-prediction",
        max(max(each, 1 / each) for each in off),
        unit="",
        what="largest ratio between prediction and measurement of a move, whichever is larger over the other",
    )
    page.word("one-bound", placed.verdict.sentence_word, because=placed.verdict.because, numbers=["one-numpy"])
    page.number("moves", len(moves), unit="moves", what="moves tried for one sequence")
    kept = sum(move.kept for move in moves)
    page.number("moves-kept", kept, unit="moves", what="moves kept for one sequence", derived=True)
    first = moves[0]
    page.number("first-share", first.share)
    page.number("first-alone", first.alone)
    what = "Amdahl's prediction for the first move"
    page.number("first-predicted", first.predicted, unit="", what=what, modelled=True)
    page.number("first-gained", first.gained.ratio)


def _show_moves(page: Page, key: str, moves: Sequence[Move], caption: str) -> None:
    page.table(
        key,
        [
            {
                "op": f"{move.op}: {move.before} → {move.after}".replace("numba", "kernel"),
                "share": move.share,
                "alone": move.alone,
                "predicted": move.predicted,
                "gained": move.gained.ratio,
                "kept": "yes" if move.kept else "no",
                "seconds": move.seconds,
            }
            for move in moves
        ],
        MOVES,
        caption=caption,
    )


def record_second_climb(page: Page, moves: Sequence[Move], finished: Mapping[str, Measurement]) -> None:
    """Show the moves of 64 sequences from NumPy on, and what became of the largest share."""
    _show_moves(page, "climb-many", moves, caption="Sixty-four sequences through the GPT, from NumPy on.")
    numpy = finished["NumPy"]
    kernels = ratio(numpy, finished["kernels"], "time of NumPy over the kernels, 64 sequences")
    page.number("many-kernels", kernels)
    page.number("many-fused", ratio(numpy, finished["fused"], "time of NumPy over the fused model, 64 sequences"))
    largest = _largest(moves)
    page.number("many-largest", largest.share)
    page.word("many-largest-op", largest.op, because="its calls take {many-largest} of the time")
    page.number("many-largest-alone", largest.alone)
    page.word(
        "many-largest-kept",
        "is kept" if largest.kept else "is not kept",
        because="by itself the kernel is {many-largest-alone} as fast, and only what makes the whole faster beyond "
        "doubt stays",
    )


def _largest(moves: Sequence[Move]) -> Move:
    return max(moves, key=lambda move: move.share.median)


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
    """Show which technique pays for which workload, and what a batch gains without any.

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
                "best": each.best,
            }
            for each in tried
        ],
        [
            Column("workload", "Model, examples"),
            Column("numpy", "NumPy"),
            *[Column(key, name.capitalize()) for key, name in techniques.items()],
            Column("best", "Choose"),
        ],
        caption="Forward passes with each technique: how many times as fast as NumPy on one thread, and the technique "
        "with the largest gain that is beyond doubt.",
    )
    for name, gain in batched.items():
        page.number(f"batched-{name}", gain)
    by_workload = {each.workload: each for each in tried}
    for key, workload in _TOLD.items():
        _record_best(page, key, by_workload[workload], techniques)
    different = len({each.best for each in tried})
    what = "different techniques that are best for some workload"
    page.number("kinds", different, unit="techniques", what=what, derived=True)


def _record_best(page: Page, key: str, found: Tried, techniques: Mapping[str, str]) -> None:
    if found.best == BASELINE:
        what = f"no technique is faster than NumPy beyond doubt, {found.workload}"
        page.number(f"best-{key}-gain", 1.0, unit="", what=what)
    else:
        page.number(f"best-{key}-gain", found.gained[found.best].ratio)
    for technique, called in techniques.items():  # each could have won had others left it the machine
        page.number(f"gain-{key}-{technique}", found.gained[called].ratio)
    page.word(
        f"best-{key}",
        found.best,
        because=f"it runs {{best-{key}-gain}} as fast as NumPy, the largest gain of those beyond doubt",
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
    saved = finished["NumPy"].median - finished["fused"].median
    page.number(
        "payback",
        seconds / saved if saved > 0 else 0.0,
        unit="calls",
        what="calls of the GPT with 64 sequences after which all compile time is paid back; 0 if nothing is saved",
        modelled=True,
    )


def record_answers(page: Page, ladder: Sequence[Rung], moves: Sequence[Move], machine: Ceilings) -> None:
    """Record the answers to the questions at the end.

    Args:
        page: where to.
        ladder: whose first step is loops over elements.
        moves: of 64 sequences from NumPy on.
        machine: ceilings of one thread.
    """
    flops, peak = 2 * 1024**3, machine.fp32_peak.median
    page.number("q-least", flops / peak, unit="s", what="operations over the peak", modelled=True)
    elements = ladder[0].rate.median
    what = "operations over the rate of loops over elements"
    page.number("q-loops", flops / elements, unit="s", what=what, modelled=True)
    page.number("q-five", 5 * 3 * 4_000_000, unit="B", what="five operators, three arrays each")
    page.number("q-fused", 3 * 4_000_000, unit="B", what="one pass over two arrays into a third")
    page.number("q-ten", amdahl(0.3, 10), unit="", what="Amdahl's law", modelled=True)
    page.number("q-vanish", amdahl(0.3, float("inf")), unit="", what="Amdahl's law", modelled=True)
    linear = next((move.share for move in moves if move.op == "linear"), _largest(moves).share)
    page.number("q-linear-share", linear)
    limit = amdahl(1 - min(linear.median, 0.99), float("inf"))
    page.number("q-limit", limit, unit="", what="Amdahl's limit for all but the product", modelled=True)
    per = "memory operations for each multiply-add of"
    page.number("q-plain", 3, unit="operations", what=f"{per} plain loops")
    page.number("q-tile", (3 + 8) / 24, unit="operations", what=f"{per} a tile of 8 × 3 vectors")
