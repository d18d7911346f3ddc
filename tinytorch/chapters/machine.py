"""The page on the machine: what it is, its peaks and levels, what fresh memory costs, and what the noise hides."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tinytorch.perf.kernels.int8.instructions import DOTS
from tinytorch.perf.kernels.probes import LINE_BYTES
from tinytorch.perf.machine import Ceilings
from tinytorch.perf.machine.levels import STREAMS, Level
from tinytorch.perf.measuring import (
    Counted,
    Measurement,
    Modelled,
    Unmeasured,
    collector_off,
    interleave,
    quotient,
    ratio,
)
from tinytorch.perf.measuring.between_run_variance import known_variance
from tinytorch.perf.measuring.comparison import compare_paired
from tinytorch.perf.measuring.conditions import ComputeProbe, Conditions
from tinytorch.perf.measuring.judge import Ends, Judgement, Verdict, verdict_between, verdict_between_all, word_between
from tinytorch.perf.measuring.measurement import Statistic
from tinytorch.perf.measuring.statistics import FEWEST_FOR_INTERVAL, dependence, share_interval
from tinytorch.perf.roofline.bounds import reported
from tinytorch.report import points
from tinytorch.report.drawings import Drawing

#: A row of a table or chart, by what it holds.
Row = dict[str, Any]
ONE_CORE = Unmeasured("the process that built this page could use one core only: build it where there are two")
#: What a rule says of a program and itself, the difference up to which it calls two alike, and the level of its test.
DIFFERENT, ALIKE, UNDECIDED, _HUNDREDTH, _LEVEL = "different", "alike", "open", 0.01, 0.05
#: Bits of a vector register by its kind in `Ceilings.evidence`; SVE's differ from CPU to CPU.
_REGISTER_BITS = {"zmm": 512, "ymm": 256, "xmm": 128, "v": 128}


def units(one: Ceilings) -> tuple[Counted, Counted, Modelled, Modelled, Measurement]:
    """Return what the fastest loop of multiply-adds says of the units of this CPU; a BLAS may use others.

    That is the numbers in a register, the registers in flight, what one unit reaches that begins an operation in each
    cycle, and two of them, and how many were kept busy.
    """
    loop = max((rate for _, rate in one.multiply_add), key=lambda rate: rate.median)
    probe = loop.conditions.instrument
    if not isinstance(probe, ComputeProbe):
        raise ValueError(f"{loop.name!r} must be of a loop of arithmetic, to have vectors")
    # Registers are those of the assembly: where these are narrower than the loop's vectors, a vector is several.
    written = probe.vector_bits
    kinds = {instruction.split()[1] for instruction in one.evidence["multiply-add"]}
    bits = min(written, max((_REGISTER_BITS.get(kind, written) for kind in kinds), default=written))
    sums = (probe.chains or 1) * written // bits
    rate, of_two = (
        one.clock.scaled(bits // 16 * count, "FLOP/s", f"multiply-adds of {count} units, a register of each in a cycle")
        for count in (1, 2)
    )
    return (
        Counted(bits // 32, "numbers", "float32 of a register, by the assembly of the loop"),
        Counted(sums, "sums", "registers that the loop of multiply-adds works on at once"),
        Modelled.by("multiply-adds of a register in each cycle", rate),
        Modelled.by("multiply-adds of a register in each cycle", of_two),
        quotient(loop, rate, "units that the multiply-adds kept busy", "units"),
    )


def on_their_way(memory: Level) -> tuple[Modelled, Modelled, Modelled]:
    """Return the rate of a line in each latency of memory, and the lines and bytes on their way while it was read."""
    waited = memory.latency.per(LINE_BYTES, "B/s", "one line in each latency of memory")
    lines = quotient(memory.read, waited, "lines on their way from memory, by Little's law", "lines")
    law, in_bytes = "Little's law", lines.scaled(LINE_BYTES, "B", "bytes on their way from memory, by Little's law")
    return Modelled.by("one line in each latency", waited), Modelled.by(law, lines), Modelled.by(law, in_bytes)


def nearest_or(measured: Measurement, words: Mapping[str, Ends], otherwise: Mapping[str, Ends]) -> Judgement:
    """Return the word whose ends hold all of the interval, else the one of ``otherwise``, such as "more than one"."""
    nearest = word_between(measured, words)
    return nearest if nearest.verdict is not Verdict.OPEN else word_between(measured, otherwise)


def peaks(one: Ceilings, several: Ceilings | None) -> list[Row]:
    """Return the most operations a second of each kind, of "one" thread and of "all" cores; None where there is one."""
    names = ("FP32 arithmetic", "FP32 product, 2048 wide", f"INT8 arithmetic, by {one.int8_from}")
    made = ((of.fp32_peak, of.sgemm, of.int8_peak) for of in (one, several or one))
    return [
        {"what": what, "one": alone.scaled(1, "OP/s"), "all": together.scaled(1, "OP/s") if several else ONE_CORE}
        for what, alone, together in zip(names, *made, strict=True)
    ]


def levels(one: Ceilings) -> list[Row]:
    """Return each level of the memory, with the wait for a load, what tells it from the next level, and its size."""
    told = [*(level.told_by or "nothing" for level in one.levels[:-1]), None]
    return [
        {"name": level.name, "latency": level.latency, "told": by, "reported": reported(level)}
        for level, by in zip(one.levels, told, strict=True)
    ]


def ladder(one: Ceilings) -> list[Row]:
    """Return what one thread reaches over the working set in KiB, as `points` of a chart."""
    reached = {name: {point.working_set / 1024: point.reached for point in curve} for name, curve in one.curves.items()}
    streams = {str(stream): reached[stream] for stream in STREAMS}
    return points({"bandwidth": streams, "latency": {"dependent load": reached["latency"]}})


def multiplies_bytes(one: Ceilings) -> bool:
    """Return whether the peak of 8-bit arithmetic is that of an instruction that multiplies bytes and adds products."""
    return any(dot.name == one.int8_from and dot.is_dot_product for dot in DOTS)


def ratio_of_peaks(one: Ceilings) -> Measurement:
    """Return the peak of 8-bit arithmetic over the peak of float32, as a number without unit."""
    return quotient(one.int8_peak, one.fp32_peak, "peak of 8-bit products over that of float32")


def gain_of_instruction(one: Ceilings) -> Measurement | Unmeasured:
    """Return `ratio_of_peaks` where it is that of an instruction which multiplies bytes."""
    if multiplies_bytes(one):
        return ratio_of_peaks(one)
    return Unmeasured(
        "whether INT8's peak is four times FP32's is said of an instruction that multiplies bytes and adds their "
        "products, which this CPU lacks"
    )


def all_cores(one: Ceilings, several: Ceilings | None) -> Mapping[str, Measurement] | Unmeasured:
    """Return how many "cores" this process may use, and their "arithmetic" and "read" of memory over those of one."""
    if several is None:
        return ONE_CORE
    return {
        "cores": Counted(several.threads, "cores", "cores that this process may use"),
        "arithmetic": quotient(several.fp32_peak, one.fp32_peak, "all cores over one, FP32 peak"),
        "read": quotient(several.levels[-1].read, one.levels[-1].read, "all cores over one, memory read"),
    }


def same_against_same(function: Callable[[], Any], repeats: int = 60, seed: int = 0) -> Measurement:
    """Return the ratios of neighbouring times of a function: all that is not 1 is noise, as any comparison meets."""
    both = interleave({"once": function, "again": function}, repeats=repeats, seed=seed)
    return ratio(both["once"], both["again"], "the same code against itself")


def noise(ratios: Mapping[str, Measurement]) -> list[Row]:
    """Return each of the ratios by what ran, and how far a "single" pair of it is from 1, as a fraction."""
    apart = {what: tuple(abs(each - 1) for each in found.samples) for what, found in ratios.items()}
    name = "departure from 1 of one pair: {}".format
    return [
        {"what": what, "ratio": ratios[what], "single": Measurement(name(what), apart[what], "%")} for what in ratios
    ]


def told_from_one(ratios: Iterable[Measurement]) -> str:
    """Return `DIFFERENT` if one of the ratios is proven not to be 1, else `UNDECIDED`."""
    return DIFFERENT if verdict_between_all(ratios, 1, 1).verdict is Verdict.REFUTED else UNDECIDED


def repeats() -> tuple[Modelled, ...]:
    """Return by how much the time of a call, and the ratio of two, vary from one process and moment to the next.

    Raises:
        ValueError: if nothing is known: the page itself looks when it begins.
    """
    known = known_variance()
    if known is None:
        raise ValueError("repeats must be known: make the Page first, which times them in fresh processes")
    of = f"from {known.processes} processes here and what other machines showed"
    varied = {"the time of a call": known.alone, "the ratio of two calls taken in turns": known.interleaved}
    model = "Student's quantile of what a few processes differ by"
    return tuple(
        Modelled(spread, "%", f"standard deviation between repeats of {what}, {of}", model)
        for what, spread in varied.items()
    )


@dataclass(frozen=True)
class Alarms:
    """How often a rule called a program different from itself, alike to a hundredth, or neither; the first's share."""

    rule: str
    trials: int
    different: int
    alike: int
    open: int
    rate: Statistic


