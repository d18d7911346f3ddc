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
from tinytorch.perf.acceleration.climbing import Move
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
        times["after"],
    )


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
    moves = [move("linear", 0.8, 2.0, predicted=3.0), move("gelu", 0.1, 1.1, predicted=1.0), move("add", 0.05, 0.9)]
    finished = in_turns({"loops": 12.0, "NumPy": 2.0, "kernels": 1.0, "fused": 0.5})
    page = Page("acceleration")
    chapter.record_first_climb(page, moves, finished, placed("GPT, one sequence", 1, 0.5))
    return records(page)


def test_the_first_climb_is_told_as_it_was_measured() -> None:
    said = first_climb()
    value = {key: record.get("value") for key, record in said.items()}
    assert [value[f"one-{name}"] for name in ("loops", "numpy", "kernels", "fused")] == [12, 2, 1, 0.5]
    assert (value["loops-over-numpy"], value["numpy-over-kernels"], value["numpy-over-fused"]) == (6, 2, 4)
    assert value["worst-prediction"] == pytest.approx(1.5, rel=1e-3)
    assert (value["moves"], value["moves-kept"]) == (3, 2)
    assert (value["first-share"], value["first-alone"], value["first-predicted"]) == (0.8, 4, 3)
    assert value["first-gained"] == pytest.approx(2, rel=1e-3)
    assert said["one-bound"]["word"] == placed("GPT, one sequence", 1, 0.5).verdict.sentence_word
    rows = said["climb-one"]["rows"]
    assert [row["kept"] for row in rows] == ["yes", "yes", "no"]
    assert rows[0]["op"] == "linear: numpy → kernel"


def test_a_prediction_that_is_too_low_counts_as_much() -> None:
    page = Page("acceleration")
    finished = in_turns({"loops": 12.0, "NumPy": 2.0, "kernels": 1.0, "fused": 0.5})
    chapter.record_first_climb(page, [move("linear", 0.8, 4.0, predicted=1.0)], finished, placed("GPT", 1, 0.5))
    assert records(page)["worst-prediction"]["value"] == pytest.approx(4, rel=1e-3)


@pytest.mark.parametrize(("gained", "word"), [(1.3, "is kept"), (0.8, "is not kept")])
def test_the_largest_share_of_many_sequences_is_named(gained: float, word: str) -> None:
    page = Page("acceleration")
    moves = [move("gelu", 0.3, 1.2), move("linear", 0.6, gained, alone=1.4)]
    chapter.record_second_climb(page, moves, in_turns({"NumPy": 6.0, "kernels": 4.0, "fused": 3.0}))
    said = records(page)
    assert (said["many-largest-op"]["word"], said["many-largest-kept"]["word"]) == ("linear", word)
    assert (said["many-largest"]["value"], said["many-largest-alone"]["value"]) == (0.6, 1.4)
    assert (said["many-kernels"]["value"], said["many-fused"]["value"]) == (1.5, 2)
    assert [row["op"] for row in said["climb-many"]["rows"]] == ["gelu: numpy → kernel", "linear: numpy → kernel"]


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


def test_the_best_technique_is_named_with_its_gain() -> None:
    codes = {**SECONDS, CODES: 1.0}
    slow = {**dict.fromkeys(SECONDS, 9.0), BASELINE: 6.0}
    said = technique_records(*(tried(*each) for each in zip(WORKLOADS, (SECONDS, codes, slow), strict=True)))
    words = [said[f"best-{key}"]["word"] for key in ("mlp-one", "gpt-many", "block")]
    assert words == [FUSED, CODES, BASELINE]
    gains = [said[f"best-{key}-gain"]["value"] for key in ("mlp-one", "gpt-many", "block")]
    assert gains == [pytest.approx(3), pytest.approx(6), 1]
    assert said["gain-mlp-one-cores"]["value"] == pytest.approx(1.5)
    assert said["kinds"]["value"] == 3
    assert said["batched-gpt"]["value"] == 5
    assert [row["best"] for row in said["techniques"]["rows"]] == words


def test_with_one_core_there_is_no_column_for_a_second() -> None:
    one = {name: seconds for name, seconds in SECONDS.items() if name != CORES}
    said = technique_records(*(tried(workload, one) for workload in WORKLOADS))
    keys = [column["key"] for column in said["techniques"]["columns"]]
    assert keys == ["workload", "numpy", "kernels", "fused", "codes", "best"]
    assert not [key for key in said if key.endswith("-cores")]
    assert said["kinds"]["value"] == 1


@pytest.mark.parametrize(("fused", "calls"), [(0.5, 20.0), (2.0, 0.0)])
def test_compiling_is_paid_back_by_what_passes_save(fused: float, calls: float) -> None:
    taken = {f"kernel {index}": float(index) for index in range(1, 5)}
    page = Page("acceleration")
    chapter.record_compile(page, taken, in_turns({"NumPy": 1.0, "kernels": 1.0, "fused": fused}))
    said = records(page)
    assert said["payback"]["value"] == calls
    assert (said["compile-all"]["value"], said["compile-count"]["value"]) == (10, 4)
    assert said["compile"]["rows"][0]["kernel"] == "kernel 4"


def test_six_kernels_at_most_are_listed() -> None:
    page = Page("acceleration")
    taken = {str(index): 1.0 + index for index in range(9)}
    chapter.record_compile(page, taken, in_turns({"NumPy": 1.0, "fused": 0.5}))
    assert [row["kernel"] for row in records(page)["compile"]["rows"]] == ["8", "7", "6", "5", "4", "3"]


@pytest.mark.parametrize(
    ("moves", "share", "limit"),
    [
        ([move("gelu", 0.3, 1.2), move("linear", 0.25, 1.2)], 0.25, 4),
        ([move("gelu", 0.3, 1.2), move("softmax", 0.5, 1.2)], 0.5, 2),
        ([move("linear", 1.1, 1.2)], 1.1, 1 / 0.99),
    ],
)
def test_answers_are_arithmetic(moves: list[Move], share: float, limit: float) -> None:
    page = Page("acceleration")
    elements = "elements of arrays, Python"
    chapter.record_answers(page, made_rungs({elements: 1000 * 2 * 64**3 / PEAK}), moves, made_ceilings())
    said = SimpleNamespace(**{key.replace("-", "_"): record.get("value") for key, record in records(page).items()})
    assert said.q_least == pytest.approx(2 * 1024**3 / PEAK)
    assert said.q_loops == pytest.approx(1000 * said.q_least)
    assert (said.q_five, said.q_fused) == (60_000_000, 12_000_000)
    assert (said.q_ten, said.q_vanish) == (pytest.approx(1 / 0.73), pytest.approx(1 / 0.7))
    assert (said.q_linear_share, said.q_limit) == (share, pytest.approx(limit))
    assert (said.q_plain, said.q_tile) == (3, pytest.approx(11 / 24))
