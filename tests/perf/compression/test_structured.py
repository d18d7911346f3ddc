"""Structured pruning: smaller arrays, the masked model's outputs, and which units there are."""

from typing import Any

import numpy as np
import pytest

from tests.perf.quantization.small_zoo import NAMES, batch, make
from tests.perf.small_models import drawn
from tinytorch import models
from tinytorch.core import activations
from tinytorch.core.attention import MultiHeadAttention
from tinytorch.core.dispatch import no_grad
from tinytorch.core.layers import Dropout, Flatten, Linear
from tinytorch.core.module import Module, Sequential
from tinytorch.core.optimizers import AdamW
from tinytorch.core.spatial import AdaptiveAvgPool2d, AvgPool2d, BatchNorm2d, Conv2d
from tinytorch.core.tensor import Tensor
from tinytorch.core.training import train_step
from tinytorch.perf.compression import (
    hold_zeros,
    magnitude_prune,
    mask_units,
    measure_sparsity,
    remove_units,
    structured_prune,
    unit_groups,
    units_to_remove,
)
from tinytorch.perf.compression.structured import unit_scores
from tinytorch.perf.memoization import enable_kv_cache
from tinytorch.perf.profiling import Profiler
from tinytorch.perf.quantization import quantize_model, stored_bytes


def lively(model: Module) -> Module:
    """Return the model with statistics and norms that are no identity, so that mixing up channels shows."""
    draw = np.random.default_rng(7)
    for _, module in model.named_modules():
        if isinstance(module, BatchNorm2d):
            for tensor in (module.weight, module.bias, module.running_mean, module.running_var):
                tensor.data[...] = draw.uniform(0.5, 1.5, tensor.shape)
    return model


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("ratio", [0.2, 0.5, 0.8])
def test_the_smaller_model_computes_what_the_masked_one_does(name: str, ratio: float) -> None:
    model, x = lively(make(name)), batch(name)
    removed = units_to_remove(model, ratio)
    masked, smaller = mask_units(model, removed), structured_prune(model, ratio)
    with no_grad():
        expected, got = masked(x).data, smaller(x).data
        assert np.abs(model(x).data - expected).max() > 1e-3
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=2e-6)
    assert stored_bytes(masked) == stored_bytes(model)
    assert stored_bytes(smaller) < stored_bytes(model)
    assert measure_sparsity(smaller) == 0
    shape = (1, *(x.data if isinstance(x, Tensor) else x).shape[1:])
    if any(removed.values()):
        assert Profiler().count_flops(smaller, shape) < Profiler().count_flops(masked, shape)


@pytest.mark.parametrize(
    "between",
    [
        *([getattr(activations, kind)()] for kind in ("Sigmoid", "GELU", "SiLU", "Tanh", "LeakyReLU")),
        [activations.ReLU(), Dropout(0.5), Sequential()],
    ],
    ids=lambda between: type(between[0]).__name__,
)
def test_whatever_stands_between_two_layers(between: list[Module]) -> None:
    """Sigmoid turns the zero of a removed neuron into a half, which the next layer must not see."""
    model = Sequential(Linear(4, 6, seed=0), Sequential(*between, Linear(6, 3, seed=1))).eval()
    assert [*unit_groups(model)] == ["0"]
    x, removed = Tensor(drawn(5, 4)), {"0": [1, 4]}
    got: Any = remove_units(model, removed)
    np.testing.assert_allclose(got(x).data, mask_units(model, removed)(x).data, atol=1e-6)
    np.testing.assert_array_equal(got[0].weight.data, np.delete(model[0].weight.data, [1, 4], axis=1))
    assert (got[0].out_features, got[1][-1].in_features) == (4, 4)


def test_channels_through_pools_and_flattening_without_bias() -> None:
    model = Sequential(
        Conv2d(2, 5, 3, bias=False, seed=0), AvgPool2d(2), BatchNorm2d(5), Flatten(), Linear(5 * 9, 4, seed=1)
    )
    assert [(group.kind, group.spread) for group in unit_groups(model).values()] == [("channels", 9)]
    pooled = Sequential(Conv2d(2, 5, 3, seed=0), AdaptiveAvgPool2d(1), Flatten(), Linear(5, 4, seed=1))
    x, removed = Tensor(drawn(3, 2, 8, 8)), {"0": [0, 3]}
    for each in (lively(model).eval(), pooled):
        np.testing.assert_allclose(remove_units(each, removed)(x).data, mask_units(each, removed)(x).data, atol=1e-5)


def test_heads_are_those_of_the_attention_without_them() -> None:
    """Heads of equal queries, keys and values differ in the projection alone, so what is left is known."""
    attention = MultiHeadAttention(8, 4, causal=True, seed=0).eval()
    x = Tensor(np.random.default_rng(1).normal(size=(2, 5, 8)).astype(np.float32))
    smaller: Any = remove_units(attention, {"": [0, 2]})
    assert (smaller.num_heads, smaller.qkv.weight.shape, smaller.projection.weight.shape) == (2, (8, 12), (4, 8))
    packed = attention.qkv(x).data.reshape(2, 5, 3, 4, 2)[:, :, :, [1, 3]]
    q, k, v = (packed[:, :, part].transpose(0, 2, 1, 3).astype(np.float64) for part in range(3))
    scores = np.where(np.tril(np.ones((5, 5), bool)), q @ k.swapaxes(2, 3) / np.sqrt(2), -np.inf)
    attended = np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True) @ v
    rows = attended.transpose(0, 2, 1, 3).reshape(2, 5, 4)
    projection = attention.projection
    assert projection.bias is not None
    expected = rows @ projection.weight.data[[2, 3, 6, 7]] + projection.bias.data
    np.testing.assert_allclose(smaller(x).data, expected, rtol=1e-4, atol=1e-5)


