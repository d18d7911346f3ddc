"""Models that PyTorch's exporter wrote or ONNX Runtime quantized: read as ours, they answer and count as there."""

import logging
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from onnxruntime.capi import onnxruntime_pybind11_state as errors
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_dynamic,
    quantize_static,
    shape_inference,
)
from torch import nn
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from peers.agreement import runtime
from tests.perf.onnx.graphs import Case, answers, assert_same, normal
from tests.perf.onnx.test_fused import CASES as FUSED
from tests.perf.onnx.test_operators import BY_FORMULA, CASES
from tinytorch.core.layers import Linear
from tinytorch.core.op import Array
from tinytorch.core.spatial import Conv2d
from tinytorch.perf.acceleration import accelerated
from tinytorch.perf.events.flops import FLOPCounter
from tinytorch.perf.onnx import from_onnx
from tinytorch.perf.quantization import quantize_model
from tinytorch.perf.quantization.storage import QuantizedModule

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning"),
]
#: Largest difference, relative to the largest element: roundings of float32 through some tens of layers.
TOLERANCE = 5e-5


class Residual(nn.Module):  # type: ignore[misc]
    """Two convolutions with batch normalization, and a shortcut, as in a ResNet."""

    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out)
        self.conv2, self.bn2 = nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out)
        self.shortcut = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.bn2(self.conv2(functional.relu(self.bn1(self.conv1(x)))))
        return functional.relu(y + self.shortcut(x))


def resnet() -> nn.Module:
    stem = (nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
    head = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))
    return nn.Sequential(*stem, Residual(8, 8, 1), Residual(8, 16, 2), *head)


class SqueezeAndExcitation(nn.Module):  # type: ignore[misc]
    """A factor for each channel from the means of all."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(channels, channels // 4, 1), nn.Conv2d(channels // 4, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * functional.hardsigmoid(self.up(functional.relu(self.down(functional.adaptive_avg_pool2d(x, 1)))))


def mobilenet() -> nn.Module:
    """Depthwise, grouped and pointwise convolutions, hard-swish, ReLU6, squeeze and excitation."""
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.Hardswish(),
        nn.Conv2d(16, 32, 1), nn.BatchNorm2d(32), nn.ReLU6(),
        nn.Conv2d(32, 32, 5, 2, 2, groups=32), nn.BatchNorm2d(32), nn.Hardswish(), SqueezeAndExcitation(32),
        nn.Conv2d(32, 24, 3, padding=1, groups=4), nn.SiLU(),
        nn.AvgPool2d(2, 2, ceil_mode=True), nn.Upsample(scale_factor=2, mode="bilinear"), nn.ReflectionPad2d(1),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(24, 20), nn.Hardswish(), nn.Dropout(), nn.Linear(20, 5),
    )  # fmt: skip


class SelfAttention(nn.Module):  # type: ignore[misc]
    """Heads as most exported models write them: four products and a softmax, with a mask."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.query, self.key, self.value = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, width)
        self.output, self.heads = nn.Linear(width, width), heads

    def split(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(x.size(0), x.size(1), self.heads, -1).permute(0, 2, 1, 3)

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        q, k, v = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.size(-1))
        if mask is None:
            length = x.size(1)
            late = torch.ones(length, length, dtype=torch.bool).triu(1)
            scores = scores.masked_fill(late, float("-inf"))
        else:
            scores = scores + (1.0 - mask[:, None, None, :].float()) * -10000.0
        mixed = (scores.softmax(-1) @ v).permute(0, 2, 1, 3).contiguous()
        return self.output(mixed.view(x.size(0), x.size(1), -1))


class Layer(nn.Module):  # type: ignore[misc]
    """A block of a transformer."""

    def __init__(self, width: int, activation: nn.Module) -> None:
        super().__init__()
        self.attention = SelfAttention(width, 4)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.up, self.activation, self.down = nn.Linear(width, 4 * width), activation, nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        x = x + self.attention(self.norm1(x), mask)
        return x + self.down(self.activation(self.up(self.norm2(x))))