def alarms(rule: str, said: Sequence[str]) -> Alarms:
    """Return how often a rule said what; the share has the interval of as many independent ones as these are worth."""
    false = tuple(float(word == DIFFERENT) for word in said)
    share, worth = float(np.mean(false)), max(1, round(dependence(false).effective))
    conditions = Conditions(statistic="mean", interval_by=f"Clopper and Pearson, {worth} independent comparisons")
    bounds = share_interval(round(share * worth), worth)
    rate = Statistic(f"false alarms of {rule}", false, "%", conditions, value=share, bounds=bounds)
    return Alarms(rule, len(said), said.count(DIFFERENT), said.count(ALIKE), said.count(UNDECIDED), rate)


def against_itself(function: Callable[[], Any], trials: int, runs: int = 10, seed: int = 0) -> tuple[Alarms, Alarms]:
    """Return what two rules say of the same times of one function: a t-test on blocks, and the book's on pairs.

    A trial times 2 ``runs`` calls one after the other, after five that do not count. The first rule takes the former
    half for one program and the latter for another, and asks Student's test at 5 %. The second deals neighbours to the
    two, in an order drawn by ``seed``, and asks `compare_paired`. No difference is too small for either, and either
    calls the two alike where its interval lies within a hundredth of 1.

    Raises:
        ValueError: if ``trials`` is below 1 or ``runs`` below 6, which no interval can be made of.
    """
    if trials < 1 or runs < FEWEST_FOR_INTERVAL:
        raise ValueError(f"trials must be at least 1 and runs at least {FEWEST_FOR_INTERVAL}, not {trials} and {runs}")
    order = np.random.default_rng(seed)
    in_sequence, in_turns = [], []
    with collector_off():
        for _ in range(trials):
            times = _times_in_a_row(function, 2 * runs)
            in_sequence.append(_by_t_test(times[:runs], times[runs:]))
            pairs = order.permuted(times.reshape(runs, 2), axis=1)
            in_turns.append(_by_pairs(pairs[:, 0], pairs[:, 1]))
    return (
        alarms(f"{runs} runs, then {runs} runs, t-test", in_sequence),
        alarms(f"{runs} pairs in turns, interval of the ratio", in_turns),
    )


