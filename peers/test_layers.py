"""Every layer, activation and loss against PyTorch's: output, gradient of the input, gradients of the parameters."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from peers import agreement
from peers.agreement import assert_close, give, give_linear, give_plain, theirs
from peers.agreement import compare as compare_ops
from tests.perf.small_models import drawn
from tinytorch.core import activations, layers, ops, spatial
from tinytorch.core.attention import MultiHeadAttention
from tinytorch.core.dispatch import apply
from tinytorch.core.losses import CrossEntropyLoss, MSELoss
from tinytorch.core.tensor import Tensor


def compare(ours: Any, other: Any, x: Any, transposed: bool = False) -> None:
    """Compare outputs, gradients of the input and those of all parameters."""
    agreement.compare(ours, other, x)
    for (_, parameter), (name, their_parameter) in zip(ours.named_parameters(), other.named_parameters(), strict=True):
        gradient = their_parameter.grad
        assert_close(parameter.grad, gradient.T if transposed and name.endswith("weight") else gradient)


def normed(ours: Any, other: Any) -> tuple[Any, Any]:
    """Give both the same weight and bias, which are not 1 and 0."""
    with torch.no_grad():
        for seed, parameter in enumerate((other.weight, other.bias)):
            parameter.copy_(torch.tensor(drawn(*parameter.shape, seed=seed)))
    give_plain(other, ours)
    return ours, other


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(7, 30), (2, 3, 30), (30,)])
def test_linear(shape: tuple[int, ...], bias: bool) -> None:
    ours, other = layers.Linear(30, 20, bias=bias), nn.Linear(30, 20, bias=bias)
    give_linear(other, ours)
    compare(ours, other, drawn(*shape), transposed=True)


CONVOLUTIONS: list[dict[str, Any]] = [
    {},
    {"padding": 1},
    {"stride": 2, "padding": (1, 2)},
    {"dilation": (2, 1), "padding": 2},
    {"groups": 2},
    {"groups": 4, "stride": (1, 3), "padding": 1, "dilation": 2},
    {"bias": False, "padding": 1},
]


@pytest.mark.parametrize("options", CONVOLUTIONS, ids=str)
@pytest.mark.parametrize("kernel", [3, (2, 3), 1])
def test_convolution(options: dict[str, Any], kernel: Any) -> None:
    ours, other = spatial.Conv2d(4, 8, kernel, **options), nn.Conv2d(4, 8, kernel, **options)
    give(other.weight, ours.weight)
    if other.bias is not None:
        give(other.bias, ours.bias)
    compare(ours, other, drawn(3, 4, 9, 10))


@pytest.mark.parametrize("options", [{}, {"stride": 1}, {"stride": (2, 3), "padding": 1}], ids=str)
@pytest.mark.parametrize("kernel", [2, (3, 2)])
@pytest.mark.parametrize(("ours", "other"), [(spatial.MaxPool2d, nn.MaxPool2d), (spatial.AvgPool2d, nn.AvgPool2d)])
def test_pools(ours: Any, other: Any, kernel: Any, options: dict[str, Any]) -> None:
    compare(ours(kernel, **options), other(kernel, **options), drawn(2, 3, 9, 8))


@pytest.mark.parametrize("size", [1, (2, 3), (9, 8), (12, 5)])
def test_adaptive_pool(size: Any) -> None:
    compare(spatial.AdaptiveAvgPool2d(size), nn.AdaptiveAvgPool2d(size), drawn(2, 3, 9, 8))


@pytest.mark.parametrize("train", [True, False])
def test_batch_norm_and_its_running_statistics(train: bool) -> None:
    how = {"eps": 1e-3, "momentum": 0.3}
    ours, other = normed(spatial.BatchNorm2d(4, **how), nn.BatchNorm2d(4, **how))
    for seed in range(3):
        batch = drawn(5, 4, 6, 7, seed=seed) * (seed + 1) + seed
        ours(Tensor(batch))
        other(theirs(batch))
    ours.train(train)
    other.train(train)
    compare(ours, other, drawn(5, 4, 6, 7, seed=9))
    assert_close(ours.running_mean, other.running_mean)
    assert_close(ours.running_var, other.running_var)


def test_layer_norm() -> None:
    compare(*normed(layers.LayerNorm(24, eps=1e-4), nn.LayerNorm(24, eps=1e-4)), drawn(3, 5, 24) * 3 + 2)


def test_embedding_with_repeated_indices() -> None:
    ours, other = layers.Embedding(10, 6), nn.Embedding(10, 6)
    give(other.weight, ours.weight)
    indices = np.array([[1, 1, 9], [0, 1, 5]])
    made, expected = ours(indices), other(torch.tensor(indices))
    down = drawn(2, 3, 6)
    made.backward(down)
    expected.backward(torch.tensor(down))
    assert_close(made, expected)
    assert_close(ours.weight.grad, other.weight.grad)


@pytest.mark.parametrize(
    ("ours", "other"),
    [
        (activations.ReLU(), nn.ReLU()),
        (activations.LeakyReLU(0.2), nn.LeakyReLU(0.2)),
        (activations.GELU(), nn.GELU(approximate="tanh")),
        (activations.SiLU(), nn.SiLU()),
        (activations.Sigmoid(), nn.Sigmoid()),
        (activations.Tanh(), nn.Tanh()),
        (activations.Softmax(), nn.Softmax(dim=-1)),
        (activations.Softmax(dim=1), nn.Softmax(dim=1)),
        (layers.Flatten(), nn.Flatten()),
    ],
    ids=lambda module: type(module).__name__,
)
def test_activations(ours: Any, other: Any) -> None:
    compare(ours, other, drawn(3, 50, 20) * 3)


@pytest.mark.parametrize("causal", [True, False])
def test_multi_head_attention(causal: bool) -> None:
    """PyTorch's layer stores queries, keys and values in one matrix as ours does, transposed."""
    ours: Any = MultiHeadAttention(24, 4, causal=causal)
    other = nn.MultiheadAttention(24, 4, batch_first=True)
    give(other.in_proj_weight, ours.qkv.weight, transposed=True)
    give(other.in_proj_bias, ours.qkv.bias)
    give_linear(other.out_proj, ours.projection)
    mask = nn.Transformer.generate_square_subsequent_mask(7) if causal else None
    agreement.compare(ours, lambda x: other(x, x, x, attn_mask=mask, need_weights=False)[0], drawn(3, 7, 24))
    assert_close(ours.qkv.weight.grad, other.in_proj_weight.grad.T)
    assert_close(ours.qkv.bias.grad, other.in_proj_bias.grad)
    assert_close(ours.projection.weight.grad, other.out_proj.weight.grad.T)


