"""What the page says of whole passes: the climb, techniques and situations, told made results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from tests.chapters.made_turns import in_turns, made, records, said_in
from tests.perf.made_ceilings import made_ceilings
from tests.perf.quantization.small_zoo import batch, make
from tinytorch import models
from tinytorch.chapters.whole_model import passes as chapter
from tinytorch.perf.acceleration.climbing import Climb, Move
from tinytorch.perf.acceleration.teaching import TEACHING
from tinytorch.perf.acceleration.techniques import BASELINE, CODES, FUSED, KERNELS, Tried
from tinytorch.perf.measuring import Measurement, current_blas_threads
from tinytorch.perf.measuring.comparison import compare_all, compare_paired
from tinytorch.perf.measuring.judge import Judgement, Verdict
from tinytorch.report import Page
from tinytorch.report.records import Json

#: So little that every gain is beyond doubt, but not the same twice.
HAIR = 1e-6


def move(
    op: str, share: float, gained: float, predicted: float | None = None, alone: float = 4.0, after: str = "numba"
) -> Move:
    times = in_turns({"before": gained, "after": 1.0}, noise={"after": HAIR})
    return Move(
        op,
        "numpy",
        after,
        made(share, "%"),
        made(alone),
        gained if predicted is None else predicted,
        compare_paired(times["before"], times["after"], matters=0.05),
    )


def climb_of(*moves: Move) -> Climb:
    """Return the moves with stages in which those that were kept gained what their trials did."""
    seconds = {"as it began": 8.0}
    for at, each in enumerate(each for each in moves if each.kept):
        seconds[f"after {at}"] = [*seconds.values()][-1] / each.gained.estimate.median
    return Climb(moves, tuple(in_turns(seconds, noise=dict.fromkeys(seconds, HAIR)).values()))


def test_it_begins_with_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = made_ceilings()
    monkeypatch.setattr(chapter, "ceilings", lambda threads: machine if threads == 1 else None)
    page, found = chapter.begin()
    assert (page.name, found) == ("whole_model", machine)
    assert current_blas_threads() == 1


class Turns:
    """Stands in for `interleave`: keeps what each run returned, and gives every run a second."""

    def __init__(self) -> None:
        self.outputs: dict[str, Any] = {}
        self.within: dict[str, Any] = {}

    def __call__(
        self, runs: Mapping[str, Callable[[], Any]], within: Mapping[str, Any] | None = None, **_plan: Any
    ) -> dict[str, Measurement]:
        self.outputs, self.within = {name: run() for name, run in runs.items()}, dict(within or {})
        return in_turns(dict.fromkeys(runs, 1.0))


def test_all_passes_compute_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = Turns()
    monkeypatch.setattr(chapter, "interleave", turns)
    model, inputs = make("gpt"), batch("gpt")[:1]
    assert [*chapter.whole_passes(model, inputs, TEACHING)] == ["loops", "NumPy", "kernels"]
    for output in turns.outputs.values():
        np.testing.assert_allclose(output.data, turns.outputs["NumPy"].data, rtol=0, atol=1e-4)


def test_training_steps_start_from_the_same_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = Turns()
    monkeypatch.setattr(chapter, "interleave", turns)
    chapter.training_steps()
    assert turns.outputs["kernels"] == pytest.approx(turns.outputs["NumPy"], rel=1e-4)
    assert set(turns.within) == {"NumPy", "kernels"}


FINISHED = {"loops": 12.0, "NumPy": 2.0, "kernels": 1.0}


def climb_records(*moves: Move) -> dict[str, Json]:
    page = Page("whole_model")
    chapter.record_climb(page, climb_of(*moves), in_turns(FINISHED))
    return records(page)


def test_the_table_has_what_was_kept_and_multiplies_to_its_last_column() -> None:
    said = climb_records(
        move("gelu", 0.8, 2.0, predicted=3.0, after="numpy"), move("linear", 0.1, 0.2), move("layer_norm", 0.1, 1.1)
    )
    rows = said["climb"]["rows"]
    assert [row["op"] for row in rows] == ["GELU: NumPy to NumPy", "normalization: NumPy to kernel"]
    assert [round(row["gained"]["value"], 3) for row in rows] == [2, 1.1]
    assert [round(row["sofar"]["value"], 3) for row in rows] == [2, 2.2]
    value = {key: record.get("value") for key, record in said.items()}
    assert (value["loops-over-numpy"], value["numpy-over-kernels"]) == (6, 2)
    assert value["worst-prediction"] == pytest.approx(1.5, rel=1e-3)
    assert (value["moves"], value["moves-kept"]) == (3, 2)
    assert (value["first-share"], value["first-alone"], value["first-predicted"]) == (0.8, 4, 3)
    assert value["first-gained"] == pytest.approx(2, rel=1e-3)
    assert value["products-whole"] == pytest.approx(0.2, rel=1e-3)
    assert said["products-whole-verdict"]["word"] == "slower"


def test_a_prediction_that_is_too_low_counts_as_much() -> None:
    said = climb_records(move("linear", 0.8, 4.0, predicted=1.0))
    assert said["worst-prediction"]["value"] == pytest.approx(4, rel=1e-3)


def test_products_that_were_not_tried_leave_no_trace() -> None:
    said = climb_records(move("gelu", 0.8, 2.0), move("linear", 0.8, 2.0, after="numpy"))
    assert {said[key]["kind"] for key in ("products-share", "products-alone", "products-whole")} == {"absent"}


def test_a_batch_gains_sequences_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "trained", make)
    monkeypatch.setattr(chapter, "interleave", lambda runs, **plan: in_turns(dict(zip(runs, (1.0, 4.0), strict=True))))
    assert chapter.batched_gain().median == 64 / 4


WORKLOADS = ("MLP, 1", "GPT, 1", "GPT, 64", "GPT-2 block, 128")
SECONDS = {BASELINE: 6.0, KERNELS: 3.0, FUSED: 2.0, CODES: 12.0}


def tried(workload: str, seconds: Mapping[str, float], noise: float = 0.0) -> Tried:
    times = in_turns(seconds, noise={BASELINE: HAIR, CODES: noise})
    gained = compare_all(times[BASELINE], *[times[name] for name in times if name != BASELINE], matters=0.05)
    held = {BASELINE: 4000, KERNELS: 4000, FUSED: 9000, CODES: 1000}
    errors = {BASELINE: 0.0, KERNELS: 1e-7, FUSED: 2e-7, CODES: 0.01}
    return Tried(workload, times, gained, held, errors, {FUSED: made(0.02, "s"), CODES: made(0.01, "s")})


def all_tried(**other: Mapping[str, float]) -> list[Tried]:
    return [tried(name, other.get(name.split(",")[0].split("-")[0].lower(), SECONDS)) for name in WORKLOADS]


def technique_records(every: list[Tried]) -> dict[str, Json]:
    page = Page("whole_model")
    chapter.record_techniques(page, every)
    return records(page)


def test_each_technique_stands_with_time_memory_and_error() -> None:
    said = technique_records(all_tried(mlp={**dict.fromkeys(SECONDS, 9.0), BASELINE: 6.0}))
    rows = said["techniques"]["rows"]
    assert len(rows) == 4 * len(WORKLOADS)
    assert (rows[0]["technique"], rows[0]["gained"], rows[0]["error"], rows[0]["built"]) == (BASELINE, None, None, None)
    plan = rows[6]
    assert (plan["workload"], plan["technique"], plan["gained"]["value"]) == ("GPT, 1", FUSED, pytest.approx(3))
    assert (plan["held"]["value"], plan["error"]["value"], plan["built"]["value"]) == (9000, 2e-7, 0.02)
    assert [said[f"fastest-{key}"]["word"] for key in ("mlp-one", "gpt-one")] == [BASELINE, FUSED]
    assert said["gain-wide-codes"]["value"] == pytest.approx(0.5)
    assert (said["wide-saved"]["value"], said["wide-error"]["value"]) == (4, 0.01)
    assert said["plan-held"]["value"] == 2.25


def test_two_that_cannot_be_told_apart_are_both_named() -> None:
    every = [*all_tried()[:2], tried("GPT, 64", {**SECONDS, CODES: 2.0}, noise=0.3), all_tried()[3]]
    assert technique_records(every)["fastest-gpt-many"]["word"] == f"{FUSED} or {CODES}"


def situation_records(kernels: float, noise: float = 0.0) -> dict[str, Json]:
    page = Page("whole_model")
    steps = in_turns({"NumPy": 1.0, "kernels": kernels}, noise={"kernels": noise or HAIR})
    chapter.record_situations(page, all_tried(), steps, made(5.0), {"one": 6.0, "two": 4.0})
    return records(page)


@pytest.mark.parametrize(
    ("kernels", "noise", "choice", "word", "payback"),
    [
        (0.5, 0.0, "fused kernels", "faster", 20.0),
        (2.0, 0.0, BASELINE, "slower", None),
        (0.99, 0.4, BASELINE, "open", None),
    ],
)
def test_training_chooses_what_is_proven_and_pays_back_what_was_compiled(
    kernels: float, noise: float, choice: str, word: str, payback: float | None
) -> None:
    said = situation_records(kernels, noise)
    rows = {row["situation"]: row for row in said["situations"]["rows"]}
    assert rows["production training"]["choice"] == choice
    assert rows["production training"]["price"] == ("none" if choice == BASELINE else "compiling once")
    assert said_in(said["training-gain-verdict"]) == word
    assert said["payback"].get("value") == (None if payback is None else pytest.approx(payback, rel=1e-3))
    assert said["compile-all"]["value"] == 10
    if payback is not None:
        assert said["payback"]["interval"]["low"] <= payback <= said["payback"]["interval"]["high"]


def test_each_of_the_five_situations_has_its_measurement() -> None:
    rows = {row["situation"]: row for row in situation_records(0.5)["situations"]["rows"]}
    gains = {name: row["gained"]["value"] for name, row in rows.items()}
    assert gains == {
        "research": 5,
        "production training": pytest.approx(2, rel=1e-3),
        "real time": pytest.approx(3),
        "edge": pytest.approx(0.5),
        "batch": pytest.approx(3),
    }
    assert (rows["real time"]["choice"], rows["edge"]["choice"]) == (FUSED, CODES)
    assert (rows["real time"]["price"], rows["edge"]["price"]) == ("one shape, copied weights", "an error")


def test_a_choice_that_is_withheld_has_no_price(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Page, "withhold_if_disturbed", lambda *_: Judgement(Verdict.WITHHELD))
    rows = {row["situation"]: row for row in situation_records(0.5)["situations"]["rows"]}
    assert {rows[name]["price"] for name in ("production training", "real time")} == {"that of the choice"}


@pytest.mark.parametrize(("share", "limit"), [(0.75, 4), (1.1, 100)])
def test_answers_are_arithmetic(share: float, limit: float) -> None:
    page = Page("whole_model")
    chapter.record_answers(page, climb_of(move("linear", share, 1.2)), made_ceilings(threads=1))
    chapter.record_proof(page, Measurement("GPT", (6.0,), "s"), Measurement("plan", (2.0,), "s"))
    value = {key: record.get("value") for key, record in records(page).items()}
    assert value["q-five"] == 60_000_000
    assert (value["q-ten"], value["q-vanish"]) == (pytest.approx(1 / 0.73), pytest.approx(1 / 0.7))
    assert value["q-limit"] == pytest.approx(limit)
    # The made machine's calls take a microsecond each, and its memory delivers 10 GB/s.
    assert (value["gpt2-calls"], value["gpt2-call-seconds"]) == (126, pytest.approx(126e-6))
    read = 4 * (124_439_808 - 1023 * 768) / 10e9
    assert value["gpt2-call-share"] == pytest.approx(126e-6 / read)
    assert 3.5 < value["gpt2-call-share-coded"] / value["gpt2-call-share"] < 32 / 9
    assert value["proof-gain"] == 3
