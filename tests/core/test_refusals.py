"""What is refused by the name of what is wrong: operands by every op, with kernels too, and arguments by layers."""

import math
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

from tests.core.cases import convolution, normal
from tinytorch.core import ops
from tinytorch.core.attention import MultiHeadAttention
from tinytorch.core.dataloader import DataLoader
from tinytorch.core.dispatch import apply
from tinytorch.core.layers import Dropout, Embedding, LayerNorm, Linear
from tinytorch.core.losses import CrossEntropyLoss
from tinytorch.core.module import Parameter
from tinytorch.core.op import Op
from tinytorch.core.optimizers import SGD, Adam, AdamW, Optimizer
from tinytorch.core.spatial import AdaptiveAvgPool2d, AvgPool2d, BatchNorm2d, Conv2d, MaxPool2d
from tinytorch.core.tensor import Tensor
from tinytorch.core.transformers import GPT, TransformerBlock
from tinytorch.perf.acceleration import accelerated

WINDOW = {"kernel": (2, 2), "stride": (2, 2), "padding": (0, 0)}
EPSILON = {"epsilon": 1e-5}
#: An op, its operands, of which a tuple is the shape of random numbers, its parameters, and what is named.
OPERANDS: list[tuple[Op, tuple[Any, ...], dict[str, Any], str]] = [
    (ops.matmul, ((2, 3), (2, 3)), {}, r"mismatch: \(2, 3\) ends in 3, but \(2, 3\)"),
    (ops.matmul, ((3,), (2,)), {}, r"mismatch: \(3,\) ends in 3, but \(2,\)"),
    (ops.matmul, ((2, 3), ()), {}, r"\(2, 3\) and \(\)"),
    (ops.linear, ((2, 3), (4, 5)), {}, r"4 features.*\(2, 3\)"),
    (ops.conv2d, ((2, 3, 4, 4), (2, 2, 2, 2)), convolution(), r"\(N, 2, H, W\).*\(2, 3, 4, 4\)"),
    (ops.conv2d, ((3, 4, 4), (2, 3, 2, 2)), convolution(), r"\(N, 3, H, W\).*\(3, 4, 4\)"),
    (ops.conv2d, ((1, 4, 4, 4), (3, 2, 2, 2)), convolution(groups=2), "groups"),
    (ops.conv2d, ((1, 2, 4, 2), (2, 2, 2, 3)), convolution(), r"window of 3 .* 2 with padding 0"),
    (ops.conv2d, ((1, 2, 4, 4), (2, 2, 3, 3)), convolution(dilation=(2, 2)), r"window of 3 \(dilation 2\)"),
    (ops.conv2d, ((1, 2, 4, 4), (5, 2, 2, 2), (4,)), convolution(), "broadcast"),
    (ops.max_pool2d, ((2, 2),), WINDOW, r"\(N, C, H, W\).*\(2, 2\)"),
    (ops.max_pool2d, ((1, 1, 1, 4),), WINDOW, "fit in 1"),
    (ops.avg_pool2d, ((1, 1, 1, 4),), WINDOW, "fit in 1"),
    (ops.attention, ((1, 1, 2, 4), (1, 1, 3, 5), (1, 1, 3, 5)), {"causal": False}, r"\(1, 1, 2, 4\), \(1, 1, 3, 5\)"),
    (ops.attention, ((1, 1, 2, 4), (1, 1, 3, 4), (1, 1, 2, 4)), {"causal": False}, "shape"),
    (ops.attention, ((1, 2, 4), (1, 2, 4), (1, 2, 4)), {"causal": False}, "shape"),
    (ops.attention, ((1, 1, 3, 4), (1, 1, 2, 4), (1, 1, 2, 4)), {"causal": True}, "2 for 3"),
    (ops.self_attention, ((2, 3),), {"heads": 2, "causal": True}, r"3 \* 2 \* D"),
    (ops.self_attention, ((1, 2, 10),), {"heads": 2, "causal": True}, r"3 \* 2 \* D"),
    (ops.layer_norm, ((2, 3), (4,), (4,)), EPSILON, r"axis of 4.*\(2, 3\)"),
    (ops.layer_norm, ((2, 3), (3,), (1,)), EPSILON, r"axis of \d.*\(2, 3\)"),
    (ops.layer_norm, ((2, 3), (1,), (3,)), EPSILON, r"axis of \d.*\(2, 3\)"),
    *(
        (ops.batch_norm, ((2, channels, 2, 2), *[(count,)] * given), EPSILON, rf"\(N, {count}, H, W\)")
        for channels, count in ((4, 3), (4, 1), (1, 2))
        for given in (2, 4)  # by the batch's statistics, or by those that are given
    ),
    (ops.batch_norm, ((0, 2, 3, 3), (2,), (2,)), EPSILON, "element"),
    (ops.batch_norm, ((1, 2, 1, 1), (2,), (2,)), EPSILON, r"two elements .*\(1, 2, 1, 1\)"),
    (ops.cross_entropy, ((2, 4), np.array([0, 4])), {}, r"target.*0\.\.3"),
    (ops.cross_entropy, ((2, 4), np.array([0, -1])), {}, r"target.*0\.\.3"),
    (ops.cross_entropy, ((2, 4), np.array([0, -100])), {"ignore_index": 2}, r"target.*0\.\.3"),
    (ops.cross_entropy, ((2, 4), np.array([0.0, 1.0])), {}, "integers.*float64"),
    (ops.cross_entropy, ((2, 4), np.array([0, 1, 2])), {}, r"integers of shape \(2,\).*\(3,\)"),
    (ops.cross_entropy, ((2, 4), np.array([1, 1])), {"ignore_index": 1}, "ignore_index"),
    (ops.mean_squared_error, ((3, 1), (3,)), {}, r"target.*\(3, 1\).*\(3,\)"),
    (ops.mean_squared_error, ((0,), (0,)), {}, "prediction"),
]


