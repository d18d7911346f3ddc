"""Records of what came of the capstone's ladders: products of gains, cores, each rung anew, and what was left out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from matplotlib.axes import Axes

from tinytorch.chapters.benchmarking.report import share_words
from tinytorch.chapters.capstone.configuration import GOOD_BASELINE, PLAIN, Configuration
from tinytorch.chapters.capstone.exercises import ALL_IN_CODES, BUDGET
from tinytorch.chapters.capstone.ladder import Ladder, Trial
from tinytorch.chapters.capstone.rule import BUDGET_WORDS, Outcome, Rule
from tinytorch.chapters.capstone.rungs import COMBINED
from tinytorch.chapters.capstone.steps import Step
from tinytorch.chapters.capstone.turns import Ladders
from tinytorch.chapters.capstone.workload import Workload, accuracy_change, predicted_bytes
from tinytorch.chapters.sources import COURSE_CAPSTONE, COURSE_CAPSTONE_README_URL, COURSE_CAPSTONE_URL
from tinytorch.perf.benchmarking import Performance
from tinytorch.perf.benchmarking.comparing import kept_of_product
from tinytorch.perf.engines import NotMeasured, Raced, study
from tinytorch.perf.host.pinned_threads import usable_cores
from tinytorch.perf.measuring import Measurement, quantity, ratio
from tinytorch.perf.measuring.comparison import Comparison, compare_all, compare_paired
from tinytorch.perf.profiling.breakdown import amdahl
from tinytorch.perf.quantization.accuracy import paired_difference_interval
from tinytorch.perf.quantization.tradeoff import accuracy_change as shown_change
from tinytorch.report import Column, Page, line, subplots, verdict_between, verdict_between_all

#: What was measured of each configuration, by name, for each ladder.
Performances = Mapping[str, Mapping[str, Performance]]

ONE_CORE = "the process that built this page could use one core only: build it where there are two"
#: The start, and the honest baseline that stands beside the rungs.
_START: Final = "plain"
_BASELINE: Final = "NumPy with a cache"
#: Our engines, and PyTorch with both ways to keep its cache.
_ENGINES = ("tinytorch", "tinytorch accelerated", "PyTorch eager", "PyTorch eager, cache concatenated")
RESULT_COLUMNS = (
    Column("rung", "Rung"),
    Column("predicted", "Step, predicted", "", modelled=True),
    Column("gained", "Step, anew"),
    Column("seconds", "A call"),
    Column("speedup", "Over the plain start"),
    Column("modelled", "Bytes by shapes", "B", modelled=True),
    Column("held", "Weights and cache", "B"),
    Column("peak", "Peak memory"),
    Column("right", "Right of 2,000"),
)
DROPPED_COLUMNS = (
    Column("step", "Step"),
    Column("one", "One question"),
    Column("why-one", "Outcome"),
    Column("many", "64 questions"),
    Column("why-many", "Outcome"),
)
_WHY_DROPPED: Mapping[Outcome, str] = {
    "not faster": "slower or no different",
    "cannot tell here": "not proven faster",
    "too many wrong": "may lose too many answers",
    "passes": "passed, but another was faster",
}


def record_product(page: Page, ladders: Ladders, parts: Sequence[Step], together: Performances) -> None:
    """Record what ``parts`` bring by themselves and all of them together, and the claim that their gains multiply."""
    names = tuple(step.name for step in parts)
    rows, kept = [], []
    for key, found in together.items():
        workload = ladders[key].workload
        size = workload.questions
        kept.append(kept_of_product(found, _START, names, COMBINED, batch=size))
        page.number(f"kept-{key}", kept[-1])
        plain = found[_START].seconds(size)
        gains = {
            name: ratio(plain, found[name].seconds(size), f"plain start over {name}, {workload.words}")
            for name in (*names, COMBINED)
        }
        product = float(np.prod([gains[name].median for name in names]))
        page.number(f"combined-{key}", gains[COMBINED])
        rows.append({"questions": str(size), **gains, "product": product, "kept": kept[-1]})
    columns = [
        Column("questions", "Questions"),
        *[Column(name, name.capitalize()) for name in names],
        Column("product", "Product", "", modelled=True),
        Column(COMBINED, "All together"),
        Column("kept", "Together over the product"),
    ]
    caption = "Steps by themselves, the product of their speedups, and all of them together, in turns."
    page.table("product", rows, columns, caption=caption)
    page.claim(
        "optimizations-multiply",
        statement="Optimizations multiply: together they bring the product of what each brings alone.",
        source=f"{COURSE_CAPSTONE}, which multiplies the savings of 8 bits and of pruning",
        source_url=COURSE_CAPSTONE_URL,
        verdict=verdict_between_all(kept, 0.9, 1.1),
        evidence="For one question all together brought {combined-one}, which is {kept-one} the product of what each "
        "brought alone. For 64 questions they brought {combined-many}, {kept-many} the product. Within a tenth of it, "
        "both times, would support the claim.",
    )


def record_bytes(page: Page) -> None:
    """Record what 8 bits and sparse weights save in bytes, and the claim on the product of the two."""
    plain, coded, sparse = (
        Workload(1).ready(one).weight_bytes
        for one in (PLAIN, Configuration(weights="8-bit weights"), Configuration(model="sparse"))
    )
    what = "bytes of the weights in float32 over those in 8 bits, scales included"
    page.number("eight-bits", plain / coded, unit="", what=what)
    what = "bytes of the weights over those with nine of ten removed, as CSR"
    page.number("nine-tenths", plain / sparse, unit="", what=what)
    product = plain**2 / (coded * sparse)
    page.number("bytes-product", product, unit="", what="product of the two ratios", modelled=True)
    page.claim(
        "forty-times-smaller",
        statement="Eight bits and nine of ten weights pruned make a GPT 40 times smaller.",
        source=COURSE_CAPSTONE,
        source_url=COURSE_CAPSTONE_URL,
        verdict=verdict_between(quantity(coded * sparse, "B²", "bytes times bytes"), high=plain**2 / 36),
        evidence="Eight bits make the weights {eight-bits} smaller, sparse storage without nine of ten {nine-tenths}. "
        "Even if that multiplied it would be {bytes-product}; a tenth less than 40 is allowed.",
    )


def record_cores(page: Page, ladders: Ladders, cores: Mapping[str, Comparison | None]) -> None:
    """Record what all cores bring to the last rungs, beside Amdahl's law; absent where there is one core."""
    for key, found in cores.items():
        if found is None:
            page.absent(f"cores-{key}", f"cores-{key}-verdict", reason=ONE_CORE)
        else:
            page.compare(f"cores-{key}", found)
    for key, ladder in ladders.items():
        profile = ladder.stages[-1].profile
        predicted = amdahl(profile.work / profile.whole, len(usable_cores()))
        what = "Amdahl's law if all cores shared all arithmetic and data of the last rung"
        page.number(f"cores-predicted-{key}", predicted, unit="", what=what, modelled=True)


