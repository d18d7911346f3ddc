"""Phases of a step train the model, and memory holds what the model and its optimizer hold."""

import numpy as np

from tinytorch import models
from tinytorch.perf.profiling.zoo_steps import phases, training_memory


def test_phases_of_a_step_have_as_many_samples_as_steps_and_train_the_model() -> None:
    model = models.mlp()
    before = [parameter.data.copy() for parameter in model.parameters()]
    found = phases("mlp", batch=4, repeats=6, model=model)
    assert {name: m.n for name, m in found.items()} == {"forward": 6, "backward": 6, "update": 6}
    assert found["forward"].conditions.cpu_per_wall
    assert all(not np.array_equal(a, p.data) for a, p in zip(before, model.parameters(), strict=True))


def test_memory_of_a_step_holds_what_the_model_and_adamw_hold() -> None:
    found = training_memory("mlp", batch=8)
    parameters = sum(parameter.nbytes for parameter in models.mlp().parameters())
    assert found.highest["parameters"] == found.highest["gradients"] == parameters
    assert found.highest["optimizer"] == 2 * parameters


def test_activations_are_less_than_half_of_the_mlp_and_more_of_the_gpt_as_the_page_says() -> None:
    for name, most in (("mlp", False), ("gpt", True)):
        highest = training_memory(name, batch=64).highest
        kept = sum(highest[what] for what in ("parameters", "gradients", "optimizer"))
        assert (highest["activations"] > kept) == most
