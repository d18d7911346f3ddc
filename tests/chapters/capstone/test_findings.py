"""What the capstone finds in ladders that differ: with pairs, without, with nothing that passes; and measured anew."""

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from tests.chapters.capstone.made_trials import CACHE, KERNELS, RULE, SMALL, in_turns, made_ladder, made_seconds
from tinytorch.chapters.capstone import findings, workload
from tinytorch.chapters.capstone.configuration import GOOD_BASELINE, Configuration
from tinytorch.chapters.capstone.findings import End, Rung
from tinytorch.chapters.capstone.ladder import Ladder
from tinytorch.chapters.capstone.workload import Workload, predicted_bytes
from tinytorch.perf.benchmarking import Performance
from tinytorch.perf.engines.turns import Raced
from tinytorch.perf.measuring import Counted, Measurement, Unmeasured, judge
from tinytorch.perf.measuring.judge import Verdict

_WITH_PAIRS = made_ladder()
_TWO_STEPS = made_ladder(steps=(KERNELS, SMALL))
_NOTHING_PASSES = made_ladder(steps=(CACHE,))
_QUIET: Any = SimpleNamespace(cores=lambda: 0.0)


def test_the_work_of_one_question_is_done_once_for_each() -> None:
    many = made_ladder(64)
    # Of 0.4 for one question 64 times as much, beside 0.6 that stay.
    assert findings.shared_work(_WITH_PAIRS, many).value == pytest.approx(64 * 0.4 / (0.6 + 64 * 0.4), rel=0.01)


@pytest.mark.parametrize(("times", "rows"), [((1, 1, 1), "0 rows"), ((2, 0.5, 2), "3 rows"), ((1, 1, 2), "1 row")])
def test_rows_whose_interval_leaves_a_prediction_out_are_counted(times: tuple[float, ...], rows: str) -> None:
    """The roof allows that many times what was measured."""
    stage = _WITH_PAIRS.stages[0]
    trials = [
        replace(one, roof=replace(one.roof, value=factor * one.gained.estimate.median))
        for one, factor in zip(stage.trials, times, strict=True)
    ]
    found = findings.ruled_out(replace(stage, trials=tuple(trials)), "roof")
    assert f"{found.value} {found.unit}" == rows


def test_a_pair_stands_beside_what_its_first_step_brought_alone() -> None:
    (found,) = cast(Any, findings.pairs_taken([_WITH_PAIRS]))
    assert (found.taken.name, found.alone.name) == ("key-value cache + one op a token", "key-value cache")
    assert found.alone.gained.estimate.median == pytest.approx(1 / 1.25, rel=0.01)
    assert found.taken.gained.estimate.median == pytest.approx(1 / 0.4, rel=0.01)
    assert findings.pairs_taken([_TWO_STEPS]) == Unmeasured("in this run no pair was taken after another step")


def test_right_choices_are_counted_where_nothing_disturbed_them(monkeypatch: pytest.MonkeyPatch) -> None:
    made = findings.choices([_WITH_PAIRS, _WITH_PAIRS], _QUIET)
    assert (made.turns.value, made.right.value, made.by_roof.value) == (6, 6, 6)
    assert made.typical.value < 0.01
    monkeypatch.setattr(judge, "is_disturbed", lambda tested, _: len([*tested]) > 0)
    busy = findings.choices([_WITH_PAIRS, _WITH_PAIRS], _QUIET)
    assert (busy.turns.value, busy.right.value, busy.by_roof.value) == (6, 0, 0)


def test_errors_of_predictions_are_counted_and_the_worst_is_named() -> None:
    # Each guess that a cache brings nine times as much as before is off where the trial had it.
    off = [made_ladder(steps=(CACHE, KERNELS), forecasts=lambda one: 9.0 if one.cache != "none" else 2.0)] * 2
    made = findings.choices(off, _QUIET)
    assert (made.worst, made.right.value, made.trials.value) == ("key-value cache", 0, 6)
    assert made.largest.value == pytest.approx(9 * 1.25, rel=0.01)
    assert made.typical.value == pytest.approx(math.exp(math.log(9 * 1.25)) - 1, rel=0.01)


def anew(ladder: Ladder, faster: float = 1.0, smaller: float = 1.0) -> tuple[dict[str, Rung], End]:
    """Return the rungs as `made_seconds` has them, each step ``faster`` and ``smaller`` so many times again."""
    asked, right = ladder.workload.questions, np.arange(2000) < 1980
    seconds = {name: made_seconds(one) / faster**number for number, (name, one) in enumerate(ladder.rungs.items())}
    seconds["NumPy with a cache"] = made_seconds(GOOD_BASELINE)
    peaks = [Measurement("peak", (2e6 / smaller**at,) * 6, "B") for at in range(len(seconds))]
    found = {
        name: Performance(name, "sort", {asked: (times,)}, {asked: peak}, 1000, right, "run")
        for (name, times), peak in zip(in_turns(seconds).items(), peaks, strict=True)
    }
    made = findings.rungs(ladder, found, RULE)
    return made, findings.end(ladder, made, RULE)