class Bert(nn.Module):  # type: ignore[misc]
    """Tokens with a mask and kinds, exact GELU, and a pooled answer."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.kinds, self.places = nn.Embedding(50, 32), nn.Embedding(2, 32), nn.Embedding(40, 32)
        self.layers = nn.ModuleList(Layer(32, nn.GELU()) for _ in range(2))
        self.pooler, self.register = nn.Linear(32, 32), None
        self.ids: torch.Tensor
        self.register_buffer("ids", torch.arange(40)[None])

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor, kinds: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x = self.tokens(tokens) + self.kinds(kinds) + self.places(self.ids[:, : tokens.size(1)])
        for layer in self.layers:
            x = layer(x, mask)
        return x, torch.tanh(self.pooler(x[:, 0]))


class Gpt(nn.Module):  # type: ignore[misc]
    """Tokens with a causal mask, GELU by tanh, logits of the table itself."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(60, 32), nn.Parameter(torch.randn(1, 24, 32))
        self.layers = nn.ModuleList(Layer(32, nn.GELU("tanh")) for _ in range(2))
        self.norm = nn.LayerNorm(32)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens) + self.places[:, : tokens.size(1)]
        for layer in self.layers:
            x = layer(x)
        return self.norm(x) @ self.tokens.weight.T


class Vit(nn.Module):  # type: ignore[misc]
    """Patches by a convolution, a class token in front."""

    def __init__(self) -> None:
        super().__init__()
        self.patches, self.first = nn.Conv2d(3, 32, 4, 4), nn.Parameter(torch.randn(1, 1, 32))
        self.places = nn.Parameter(torch.randn(1, 17, 32))
        self.layers = nn.ModuleList(Layer(32, nn.GELU()) for _ in range(2))
        self.head = nn.Linear(32, 7)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(x.size(0), -1, -1), x], 1) + self.places
        mask = torch.ones(x.shape[:2])
        for layer in self.layers:
            x = layer(x, mask)
        return self.head(x[:, 0])


class Recurrent(nn.Module):  # type: ignore[misc]
    """A convolution along a line, an LSTM both ways, a GRU, and a plain one."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(6, 10, 3, padding=1)
        self.norm = nn.BatchNorm1d(10)
        self.both = nn.LSTM(10, 8, num_layers=2, bidirectional=True, batch_first=True)
        self.gated, self.plain = nn.GRU(16, 12), nn.RNN(12, 5, nonlinearity="relu")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x, _ = self.both(functional.leaky_relu(self.norm(self.conv(x))).transpose(1, 2))
        x, last = self.gated(x.transpose(0, 1))
        x, _ = self.plain(x + last)
        return functional.log_softmax(x, -1)


def tokens(count: int, length: int, most: int) -> torch.Tensor:
    return torch.randint(0, most, (count, length), generator=torch.Generator().manual_seed(3))


def images(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(4))


def mask_of(count: int, length: int) -> torch.Tensor:
    mask = torch.ones(count, length, dtype=torch.int64)
    mask[0, length // 2 :] = 0
    return mask


MODELS: dict[str, tuple[Any, tuple[torch.Tensor, ...], dict[str, dict[int, str]]]] = {
    "mlp": (
        lambda: nn.Sequential(nn.Linear(20, 30), nn.ReLU(), nn.Linear(30, 30, bias=False), nn.ELU(), nn.Linear(30, 4)),
        (images(3, 20),),
        {"x0": {0: "batch"}},
    ),
    "resnet": (resnet, (images(2, 3, 32, 32),), {"x0": {0: "batch"}}),
    "mobilenet": (mobilenet, (images(2, 3, 36, 36),), {"x0": {0: "batch"}}),
    "bert": (
        Bert,
        (tokens(2, 9, 50), mask_of(2, 9), tokens(2, 9, 2)),
        {name: {0: "batch", 1: "sequence"} for name in ("x0", "x1", "x2")},
    ),
    "gpt": (Gpt, (tokens(2, 12, 60),), {"x0": {0: "batch", 1: "sequence"}}),
    "vit": (Vit, (images(2, 3, 16, 16),), {"x0": {0: "batch"}}),
    "recurrent": (Recurrent, (images(2, 6, 11),), {"x0": {0: "batch"}}),
}


def exported(name: str, folder: Path, opset: int = 17) -> tuple[nn.Module, tuple[torch.Tensor, ...], Path]:
    """Return a model of PyTorch with statistics that are not 0 and 1, its inputs, and its file."""
    torch.manual_seed(0)
    make, inputs, axes = MODELS[name]
    model = make()
    for module in model.modules():
        if isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d)):
            nn.init.normal_(module.running_mean)
            nn.init.uniform_(module.running_var, 0.5, 2)
    model.eval()
    path = folder / f"{name}-{opset}.onnx"
    names = [f"x{index}" for index in range(len(inputs))]
    torch.onnx.export(model, inputs, str(path), input_names=names, dynamic_axes=axes, opset_version=opset, dynamo=False)
    return model, inputs, path


#: What the onnx package's reference does not know: groups.
OWN = [Case("ConvTranspose", normal(2, 4, 5, 6), normal(4, 2, 3, 3), group=2, strides=[2, 2])]


@pytest.mark.parametrize("one", [*CASES, *BY_FORMULA, *OWN, *FUSED], ids=str)
def test_operators_answer_as_in_onnx_runtime(one: Case, tmp_path: Path) -> None:
    """All that the tests hold to the onnx package's reference or to formulas, and what the reference does not know."""
    path, x = one.made().file(tmp_path), np.asarray(one.data)
    try:
        theirs = runtime(path, {"x": x})
    except (errors.NotImplemented, errors.Fail) as error:
        pytest.skip(f"ONNX Runtime does not run {one.kind} of {x.dtype}: {error}")
    assert_same(answers(from_onnx(path), x), theirs, TOLERANCE)


