"""The training loop: models learn, seeds reproduce; and optimizers against their published recursions in float64."""

import math
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np
import pytest

from tests.core.cases import normal, turned
from tinytorch.core.activations import GELU, ReLU
from tinytorch.core.dataloader import DataLoader
from tinytorch.core.layers import Dropout, Linear
from tinytorch.core.losses import CrossEntropyLoss, MSELoss
from tinytorch.core.module import Module, Parameter, Sequential
from tinytorch.core.op import Array
from tinytorch.core.ops.elementwise import BLOCK
from tinytorch.core.optimizers import SGD, Adam, AdamW
from tinytorch.core.tensor import Tensor
from tinytorch.core.training import fit, train_step, training_steps
from tinytorch.perf.acceleration import accelerated


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
    with pytest.raises(FloatingPointError, match=rf"in epoch 2, the loss became {said}: use a smaller lr than 0\.25"):
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


STEPS = 6
SHAPES = [(3, 4), (), (BLOCK + 7,), (5,)]


def _sgd(p: Array, gradients: list[Array], lr: float, momentum: float, weight_decay: float) -> Array:
    velocity = np.zeros_like(p)
    for gradient in gradients:
        velocity = momentum * velocity + gradient + weight_decay * p
        p = p - lr * velocity
    return p


def _adam(
    p: Array,
    gradients: list[Array],
    lr: float,
    betas: tuple[float, float],
    eps: float,
    weight_decay: float,
    decoupled: bool,
) -> Array:
    """Algorithm 1 of arXiv:1412.6980, and algorithm 2 of arXiv:1711.05101 with ``decoupled``."""
    m, v = np.zeros_like(p), np.zeros_like(p)
    for step, gradient in enumerate(gradients, 1):
        if decoupled:
            p = p - lr * weight_decay * p
        else:
            gradient = gradient + weight_decay * p
        m = betas[0] * m + (1 - betas[0]) * gradient
        v = betas[1] * v + (1 - betas[1]) * gradient**2
        p = p - lr * (m / (1 - betas[0] ** step)) / (np.sqrt(v / (1 - betas[1] ** step)) + eps)
    return p


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
@pytest.mark.parametrize(
    ("kind", "textbook", "options"),
    [
        *[(SGD, _sgd, {"lr": 0.05, "momentum": momentum}) for momentum in (0.0, 0.9)],
        *[
            (kind, partial(_adam, decoupled=kind is AdamW), {"lr": 0.02, "betas": betas, "eps": eps})
            for kind in (Adam, AdamW)
            for betas, eps in (((0.9, 0.999), 1e-8), ((0.5, 0.7), 0.1), ((0.0, 0.0), 1e-3))
        ],
    ],
)
def test_steps_are_the_textbook_s(
    kind: Any, textbook: Any, options: dict[str, Any], weight_decay: float, dtype: Any
) -> None:
    options = {**options, "weight_decay": weight_decay}
    starts = [normal(*shape) for shape in SHAPES]
    gradients = [[normal(*shape, seed=seed + 1) for seed in range(STEPS)] for shape in SHAPES]
    parameters = [Parameter(start.astype(dtype)) for start in starts]
    optimizer = kind(parameters, **options)
    for step in range(STEPS):
        for parameter, mine in zip(parameters, gradients, strict=True):
            parameter.grad = mine[step].astype(dtype)
        optimizer.step()
        for parameter, mine in zip(parameters, gradients, strict=True):
            np.testing.assert_array_equal(parameter.grad, mine[step].astype(dtype), err_msg="gradient changed")
    tolerance = 1e-12 if dtype is np.float64 else 3e-6
    for parameter, start, mine in zip(parameters, starts, gradients, strict=True):
        assert parameter.dtype == dtype
        np.testing.assert_allclose(parameter.data, textbook(start, mine, **options), rtol=0, atol=tolerance)


def test_defaults_are_the_published_ones() -> None:
    parameter = Parameter([1.0])
    assert (Adam([parameter]).lr, Adam([parameter]).betas, Adam([parameter]).eps) == (1e-3, (0.9, 0.999), 1e-8)
    assert (Adam([parameter]).weight_decay, AdamW([parameter]).weight_decay) == (0.0, 0.01)
    assert (SGD([parameter]).lr, SGD([parameter]).momentum) == (0.01, 0.0)