@dataclass(frozen=True)
class _Climbed:
    """A ladder whose rungs were measured once more, all of them in turns.

    Attributes:
        ladder: which it was.
        found: what was measured of each rung, and of the honest baseline.
        delta: relative difference of time that does not matter.
    """

    ladder: Ladder
    found: Mapping[str, Performance]
    delta: float

    @property
    def rungs(self) -> list[str]:
        """Names of the rungs, from the plain start to the last."""
        return [*self.ladder.rungs]

    @property
    def taken(self) -> dict[str, Trial]:
        """The trial that led to each rung, by its name."""
        return {stage.taken.name: stage.taken for stage in self.ladder.stages if stage.taken}

    def seconds(self, name: str) -> Measurement:
        """Return the seconds of a call."""
        return self.found[name].seconds(self.ladder.workload.questions)

    def over_start(self) -> dict[str, Comparison]:
        """Return each of the others against the plain start; their intervals hold together."""
        others = [self.seconds(name) for name in self.found if name != _START]
        return compare_all(self.seconds(_START), *others, delta=self.delta)

    def anew(self) -> dict[str, Measurement]:
        """Return what each step brings over the rung before it, by its name."""
        asked = self.ladder.workload.words
        return {
            name: ratio(self.seconds(before), self.seconds(name), f"{before} over {name}, {asked}")
            for before, name in pairwise(self.rungs)
        }


