"""Records of the page on benchmarking, but for those of its suite: flaws, repeats, intervals, fixes, a regression."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import comb

from tinytorch.chapters import calls
from tinytorch.chapters.benchmarking.bottlenecks import TOGETHER, Bottleneck, Forecast
from tinytorch.chapters.benchmarking.flaws import Flaw
from tinytorch.chapters.benchmarking.runs import beyond_three_deviations
from tinytorch.chapters.sources import (
    COURSE_BENCHMARKING,
    COURSE_BENCHMARKING_URL,
    COURSE_PROFILING,
    COURSE_PROFILING_URL,
)
from tinytorch.perf.measuring import Counted, Derived, Measurement, Modelled, Statistic, difference, quotient
from tinytorch.perf.measuring.comparison import Comparison
from tinytorch.perf.measuring.judge import Judgement, Verdict, decided, verdict_of_all, word_between
from tinytorch.perf.measuring.statistics import Interval, samples_needed
from tinytorch.report import Column, Page, verdict_between
from tinytorch.report.figures import draw_line, subplots
from tinytorch.report.verdicts import words_of

#: Samples of the example that the page works by hand.
SAMPLES = 15
FLAW_COLUMNS = (
    Column("flaw", "Flaw"),
    Column("reported", "Speedup as published"),
    Column("fair", "In turns, on equal terms"),
    Column("verdict", "Fair verdict", judged=True),
)
COVERAGE_COLUMNS = (
    Column("interval", "Interval"),
    Column("promised", "Promised", "%", modelled=True),
    Column("shuffled", "Kept, calls shuffled"),
    Column("row", "Kept, calls in a row"),
)
FORECAST_COLUMNS = (
    Column("part", "Time"),
    Column("loop", "One by one, recorded"),
    Column("batch", "A batch, predicted", modelled=True),
    Column("stays", "A batch, if that time stays", modelled=True),
)
BOTTLENECK_COLUMNS = (
    Column("fix", "Found, and fixed"),
    Column("operations", "Operations, before / after", ""),
    Column("predicted", "Predicted", "", modelled=True),
    Column("ratio", "Measured"),
    Column("verdict", "The fix is", judged=True),
    Column("held", "The prediction is", judged=True),
)
#: The model whose fix the page follows step by step.
_FOLLOWED = "mlp"
#: What a prediction is that is proven to be off by more than a factor of 1.5.
_TOO_HIGH, _TOO_LOW = "too high", "too low"
#: What the keys of the flaws end with, in the order in which they are done.
_FLAWS = ("straw", "threads", "cold", "best", "busy")
#: Share of intervals of 95 % that may miss: twice what they promise, as what they are held against is uncertain, too.
_BEYOND_ALLOWED = 0.1
#: Share of intervals of 95 % that must hold, a hundredth less than they promise.
_HOLD_AT_LEAST = 0.94
#: Share of a normal distribution that lies more than three deviations above its middle.
_BEYOND_THREE = 0.00135
#: Tests of a change a day, and confidence of each, of which the page counts false alarms.
_TESTS = 14


def missed(outside: int, samples: int = SAMPLES) -> float:
    """Return the chance that the median lies beyond the pair that leaves ``outside`` samples on each side."""
    return 2 * sum(comb(samples, below) for below in range(outside + 1)) / 2**samples


def record_processes(page: Page, within: Measurement, between: Measurement, beyond: Measurement) -> None:
    """Record what fresh processes claim of their medians, and how far these lie apart.

    Args:
        page: what records them.
        within: what each claims to know its median within; ``between``, how far each median lies from that of all.
        beyond: share of processes that err by more than they claim.
    """
    page.number("within", within)
    page.number("between", between)
    page.number("beyond", beyond)
    what = "fresh processes whose interval does not hold the median of the others"
    page.number("erring", Derived(round(beyond.median * beyond.n), "1", what, (beyond,), "it is a count"))
    page.number("processes", beyond.n, unit="1", what="fresh processes")
    page.word(
        "process-matters",
        verdict_between(beyond, high=_BEYOND_ALLOWED).called(
            supported="no more than they admit", refuted="more than they admit"
        ),
        because="{erring} of {processes} processes have an interval that does not hold the median of the others, where "
        "one in twenty is promised; one in ten is allowed",
        numbers=("beyond",),
    )


def record_example(page: Page, samples: Sequence[float], ends: tuple[float, float]) -> None:
    """Record the interval that the page's own function makes of fifteen calls, and several comparisons' false alarms.

    Raises:
        ValueError: if it is not the fourth and the twelfth of fifteen, which the page works by hand.
    """
    ordered = sorted(samples)
    if len(ordered) != SAMPLES or ends != (ordered[3], ordered[11]):
        raise ValueError(f"ends must be the 4th and the 12th of {SAMPLES} samples, not {ends} of {len(ordered)}")
    taken, end = (Measurement("fifteen calls of the MLP", tuple(samples), "s"),), "it is the end of one"
    page.number("example-low", Derived(ends[0], "s", "the fourth smallest of fifteen calls of the MLP", taken, end))
    page.number("example-high", Derived(ends[1], "s", "the twelfth smallest of the same", taken, end))
    what = f"chance of a false alarm in {_TESTS} independent comparisons, each with one of twenty"
    page.number("alarms", Modelled(1 - 0.95**_TESTS, "%", what, "independent comparisons"))


def record_coverage(page: Page, found: Mapping[str, Sequence[Measurement]]) -> None:
    """Record how often intervals hold the truth: of shuffled calls and of calls in a row, for "rank" and "normal"."""
    promised = {"rank": ("median, fifteen calls by ranks", 1 - missed(3)), "normal": ("mean, ten calls, 1.96", 0.95)}
    rows = []
    for key, (shuffled, in_a_row) in found.items():
        page.number(f"{key}-shuffled", shuffled)
        page.number(f"{key}-coverage", in_a_row)
        name, share = promised[key]
        rows.append(
            {
                "interval": name,
                "promised": Modelled(share, "%", name, "calls in random order"),
                "shuffled": shuffled,
                "row": in_a_row,
            }
        )
    page.table(
        "coverage",
        rows,
        COVERAGE_COLUMNS,
        caption="How often intervals hold what they are said to hold, the median or the mean of all calls of their "
        "process: the process in the middle, and between which ends others lie.",
    )
    page.word(
        "dependence-matters",
        verdict_between(found["rank"][1], low=_HOLD_AT_LEAST).called(supported="kept", refuted="broken"),
        because="{rank-coverage} of the intervals of calls in a row held the median of all; 94 of 100 would be enough",
    )


def record_turns(page: Page, in_sequence: Measurement, in_turns: Measurement) -> None:
    """Record by how much a program seems to differ from itself, one after the other and in turns."""
    page.number("apart-sequence", in_sequence)
    page.number("apart-turns", in_turns)
    saved = difference(in_sequence, in_turns, "what turns take from the difference of a program from itself")
    page.word(
        "turns-help",
        word_between(saved, {"smaller": (0, None), "larger": (None, 0)}),
        because="a program differs from itself by {apart-sequence} one after the other and by {apart-turns} in turns",
    )


def record_control(page: Page, tails: Sequence[Measurement]) -> None:
    """Record what the slowest hundredth waits at a low load and at half of the capacity, and whether that can be."""
    low, half = tails
    page.number("load-low", low)
    page.number("load-half", half)
    rise = quotient(half, low, "99th percentile at half of the capacity over that at a tenth")
    page.number("load-rise", rise)
    page.word(
        "control-holds",
        word_between(rise, {"passed": (1, None), "failed": (None, 1)}),
        because="the slowest hundredth take {load-rise} as long at half of the capacity as at a tenth of it, and a "
        "queue can only grow with load",
    )


def record_resolution(page: Page, counts: Sequence[int], seen: Sequence[Measurement]) -> None:
    """Record the smallest difference that is ``seen`` with each of ``counts`` of pairs, as a figure and at its ends."""
    figure, ax = subplots(height=2.8)
    name = "smallest difference seen"
    draw_line(ax, counts, seen, quantity=name, variant="measured", label="MLP, batch of 64")
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
    page.number(
        "root-gain", Modelled((counts[-1] / counts[0]) ** 0.5, "", what, "errors that fall with the root of the number")
    )
    name = f"smallest difference seen by {counts[0]} pairs over that seen by {counts[-1]}"
    page.number("seen-gain", quotient(few, many, name))


def record_flaws(page: Page, done: Sequence[Flaw]) -> None:
    """Record what flawed experiments publish, beside the same two functions compared fairly."""
    rows = []
    for flaw, key in zip(done, _FLAWS, strict=True):
        page.number(f"flaw-{key}", flaw.reported)
        page.compare(f"fair-{key}", flaw.fair)
        rows.append(
            {
                "flaw": flaw.name,
                "reported": flaw.reported,
                "fair": flaw.fair.estimate,
                "verdict": page.judged(flaw.fair),
            }
        )
    page.table(
        "flaws",
        rows,
        FLAW_COLUMNS,
        caption="Five flawed experiments, each done several times, beside a fair comparison: of the same function with "
        "itself, but for the straw man, where the baseline is the framework's own.",
    )
    wrong = sum(1.0 not in flaw.reported.interval for flaw in done if flaw.same_code)
    what = "of the four experiments with one function as both: those whose published interval does not hold 1"
    page.number(
        "flaws-count",
        Derived(wrong, "1", what, tuple(flaw.reported for flaw in done if flaw.same_code), "it counts verdicts"),
    )


def record_forecast(page: Page, law: Forecast) -> None:
    """Record what the law predicts of a batch instead of a loop, part by part, and if time between ops stayed."""
    many, few = law.operations
    page.number("operations-loop", many, unit="1", what="operations of the MLP for 64 images, one by one")
    page.number("operations-batch", few, unit="1", what="operations of the MLP for 64 images in a batch")
    page.table(
        "forecast",
        [
            {
                "part": "between operations",
                "loop": law.between,
                "batch": Modelled.by(
                    "the law of two parts",
                    law.between.scaled(1 / law.fewer, name="time between operations, by their number"),
                ),
                "stays": Modelled.by("time between operations that stays", law.between),
            },
            {
                "part": "in operations",
                "loop": law.inside[0],
                "batch": Modelled.by("the law of two parts", law.inside[1]),
                "stays": Modelled.by("time between operations that stays", law.inside[1]),
            },
            {
                "part": "both",
                "loop": law.before,
                "batch": Modelled.by("the law of two parts", law.after),
                "stays": Modelled.by("time between operations that stays", law.after_if_between_stays),
            },
        ],
        FORECAST_COLUMNS,
        caption="64 images through the MLP: the two parts of a recorded run, and what they should be in a batch. Of "
        "the batch only the time in operations was recorded.",
    )
    page.number("fix-predicted", Modelled.by("the law of two parts", law.speedup))
    page.number("fix-if-not", Modelled.by("the law of two parts", law.speedup_if_between_stays))


def record_bottlenecks(page: Page, fixed: Sequence[Bottleneck]) -> None:
    """Record three fixes, what was predicted and measured of each, and whether predictions miss as a recording would.

    A recording's own work is between operations, so that by the law its predictions err towards the ratio of the
    numbers of operations.
    """
    rows, sides = [], []
    for one in fixed:
        over = quotient(one.comparison.estimate, one.forecast.speedup, "speedup as measured over as predicted")
        held = _prediction_word(over)
        page.number(f"{one.model}-over", over)
        sides.append(_misses_towards(one, words_of(page.withhold_if_disturbed(held, over))))
        if one.model == _FOLLOWED:
            page.compare("fix", one.comparison)
            because = f"the measured one is {{{one.model}-over}} of it; within a factor of 1.5 counts as right"
            page.word("fix-held", held, because=because)
        rows.append(
            {
                "fix": f"{one.model.upper()}: {one.found}, by {one.fix}",
                "operations": Counted(one.forecast.fewer, "", "operations before over after"),
                "predicted": Modelled.by("the law of two parts", one.forecast.speedup),
                "ratio": one.comparison.estimate,
                "verdict": page.judged(one.comparison),
                "held": held,
            }
        )
    page.table(
        "bottlenecks",
        rows,
        BOTTLENECK_COLUMNS,
        caption="Three fixes: the numbers of operations, and how many times as fast each was predicted and measured to "
        "be. The intervals measured hold together.",
    )
    page.number(
        "largest-error",
        Counted(
            max(one.error for one in fixed), "%", "largest change of a result over the largest result, three fixes"
        ),
    )
    page.word(
        "misses-side",
        _of_those_that_miss(sides).called(supported="yes", refuted="no"),
        because="a prediction that is proven to miss should err towards the ratio of the numbers of operations",
        numbers=[f"{one.model}-over" for one in fixed],
    )


def _prediction_word(over: Measurement) -> Judgement:
    """Return whether a prediction is about right, too high or too low, by the measured over the predicted one."""
    words = {"about right": (1 / 1.5, 1.5), _TOO_HIGH: (None, 1 / 1.5), _TOO_LOW: (1.5, None)}
    return word_between(over, words, together=TOGETHER)


def _misses_towards(one: Bottleneck, held: str) -> Judgement | None:
    """Return whether a prediction that misses errs towards the ratio of operations, as a verdict; None if none does."""
    if held not in (_TOO_HIGH, _TOO_LOW):
        return None
    beyond = {_TOO_HIGH: (None, one.forecast.fewer), _TOO_LOW: (one.forecast.fewer, None)}
    side = word_between(one.comparison.estimate, beyond, together=TOGETHER)
    return side if side.verdict is Verdict.OPEN else Judgement(decided(side.word == held).verdict, side.tests)


def _of_those_that_miss(sides: Sequence[Judgement | None]) -> Judgement:
    """Return the verdict on all predictions that miss, which is open if none does."""
    return verdict_of_all(side for side in sides if side is not None)


def record_regression(page: Page, again: Comparison, changed: Comparison) -> None:
    """Record the base against itself and against the change, and whether the regression is caught."""
    page.number("again", again.estimate)
    because = f"the same code again has the ratio {{again}}, and {again.because}"
    page.word("again-verdict", again, because=because)
    page.number("changed", changed.estimate)
    because = f"the changed code has the ratio {{changed}}, and {changed.because}"
    page.word("changed-verdict", changed, because=because)
    page.word("caught", "caught" if changed.verdict == Verdict.SLOWER else "missed", because="the ratio is {changed}")


def record_slips(
    page: Page,
    series: Measurement,
    apart: Sequence[Measurement],
    normal: Sequence[Measurement],
    first: Measurement,
) -> None:
    """Record the course's sentences on repeats, each as a claim.

    Args:
        page: what records them.
        series: many calls of the MLP in a row.
        apart: the same of each of several processes.
        normal: share of textbook intervals of ten of these calls that hold the mean of all, shuffled and in a row.
        first: the first call of fresh processes over their steady ones.
    """
    far = beyond_three_deviations(apart, "calls more than three deviations above the median")
    page.number("far", far)
    page.number("series-median", calls.zoo_pass(series, "mlp", 1))
    page.number("first-over-steady", first)
    page.claim(
        "ten-runs-and-a-mean",
        statement="Ten runs and 1.96 standard errors to each side of their mean give a 95 % interval.",
        source=COURSE_BENCHMARKING,
        source_url=COURSE_BENCHMARKING_URL,
        quote="DEFAULT_MEASUREMENT_RUNS = 10  # Default measurement runs for statistical significance … "
        "# 95% confidence interval for the mean … t_score = 1.96  # Approximate for large samples",
        verdict=verdict_of_all(verdict_between(each, low=_HOLD_AT_LEAST) for each in normal),
        evidence="Of the intervals made of ten calls {normal-shuffled} held the mean of all calls where calls were "
        "shuffled, {normal-coverage} where they were in a row. The test asks for 94 in 100 both times. The course says "
        "that the factor is for large samples, and takes ten.",
    )
    page.claim(
        "becomes-normal",
        statement="Run often enough, measurements approach a normal distribution, whatever the noise is.",
        source=COURSE_BENCHMARKING,
        source_url=COURSE_BENCHMARKING_URL,
        quote="When you run a model many times, the distribution of measurements approaches normal (regardless of the "
        "underlying noise distribution).",
        verdict=verdict_between(far, high=2 * _BEYOND_THREE),
        evidence="Of all calls {far} lay more than three deviations above the median. A deviation is the median "
        "distance from the median, scaled so that for normal noise it is the standard one. A normal distribution has "
        "0.13 in a hundred there; twice that is allowed. It is the mean of many independent runs that approaches "
        "normal, not the runs.",
    )
    what = "chance that a hundred independent calls hold none of the slowest hundredth"
    page.number("tail-unseen", Modelled(0.99**100, "%", what, "independent calls"))
    what = "fewest samples with a two-sided 95 % interval of the 99th percentile"
    page.number("tail-needed", samples_needed(99), unit="1", what=what)
    page.claim(
        "p99-from-100",
        statement="A hundred runs give the 99th percentile with a confidence interval.",
        source=COURSE_PROFILING,
        source_url=COURSE_PROFILING_URL,
        quote="stats = timer.measure(model.forward, warmup=3, runs=100)  # Returns: mean, std, p50, p95, p99 with "
        "confidence intervals",
        verdict=decided(samples_needed(99) <= 100),
        evidence="All of a hundred independent calls lie below that percentile with a chance of {tail-unseen}, so that "
        "nothing bounds it from above. An interval that is right in nineteen cases of twenty takes {tail-needed}.",
        counted=True,
    )


def record_questions(page: Page, normal: Measurement, seen: Sequence[Measurement]) -> None:
    """Record the numbers in the answers to the questions."""
    held, name = normal.interval, "share of textbook intervals of ten runs that miss the mean of all"
    bounds = Interval(1 - held.high, 1 - held.low, held.confidence)
    missing = tuple(1 - each for each in normal.samples)
    page.number("q-miss", Statistic(name, missing, "%", normal.conditions, value=1 - normal.median, bounds=bounds))
    page.word(
        "q-hundredth",
        word_between(seen[-1], {"enough, with two hundred": (None, 0.01), "not enough": (0.01, None)}),
        because="the median block of two hundred pairs sees {seen-many}",
    )
