"""Layers, losses, batches and transformers: initial values, results and running statistics, against closed forms."""

import math
from typing import Any

import numpy as np
import pytest
import scipy.special
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.cases import check_gradients, gradient_of, normal
from tinytorch.core.attention import MultiHeadAttention
from tinytorch.core.dataloader import DataLoader
from tinytorch.core.layers import Dropout, Embedding, Flatten, Linear
from tinytorch.core.losses import CrossEntropyLoss, MSELoss
from tinytorch.core.op import Array
from tinytorch.core.random import generator_from, manual_seed
from tinytorch.core.spatial import AdaptiveAvgPool2d, AvgPool2d, BatchNorm2d, Conv2d, MaxPool2d
from tinytorch.core.tensor import Tensor
from tinytorch.core.transformers import GPT


@pytest.mark.parametrize(
    ("layer", "shapes", "fan_in"),
    [
        (Linear(300, 40, seed=3), [(300, 40), (40,)], 300),
        (Conv2d(8, 64, (3, 5), groups=2, seed=0), [(64, 4, 3, 5), (64,)], 4 * 3 * 5),
        (Conv2d(9, 20, 9, bias=False, seed=0), [(20, 9, 9, 9)], 9**3),
        (Linear(300, 40, bias=False, seed=0), [(300, 40)], 300),
    ],
    ids=repr,
)
def test_layers_start_uniform_in_the_fan_in(layer: Any, shapes: list[tuple[int, ...]], fan_in: int) -> None:
    assert [parameter.shape for parameter in layer.parameters()] == shapes
    bound = 1 / math.sqrt(fan_in)
    for parameter in layer.parameters():
        assert parameter.dtype == np.float32
        # The largest of n uniform numbers is within a tenth of the bound but for a chance of 0.9**n.
        assert 0.9 * bound < np.abs(parameter.data).max() <= bound
    # Six standard errors of the variance of uniform numbers, which is bound**2 / 3.
    weight = layer.weight.data
    assert abs(weight.var() / (bound**2 / 3) - 1) < 6 * math.sqrt(0.8 / weight.size)


def test_seeds_reproduce_and_the_processes_generator_restarts() -> None:
    np.testing.assert_array_equal(Linear(3, 2, seed=1).weight.data, Linear(3, 2, seed=1).weight.data)
    assert not np.array_equal(Linear(3, 2, seed=1).weight.data, Linear(3, 2, seed=2).weight.data)
    shared = np.random.default_rng(1)
    first, second = Linear(3, 2, seed=shared), Linear(3, 2, seed=shared)
    np.testing.assert_array_equal(first.weight.data, Linear(3, 2, seed=1).weight.data)
    assert not np.array_equal(first.weight.data, second.weight.data)
    manual_seed(9)
    one = Linear(3, 2).weight.data
    assert not np.array_equal(one, Linear(3, 2).weight.data)
    manual_seed(9)
    np.testing.assert_array_equal(one, Linear(3, 2).weight.data)
    assert generator_from(shared) is shared


def test_embedding() -> None:
    layer = Embedding(500, 40, std=0.02, seed=0)
    # Six standard errors of the standard deviation of 20,000 normal numbers.
    assert abs(layer.weight.data.std() / 0.02 - 1) < 6 / math.sqrt(40_000)
    indices = np.array([[3, 3], [0, 499]])
    for rows in (indices, Tensor(indices), indices.tolist()):
        np.testing.assert_array_equal(layer(rows).data, layer.weight.data[indices])


def test_an_embedding_projects_by_its_table() -> None:
    layer, x = Embedding(9, 5, seed=0), normal(2, 3, 5)
    np.testing.assert_allclose(layer.project(Tensor(x)).data, x @ layer.weight.data.T, rtol=1e-6)
    layer.weight.data = layer.weight.data.astype(np.float64)
    check_gradients(lambda rows, _: layer.project(rows), Tensor(x, requires_grad=True), layer.weight)


