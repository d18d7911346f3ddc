"""The page on the machine: what it is, its peaks and levels, what fresh memory costs, and what the noise hides."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tinytorch.chapters.sources import COURSE_BENCHMARKING, COURSE_BENCHMARKING_FOLDER_URL
from tinytorch.perf.host.identity import reported_capacities
from tinytorch.perf.host.pinned_threads import usable_cores
from tinytorch.perf.kernels.int8.instructions import DOTS
from tinytorch.perf.kernels.probes import LINE_BYTES
from tinytorch.perf.machine import Ceilings, Identity
from tinytorch.perf.machine.memory_ladder import Curve
from tinytorch.perf.measuring import (
    Counted,
    Measurement,
    Modelled,
    Statistic,
    collector_off,
    interleave,
    quotient,
    ratio,
)
from tinytorch.perf.measuring.between_run_variance import known_variance
from tinytorch.perf.measuring.comparison import compare_paired
from tinytorch.perf.measuring.conditions import ComputeProbe, Conditions
from tinytorch.perf.measuring.judge import Ends, Verdict, word_between
from tinytorch.perf.measuring.statistics import FEWEST_FOR_INTERVAL, dependence, share_interval
from tinytorch.report import Column, Page, format_number, verdict_between, verdict_between_all
from tinytorch.report.figures import draw_line, subplots
from tinytorch.report.provenance import blas_threads_words, hosting_words, steering_words

ONE_CORE = "the process that built this page could use one core only: build it where there are two"
NO_DOT_PRODUCT = (
    "whether INT8's peak is four times FP32's is said of an instruction that multiplies bytes and adds their products, "
    "which this CPU lacks"
)
#: Rate of false alarms that a test at the level of 5 % has; and the most that still passes for it, which such a test
#: stays surely below in 97 of 100 runs of the page.
_ASKED_FOR, _AS_ASKED_FOR = 0.05, 0.1
#: What a rule says of a program and itself, and the difference up to which it calls two alike.
DIFFERENT, ALIKE, UNDECIDED, _HUNDREDTH = "different", "alike", "open", 0.01
#: Bits of a vector register by its kind in `Ceilings.evidence`; SVE's differ from CPU to CPU.
_REGISTER_BITS = {"zmm": 512, "ymm": 256, "xmm": 128, "v": 128}
#: Whole numbers of units, and the rates, in those of one unit, that no other whole number is as near to.
_UNITS: Mapping[str, Ends] = {
    "zero": (None, 0.5),
    "one": (0.5, 1.5),
    "two": (1.5, 2.5),
    "three": (2.5, 3.5),
    "four": (3.5, 4.5),
    "more than four": (4.5, None),
}
#: What is said where no whole number is proven to be the nearest: one unit cannot do more than one does.
_BEYOND_ONE: Mapping[str, Ends] = {"more than one": (1.0, None)}
_TOLD_BY = {"bandwidth": "its bandwidth", "latency": "its latency alone", None: "nothing"}


def show_identity(page: Page, machine: Identity) -> None:
    """Show the machine as its system and its libraries report it."""
    page.table(
        "identity",
        [{"what": what, "is": value} for what, value in identity_rows(machine)],
        [Column("what", "What"), Column("is", "On this machine")],
        caption="The machine as its system and its libraries report it.",
    )


def identity_rows(made: Identity) -> list[tuple[str, str]]:
    """Return what the system and the libraries report, as (what, value) in words."""
    caches = reported_capacities(made.caches, usable_cores())
    sizes = ", ".join(f"L{level} {bytes_text(size)}" for level, size in caches.items())
    blas = [f"{one.label()}, {blas_threads_words(one.threads)}, of {one.of or 'the system'}" for one in made.blas]
    return [
        ("CPU", f"{made.cpu}, {made.vectors or 'vectors unknown'}"),
        ("Vector extensions", " ".join(made.extensions) or "unknown"),
        ("Cores", f"{made.cores_physical} physical, {made.cores_logical} logical, {made.cores_usable} usable"),
        ("Caches, of all usable cores", sizes or "not reported"),
        ("Memory", bytes_text(made.memory_bytes)),
        *([("Host", hosted)] if (hosted := hosting_words(asdict(made.hosting), made.cores_logical)) else []),
        ("System", made.system),
        ("Huge pages", made.huge_pages or "none"),
        ("Python", f"{made.python}, NumPy {made.numpy}, Numba {made.numba}, LLVM {made.llvm} for {made.numba_cpu}"),
        *(("BLAS", one) for one in blas),
        *steering_words(made.environment),
        ("Load", "unknown" if made.load is None else f"{made.load:.2f}"),
    ]


def bytes_text(size: int | None) -> str:
    """Return a size as a table shows it; a dash for None."""
    return "–" if size is None else str(format_number(size, "B"))


def record_calculated(page: Page, one: Ceilings) -> None:
    """Record what clock and latency say of peak and bandwidth, and how many units and lines these are worth.

    The peak is that of the multiply-adds, as a BLAS may use other units.
    """
    loop = max((rate for _, rate in one.multiply_add), key=lambda rate: rate.median)
    bits = _register_bits(one, loop)
    lanes = bits // 32
    of_one, of_two = (
        one.clock.scaled(2 * lanes * units, "FLOP/s", f"multiply-adds of {units} units, a register of each in a cycle")
        for units in (1, 2)
    )
    busy = quotient(loop, of_one, "units that the multiply-adds kept busy", "units")
    page.number("clock", one.clock)
    page.number("register-lanes", lanes, unit="numbers", what="float32 of a register, by the assembly of the loop")
    page.number("one-unit", Modelled.by("multiply-adds of a register in each cycle", of_one))
    page.number("two-units", Modelled.by("multiply-adds of a register in each cycle", of_two))
    probe = _probe(loop)
    sums = (probe.chains or 1) * probe.vector_bits // bits
    page.number("sums-in-flight", sums, unit="sums", what="registers that the loop of multiply-adds works on at once")
    page.number("units-busy", busy)
    nearest = word_between(busy, _UNITS)
    page.word(
        "units",
        nearest if nearest.verdict is not Verdict.OPEN else word_between(busy, _BEYOND_ONE),
        because="the rate is that of {units-busy}; a whole number is named where the interval is nearer to it than to "
        "any other, and else whether it is more than one can do",
    )
    memory = one.levels[-1]
    waited = memory.latency.per(LINE_BYTES, "B/s", "one line in each latency of memory")
    lines = quotient(memory.read, waited, "lines on their way from memory, by Little's law", "lines")
    page.number("line", LINE_BYTES, unit="B", what="bytes of a cache line, as the probe of the latency takes it")
    page.number("line-rate", Modelled.by("one line in each latency", waited))
    page.number("lines-in-flight", Modelled.by("Little's law", lines))
    in_bytes = lines.scaled(LINE_BYTES, "B", "bytes on their way from memory, by Little's law")
    page.number("bytes-in-flight", Modelled.by("Little's law", in_bytes))


def _probe(loop: Measurement) -> ComputeProbe:
    probe = loop.conditions.instrument
    if not isinstance(probe, ComputeProbe):
        raise ValueError(f"{loop.name!r} must be of a loop of arithmetic, to have vectors")
    return probe


def _register_bits(one: Ceilings, loop: Measurement) -> int:
    """Return the bits of the registers that the ``loop`` of multiply-adds runs in.

    They are those that its assembly names: where these are narrower than the loop's vectors, a vector is several.
    """
    written = _probe(loop).vector_bits
    kinds = {instruction.split()[1] for instruction in one.evidence["multiply-add"]}
    return min(written, max((_REGISTER_BITS.get(kind, written) for kind in kinds), default=written))


def record_peaks(page: Page, one: Ceilings, several: Ceilings | None) -> None:
    """Show the most arithmetic that one thread did, and all cores together; ``several`` is None where there is one."""
    made = (
        ("FP32 arithmetic", one.fp32_peak, several and several.fp32_peak),
        ("FP32 product, 2048 wide", one.sgemm, several and several.sgemm),
        (f"INT8 arithmetic, by {one.int8_from}", one.int8_peak, several and several.int8_peak),
    )
    rows = [
        {"what": what, "one": alone.scaled(1, "OP/s"), "all": together and together.scaled(1, "OP/s")}
        for what, alone, together in made
    ]
    columns = [Column("what", "Operations a second"), Column("one", "One thread"), Column("all", "All cores")]
    page.table(
        "peaks",
        rows,
        columns if several else columns[:2],
        caption="The most arithmetic that this machine was seen to do; a multiply-add counts as two operations.",
    )


def record_levels(page: Page, one: Ceilings) -> None:
    """Show the levels of the memory and what they deliver, one thread."""
    page.table(
        "levels",
        [
            {
                "name": level.name,
                "latency": level.latency,
                "told": None if level is one.levels[-1] else _TOLD_BY[level.told_by],
                "reported": level.capacity_reported,
            }
            for level in one.levels
        ],
        [
            Column("name", "Level"),
            Column("latency", "Latency"),
            Column("told", "Told from the next by"),
            Column("reported", "Holds, as reported", "B"),
        ],
        caption="The levels of the memory, one thread: how long a load waits, which of the curves below shows where "
        "the next level begins, and what the system reports of their sizes.",
    )
    page.table(
        "bandwidths",
        [{"name": level.name, "read": level.read, "copy": level.copy, "triad": level.triad} for level in one.levels],
        [Column("name", "Level"), Column("read", "Read"), Column("copy", "Copy"), Column("triad", "Triad")],
        caption="What each level delivers to one thread. Of a cache that nothing tells from the next level these are "
        "the speeds at working sets that it should hold, as its size is reported.",
    )


def record_ladder(page: Page, one: Ceilings) -> None:
    """Draw what one thread reaches over the working set, and record the cost of a page of memory."""
    streams: tuple[tuple[Curve, str], ...] = (("read", "forward"), ("copy", "backward"), ("triad", "update"))
    figure, axes = subplots(2, 1, height=5.4, sharex=True)
    for stream, variant in streams:
        points = one.curves[stream]
        draw_line(
            axes[0],
            [point.working_set / 1024 for point in points],
            [point.reached for point in points],
            quantity="bandwidth",
            variant=variant,
            label=stream,
        )
    chase = one.curves["latency"]
    draw_line(
        axes[1],
        [point.working_set / 1024 for point in chase],
        [point.reached for point in chase],
        quantity="latency",
        variant="measured",
        label="dependent load",
    )
    for ax in axes:
        ax.set_xscale("log", base=2)
        ax.set_yscale("log")
        ax.legend()
    axes[1].set_xlabel("working set (KiB)")
    page.figure(
        "ladder",
        figure,
        caption="Each step of the ladder is a level of the memory: bandwidth above, and the wait for one load below.",
        alt="Two plots over the working set, from the first cache to memory: three lines of bandwidth, "
        "and below them one of latency.",
    )
    page.number("page-fault", one.page_fault)


def record_int8(page: Page, one: Ceilings) -> None:
    """Record the peak of 8-bit arithmetic over that of floats; the claim on it is one on dot-product instructions."""
    over = ratio_of_peaks(one)
    page.number("int8-over-fp32", over)
    if not multiplies_bytes(one):
        page.absent("int8-four-times", reason=NO_DOT_PRODUCT)
        return
    page.claim(
        "int8-four-times",
        statement="The peak of INT8 arithmetic is four times that of FP32, as loops reach both.",
        source="A. Rodriguez et al., Lower Numerical Precision Deep Learning Inference and Training, Intel 2018",
        source_url="https://software.intel.com/content/www/us/en/develop/articles/lower-numerical-precision-deep-learning-inference-and-training.html",
        quote="The theoretical peak compute gains are 4x int8 OPS over fp32 OPS.",
        verdict=verdict_between(over, 3.6, 4.4),
        evidence="On this processor it is {int8-over-fp32}; within a tenth of four would support it. "
        "The source speaks of the theoretical peak.",
    )


def multiplies_bytes(one: Ceilings) -> bool:
    """Return whether the peak of 8-bit arithmetic is that of an instruction that multiplies bytes and adds products."""
    return any(dot.name == one.int8_from and dot.is_dot_product for dot in DOTS)


def ratio_of_peaks(one: Ceilings) -> Measurement:
    """Return the peak of 8-bit arithmetic over the peak of float32, as a number without unit."""
    return quotient(one.int8_peak, one.fp32_peak, "peak of 8-bit products over that of float32")


def record_cores(page: Page, one: Ceilings, several: Ceilings | None) -> None:
    """Record what all cores do over one; on one core nothing is said of a second one."""
    if several is None:
        page.absent("cores-arithmetic", "cores-bandwidth", "cores", reason=ONE_CORE)
        return
    arithmetic = quotient(several.fp32_peak, one.fp32_peak, "all cores over one, FP32 peak")
    read = quotient(several.levels[-1].read, one.levels[-1].read, "all cores over one, memory read")
    page.number("cores-arithmetic", arithmetic)
    page.number("cores-bandwidth", read)
    page.number("cores", several.threads, unit="cores", what="cores that this process may use")


def record_fresh(page: Page, sums: Mapping[str, Mapping[str, Measurement]], counts: Mapping[str, int]) -> None:
    """Record what a sum into a new array costs over one into an array that is there.

    Args:
        page: that records.
        sums: times of the "small" and the "large" sum, into a "new" array and into the "same".
        counts: numbers that each adds up.
    """
    rows = []
    for name, times in sums.items():
        compared = compare_paired(times["new"], times["same"], 0.1)
        page.compare(f"fresh-{name}", compared)
        faults = times["new"].conditions.page_faults_per_call or 0.0
        page.number(
            f"fresh-{name}-faults",
            Counted(
                faults, "page faults", f"minor page faults of a sum of {counts[name]} numbers into a new array, a call"
            ),
        )
        rows.append(
            {
                "size": 4 * counts[name],
                **times,
                "ratio": compared.estimate,
                "faults": Counted(faults, "1", "minor page faults of a call"),
            }
        )
    page.table(
        "fresh",
        rows,
        [
            Column("size", "Result", "B"),
            Column("new", "Into a new array"),
            Column("same", "Into one that is there"),
            Column("ratio", "Ratio"),
            Column("faults", "Page faults, a call", "1"),
        ],
        caption="The same sum into a new array and into one that is there, in turns.",
    )


def same_against_same(function: Callable[[], Any], repeats: int = 60, seed: int = 0) -> Measurement:
    """Return the ratios of a function's time to its own, from pairs of neighbouring samples.

    Nothing differs between the two, so every departure from 1 is the noise that any comparison here meets.
    """
    both = interleave({"once": function, "again": function}, repeats=repeats, seed=seed)
    return ratio(both["once"], both["again"], "the same code against itself")


def _departure(measured: Measurement, name: str) -> Measurement:
    """Return how far each ratio is from 1, as a fraction."""
    return Measurement(name, tuple(abs(sample - 1) for sample in measured.samples), "%")


def show_noise(page: Page, ratios: Mapping[str, Measurement]) -> None:
    """Show the ratios of the same code to itself, by what ran."""
    page.table(
        "noise",
        [
            {"what": name, "ratio": one, "single": _departure(one, f"departure from 1 of one pair: {name}")}
            for name, one in ratios.items()
        ],
        [
            Column("what", "What runs against itself"),
            Column("ratio", "Median ratio"),
            Column("single", "One pair is off by"),
        ],
        caption="The same code against itself: pairs of neighbouring samples, with the 95 % interval of their median.",
    )


def record_noise(page: Page, ratios: Mapping[str, Measurement]) -> None:
    """Record how far one pair of the first of the ``ratios`` is off, and whether all of them may be 1."""
    first = next(iter(ratios.values()))
    page.number("one-pair", _departure(first, "departure from 1 of one pair of the same code"))
    is_one = verdict_between_all(ratios.values(), 1, 1)
    page.word(
        "same-as-itself",
        "not all of them are 1" if is_one.verdict is Verdict.REFUTED else "none of them can be told from 1",
        because="it says whether 1 lies inside each of the three intervals above",
        numbers=["one-pair"],
    )


def record_repeats(page: Page) -> None:
    """Record by how much times and ratios vary from one process and moment to the next, as is known when it is called.

    Raises:
        ValueError: if nothing is known: the page itself looks when it begins.
    """
    known = known_variance()
    if known is None:
        raise ValueError("repeats must be known: make the Page first, which times them in fresh processes")
    of = f"from {known.processes} processes here and what other machines showed"
    for key, spread, what in (
        ("repeat-alone", known.alone, "the time of a call"),
        ("repeat-turns", known.interleaved, "the ratio of two calls taken in turns"),
    ):
        page.number(
            key,
            Modelled(
                spread,
                "%",
                f"standard deviation between repeats of {what}, {of}",
                "Student's quantile of what a few processes differ by",
            ),
        )


@dataclass(frozen=True, slots=True)
class Alarms:
    """What a rule said in comparisons of a program with itself, one after the other.

    Attributes:
        rule: it, in words.
        said: of each comparison `DIFFERENT`, a false alarm; `ALIKE` to a hundredth; or `UNDECIDED`.
    """

    rule: str
    said: tuple[str, ...]

    @property
    def rate(self) -> Statistic:
        """Share of false alarms, with the exact interval of as many independent comparisons as these are worth."""
        alarms = tuple(float(word == DIFFERENT) for word in self.said)
        share, worth = float(np.mean(alarms)), max(1, round(dependence(alarms).effective))
        conditions = Conditions(statistic="mean", interval_by=f"Clopper and Pearson, {worth} independent comparisons")
        bounds = share_interval(round(share * worth), worth)
        return Statistic(f"false alarms of {self.rule}", alarms, "%", conditions, value=share, bounds=bounds)


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
        Alarms(f"{runs} runs, then {runs} runs, t-test", tuple(in_sequence)),
        Alarms(f"{runs} pairs in turns, interval of the ratio", tuple(in_turns)),
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
    if found.pvalue < _ASKED_FOR:
        return DIFFERENT
    reach = found.confidence_interval(1 - _ASKED_FOR)
    return ALIKE if max(-reach.low, reach.high) <= _HUNDREDTH * first.mean() else UNDECIDED


def _by_pairs(first: npt.NDArray[np.float64], second: npt.NDArray[np.float64]) -> str:
    """Return what `compare_paired` says of the pairs of two series of times."""
    verdict = compare_paired(first, second, _HUNDREDTH).verdict
    if verdict in (Verdict.FASTER, Verdict.SLOWER):
        return DIFFERENT
    return ALIKE if verdict is Verdict.NO_DIFFERENCE else UNDECIDED


def record_false_alarms(page: Page, in_sequence: Alarms, in_turns: Alarms) -> None:
    """Record what either rule said of a program beside itself, and the claim on ten runs."""
    page.table(
        "false-alarms",
        [
            {
                "rule": rule.rule,
                "trials": len(rule.said),
                **{word: rule.said.count(word) for word in (DIFFERENT, ALIKE, UNDECIDED)},
                "rate": rule.rate,
            }
            for rule in (in_sequence, in_turns)
        ],
        [
            Column("rule", "Rule"),
            Column("trials", "Comparisons", "1"),
            Column(DIFFERENT, "Called different", "1"),
            Column(ALIKE, "Alike to a hundredth", "1"),
            Column(UNDECIDED, "Left open", "1"),
            Column("rate", "False alarms"),
        ],
        caption="What each rule made of the same times of one program, dealt to two sides. To call the program "
        "different from itself is a false alarm.",
    )
    for key, rule in (("sequence-rate", in_sequence), ("turns-rate", in_turns)):
        page.number(key, rule.rate)
    too_many = verdict_between(in_sequence.rate, high=_ASKED_FOR)
    few_enough = verdict_between(in_sequence.rate, high=_AS_ASKED_FOR)
    refuted = too_many.verdict is Verdict.REFUTED or few_enough.verdict is Verdict.REFUTED
    page.claim(
        "ten-runs",
        statement="Ten runs of each, one after the other, are enough to compare two programs without false alarms.",
        source=COURSE_BENCHMARKING,
        source_url=COURSE_BENCHMARKING_FOLDER_URL,
        quote="def __init__(self, warmup_runs=5, measurement_runs=10) … Test statistical significance (t-test, "
        "p < 0.05)",
        verdict=too_many if refuted else few_enough,
        evidence="A test should raise a false alarm in one of twenty comparisons. The share of them in which it did: "
        "{sequence-rate}; for pairs in turns, of the same times: {turns-rate}. More than one of twenty for sure "
        "refutes the claim, at most two for sure support it. Whether ten runs see a difference that is there "
        "was not asked.",
    )
