"""Records of what came of the capstone's ladders: each rung anew, three numbers of the end, and what was left out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

import numpy as np

from tinytorch.chapters.capstone.configuration import PLAIN, Configuration
from tinytorch.chapters.capstone.exercises import ALL_IN_CODES, BUDGET
from tinytorch.chapters.capstone.ladder import Ladder, Trial, became_of
from tinytorch.chapters.capstone.rule import BUDGET_WORDS, Outcome, Rule
from tinytorch.chapters.capstone.turns import Ladders
from tinytorch.chapters.capstone.workload import Workload, accuracy_change, predicted_bytes
from tinytorch.chapters.sources import COURSE_CAPSTONE, COURSE_CAPSTONE_README_URL, COURSE_CAPSTONE_URL
from tinytorch.perf.benchmarking import Performance, compare, plot_performance_comparison
from tinytorch.perf.engines import Raced, study
from tinytorch.perf.measuring import Counted, Derived, Measurement, Modelled, Unmeasured, ratio
from tinytorch.perf.measuring.comparison import Comparison, compare_all, compare_paired
from tinytorch.perf.measuring.judge import Judgement, verdict_of_any
from tinytorch.perf.profiling.breakdown import amdahl
from tinytorch.perf.quantization.accuracy import paired_difference_interval
from tinytorch.perf.quantization.tradeoff import accuracy_change as shown_change
from tinytorch.report import Column, Page, color, verdict_between
from tinytorch.report.figures import INK, subplots
from tinytorch.report.verdicts import words_of

#: What was measured of each configuration, by name, for each ladder.
Performances = Mapping[str, Mapping[str, Performance]]

#: The start, and the honest baseline that stands beside the rungs.
_START: Final = "plain"
_BASELINE: Final = "NumPy with a cache"
#: Our engines, and PyTorch with both ways to keep its cache.
_ENGINES = ("tinytorch", "tinytorch accelerated", "PyTorch eager", "PyTorch eager, cache concatenated")
RESULT_COLUMNS = (
    Column("rung", "Rung"),
    Column("predicted", "Step, predicted", "", modelled=True),
    Column("gained", "Step, measured anew", total="speedup"),
    Column("speedup", "Over the plain start"),
    Column("peak", "Peak memory"),
    Column("right", "Right of 2,000"),
)
_RESULT_CAPTION = {
    "one": "Every rung for one question, on one core. A step's gain is over the rung above it: as predicted in the "
    "turn that took it, and measured anew. Those measured anew multiply to the gain over the plain start. The last row "
    "is no rung.",
    "many": "The same for 64 questions.",
}
IMPROVEMENT_COLUMNS = (
    Column("questions", "Questions"),
    Column("speedup", "Speedup"),
    Column("verdict", "Verdict", judged=True),
    Column("memory", "Memory reduction"),
    Column("accuracy", "Change of right answers"),
)
DROPPED_COLUMNS = (
    Column("step", "Step"),
    Column("one", "One question"),
    Column("why-one", "Outcome"),
    Column("many", "64 questions"),
    Column("why-many", "Outcome"),
)
_WHY_DROPPED: Mapping[Outcome, str] = {
    Outcome.NOT_FASTER: "gains too little, or nothing",
    Outcome.NOT_PROVEN: "not proven to gain enough",
    Outcome.TOO_MANY_WRONG: "loses too many answers",
    Outcome.MAY_BE_TOO_MANY: "may lose too many answers",
    Outcome.PASSES: "passed, but another was faster",
}


def record_bytes(page: Page) -> None:
    """Record what 8 bits and sparse weights save in bytes, and the claim on the product of the two."""
    plain, coded, sparse = (
        Workload(1).ready(one).weight_bytes
        for one in (PLAIN, Configuration(weights="8-bit weights"), Configuration(model="sparse"))
    )
    what = "bytes of the weights in float32 over those in 8 bits, scales included"
    floats = Counted(plain, "B", "the weights in float32")
    page.number("eight-bits", floats.over(Counted(coded, "B", "the same in 8 bits"), what))
    what = "bytes of the weights over those with nine of ten removed, as CSR"
    page.number("nine-tenths", floats.over(Counted(sparse, "B", "a tenth of them as CSR"), what))
    product = plain**2 / (coded * sparse)
    page.number("bytes-product", Modelled(product, "", "product of the two ratios", "two ratios multiplied"))
    page.claim(
        "forty-times-smaller",
        statement="Eight bits and nine of ten weights pruned take a fortieth of the memory.",
        source=COURSE_CAPSTONE,
        source_url=COURSE_CAPSTONE_URL,
        quote="FP32 (4 bytes) → INT8 (1 byte) → 90% Pruning → 40× Memory Reduction",
        verdict=verdict_between(Counted(coded * sparse, "B²", "bytes times bytes"), high=plain**2 / 36),
        evidence="Eight bits make the GPT's weights {eight-bits} smaller, sparse storage without nine of ten "
        "{nine-tenths}. Multiplied that is {bytes-product}; a tenth less than 40 is allowed. The values alone would "
        "take a fortieth: what is left out are scales, and the place of each weight that stays.",
        counted=True,
    )


@dataclass(frozen=True)
class _Climbed:
    """A ladder whose rungs were measured once more, all of them in turns.

    Attributes:
        ladder: which it was.
        found: what was measured of each rung, and of the honest baseline.
        matters: relative difference of time that matters.
    """

    ladder: Ladder
    found: Mapping[str, Performance]
    matters: float

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
        return compare_all(self.seconds(_START), *others, matters=self.matters)

    def anew(self) -> dict[str, Measurement]:
        """Return what each step brings over the rung before it, by its name."""
        asked = self.ladder.workload.words
        return {
            name: ratio(self.seconds(before), self.seconds(name), f"{before} over {name}, {asked}")
            for before, name in pairwise(self.rungs)
        }


def record_results(page: Page, ladders: Ladders, results: Performances, rule: Rule) -> None:
    """Record every rung as it was measured once more, in tables and as a figure, and what its end improves."""
    climbed = {key: _Climbed(ladder, results[key], rule.matters) for key, ladder in ladders.items()}
    for key, one in climbed.items():
        _record_rungs(page, key, one)
    _record_improvement(page, climbed)
    _draw_three_numbers(page, climbed["many"])
    _record_bytes_off(page, ladders)
    _record_answers(page, climbed["many"], rule)
    anew = [
        again.median / one.taken[name].gained.estimate.median
        for one in climbed.values()
        for name, again in one.anew().items()
    ]
    if anew:
        what = (
            "geometric mean, over all steps taken, of the gain measured anew over the gain in the turn that took "
            "the step"
        )
        page.number(
            "anew",
            Derived(
                float(np.exp(np.mean(np.log(anew)))),
                "",
                what,
                tuple(again for one in climbed.values() for again in one.anew().values()),
                "gains of one build depend on one another in ways that no formula here knows",
            ),
        )
    else:
        page.absent("anew", reason="in this run no step was taken")


def record_tenfold(page: Page, ladders: Ladders, results: Performances) -> None:
    """Record the claim that one of speed and memory becomes ten times better, for one of the two ladders."""
    verdicts = []
    for key, ladder in ladders.items():
        end, found = [*ladder.rungs][-1], results[key]
        saved: Measurement = Counted(1, "", "no step passed")
        gained = saved
        if end != _START:
            change = compare(found[_START], found[end])
            saved, gained = change.memory.estimate, change.speedup.estimate
        what = f"peak memory of the plain start over that of the last rung, {ladder.workload.words}"
        page.number(f"saved-{key}", saved, what=what)
        verdicts += [verdict_between(each, low=10.0, together=2 * len(ladders)) for each in (gained, saved)]
    page.claim(
        "ten-times-faster",
        statement="With all optimizations a system becomes ten times as fast or takes a tenth of the memory.",
        source=COURSE_CAPSTONE,
        source_url=COURSE_CAPSTONE_README_URL,
        quote="Success Criteria: Complete working system with all optimizations; 10x+ improvement in speed OR memory",
        verdict=verdict_of_any(verdicts),
        evidence="For one question the last rung is {end-gain-one} as fast as the plain start, and its peak memory "
        "{saved-one} smaller. For 64 it is {end-gain-many} as fast, and its peak memory {saved-many} smaller. One of "
        "the four is enough. Over the honest baseline, NumPy with a cache, the speedups are {end-honest-one} and "
        "{end-honest-many}.",
    )


def _record_rungs(page: Page, key: str, climbed: _Climbed) -> None:
    """Record the rungs of one ladder, and how many times as fast the last one is as start and baseline."""
    gains, anew = climbed.over_start(), climbed.anew()
    rows = []
    for name in [*climbed.rungs, _BASELINE]:
        one, trial = climbed.found[name], climbed.taken.get(name)
        rows.append(
            {
                "rung": f"beside: {name}" if name == _BASELINE else name,
                "predicted": Modelled(trial.forecast.speedup, "", "speedup of the step", "Amdahl's law")
                if trial
                else None,
                "gained": anew.get(name),
                "speedup": gains[name].estimate if name in gains else None,
                "peak": one.memory,
                "right": _accuracy(one),
            }
        )
    page.table(
        f"result-{key}",
        rows,
        RESULT_COLUMNS,
        caption=_RESULT_CAPTION[key],
    )
    end = climbed.rungs[-1]
    seconds = climbed.seconds(end)
    page.number(f"end-{key}", seconds)
    if end in gains:
        page.number(f"end-gain-{key}", gains[end].estimate)
    else:
        page.number(f"end-gain-{key}", Counted(1, "", "no step passed: the last rung is the plain start"))
    page.compare(f"end-honest-{key}", compare_paired(climbed.seconds(_BASELINE), seconds, climbed.matters))


def _record_improvement(page: Page, climbed: Mapping[str, _Climbed]) -> None:
    """Record the three numbers of each ladder's end, against the honest baseline."""
    rows = []
    for one in climbed.values():
        change = compare(one.found[_BASELINE], one.found[one.rungs[-1]], one.matters)
        assert change.accuracy is not None
        name = "share right of the last rung less that of NumPy with a cache"
        rows.append(
            {
                "questions": str(one.ladder.workload.questions),
                "speedup": change.speedup.estimate,
                "verdict": page.judged(change.speedup),
                "memory": change.memory.estimate,
                "accuracy": change.accuracy.estimate.scaled(1, name=name),
            }
        )
    page.table(
        "improvement",
        rows,
        IMPROVEMENT_COLUMNS,
        caption="Three numbers from one run: the last rung against the honest baseline, NumPy with a cache.",
    )