def test_dropout_drops_in_train_mode_only_and_by_its_seed() -> None:
    layer = Dropout(0.25, seed=4)
    x = Tensor(np.ones((100, 200), np.float32))
    first, second = layer(x).data, layer(x).data
    assert not np.array_equal(first, second)
    np.testing.assert_array_equal(Dropout(0.25, seed=4)(x).data, first)
    assert set(np.unique(first)) == {0, np.float32(4 / 3)}
    # Six standard deviations of a binomial distribution.
    assert abs((first == 0).mean() - 0.25) < 6 * math.sqrt(0.25 * 0.75 / 20_000)
    assert layer.eval()(x) is x
    assert Dropout(0)(x) is x


def test_flatten() -> None:
    assert Flatten()(Tensor(np.zeros((2, 3, 4, 5)))).shape == (2, 60)


@pytest.mark.parametrize(
    ("layer", "expected"),
    [
        (Conv2d(4, 6, 3, seed=0), (2, 6, 7, 6)),
        (Conv2d(4, 6, (3, 1), stride=(2, 1), padding=(1, 0), seed=0), (2, 6, 5, 8)),
        (Conv2d(4, 8, 3, dilation=(2, 3), groups=4, seed=0), (2, 8, 5, 2)),
        (MaxPool2d(2), (2, 4, 4, 4)),
        (MaxPool2d((3, 2), stride=1, padding=(1, 1)), (2, 4, 9, 9)),
        (AvgPool2d(np.int64(3)), (2, 4, 3, 2)),  # type: ignore[arg-type]
        (AdaptiveAvgPool2d((3, 5)), (2, 4, 3, 5)),
        (BatchNorm2d(4), (2, 4, 9, 8)),
    ],
    ids=repr,
)
def test_output_shapes(layer: Any, expected: tuple[int, ...]) -> None:
    made = layer(Tensor(normal(2, 4, 9, 8).astype(np.float32)))
    assert made.shape == expected
    assert made.dtype == np.float32


