"""The page on the machine: what it is, its peaks and levels, what fresh memory costs, and what the noise hides."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tinytorch.chapters.sources import COURSE_BENCHMARKING, COURSE_BENCHMARKING_FOLDER_URL
from tinytorch.perf.host.identity import reported_capacities
from tinytorch.perf.host.pinned_threads import usable_cores
from tinytorch.perf.kernels.int8.instructions import DOTS
from tinytorch.perf.machine import Ceilings, Identity
from tinytorch.perf.machine.memory_ladder import Curve
from tinytorch.perf.measuring import Measurement, collector_off, interleave, ratio
from tinytorch.perf.measuring.comparison import EQUIVALENT, FASTER, SLOWER, compare_paired
from tinytorch.perf.measuring.statistics import Interval, share_interval
from tinytorch.report import Column, Page, format_number, line, subplots, verdict_between, verdict_of_all
from tinytorch.report.provenance import blas_threads_words, hosting_words, steering_words

ONE_CORE = "the process that built this page could use one core only: build it where there are two"
NO_CACHES = "whether the cache sizes that the system reports are yours cannot be asked of one that reports none"
NO_DOT_PRODUCT = (
    "whether INT8's peak is four times FP32's is said of an instruction that multiplies bytes and adds their products, "
    "which this CPU lacks"
)
#: Shares of the reported size, and of the ideal of all cores, that support the claims on them.
_MOST_OF_A_CACHE, _NEARLY_IDEAL = 0.75, 0.9
#: Rate of false alarms that a test at the level of 5 % has, and the most that still passes for it.
_ASKED_FOR, _AS_ASKED_FOR = 0.05, 0.08


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
    blas = [f"{one.label()}, {blas_threads_words(one.threads)}, of {one.of or 'the system'}" for one in made.blas]
    return [
        ("CPU", f"{made.cpu}, {made.vectors or 'vectors unknown'}"),
        ("Vector extensions", " ".join(made.extensions) or "unknown"),
        ("Cores", f"{made.cores_physical} physical, {made.cores_logical} logical, {made.cores_usable} usable"),
        ("Caches", ", ".join(f"L{level} {bytes_text(size)}" for level, size in caches.items()) or "not reported"),
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


def record_peaks(page: Page, one: Ceilings, several: Ceilings | None) -> None:
    """Show the most arithmetic that one thread did, and all cores together; ``several`` is None where there is one."""
    rows = [
        {"what": "FP32 arithmetic", "one": one.fp32_peak, "all": several and several.fp32_peak},
        {"what": "FP32 product, 2048 wide", "one": one.sgemm, "all": several and several.sgemm},
        {
            "what": f"INT8 arithmetic, by {one.int8_from}",
            "one": one.int8_peak.scaled(1, "FLOP/s"),
            "all": several and several.int8_peak.scaled(1, "FLOP/s"),
        },
    ]
    columns = [Column("what", "Operations a second"), Column("one", "One thread"), Column("all", "All cores")]
    page.table(
        "peaks",
        rows,
        columns if several else columns[:2],
        caption="The most arithmetic that this machine was seen to do; a multiply-add counts as two operations.",
    )


def record_levels(page: Page, one: Ceilings) -> None:
    """Show the levels of the memory, one thread."""
    columns = [
        Column("name", "Level"),
        Column("capacity", "Holds, as measured", "B"),
        Column("reported", "As reported", "B"),
        Column("read", "Read"),
        Column("copy", "Copy"),
        Column("triad", "Triad"),
        Column("latency", "Latency"),
    ]
    rows = [
        {
            "name": level.name,
            "capacity": level.capacity_measured,
            "reported": level.capacity_reported,
            "read": level.read,
            "copy": level.copy,
            "triad": level.triad,
            "latency": level.latency,
        }
        for level in one.levels
    ]
    page.table(
        "levels",
        rows,
        columns,
        caption="The levels of the memory, one thread: found from the curves below, beside what the system reports.",
    )


def record_ladder(page: Page, one: Ceilings) -> None:
    """Draw what one thread reaches over the working set, and record the clock and the cost of a page of memory."""
    streams: tuple[tuple[Curve, str], ...] = (("read", "forward"), ("copy", "backward"), ("triad", "update"))
    figure, axes = subplots(2, 1, height=5.4, sharex=True)
    for stream, variant in streams:
        points = one.curves[stream]
        line(
            axes[0],
            [point.working_set / 1024 for point in points],
            [point.reached for point in points],
            quantity="bandwidth",
            variant=variant,
            label=stream,
        )
    chase = one.curves["latency"]
    line(
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
    page.number("clock", one.clock)
    page.number("page-fault", one.page_fault)


def record_caches(page: Page, one: Ceilings) -> None:
    """Record how much of each cache's reported size was measured, and the claim on it."""
    shares = {
        level.name: level.capacity_measured / level.capacity_reported
        for level in one.levels
        if level.capacity_reported and level.capacity_measured
    }
    if not shares:
        page.absent("caches-are-yours", reason=NO_CACHES)
        return
    for name, share in shares.items():
        what = f"capacity of {name} as measured, of the reported one"
        page.number(f"capacity-{name.lower()}", share, unit="%", what=what)
    measured = ", ".join(f"{name}: {{capacity-{name.lower()}}}" for name in shares)
    page.claim(
        "caches-are-yours",
        statement="The cache sizes that the system reports are yours.",
        source="lscpu and /sys/devices/system/cache, taken at their word",
        verdict="supported" if all(share >= _MOST_OF_A_CACHE for share in shares.values()) else "refuted",
        evidence=f"As measured they hold {measured} of what is reported; three quarters of each would support it.",
    )


