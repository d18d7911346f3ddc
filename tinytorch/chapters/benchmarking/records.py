"""Records of the page on benchmarking, but for those of its suite: runs, tails, load, flaws, fixes, a regression."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tinytorch.chapters import calls
from tinytorch.chapters.benchmarking.bottlenecks import Bottleneck
from tinytorch.chapters.benchmarking.flaws import Flaw
from tinytorch.chapters.sources import (
    COURSE_BENCHMARKING,
    COURSE_BENCHMARKING_URL,
    COURSE_PROFILING,
    COURSE_PROFILING_URL,
)
from tinytorch.chapters.words import word_between
from tinytorch.perf.benchmarking import Change, Performance, ScenarioResult
from tinytorch.perf.measuring import Measurement, Statistic, quotient
from tinytorch.perf.measuring.comparison import SLOWER, Comparison
from tinytorch.perf.measuring.judge import CANNOT_TELL, REFUTED, SUPPORTED
from tinytorch.perf.measuring.statistics import Interval, samples_needed
from tinytorch.report import Column, Page, line, subplots, verdict_between

BATCH_COLUMNS = (
    Column("batch", "Batch", "1"),
    Column("latency", "Each image waits"),
    Column("rate", "Throughput"),
    Column("memory", "Peak memory"),
)
FLAW_COLUMNS = (
    Column("flaw", "Flaw"),
    Column("reported", "Speedup as published"),
    Column("fair", "In turns, on equal terms"),
    Column("verdict", "Fair verdict", judged=True),
)
BOTTLENECK_COLUMNS = (
    Column("model", "Found"),
    Column("share", "Share"),
    Column("fix", "Fix"),
    Column("before", "Before"),
    Column("after", "After"),
    Column("ratio", "Speedup"),
    Column("error", "Largest change of a result", "%"),
)
#: What the keys of the flaws end with, in the order in which they are done.
_FLAWS = ("straw", "threads", "cold", "best", "busy")
#: Share of intervals of 95 % that may miss: twice what they promise, as what they are held against is uncertain, too.
_BEYOND_ALLOWED = 0.1
#: Share of a normal distribution that lies more than three deviations above its middle.
_BEYOND_THREE = 0.00135


def record_processes(page: Page, within: Measurement, between: Measurement, beyond: Measurement, apart: float) -> None:
    """Record what fresh processes claim of their medians, and how far these lie apart.

    Args:
        page: what records them.
        within: what each claims to know its median within; ``between``, how far each median lies from that of all.
        beyond: share of processes that err by more than they claim.
        apart: share of pairs of processes whose intervals do not overlap.
    """
    page.number("within", within)
    page.number("between", between)
    what = "largest distance of a process's median from that of all"
    page.number("between-most", between.maximum, unit="%", what=what)
    page.number("beyond", beyond)
    page.number("apart", apart, unit="%", what="pairs of processes whose intervals do not overlap")
    page.word(
        "process-matters",
        {SUPPORTED: "no more than they admit", REFUTED: "more than they admit"}.get(
            verdict_between(beyond, high=_BEYOND_ALLOWED), CANNOT_TELL
        ),
        because="the intervals of {beyond} of the processes do not hold the median of the others, where one in twenty "
        "is promised; one in ten is allowed",
    )


def record_intervals(
    page: Page, series: Measurement, normal: Measurement, ranks: Measurement, far: Measurement
) -> None:
    """Record how often intervals of ten runs hold the truth, how many calls are far off, and the claims on both."""
    page.number("normal-coverage", normal)
    page.number("rank-coverage", ranks)
    page.number("far", far)
    page.number("series-mean", series.mean, unit="s", what="mean of all calls")
    page.number("series-median", calls.zoo_pass(series, "mlp", 1))
    page.claim(
        "ten-runs-and-a-mean",
        statement="Ten runs and a mean, with 1.96 standard errors to each side, give a 95 % interval.",
        source=COURSE_BENCHMARKING,
        source_url=COURSE_BENCHMARKING_URL,
        verdict=verdict_between(normal, low=0.94),
        evidence="The share of the intervals made of ten calls in a row that held the mean of all calls: "
        "{normal-coverage}. The share of intervals of the median, made of order statistics, that held the median of "
        "all: {rank-coverage}.",
    )
    page.claim(
        "becomes-normal",
        statement="Run often enough, measurements approach a normal distribution, whatever the noise is.",
        source=COURSE_BENCHMARKING,
        source_url=COURSE_BENCHMARKING_URL,
        verdict=verdict_between(far, high=2 * _BEYOND_THREE),
        evidence="Of all calls {far} lay more than three deviations above the median, where a normal distribution has "
        "0.13 in a hundred; twice that is allowed. More runs show the tail better, and do not remove it.",
    )


def record_resolution(page: Page, counts: Sequence[int], seen: Sequence[Measurement]) -> None:
    """Record the smallest difference that is ``seen`` with each of ``counts`` of pairs, as a figure and at its ends."""
    figure, ax = subplots(height=2.8)
    name = "smallest difference seen"
    line(ax, counts, seen, quantity=name, variant="measured", label="MLP, batch of 64")
    ax.set_xscale("log")
    ax.set_xticks(counts, [str(count) for count in counts])
    ax.set_yscale("log")
    ax.set_xlabel("pairs in turns (count)")
    page.figure(
        "resolution",
        figure,
        caption="The smallest difference that a number of pairs tells from nothing: the median of blocks of the same "
        "code against itself.",
        alt="Line of the smallest difference that can be seen over the number of pairs, on logarithmic axes.",
    )
    few, many = seen[0], seen[-1]
    page.number("seen-few", few)
    page.number("seen-many", many)
    what = "root of the ratio of the numbers of pairs"
    page.number("root-gain", (counts[-1] / counts[0]) ** 0.5, unit="", what=what, modelled=True)
    name = f"smallest difference seen by {counts[0]} pairs over that seen by {counts[-1]}"
    page.number("seen-gain", quotient(few, many, name))


def record_batches(page: Page, served: Performance) -> None:
    """Record what batches of the MLP buy and cost."""
    rows = [
        {
            "batch": size,
            "latency": calls.zoo_pass(served.seconds(size), "mlp", size),
            "rate": served.throughput[size],
            "memory": served.memory[size],
        }
        for size in served.batches
    ]
    page.table("batches", rows, BATCH_COLUMNS, caption="What a batch of the MLP buys and costs.")
    rates, name = served.throughput, "throughput at a batch of 256 over that of single images"
    page.number("rate-gain", quotient(rates[256], rates[1], name))
    name = "time of a batch of 256 over that of a single image"
    page.number("wait-gain", quotient(served.seconds(256), served.seconds(1), name))


def record_tails(page: Page, tail: Measurement, reported: Measurement, close: Measurement) -> None:
    """Record the 99th percentile of all calls, what a hundred of them report of it, and the claim that they can."""
    page.number("tail", tail)
    what = "smallest 99th percentile that a hundred calls reported"
    page.number("tail-least", reported.minimum, unit="s", what=what)
    what = "largest 99th percentile that a hundred calls reported"
    page.number("tail-most", reported.maximum, unit="s", what=what)
    page.number("tail-close", close)
    what = "chance that a hundred independent calls hold none of the slowest hundredth"
    page.number("tail-unseen", 0.99**100, unit="%", what=what, modelled=True)
    what = "fewest samples with a two-sided 95 % interval of the 99th percentile"
    page.number("tail-needed", samples_needed(99), unit="1", what=what)
    page.claim(
        "p99-from-100",
        statement="The 99th percentile can be reported from 100 runs.",
        source=f"{COURSE_PROFILING}, whose timer does so",
        source_url=COURSE_PROFILING_URL,
        verdict=verdict_between(close, low=0.9),
        evidence="All calls together have {tail}. A hundred in a row reported from {tail-least} to {tail-most}. They "
        "came within a tenth of the truth in {tail-close} of cases; nine in ten would support it.",
    )


def record_load(page: Page, capacity: float, loads: Sequence[float], answered: Sequence[ScenarioResult]) -> None:
    """Record what callers of the CNN wait at each of ``loads``, shares of its ``capacity`` in queries a second."""
    tails = [one.latencies.tail(99) for one in answered]
    percent = [100 * load for load in loads]
    figure, ax = subplots(height=2.8)
    medians = [one.latencies for one in answered]
    line(ax, percent, medians, quantity="latency", variant="measured", label="median")
    line(ax, percent, tails, quantity="latency", variant="gpt", label="99th percentile")
    ax.set_yscale("log")
    ax.set_xlabel("arrivals, of what could be answered (%)")
    ax.legend()
    page.figure(
        "load",
        figure,
        caption="What a caller of the CNN waits, by how much of its capacity is asked for: arrivals by chance, nothing "
        "batched.",
        alt="Two lines of latency over load, of the median and of the 99th percentile.",
    )
    what = "images that the CNN answers in a second, one after the other"
    page.number("capacity", capacity, unit="queries/s", what=what)
    page.number("load-low", tails[0])
    page.number("load-high", tails[-1])
    what = (
        f"of {len(loads)} loads: those at which 99 of 100 queries are proven to be answered within five times the "
        "time of one"
    )
    page.number("load-valid", sum(one.valid for one in answered), unit="1", what=what, derived=True)
    page.number("load-tried", len(loads), unit="1", what="loads that were offered")
    name = "99th percentile at the highest load over that at the lowest"
    page.number("load-rise", quotient(tails[-1], tails[0], name))


def record_flaws(page: Page, done: Sequence[Flaw]) -> None:
    """Record what flawed experiments publish, beside the same two functions compared fairly."""
    rows = []
    for flaw, key in zip(done, _FLAWS, strict=True):
        page.number(f"flaw-{key}", flaw.reported)
        page.compare(f"fair-{key}", flaw.fair)
        verdict, _ = page.noise.verdict(flaw.fair)
        rows.append({"flaw": flaw.name, "reported": flaw.reported, "fair": flaw.fair.ratio, "verdict": verdict})
    page.table(
        "flaws",
        rows,
        FLAW_COLUMNS,
        caption="Five flawed experiments, each done several times, beside the same two functions compared fairly.",
    )
    same = [flaw.reported for flaw in done if flaw.same_code]
    wrong = sum(verdict_between(each, 1.0, 1.0, together=len(same)) == REFUTED for each in same)
    what = "of the four experiments with one function as both: those whose published interval does not hold 1"
    page.number("flaws-count", wrong, unit="1", what=what, derived=True)


def record_bottlenecks(page: Page, fixed: Sequence[Bottleneck]) -> None:
    """Record three bottlenecks: what was found, predicted and done, and what that changed."""
    rows = []
    for one in fixed:
        page.compare(f"fixed-{one.model}", one.comparison)
        what = f"Amdahl's law for {one.found} in the {one.model.upper()}"
        page.number(f"predicted-{one.model}", one.predicted, unit="", what=what, modelled=True)
        rows.append(
            {
                "model": f"{one.model.upper()}: {one.found}",
                "share": one.share,
                "fix": one.fix,
                "before": one.before,
                "after": one.after,
                "ratio": one.comparison.ratio,
                "error": one.error,
            }
        )
    page.table(
        "bottlenecks",
        rows,
        BOTTLENECK_COLUMNS,
        caption="Three bottlenecks: what the recording showed, what was done about it, and what that changed in time "
        "and in results.",
    )


def record_regression(page: Page, again: Comparison, changed: Comparison) -> None:
    """Record the base against itself and against the change, and whether the regression is caught."""
    page.number("again", again.ratio)
    because = f"the same code again has the ratio {{again}}, and {again.because}"
    page.word("again-verdict", again.verdict, because=because)
    page.number("changed", changed.ratio)
    because = f"the changed code has the ratio {{changed}}, and {changed.because}"
    page.word("changed-verdict", changed.verdict, because=because)
    page.word("caught", "caught" if changed.verdict == SLOWER else "missed", because="the ratio is {changed}")


def record_questions(
    page: Page, normal: Measurement, seen: Sequence[Measurement], changes: Mapping[str, Mapping[str, Change]]
) -> None:
    """Record the numbers in the answers to the questions; ``changes`` are those of the suite, by model and variant."""
    held, name = normal.interval, "share of textbook intervals of ten runs that miss the mean of all"
    bounds = Interval(1 - held.high, 1 - held.low, held.confidence)
    missed = tuple(1 - each for each in normal.samples)
    page.number("q-miss", Statistic(name, missed, "%", normal.how, value=1 - normal.median, bounds=bounds))
    page.word(
        "q-hundredth",
        word_between(seen[-1], {"enough, with four hundred": (None, 0.01), "not enough": (0.01, None)}),
        because="four hundred pairs see {seen-many}",
    )
    faster = np.array([of_model["accelerated"].speedups[64].ratio.median for of_model in changes.values()])
    what = "geometric mean of the three models' speedups, accelerated"
    page.number("q-geometric", float(faster.prod() ** (1 / faster.size)), unit="", what=what)
    page.number("q-arithmetic", float(faster.mean()), unit="", what="arithmetic mean of the same")