def test_mean_squared_error_and_both_gradients() -> None:
    agreement.compare(MSELoss(), nn.MSELoss(), drawn(6, 5), drawn(6, 5, seed=1))


@pytest.mark.parametrize("scale", [1, 50])
@pytest.mark.parametrize("ignored", [None, 2, -100])
def test_cross_entropy(ignored: int | None, scale: int) -> None:
    labels = np.random.default_rng(0).integers(0, 7, 40)
    if ignored == -100:
        labels[::3] = -100
    other = nn.CrossEntropyLoss() if ignored is None else nn.CrossEntropyLoss(ignore_index=ignored)
    ours = CrossEntropyLoss(ignore_index=ignored)
    agreement.compare(lambda x: ours(x, labels), lambda x: other(x, torch.tensor(labels)), drawn(40, 7) * scale)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(("queries", "keys"), [(5, 5), (64, 64), (300, 300), (4, 9)])
def test_attention(queries: int, keys: int, causal: bool) -> None:
    """With fewer queries than keys, causal attention aligns the last of both: PyTorch's ``lower_right`` mask."""
    mask = torch.ones(queries, keys, dtype=torch.bool).tril(diagonal=keys - queries) if causal else None
    compare_ops(
        lambda q, k, v: apply(ops.attention, q, k, v, causal=causal),
        lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, attn_mask=mask),
        *(drawn(2, 3, length, 8, seed=seed) for seed, length in enumerate((queries, keys, keys))),
    )


@pytest.mark.parametrize(
    ("a", "b"), [((3, 4), (4, 5)), ((4,), (4, 5)), ((2, 3, 4), (4,)), ((2, 1, 3, 4), (5, 4, 2)), ((4,), (4,))]
)
def test_matmul(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    compare_ops(lambda x, y: x @ y, torch.matmul, drawn(*a), drawn(*b, seed=1))


#: What both frameworks write alike, and, by name, what each writes in its way.
ALIKE: list[Any] = [
    lambda x, y: (x + y) * (x - y) / (y * y + 1),
    lambda x, y: (x.exp() + 1).log() * y,
    lambda x, y: (x * x + 1).sqrt() * y**3,
    lambda x, y: (x * 0) ** 0 * y + x,
    lambda x, y: x[:, [0, 0, 2]] * y[1],
]
FUNCTIONS: dict[str, tuple[Any, Any]] = {
    **{str(number): (one, one) for number, one in enumerate(ALIKE)},
    "sum and mean": (
        lambda x, y: x.sum(axis=1) * y.mean(axis=(0, 2)).sum(),
        lambda x, y: x.sum(1) * y.mean((0, 2)).sum(),
    ),
    "max": (lambda x, y: x.max(axis=2) * y.max(), lambda x, y: x.amax(2) * y.amax()),
    "transpose": (
        lambda x, y: x.transpose(2, 0, 1).reshape(8, 3) @ y[0],
        lambda x, y: x.permute(2, 0, 1).reshape(8, 3) @ y[0],
    ),
    "concatenate": (lambda x, y: apply(ops.concatenate, x, y, x, axis=1), lambda x, y: torch.cat([x, y, x], dim=1)),
    "maximum": (lambda x, y: apply(ops.maximum, x, y), torch.maximum),
    "absolute": (lambda x, y: apply(ops.absolute, x * y), lambda x, y: (x * y).abs()),
    "log softmax": (lambda x, y: apply(ops.log_softmax, x * 5, axis=1) * y, lambda x, y: (x * 5).log_softmax(1) * y),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    compare_ops(*FUNCTIONS[name], drawn(2, 3, 4), drawn(2, 3, 4, seed=1))


@pytest.mark.parametrize("kind", [np.int8, np.int32, np.float16, np.float64])
def test_dtypes_of_results(kind: Any) -> None:
    """Arithmetic within one dtype and with Python numbers keeps it, as in PyTorch."""
    array = np.array([1, 2, 3]).astype(kind)
    mine, their = Tensor(array), theirs(array, requires_grad=False)
    for ours, other in (
        (mine + mine, their + their),
        (mine * 2, their * 2),
        (-mine, -their),
        (mine.sum(), their.sum()),
    ):
        assert_close(ours, other)
