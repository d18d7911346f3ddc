"""A backward whose arrays were changed since the forward raises; one that does not need them is right."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tinytorch.core.layers import Embedding, Linear
from tinytorch.core.module import Sequential
from tinytorch.core.optimizers import SGD, Adam
from tinytorch.core.spatial import BatchNorm2d
from tinytorch.core.tensor import Tensor

X = Tensor(np.arange(6, dtype=np.float32).reshape(2, 3) - 2)
Change = Callable[[Sequential], Any]


def deep() -> Sequential:
    return Sequential(Linear(3, 4, seed=0), Linear(4, 2, seed=1))


def step(make: Callable[[list[Any]], Any], which: int) -> Change:
    def change(model: Sequential) -> None:
        for parameter in model.parameters():
            parameter.grad = np.ones_like(parameter.data)
        make(model[which].parameters()).step()
        model.zero_grad()

    return change


def more(tensor: Tensor) -> None:
    tensor.data += 1


NEEDED: dict[str, Change] = {
    "SGD": step(SGD, 1),
    "Adam": step(Adam, 1),
    "in place": lambda model: more(model[1].weight),
    "state": lambda model: model.load_state_dict(model.state_dict()),
}
UNNEEDED: dict[str, Change] = {
    "weight whose input has no gradient": step(SGD, 0),
    "bias": lambda model: more(model[1].bias),
    "another array": lambda model: setattr(model[1].weight, "data", model[1].weight.data + 1),
    "another tensor": lambda model: more(Tensor(model[1].weight.data.copy())),
}


@pytest.mark.parametrize("change", NEEDED.values(), ids=[*NEEDED])
def test_a_backward_that_needs_what_was_changed_raises_and_adds_nothing(change: Change) -> None:
    model = deep()
    value = (model(X) * model(X)).sum()
    change(model)
    with pytest.raises(RuntimeError, match="forward"):
        value.backward()
    assert all(parameter.grad is None for parameter in model.parameters())
    (model(X) * model(X)).sum().backward()  # a new forward is of the new values


@pytest.mark.parametrize("change", UNNEEDED.values(), ids=[*UNNEEDED])
def test_a_backward_that_does_not_need_what_was_changed_is_what_it_was(change: Change) -> None:
    model, as_it_was = deep(), deep()
    value = model(X).sum()
    change(model)
    value.backward()
    as_it_was(X).sum().backward()
    for ours, expected in zip(model.parameters(), as_it_was.parameters(), strict=True):
        assert ours.grad is not None
        np.testing.assert_array_equal(ours.grad, expected.grad)


def running_statistics() -> tuple[Tensor, Callable[[], Any]]:
    layer, images = BatchNorm2d(1).eval(), Tensor(np.ones((2, 1, 2, 2), np.float32))
    return layer(images).sum(), lambda: layer.train()(images)


def transposed_table() -> tuple[Tensor, Callable[[], Any]]:
    table = Embedding(5, 3, seed=0)
    return table.project(Tensor(X.data, requires_grad=True)).sum(), lambda: more(table.weight)


def result() -> tuple[Tensor, Callable[[], Any]]:
    hidden = Tensor(X.data, requires_grad=True) * 1
    return (hidden * hidden).sum(), lambda: more(hidden)


def frozen_input() -> tuple[Tensor, Callable[[], Any]]:
    x = Tensor(X.data.copy())
    return Linear(3, 2)(x).sum(), lambda: more(x)


@pytest.mark.parametrize("make", [running_statistics, transposed_table, result, frozen_input])
def test_buffers_views_inputs_and_results_count_too(make: Callable[[], tuple[Tensor, Callable[[], Any]]]) -> None:
    value, change = make()
    change()
    with pytest.raises(RuntimeError, match="forward"):
        value.backward()
