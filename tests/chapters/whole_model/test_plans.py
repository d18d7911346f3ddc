"""What the page on a whole model says of a plan and of calls, with made studies and real ones."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from tests.chapters.made_turns import in_turns, records, said_in
from tests.perf.made_ceilings import PEAK, made_ceilings
from tinytorch import models
from tinytorch.chapters.whole_model.plans import PlanStudy, calls_by_size, record_calls, record_plan, study_plan
from tinytorch.perf.acceleration.plans import StepTime, plan
from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.conditions import Conditions
from tinytorch.report import Page
from tinytorch.report.records import Json

STEPS = tuple(
    StepTime(f"step {n}", f"blocks.{n}", Measurement(f"step {n}", (1e-6 * (n + 1),) * 9, "s")) for n in range(12)
)


def test_the_prediction_is_all_steps_and_one_call() -> None:
    page = Page("whole_model")
    conditions = Conditions(interleaved_with=("op by op", "plan", "call"))
    seconds = {"op by op": 400e-6, "plan": 80e-6, "call": 2e-6}
    one, two, call = (
        Measurement(name, (each, 1.01 * each, 0.99 * each) * 3, "s", conditions) for name, each in seconds.items()
    )
    record_plan(page, PlanStudy(40, one, two, call, STEPS, 1e6), made_ceilings())
    made = {record.key: record.to_json() for record in page.records}
    assert (made["plan-calls"]["value"], made["plan-steps"]["value"]) == (40, 12)
    assert made["plan-predicted"]["value"] == pytest.approx(80e-6)
    assert made["plan-op-predicted"]["value"] == pytest.approx(78e-6 + 40 * 2e-6)
    assert made["plan-call"]["value"] == pytest.approx(2e-6)
    assert made["plan-gain"]["value"] == pytest.approx(5, rel=0.01)
    each = (400e-6 - 80e-6) / 40
    assert made["plan-each"]["value"] == pytest.approx(each)
    assert made["plan-worth"]["value"] == pytest.approx(each * PEAK)
    assert made["plan-product"]["value"] == 1e6
    assert "interval of the whole" in made["plan-times"]["caption"]


def test_a_plan_that_takes_less_than_its_steps_is_drawn() -> None:
    page = Page("whole_model")
    times = in_turns({"op by op": 400e-6, "plan": 70e-6, "call": 2e-6})  # its steps take 78
    record_plan(page, PlanStudy(40, times["op by op"], times["plan"], times["call"], STEPS, 1e6), made_ceilings())
    assert records(page)["plan-times"]["kind"] == "figure"


def test_a_plan_of_the_gpt_has_fewer_steps_than_the_model_has_ops() -> None:
    model, tokens = models.gpt().eval(), np.zeros((1, 20), np.int64)
    study = study_plan(model, plan(model, tokens), tokens, repeats=6)
    assert 0 < len(study.steps) < study.calls
    # Two blocks 96 wide, of 20 positions: to 3 x 96, to 96, to 4 x 96 and back, and once to 11 characters.
    assert study.product == 2 * 20 * 96 * 288


def test_what_an_operation_pays_beyond_the_plan_is_no_guess_where_it_pays_nothing() -> None:
    page = Page("whole_model")
    times = in_turns({"op by op": 70e-6, "plan": 80e-6, "call": 2e-6})
    record_plan(page, PlanStudy(40, times["op by op"], times["plan"], times["call"], STEPS, 1e6), made_ceilings())
    assert records(page)["plan-each"]["value"] == pytest.approx(-10e-6 / 40, rel=0.05)


def test_both_ways_are_timed_at_each_size() -> None:
    found = calls_by_size((1, 5))
    assert [*found] == [1, 5]
    assert all({*each} == {"loop", "vectorized"} for each in found.values())
    with pytest.raises(ValueError, match="sizes must be at least 1"):
        calls_by_size((0,))


def said_of(faster: Mapping[int, float], noise: float = 0.0) -> dict[str, Json]:
    """Return what the page says where NumPy takes a microsecond and is so many times as fast by size."""
    times = {
        size: in_turns({"loop": 1e-6 * gain, "vectorized": 1e-6}, noise={"vectorized": noise or 1e-6})
        for size, gain in faster.items()
    }
    page = Page("whole_model")
    record_calls(page, times)
    return records(page)


@pytest.mark.parametrize(("four", "noise", "word"), [(0.3, 0.0, "slower"), (1.4, 0.0, "faster"), (1.0, 0.3, "open")])
def test_four_numbers_are_judged_by_their_comparison(four: float, noise: float, word: str) -> None:
    said = said_of({4: four, 64: 3.0, 4096: 100.0}, noise)
    assert said_in(said["call-few-verdict"]) == word


def test_the_border_is_a_call_over_a_turn_and_the_first_size_that_is_faster_for_good() -> None:
    said = said_of({4: 1.5, 16: 0.8, 64: 3.0, 4096: 128.0})
    # A turn of the loop takes 128 us / 4096, and the calls a microsecond.
    assert said["call-predicted"]["value"] == pytest.approx(32)
    assert said["call-measured"]["value"] == 64
    assert said_of({4: 0.2, 4096: 0.9})["call-measured"]["kind"] == "absent"
