"""A planned step against the step by the graph: the same arithmetic, so the same numbers, to the last bit."""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.core.cases import Recorder
from tinytorch import models
from tinytorch.core.dispatch import apply, observed_by
from tinytorch.core.layers import Dropout, Linear
from tinytorch.core.losses import CrossEntropyLoss, MSELoss
from tinytorch.core.module import Module, Sequential
from tinytorch.core.op import Array
from tinytorch.core.ops import relu
from tinytorch.core.optimizers import SGD, AdamW
from tinytorch.core.tensor import Tensor
from tinytorch.core.training import training_steps
from tinytorch.perf.acceleration import accelerated, fuse
from tinytorch.perf.acceleration.planned_step import plan_step, planned_steps
from tinytorch.perf.acceleration.recorded_graph import as_input

DRAW = np.random.default_rng(0)


class Twice(Module):
    """Reads one weight and one intermediate result several times, and a weight that nothing reads."""

    def __init__(self) -> None:
        self.layer, self.unread = Linear(6, 6, seed=0), Linear(6, 6, seed=1)

    def forward(self, x: Tensor) -> Tensor:
        """Return a sum that hands the same gradient on to all of its terms."""
        h = self.layer(x)
        k = h * 0.5
        output: Tensor = (k * k + k) + (h * h + self.layer(h) + h[:, ::-1] - h.reshape(-1, 6) + (h + h))
        return output


class Branch(Module):
    """Does another op where the mean of its input is below zero."""

    def __init__(self) -> None:
        self.layer = Linear(6, 6, seed=0)

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.layer(x) * (2.0 if x.data[0, 0] > x.data[-1, 0] else 1.0)
        return output


def floats(*shape: int) -> Array:
    return DRAW.standard_normal(shape, np.float32)


def images() -> tuple[Array, Array]:
    return DRAW.random((8, 1, 8, 8), dtype=np.float32), DRAW.integers(0, 10, 8)


def tokens() -> tuple[Array, Array]:
    return DRAW.integers(0, 10, (4, 20)), DRAW.integers(0, 10, (4, 20))


CASES: dict[str, tuple[Callable[[], Module], Callable[[], Module], tuple[Array, Array]]] = {
    "mlp": (models.mlp, CrossEntropyLoss, images()),
    "batch normalization": (models.cnn, CrossEntropyLoss, images()),
    "gpt": (models.gpt, CrossEntropyLoss, tokens()),
    "fused gpt": (lambda: fuse(models.gpt()), CrossEntropyLoss, tokens()),
    "shared and unread weights": (Twice, MSELoss, (floats(3, 6), floats(3, 6))),
    "dropout": (lambda: Sequential(Linear(6, 6, seed=0), Dropout(0.5, seed=1)), MSELoss, (floats(9, 6), floats(9, 6))),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("optimizer", [AdamW, lambda parameters: SGD(parameters, 0.1, momentum=0.9)])
def test_steps_are_those_of_the_graph(name: str, optimizer: Any) -> None:
    make, loss_type, (inputs, targets) = CASES[name]
    model, loss = make().train(), loss_type()
    twin = copy.deepcopy(model)
    ours, theirs = optimizer(model.parameters()), optimizer(twin.parameters())
    step = plan_step(model, loss, ours, inputs, targets)
    for left, right in zip(model.state_dict().values(), twin.state_dict().values(), strict=True):
        np.testing.assert_array_equal(left, right)  # planning trains nothing
    for turn in range(3):
        batch = np.roll(inputs, turn, axis=0), np.roll(targets, turn, axis=0)
        found = step(*batch)
        with accelerated():
            value = loss(twin(as_input(batch[0])), batch[1])
            theirs.zero_grad()
            value.backward()
            theirs.step()
        assert found == value.item()
        for left, right in zip(model.state_dict().values(), twin.state_dict().values(), strict=True):
            np.testing.assert_array_equal(left, right)


Planned = tuple[Module, Callable[..., float], Array, Array]


@pytest.fixture
def linear() -> Planned:
    """Return a layer, its planned step, and a batch."""
    model, inputs, targets = Linear(6, 2, seed=0), floats(4, 6), floats(4, 2)
    return model, plan_step(model, MSELoss(), SGD(model.parameters()), inputs, targets), inputs, targets


def test_observers_see_the_ops(linear: Planned) -> None:
    _, step, *batch = linear
    with observed_by(recorder := Recorder()):
        step(*batch)
    assert [(call.op.name, call.phase) for call in recorder.calls] == [
        ("linear", "forward"),
        ("mean_squared_error", "forward"),
        ("mean_squared_error", "backward"),
        ("linear", "backward"),
    ]


def test_what_cannot_be_planned_is_refused(linear: Planned) -> None:
    with pytest.raises(ValueError, match="branch"):
        plan_step(Branch(), MSELoss(), SGD(Branch().parameters()), floats(4, 6), floats(4, 6))
    model, _, *batch = linear
    with pytest.raises(ValueError, match="one number"):
        plan_step(model, lambda output, _: apply(relu, output), SGD(model.parameters()), *batch)


@pytest.mark.parametrize("change", ["shape", "dtype", "parameter"])
def test_a_batch_or_parameter_that_was_not_planned_is_refused(change: str, linear: Planned) -> None:
    model, step, inputs, targets = linear
    if change == "parameter":
        (weight, *_) = model.parameters()
        weight.data = weight.data.copy()
    given = {"shape": inputs[:2], "dtype": inputs.astype(int)}.get(change, inputs)
    with pytest.raises(ValueError, match=change):
        step(given, targets)


def test_a_loss_that_is_not_finite_changes_nothing(linear: Planned) -> None:
    model, step, inputs, targets = linear
    before = [parameter.data.copy() for parameter in model.parameters()]
    with pytest.raises(FloatingPointError, match="nan"):
        step(np.full_like(inputs, np.nan), targets)
    for parameter, old in zip(model.parameters(), before, strict=True):
        np.testing.assert_array_equal(parameter.data, old)


def trained_on_digits() -> Module:
    """Return a small MLP that was trained in batches of 64 and a last one of 36."""
    model = models.mlp(0, (12, 7))
    models.train_on("mlp", model, epochs=1, learning_rate=2e-3, examples=100)
    return model


def test_a_training_with_planned_steps_is_that_of_the_graph() -> None:
    expected = models.held_out_logits(trained_on_digits(), "mlp")
    with accelerated(), training_steps(planned_steps):
        planned = trained_on_digits()
    np.testing.assert_allclose(models.held_out_logits(planned, "mlp"), expected, atol=1e-4)
    assert (expected != models.held_out_logits(models.mlp(0, (12, 7)), "mlp")).any()