@pytest.mark.parametrize(
    ("name", "opset"),
    # The exporter writes no causal mask before version 14.
    [(name, opset) for name in MODELS for opset in (11, 17, 18) if (name, opset) != ("gpt", 11)],
)
def test_answers_are_those_of_onnx_runtime(name: str, opset: int, tmp_path: Path) -> None:
    _, inputs, path = exported(name, tmp_path, opset)
    model = from_onnx(path)
    more = tuple(torch.cat([each, each[:1]]) for each in inputs)
    for given in (inputs, more, inputs):  # what was worked out for another shape stays with it
        assert_same(answers(model, *(each.numpy() for each in given)), runtime(path, given), TOLERANCE)
    with accelerated():
        assert_same(answers(model, *(each.numpy() for each in inputs)), runtime(path, inputs), TOLERANCE)


#: Multiply-accumulates of the recurrent layers, of which PyTorch counts none: in each of 2 x 11 steps a convolution, an
#: LSTM of 4 products both ways, twice, a GRU of 3, and a plain one, for the input and for the state.
RECURRENT = 22 * (10 * 6 * 3 + 2 * 4 * 8 * ((10 + 8) + (16 + 8)) + 3 * 12 * (16 + 12) + 5 * (12 + 5))


@pytest.mark.parametrize("name", MODELS)
def test_flops_and_parameters_are_pytorch_s(name: str, tmp_path: Path) -> None:
    """Batch normalization may have gone into the convolution before it: the exporter folds it."""
    theirs, inputs, path = exported(name, tmp_path)
    with torch.no_grad(), FlopCounterMode(display=False) as counted:
        theirs(*inputs)
    ours = from_onnx(path)
    flops = 2 * RECURRENT if name == "recurrent" else counted.get_total_flops()
    assert FLOPCounter().count_model_forward(ours, tuple(inputs[0].shape)) == flops
    products = [module for module in theirs.modules() if isinstance(module, (nn.Linear, nn.Conv2d, nn.Conv1d))]
    assert len([m for _, m in ours.named_modules() if isinstance(m, (Linear, Conv2d))]) >= len(products)
    weights = sum(module.weight.numel() for module in products)
    assert sum(parameter.size for parameter in ours.parameters()) >= weights


