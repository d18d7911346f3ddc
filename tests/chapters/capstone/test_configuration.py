"""Configurations: what cannot run is none, what can gives the plain answers, bytes follow the shapes; and steps."""

from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.chapters.capstone.made_trials import CACHE, SMALL, TOKEN, untrained
from tinytorch import datasets, models
from tinytorch.chapters.capstone import configuration, workload
from tinytorch.chapters.capstone.configuration import PLAIN, STEPS, Configuration, ModelName, held_bytes, moves_from
from tinytorch.chapters.capstone.workload import Workload, correct, predicted_bytes
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


@pytest.mark.parametrize("model", get_args(ModelName))
@pytest.mark.parametrize("cache", ["none", "float32"])
def test_floats_take_the_bytes_that_the_shapes_say(model: ModelName, cache: Any) -> None:
    one = Configuration(model=model, cache=cache)
    # Compressed rows keep as many as they have left, and where each row begins.
    allowed = 0.06 if model == "sparse" else 0
    assert abs(predicted_bytes(one, 3) / Workload(3).held(one).value - 1) <= allowed


@pytest.mark.parametrize("weights", ["8-bit weights", "8-bit layers"])
def test_codes_take_the_bytes_that_the_shapes_say_and_scales_on_top(weights: Any) -> None:
    one, coded = Configuration(weights=weights, cache="float32"), Configuration(cache="8-bit")
    predicted = predicted_bytes(one, 2)
    assert predicted < Workload(2).held(one).value < 1.05 * predicted
    assert predicted_bytes(coded, 7) == Workload(7).held(coded).value
    assert workload.weights_of(coded, "as in float32").value == workload.weights_of(PLAIN, "in float32").value


def test_performances_are_of_one_run_and_of_models_with_caches_of_their_own() -> None:
    made = workload.performances(Workload(4), {"plain": PLAIN, "cached": _CACHED})
    assert {(one.run, one.batches) for one in made.values()} == {(made["plain"].run, (4,))}
    assert made["cached"].time.conditions.interleaved_with == ("plain",)
    two, three = (Workload(asked).ready(_CACHED) for asked in (2, 3))
    assert two.model is not three.model
    assert (held_bytes(two) - two.stored_bytes) * 3 == (held_bytes(three) - three.stored_bytes) * 2 > 0
    # Beside weights and cache a call allocates something.
    assert made["cached"].memory.minimum > Workload(4).held(_CACHED).value


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


@given(st.data())
def test_a_walk_visits_nothing_twice_and_a_pair_is_of_two_steps_of_which_the_second_needs_the_first(
    data: st.DataObject,
) -> None:
    now, seen, named = PLAIN, {PLAIN}, {step.name: step for step in STEPS}
    while moves := moves_from(now)[0]:
        for (first, second), after in moves_from(now)[1].items():
            between = named[first].after(now)
            assert between is not None
            assert (named[second].after(now), named[second].after(between)) == (None, after)
            assert named[first].field != named[second].field
        now = data.draw(st.sampled_from(list(moves.values())))
        assert now not in seen
        seen.add(now)
    assert len(seen) < 12


def test_one_op_a_token_needs_a_cache_and_kernels_and_nothing_replaces_the_distilled_model() -> None:
    assert (TOKEN.after(PLAIN), TOKEN.after(Configuration(cache="float32", kernels=True))) == (None, _TOKEN)
    assert (CACHE.name, TOKEN.name) in moves_from(Configuration(kernels=True))[1]
    taken = {step for (step,) in moves_from(Configuration(model="distilled"))[0]}
    assert taken.isdisjoint({"half of the units", SMALL.name})
    assert len({step.name for step in STEPS}) == len(STEPS)
