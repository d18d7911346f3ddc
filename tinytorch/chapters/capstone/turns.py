"""Records of the capstone's ladders, turn by turn: starts, trials, moves, pairs, and how good the predictions were."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from tinytorch.chapters.capstone.ladder import Ladder, Stage, Trial, became_of
from tinytorch.chapters.roofline.figure import roofline_figure
from tinytorch.chapters.sources import COURSE_PROFILING, COURSE_PROFILING_URL
from tinytorch.perf.machine import Ceilings
from tinytorch.perf.measuring import Derived, Modelled, quotient
from tinytorch.perf.measuring.judge import Judgement, Verdict, word_between
from tinytorch.perf.quantization.tradeoff import accuracy_change as shown_change
from tinytorch.report import Column, Page, verdict_of_all

#: The two ladders by how their keys end: "one" for one question, "many" for 64.
Ladders = Mapping[str, Ladder]

TRIAL_COLUMNS = (
    Column("step", "Step"),
    Column("roof", "The roof allows", "", modelled=True),
    Column("predicted", "Predicted", "", modelled=True),
    Column("gained", "Measured"),
    Column("wrong", "Change of right answers"),
    Column("outcome", "Outcome", judged=True),
)
MOVE_COLUMNS = (
    Column("turn", "Turn"),
    Column("first", "Predicted to be best"),
    Column("taken", "Taken", judged=True),
    Column("predicted", "Its gain, predicted", "", modelled=True),
    Column("gained", "Measured"),
    Column("right", "The choice is", judged=True),
)
PAIR_COLUMNS = (
    Column("pair", "Pair"),
    Column("questions", "Questions"),
    Column("enabling", "Makes the other possible"),
    Column("alone", "Alone"),
    Column("together", "Both together"),
)
ALONE_COLUMNS = (
    Column("step", "Step"),
    Column("questions", "Questions"),
    Column("alone", "Alone, from the plain start"),
    Column("taken", "Where it was taken"),
    Column("verdict", "The gain became", judged=True),
)
_FIRST_CAPTION = {
    "one": "The first turn for one question: every step that can be taken, in the order of the predictions. Measured "
    "in turns; the intervals hold together. Answers are scored only of what is proven to gain more than the rule "
    "asks for. Where samples are few for so many steps, the rule's interval is wider than the one shown.",
    "many": "The first turn for 64 questions, with intervals and outcomes as in that for one.",
}
_MOVES_CAPTION = {
    "one": "The ladder for one question. A turn tries single steps; after one in which none passes, pairs have a turn, "
    "if there are any. A choice is supported where the step predicted to be best passes and no other is proven to be "
    "faster, however far the prediction of its gain was off.",
    "many": "The ladder for 64 questions.",
}
#: What a gain became where another step was taken before; a factor of 1.5 would change what somebody tries next.
_BECAME = {"smaller": (None, 1 / 1.5), "the same, to a factor of 1.5": (1 / 1.5, 1.5), "larger": (1.5, None)}
_BECAUSE_TAKEN = "the step with the shortest median of those that pass the rule is taken, if any passes"


def record_user(page: Page, ladder: Ladder) -> None:
    """Record where the time of the plain start goes for one question."""
    _record_start(page, "one", ladder)
    ops = ladder.stages[0].profile.counted.ops
    page.number("ops-one", ops, unit="1", what="operations that a call of the plain start makes, one question")


def _record_start(page: Page, key: str, ladder: Ladder) -> None:
    profile, asked = ladder.stages[0].profile, ladder.workload.words
    page.number(f"plain-{key}", profile.seconds.scaled(1, name=f"a call of the plain start, {asked}"))
    shares = profile.shares()
    for part in ("between", "calls", "work"):
        page.number(f"{part}-{key}", shares[part], what=f"share of the time, plain start, {asked}: {part}")
    what = f"share of the time that is neither arithmetic nor data, plain start, {asked}"
    page.number(f"not-work-{key}", shares["rest"], what=what)
    verdict = profile.placed.verdict
    page.word(f"bound-{key}", verdict.said, because=verdict.because, numbers=(f"plain-{key}",))


def record_first_turn(page: Page, first: Stage) -> None:
    """Record the first turn for one question: all trials, what was predicted and what the roof would allow."""
    _record_trials(page, "one", first)
    best, of_roof = first.trials[0], max(first.trials, key=lambda trial: trial.forecast.roof)
    page.number("first-gain", (first.taken or best).gained.estimate)
    page.word("first-taken", _name(first.taken), because=_BECAUSE_TAKEN, numbers=("first-gain",))
    page.word("first-predicted", best.name, because="the largest gain was predicted for it")
    page.word("first-of-roof", of_roof.name, because="the roof would allow most for it")
    what = f"gain that the roof would allow, {of_roof.name}, one question"
    page.number("roof-promise", Modelled(of_roof.forecast.roof, "", what, "the roofline"))
    page.number("roof-kept", of_roof.gained.estimate)
    _record_ruled_out(page, first)


def _record_ruled_out(page: Page, stage: Stage) -> None:
    """Record in how many rows the interval of the measured gain leaves out a prediction, and the roof's."""
    for key, whose, field in (("roof", "the roof's", "roof"), ("amdahl", "Amdahl's", "speedup")):
        outside = 0
        for trial in stage.trials:
            bounds = trial.gained.estimate.interval
            outside += not bounds.low <= getattr(trial.forecast, field) <= bounds.high
        what = f"steps of the first turn for one question whose measured interval does not hold {whose} prediction"
        page.number(
            f"{key}-ruled-out",
            Derived(
                outside,
                "row" if outside == 1 else "rows",
                what,
                tuple(trial.gained.estimate for trial in stage.trials),
                "it counts verdicts",
            ),
        )


