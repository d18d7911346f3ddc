"""Phases of a step train the model, and memory holds what the model and its optimizer hold."""

import numpy as np
import pytest

from tinytorch import models
from tinytorch.perf.profiling.zoo_steps import phases, training_memory


def test_phases_of_a_step_have_as_many_samples_as_steps_and_train_the_model() -> None:
    model = models.mlp()
    before = [parameter.data.copy() for parameter in model.parameters()]
    found = phases("mlp", batch=4, repeats=6, model=model)
    assert {name: m.n for name, m in found.items()} == {"forward": 6, "backward": 6, "update": 6}
    assert found["forward"].conditions.cpu_per_wall
    assert all(not np.array_equal(a, p.data) for a, p in zip(before, model.parameters(), strict=True))


@pytest.mark.parametrize(("name", "most"), [("mlp", False), ("gpt", True)])
def test_memory_of_a_step_holds_what_the_model_and_adamw_hold(name: str, most: bool) -> None:
    """Activations are less than half of the MLP's and more of the GPT's, as the page says."""
    highest = training_memory(name, batch=64).highest
    parameters = sum(parameter.nbytes for parameter in models.entry(name).make(0).parameters())
    assert highest["parameters"] == highest["gradients"] == highest["optimizer"] / 2 == parameters
    assert (highest["activations"] > 4 * parameters) == most
