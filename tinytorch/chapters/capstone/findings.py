"""What the ladders show: how good predictions and choices were, every rung measured anew, and what was left out."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from tinytorch.chapters.capstone.ladder import Ladder, Rule, Stage, Trial
from tinytorch.chapters.capstone.workload import predicted_bytes
from tinytorch.perf.benchmarking import Change, Performance, compare
from tinytorch.perf.benchmarking.performance import compare_with_first
from tinytorch.perf.engines.turns import study
from tinytorch.perf.host.background_load import BackgroundLoad
from tinytorch.perf.measuring import Counted, Derived, Measurement, Modelled, Unmeasured, judge, ratio
from tinytorch.perf.measuring.comparison import Comparison
from tinytorch.perf.measuring.judge import Judgement, Verdict
from tinytorch.perf.measuring.statistics import CONFIDENCE, PairedShares, interval_of_law

#: The start, and the honest baseline that stands beside the rungs.
_START, _BASELINE = "plain", "NumPy with a cache"
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


def ruled_out(stage: Stage, which: str) -> Derived:
    """Return how many intervals of measured gains leave out what was ``"predicted"``, or what the ``"roof"`` allows."""
    said = [(trial.gained.estimate.interval, getattr(trial, which).value) for trial in stage.trials]
    out = sum(not reach.low <= value <= reach.high for reach, value in said)
    return Derived(out, "row" if out == 1 else "rows", f"steps that rule out {which}", _gains(stage.trials), _COUNTS)


@dataclass(frozen=True)
class Pair:
    """A pair that was taken, for so many questions, and the trial of its first step alone in the turn before."""

    questions: str
    taken: Trial
    alone: Trial


def pairs_taken(ladders: Iterable[Ladder]) -> list[Pair] | Unmeasured:
    """Return the pairs that were taken where no single step passed."""
    found = []
    for ladder in ladders:
        for before, stage in pairwise(ladder.stages):
            if stage.taken and len(stage.taken.move) > 1:
                alone = next(one for one in before.trials if one.move == stage.taken.move[:1])
                found.append(Pair(str(ladder.workload.questions), stage.taken, alone))
    return found or Unmeasured("in this run no pair was taken after another step")


@dataclass(frozen=True)
class Choices:
    """Turns that took something, those in which law and roof are proven right; and how far predictions were off."""

    turns: Derived
    right: Derived
    by_roof: Derived
    trials: Counted
    typical: Derived
    largest: Derived
    worst: str


def choices(ladders: Iterable[Ladder], background: BackgroundLoad) -> Choices:
    """Return how well predictions chose; nothing is proven where other programs took the time from a gain."""
    stages = [stage for ladder in ladders for stage in ladder.stages]
    trials = [trial for stage in stages for trial in stage.trials]
    by_law = [stage.choice for stage in stages if stage.choice]
    by_roof = [stage.choice_of_roof for stage in stages if stage.choice_of_roof]
    off = np.abs([math.log(trial.predicted.value / trial.gained.estimate.median) for trial in trials])

    def is_right(one: Judgement) -> bool:
        tested = (test.measurement.conditions for test in one.tests)
        return one.verdict is Verdict.SUPPORTED and not judge.is_disturbed(tested, background.cores())

    gains = _gains(trials)
    return Choices(
        Derived(len(by_law), "1", "turns", gains, _COUNTS),
        Derived(sum(map(is_right, by_law)), "1", "right turns", gains, _COUNTS),
        Derived(sum(map(is_right, by_roof)), "1", "turns in which the roof was right", gains, _COUNTS),
        Counted(len(trials), "1", "moves that were predicted and measured"),
        Derived(math.exp(np.median(off)) - 1, "%", "median error", gains, "predictions of one profile err together"),
        Derived(math.exp(off.max()), "", "largest error", gains, "it is a largest one"),
        trials[int(off.argmax())].name,
    )


@dataclass(frozen=True)
class Rung:
    """A rung measured once more, with the trial that took it, and its gains over the one before and over the start."""

    trial: Trial | None
    gained: Measurement | None
    change: Change | None
    found: Performance
    right: Measurement


def rungs(ladder: Ladder, found: Mapping[str, Performance], rule: Rule) -> dict[str, Rung]:
    """Return what was ``found`` of the rungs and of the honest baseline."""
    trials, over = {trial.name: trial for trial in ladder.taken}, compare_with_first(found, rule.matters)
    times = {name: one.time for name, one in found.items()}
    gained = {name: ratio(times[last], times[name], f"{last} over {name}") for last, name in pairwise(ladder.rungs)}
    return {
        name: Rung(trials.get(name), gained.get(name), over.get(name), one, one.accuracy.scaled(1, "%"))
        for name, one in found.items()
    }


@dataclass(frozen=True)
class End:
    """The last rung for so many questions: the plain start's time and memory over its own, and its honest gain."""

    questions: str
    last: Rung
    gain: Measurement
    saved: Measurement
    honest: Comparison