def _name(taken: Trial | None) -> str:
    return taken.name if taken else "nothing"


def _record_trials(page: Page, key: str, stage: Stage) -> None:
    rows = [
        {
            "step": trial.name,
            "roof": Modelled(trial.forecast.roof, "", "speedup of the step", "the roofline"),
            "predicted": Modelled(trial.forecast.speedup, "", "speedup of the step", "Amdahl's law"),
            "gained": trial.gained.estimate,
            "outcome": page.withhold_if_disturbed(
                "taken" if trial is stage.taken else became_of(trial, trial.outcome.value), trial.gained.estimate
            ),
            "wrong": trial.accuracy
            and shown_change(trial.accuracy, f"share right of {trial.name} less that of the plain start"),
        }
        for trial in stage.trials
    ]
    page.table(f"first-{key}", rows, TRIAL_COLUMNS, caption=_FIRST_CAPTION[key])


def record_moves(page: Page, key: str, ladder: Ladder) -> None:
    """Record the turns of a ladder, what each gained, and whether single steps led all the way."""
    rows = []
    for number, stage in enumerate(ladder.stages, 1):
        best, gains = stage.taken, [trial.gained.estimate for trial in stage.trials]
        rows.append(
            {
                "turn": str(number),
                "first": stage.trials[0].name,
                "taken": page.withhold_if_disturbed(best.name if best else "none passes", *gains),
                "predicted": Modelled(best.forecast.speedup, "", "speedup of the step", "Amdahl's law")
                if best
                else None,
                "gained": best.gained.estimate if best else None,
                "right": _told(page, stage, stage.choice),
            }
        )
    page.table(f"moves-{key}", rows, MOVE_COLUMNS, caption=_MOVES_CAPTION[key])
    for number, stage in enumerate(ladder.stages, 1):
        shown, turn = stage.taken or stage.trials[0], f"{ladder.workload.words}, turn {number}"
        what = f"gain of {shown.name}, {turn}" if stage.taken else f"{turn}, in which nothing passed: {shown.name}"
        page.number(f"gain-{key}-{number}", shown.gained.estimate, what=what)
    if _stopped_short(ladder):
        word, because = (
            "no, they stopped short",
            "a turn in which no single step passed was followed by a pair of steps that did",
        )
    elif len(ladder.rungs) > 1:
        word, because = "yes, all the way", "no turn was needed in which two steps were taken together"
    else:
        word, because = "no, none passed", "neither a step nor a pair passed the rule in this run"
    page.word(f"stuck-{key}", word, because=because, numbers=gain_keys({key: ladder}))