def _times_in_a_row(function: Callable[[], Any], runs: int) -> npt.NDArray[np.float64]:
    """Return the seconds of ``runs`` calls one after the other, after five that do not count."""
    for _ in range(5):
        function()
    seconds = np.empty(runs)
    for run in range(runs):
        start = time.perf_counter_ns()
        function()
        seconds[run] = (time.perf_counter_ns() - start) * 1e-9
    return seconds


def _by_t_test(first: npt.NDArray[np.float64], second: npt.NDArray[np.float64]) -> str:
    """Return what Student's test at 5 % says of two series of times: of their means, and of those over the first's."""
    from scipy.stats import ttest_ind  # takes longer to import than all else here

    if np.ptp(first) + np.ptp(second) == 0:
        return ALIKE if first[0] == second[0] else DIFFERENT
    found = ttest_ind(second, first)
    if found.pvalue < _LEVEL:
        return DIFFERENT
    reach = found.confidence_interval(1 - _LEVEL)
    return ALIKE if max(-reach.low, reach.high) <= _HUNDREDTH * first.mean() else UNDECIDED


def _by_pairs(first: npt.NDArray[np.float64], second: npt.NDArray[np.float64]) -> str:
    """Return what `compare_paired` says of the pairs of two series of times."""
    words = {Verdict.FASTER: DIFFERENT, Verdict.SLOWER: DIFFERENT, Verdict.NO_DIFFERENCE: ALIKE}
    return words.get(compare_paired(first, second, _HUNDREDTH).verdict, UNDECIDED)


def rare_enough(rate: Measurement, *, asked_for: float, passes: float) -> Judgement:
    """Return whether alarms are rare: refuted if surely above what was ``asked_for``, supported if below ``passes``."""
    wanted = verdict_between(rate, high=asked_for)
    return wanted if wanted.verdict is Verdict.REFUTED else verdict_between(rate, high=passes)


def repeated_intervals(repeats: int, samples: int, *, truth: str, misses: str, below: str, seed: int = 1) -> Drawing:
    """Return drawn intervals of a median, with words at the ``truth``, beside what ``misses`` it, and ``below`` all."""
    draw = np.random.default_rng(seed)
    step, top, middle, wide = 12.0, 34.0, 240.0, 130.0
    bottom = top + repeats * step
    drawing = Drawing(bottom + 30)
    drawing.line((middle, top - 8), (middle, bottom + 4), color="baseline", width=3)
    drawing.text(middle, 18, truth)
    for index in range(repeats):
        one = Measurement("drawn", tuple(draw.normal(0, 1, samples)), "")
        y = top + (index + 0.5) * step
        low, high = (middle + wide * end for end in (one.interval.low, one.interval.high))
        holds = low <= middle <= high
        drawing.line((low, y), (high, y), color="forward" if holds else "waiting", width=2.5)
        drawing.circle(middle + wide * one.median, y, 2.5, color="forward" if holds else "waiting")
        if not holds:
            drawing.text(10, y + 5, misses, anchor="start")
    drawing.text(middle, bottom + 24, below)
    return drawing