def test_layers_have_the_names_of_the_exported_model(tmp_path: Path) -> None:
    _, _, path = exported("bert", tmp_path)
    names = {name for name, module in from_onnx(path).named_modules() if isinstance(module, Linear)}
    assert "layers.0.attention.query.MatMul" in names
    assert "layers.1.down.MatMul" in names
    assert len(names) == 2 * 6 + 1


@pytest.mark.parametrize("name", ["mlp", "resnet", "mobilenet", "bert"])
def test_quantized_models_stay_near(name: str, tmp_path: Path) -> None:
    _, inputs, path = exported(name, tmp_path)
    model = from_onnx(path)
    small = quantize_model(model)
    exact, near = (answers(each, *(x.numpy() for x in inputs))[0] for each in (model, small))
    assert 0 < np.linalg.norm(near - exact) / np.linalg.norm(exact) < 0.1


QUANTIZED: dict[str, tuple[Callable[[], nn.Module], tuple[torch.Tensor, ...]]] = {
    "resnet": (resnet, (images(2, 3, 32, 32),)),
    "mobilenet": (mobilenet, (images(2, 3, 32, 32),)),
    "bert": (Bert, (tokens(2, 10, 50), mask_of(2, 10), tokens(2, 10, 2))),
    "vit": (Vit, (images(2, 3, 16, 16),)),
    "recurrent": (Recurrent, (images(2, 6, 12),)),
}
#: On a CPU without VNNI, ONNX Runtime's sums of two products of full range overflow 16 bits: 7-bit weights do not.
STATIC: dict[str, dict[str, Any]] = {
    "QDQ": {"quant_format": QuantFormat.QDQ, "reduce_range": True},
    "QDQ by channel": {"quant_format": QuantFormat.QDQ, "reduce_range": True, "per_channel": True},
    "QDQ of 16 bits": {"quant_format": QuantFormat.QDQ, "activation_type": QuantType.QUInt16},
    "QOperator": {"quant_format": QuantFormat.QOperator, "reduce_range": True},
    "QOperator by channel": {"quant_format": QuantFormat.QOperator, "reduce_range": True, "per_channel": True},
}
DYNAMIC: dict[str, dict[str, Any]] = {
    "dynamic": {"weight_type": QuantType.QInt8, "reduce_range": True},
    "dynamic by channel": {"weight_type": QuantType.QInt8, "reduce_range": True, "per_channel": True},
    "dynamic unsigned": {"weight_type": QuantType.QUInt8, "reduce_range": True},
}


class Batches(CalibrationDataReader):  # type: ignore[misc]
    """One batch."""

    def __init__(self, feed: dict[str, Array]) -> None:
        self.feeds = iter([feed])

    def get_next(self) -> dict[str, Array] | None:
        return next(self.feeds, None)


#: Its answers node by node, as what its fusions round otherwise is no concern of ours, by one thread: each of several
#: would quantize its own rows of an LSTM.
HOW = {"graph_optimization_level": onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL, "intra_op_num_threads": 1}


@pytest.mark.parametrize("name", QUANTIZED)
@pytest.mark.parametrize("how", [*STATIC, *DYNAMIC])
def test_it_answers_as_onnx_runtime(name: str, how: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    torch.manual_seed(0)
    make, given = QUANTIZED[name]
    names = [f"in{index}" for index in range(len(given))]
    source, ready, path = (tmp_path / f"{part}.onnx" for part in ("source", "ready", "quantized"))
    torch.onnx.export(make().eval(), given, str(source), opset_version=17, dynamo=False, input_names=names)
    shape_inference.quant_pre_process(str(source), str(ready), skip_symbolic_shape=True)
    feed = {each: tensor.numpy() for each, tensor in zip(names, given, strict=True)}
    if how in STATIC:
        quantize_static(str(ready), str(path), Batches(feed), **STATIC[how])
    else:
        quantize_dynamic(str(ready), str(path), **DYNAMIC[how])
    model = from_onnx(path)
    assert_same(answers(model, *feed.values()), runtime(path, feed, **HOW), 1e-4)
    assert any(isinstance(module, QuantizedModule) for _, module in model.named_modules()) or "16" in how
