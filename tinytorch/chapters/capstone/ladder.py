"""The ladder: profile, predict every step, measure all of them in turns, take the best that passes, begin again."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise

from tinytorch.chapters.capstone.configuration import PLAIN, STEPS, Configuration, Move, Step, moves_from
from tinytorch.chapters.capstone.workload import Workload, accuracy_change, in_turns
from tinytorch.perf.acceleration.prediction import Profile, counted, forecast, ops_alone, profiled
from tinytorch.perf.machine import Ceilings
from tinytorch.perf.measuring import Measurement, Modelled, Unmeasured, blas_threads, ratio
from tinytorch.perf.measuring.comparison import Comparison, compare_all
from tinytorch.perf.measuring.judge import Judgement, Test, Verdict, verdict_between
from tinytorch.perf.measuring.noise import NoiseFloor

_BEFORE = "as it was"
#: Seconds for all trials of a turn, and rounds of them that are waited for where calls are slow: on fewer, noise that
#: hits neighbours alike hides any gain.
_SECONDS, _LEAST_ROUNDS = 5.0, 30


@dataclass(frozen=True)
class Rule:
    """The rule for a step, stated before anything is measured: faster beyond doubt, and as right beyond doubt.

    The share of test questions in the budget may be lost against the plain start, by the whole interval.
    """

    matters: float
    accuracy_budget: float
    noise: NoiseFloor | None = None

    def __post_init__(self) -> None:
        for name in ("matters", "accuracy_budget"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} must be a share from 0 to below 1, such as 0.1, not {getattr(self, name)}")

    def judged(self, gained: Comparison) -> Comparison:
        """Return a gain as far as the noise of the page leaves it."""
        return gained if self.noise is None else self.noise.judged(gained)

    def holds(self, change: Measurement) -> Judgement:
        """Return the verdict on whether no more answers were lost than the budget allows."""
        return verdict_between(change, low=-self.accuracy_budget)

    def outcome(self, gained: Comparison, change: Callable[[], Measurement]) -> Judgement:
        """Return that a step "passes", or what it fails by, or may: "gain" or "answers", "refuted" or "open".

        The gain is tested, and only if it is enough the ``change`` of right answers, which has to be asked for.
        """
        known, what = self.judged(gained), "gain"
        last = Verdict.REFUTED if known.is_no_gain else Verdict.SUPPORTED if known.is_gain else Verdict.OPEN
        tests: tuple[Test, ...] = (Test(known.estimate, 1 + self.matters, None, known.reach, last),)
        if last is Verdict.SUPPORTED:
            holds, what = self.holds(change()), "answers"
            tests, last = tests + holds.tests, holds.verdict
        word = "passes" if last is Verdict.SUPPORTED else f"{what} {last}"
        return Judgement(Verdict.OPEN if last is Verdict.OPEN else Verdict.SUPPORTED, tests, word)


@dataclass(frozen=True)
class Trial:
    """A move that was predicted, by Amdahl's law and by the roof, and then measured in turns with all of its stage.

    The interval of its gain holds together with theirs; the outcome is by the rule, "taken" of the one that was, and
    "beaten" of one that may gain enough and is proven to gain less than that.
    """

    move: Move
    after: Configuration
    predicted: Modelled
    roof: Modelled
    seconds: Measurement
    gained: Comparison
    outcome: Judgement

    @property
    def name(self) -> str:
        """What tables call the move."""
        return " + ".join(self.move)

    @property
    def change(self) -> Measurement | None:
        """Change of right answers; None where it is not faster, and so not scored."""
        was_scored = len(self.outcome.tests) > 1 and self.outcome.word != "beaten"
        return self.outcome.tests[1].measurement if was_scored else None


@dataclass(frozen=True)
class Stage:
    """One turn of the method, which begins with a profile.

    Attributes:
        trials: of every step that could be taken, or of every pair of steps, the largest predicted gain first.
        taken, won: the fastest of those that pass, by its median; None, or that there is none, if none does.
        first, of_roof: the trials that Amdahl's law, and the roof, put first; ``choice``, whether that was right.
        chosen: the name of what was taken, or "nothing", tested on all gains.
    """

    number: str
    profile: Profile
    trials: tuple[Trial, ...]
    taken: Trial | None
    won: Trial | Unmeasured
    first: Trial
    of_roof: Trial
    chosen: Judgement
    choice: Judgement | None
    choice_of_roof: Judgement | None


def stage_of(number: int, profile: Profile, tried: Iterable[Trial]) -> Stage:
    """Return the turn that takes the best of what was tried."""
    trials = sorted(tried, key=lambda trial: -trial.predicted.value)
    passing = [trial for trial in trials if trial.outcome.word == "passes"]
    best = taken = min(passing, key=lambda trial: trial.seconds.median, default=None)
    if best is not None:
        taken = replace(best, outcome=replace(best.outcome, word="taken"))
        trials[trials.index(best)] = taken
        # The same samples chose what was taken, so that any pair might have been compared.
        trials = [beaten_by(taken, trial, math.comb(len(trials), 2)) for trial in trials]
    first, of_roof = trials[0], max(trials, key=lambda trial: trial.roof.value)
    tests = tuple(trial.outcome.tests[0] for trial in trials)
    chosen = Judgement(Verdict.SUPPORTED, tests, taken.name if taken else "nothing")
    won = taken or Unmeasured("in this run no step passed in that turn")
    choices = (right_choice(one, taken, tests) for one in (first, of_roof))
    return Stage(str(number), profile, tuple(trials), taken, won, first, of_roof, chosen, *choices)


def beaten_by(taken: Trial, trial: Trial, together: int) -> Trial:
    """Return the trial, as "beaten" if its gain is open and a call surely takes longer than of what was taken."""
    if trial.outcome.word != "gain open":
        return trial
    longer = verdict_between(ratio(trial.seconds, taken.seconds), low=1, strict=True, together=together)
    if longer.verdict is not Verdict.SUPPORTED:
        return trial
    return replace(trial, outcome=Judgement(Verdict.SUPPORTED, trial.outcome.tests + longer.tests, "beaten"))


def right_choice(first: Trial, taken: Trial | None, tests: tuple[Test, ...]) -> Judgement | None:
    """Return whether it was right to put ``first`` first, with the tests of all gains; None where no step passes.

    It was if it passes and no other is proven faster. Open it is as it "may pass", or as another "may be faster".
    """
    if taken is None:
        return None
    found = Judgement(Verdict.SUPPORTED if first is taken else Verdict.REFUTED)
    if first.outcome.verdict is Verdict.OPEN:
        found = Judgement(Verdict.OPEN, word="may pass")
    elif first.outcome.word == "passes":
        found = verdict_between(ratio(first.seconds, taken.seconds), high=1)
        found = replace(found, word="may be faster" if found.verdict is Verdict.OPEN else "")
    return replace(found, tests=found.tests + tests)


@dataclass(frozen=True)
class Ladder:
    """All turns of the method on one workload; the last one found nothing to take."""

    workload: Workload
    stages: tuple[Stage, ...] = field(repr=False)

    @property
    def start(self) -> Profile:
        """Where the time of the plain start goes."""
        return self.stages[0].profile

    @property
    def taken(self) -> list[Trial]:
        """The trials that were taken, in their order."""
        return [stage.taken for stage in self.stages if stage.taken]

    @property
    def rungs(self) -> dict[str, Configuration]:
        """Configurations by the move that led to them, from "plain" to the last."""
        return {"plain": PLAIN, **{trial.name: trial.after for trial in self.taken}}

    @property
    def last(self) -> Configuration:
        """The fastest configuration that the method found."""
        return [*self.rungs.values()][-1]

    @property
    def dropped(self) -> dict[str, Trial]:
        """Steps that were tried and never taken, by name: each by the trial, alone, in which it came off best."""
        tried = [trial for stage in self.stages for trial in stage.trials if len(trial.move) == 1]
        by_gain = sorted(tried, key=lambda trial: trial.gained.estimate.median)
        return {one.name: one for one in by_gain if not any(one.name in trial.move for trial in self.taken)}

    @property
    def led(self) -> Judgement:
        """Whether single steps led "all the way", stopped "short" of a pair that passed, or led "nowhere"."""
        stopped = any(stage.taken is None and after.taken for stage, after in pairwise(self.stages))
        tests = tuple(test for stage in self.stages for test in stage.chosen.tests)
        return Judgement(Verdict.SUPPORTED, tests, "short" if stopped else "all the way" if self.taken else "nowhere")


def climb_ladder(workload: Workload, machine: Ceilings, rule: Rule, *, steps: Sequence[Step] = STEPS) -> Ladder:
    """Return the ladder that the method climbs from `PLAIN`, on one core, by ``steps``.

    Each turn predicts the gain of all that can be taken from a profile, then measures them, and takes the fastest that
    passes the rule. Where none does, pairs have a turn of which one makes the other possible; then it ends.

    Raises:
        ValueError: if ``machine`` is for more than one thread, or no step can be taken.
    """
    if machine.threads != 1:
        raise ValueError(f"machine must be the ceilings of one thread, not of {machine.threads}")
    stages: list[Stage] = []
    now: Configuration | None = PLAIN
    with blas_threads(1):
        while now is not None:
            before, now = now, None
            for moves in moves_from(before, steps):
                if now is None and moves:
                    profile, trials = _tried(workload, machine, rule, before, moves)
                    stages.append(stage_of(len(stages) + 1, profile, trials))
                    now = stages[-1].taken.after if stages[-1].taken else None
    if not stages:
        raise ValueError(f"steps must hold one that can be taken from {PLAIN}")
    return Ladder(workload, tuple(stages))


def _tried(
    workload: Workload, machine: Ceilings, rule: Rule, before: Configuration, moves: Mapping[Move, Configuration]
) -> tuple[Profile, list[Trial]]:
    now, asked = workload.ready(before), workload.words
    made = {" + ".join(move): workload.ready(after) for move, after in moves.items()}
    with now.running():
        call = workload.call(now)
        profile = profiled(call, machine, f"{'plain start' if before == PLAIN else 'rung'}, {asked}")
        alone = ops_alone(call)
    forecasts = {}
    for name, one in made.items():
        call = workload.call(one)
        with one.running():
            forecasts[name] = forecast(profile, alone, ops_alone(call), counted(call, machine), f"{name}, {asked}")
    a_round = profile.seconds.median * (1 + sum(1 / predicted.value for predicted, _ in forecasts.values()))
    longest = max(_SECONDS, _LEAST_ROUNDS * a_round)
    # A gain passes if its whole interval lies above what matters: half of that is what has to be resolved.
    times = in_turns(workload, {_BEFORE: now, **made}, resolve=rule.matters / 2, at_most_seconds=longest)
    gained, trials = compare_all(times.pop(_BEFORE), *times.values(), matters=rule.matters), []
    for (move, after), name in zip(moves.items(), made, strict=True):
        change = partial(accuracy_change, PLAIN, after, f"share right of {name} less that of the plain start")
        outcome = rule.outcome(gained[name], change)
        trials.append(Trial(move, after, *forecasts[name], times[name], gained[name], outcome))
    return profile, trials