def test_the_least_go_and_of_equal_ones_the_earlier() -> None:
    model: Any = Sequential(Linear(2, 5, seed=0), activations.ReLU(), Linear(5, 2, seed=1))
    model[0].weight.data[...] = [[3, 1, -1, 0.5, 2], [0, 1, 1, 1.5, 9]]
    np.testing.assert_array_equal(unit_scores(unit_groups(model)["0"]), [3, 2, 2, 2, 11])
    assert units_to_remove(model, 0.4) == {"0": [1, 2]}
    assert units_to_remove(model, 0) == {"0": []}
    hundred = Sequential(Linear(2, 100, seed=0), Linear(100, 2, seed=1))
    assert len(units_to_remove(hundred, 0.29)["0"]) == 29


def test_what_cannot_be_known_is_left_alone() -> None:
    class Custom(Module):
        """A layer of its own between: nobody knows who reads what."""

        def __init__(self) -> None:
            self.first, self.second = Linear(3, 3, seed=0), Linear(3, 3, seed=1)

    shared = Linear(3, 3, seed=0)
    for model in (
        Custom(),
        Sequential(shared, activations.ReLU(), shared),
        Sequential(Linear(3, 3, seed=0), activations.Softmax(), Linear(3, 3, seed=1)),
        Sequential(Conv2d(2, 4, 3, groups=2, seed=0), Conv2d(4, 4, 3, seed=1)),
        Sequential(Conv2d(2, 4, 3, seed=0), Conv2d(4, 4, 3, groups=2, seed=1)),
    ):
        assert not unit_groups(model)
        with pytest.raises(ValueError, match="model"):
            structured_prune(model)


class Whole(Module):
    """Calls the Sequential that it holds."""

    def __init__(self) -> None:
        self.body = Sequential(Linear(3, 6, seed=0), activations.ReLU(), Linear(6, 3, seed=1))

    def forward(self, x: Tensor) -> Tensor:
        self.body.train(self.training)
        return x + self.body(x)


class Picked(Whole):
    """Reads what a layer in the middle of its Sequential makes."""

    def forward(self, x: Tensor) -> Tensor:
        inner = self.body[1](self.body[0](x))
        return inner.sum() + self.body[2](inner)


class Looped(Whole):
    """Runs over the layers of its Sequential."""

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.body:
            x = layer(x)
        return x


class Opened(Whole):
    """Takes the list of layers out of its Sequential."""

    def forward(self, x: Tensor) -> Tensor:
        return self.body.layers[0](x)


@pytest.mark.parametrize(("kind", "groups"), [(Whole, ["body.0"]), (Picked, []), (Looped, []), (Opened, [])])
def test_a_sequential_that_a_module_takes_apart_is_left_whole(kind: type[Module], groups: list[str]) -> None:
    assert [*unit_groups(Sequential(kind(), Linear(3, 2)))] == ([f"0.{name}" for name in groups])


def test_a_smaller_model_is_a_model() -> None:
    """It trains, keeps the masks it had, quantizes, and generates with a cache."""
    model: Any = structured_prune(magnitude_prune(make("gpt"), 0.5), 0.5)
    sparsity, tokens = measure_sparsity(hold_zeros(model)), batch("gpt")
    optimizer = AdamW(model.parameters(), lr=1e-2)
    losses = [train_step(model, tokens, np.sort(tokens), models.loss_function(), optimizer) for _ in range(5)]
    assert losses[-1] < losses[0]
    assert measure_sparsity(model) == sparsity > 30
    assert stored_bytes(quantize_model(model)) < 0.5 * stored_bytes(model)
    with no_grad():
        expected = model.eval()(tokens[:1]).data
    enable_kv_cache(model)
    got = np.concatenate([model(tokens[:1, at : at + 1]).data for at in range(tokens.shape[1])], axis=1)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("change", "arguments", "says"),
    [
        (structured_prune, {"prune_ratio": 1}, "prune_ratio must be"),
        (structured_prune, {"prune_ratio": -0.5}, "prune_ratio must be"),
        (structured_prune, {"kinds": ["rows"]}, "kinds must be"),
        (structured_prune, {"kinds": ["heads"]}, "model must hold heads"),
        (structured_prune, {"keep": ["5"]}, "keep must name"),
        (remove_units, {"removed": {"9": [0]}}, "removed must name"),
        (remove_units, {"removed": {"1": [256]}}, "units below"),
        (mask_units, {"removed": {"3": range(128)}}, "leave"),
    ],
)
def test_bad_arguments_are_named(change: Any, arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        change(make("mlp"), **arguments)