@pytest.mark.parametrize("kernels", [nullcontext, accelerated], ids=["numpy", "compiled"])
@pytest.mark.parametrize(("op", "operands", "params", "named"), OPERANDS, ids=lambda value: getattr(value, "name", ""))
def test_operands_that_do_not_fit(
    op: Op, operands: tuple[Any, ...], params: dict[str, Any], named: str, kernels: Callable[[], Any]
) -> None:
    arrays = [normal(*each).astype(np.float32) if isinstance(each, tuple) else each for each in operands]
    with kernels(), pytest.raises(ValueError, match=named):
        apply(op, *map(Tensor, arrays), **params)


def parameters() -> list[Parameter]:
    return [Parameter([1.0])]


ARGUMENTS: list[tuple[Callable[[], Any], str]] = [
    (lambda: Linear(0, 3), "in_features.*not 0"),
    (lambda: Linear(3, 2.5), r"out_features.*not 2\.5"),  # type: ignore[arg-type]
    (lambda: Linear(3, 2)(Tensor([[1.0, 2.0]])), r"3 features.*\(1, 2\)"),
    (lambda: Embedding(-1, 3), "num_embeddings"),
    (lambda: LayerNorm(0), "normalized_shape"),
    (lambda: LayerNorm(3)(Tensor([[1.0, 2.0]])), r"axis of 3.*\(1, 2\)"),
    (lambda: Dropout(1.1), r"p must.*not 1\.1"),
    (lambda: Dropout(-0.1), r"p must.*not -0\.1"),
    (lambda: Dropout(math.nan), "p must.*not nan"),
    (lambda: Conv2d(0, 1, 1), "in_channels"),
    (lambda: Conv2d(1, 1, 1, groups=0), "groups"),
    (lambda: Conv2d(4, 6, 1, groups=3), "groups.*in_channels 4 and out_channels 6"),
    (lambda: Conv2d(1, 1, 0), "kernel_size.*not 0"),
    (lambda: Conv2d(1, 1, 2.5), r"kernel_size.*not 2\.5"),  # type: ignore[arg-type]
    (lambda: Conv2d(1, 1, None), "kernel_size.*not None"),  # type: ignore[arg-type]
    (lambda: Conv2d(1, 1, (1, 2, 3)), r"kernel_size.*not \(1, 2, 3\)"),  # type: ignore[arg-type]
    (lambda: Conv2d(1, 1, 1, stride=0), "stride"),
    (lambda: Conv2d(1, 1, 1, padding=-1), "padding"),
    (lambda: Conv2d(1, 1, 1, dilation=(1, 0)), "dilation"),
    (lambda: MaxPool2d(2, padding=2), "padding.*half"),
    (lambda: AvgPool2d(2, stride=0), "stride"),
    (lambda: AdaptiveAvgPool2d(0), "output_size"),
    (lambda: BatchNorm2d(0), "num_features"),
    (lambda: BatchNorm2d(1).eval()(Tensor(normal(1, 3, 2, 2))), r"\(N, 1, H, W\).*\(1, 3, 2, 2\)"),
    (lambda: MultiHeadAttention(8, 0), "num_heads"),
    (lambda: MultiHeadAttention(0, 1), "embed_dim"),
    (lambda: TransformerBlock(8, 2, mlp_ratio=0), "mlp_ratio"),
    (lambda: GPT(0, 8, 1, 1, 4), "vocab_size"),
    (lambda: GPT(5, 8, 0, 1, 4), "num_layers"),
    (lambda: GPT(5, 8, 1, 1, 0), "max_seq_len"),
    (lambda: GPT(5, 8, 1, 3, 4), "num_heads.*embed_dim 8"),
    (lambda: GPT(5, 8, 1, 2, 4)(np.zeros((1, 5), int)), "tokens.*not 5"),
    (lambda: GPT(5, 8, 1, 2, 4)(np.zeros((1, 0), int)), "tokens.*not 0"),
    (lambda: GPT(5, 8, 1, 2, 4)(np.zeros(3, int)), r"tokens.*not \(3,\)"),
    (lambda: CrossEntropyLoss()(Tensor([[1.0, 2.0]]), [0.5]), "target"),
    (lambda: DataLoader(), "arrays"),
    (lambda: DataLoader(np.ones(3), np.ones(4)), r"length.*\(3,\), \(4,\)"),
    (lambda: DataLoader(np.ones((0, 3))), r"length.*\(0, 3\)"),
    (lambda: DataLoader(np.float64(3)), "length"),  # type: ignore[arg-type]
    (lambda: DataLoader(np.ones(3), batch_size=1.5), "batch_size"),  # type: ignore[arg-type]
    (lambda: Embedding(4, 2)(np.array([0, 4])), r"must lie in 0\.\.3, but run from 0 to 4"),
    (lambda: Embedding(4, 2)(np.array([-1, 2])), r"must lie in 0\.\.3, but run from -1 to 2"),
    (lambda: apply(ops.embedding, np.array([0.0, 1.0]), normal(4, 2)), "integer indices, not float64"),
    (lambda: Optimizer(parameters(), 0.1).step(), "step"),
    (lambda: SGD(parameters(), momentum=1.0), "momentum"),
    (lambda: Adam(parameters(), betas=(1.0, 0.9)), r"betas\[0\]"),
    (lambda: AdamW(parameters(), betas=(0.9, -0.1)), r"betas\[1\]"),
    (lambda: Adam(parameters(), betas=0.9), "betas"),  # type: ignore[arg-type]
    (lambda: Adam(parameters(), betas=(0.9,)), "betas"),  # type: ignore[arg-type]
    (lambda: Adam(parameters(), eps=-1), "eps"),
    (lambda: Adam(parameters(), eps=math.inf), "eps"),
]


