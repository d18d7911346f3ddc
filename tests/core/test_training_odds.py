"""What an optimizer and the training loop do with unusual arguments."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tinytorch.core.activations import LeakyReLU
from tinytorch.core.dataloader import DataLoader
from tinytorch.core.layers import Linear
from tinytorch.core.losses import MSELoss
from tinytorch.core.module import Module, Parameter
from tinytorch.core.optimizers import SGD, Adam, AdamW
from tinytorch.core.tensor import Tensor
from tinytorch.core.training import fit

OPTIMIZERS: list[Any] = [SGD, Adam, AdamW]


class Zero(Module):
    def __init__(self) -> None:
        self.weight = Parameter(np.zeros((1, 1), np.float32))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight


REFUSED: dict[str, tuple[Callable[[Any], Any], type[Exception]]] = {
    "one Parameter": (lambda make: make(Parameter(np.ones((3, 2)))), TypeError),
    "a model": (lambda make: make(Linear(1, 1)), TypeError),
    "pairs with names": (lambda make: make(Linear(1, 1).named_parameters()), TypeError),
    "names": (lambda make: make(Linear(1, 1).state_dict()), TypeError),
    "arrays": (lambda make: make([np.ones(2)]), TypeError),
    "a buffer": (lambda make: make([Tensor([1.0])]), TypeError),
    "a result": (lambda make: make([Parameter([1.0]) * 2]), TypeError),
    "none": (lambda make: make([]), ValueError),
    "infinite lr": (lambda make: make([Parameter([1.0])], lr=np.inf), ValueError),
    "lr of text": (lambda make: make([Parameter([1.0])], lr="0.1"), ValueError),
    "negative weight decay": (lambda make: make([Parameter([1.0])], weight_decay=-1), ValueError),
    "NaN as weight decay": (lambda make: make([Parameter([1.0])], weight_decay=np.nan), ValueError),
}


@pytest.mark.parametrize("make", OPTIMIZERS)
@pytest.mark.parametrize(("given", "error"), REFUSED.values(), ids=[*REFUSED])
def test_an_optimizer_refuses_by_name(make: Any, given: Callable[[Any], Any], error: type[Exception]) -> None:
    with pytest.raises(error, match=r"parameters|lr|weight_decay"):
        given(make)


@pytest.mark.parametrize("options", [{"eps": -1}, {"eps": np.inf}, {"betas": 0.9}, {"betas": (0.9,)}])
def test_adam_refuses_by_name(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        Adam([Parameter([1.0])], **options)


@pytest.mark.parametrize("make", OPTIMIZERS)
def test_numpy_numbers_and_a_parameter_given_twice_step_as_one_of_python_s_does(make: Any) -> None:
    once, twice = (Parameter(np.ones(3, np.float32)) for _ in range(2))
    optimizers = [
        make([once], lr=0.1, weight_decay=0.5),
        make([twice, twice], lr=np.float64(0.1), weight_decay=np.float32(0.5)),
    ]
    for each in (once, twice):
        each.grad = np.full(3, 0.25, np.float32)
    for each in optimizers:
        each.step()
    assert twice.dtype == np.float32
    np.testing.assert_array_equal(once.data, twice.data)


@pytest.mark.parametrize("batches", [DataLoader, lambda x, y, batch_size: [*DataLoader(x, y, batch_size=batch_size)]])
def test_the_mean_loss_of_an_epoch_is_that_of_its_examples(batches: Any) -> None:
    model = Zero()
    x, y = np.zeros((3, 1), np.float32), np.array([[0], [0], [3]], np.float32)
    history = fit(model, batches(x, y, batch_size=2), MSELoss(), SGD(model.parameters(), lr=0), epochs=1)
    assert history.losses == [3.0]


def test_lr_and_mode_are_what_they_were_to_be_after_an_error() -> None:
    model = Zero()
    optimizer = SGD(model.parameters(), lr=0.1)
    batches = DataLoader(np.full((1, 1), np.nan, np.float32), np.ones((1, 1), np.float32))
    with pytest.raises(FloatingPointError, match="epoch 1"):
        fit(model, batches, MSELoss(), optimizer, epochs=1, schedule=lambda done: 0.5)
    assert optimizer.lr == 0.1
    assert not model.training


@pytest.mark.parametrize(
    ("batches", "epochs", "error"),
    [([], 1, ValueError), (iter([]), 1, TypeError), ([1], 0, ValueError), ([1], 1.5, ValueError)],
)
def test_fit_refuses_by_name(batches: Any, epochs: Any, error: type[Exception]) -> None:
    model = Zero()
    with pytest.raises(error, match=r"batches|epochs"):
        fit(model, batches, MSELoss(), SGD(model.parameters()), epochs=epochs)


NUMBERS: dict[str, Callable[[Tensor], Tensor]] = {
    "times": lambda t: t * np.float64(2),
    "over": lambda t: t / np.sqrt(64),
    "plus an integer": lambda t: t + np.int64(3),
    "from": lambda t: np.float64(1) - t,
    "to the power": lambda t: t ** np.float64(2),
    "slope": LeakyReLU(np.float64(0.1)),
}


@pytest.mark.parametrize("make", NUMBERS.values(), ids=[*NUMBERS])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_number_of_numpy_leaves_the_dtype(make: Callable[[Tensor], Tensor], dtype: Any) -> None:
    assert make(Tensor(np.ones(2, dtype))).dtype == dtype
