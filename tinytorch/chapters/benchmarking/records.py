"""Records of the page on benchmarking, but for those of its suite: runs, tails, load, flaws, fixes, a regression."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tinytorch.chapters.benchmarking.bottlenecks import Bottleneck
from tinytorch.chapters.benchmarking.flaws import Flaw
from tinytorch.chapters.sources import (
    COURSE_BENCHMARKING,
    COURSE_BENCHMARKING_URL,
    COURSE_PROFILING,
    COURSE_PROFILING_URL,
)
from tinytorch.perf.benchmarking import Change, Performance, ScenarioResult
from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.comparison import Comparison
from tinytorch.perf.measuring.statistics import samples_needed
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
    Column("verdict", "Fair verdict"),
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
#: Share of a normal distribution that lies more than three deviations above its middle.
_BEYOND_THREE = 0.00135


def record_processes(page: Page, within: Measurement, between: Measurement, apart: Measurement) -> None:
    """Record what fresh processes claim of their medians, and how far these lie apart."""
    page.number("within", within)
    page.number("between", between)
    what = "largest distance of a process's median from that of all"
    page.number("between-most", between.maximum, unit="%", what=what)
    page.number("apart", apart)
    page.word(
        "process-matters",
        "more than it admits" if between.maximum > 2 * within.median else "no more than it admits",
        because="the farthest median is off by {between-most}, where a process claims to know its own within {within}; "
        "twice that is allowed",
    )


def record_intervals(
    page: Page, series: Measurement, normal: Measurement, ranks: Measurement, far: Measurement
) -> None:
    """Record how often intervals of ten runs hold the truth, how many calls are far off, and the claims on both."""
    page.number("normal-coverage", normal)
    page.number("rank-coverage", ranks)
    page.number("far", far)
    page.number("series-mean", series.mean, unit="s", what="mean of all calls")
    page.number("series-median", series)
    page.claim(
        "ten-runs-and-a-mean",
        statement="Ten runs and a mean, with 1.96 standard errors to each side, give a 95 % interval.",
        source=COURSE_BENCHMARKING,
        source_url=COURSE_BENCHMARKING_URL,
        verdict=verdict_between(normal, low=0.94),
        evidence="Of the intervals made of ten calls in a row, {normal-coverage} held the mean of all calls; intervals "
        "of the median, made of order statistics, held the median of all in {rank-coverage}.",
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
    what = "smallest difference seen by 10 pairs over that seen by 400"
    page.number("seen-gain", few.median / many.median, unit="", what=what)


def record_batches(page: Page, served: Performance) -> None:
    """Record what batches of the MLP buy and cost."""
    rows = [
        {
            "batch": size,
            "latency": served.seconds(size),
            "rate": served.throughput[size],
            "memory": served.memory[size],
        }
        for size in served.batches
    ]
    page.table("batches", rows, BATCH_COLUMNS, caption="What a batch of the MLP buys and costs.")
    one, most = served.seconds(1), served.seconds(256)
    page.number("wait-one", one)
    page.number("wait-most", most)
    gain = served.throughput[256].median / served.throughput[1].median
    what = "throughput at a batch of 256 over that of single images"
    page.number("rate-gain", gain, unit="", what=what)
    what = "time of a batch of 256 over that of a single image"
    page.number("wait-gain", most.median / one.median, unit="", what=what)


def record_tails(page: Page, series: Measurement, tail: Measurement, reported: Measurement, close: Measurement) -> None:
    """Record the 99th percentile of all calls, what a hundred of them report of it, and the claim that they can."""
    page.number("tail", tail)
    what = "99th percentile over median, all calls"
    page.number("tail-ratio", tail.median / series.median, unit="", what=what)
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
        evidence="All calls together have {tail}. A hundred in a row reported from {tail-least} to {tail-most}, and "
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
    page.number("load-half", tails[2])
    page.number("load-high", tails[-1])
    what = (
        f"of {len(loads)} loads: those at which 99 of 100 queries are proven to be answered within five times the "
        "time of one"
    )
    page.number("load-valid", sum(one.valid for one in answered), unit="1", what=what, derived=True)
    page.number("load-tried", len(loads), unit="1", what="loads that were offered")
    what = "99th percentile at the highest load over that at the lowest"
    page.number("load-rise", tails[-1].median / tails[0].median, unit="", what=what)


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
    wrong = sum(flaw.same_code and 1 not in flaw.reported.interval for flaw in done)
    what = "of the four experiments with one function as both: those whose published interval does not hold 1"
    page.number("flaws-count", wrong, unit="1", what=what, derived=True)


def record_bottlenecks(page: Page, fixed: Sequence[Bottleneck]) -> None:
    """Record three bottlenecks: what was found, predicted and done, and what that changed."""
    rows = []
    for one in fixed:
        page.compare(f"fixed-{one.model}", one.comparison)
        page.number(f"share-{one.model}", one.share)
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
    because = "the changed code has the ratio {changed}"
    page.word("caught", "caught" if changed.verdict == "slower" else "missed", because=because)
    is_alarm = again.verdict in ("slower", "faster")
    because = "the same code again has the ratio {again}"
    page.word("alarm", "a false alarm" if is_alarm else "no false alarm", because=because)


def record_questions(
    page: Page, normal: Measurement, seen: Sequence[Measurement], changes: Mapping[str, Mapping[str, Change]]
) -> None:
    """Record the numbers in the answers to the questions; ``changes`` are those of the suite, by model and variant."""
    what = "share of textbook intervals of ten runs that miss the mean of all"
    page.number("q-miss", 1 - normal.median, unit="%", what=what)
    page.word(
        "q-hundredth",
        "enough, with four hundred" if seen[-1].median < 0.01 else "not enough",
        because="four hundred pairs see {seen-many}",
    )
    faster = np.array([of_model["accelerated"].speedups[64].ratio.median for of_model in changes.values()])
    what = "geometric mean of the three models' speedups, accelerated"
    page.number("q-geometric", float(faster.prod() ** (1 / faster.size)), unit="", what=what)
    page.number("q-arithmetic", float(faster.mean()), unit="", what="arithmetic mean of the same")
