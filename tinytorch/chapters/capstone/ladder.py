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
#: Rounds of all trials of a turn; of slow calls fewer, when these seconds are over, but so many at least.
_ROUNDS, _SECONDS, _LEAST_ROUNDS = 30, 1.5, 12


@dataclass(frozen=True)
class Rule:
    """The rule for a step, stated before anything is measured: faster beyond doubt, and as right beyond doubt.

    The share of test questions in the budget may be lost against the plain start, by the whole interval.
    """

    matters: float
    accuracy_budget: float

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

    The interval of its gain holds together with theirs; the outcome is by the rule, "taken" of the one that was.
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
        return self.outcome.tests[1].measurement if len(self.outcome.tests) > 1 else None


@dataclass(frozen=True)
class Stage:
    """One turn of the method, which begins with a profile.

    Attributes:
        trials: of every step that could be taken, or of every pair of steps, the largest predicted gain first.
        taken, won: of those that pass and are not proven slower than the fastest, the one for which most was predicted;
            None, or that there is none, if none passes.
        first: what Amdahl's law put first of what does not surely lose too many answers; ``choice``, whether that was
            right.
        chosen: the name of what was taken, or "nothing", tested on all gains.
    """

    number: str
    profile: Profile
    trials: tuple[Trial, ...]
    taken: Trial | None
    won: Trial | Unmeasured
    first: Trial
    chosen: Judgement
    choice: Judgement | None


def stage_of(number: int, profile: Profile, tried: Iterable[Trial]) -> Stage:
    """Return the turn that takes the best of what was tried."""
    trials = sorted(tried, key=lambda trial: -trial.predicted.value)
    fit = [trial for trial in trials if trial.outcome.word != "answers refuted"] or trials
    tests = tuple(trial.outcome.tests[0] for trial in trials)
    passing = [trial for trial in trials if trial.outcome.word == "passes"]
    fastest = min((trial.seconds for trial in passing), key=lambda seconds: seconds.median, default=None)
    # The same samples choose what is fastest, so that any pair might have been compared.
    together = math.comb(len(trials), 2)

    def surely_longer(seconds: Measurement) -> bool:
        if fastest is None or fastest is seconds:
            return False
        return ratio(seconds, fastest).together(together).interval.low > 1

    best = [trial for trial in passing if not surely_longer(trial.seconds)]
    choice = right_choice(fit[0], best, tests)
    taken = replace(best[0], outcome=replace(best[0].outcome, word="taken")) if best else None
    trials = [taken if taken and trial is best[0] else trial for trial in trials]
    first = next(trial for trial in trials if trial.move == fit[0].move)  # as it came out
    chosen = Judgement(Verdict.SUPPORTED, tests, taken.name if taken else "nothing")
    won = taken or Unmeasured("in this run no step passed in that turn")
    return Stage(str(number), profile, tuple(trials), taken, won, first, chosen, choice)


def right_choice(first: Trial, best: Sequence[Trial], tests: tuple[Test, ...]) -> Judgement | None:
    """Return whether it was right to put ``first`` first, with the tests of all gains; None where no step passes.

    It was if it is one of the ``best``: it passes, and none is proven faster. Open it is where it "may pass".
    """
    if best and first.outcome.verdict is Verdict.OPEN:
        return Judgement(Verdict.OPEN, tests, "may pass")
    return Judgement(Verdict.SUPPORTED if first in best else Verdict.REFUTED, tests) if best else None


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
    def led(self) -> Judgement:
        """Whether single steps led "all the way", stopped "short" of a pair that passed, or led "nowhere"."""
        stopped = any(stage.taken is None and after.taken for stage, after in pairwise(self.stages))
        tests = tuple(test for stage in self.stages for test in stage.chosen.tests)
        return Judgement(Verdict.SUPPORTED, tests, "short" if stopped else "all the way" if self.taken else "nowhere")


def climb_ladder(workload: Workload, machine: Ceilings, rule: Rule, *, steps: Sequence[Step] = STEPS) -> Ladder:
    """Return the ladder that the method climbs from `PLAIN`, on one core, by ``steps``.

    Each turn predicts the gain of all that can be taken from a profile, then measures them, and takes the best that
    passes the rule. Where none does, pairs have a turn of which one makes the other possible; then it ends. A step that
    surely loses too many answers is not tried again: no speed makes up for them.

    Raises:
        ValueError: if ``machine`` is for more than one thread, or no step can be taken.
    """
    if machine.threads != 1:
        raise ValueError(f"machine must be the ceilings of one thread, not of {machine.threads}")
    stages: list[Stage] = []
    now: Configuration | None = PLAIN
    lossy: set[str] = set()
    with blas_threads(1):
        while now is not None:
            before, now = now, None
            for moves in moves_from(before, [step for step in steps if step.name not in lossy]):
                if now is None and moves:
                    profile, trials = _tried(workload, machine, rule, before, moves)
                    stages.append(stage_of(len(stages) + 1, profile, trials))
                    now = stages[-1].taken.after if stages[-1].taken else None
                    lossy |= {trial.name for trial in trials if trial.outcome.word == "answers refuted"}
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
    # Gains differ between runs by several per cent, however many rounds there are: a few tell all that can be known.
    longest = max(_SECONDS, _LEAST_ROUNDS * a_round)
    times = in_turns(workload, {_BEFORE: now, **made}, repeats=_ROUNDS, at_most_seconds=longest)
    gained, trials = compare_all(times.pop(_BEFORE), *times.values(), matters=rule.matters), []
    for (move, after), name in zip(moves.items(), made, strict=True):
        change = partial(accuracy_change, PLAIN, after, f"share right of {name} less that of the plain start")
        outcome = rule.outcome(gained[name], change)
        trials.append(Trial(move, after, *forecasts[name], times[name], gained[name], outcome))
    return profile, trials