@pytest.mark.parametrize(("make", "named"), ARGUMENTS, ids=[named for _, named in ARGUMENTS])
def test_arguments_that_no_layer_loss_or_optimizer_takes(make: Callable[[], Any], named: str) -> None:
    with pytest.raises((ValueError, TypeError, IndexError), match=named):
        make()


OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "one Parameter": lambda make: make(Parameter(np.ones((3, 2)))),
    "a model": lambda make: make(Linear(1, 1)),
    "pairs with names": lambda make: make(Linear(1, 1).named_parameters()),
    "names": lambda make: make(Linear(1, 1).state_dict()),
    "a buffer": lambda make: make([Tensor([1.0])]),
    "a result": lambda make: make([Parameter([1.0]) * 2]),
    "none": lambda make: make([]),
    "negative lr": lambda make: make(parameters(), lr=-1),
    "infinite lr": lambda make: make(parameters(), lr=np.inf),
    "lr of text": lambda make: make(parameters(), lr="0.1"),
    "negative weight decay": lambda make: make(parameters(), weight_decay=-1),
    "NaN as weight decay": lambda make: make(parameters(), weight_decay=np.nan),
}


@pytest.mark.parametrize("make", [SGD, Adam, AdamW])
@pytest.mark.parametrize("given", OPTIMIZERS.values(), ids=[*OPTIMIZERS])
def test_an_optimizer_refuses_by_name(make: Any, given: Callable[[Any], Any]) -> None:
    with pytest.raises((TypeError, ValueError), match=r"parameters|lr|weight_decay"):
        given(make)