def _draw_three_numbers(page: Page, climbed: _Climbed) -> None:
    """Draw time, peak memory and right answers of all rungs as the course does, and the honest baseline beside them."""
    figure, axes = subplots(3, 1, height=6.6)
    colors = {name: color("measured") for name in climbed.rungs}
    colors |= {_START: color("baseline"), _BASELINE: color("numpy")}
    shown = {name: climbed.found[name] for name in [_START, _BASELINE, *climbed.rungs[1:]]}
    plot_performance_comparison(shown, axes, colors, ink=INK)
    page.figure(
        "ladder",
        figure,
        caption="The ladder for 64 questions: time of a call, peak memory and right answers of the plain start, the "
        "honest baseline and every rung, with their intervals.",
        alt="Three bar charts of time, peak memory and accuracy, with a bar and an error bar for the plain start, for "
        "NumPy with a cache and for each rung.",
    )


def _record_bytes_off(page: Page, ladders: Ladders) -> None:
    """Record how far bytes as held are from what shapes say, over every configuration that the ladders tried."""
    off = []
    for ladder in ladders.values():
        for configuration in {trial.after for stage in ladder.stages for trial in stage.trials}:
            made = ladder.workload.ready(configuration)
            held = made.weight_bytes + made.cache_bytes
            off.append(abs(held / predicted_bytes(configuration, ladder.workload.questions) - 1))
    what = "largest difference of weights and cache as held from what the shapes say, all configurations tried"
    page.number("bytes-off", Counted(max(off), "%", what))


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
    on_budget = rule.within_budget(on_new)
    page.word(
        "end-holds",
        replace(on_budget, word=BUDGET_WORDS[on_budget.verdict]),
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
        row: dict[str, Measurement | Judgement | str | None] = {"step": name}
        for key, found in dropped.items():
            row[key] = found[name].gained.estimate if name in found else None
            not_tried = "taken" if name in taken[key] else "could not be tried"
            trial = found.get(name)
            became = became_of(trial, _WHY_DROPPED[trial.outcome]) if trial else None
            row[f"why-{key}"] = (
                words_of(page.withhold_if_disturbed(became, trial.gained.estimate)) if trial and became else not_tried
            )
        rows.append(row)
    page.table(
        "dropped",
        rows,
        DROPPED_COLUMNS,
        caption="Steps that a ladder tried alone and never took: the best gain of all its turns, which flatters the "
        "step, and what became of it. Where samples are few, the rule's interval is wider than "
        "the one shown.",
    )
    what = "steps that at least one of the two ladders tried and never took"
    page.number(
        "dropped-count",
        Derived(
            len(rows),
            "step" if len(rows) == 1 else "steps",
            what,
            tuple(trial.gained.estimate for found in dropped.values() for trial in found.values()),
            "it counts verdicts",
        ),
    )
    half = accuracy_change(PLAIN, Configuration(model="half of the units"))
    name = "share right with half of the units less that of the plain start"
    page.number("half-change", shown_change(half, name))
    on_budget = rule.within_budget(half)
    page.word(
        "half-holds",
        replace(on_budget, word=BUDGET_WORDS[on_budget.verdict]),
        because="the change is {half-change}, whose interval is held against the budget: one answer in a hundred",
    )


def race() -> dict[str, Raced] | Unmeasured:
    """Return the GPT in PyTorch and here as both write texts, by ladder, or why this build has no PyTorch."""
    raced = study(_ENGINES, ["gpt-1", "gpt-64"], ["decode"], rounds=7)
    return raced if isinstance(raced, Unmeasured) else dict(zip(("one", "many"), raced, strict=True))


def record_race(page: Page, raced: Mapping[str, Raced] | Unmeasured) -> None:
    """Record how long PyTorch takes over one op a token here; absent without PyTorch."""
    if isinstance(raced, Unmeasured):
        page.absent("pytorch-one", "pytorch-many", reason=raced.reason)
        return
    for key, found in raced.items():
        eager = found.fastest(_ENGINES[2:])
        name = f"time of {eager.name} over one op a token, {key}"
        page.number(f"pytorch-{key}", ratio(eager, found.times["tinytorch accelerated"], name))


def record_questions(page: Page, ladders: Ladders, rule: Rule) -> None:
    """Record the numbers in the answers to the questions, and those that the last exercise names."""
    start = ladders["one"].stages[0].profile
    what = "Amdahl's limit if arithmetic and data took no time"
    page.number("q-vanish", Modelled(amdahl(start.work / start.whole, math.inf), "", what, "Amdahl's law"))
    ops = ladders["one"].stages[-1].profile.counted.ops
    what = "operations that a call of the last rung makes, one question"
    page.number("q-ops", ops, unit="operations", what=what)
    server = ladders["many"].workload
    last, coded = server.ready(ladders["many"].last), server.ready(ALL_IN_CODES)
    held = last.cache_bytes + last.weight_bytes
    page.number("held-many", Counted(held, "B", "weights and cache of the last rung, 64 questions"))
    what = "weights and cache of the distilled model, all in codes of 8 bits, 64 questions"
    page.number("held-codes", Counted(coded.cache_bytes + coded.weight_bytes, "B", what))
    what = "what the last exercise allows for weights and cache together"
    page.number("budget", BUDGET, unit="B", what=what)
    fewest = [lost for lost in range(21) if paired_difference_interval(0, lost, 2000).low >= -rule.accuracy_budget]
    what = "most lost answers of 2,000 whose interval lies within the budget, none gained"
    page.number("q-fewest", max(fewest), unit="answers", what=what)
