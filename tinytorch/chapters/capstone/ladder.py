"""The ladder: profile, predict every step, measure all of them in turns, take the best that passes, begin again."""

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

_BEFORE = "as it was"
#: Seconds for all trials of a turn, and rounds of them that are waited for where calls are slow: on fewer, noise that
#: hits neighbours alike hides any gain.
_SECONDS, _LEAST_ROUNDS = 4.0, 20


@dataclass(frozen=True)
class Rule:
    """The rule for a step, stated before anything is measured: faster beyond doubt, and as right beyond doubt.

    The share of test questions in the budget may be lost against the plain start, by the whole interval.
    """

    matters: float
    accuracy_budget: float

    def __post_init__(self) -> None:
        for name in ("matters", "accuracy_budget"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} must be a share from 0 to below 1, such as 0.1, not {getattr(self, name)}")

    def holds(self, change: Measurement) -> Judgement:
        """Return the verdict on whether no more answers were lost than the budget allows."""
        return verdict_between(change, low=-self.accuracy_budget)

    def outcome(self, gained: Comparison, change: Callable[[], Measurement]) -> Judgement:
        """Return that a step "passes", or what it fails by, or may: "gain" or "answers", "refuted" or "open".

        The gain is tested, and only if it may be enough the ``change`` of right answers, which has to be asked for: too
        many lost drop a step whatever it gains.
        """
        what = "gain"
        last = Verdict.REFUTED if gained.is_no_gain else Verdict.SUPPORTED if gained.is_gain else Verdict.OPEN
        tests: tuple[Test, ...] = (Test(gained.estimate, 1 + self.matters, None, last),)
        if last is not Verdict.REFUTED:
            holds = self.holds(change())
            if last is Verdict.SUPPORTED or holds.verdict is Verdict.REFUTED:
                what, tests, last = "answers", tests + holds.tests, holds.verdict
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
        """Change of right answers; None where they decide nothing."""
        was_scored = len(self.outcome.tests) > 1 and self.outcome.word != "beaten"
        return self.outcome.tests[1].measurement if was_scored else None


@dataclass(frozen=True)
class Stage:
    """One turn of the method, which begins with a profile.

    Attributes:
        trials: of every step that could be taken, or of every pair of steps, the largest predicted gain first.
        taken, won: of those that pass and are not proven slower than the fastest, the one for which most was predicted;
            None, or that there is none, if none passes.
        first, of_roof: what Amdahl's law, and the roof, put first of what does not surely lose too many answers;
            ``choice``, whether that was right.
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
    fit = [trial for trial in trials if trial.outcome.word != "answers refuted"] or trials
    first, of_roof = fit[0], max(fit, key=lambda trial: trial.roof.value)
    tests = tuple(trial.outcome.tests[0] for trial in trials)
    passing = [trial for trial in trials if trial.outcome.word == "passes"]
    # The same samples choose what is fastest, so that any pair might have been compared.
    fastest, together = min(passing, key=lambda trial: trial.seconds.median, default=None), math.comb(len(trials), 2)
    best = [trial for trial in passing if fastest and not surely_longer(trial, fastest, together)]
    choices = [right_choice(one, best, tests) for one in (first, of_roof)]
    taken = replace(best[0], outcome=replace(best[0].outcome, word="taken")) if best else None
    if taken:
        trials = [taken if trial is best[0] else beaten_by(taken, trial, together) for trial in trials]
        # What was put first is shown as it came out.
        first, of_roof = (next(trial for trial in trials if trial.move == one.move) for one in (first, of_roof))
    chosen = Judgement(Verdict.SUPPORTED, tests, taken.name if taken else "nothing")
    won = taken or Unmeasured("in this run no step passed in that turn")
    return Stage(str(number), profile, tuple(trials), taken, won, first, of_roof, chosen, *choices)


def surely_longer(trial: Trial, other: Trial, together: int) -> tuple[Test, ...]:
    """Return the tests by which a call surely takes longer than of the ``other``; none if that is not proven."""
    if trial is other:
        return ()
    longer = verdict_between(ratio(trial.seconds, other.seconds).together(together), low=1, strict=True)
    return longer.tests if longer.verdict is Verdict.SUPPORTED else ()


def beaten_by(taken: Trial, trial: Trial, together: int) -> Trial:
    """Return the trial, as "beaten" if its gain is open and a call surely takes longer than of what was taken."""
    longer = surely_longer(trial, taken, together) if trial.outcome.word == "gain open" else ()
    if not longer:
        return trial
    return replace(trial, outcome=Judgement(Verdict.SUPPORTED, trial.outcome.tests + longer, "beaten"))


def right_choice(first: Trial, best: Sequence[Trial], tests: tuple[Test, ...]) -> Judgement | None:
    """Return whether it was right to put ``first`` first, with the tests of all gains; None where no step passes.

    It was if it is one of the ``best``: it passes, and none is proven faster. Open it is where it "may pass".
    """
    if not best:
        return None
    if first.outcome.verdict is Verdict.OPEN:
        return Judgement(Verdict.OPEN, tests, "may pass")
    return Judgement(Verdict.SUPPORTED if first in best else Verdict.REFUTED, tests)


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

    Each turn predicts the gain of all that can be taken from a profile, then measures them, and takes the best that
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