def record_results(page: Page, ladders: Ladders, results: Performances, rule: Rule) -> None:
    """Record every rung as it was measured once more, in tables and as a figure, and the claim on the whole gain."""
    climbed = {key: _Climbed(ladder, results[key], rule.delta) for key, ladder in ladders.items()}
    figure, axes = subplots(2, 1, height=5.6)
    end_gains = []
    for ax, (key, one) in zip(axes, climbed.items(), strict=True):
        end_gains.append(_record_rungs(page, key, one))
        _draw_path(ax, one)
    page.figure(
        "ladder",
        figure,
        caption="Both ladders, from the plain start, which is point 1: time of a call, and the most memory that it "
        "holds. Down and to the left is better.",
        alt="Two panels, for one question and for 64, each with a path of numbered points from the plain start to the "
        "last rung, over the time of a call on a logarithmic axis and its peak memory; a single point beside it shows "
        "NumPy with a cache.",
    )
    _record_bytes_off(page, ladders)
    _record_answers(page, climbed["many"], rule)
    anew = [
        again.median / one.taken[name].gained.ratio.median
        for one in climbed.values()
        for name, again in one.anew().items()
    ]
    if anew:
        what = (
            "geometric mean, over all steps taken, of the gain measured anew over the gain in the turn that took "
            "the step"
        )
        page.number("anew", float(np.exp(np.mean(np.log(anew)))), unit="", what=what)
    else:
        page.absent("anew", reason="in this run no step was taken")
    page.claim(
        "ten-times-faster",
        statement="A model to which all optimizations are applied becomes ten times as fast or more.",
        source="After the TinyTorch course, module 20, Capstone, whose criterion of success is ten times or more in "
        "speed or memory",
        source_url=COURSE_CAPSTONE_README_URL,
        verdict=verdict_between_all(end_gains, low=10.0),
        evidence="The last rung is {end-gain-one} as fast as the plain start for one question and {end-gain-many} for "
        "64. Over NumPy with a cache, the honest baseline, it is {end-honest-one} and {end-honest-many}. The test asks "
        "for ten over the plain start, both times.",
        numbers=[f"gain-{key}-{len(ladder.stages)}" for key, ladder in ladders.items()],
    )


def _record_rungs(page: Page, key: str, climbed: _Climbed) -> Measurement:
    """Record the rungs of one ladder, and return how many times as fast the last one is as the plain start."""
    workload, gains, anew = climbed.ladder.workload, climbed.over_start(), climbed.anew()
    rows = []
    for name, configuration in {**climbed.ladder.rungs, _BASELINE: GOOD_BASELINE}.items():
        one, trial, made = climbed.found[name], climbed.taken.get(name), workload.ready(configuration)
        accuracy = _accuracy(one)
        rows.append(
            {
                "rung": f"beside: {name}" if name == _BASELINE else name,
                "predicted": trial.forecast.speedup if trial else None,
                "gained": anew.get(name),
                "seconds": climbed.seconds(name),
                "speedup": gains[name].ratio if name in gains else None,
                "modelled": predicted_bytes(configuration, workload.questions),
                "held": made.weight_bytes + made.cache_bytes,
                "peak": one.peak_memory,
                "right": share_words(accuracy.median, accuracy.interval),
            }
        )
    page.table(
        f"result-{key}",
        rows,
        RESULT_COLUMNS,
        caption=f"Every rung for {workload.words}, on one core. A step's gain is over the rung above it: as predicted "
        "in the turn that took it, and measured anew. Those measured anew multiply to the gain over the plain start; "
        "the predictions were made one by one. The last row is no rung.",
    )
    end = climbed.rungs[-1]
    seconds = climbed.seconds(end)
    page.number(f"end-{key}", seconds)
    if end in gains:
        gain: Measurement = gains[end].ratio
        page.number(f"end-gain-{key}", gain)
    else:
        gain = quantity(1, "", "no step passed: the last rung is the plain start")
        page.number(f"end-gain-{key}", 1.0, unit="", what=gain.name)
    page.compare(f"end-honest-{key}", compare_paired(climbed.seconds(_BASELINE), seconds, delta=climbed.delta))
    what = f"answers a second, last rung, {workload.words}"
    page.number(f"rate-{key}", seconds.per(workload.questions, "answers/s", what))
    return gain