@pytest.mark.parametrize("make", [SGD, lambda p, lr: SGD(p, lr, momentum=0.9), Adam, AdamW])
def test_memory_order_of_data_and_gradient_does_not_matter(make: Any) -> None:
    results = []
    for order in (turned, np.ascontiguousarray):
        parameter = Parameter(order(normal(3, 4)))
        optimizer = make([parameter], lr=0.1)
        for seed in range(3):
            parameter.grad = order(normal(3, 4, seed=seed))
            optimizer.step()
        results.append(parameter.data)
    np.testing.assert_array_equal(results[0], results[1])
    parameter.data = turned(parameter.data)  # which no step can change in place
    with pytest.raises(ValueError, match="data"):
        optimizer.step()


@pytest.mark.parametrize("make", [SGD, Adam, AdamW])
def test_parameters_without_a_gradient_stay(make: Any) -> None:
    still, moved = Parameter([1.0]), Parameter([1.0])
    optimizer = make([still, moved], lr=0.1)
    moved.grad = np.ones(1, np.float32)
    data = moved.data
    optimizer.step()
    assert still.data[0] == 1
    assert moved.data is data
    assert data[0] != 1
    optimizer.zero_grad()
    assert moved.grad is None


@pytest.mark.parametrize("rules", [nullcontext, accelerated], ids=["numpy", "compiled"])
@pytest.mark.parametrize("kind", [Adam, AdamW])
@pytest.mark.parametrize("given", [[10], [0, 2, 5], [0, 1, 2], [1, 2]], ids=str)
def test_adam_counts_the_steps_of_each_parameter_for_itself(kind: Any, given: list[int], rules: Any) -> None:
    """A parameter that gets its first gradient late, or now and then, moves as one that was alone."""
    always, sometimes = (Parameter(np.ones(3, np.float32)) for _ in range(2))
    optimizer = kind([always, sometimes], lr=0.1)
    gradients = [normal(3, seed=seed) for seed in range(max(given) + 1)]
    with rules():
        for step, gradient in enumerate(gradients):
            always.grad = gradient.astype(np.float32)
            sometimes.grad = gradient.astype(np.float32) if step in given else None
            optimizer.step()
    options: Any = {"lr": 0.1, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": optimizer.weight_decay}
    for parameter, mine in ((always, gradients), (sometimes, [gradients[step] for step in given])):
        expected = _adam(np.ones(3), mine, **options, decoupled=kind is AdamW)
        np.testing.assert_allclose(parameter.data, expected, rtol=0, atol=3e-6)
    assert optimizer.steps == [len(gradients), len(given)]


@pytest.mark.parametrize("gradient", [0.0, 1e-4, 1.0, 300.0, 3e4])
@pytest.mark.parametrize(
    ("kind", "textbook", "options"),
    [
        (SGD, _sgd, {"lr": 0.01, "momentum": 0.9}),
        (Adam, partial(_adam, decoupled=False), {"lr": 0.1, "betas": (0.9, 0.999), "eps": 1e-8}),
        (AdamW, partial(_adam, decoupled=True), {"lr": 0.1, "betas": (0.9, 0.999), "eps": 1e-8}),
    ],
)
def test_halves_move_as_wider_numbers_do(kind: Any, textbook: Any, options: dict[str, Any], gradient: float) -> None:
    options = {**options, "weight_decay": 0.01}
    parameter = Parameter(np.ones(2, np.float16))
    optimizer = kind([parameter], **options)
    for _ in range(3):
        parameter.grad = np.full(2, gradient, np.float16)
        optimizer.step()
    assert parameter.dtype == np.float16
    expected = textbook(np.ones(2), [np.full(2, np.float16(gradient), np.float64)] * 3, **options)
    np.testing.assert_allclose(parameter.data, expected, rtol=5e-3)


@pytest.mark.parametrize("make", [SGD, Adam, AdamW])
def test_numpy_numbers_and_a_parameter_given_twice_step_as_one_of_python_s_does(make: Any) -> None:
    once, twice = (Parameter(np.ones(3, np.float32)) for _ in range(2))
    once.grad = twice.grad = np.full(3, 0.25, np.float32)
    make([once], lr=0.1, weight_decay=0.5).step()
    make([twice, twice], lr=np.float64(0.1), weight_decay=np.float32(0.5)).step()
    assert twice.dtype == np.float32
    np.testing.assert_array_equal(once.data, twice.data)


def test_state_bytes() -> None:
    parameters = [Parameter(normal(3, 4).astype(np.float32)), Parameter(normal(5))]
    size = 12 * 4 + 5 * 8
    assert SGD(parameters).state_nbytes() == 0
    assert SGD(parameters, momentum=0.9).state_nbytes() == size
    assert Adam(parameters).state_nbytes() == 2 * size
