"""What the page says of whole passes: climbs, techniques and compiling, told made results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.chapters.acceleration.test_ladder import made_rungs
from tests.chapters.made_turns import in_turns, made, records
from tests.perf.made_ceilings import PEAK, made_ceilings, placed
from tests.perf.quantization.small_zoo import batch, make
from tinytorch import models
from tinytorch.chapters.acceleration import passes as chapter
from tinytorch.perf.acceleration.climbing import Climb, Move
from tinytorch.perf.acceleration.teaching import TEACHING
from tinytorch.perf.acceleration.techniques import BASELINE, CODES, CORES, FUSED, KERNELS, Tried
from tinytorch.perf.measuring import Measurement, current_blas_threads
from tinytorch.perf.measuring.comparison import compare_all, compare_paired
from tinytorch.report import Page
from tinytorch.report.records import Json

#: So little that every gain is beyond doubt, but not the same twice.
HAIR = 1e-6


def move(op: str, share: float, gained: float, predicted: float | None = None, alone: float = 4.0) -> Move:
    times = in_turns({"before": gained, "after": 1.0}, noise={"after": HAIR})
    return Move(
        op,
        "numpy",
        "numba",
        made(share, "%"),
        made(alone),
        gained if predicted is None else predicted,
        compare_paired(times["before"], times["after"]),
    )


def climb_of(*moves: Move) -> Climb:
    """Return the moves with stages in which those that were kept gained what their trials did."""
    seconds = {"as it began": 8.0}
    for at, each in enumerate(each for each in moves if each.kept):
        seconds[f"after {at}"] = [*seconds.values()][-1] / each.gained.ratio.median
    return Climb(moves, tuple(in_turns(seconds, noise=dict.fromkeys(seconds, HAIR)).values()))


def test_it_begins_with_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = made_ceilings()
    monkeypatch.setattr(chapter, "ceilings", lambda threads: machine if threads == 1 else None)
    page, found, draw = chapter.begin()
    assert (page.name, found) == ("acceleration", machine)
    assert draw.random() == np.random.default_rng(0).random()
    assert current_blas_threads() == 1


class Turns:
    """Stands in for `interleave`: keeps what each run returned, and gives every run a second."""

    def __init__(self) -> None:
        self.outputs: dict[str, Any] = {}

    def __call__(self, runs: Mapping[str, Callable[[], Any]], **_plan: Any) -> dict[str, Measurement]:
        self.outputs = {name: run().data for name, run in runs.items()}
        return in_turns(dict.fromkeys(runs, 1.0))


@pytest.mark.parametrize(("loops", "names"), [(TEACHING, ["loops"]), (None, [])])
def test_all_passes_compute_the_model(monkeypatch: pytest.MonkeyPatch, loops: Any, names: list[str]) -> None:
    turns = Turns()
    monkeypatch.setattr(chapter, "interleave", turns)
    model, inputs = make("gpt"), batch("gpt")[:1]
    assert [*chapter.whole_passes(model, inputs, loops)] == [*names, "NumPy", "kernels", "fused"]
    for output in turns.outputs.values():
        np.testing.assert_allclose(output, turns.outputs["NumPy"], rtol=0, atol=1e-4)


def test_a_pass_is_placed_as_numpy_runs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(chapter, "place_call", lambda name, run, machine: seen.append((run().data, machine)))
    model, inputs, machine = make("gpt"), batch("gpt")[:1], made_ceilings()
    chapter.placed_pass(model, inputs, machine)
    np.testing.assert_allclose(seen[0][0], model(inputs).data, rtol=0, atol=1e-5)
    assert seen[0][1] is machine


def first_climb() -> dict[str, Json]:
    climbed = climb_of(
        move("linear", 0.8, 2.0, predicted=3.0), move("gelu", 0.1, 1.1, predicted=1.0), move("add", 0.05, 0.9)
    )
    finished = in_turns({"loops": 12.0, "NumPy": 2.0, "kernels": 1.0, "fused": 0.5})
    page = Page("acceleration")
    chapter.record_first_climb(page, climbed, finished, placed("GPT, one sequence", 1, 0.5))
    return records(page)


def test_the_first_climb_is_told_as_it_was_measured() -> None:
    said = first_climb()
    value = {key: record.get("value") for key, record in said.items()}
    assert [value[f"one-{name}"] for name in ("loops", "numpy", "kernels", "fused")] == [12, 2, 1, 0.5]
    assert (value["loops-over-numpy"], value["numpy-over-kernels"], value["numpy-over-fused"]) == (6, 2, 4)
    assert said["numpy-over-kernels-verdict"]["word"] == "faster"
    assert value["worst-prediction"] == pytest.approx(1.5, rel=1e-3)
    assert (value["moves"], value["moves-kept"]) == (3, 2)
    assert (value["first-alone"], value["first-predicted"]) == (4, 3)
    assert value["first-gained"] == pytest.approx(2, rel=1e-3)
    assert said["one-bound"]["word"] == placed("GPT, one sequence", 1, 0.5).verdict.sentence_word
    rows = said["climb-one"]["rows"]
    assert [row["kept"] for row in rows] == [None, "yes", "yes", "no", None]
    assert [row["op"] for row in rows[:2]] == ["as it begins", "linear: numpy → kernel"]
    assert [row["seconds"] and round(row["seconds"]["value"], 3) for row in rows] == [8, 4, 3.636, None, None]
    assert [row["gained"] and round(row["gained"]["value"], 3) for row in rows] == [None, 2, 1.1, 0.9, 2.2]


def test_a_prediction_that_is_too_low_counts_as_much() -> None:
    page = Page("acceleration")
    finished = in_turns({"loops": 12.0, "NumPy": 2.0, "kernels": 1.0, "fused": 0.5})
    climbed = climb_of(move("linear", 0.8, 4.0, predicted=1.0))
    chapter.record_first_climb(page, climbed, finished, placed("GPT", 1, 0.5))
    assert records(page)["worst-prediction"]["value"] == pytest.approx(4, rel=1e-3)


def test_where_no_move_is_kept_there_is_no_total() -> None:
    page = Page("acceleration")
    climbed = climb_of(move("linear", 0.6, 0.9))
    chapter.record_second_climb(page, climbed, in_turns({"NumPy": 6.0, "kernels": 4.0, "fused": 3.0}))
    assert [row["op"] for row in records(page)["climb-many"]["rows"]] == ["as it begins", "linear: numpy → kernel"]


def test_of_many_sequences_the_products_are_told() -> None:
    page = Page("acceleration")
    climbed = climb_of(move("gelu", 0.3, 1.2), move("linear", 0.6, 1.3, alone=1.4))
    chapter.record_second_climb(page, climbed, in_turns({"NumPy": 6.0, "kernels": 4.0, "fused": 3.0}))
    said = records(page)
    assert (said["many-products"]["value"], said["many-products-alone"]["value"]) == (0.6, 1.4)
    assert (said["many-kernels"]["value"], said["many-fused"]["value"]) == (1.5, 2)


def test_a_batch_gains_examples_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "trained", make)
    monkeypatch.setattr(models, "ZOO", {"mlp": models.entry("mlp")})
    monkeypatch.setattr(chapter, "interleave", lambda runs, **plan: in_turns(dict(zip(runs, (1.0, 4.0), strict=True))))
    assert chapter.batched_gains()["mlp"].median == 64 / 4


WORKLOADS = ("MLP, 1", "GPT, 64", "GPT-2 block, 128")
SECONDS = {BASELINE: 6.0, KERNELS: 3.0, FUSED: 2.0, CODES: 12.0, CORES: 4.0}


def tried(workload: str, seconds: Mapping[str, float]) -> Tried:
    times = in_turns(seconds, noise={BASELINE: HAIR})
    return Tried(workload, times, compare_all(times[BASELINE], *[times[n] for n in times if n != BASELINE]))


def technique_records(*every: Tried) -> dict[str, Json]:
    page = Page("acceleration")
    chapter.record_techniques(page, every, {"mlp": made(30.0), "gpt": made(5.0)})
    return records(page)


def test_the_fastest_technique_is_named() -> None:
    codes = {**SECONDS, CODES: 1.0}
    slow = {**dict.fromkeys(SECONDS, 9.0), BASELINE: 6.0}
    said = technique_records(*(tried(*each) for each in zip(WORKLOADS, (SECONDS, codes, slow), strict=True)))
    words = [said[f"fastest-{key}"]["word"] for key in ("mlp-one", "gpt-many", "wide")]
    assert words == [FUSED, CODES, BASELINE]
    assert said["gain-mlp-one-cores"]["value"] == pytest.approx(1.5)
    assert said["batched-gpt"]["value"] == 5
    assert [row["fastest"] for row in said["techniques"]["rows"]] == words


def test_two_that_cannot_be_told_apart_are_both_named() -> None:
    times = in_turns({**SECONDS, CODES: 2.0}, noise={BASELINE: HAIR, CODES: 0.3})
    both = Tried("GPT, 64", times, compare_all(times[BASELINE], *[times[n] for n in times if n != BASELINE]))
    said = technique_records(tried("MLP, 1", SECONDS), both, tried("GPT-2 block, 128", SECONDS))
    assert said["fastest-gpt-many"]["word"] == f"{FUSED} or {CODES}"
    assert said["techniques"]["rows"][1]["fastest"] == f"{FUSED} or {CODES}"


def test_with_one_core_there_is_no_column_for_a_second() -> None:
    one = {name: seconds for name, seconds in SECONDS.items() if name != CORES}
    said = technique_records(*(tried(workload, one) for workload in WORKLOADS))
    keys = [column["key"] for column in said["techniques"]["columns"]]
    assert keys == ["workload", "numpy", "kernels", "fused", "codes", "fastest"]
    assert not [key for key in said if key.endswith("-cores")]


@pytest.mark.parametrize(("fused", "noise", "calls"), [(0.5, 0.0, 20.0), (2.0, 0.0, None), (0.99, 0.1, None)])
def test_compiling_is_paid_back_by_what_passes_surely_save(fused: float, noise: float, calls: float | None) -> None:
    taken = {f"kernel {index}": float(index) for index in range(1, 5)}
    page = Page("acceleration")
    times = in_turns({"NumPy": 1.0, "kernels": 1.0, "fused": fused}, noise={"fused": noise})
    chapter.record_compile(page, taken, times)
    said = records(page)
    assert said["payback"].get("value") == (None if calls is None else pytest.approx(calls))
    assert (said["compile-all"]["value"], said["compile-count"]["value"]) == (10, 4)
    assert said["compile"]["rows"][0]["kernel"] == "kernel 4"


def test_six_kernels_at_most_are_listed() -> None:
    page = Page("acceleration")
    taken = {str(index): 1.0 + index for index in range(9)}
    chapter.record_compile(page, taken, in_turns({"NumPy": 1.0, "fused": 0.5}))
    assert [row["kernel"] for row in records(page)["compile"]["rows"]] == ["8", "7", "6", "5", "4", "3"]


@pytest.mark.parametrize(
    ("moves", "limit"),
    [([move("gelu", 0.3, 1.2), move("linear", 0.25, 1.2)], 4), ([move("linear", 1.1, 1.2)], 1 / 0.99)],
)
def test_answers_are_arithmetic(moves: list[Move], limit: float) -> None:
    page = Page("acceleration")
    elements = "elements of arrays, Python"
    chapter.record_answers(page, made_rungs({elements: 1000 * 2 * 64**3 / PEAK}), climb_of(*moves), made_ceilings())
    said = SimpleNamespace(**{key.replace("-", "_"): record.get("value") for key, record in records(page).items()})
    assert said.q_least == pytest.approx(2 * 1024**3 / PEAK)
    assert said.q_loops == pytest.approx(1000 * said.q_least)
    assert (said.q_five, said.q_fused) == (60_000_000, 12_000_000)
    assert (said.q_ten, said.q_vanish) == (pytest.approx(1 / 0.73), pytest.approx(1 / 0.7))
    assert said.q_limit == pytest.approx(limit)
    assert (said.q_plain, said.q_tile) == (3, pytest.approx(11 / 24))