def _draw_path(ax: Axes, climbed: _Climbed) -> None:
    """Draw the rungs of one ladder as a path over time and peak memory, and the honest baseline beside it."""
    times = [climbed.seconds(name).median * 1e3 for name in climbed.rungs]
    peaks = [climbed.found[name].peak_memory for name in climbed.rungs]
    named = [peak.scaled(1, name=name) for name, peak in zip(climbed.rungs, peaks, strict=True)]
    line(ax, times, named, quantity="peak memory", variant="measured", label="the ladder")
    beside = [climbed.found[_BASELINE].peak_memory]
    line(
        ax,
        [climbed.seconds(_BASELINE).median * 1e3],
        beside,
        quantity="peak memory",
        variant="numpy",
        label=_BASELINE,
    )
    unit = 2**20 if max(peak.median for peak in peaks) >= 2**20 else 2**10
    for number, (time, peak) in enumerate(zip(times, peaks, strict=True), 1):
        place = (time, peak.median / unit)
        ax.annotate(str(number), place, xytext=(5, 5), textcoords="offset points", fontsize=9.5)
    ax.set_xscale("log")
    ax.set_xlabel(f"time of a call, {climbed.ladder.workload.words} (ms)")
    ax.legend()


def _record_bytes_off(page: Page, ladders: Ladders) -> None:
    """Record how far bytes as held are from what shapes say, over every configuration that the ladders tried."""
    off = []
    for ladder in ladders.values():
        for configuration in {trial.after for stage in ladder.stages for trial in stage.trials}:
            made = ladder.workload.ready(configuration)
            held = made.weight_bytes + made.cache_bytes
            off.append(abs(held / predicted_bytes(configuration, ladder.workload.questions) - 1))
    what = "largest difference of weights and cache as held from what the shapes say, all configurations tried"
    page.number("bytes-off", max(off), unit="%", what=what)


def _record_answers(page: Page, climbed: _Climbed, rule: Rule) -> None:
    """Record the right answers of the last rung, and whether they hold on questions that kept no step."""
    end = climbed.ladder.last
    what = "share of the test questions that the last rung answers right, 64 questions"
    page.number("end-right", _accuracy(climbed.found[climbed.rungs[-1]]).scaled(1, "%", what))
    name = "share right of the last rung less that of the plain start"
    page.number("end-change", shown_change(accuracy_change(PLAIN, end), name))
    on_new = accuracy_change(PLAIN, end, new=True)
    name = "the same on 2,000 questions by which no step was kept and on which nothing was trained"
    page.number("end-change-new", shown_change(on_new, name))
    page.word(
        "end-holds",
        BUDGET_WORDS[rule.within_budget(on_new)],
        because="the change is {end-change-new}, whose interval is held against the budget: one answer in a hundred",
    )


def _accuracy(one: Performance) -> Measurement:
    assert one.accuracy is not None
    return one.accuracy


