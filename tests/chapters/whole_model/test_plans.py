"""What the page on acceleration says of a plan, with a made study and a real one."""

from __future__ import annotations

import numpy as np
import pytest
from tinytorch.chapters.acceleration.plans import PlanStudy, record_plan, study_plan

from tinytorch import models
from tinytorch.perf.acceleration.plans import StepTime, plan
from tinytorch.perf.measuring import Measurement
from tinytorch.report import Page

STEPS = tuple(StepTime(f"step {n}", f"blocks.{n}", 1e-6 * (n + 1)) for n in range(12))


def test_the_prediction_is_all_steps_and_one_call() -> None:
    page = Page("acceleration")
    how = {"interleaved_with": ["op by op", "plan", "call"]}
    seconds = {"op by op": 400e-6, "plan": 80e-6, "call": 2e-6}
    one, two, call = (
        Measurement(name, (each, 1.01 * each, 0.99 * each) * 3, "s", how) for name, each in seconds.items()
    )
    record_plan(page, PlanStudy(40, one, two, call, STEPS))
    made = {record.key: record.to_json() for record in page.records}
    assert made["plan-calls"]["value"] == 40
    assert made["plan-predicted"]["value"] == pytest.approx(80e-6)
    assert made["plan-between"]["value"] == pytest.approx((400 - 78) * 1e-6 / 40)
    assert made["plan-gain"]["value"] == pytest.approx(5, rel=0.01)
    assert [row["step"] for row in made["plan-steps-table"]["rows"]][:2] == ["step 11", "step 10"]


def test_a_plan_of_the_gpt_has_fewer_steps_than_the_model_has_ops() -> None:
    model, tokens = models.gpt().eval(), np.zeros((1, 20), np.int64)
    study = study_plan(model, plan(model, tokens), tokens, repeats=6)
    assert 0 < len(study.steps) < study.calls
