"""Configurations: what cannot run is none, what can gives the plain answers, bytes follow the shapes; and steps."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.chapters.capstone.made_trials import untrained
from tinytorch import datasets, models
from tinytorch.chapters.capstone import configuration, workload
from tinytorch.chapters.capstone.configuration import PLAIN, Configuration
from tinytorch.chapters.capstone.workload import Workload, correct
from tinytorch.perf.benchmarking.variants import sorting_generation
from tinytorch.perf.measuring.statistics import PairedShares, interval_of_law
from tinytorch.perf.memoization.generation import Tokens

_CACHED, _TOKEN = Configuration(cache="float32"), Configuration(cache="float32", kernels=True, fusion="token")


@pytest.fixture(autouse=True)
def _no_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configuration, "_suite_model", untrained)


@pytest.mark.parametrize(
    ("choices", "named"),
    [
        ({"model": "smaller"}, "model must be one of full, half of the units"),
        ({"fusion": "token", "kernels": True}, "needs a cache"),
        ({"fusion": "token", "cache": "float32"}, "needs a cache and kernels"),
        ({"fusion": "token", "cache": "float32", "kernels": True, "weights": "8-bit layers"}, "no 8-bit layers"),
        ({"model": "sparse", "weights": "8-bit layers"}, "plain linear layers"),
    ],
)
def test_what_cannot_run_is_no_configuration(choices: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        Configuration(**choices)


def answers(one: Configuration) -> Tokens:
    """Return what it answers to the first questions of the test part."""
    made = Workload(5).ready(one)
    with made.running():
        return Workload(5).call(made)()


@pytest.mark.parametrize("one", [_CACHED, Configuration(kernels=True), _TOKEN])
def test_a_configuration_that_only_runs_otherwise_answers_the_same(one: Configuration) -> None:
    np.testing.assert_array_equal(answers(one), answers(PLAIN))


@pytest.mark.parametrize("new", [False, True])
def test_all_questions_are_scored_as_they_are_answered(monkeypatch: pytest.MonkeyPatch, new: bool) -> None:
    monkeypatch.setattr(configuration, "_suite_model", lambda _: models.trained("gpt"))
    correct.cache_clear()
    data = datasets.sorting(test_seed=workload.NEW_SEED) if new else datasets.sorting()
    few = replace(data, test_inputs=data.test_inputs[:100], test_targets=data.test_targets[:100])
    try:
        right = Workload(100).ready(PLAIN).correct(sorting_generation(few))
        for one in (PLAIN, _TOKEN):
            np.testing.assert_array_equal(correct(one, new=new)[:100], right)
        change = workload.accuracy_change(PLAIN, _TOKEN, "change", new=new)
    finally:
        correct.cache_clear()
    assert (change.n, change.median, change.interval) == (2000, 0, interval_of_law(PairedShares(0, 0, 2000), 0.95))


def test_new_questions_are_in_neither_part_that_steps_or_training_saw() -> None:
    data, new = datasets.sorting(), datasets.sorting(test_seed=workload.NEW_SEED)
    asked = {tuple(row) for row in new.test_inputs[:, :10]}
    assert new.test_inputs.shape == data.test_inputs.shape
    for part in (data.train_inputs, data.test_inputs):
        assert asked.isdisjoint(map(tuple, part[:, :10]))