def record_dropped(page: Page, ladders: Ladders, rule: Rule) -> None:
    """Record the steps that a ladder tried alone and never took, and why, and what half of the units loses."""
    dropped = {key: ladder.dropped for key, ladder in ladders.items()}
    taken = {
        key: {step.name for stage in ladder.stages if stage.taken for step in stage.taken.move}
        for key, ladder in ladders.items()
    }
    rows = []
    for name in sorted({name for found in dropped.values() for name in found}):
        row: dict[str, Measurement | str | None] = {"step": name}
        for key, found in dropped.items():
            row[key] = found[name].gained.ratio if name in found else None
            not_tried = "taken" if name in taken[key] else "could not be tried"
            trial = found.get(name)
            row[f"why-{key}"] = page.told(_WHY_DROPPED[trial.outcome], trial.gained.ratio) if trial else not_tried
        rows.append(row)
    page.table(
        "dropped",
        rows,
        DROPPED_COLUMNS,
        caption="Steps that a ladder tried alone and never took: the best gain of all its turns, which flatters the "
        "step, and what became of it.",
    )
    what = "steps that at least one of the two ladders tried and never took"
    page.number("dropped-count", len(rows), unit="step" if len(rows) == 1 else "steps", what=what, derived=True)
    half = accuracy_change(PLAIN, Configuration(model="half of the units"))
    name = "share right with half of the units less that of the plain start"
    page.number("half-change", shown_change(half, name))
    page.word(
        "half-holds",
        BUDGET_WORDS[rule.within_budget(half)],
        because="the change is {half-change}, whose interval is held against the budget: one answer in a hundred",
    )


def race() -> dict[str, Raced] | NotMeasured:
    """Return the GPT in PyTorch and here as both write texts, by ladder, or why this build has no PyTorch."""
    raced = study(_ENGINES, ["gpt-1", "gpt-64"], ["decode"], rounds=7)
    return raced if isinstance(raced, NotMeasured) else dict(zip(("one", "many"), raced, strict=True))


def record_race(page: Page, raced: Mapping[str, Raced] | NotMeasured) -> None:
    """Record how long PyTorch takes over one op a token here; absent without PyTorch."""
    if isinstance(raced, NotMeasured):
        page.absent("pytorch-one", "pytorch-many", reason=raced.reason)
        return
    for key, found in raced.items():
        eager = found.fastest(_ENGINES[2:])
        name = f"time of {eager.name} over one op a token, {key}"
        page.number(f"pytorch-{key}", ratio(eager, found.times["tinytorch accelerated"], name))


def record_questions(page: Page, ladders: Ladders, rule: Rule) -> None:
    """Record the numbers in the answers to the questions, and those that the last exercise names."""
    for key, name in (("one", "q-vanish"), ("many", "q-vanish-many")):
        start = ladders[key].stages[0].profile
        what = "Amdahl's limit if arithmetic and data took no time"
        page.number(name, amdahl(start.work / start.whole, math.inf), unit="", what=what, modelled=True)
    ops = ladders["one"].stages[-1].profile.counted.ops
    what = "operations that a call of the last rung makes, one question"
    page.number("q-ops", ops, unit="operations", what=what)
    server = ladders["many"].workload
    last, coded = server.ready(ladders["many"].last), server.ready(ALL_IN_CODES)
    held = last.cache_bytes + last.weight_bytes
    what = "share of the cache in the bytes that the last rung holds, 64 questions"
    page.number("q-cache-share", last.cache_bytes / held, unit="%", what=what)
    page.number("held-many", held, unit="B", what="weights and cache of the last rung, 64 questions")
    what = "weights and cache of the distilled model, all in codes of 8 bits, 64 questions"
    page.number("held-codes", coded.cache_bytes + coded.weight_bytes, unit="B", what=what)
    what = "what the last exercise allows for weights and cache together"
    page.number("budget", BUDGET, unit="B", what=what)
    fewest = [lost for lost in range(21) if paired_difference_interval(0, lost, 2000).low >= -rule.accuracy_budget]
    what = "most lost answers of 2,000 whose interval lies within the budget, none gained"
    page.number("q-fewest", max(fewest), unit="answers", what=what)