def gain_keys(ladders: Ladders) -> list[str]:
    """Return the keys of what each turn gained, as `record_moves` records it."""
    return [f"gain-{key}-{number}" for key, ladder in ladders.items() for number in range(1, len(ladder.stages) + 1)]


def _stopped_short(ladder: Ladder) -> bool:
    """Return whether a turn in which no single step passed was followed by one in which a pair did."""
    return any(stage.taken is None and after.taken is not None for stage, after in pairwise(ladder.stages))


def record_server(page: Page, ladders: Ladders, machine: Ceilings) -> None:
    """Record the ladder for 64 questions, and both ladders' ends under the roof of one core."""
    for_user, for_server = ladders["one"], ladders["many"]
    _record_start(page, "many", for_server)
    alone, times = for_user.stages[0].profile, for_server.workload.questions / for_user.workload.questions
    what = "share of arithmetic and data for 64 questions, if all else takes as long as for one"
    predicted = times * alone.work / (alone.whole - alone.work + times * alone.work)
    page.number("work-predicted", Modelled(predicted, "%", what, "as much time for all else"))
    begin = for_server.stages[0]
    _record_trials(page, "many", begin)
    record_moves(page, "many", for_server)
    page.word("first-server", _name(begin.taken), because=_BECAUSE_TAKEN, numbers=("gain-many-1",))
    if begin.taken:
        page.number("first-server-gain", begin.taken.gained.estimate)
        what = f"prediction for {begin.taken.name}, 64 questions"
        page.number("first-server-predicted", Modelled(begin.taken.forecast.speedup, "", what, "Amdahl's law"))
    else:
        page.absent("first-server-gain", "first-server-predicted", reason="in this run no first step passed")
    is_same = for_user.last == for_server.last
    because = "configurations are equal if all their choices are"
    page.word("same-end", "the same configuration" if is_same else "another configuration", because=because)
    placed = [ladder.stages[at].profile.placed for ladder in (for_user, for_server) for at in (0, -1)]
    page.figure(
        "roof-lines",
        roofline_figure(placed, machine, variants=["numpy", "compiled", "numpy", "compiled"]),
        caption="Where plain start and last rung stand under the roof of one core. A cache takes arithmetic away as "
        "well as time, so that a faster rung need not stand higher.",
        alt="Log-log plot of rate over arithmetic intensity with the slopes of caches and memory and their flat peak, "
        "and four numbered points: plain start and last rung for one question, and for 64.",
    )


def record_pairs(page: Page, ladders: Ladders) -> None:
    """Record the pairs that were taken, beside what their first step brought alone; absent if none was."""
    rows = []
    for ladder in ladders.values():
        for at, stage in enumerate(ladder.stages):
            if stage.steps_at_once == 1 or stage.taken is None:
                continue
            enabling = stage.taken.move[0]
            before = next(one for one in reversed(ladder.stages[:at]) if one.before == stage.before)
            alone = next(trial for trial in before.trials if trial.move == (enabling,))
            rows.append(
                {
                    "pair": stage.taken.name,
                    "questions": str(ladder.workload.questions),
                    "enabling": enabling.name,
                    "alone": alone.gained.estimate,
                    "together": stage.taken.gained.estimate,
                }
            )
    if not rows:
        page.absent("pairs", reason="in this run no pair was taken", instead_of="table")
        return
    page.table(
        "pairs",
        rows,
        PAIR_COLUMNS,
        caption="Pairs that were taken where no single step passed: what the one that makes the other possible "
        "brought alone, in the turn before, and both together.",
    )