def test_running_statistics_are_the_exponential_average() -> None:
    layer = BatchNorm2d(3, momentum=0.2)
    batches = [normal(4, 3, 2, 2, seed=seed) * (seed + 1) + seed for seed in range(5)]
    for batch in batches:
        layer(Tensor(batch.astype(np.float32)))
    shares = [0.2 * 0.8 ** (4 - index) for index in range(5)]
    mean = sum(share * batch.mean(axis=(0, 2, 3)) for share, batch in zip(shares, batches, strict=True))
    variance = sum(share * batch.var(axis=(0, 2, 3), ddof=1) for share, batch in zip(shares, batches, strict=True))
    np.testing.assert_allclose(layer.running_mean.data, mean, rtol=1e-5)
    np.testing.assert_allclose(layer.running_var.data, variance + 0.8**5, rtol=1e-5)
    assert layer.running_mean.dtype == layer.running_var.dtype == np.float32
    layer.eval()
    kept = layer.running_mean.data.copy()
    x = normal(2, 3, 2, 2, seed=9)
    shape = (1, 3, 1, 1)
    expected = (x - layer.running_mean.data.reshape(shape)) / np.sqrt(layer.running_var.data.reshape(shape) + 1e-5)
    np.testing.assert_allclose(layer(Tensor(x.astype(np.float32))).data, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(layer.running_mean.data, kept)


@pytest.mark.parametrize("shape", [(), (1,), (3, 4), (2, 3, 4)])
def test_mean_squared_error(shape: tuple[int, ...]) -> None:
    a, b = normal(*shape).astype(np.float32), normal(*shape, seed=1)
    for target in (Tensor(b), b, b.tolist()):
        prediction = Tensor(a, requires_grad=True)
        loss = MSELoss()(prediction, target)
        loss.backward()
        assert loss.shape == ()
        np.testing.assert_allclose(loss.item(), np.sum((a - b) ** 2) / a.size, rtol=1e-6)
        np.testing.assert_allclose(gradient_of(prediction), 2 * (a - b) / a.size, rtol=1e-5)
        assert gradient_of(prediction).dtype == np.float32


@pytest.mark.parametrize("scale", [1, 1000])
@pytest.mark.parametrize("ignored", [None, 2, -100])
def test_cross_entropy(ignored: int | None, scale: int) -> None:
    logits, labels = scale * normal(2, 3, 4), np.array([[0, 2, 3], [1, 2, -100 if ignored == -100 else 3]])
    counted = labels != ignored
    rows = scipy.special.log_softmax(logits[counted], axis=-1)
    expected = -np.mean([row[label] for row, label in zip(rows, labels[counted], strict=True)])
    for target in (labels, Tensor(labels), labels.tolist(), labels.astype(np.int16), Tensor(labels.tolist())):
        loss = CrossEntropyLoss(ignore_index=ignored)(Tensor(logits), target)
        np.testing.assert_allclose(loss.item(), expected, rtol=1e-12)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(count=st.integers(1, 40), batch_size=st.integers(1, 50), shuffle=st.booleans())
def test_an_epoch_has_each_example_once_with_its_target(count: int, batch_size: int, shuffle: bool) -> None:
    inputs = np.arange(count, dtype=np.float32)[:, None]
    loader = DataLoader(inputs, Tensor(np.arange(count) * 10), batch_size=batch_size, shuffle=shuffle, seed=0)
    for _ in range(2):
        batches = list(loader)
        assert len(batches) == len(loader) == int(np.ceil(count / batch_size))
        assert {len(x) for x, _ in batches[:-1]} <= {batch_size}
        x = np.concatenate([x.data for x, _ in batches])
        y = np.concatenate([y.data for _, y in batches])
        assert (x.dtype, y.dtype) == (np.dtype(np.float32), np.dtype(np.int64))
        np.testing.assert_array_equal(y, x[:, 0] * 10)
        np.testing.assert_array_equal(np.sort(y), np.arange(count) * 10)
        if not shuffle:
            np.testing.assert_array_equal(x, inputs)


def _order(loader: DataLoader) -> list[Any]:
    return [value for (batch,) in loader for value in batch.data.tolist()]


def test_seeds_reproduce_and_each_epoch_has_a_new_order() -> None:
    data = np.arange(50)
    one, same, other = (DataLoader(data, batch_size=8, shuffle=True, seed=seed) for seed in (1, 1, 2))
    first = _order(one)
    assert first == _order(same)
    assert first != _order(other)
    assert first != list(range(50))
    second = _order(one)
    assert second != first
    assert second == _order(same)


def _affine(layer: Any, x: Array) -> Array:
    return x @ layer.weight.data.astype(float) + layer.bias.data


def _normalized(layer: Any, x: Array) -> Array:
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / np.sqrt(x.var(axis=-1, keepdims=True) + layer.eps) * layer.weight.data + layer.bias.data


def _attended(layer: Any, x: Array, shown: Array | float = 1.0) -> Array:
    """Multi-head attention written out with loops over images and heads; ``shown`` is 0 where nothing is seen."""
    packed = _affine(layer.qkv, x)
    length, width, depth = x.shape[1], layer.embed_dim, layer.embed_dim // layer.num_heads
    shown = np.broadcast_to(shown, (len(x), layer.num_heads, length, length))
    joined = np.zeros(x.shape)
    for image, head in np.ndindex(len(x), layer.num_heads):
        own = slice(head * depth, (head + 1) * depth)
        q, k, v = (packed[image, :, part * width : (part + 1) * width][:, own] for part in range(3))
        seen = (shown[image, head] != 0) & (np.tri(length, dtype=bool) | (not layer.causal))
        scores = np.where(seen, q @ k.T / np.sqrt(depth), -np.inf)
        joined[image][:, own] = scipy.special.softmax(scores, axis=1) @ v
    return _affine(layer.projection, joined)


def _gelu(x: Array) -> Array:
    return x * scipy.special.expit(2 * np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))


