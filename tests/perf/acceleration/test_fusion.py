"""Fused models: the same results, gradients and FLOPs as the original, which stays as it was."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

from tests.perf.small_models import settled
from tinytorch import models
from tinytorch.core.activations import GELU, ReLU, Tanh
from tinytorch.core.dispatch import apply, no_grad
from tinytorch.core.layers import Dropout, Linear
from tinytorch.core.module import Module, Sequential
from tinytorch.core.op import Array
from tinytorch.core.tensor import Tensor
from tinytorch.core.transformers import GPT, FeedForward, TransformerBlock
from tinytorch.perf.acceleration.fusion import fuse
from tinytorch.perf.events.stream import recording
from tinytorch.perf.kernels.registry import accelerated
from tinytorch.perf.ops.fused import fused_linear
from tinytorch.perf.quantization import quantize_model


def images(count: int = 3) -> Tensor:
    return Tensor(np.random.default_rng(0).random((count, 1, 8, 8), dtype=np.float32))


def vectors(width: int) -> Tensor:
    return Tensor(np.random.default_rng(1).standard_normal((2, 300, width), dtype=np.float32))


CASES: dict[str, tuple[Callable[[], Module], Callable[[], Any]]] = {
    "mlp": (models.mlp, images),
    "cnn": (lambda: settled(models.cnn()), images),
    "gpt": (models.gpt, lambda: np.random.default_rng(0).integers(0, 10, (4, 20))),
    "block": (lambda: TransformerBlock(96, 4, seed=0), lambda: vectors(96)),
    "sequence": (
        lambda: Sequential(
            Linear(48, 64, bias=False, seed=0),
            GELU(),
            Sequential(Linear(64, 64, seed=1), Tanh(), Dropout(0.5, seed=2)),
            ReLU(),
        ),
        lambda: vectors(48),
    ),
}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> tuple[Module, Any]:
    make, inputs = CASES[request.param]
    return make().eval(), inputs()


def counts(run: Callable[[], Any]) -> tuple[int, int]:
    """Multiply-accumulates and elementwise operations of all ops."""
    with recording() as recorded:
        run()
    works = [event.work for event in recorded.profile.events if event.work is not None]
    assert len(works) == len(recorded.profile.events)
    return sum(work.macs for work in works), sum(work.elementwise for work in works)


@pytest.mark.parametrize("kernels", [False, True])
@pytest.mark.parametrize("frozen", [False, True])
def test_results_and_products_are_those_of_the_original_which_stays(
    case: tuple[Module, Any], frozen: bool, kernels: bool
) -> None:
    model, x = case
    state, text = model.state_dict(), repr(model)
    with no_grad():
        expected = model(x).data
        fused = fuse(model, frozen=frozen)
        counted = [counts(lambda each=each: each(x)) for each in (model, fused)]  # type: ignore[misc]
        with accelerated() if kernels else nullcontext():
            found = fused(x).data
    np.testing.assert_allclose(found, expected, rtol=0, atol=3e-6 * np.abs(expected).max())
    assert counted[0][0] == counted[1][0] > 0
    # Folded normalization and dropout that is left out are work that is not done any more.
    assert counted[1][1] <= counted[0][1]
    assert repr(model) == text
    assert all(np.array_equal(value, state[name]) for name, value in model.state_dict().items())
    with no_grad():
        assert np.array_equal(model(x).data, expected)


def gradients(model: Module, x: Any) -> dict[str, Array]:
    output = model(x)
    output.backward(np.random.default_rng(9).standard_normal(output.shape, dtype=np.float32))
    return {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}


@pytest.mark.parametrize("kernels", [False, True])
def test_gradients_are_those_of_the_original(case: tuple[Module, Any], kernels: bool) -> None:
    model, x = case
    fused = fuse(model)
    expected = [*gradients(model, x).values()]
    with accelerated() if kernels else nullcontext():
        found = [*gradients(fused, x).values()]
    assert len(found) == len(expected) > 0
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=5e-6 * max(1, float(np.abs(other).max())))


def test_a_block_is_seven_ops_instead_of_ten_which_leaves_no_arithmetic_out() -> None:
    model, x = TransformerBlock(96, 4, seed=0), vectors(96)
    assert counts(lambda: model(x).sum().backward()) == counts(lambda: fuse(model)(x).sum().backward())
    for each, number in ((model, 10), (fuse(model), 7)):
        with no_grad(), recording() as recorded:
            each(x)
        assert len(recorded.profile.events) == number


def test_shared_modules_and_parameters_stay_shared() -> None:
    shared = Linear(8, 8, seed=0)
    model = Sequential(shared, Tanh(), shared)
    fused = fuse(model)
    assert isinstance(fused, Sequential)
    assert fused[0] is fused[2]
    assert fused[0] is not shared
    tied = GPT(11, 32, 1, 2, 8, seed=0)
    assert [name for name, _ in fuse(tied).named_parameters()] == [name for name, _ in tied.named_parameters()]


def test_a_frozen_model_takes_any_shape_and_trains_nothing() -> None:
    model = models.mlp()
    frozen = fuse(model, frozen=True)
    before = {count: frozen(images(count)).data for count in (1, 2, 33)}
    expected = {count: model.eval()(images(count)).data for count in before}
    model.parameters()[0].data[...] = 7
    for count, found in before.items():
        np.testing.assert_allclose(found, expected[count], rtol=0, atol=1e-5)
        assert np.array_equal(frozen(images(count)).data, found)
    for count in range(1, 40):  # more shapes than plans are kept of
        assert frozen(images(count)).shape == (count, 10)
    assert not frozen.training
    assert not any(parameter.requires_grad for parameter in frozen.parameters())
    assert frozen.state_dict().keys() == {f"model.{name}" for name in model.state_dict()}


def test_classes_with_forwards_of_their_own_keep_them() -> None:
    class Odd(Sequential):
        def forward(self, x: Any) -> Any:
            return super().forward(x) * 2

    model, x = Odd(Linear(8, 8, seed=0), ReLU()), vectors(8)
    with no_grad():
        np.testing.assert_allclose(fuse(model, frozen=True)(x).data, model(x).data, atol=1e-5)
        assert len(list(fuse(model).named_modules())) == 3
    quantized = quantize_model(FeedForward(8, 32, seed=0))
    with no_grad():
        assert np.array_equal(fuse(quantized)(x).data, quantized(x).data)


@pytest.mark.parametrize(
    ("x", "residual", "activation", "said"),
    [
        ((2, 5), None, "none", "ends in 4 features"),
        ((2, 4), (3, 3), "none", r"output's shape \(2, 3\)"),
        ((2, 4), None, "swish", "not 'swish'"),
        ((2, 4), (2, 3), "relu", "cannot both follow"),
    ],
)
@pytest.mark.parametrize("kernels", [False, True])
def test_what_does_not_fit_is_refused(x: Any, residual: Any, activation: Any, said: str, kernels: bool) -> None:
    more = None if residual is None else Tensor(np.zeros(residual, np.float32))
    operands = (Tensor(np.zeros(x, np.float32)), Tensor(np.zeros((4, 3), np.float32)), None, more)
    with accelerated() if kernels else nullcontext(), pytest.raises(ValueError, match=said):
        apply(fused_linear, *operands, activation=activation)
