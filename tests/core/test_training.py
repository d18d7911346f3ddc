"""The training loop: models learn, seeds reproduce, and a loss that is no number stops before it does harm."""

import math
from typing import Any

import numpy as np
import pytest

from tinytorch.core.activations import GELU, ReLU
from tinytorch.core.dataloader import DataLoader
from tinytorch.core.layers import Dropout, Linear
from tinytorch.core.losses import CrossEntropyLoss, MSELoss
from tinytorch.core.module import Module, Sequential
from tinytorch.core.optimizers import SGD, Adam, AdamW
from tinytorch.core.tensor import Tensor
from tinytorch.core.training import fit, train_step, training_steps


def spirals(count: int) -> tuple[Any, Any]:
    """Return points of two interleaved spirals, which no line divides, and which spiral each belongs to."""
    generator = np.random.default_rng(0)
    angle = generator.uniform(1, 6, count)
    label = np.arange(count) % 2
    points = np.stack([np.cos(angle + math.pi * label), np.sin(angle + math.pi * label)], 1) * angle[:, None] / 3
    return points.astype(np.float32), label


@pytest.mark.parametrize(
    "make",
    [
        lambda parameters: SGD(parameters, lr=0.3, momentum=0.9),
        lambda parameters: Adam(parameters, lr=0.02),
        lambda parameters: AdamW(parameters, lr=0.02),
    ],
)
def test_an_mlp_learns_what_no_line_can_divide(make: Any) -> None:
    x, y = spirals(200)
    model = Sequential(Linear(2, 32, seed=0), ReLU(), Linear(32, 32, seed=1), GELU(), Linear(32, 2, seed=2))
    batches = DataLoader(x, y, batch_size=50, shuffle=True, seed=0)
    history = fit(model, batches, CrossEntropyLoss(), make(model.parameters()), 60)
    assert len(history.losses) == 60
    assert history.losses[-1] < 0.1 < history.losses[0]
    assert (model(Tensor(x)).data.argmax(axis=1) == y).mean() > 0.97
    assert not model.training


def test_the_same_seeds_train_the_same_model() -> None:
    x, y = spirals(60)
    states = []
    for _ in range(2):
        model = Sequential(Linear(2, 8, seed=0), Dropout(0.2, seed=1), ReLU(), Linear(8, 2, seed=2))
        batches = DataLoader(x, y, batch_size=16, shuffle=True, seed=3)
        history = fit(model, batches, CrossEntropyLoss(), Adam(model.parameters()), 3)
        states.append([*model.state_dict().values(), np.array(history.losses)])
    for one, other in zip(*states, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_step_returns_the_loss_before_it_and_uses_no_older_gradient() -> None:
    model = Linear(1, 1, bias=False, seed=0)
    model.weight.data[...] = 2
    model.weight.grad = np.full((1, 1), 100, np.float32)
    optimizer = SGD(model.parameters(), lr=0.1)
    assert train_step(model, Tensor([[3.0]]), [[0.0]], MSELoss(), optimizer) == 36
    # d/dw (3 w)^2 = 18 w = 36
    np.testing.assert_allclose(model.weight.data, 2 - 0.1 * 36, rtol=1e-6)


@pytest.mark.parametrize(("bad", "said"), [(np.nan, "nan"), (np.inf, "inf"), (-np.inf, "-inf")])
def test_a_loss_that_is_no_number_stops_before_the_step(bad: float, said: str) -> None:
    class Breaks(Module):
        """Gives the loss of the second epoch away."""

        def __init__(self) -> None:
            self.calls = 0

        def forward(self, prediction: Tensor, target: Any) -> Tensor:
            self.calls += 1
            return prediction.sum() * 0 + (bad if self.calls > 2 else 1.0)

    model = Linear(1, 1, seed=0)
    before = model.state_dict()
    batches = DataLoader(np.ones((4, 1), np.float32), np.ones((4, 1), np.float32), batch_size=2)
    optimizer = SGD(model.parameters(), lr=0.5)
    with pytest.raises(FloatingPointError, match=rf"in epoch 2, the loss became {said}: lower lr, now 0\.25"):
        fit(model, batches, Breaks(), optimizer, 3, schedule=lambda done: 0.5)
    assert optimizer.lr == 0.5
    assert not model.training
    for name, value in model.state_dict().items():
        np.testing.assert_array_equal(value, before[name])


@pytest.mark.parametrize("batches", [DataLoader, lambda x, y, batch_size: [*DataLoader(x, y, batch_size=batch_size)]])
def test_the_mean_loss_of_an_epoch_is_that_of_its_examples(batches: Any) -> None:
    model = Linear(1, 1, bias=False)
    x, y = np.zeros((3, 1), np.float32), np.array([[0], [0], [3]], np.float32)
    history = fit(model, batches(x, y, batch_size=2), MSELoss(), SGD(model.parameters(), lr=0), epochs=1)
    assert history.losses == [3.0]


@pytest.mark.parametrize(
    ("batches", "epochs", "error"),
    [([], 1, ValueError), (iter([]), 1, TypeError), ([1], 0, ValueError), ([1], 1.5, ValueError)],
)
def test_fit_refuses_by_name(batches: Any, epochs: Any, error: type[Exception]) -> None:
    model = Linear(1, 1)
    with pytest.raises(error, match=r"batches|epochs"):
        fit(model, batches, MSELoss(), SGD(model.parameters()), epochs=epochs)


def test_a_schedule_scales_the_rate_from_0_towards_1_and_is_undone() -> None:
    model = Linear(1, 1, seed=0)
    optimizer = SGD(model.parameters(), lr=0.4)
    asked, rates = [], []

    def schedule(done: float) -> float:
        asked.append(done)
        return 1 - done

    class Watch(Module):
        def forward(self, prediction: Tensor, target: Any) -> Tensor:
            rates.append(optimizer.lr)
            return prediction.sum() * 0

    batches = DataLoader(np.ones((4, 1), np.float32), np.ones((4, 1), np.float32), batch_size=2)
    fit(model, batches, Watch(), optimizer, 2, schedule=schedule)
    np.testing.assert_allclose(asked, [0, 0.25, 0.5, 0.75])
    np.testing.assert_allclose(rates, [0.4, 0.3, 0.2, 0.1])
    assert optimizer.lr == 0.4


def test_fit_trains_with_the_step_that_is_chosen_around_it() -> None:
    made: list[list[tuple[int, ...]]] = []

    def make_step() -> Any:
        shapes: list[tuple[int, ...]] = []
        made.append(shapes)

        def step(model: Module, inputs: Any, targets: Any, loss: Any, optimizer: Any) -> float:
            shapes.append(inputs.shape)
            return train_step(model, inputs, targets, loss, optimizer)

        return step

    def train() -> list[float]:
        x, y = np.ones((5, 2), np.float32), np.ones((5, 1), np.float32)
        model = Linear(2, 1, seed=0)
        return fit(model, DataLoader(x, y, batch_size=3), MSELoss(), SGD(model.parameters(), lr=0.1), 1).losses

    alone = train()
    with training_steps(make_step):
        assert train() == train() == alone
    assert train() == alone
    assert made == [[(3, 2), (2, 2)]] * 2, "each training makes a step of its own, and only within the body"
