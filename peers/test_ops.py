"""Ops that have no layer against PyTorch's functions: attention over more keys than queries, indexing, products."""

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from peers.agreement import assert_close, compare, theirs
from tests.perf.small_models import drawn
from tinytorch.core import ops
from tinytorch.core.dispatch import apply
from tinytorch.core.tensor import Tensor


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(("queries", "keys"), [(5, 5), (64, 64), (300, 300), (4, 9)])
def test_attention(queries: int, keys: int, causal: bool) -> None:
    """With fewer queries than keys, causal attention aligns the last of both: PyTorch's ``lower_right`` mask."""
    mask = torch.ones(queries, keys, dtype=torch.bool).tril(diagonal=keys - queries) if causal else None
    compare(
        lambda q, k, v: apply(ops.attention, q, k, v, causal=causal),
        lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, attn_mask=mask),
        *(drawn(2, 3, length, 8, seed=seed) for seed, length in enumerate((queries, keys, keys))),
    )


@pytest.mark.parametrize(
    ("a", "b"), [((3, 4), (4, 5)), ((4,), (4, 5)), ((2, 3, 4), (4,)), ((2, 1, 3, 4), (5, 4, 2)), ((4,), (4,))]
)
def test_matmul(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    compare(lambda x, y: x @ y, torch.matmul, drawn(*a), drawn(*b, seed=1))


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
    compare(*FUNCTIONS[name], drawn(2, 3, 4), drawn(2, 3, 4, seed=1))


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