def record_alone(page: Page, ladders: Ladders) -> None:
    """Record what steps that were taken in a later turn gained there, beside their gain in the first; absent if none.

    A step that was taken first gained the same in both, and a pair was not tried in the first turn.
    """
    rows = []
    for ladder in ladders.values():
        first = {trial.name: trial for trial in ladder.stages[0].trials}
        for taken in (stage.taken for stage in ladder.stages[1:]):
            if taken is None or taken.name not in first:
                continue
            alone = first[taken.name].gained.estimate
            became = quotient(taken.gained.estimate, alone, f"gain of {taken.name} over its gain alone")
            rows.append(
                {
                    "step": taken.name,
                    "questions": str(ladder.workload.questions),
                    "alone": alone,
                    "taken": taken.gained.estimate,
                    "verdict": word_between(became, _BECAME),
                }
            )
    if not rows:
        page.absent("alone", reason="in this run no single step was taken after another", instead_of="table")
        return
    page.table(
        "alone",
        rows,
        ALONE_COLUMNS,
        caption="What steps gained alone, in the first turn, and what they gained after the steps before them.",
    )


def record_choices(page: Page, ladders: Ladders) -> None:
    """Record how often the profile chose right, and how far predictions were off."""
    stages = [stage for ladder in ladders.values() for stage in ladder.stages]
    choices = [_told(page, stage, stage.choice) for stage in stages if stage.choice is not None]
    of_roof = [_told(page, stage, stage.choice_of_roof) for stage in stages if stage.choice is not None]
    trials = [trial for stage in stages for trial in stage.trials]
    gained = tuple(trial.gained.estimate for trial in trials)
    what = "turns of both ladders in which a move was taken"
    page.number("turns", Derived(len(choices), "1", what, gained, "it counts verdicts"))
    what = (
        "turns in which it is proven that the move predicted to be best passed, and no other is proven to be faster; "
        "none where other programs took this machine's time"
    )
    page.number("turns-right", Derived(_right(choices), "1", what, gained, "it counts verdicts"))
    what = "turns in which the same holds for the move that the roof would allow most for"
    page.number("turns-by-roof", Derived(_right(of_roof), "1", what, gained, "it counts verdicts"))
    _record_errors(page, trials)


def _right(choices: Sequence[Judgement | None]) -> int:
    """Return how many choices are proven right."""
    return sum(one is not None and one.verdict is Verdict.SUPPORTED for one in choices)


def _told(page: Page, stage: Stage, choice: Judgement | None) -> Judgement | None:
    """Return the verdict on a choice as the table of turns has it: withheld where other programs took time."""
    return choice and page.withhold_if_disturbed(choice, *[trial.gained.estimate for trial in stage.trials])


def record_profile_claim(page: Page, ladders: Ladders) -> None:
    """Record the claim that the bottleneck is to be optimized first, judged by every turn that took something."""
    stages = [stage for ladder in ladders.values() for stage in ladder.stages]
    choices = [told for stage in stages if (told := _told(page, stage, stage.choice)) is not None]
    page.claim(
        "profile-chooses",
        statement="To optimize the bottleneck first has the largest effect.",
        source=COURSE_PROFILING,
        source_url=COURSE_PROFILING_URL,
        quote="Amdahl's Law rules: Optimize the bottleneck first for maximum impact",
        verdict=verdict_of_all(choices),
        evidence="In {turns} turns of the two ladders something was taken. In {turns-right} of them it is proven that "
        "what Amdahl's law put first passed, and no other step is proven to be faster. The test asks for all of them. "
        "Where no step passes, nothing has an effect that could be the largest.",
        numbers=gain_keys(ladders),
    )


def _record_errors(page: Page, trials: list[Trial]) -> None:
    """Record how far prediction and measurement are apart, over all trials."""
    off = np.array([abs(np.log(trial.forecast.speedup / trial.gained.estimate.median)) for trial in trials])
    gained = tuple(trial.gained.estimate for trial in trials)
    what = "moves that were predicted and measured, both ladders"
    page.number("trials", len(trials), unit="1", what=what)
    what = "median of how far prediction and measurement are apart, all trials"
    page.number(
        "typical-error",
        Derived(float(np.exp(np.median(off)) - 1), "%", what, gained, "predictions of one profile err together"),
    )
    what = "largest ratio between prediction and measurement, either way, all trials"
    page.number("worst-error", Derived(float(np.exp(off.max())), "", what, gained, "it is a largest one"))
    because = "of all trials its prediction is farthest from what was measured, {worst-error} either way"
    page.word("worst-trial", trials[int(off.argmax())].name, because=because)