def record_int8(page: Page, one: Ceilings) -> None:
    """Record the peak of 8-bit arithmetic over that of floats; the claim on it is one on dot-product instructions."""
    page.number("int8-over-fp32", ratio_of_peaks(one))
    if not multiplies_bytes(one):
        page.absent("int8-four-times", reason=NO_DOT_PRODUCT)
        return
    page.claim(
        "int8-four-times",
        statement="The peak of INT8 arithmetic is four times that of FP32.",
        source="A. Rodriguez et al., Lower Numerical Precision Deep Learning Inference and Training, Intel 2018",
        source_url="https://software.intel.com/content/www/us/en/develop/articles/lower-numerical-precision-deep-learning-inference-and-training.html",
        verdict=verdict_between(ratio_of_peaks(one), 3.6, 4.4),
        evidence="On this processor it is {int8-over-fp32}; within a tenth of four would support it.",
    )


def multiplies_bytes(one: Ceilings) -> bool:
    """Return whether the peak of 8-bit arithmetic is that of an instruction that multiplies bytes and adds products."""
    return any(dot.name == one.int8_from and dot.is_dot_product for dot in DOTS)


def ratio_of_peaks(one: Ceilings) -> Measurement:
    """Return the peak of 8-bit arithmetic over the peak of float32, as a number without unit."""
    return one.int8_peak.scaled(1 / one.fp32_peak.median, "", "peak of 8-bit products over that of float32")


def record_cores(page: Page, one: Ceilings, several: Ceilings | None) -> None:
    """Record what all cores do over one, and the claim on it; on one core nothing is said of a second one."""
    if several is None:
        page.absent("cores-arithmetic", "cores-bandwidth", "cores", reason=ONE_CORE)
        page.absent("second-core", reason=f"whether a second core doubles speed, as {ONE_CORE}")
        return
    arithmetic = several.fp32_peak.scaled(1 / one.fp32_peak.median, "", "all cores over one, FP32 peak")
    read = several.levels[-1].read.scaled(1 / one.levels[-1].read.median, "", "all cores over one, memory read")
    page.number("cores-arithmetic", arithmetic)
    page.number("cores-bandwidth", read)
    page.number("cores", several.threads, unit="cores", what="cores that this process may use")
    needed = _NEARLY_IDEAL * several.threads
    page.claim(
        "second-core",
        statement="The second core doubles speed: twice the cores are twice as fast.",
        source="the ideal that G. M. Amdahl's law starts from, AFIPS 1967",
        source_url="https://doi.org/10.1145/1465482.1465560",
        verdict=verdict_of_all(verdict_between(each, low=needed) for each in (arithmetic, read)),
        evidence="With {cores} arithmetic became {cores-arithmetic} faster and reading memory {cores-bandwidth}; "
        "nine tenths of the ideal in both would support it.",
    )


def record_fresh(page: Page, sums: Mapping[str, Mapping[str, Measurement]], counts: Mapping[str, int]) -> None:
    """Record what a sum into a new array costs over one into an array that is there, and the claim on it.

    Args:
        page: that records.
        sums: times of the "small" and the "large" sum, into a "new" array and into the "same".
        counts: numbers that each adds up.
    """
    rows, judged = [], {}
    for name, times in sums.items():
        judged[name] = compare_paired(times["new"], times["same"])
        page.compare(f"fresh-{name}", judged[name])
        faults = float(times["new"].how["minor_page_faults_per_call"])
        page.number(
            f"fresh-{name}-faults",
            faults,
            unit="page faults",
            what=f"minor page faults of a sum of {counts[name]} numbers into a new array, a call",
        )
        rows.append({"size": 4 * counts[name], **times, "ratio": judged[name].ratio, "faults": faults})
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
    page.claim(
        "fresh-is-free",
        statement="A result array allocated anew costs nothing.",
        source="the way in which NumPy expressions are usually written",
        verdict={FASTER: "refuted", EQUIVALENT: "supported"}.get(judged["large"].verdict, "cannot tell here"),
        evidence="A sum into a new array took {fresh-small} as long where it is small and {fresh-large} where it is "
        "large; the new large one met {fresh-large-faults} a call.",
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
            Column("ratio", "Ratio of the medians"),
            Column("single", "One pair is off by"),
        ],
        caption="The same code against itself: pairs of neighbouring samples, with the 95 % interval of their median.",
    )


