"""Results files: whole there and back, and refused with a reason where they are cut short or not what they must be."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.perf.benchmarking.made import performance, results
from tinytorch.perf.benchmarking import Results, load_results, running, save_results
from tinytorch.perf.benchmarking.results import Plan
from tinytorch.perf.benchmarking.running import Side, continued, run, started
from tinytorch.perf.benchmarking.worker import measure_process

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
        (before, PLAN, "b", "other code"),
        (before, replace(PLAN, repeats=7), "a", "planned otherwise"),
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
