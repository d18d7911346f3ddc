"""The ladder: profile, predict every step, measure all of them in turns, take the best that passes, begin again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tinytorch.chapters.capstone.configuration import PLAIN, Configuration, Ready
from tinytorch.chapters.capstone.prediction import Forecast, Profile, counted, forecast, ops_alone, profiled
from tinytorch.chapters.capstone.rule import Outcome, Rule
from tinytorch.chapters.capstone.steps import STEPS, Move, Step, double_moves, name_of, single_moves
from tinytorch.chapters.capstone.workload import Workload, accuracy_change
from tinytorch.perf.machine import Ceilings
from tinytorch.perf.measuring import Measurement, blas_threads, interleave, ratio
from tinytorch.perf.measuring.comparison import Comparison, compare_all
from tinytorch.perf.measuring.judge import Judgement, Verdict, verdict_between
from tinytorch.perf.quantization import PairedAccuracy

_BEFORE = "as it was"
#: Rounds of a turn that are waited for where calls are slow: on fewer, noise that hits neighbours alike hides any gain.
_LEAST_ROUNDS = 30


@dataclass(frozen=True)
class Trial:
    """A move that was predicted, and then measured.

    Attributes:
        move: one step, or two of which the second needs the first; ``after`` the configuration that they make.
        forecast: made before the measurement.
        seconds: of a call, in turns with those before it and with all other trials of the stage.
        gained: how many times as fast as before; its interval holds together with those of the other trials.
        accuracy: against the plain start on the same questions; None where the step is not faster, and so not scored.
        outcome: whether it passes the rule, and if not, why.
    """

    move: Move
    after: Configuration
    forecast: Forecast
    seconds: Measurement
    gained: Comparison
    accuracy: PairedAccuracy | None
    outcome: Outcome

    @property
    def name(self) -> str:
        """What tables call the move."""
        return name_of(self.move)


@dataclass(frozen=True)
class Stage:
    """One turn of the method.

    Attributes:
        before: where it began; ``profile``, where the time went there.
        trials: every step that could be taken, or every pair of steps, the largest predicted gain first.
    """

    before: Configuration
    profile: Profile
    trials: tuple[Trial, ...]

    @property
    def taken(self) -> Trial | None:
        """The trial with the shortest median of those that pass; None if none does."""
        passing = [trial for trial in self.trials if trial.outcome is Outcome.PASSES]
        return min(passing, key=lambda trial: trial.seconds.median, default=None)

    @property
    def steps_at_once(self) -> int:
        """How many steps a move of this stage takes, 1 or 2."""
        return len(self.trials[0].move)

    @property
    def choice(self) -> Judgement | None:
        """Whether what the profile put first was right: supported, refuted or open.

        See `right_choice`. None where no step passes, so that there was nothing to choose.
        """
        return right_choice(self, self.trials[0])

    @property
    def choice_of_roof(self) -> Judgement | None:
        """The same of the step for which the roof would allow most."""
        return right_choice(self, max(self.trials, key=lambda trial: trial.forecast.roof))


def right_choice(stage: Stage, first: Trial) -> Judgement | None:
    """Return whether it was right to put ``first`` first: supported, refuted or open.

    It was if it passes and no other step that passes is faster beyond doubt. It was not if it is proven not to pass.
    None where no step passes.
    """
    best = stage.taken
    if best is None:
        return None
    if first is best:
        return Judgement(Verdict.SUPPORTED)
    if first.outcome.is_open:
        return Judgement(Verdict.OPEN, word="open, as it may pass or not")
    if first.outcome is not Outcome.PASSES:
        return Judgement(Verdict.REFUTED)
    found = verdict_between(ratio(first.seconds, best.seconds), high=1)
    return replace(found, word="open, as either may be faster") if found.verdict is Verdict.OPEN else found


def became_of(trial: Trial, word: str) -> Judgement:
    """Return ``word``, what became of a step, as a verdict: open where it was not proven to pass or to fail."""
    return Judgement(Verdict.OPEN if trial.outcome.is_open else Verdict.SUPPORTED, word=word)


@dataclass(frozen=True)
class Ladder:
    """All turns of the method on one workload; the last one found nothing to take."""

    workload: Workload
    rule: Rule
    stages: tuple[Stage, ...] = field(repr=False)

    @property
    def rungs(self) -> dict[str, Configuration]:
        """Configurations by the move that led to them, from "plain" to the last."""
        taken = [stage.taken for stage in self.stages]
        return {"plain": self.stages[0].before, **{trial.name: trial.after for trial in taken if trial}}

    @property
    def last(self) -> Configuration:
        """The fastest configuration that the method found."""
        return [*self.rungs.values()][-1]

    @property
    def dropped(self) -> dict[str, Trial]:
        """Steps that were tried and never taken, by name: each by the trial, alone, in which it came off best."""
        taken = {step.name for stage in self.stages if stage.taken for step in stage.taken.move}
        tried = [trial for stage in self.stages for trial in stage.trials if len(trial.move) == 1]
        best: dict[str, Trial] = {}
        for trial in sorted(tried, key=lambda trial: trial.gained.estimate.median):
            if trial.name not in taken:
                best[trial.name] = trial
        return best


def climb_ladder(
    workload: Workload,
    machine: Ceilings,
    rule: Rule,
    *,
    start: Configuration = PLAIN,
    steps: Sequence[Step] = STEPS,
    at_most_seconds: float = 5.0,
) -> Ladder:
    """Return the ladder that the method climbs from ``start``, on one core.

    Each turn profiles a call, predicts the gain of every step that can be taken by Amdahl's law, and only then measures
    all of them in turns. The fastest of those that pass the rule is taken. Where no step passes, pairs of steps have a
    turn of which one makes the other possible; where none of these passes either, it ends.

    Args:
        workload: what a call answers.
        machine: ceilings of one thread.
        rule: when a step may be kept.
        start: where to begin.
        steps: what may be tried.
        at_most_seconds: for all trials of a turn; where calls are slow it takes as long as some thirty samples of
            each do.

    Raises:
        ValueError: if ``machine`` is for more than one thread, or no step can be taken from ``start``.
    """
    if machine.threads != 1:
        raise ValueError(f"machine must be the ceilings of one thread, not of {machine.threads}")
    stages: list[Stage] = []
    now, finder = start, single_moves
    with blas_threads(1):
        while True:
            moves = finder(now, steps)
            if moves:
                stages.append(_stage(workload, machine, rule, now, moves, start, at_most_seconds))
                taken = stages[-1].taken
                if taken is not None:
                    now, finder = taken.after, single_moves
                    continue
            if finder is double_moves:
                break
            finder = double_moves
    if not stages:
        raise ValueError(f"steps must hold one that can be taken from {start}")
    return Ladder(workload, rule, tuple(stages))


def _stage(
    workload: Workload,
    machine: Ceilings,
    rule: Rule,
    before: Configuration,
    moves: Mapping[Move, Configuration],
    start: Configuration,
    at_most_seconds: float,
) -> Stage:
    now = workload.ready(before)
    name = f"{'plain start' if before == start else 'rung'}, {workload.words}"
    profile = profiled(workload, now, machine, name)
    made = {move: workload.ready(after) for move, after in moves.items()}
    alone = ops_alone(workload, now)
    forecasts = {
        move: forecast(profile, alone, ops_alone(workload, each), counted(workload, each, machine))
        for move, each in made.items()
    }
    order = sorted(made, key=lambda move: -forecasts[move].speedup)
    every: dict[str, Ready] = {_BEFORE: now, **{name_of(move): made[move] for move in order}}
    a_round = profile.whole * (1 + sum(1 / each.speedup for each in forecasts.values()))
    longest = max(at_most_seconds, _LEAST_ROUNDS * a_round)
    # A gain passes if its whole interval lies above what matters: half of that is what has to be resolved.
    times = in_turns(workload, every, resolve=rule.matters / 2, at_most_seconds=longest)
    gained = compare_all(times[_BEFORE], *[times[name] for name in every if name != _BEFORE], matters=rule.matters)
    trials = []
    for move in order:
        name, after = name_of(move), moves[move]
        accuracy = accuracy_change(start, after) if rule.is_faster(gained[name]) else None
        outcome = rule.outcome(gained[name], accuracy)
        trials.append(Trial(move, after, forecasts[move], times[name], gained[name], accuracy, outcome))
    return Stage(before, profile, tuple(trials))


def in_turns(
    workload: Workload, every: Mapping[str, Ready], *, resolve: float, at_most_seconds: float = 4.0
) -> dict[str, Measurement]:
    """Return seconds of a call of each, by name, sampled in turns until they tell the first from the others."""
    calls = {name: workload.call(made) for name, made in every.items()}
    return interleave(
        calls,
        resolve=resolve,
        at_most_seconds=at_most_seconds,
        warmup_seconds=0.05,
        within={name: made.running for name, made in every.items()},
    )