def record_noise(page: Page, ratios: Mapping[str, Measurement]) -> None:
    """Record how far one pair of the first of the ``ratios`` is off, and what all of them can resolve."""
    first = next(iter(ratios.values()))
    page.number("one-pair", _departure(first, "departure from 1 of one pair of the same code"))
    page.number(
        "resolvable",
        max(one.interval.half_width for one in ratios.values()),
        unit="%",
        what="widest half-width of the three intervals: a smaller difference cannot be told from noise",
    )
    page.word(
        "same-as-itself",
        "indistinguishable from 1" if all(1 in one.interval for one in ratios.values()) else "not all 1",
        because="it says whether 1 lies inside each of the three intervals above",
        numbers=["one-pair"],
    )


@dataclass(frozen=True, slots=True)
class FalseAlarms:
    """Count of comparisons of a program with itself, of ``trials``, that the rule called a difference."""

    rule: str
    alarms: int
    trials: int

    @property
    def rate(self) -> float:
        """Share of the trials with an alarm, 0 to 1."""
        return self.alarms / self.trials

    @property
    def interval(self) -> Interval:
        """Exact 95 % confidence interval of the rate, `share_interval`."""
        return share_interval(self.alarms, self.trials)


def _one_after_the_other(function: Callable[[], Any], runs: int) -> tuple[list[float], list[float]]:
    """Return seconds of ``runs`` calls, and then of ``runs`` calls more, each series after five that do not count."""
    series: list[list[float]] = []
    for _ in range(2):
        for _ in range(5):
            function()
        seconds = []
        for _ in range(runs):
            start = time.perf_counter_ns()
            function()
            seconds.append((time.perf_counter_ns() - start) * 1e-9)
        series.append(seconds)
    return series[0], series[1]


def false_alarms_in_sequence(function: Callable[[], Any], trials: int, runs: int = 10) -> FalseAlarms:
    """Return the false alarms of the usual rule: ten runs, then ten of the other, and Student's t-test below 5 %.

    Raises:
        ValueError: if ``trials`` is below 1 or ``runs`` below 2.
    """
    if trials < 1 or runs < 2:
        raise ValueError(f"trials must be at least 1 and runs at least 2, not {trials} and {runs}")
    from scipy.stats import ttest_ind  # takes longer to import than all else here

    alarms = 0
    with collector_off():
        for _ in range(trials):
            first, second = _one_after_the_other(function, runs)
            if np.var(first) + np.var(second) > 0:
                alarms += bool(ttest_ind(first, second).pvalue < 0.05)
    return FalseAlarms(f"{runs} runs, then {runs} runs, t-test", alarms, trials)


def false_alarms_in_turns(function: Callable[[], Any], trials: int, pairs: int = 30, seed: int = 0) -> FalseAlarms:
    """Return the false alarms of this book's rule: pairs in turns, judged by `comparison.compare_paired`.

    Raises:
        ValueError: if ``trials`` is below 1.
    """
    if trials < 1:
        raise ValueError(f"trials must be at least 1, not {trials}")
    alarms = 0
    for trial in range(trials):
        both = interleave({"once": function, "again": function}, repeats=pairs, warmup_seconds=0.05, seed=seed + trial)
        alarms += compare_paired(both["once"], both["again"]).verdict in (FASTER, SLOWER)
    return FalseAlarms(f"{pairs} pairs in turns, interval of the ratio", alarms, trials)


def record_false_alarms(page: Page, in_sequence: FalseAlarms, in_turns: FalseAlarms) -> None:
    """Record how often either rule called a program faster or slower than itself, and the claim on ten runs."""
    page.table(
        "false-alarms",
        [
            {
                "rule": rule.rule,
                "alarms": rule.alarms,
                "trials": rule.trials,
                "rate": rule.rate,
                "low": rule.interval.low,
                "high": rule.interval.high,
            }
            for rule in (in_sequence, in_turns)
        ],
        [
            Column("rule", "Rule"),
            Column("alarms", "False alarms", "1"),
            Column("trials", "Trials", "1"),
            Column("rate", "Rate", "%"),
            Column("low", "Interval from", "%"),
            Column("high", "to", "%"),
        ],
        caption="How often each rule called the same program faster or slower than itself, with the exact 95 % "
        "interval of the rate.",
    )
    for key, alarms in (("sequence-rate", in_sequence), ("turns-rate", in_turns)):
        page.number(key, alarms.rate, unit="%", what=f"false alarms of {alarms.rule}, {alarms.trials} trials")
    above, below = in_sequence.interval.low > _ASKED_FOR, in_sequence.interval.high <= _AS_ASKED_FOR
    page.claim(
        "ten-runs",
        statement="Ten runs of each, one after the other, are enough to compare two programs.",
        source=COURSE_BENCHMARKING,
        source_url=COURSE_BENCHMARKING_FOLDER_URL,
        verdict="refuted" if above else "supported" if below else "cannot tell here",
        evidence="A test that should raise a false alarm in one of twenty comparisons did in {sequence-rate} of them; "
        "pairs in turns did in {turns-rate}.",
    )