def _block(block: Any, x: Array) -> Array:
    x = x + _attended(block.attention, _normalized(block.norm1, x))
    inner = _gelu(_affine(block.mlp.expand, _normalized(block.norm2, x)))
    return x + _affine(block.mlp.contract, inner)


def test_gpt_is_its_equations() -> None:
    model = GPT(13, 12, 2, 3, 8, seed=0)
    tokens = np.random.default_rng(0).integers(0, 13, (2, 6))
    x = (model.token_embedding.weight.data[tokens] + model.position_embedding.weight.data[:6]).astype(float)
    for block in model.blocks:
        x = _block(block, x)
    expected = _normalized(model.norm, x) @ model.token_embedding.weight.data.T
    for indices in (tokens, Tensor(tokens), tokens.tolist()):
        made = model(indices)
        assert made.shape == (2, 6, 13)
        assert made.dtype == np.float32
        np.testing.assert_allclose(made.data, expected, atol=2e-6)


def test_tied_embedding_gets_the_gradient_of_both_its_uses() -> None:
    model = GPT(7, 4, 1, 1, 3, seed=0)
    model(np.array([[1, 1]])).backward(normal(1, 2, 7))
    table = gradient_of(model.token_embedding.weight)
    # Rows of tokens that do not appear in the input get a gradient through the logits.
    assert (np.abs(table).max(axis=1) > 0).all()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_gpt_starts_as_gpt2_does() -> None:
    model = GPT(200, 48, 8, 4, 32, seed=0)
    for name, parameter in model.named_parameters():
        if "norm" in name:
            np.testing.assert_array_equal(parameter.data, 1.0 if name.endswith("weight") else 0.0)
        elif name.endswith("bias"):
            np.testing.assert_array_equal(parameter.data, 0)
        else:
            written = "projection" in name or "contract" in name
            std = 0.02 / np.sqrt(2 * 8) if written else 0.02
            # Six standard errors of the standard deviation of that many normal numbers.
            assert abs(parameter.data.std() / std - 1) < 6 / np.sqrt(2 * parameter.size), name


MASKS: dict[str, Any] = {
    "none": np.ones((3, 3)),
    "square": np.array([[1, 1, 0], [0, 1, 1], [1, 1, 1]]),
    "of each sequence": np.array([[[1, 0, 0]] * 3, [[1, 1, 0]] * 3], bool),
    "of each head": np.random.default_rng(0).integers(0, 2, (2, 2, 3, 3)) | np.eye(3, dtype=int),
    "of a Tensor": Tensor(np.tril(np.ones((3, 3), np.float32))),
}


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("mask", MASKS.values(), ids=[*MASKS])
def test_attention_looks_where_the_mask_says(mask: Any, causal: bool) -> None:
    layer = MultiHeadAttention(8, 2, causal=causal, seed=0)
    x = Tensor(normal(2, 3, 8), requires_grad=True)
    shown = np.asarray(mask)
    shown = shown[:, None] if shown.ndim == 3 else shown
    if not (shown * np.tri(3) if causal else shown).any(-1).all():
        with pytest.raises(ValueError, match="mask"):
            layer(x, mask)
        return
    output = layer(x, mask)
    np.testing.assert_allclose(output.data, _attended(layer, x.data, shown), rtol=1e-6, atol=1e-7)
    output.sum().backward()
    assert np.isfinite(gradient_of(x)).all()


@pytest.mark.parametrize("mask", [np.ones((2, 3)), np.full((3, 3), -np.inf), np.ones((3, 3, 3)), np.zeros((3, 3))])
def test_attention_refuses_other_masks(mask: Any) -> None:
    with pytest.raises(ValueError, match="mask"):
        MultiHeadAttention(8, 2)(Tensor(np.zeros((2, 3, 8), np.float32)), mask)
