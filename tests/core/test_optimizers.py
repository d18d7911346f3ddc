"""Optimizers against their textbook recursions, written here in float64 with bias corrections as published."""

from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np
import pytest

from tests.core.cases import normal, turned
from tinytorch.core.module import Parameter
from tinytorch.core.op import Array
from tinytorch.core.ops.elementwise import BLOCK
from tinytorch.core.optimizers import SGD, Adam, AdamW
from tinytorch.perf.acceleration import accelerated

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