def test_every_rung_stands_beside_the_one_before_and_the_start_and_the_baseline_is_none() -> None:
    rungs, _ = anew(_TWO_STEPS)
    expected = {
        "plain": (None, None),
        "compiled kernels": (2.0, 2.0),
        "distilled model": (1.25, 2.5),
        "NumPy with a cache": (None, 0.8),
    }
    assert [*rungs] == [*expected]
    for name, one in rungs.items():
        gains = one.gained and one.gained.median, one.change and float(one.change.speedup)
        assert tuple(gain and round(gain, 2) for gain in gains) == expected[name]
        assert (one.trial is None, one.right.unit, one.right.median) == (one.gained is None, "%", 0.99)
    assert [*expected][:-1] == [*findings.rungs_alone({name: one.found for name, one in rungs.items()})]


@pytest.mark.parametrize(
    ("faster", "smaller", "verdict"),
    [(1.0, 1.0, "refuted"), (4.0, 1.0, "supported"), (1.0, 4.0, "supported"), (1.9998, 1.0, "open")],
)
def test_ten_times_is_asked_of_speed_or_memory(faster: float, smaller: float, verdict: str) -> None:
    both = [anew(ladder, faster, smaller) for ladder in (_TWO_STEPS, made_ladder(64, (KERNELS, SMALL)))]
    end = both[0][1]
    assert end.gain.median == pytest.approx(2.5 * faster**2, rel=0.01)
    assert end.saved.median == pytest.approx(smaller**2)
    assert findings.any_gains([end for _, end in both], times=10).verdict == verdict
    gains = [rung.gained.median for rungs, _ in both for rung in rungs.values() if rung.trial and rung.gained]
    for at in (0.1, 0.6):
        anew_enough = findings.confirmed([rungs for rungs, _ in both], replace(RULE, matters=at))
        assert cast(Any, anew_enough).value == sum(gain > 1 + at for gain in gains)
    # The baseline takes 1.25 ms, comes after the last rung, and is that many times smaller again.
    assert float(end.honest) == pytest.approx(1.25 * 2.5 * faster**2, rel=0.01)
    assert (end.questions, end.honest.verdict) == ("1", Verdict.FASTER)


def test_where_no_step_passes_the_end_is_the_start() -> None:
    rungs, end = anew(_NOTHING_PASSES)
    assert (end.last, end.gain.median, end.saved.median) == (rungs["plain"], 1, 1)
    assert findings.any_gains([end], times=10).verdict is Verdict.REFUTED
    assert findings.confirmed([rungs], RULE) == Unmeasured("in this run no step was taken")


def test_bytes_are_held_against_the_shapes_and_savings_multiply(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Workload, "ready", lambda _, one: one)
    monkeypatch.setattr(workload, "held_bytes", lambda one: 1.1 * predicted_bytes(one, 1))
    assert findings.bytes_off([_TWO_STEPS]).value == pytest.approx(0.1, abs=1e-3)
    plain, half, third = (Counted(size, "B", "weights") for size in (600, 300, 200))
    product = findings.multiplied(plain.over(half, "half"), plain.over(third, "third"))
    assert (product.value, product.carried and product.carried.is_counted) == (6, True)


def test_what_was_left_out_has_a_reason_for_each_ladder() -> None:
    lossy = frozenset({Configuration(kernels=True)})
    made = findings.left_out({"one": made_ladder(1, (CACHE, KERNELS), lossy=lossy), "many": _TWO_STEPS})
    words = {name: (each["one"].outcome.word, each["many"]["outcome"].word) for name, each in made.items()}
    assert words == {"compiled kernels": ("answers refuted", "taken"), "key-value cache": ("gain refuted", "untried")}
    counted = findings.how_many(made)
    assert (counted.value, counted.unit, len(counted.measured)) == (2, "steps", 2)


def test_pytorch_is_raced_or_said_to_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    eager, kept = "PyTorch eager", "PyTorch eager, cache concatenated"
    times = in_turns({"tinytorch": 9.0, "tinytorch accelerated": 1.0, eager: 3.0, kept: 2.0})
    monkeypatch.setattr(findings, "study", lambda *_, **__: [Raced("gpt", "decode", 1, times, {})] * 2)
    one, many = cast(Any, findings.race()).values()
    assert (one.name.startswith(f"time of {kept}"), many.median) == (True, pytest.approx(2, rel=0.01))
    missing = Unmeasured("PyTorch is not installed.")
    monkeypatch.setattr(findings, "study", lambda *_, **__: missing)
    assert findings.race() == missing


def test_fewer_lost_answers_fit_where_the_budget_is_smaller() -> None:
    # Of 2,000, twenty are one in a hundred: with an interval around them fewer pass.
    assert findings.most_lost(2000, 0.005).value < findings.most_lost(2000, 0.01).value < 20
