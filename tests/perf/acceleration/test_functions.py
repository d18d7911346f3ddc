"""Fused functions and models: kinds in and out, memory, and the results, gradients and FLOPs of the original."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import scipy.signal
import scipy.special

from tests.perf.small_models import drawn, settled
from tinytorch import models
from tinytorch.core.activations import GELU, ReLU, Tanh
from tinytorch.core.dispatch import apply, no_grad
from tinytorch.core.layers import Dropout, Linear
from tinytorch.core.module import Module, Parameter, Sequential
from tinytorch.core.op import Array
from tinytorch.core.optimizers import SGD, Adam, AdamW, Optimizer
from tinytorch.core.tensor import Tensor
from tinytorch.core.transformers import GPT, FeedForward, TransformerBlock
from tinytorch.perf.acceleration import (
    accelerated,
    fused_attention,
    fused_bias_gelu,
    fused_causal_softmax,
    fused_gelu,
    fused_layer_norm,
    fused_softmax,
    im2col_conv2d,
    unfused_gelu,
)
from tinytorch.perf.acceleration.fusion import fuse
from tinytorch.perf.events.stream import recording
from tinytorch.perf.ops.fused import fused_linear
from tinytorch.perf.profiling import MemoryProfiler
from tinytorch.perf.quantization import quantize_model


def test_results_are_of_the_kind_and_dtype_of_what_went_in() -> None:
    x, bias = drawn(4, 6), drawn(6)
    for dtype in (np.float32, np.float64):
        y, b = x.astype(dtype), bias.astype(dtype)
        results = (unfused_gelu(y), fused_gelu(y), fused_softmax(y), fused_layer_norm(y, b, b), fused_bias_gelu(y, b))
        assert all(isinstance(result, np.ndarray) and result.dtype == dtype for result in results)
        assert unfused_gelu(Tensor(y)).dtype == fused_gelu(Tensor(y)).dtype == dtype
    np.testing.assert_allclose(fused_gelu(x), unfused_gelu(x.astype(np.float64)), atol=1e-6)
    np.testing.assert_allclose(fused_bias_gelu(x, bias), fused_gelu(x + bias), atol=1e-6)
    assert np.array_equal(fused_gelu(Tensor(x)).data, fused_gelu(x))
    assert np.allclose(fused_causal_softmax(x).sum(axis=1), 1)


def test_the_fused_gelu_takes_no_memory_but_its_result() -> None:
    x = drawn(1000, 1000)
    fused_gelu(x)
    fused, unfused = (MemoryProfiler().profile(function, (x,)) for function in (fused_gelu, unfused_gelu))
    result = x.nbytes / 2**20
    assert fused["peak_mb"] - fused["baseline_mb"] == pytest.approx(result, abs=0.01)
    assert unfused["peak_mb"] - unfused["baseline_mb"] > 1.9 * result


def test_out_is_written_or_refused() -> None:
    x = drawn(5, 4)
    out = np.empty_like(x)
    assert fused_gelu(x, out=out) is out
    assert np.array_equal(out, fused_gelu(x))
    for bad in (np.empty((4, 5), np.float32), np.empty((5, 4)), np.empty((4, 5), np.float32).T):
        with pytest.raises(ValueError, match="out"):
            fused_gelu(x, out=bad)


def as_array(made: Any) -> Array:
    return made.data if isinstance(made, Tensor) else made


@pytest.mark.parametrize("kind", [np.asarray, Tensor])
def test_attention_is_its_formula(kind: Any) -> None:
    q, k, v = (drawn(1, 2, 6, 8, seed=seed) for seed in range(3))
    made = fused_attention(kind(q), kind(k), kind(v), causal=True)
    scores = np.where(np.tri(6, dtype=bool), q.astype(float) @ k.swapaxes(2, 3) / np.sqrt(8), -np.inf)
    assert isinstance(made, type(kind(q)))
    np.testing.assert_allclose(as_array(made), scipy.special.softmax(scores, -1) @ v, atol=2e-6)


@pytest.mark.parametrize("kind", [np.asarray, Tensor])
def test_convolution_is_scipys_correlation(kind: Any) -> None:
    x, weight, bias = drawn(1, 1, 7, 9), drawn(1, 1, 3, 2, seed=1), drawn(1, seed=2)
    made = im2col_conv2d(kind(x), kind(weight), kind(bias), stride=(2, 1), padding=1)
    exact = scipy.signal.correlate(np.pad(x[0, 0].astype(float), 1), weight[0, 0], mode="valid")[::2] + bias[0]
    assert isinstance(made, type(kind(x)))
    np.testing.assert_allclose(as_array(made)[0, 0], exact, atol=2e-6)


def test_what_is_no_float_array_or_does_not_fit_is_named() -> None:
    with pytest.raises(TypeError, match="x must be a float32 or float64 array or Tensor, not int64"):
        fused_gelu(np.arange(3))
    with pytest.raises(ValueError, match="bias"):
        fused_bias_gelu(drawn(4, 6), drawn(5))
    with pytest.raises(ValueError, match="queries"):
        fused_causal_softmax(drawn(5, 4))
    q = drawn(1, 1, 3, 4)
    with pytest.raises(ValueError, match="queries"):
        fused_attention(q, q[:, :, :2], q[:, :, :2], causal=True)
    with pytest.raises(TypeError, match="k must be a float32 or float64 array or Tensor"):
        fused_attention(q, q.astype(np.int64), q)
    with pytest.raises(ValueError, match="stride"):
        im2col_conv2d(drawn(1, 1, 4, 4), drawn(1, 1, 2, 2), stride=0)
    with pytest.raises(ValueError, match="groups"):
        im2col_conv2d(drawn(1, 1, 4, 4), drawn(1, 1, 2, 2), groups=0)


OPTIMIZERS: dict[str, Callable[[list[Parameter]], Optimizer]] = {
    "plain SGD": lambda parameters: SGD(parameters, lr=0.1, weight_decay=0.02),
    "SGD": lambda parameters: SGD(parameters, lr=0.1, momentum=0.9),
    "Adam": lambda parameters: Adam(parameters, lr=0.1, weight_decay=0.02),
    "AdamW": lambda parameters: AdamW(parameters, lr=0.1),
}
SIZES = [(5, 3), (16_384,), (16_385,), (0,), (1,), (70, 600), (2,), (3, 1), (4,), (33,)]
#: What may happen to a parameter between two steps.
CHANGES: dict[str, Callable[[Parameter], None]] = {
    "nothing": lambda parameter: None,
    "other data": lambda parameter: setattr(parameter, "data", parameter.data + 1),
    "no gradient": lambda parameter: setattr(parameter, "grad", None),
    "a strided gradient": lambda parameter: setattr(parameter, "grad", np.repeat(parameter.data, 2, axis=0)[::2]),
    "a constant gradient": lambda parameter: setattr(
        parameter, "grad", np.broadcast_to(np.float32(1), parameter.shape)
    ),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_a_step_reaches_every_parameter_whatever_its_size_and_dtype(kind: str, change: str) -> None:
    dtypes = [np.float64 if index == 4 else np.float32 for index in range(len(SIZES))]
    moved = []
    for accelerate in (False, True):
        parameters = [Parameter(drawn(*shape).astype(d)) for shape, d in zip(SIZES, dtypes, strict=True)]
        optimizer = OPTIMIZERS[kind](parameters)
        for step in range(3):
            for index, parameter in enumerate(parameters):
                slope = drawn(*parameter.shape, seed=index + step).astype(parameter.dtype)
                parameter.grad = None if index == 2 else slope
            if step:
                CHANGES[change](parameters[step - 1])
            with accelerated() if accelerate else nullcontext():
                optimizer.step()
        moved.append([p.data for p in parameters] + list(optimizer.state_arrays()))
    for plain, fast in zip(*moved, strict=True):
        np.testing.assert_allclose(fast, plain, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("kind", OPTIMIZERS)
@pytest.mark.parametrize("change", ["a shorter gradient", "frozen data"])
def test_a_step_that_is_refused_changes_no_other_parameter(kind: str, change: str) -> None:
    parameters = [Parameter(drawn(6)), Parameter(drawn(5, 4))]
    optimizer = OPTIMIZERS[kind](parameters)
    for parameter in parameters:
        parameter.grad = np.ones_like(parameter.data)
    with accelerated():
        optimizer.step()
        if change == "frozen data":
            parameters[1].data.flags.writeable = False
        else:
            parameters[1].grad = np.ones((3, 4), np.float32)
        before = parameters[0].data.copy()
        with pytest.raises(ValueError, match=r"read-only|broadcast"):
            optimizer.step()
    np.testing.assert_array_equal(parameters[0].data, before)


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
        ((2, 5), None, "none", "must have length 4"),
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
