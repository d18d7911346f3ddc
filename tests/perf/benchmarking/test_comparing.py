"""Comparisons: direction, verdicts and intervals, and the front they make; and files of results."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.perf.benchmarking.made import performance, results, times
from tinytorch.perf.benchmarking import Performance, Results, compare, load_results, pareto_front, running, save_results
from tinytorch.perf.benchmarking.performance import FEWEST_PROCESSES, RunConditions, compare_runs
from tinytorch.perf.benchmarking.results import Plan, compare_results
from tinytorch.perf.benchmarking.running import Side, continued, run, started
from tinytorch.perf.benchmarking.worker import measure_process
from tinytorch.perf.measuring import Counted, Measurement
from tinytorch.perf.measuring.between_run_variance import PRIOR
from tinytorch.perf.measuring.conditions import Conditions
from tinytorch.perf.measuring.judge import Verdict


def in_turns(**seconds: float) -> dict[str, Performance]:
    """Return performances whose times say they were taken in turns, with one disturbance for each pair."""
    draw = np.random.default_rng(0)
    noise = np.exp(0.2 * draw.standard_normal(30))
    conditions = Conditions(interleaved_with=tuple(seconds))
    made = {}
    for name, level in seconds.items():
        samples = tuple(level * noise * np.exp(0.001 * draw.standard_normal(30)))
        made[name] = replace(performance(name), times={1: (Measurement(name, samples, "s", conditions),)})
    return made


def test_a_speedup_above_one_is_faster_and_pairs_cancel_what_both_felt() -> None:
    both = in_turns(slow=2e-3, fast=1e-3)
    made, back = compare(both["slow"], both["fast"]), compare(both["fast"], both["slow"])
    assert (made.speedup.verdict, back.speedup.verdict) == (Verdict.FASTER, Verdict.SLOWER)
    assert made.speedup.estimate.median == pytest.approx(2, rel=0.01)
    assert made.speedup.interval.half_width < 0.01, "of 20 % noise, which both felt alike, nothing is left"
    assert made.speedup.estimate.median * back.speedup.estimate.median == pytest.approx(1)
    for options in ({"together": 0}, {"matters": -1.0}):
        with pytest.raises(ValueError, match=next(iter(options))):
            compare(*both.values(), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("memory", "wrong", "verdicts", "losses"),
    [
        (1000, 0, (Verdict.SMALLER, Verdict.BETTER), (False, False)),
        (2100, 60, (Verdict.LARGER, Verdict.WORSE), (True, True)),
        (2001, 10, (Verdict.LARGER, Verdict.NO_DIFFERENCE), (False, False)),
    ],
)
def test_memory_and_accuracy_have_verdicts_of_their_own(
    memory: float, wrong: int, verdicts: tuple[Verdict, Verdict], losses: tuple[bool, bool]
) -> None:
    base, new = performance(memory=2000, wrong=range(10)), performance(memory=memory, wrong=range(wrong), run="other")
    made = compare(base, new)
    assert made.accuracy is not None
    assert (made.memory.verdict, made.accuracy.verdict, made.size.verdict) == (*verdicts, verdicts[0])
    assert (float(made.memory), float(made.accuracy)) == pytest.approx((2000 / memory, (10 - wrong) / 400))
    assert (made.memory.is_fixed, made.accuracy.is_fixed) == (True, False), "bytes are counted"
    assert (made.memory.is_loss, made.accuracy.is_loss) == losses
    assert (made.memory.is_no_loss, made.accuracy.is_no_loss) == (not losses[0], not losses[1])
    assert bool(made.memory.by_little) == (memory == 2001)


def apart(
    seconds: float, *, processes: int = 1, timed: Mapping[str, Any] | None = None, **conditions: Any
) -> Performance:
    """Return what a call of its own measures, named as by default, under conditions that are alike but for some."""
    made = performance(seconds=seconds, processes=processes, run=str(seconds))
    under = Conditions(**{"blas_threads": 1, "cpu_per_wall": 1.0, **(timed or {})})
    measured = tuple(replace(one, samples=one.samples * 4, conditions=under) for one in made.times[1])
    known = RunConditions(**{"machine": "this", "threads": 1, "others": 0.0, "data": "one", **conditions})
    return replace(made, times={1: measured}, reference={}, conditions=known)


@pytest.mark.parametrize("processes", [1, 3])
@pytest.mark.parametrize(
    ("times_as_fast", "verdict"),
    [(47.0, Verdict.FASTER), (1.3, Verdict.FASTER), (1.05, Verdict.OPEN), (1 / 47, Verdict.SLOWER)],
)
def test_two_separate_calls_tell_what_lies_farther_apart_than_repeats_do(
    times_as_fast: float, verdict: str, processes: int
) -> None:
    made = apart(1e-3, processes=processes).time / apart(1e-3 / times_as_fast, processes=processes).time
    assert made.verdict == verdict
    assert float(made) == pytest.approx(times_as_fast, rel=0.02)
    least = 1.96 * PRIOR.alone * (2 / processes) ** 0.5  # the processes of a run differ, too
    assert made.interval.low < times_as_fast * (1 - 0.9 * least)
    assert made.interval.high > times_as_fast * (1 + 0.9 * least)


def test_separate_calls_of_one_program_differ_by_more_than_promised_as_seldom_as_they_say() -> None:
    draw = np.random.default_rng(4)
    wrong = 0
    for _ in range(200):
        levels = np.exp(PRIOR.alone * draw.standard_normal(2))  # what each draws for its whole life
        drawn = [tuple(level * np.exp(0.01 * draw.standard_normal(12))) for level in levels]
        one, other = ([Measurement("made", samples, "s")] for samples in drawn)
        wrong += compare_runs(one, other, 0, names=("a", "b"), together=1).verdict != Verdict.OPEN
    assert wrong / 200 <= 0.05
    one, other = ([Measurement("made", (level,), "s")] * 2 for level in (1.0, 9.0))
    few = compare_runs(one, other, 0.01, names=("a", "b"), together=1)
    assert (few.verdict, "one sample" in few.because) == (Verdict.OPEN, True)


@pytest.mark.parametrize(("processes", "said"), [(FEWEST_PROCESSES - 1, True), (FEWEST_PROCESSES, False)])
def test_only_of_few_processes_is_what_separate_runs_differ_by_known_from_elsewhere(processes: int, said: bool) -> None:
    base, new = (times(1e-3, processes, seed) for seed in (0, 1))
    made = compare_runs(base, new, 0.01, names=("a", "b"), together=1)
    assert ("it holds what separate runs differ by" in made.because) == said


@pytest.mark.parametrize(
    ("changed", "timed", "words"),
    [
        ({"machine": "other"}, {}, "different conditions: machine this and other"),
        ({"threads": 2}, {"blas_threads": 2}, "different conditions: threads 1 and 2"),
        ({"others": 0.9}, {"cpu_per_wall": 0.6}, "less than a whole core while .* 0.0 and 0.9 cores busy"),
        ({"others": 0.9}, {"blas_threads": 2}, "different loads"),
    ],
)
def test_times_under_other_conditions_are_shown_and_not_judged(
    changed: dict[str, Any], timed: dict[str, Any], words: str
) -> None:
    made = apart(1e-3).time / apart(1e-4, timed=timed, **changed).time
    assert made.verdict == Verdict.WITHHELD
    assert re.search(words, made.sentence())
    assert float(made) == pytest.approx(10, rel=0.02)
    assert (apart(1e-3).time / apart(1e-4, others=0.9).time).verdict == Verdict.FASTER, "it had its core all the same"


def test_results_divide_and_subtract_in_the_direction_of_their_words() -> None:
    base = replace(apart(1e-3), name="base", peaks={1: Counted(2000, "B", "made")})
    new = replace(apart(5e-4), name="new", correct=np.arange(400) >= 50)
    for made, words in (
        (base.time / new.time, "new is faster"),
        (new.time / base.time, "base is slower"),
        (base.memory / new.memory, "new is smaller"),
    ):
        assert repr(made).endswith(words)
    assert f"{base.time / new.time:.2f} {base.memory / new.memory:.1f} {new.accuracy:.1%}" == "2.00 2.0 87.5%"
    lost = new.accuracy - base.accuracy
    assert (f"{lost:+.3f}", lost.verdict) == ("-0.125", Verdict.WORSE)
    assert [float(each) for each in base if each is not None] == [base.times[1][0].median, 2000, 1]
    change = compare(base, new)
    assert (float(change.speedup), change.accuracy) == (float(base.time / new.time), lost)
    for other, error, named in (
        (new.memory, TypeError, "unsupported operand"),
        (apart(1e-3, data="other").time, ValueError, "data"),
        (replace(new, times={2: new.times[1]}).time, ValueError, "batch"),
    ):
        with pytest.raises(error, match=named):
            base.time / other


def test_intervals_between_runs_hold_the_truth_as_often_as_they_say() -> None:
    held = 0
    for seed in range(300):
        base, new = (times(level, 6, seed + start, samples=3) for level, start in ((1.0, 0), (1.1, 5000)))
        held += 1 / 1.1 in compare_runs(base, new, 0, names=("a", "b"), together=1).interval
    assert held / 300 > 0.92


def test_a_run_against_itself_has_no_regression_and_a_slower_one_has() -> None:
    def made(seconds: float, seed: int) -> Results:
        return results(performance("a", seconds, seed=seed), performance("b", 2e-3, seed=seed + 1))

    base, slower = made(1e-3, 1), made(1.1e-3, 7)
    assert compare_results(base, made(1e-3, 7)).regressions == ()
    changed = compare_results(base, slower)
    assert len(changed.regressions) == 2
    assert changed.regressions[0].startswith("a at batch 1 is slower")
    assert changed.geometric_mean.estimate.median == pytest.approx(1 / np.sqrt(1.1), rel=0.01)
    assert compare_results(slower, base).regressions == compare_results(base, slower, matters=0.2).regressions == ()
    whole = performance(seconds=1.2e-3, reference=1.2e-4, seed=1, run="other")
    for one, other, slowed in (
        (performance(), whole, False),  # the reference takes away what the machine did to a whole run
        (replace(performance(), reference={}), replace(whole, reference={}), True),
    ):
        assert (compare(one, other).speedup.verdict == Verdict.SLOWER) == slowed


def test_what_makes_a_comparison_doubtful_is_said() -> None:
    base, new = results(performance("a"), performance("gone")), results(performance("a"), performance("fresh"))
    plan = replace(new.plan, processes=20, subject="cnn")
    changed = compare_results(base, replace(new, identity={**new.identity, "cpu": "another"}, plan=plan))
    assert (changed.only_base, changed.only_new) == (("gone",), ("fresh",))
    for words, warning in zip((r"machines.* another", "not complete", "cnn"), changed.warnings, strict=False):
        assert re.search(words, warning)
    with pytest.raises(ValueError, match="in common"):
        compare_results(results(performance("a")), results(performance("b")))


def test_the_front_names_who_is_dominated_and_by_whom() -> None:
    made = in_turns(base=4e-3, small=4e-3, fast=1e-3, best=0.5e-3)
    sizes, wrong = {"small": 500, "best": 1000}, {"best": 100}
    chosen = {name: performance(name, memory=sizes.get(name, 4000), wrong=range(wrong.get(name, 5))) for name in made}
    front = pareto_front({name: replace(one, times=made[name].times) for name, one in chosen.items()})
    assert front.front == ("small", "fast", "best")
    assert front.dominated == {"base": ("small", "fast")}


@pytest.mark.parametrize(
    ("cores", "others", "dominated"), [(0.5, 1.0, False), (0.5, 0.0, True), (1.0, 1.0, True), (None, None, True)]
)
def test_nobody_is_off_the_front_by_times_that_other_programs_took_from(
    cores: float | None, others: float | None, dominated: bool
) -> None:
    conditions = None if others is None else RunConditions("one", 1, others, "data")
    made = {}
    for name, one in in_turns(slow=4e-3, fast=1e-3).items():
        (taken,) = one.times[1]
        under = replace(taken.conditions, cpu_per_wall=cores, blas_threads=None if cores is None else 1)
        made[name] = replace(one, times={1: (replace(taken, conditions=under),)}, conditions=conditions)
    front = pareto_front(made)
    assert front.dominated == ({"slow": ("fast",)} if dominated else {})
    assert front.undecided == ({} if dominated else {"slow": ("fast",)})
    assert pareto_front(made, told=lambda one: one).dominated == {"slow": ("fast",)}


PLAN = Plan("tests.perf.benchmarking.made:factory", (1, 3), processes=3, repeats=6, at_most_seconds=0.05)


def test_results_come_back_as_they_were_saved_and_cut_short_are_refused(tmp_path: Path) -> None:
    made = results(performance("a", wrong=[3, 7]), performance("b"))
    path = save_results(made, tmp_path / "made.json")
    back = load_results(path)
    assert save_results(back, tmp_path / "again.json").read_text() == path.read_text()
    assert back.performances["a"].correct is not None
    assert (~back.performances["a"].correct).nonzero()[0].tolist() == [3, 7]
    assert back.performances["a"].times[1][2].samples == made.performances["a"].times[1][2].samples
    path.write_text(path.read_text()[:-500])
    with pytest.raises(ValueError, match="cut short"):
        load_results(path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d, _: d.update(schema_version=1), "of version 1, not 4: make it again with `tinytorch bench"),
        (
            lambda d, _: d.update(schema="tinytorch-benchmark-3"),
            "must be a 'tinytorch-benchmark' file of version 4, not 'tinytorch-benchmark-3': make it again with",
        ),
        (lambda d, _: d.pop("machine"), "'machine' is missing"),
        (lambda d, _: d.pop("values"), r"made\.json: it must be an object, not NoneType"),
        (lambda d, _: d.update(values=7), r"made\.json: it must be an object, not int"),
        (lambda d, _: d["values"].update(plan=None), r"must be an object, not NoneType @ \$\.plan"),
        (lambda d, _: d["values"].pop("plan"), "'plan' is missing"),
        (lambda d, _: d["values"]["identity"].pop("cpu"), "must have the field 'cpu'"),
        (lambda d, _: d["values"].update(done=3), "each of the 3 finished processes"),
        (lambda _, one: one["times"]["1"][0].update(unit="ms"), "must be in s"),
        (lambda _, one: one["times"]["1"][0]["samples"].append(-1.0), "above 0"),
        (lambda _, one: one["times"]["1"][0]["samples"].pop(), "as many samples"),
        (lambda _, one: one["correct"].update(false=[400]), "below 400"),
        (lambda _, one: one["correct"].update(examples="400"), "correct must have a number of examples and a list"),
        (lambda _, one: one["correct"].update(false=7), "correct must have a number of examples and a list"),
        (lambda _, one: one["correct"].pop("false"), "correct must have a number of examples and a list"),
        (lambda _, one: one.update(correct=[True]), "correct must have a number of examples and a list"),
        (lambda _, one: one.update(times={"x": []}), "a key must be a whole number"),
        (lambda _, one: one.update(model_bytes=-1), "at least 0"),
        (lambda _, one: one.update(name="other"), "'other' is there as 'model'"),
        (
            lambda _, one: one["reference"].update({"2": one["reference"].pop("1")}),
            r"reference of 'model' must have the batch sizes of its times, \[1\], not \[2\]",
        ),
        (lambda _, one: one["times"].update({"2": one["times"]["1"]}), r"its times, \[1, 2\], not \[1\]"),
        (lambda d, _: d["values"]["plan"].update(at_most_seconds=0), "above 0"),
    ],
)
def test_what_is_not_as_it_must_be_is_refused(change: Callable[[Any, Any], None], words: str, tmp_path: Path) -> None:
    path = save_results(results(performance()), tmp_path / "made.json")
    document = json.loads(path.read_text())
    change(document, document["values"]["performances"]["model"])
    path.write_text(json.dumps(document))
    with pytest.raises(ValueError, match=words):
        load_results(path)


def test_a_fresh_process_measures_a_model_of_ones_own_and_a_failing_one_says_why(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept: list[Results] = []
    (made,) = run([Side(started(replace(PLAN, processes=1), {}), kept.append)])
    one = made.performances["factory"]
    assert made.complete
    assert kept == [made]
    assert (one.batches, len(one.times[1]), len(one.reference[3])) == ((1, 3), 1, 1)
    assert one.correct is not None
    assert (one.correct.size, one.model_bytes) == (12, 4 * (4 * 3 + 3))
    monkeypatch.setattr(running, "WORKER_MODULE", "tinytorch.no_such_worker")
    with pytest.raises(RuntimeError, match="no_such_worker"):
        run([Side(started(PLAN, {}), kept.append)])


Asked = list[tuple[str | None, int, bool]]


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """Let workers run here, and return what was asked of each: checkout, number, and whether it was the first."""
    asked: Asked = []

    def process(results: Results, number: int, folder: Path | None) -> Any:
        whole = not results.performances
        asked.append((None if folder is None else folder.name, number, whole))
        return measure_process(results.plan, number, whole)

    monkeypatch.setattr(running, "_process", process)
    return asked


def test_a_run_that_would_mix_code_or_plans_is_not_continued() -> None:
    before = started(PLAN, {"commit": "a"})
    moved = replace(before, identity={**before.identity, "cpu": "another"})
    for results_, plan, commit, words in (
        (before, PLAN, "b", "code has changed"),
        (before, replace(PLAN, repeats=7), "a", "different options"),
        (moved, PLAN, "a", "another machine"),
    ):
        with pytest.raises(ValueError, match=words):
            continued(results_, plan, {"commit": commit})
    assert continued(before, replace(PLAN, processes=9), {"commit": "a"}).plan.processes == 9


def test_a_change_and_its_base_take_turns(in_this_process: Asked) -> None:
    new, base = run([Side(started(PLAN, {}), lambda _: None, folder) for folder in (None, Path("base"))])
    assert new.done == base.done == 3
    assert [number for _, number, _ in in_this_process] == [0, 0, 1, 1, 2, 2]
    assert all({name for name, n, _ in in_this_process if n == number} == {None, "base"} for number in range(3))


@pytest.mark.parametrize(
    "wrong", [{"processes": 0}, {"repeats": 0}, {"threads": 0}, {"batches": (0,)}, {"at_most_seconds": 0.0}]
)
def test_plans_out_of_range_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        replace(PLAN, **wrong)
