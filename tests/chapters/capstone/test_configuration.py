"""Configurations: what cannot run is none, what can gives the plain answers, and bytes follow the shapes."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import pytest

from tests.chapters.capstone.made_trials import untrained
from tinytorch import datasets, models
from tinytorch.chapters.capstone import configuration
from tinytorch.chapters.capstone.configuration import PLAIN, Configuration, ModelName, ready
from tinytorch.chapters.capstone.workload import Workload, answers, correct, new_questions, peak_bytes, predicted_bytes


@pytest.fixture(autouse=True)
def _no_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configuration, "_suite_model", untrained)


@pytest.mark.parametrize(
    ("choices", "named"),
    [
        ({"model": "smaller"}, "model must be one of full, half of the units"),
        ({"fusion": "token", "kernels": True}, "cache must be"),
        ({"fusion": "token", "cache": "float32"}, "kernels must be True"),
        ({"fusion": "token", "cache": "float32", "kernels": True, "weights": "8-bit layers"}, "weights must be"),
        ({"fusion": "layers", "weights": "8-bit weights"}, "weights must be 'float32'"),
        ({"model": "sparse", "weights": "8-bit layers"}, "plain linear layers"),
        ({"threads": 0}, "threads must be a whole number above 0"),
    ],
)
def test_what_cannot_run_is_no_configuration(choices: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        Configuration(**choices)


@pytest.mark.parametrize(
    "choices",
    [
        {"cache": "float32"},
        {"kernels": True},
        {"fusion": "layers"},
        {"cache": "float32", "kernels": True, "fusion": "token"},
    ],
)
def test_a_configuration_that_only_runs_otherwise_answers_the_same(choices: dict[str, Any]) -> None:
    prompts = Workload(5).prompts()
    made = ready(Configuration(**choices), 5)
    with made.running():
        found = answers(made, prompts)
    np.testing.assert_array_equal(found, answers(ready(PLAIN, 5), prompts))


@pytest.mark.parametrize("model", get_args(ModelName))
@pytest.mark.parametrize("cache", ["none", "float32"])
def test_floats_take_the_bytes_that_the_shapes_say(model: ModelName, cache: Any) -> None:
    made = ready(Configuration(model=model, cache=cache), 3)
    held = made.weight_bytes + made.cache_bytes
    # Compressed rows keep as many as they have left, and where each row begins; a rank is a whole number.
    allowed = 0.06 if model in ("sparse", "low rank") else 0
    assert abs(predicted_bytes(made.configuration, 3) / held - 1) <= allowed


@pytest.mark.parametrize("weights", ["8-bit weights", "8-bit layers"])
def test_codes_take_the_bytes_that_the_shapes_say_and_scales_on_top(weights: Any) -> None:
    made = ready(Configuration(weights=weights, cache="float32"), 2)
    predicted = predicted_bytes(made.configuration, 2)
    assert predicted < made.weight_bytes + made.cache_bytes < 1.05 * predicted
    coded = ready(Configuration(cache="8-bit"), 7)
    assert predicted_bytes(coded.configuration, 7) == coded.weight_bytes + coded.cache_bytes


def test_the_peak_holds_weights_and_cache_and_more() -> None:
    made = ready(Configuration(cache="float32"), 4)
    peak = peak_bytes(Workload(4), made)
    assert peak.minimum > made.weight_bytes + made.cache_bytes


def test_models_are_not_shared_so_that_each_has_a_cache_of_its_own() -> None:
    first, second = ready(Configuration(cache="float32"), 2), ready(Configuration(cache="float32"), 3)
    assert first.model is not second.model
    assert (first.cache_bytes, second.cache_bytes) == (first.cache_bytes, first.cache_bytes * 3 // 2)
    with pytest.raises(ValueError, match="batch must be at least 1"):
        ready(PLAIN, 0)


def test_without_a_cache_one_pass_scores_as_generating_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configuration, "_suite_model", lambda _: models.trained("gpt"))
    correct.cache_clear()
    several = Workload(150)
    made = several.ready(PLAIN)
    truth = np.sort(several.prompts()[:, :10], axis=1)
    right = (answers(made, several.prompts()) == truth).all(axis=1)
    try:
        np.testing.assert_array_equal(correct(PLAIN)[:150], right)
        np.testing.assert_array_equal(correct(Configuration(cache="float32"))[:150], right)
    finally:
        correct.cache_clear()


def test_new_questions_are_in_neither_part_that_steps_or_training_saw() -> None:
    data, new = datasets.sorting(), new_questions()
    asked = {tuple(row) for row in new.test_inputs[:, :10]}
    assert new.test_inputs.shape == data.test_inputs.shape
    for part in (data.train_inputs, data.test_inputs):
        assert asked.isdisjoint(map(tuple, part[:, :10]))
    np.testing.assert_array_equal(new.test_targets[:, 10:], np.sort(new.test_inputs[:, :10], axis=1))


@pytest.mark.parametrize("choices", [{}, {"cache": "float32", "kernels": True, "fusion": "token"}])
def test_new_questions_are_the_ones_that_are_scored(choices: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configuration, "_suite_model", lambda _: models.trained("gpt"))
    correct.cache_clear()
    try:
        scored = correct(Configuration(**choices), new=True)
    finally:
        correct.cache_clear()
    prompts = new_questions().test_inputs[:100, :11].astype(np.int64)
    made = ready(PLAIN, 100)
    right = (answers(made, prompts) == np.sort(prompts[:, :10], axis=1)).all(axis=1)
    np.testing.assert_array_equal(scored[:100], right)
