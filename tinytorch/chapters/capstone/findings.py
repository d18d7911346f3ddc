"""What the ladders show: how good predictions and choices were, pairs, and every rung measured anew."""

import math
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from tinytorch.chapters.capstone.ladder import Ladder, Rule, Trial
from tinytorch.perf.benchmarking import Performance, compare
from tinytorch.perf.benchmarking.performance import compare_with_first
from tinytorch.perf.engines.turns import study
from tinytorch.perf.host.background_load import BackgroundLoad
from tinytorch.perf.measuring import Counted, Derived, Measurement, Modelled, Unmeasured, judge, ratio
from tinytorch.perf.measuring.judge import Judgement, Verdict
from tinytorch.perf.measuring.statistics import CONFIDENCE, PairedShares, interval_of_law

#: The honest baseline that stands beside the rungs.
_BASELINE = "NumPy with a cache"
#: Our engines, and PyTorch with both ways to keep its cache.
_ENGINES = ("tinytorch", "tinytorch accelerated", "PyTorch eager", "PyTorch eager, cache concatenated")
_COUNTS = "it counts verdicts"


def _gains(trials: Iterable[Trial]) -> tuple[Measurement, ...]:
    return tuple(trial.gained.estimate for trial in trials)


def shared_work(one: Ladder, many: Ladder) -> Modelled:
    """Return the share of the work for many questions, if all else takes as long as for one."""
    between, calls, work = one.start.parts
    work *= many.workload.questions / one.workload.questions
    return Modelled(work / (between + calls + work), "%", "share of arithmetic and data", "as much time for all else")


def pairs_taken(ladders: Iterable[Ladder]) -> list[dict[str, Any]] | Unmeasured:
    """Return the pairs that were taken where no single step passed, with the trial of the first step alone before."""
    found = []
    for ladder in ladders:
        for before, stage in pairwise(ladder.stages):
            if stage.taken and len(stage.taken.move) > 1:
                alone = next(one for one in before.trials if one.move == stage.taken.move[:1])
                found.append({"questions": str(ladder.workload.questions), "taken": stage.taken, "alone": alone})
    return found or Unmeasured("in this run no pair was taken after another step")


def choices(ladders: Iterable[Ladder], background: BackgroundLoad) -> dict[str, Any]:
    """Return how well predictions chose; nothing is proven where other programs took the time from a gain.

    There are the ``turns`` that took something, those in which Amdahl's law is proven ``right``, and of all ``trials``
    how far the ``typical`` and the ``largest`` prediction were off, and of which step the ``worst`` was.
    """
    stages = [stage for ladder in ladders for stage in ladder.stages]
    trials = [trial for stage in stages for trial in stage.trials]
    by_law = [stage.choice for stage in stages if stage.choice]
    off = np.abs([math.log(trial.predicted.value / trial.gained.estimate.median) for trial in trials])

    def is_right(one: Judgement) -> bool:
        tested = (test.measurement.conditions for test in one.tests)
        return one.verdict is Verdict.SUPPORTED and not judge.is_disturbed(tested, background.cores())

    gains = _gains(trials)
    return {
        "turns": Derived(len(by_law), "1", "turns", gains, _COUNTS),
        "right": Derived(sum(map(is_right, by_law)), "1", "right turns", gains, _COUNTS),
        "trials": Counted(len(trials), "1", "moves that were predicted and measured"),
        "typical": Derived(math.exp(np.median(off)) - 1, "%", "median error", gains, "predictions err together"),
        "largest": Derived(math.exp(off.max()), "", "largest error", gains, "it is a largest one"),
        "worst": trials[int(off.argmax())].name,
    }


def rungs(ladder: Ladder, found: Mapping[str, Performance], rule: Rule) -> dict[str, dict[str, Any]]:
    """Return what was ``found`` of the rungs and of the honest baseline.

    On each are the trial that took it, and its gains over the one before and over the start, None where it has none.
    """
    trials, over = {trial.name: trial for trial in ladder.taken}, compare_with_first(found, rule.matters)
    gained = {
        name: ratio(found[last].time, found[name].time, f"{last} over {name}") for last, name in pairwise(ladder.rungs)
    }
    return {
        name: {
            "trial": trials.get(name),
            "gained": gained.get(name),
            "change": over.get(name),
            "found": one,
            "right": one.accuracy.scaled(1, "%"),
        }
        for name, one in found.items()
    }


def end(ladder: Ladder, climbed: Mapping[str, Mapping[str, Any]], rule: Rule) -> dict[str, Any]:
    """Return what the last rung comes to: the plain start's time and memory over its own, and its honest gain."""
    last, nothing = climbed[[*ladder.rungs][-1]], Counted(1, "", "no step passed")
    change = last["change"]
    gain, saved = (change.speedup.estimate, change.memory.estimate) if change else (nothing, nothing)
    honest = compare(climbed[_BASELINE]["found"], last["found"], rule.matters).speedup
    return {"last": last, "gain": gain, "saved": saved, "honest": honest}


def any_gains(ends: Iterable[Mapping[str, Any]], times: float) -> Judgement:
    """Return whether a last rung is so many times as fast as the plain start, or takes as many times less memory."""
    every = [gain for one in ends for gain in (one["gain"], one["saved"])]
    return judge.verdict_of_any(judge.verdict_between(each.together(len(every)), low=times) for each in every)


def rungs_alone(found: Mapping[str, Performance]) -> dict[str, Performance]:
    """Return the plain start and the rungs, without the baseline beside them."""
    return {name: one for name, one in found.items() if name != _BASELINE}


def multiplied(one: Derived, other: Derived) -> Modelled:
    """Return how many times fewer bytes two savings would come to together."""
    return Modelled.by("two ratios multiplied", Counted(one.value * other.value, "", "product of the two ratios"))


def race() -> dict[str, Measurement] | Unmeasured:
    """Return how long PyTorch takes over one op a token here to write "one" text and "many", 64."""
    raced = study(_ENGINES, ["gpt-1", "gpt-64"], ["decode"], rounds=7)
    if isinstance(raced, Unmeasured):
        return raced
    times = [(one.fastest(_ENGINES[2:]), one.times[_ENGINES[1]]) for one in raced]
    over = [ratio(*both, f"time of {both[0].name} over one op a token") for both in times]
    return dict(zip(("one", "many"), over, strict=True))


def most_lost(questions: int, budget: float) -> Counted:
    """Return how many answers of so many may be lost, none gained, so that the interval lies within the budget."""
    lost = range(math.floor(questions * budget) + 1)
    fits = [each for each in lost if interval_of_law(PairedShares(0, each, questions), CONFIDENCE).low >= -budget]
    return Counted(max(fits), "answers", f"most lost answers of {questions:,} within the budget, none gained")