def end(ladder: Ladder, climbed: Mapping[str, Rung], rule: Rule) -> End:
    """Return what the last rung comes to."""
    last, nothing = climbed[[*ladder.rungs][-1]], Counted(1, "", "no step passed")
    honest = compare(climbed[_BASELINE].found, last.found, rule.matters).speedup
    gain, saved = (one.estimate for one in (last.change.speedup, last.change.memory)) if last.change else (nothing,) * 2
    return End(str(ladder.workload.questions), last, gain, saved, honest)


def confirmed(climbed: Iterable[Mapping[str, Rung]], rule: Rule) -> Derived | Unmeasured:
    """Return how many steps that were taken gain more than what matters once more, each by an interval of its own."""
    gains = tuple(one.gained for each in climbed for one in each.values() if one.trial and one.gained)
    if not gains:
        return Unmeasured("in this run no step was taken")
    again = [judge.verdict_between(gain, low=1 + rule.matters) for gain in gains]
    count = sum(one.verdict is Verdict.SUPPORTED for one in again)
    return Derived(count, "1", "steps that gain enough when measured anew", gains, _COUNTS)


def any_gains(ends: Iterable[End], times: float) -> Judgement:
    """Return whether a last rung is so many times as fast as the plain start, or takes as many times less memory."""
    every = [gain for one in ends for gain in (one.gain, one.saved)]
    return judge.verdict_of_any(judge.verdict_between(each.together(len(every)), low=times) for each in every)


def rungs_alone(found: Mapping[str, Performance]) -> dict[str, Performance]:
    """Return the plain start and the rungs, without the baseline beside them."""
    return {name: one for name, one in found.items() if name != _BASELINE}


def bytes_off(ladders: Iterable[Ladder]) -> Counted:
    """Return how far bytes as held are from what shapes say, at most, over every configuration that was tried."""
    tried = {(one.workload, trial.after) for one in ladders for stage in one.stages for trial in stage.trials}
    off = [abs(asked.held(after).value / predicted_bytes(after, asked.questions) - 1) for asked, after in tried]
    return Counted(max(off), "%", "largest difference of bytes as held from what the shapes say")


def multiplied(one: Derived, other: Derived) -> Modelled:
    """Return how many times fewer bytes two savings would come to together."""
    return Modelled.by("two ratios multiplied", Counted(one.value * other.value, "", "product of the two ratios"))


def left_out(ladders: Mapping[str, Ladder]) -> dict[str, dict[str, Any]]:
    """Return the steps that a ladder tried alone and never took: on each its best trial, or "taken", or "untried"."""

    def on(one: Ladder, name: str) -> Any:
        outcome = Judgement(Verdict.SUPPORTED, word="untried", counted=True)
        outcome = next((trial.outcome for trial in one.taken if name in trial.move), outcome)
        return one.dropped.get(name, {"gained": None, "outcome": outcome})

    names = sorted({name for one in ladders.values() for name in one.dropped})
    return {name: {key: on(one, name) for key, one in ladders.items()} for name in names}


def how_many(steps: Mapping[str, Mapping[str, Any]]) -> Derived:
    """Return how many steps were left out."""
    gains = _gains(one for each in steps.values() for one in each.values() if isinstance(one, Trial))
    return Derived(len(steps), "step" if len(steps) == 1 else "steps", "steps that were left out", gains, _COUNTS)


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
