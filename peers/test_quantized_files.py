"""Files that ONNX Runtime's own tools quantized: read as ours, they answer as it does, each in its form."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnxruntime
import pytest
import torch
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_dynamic,
    quantize_static,
    shape_inference,
)
from torch import nn

from peers.agreement import runtime
from peers.test_onnx import Bert, Recurrent, Vit, images, mask_of, mobilenet, resnet, tokens
from tests.perf.onnx.graphs import answers, assert_same
from tinytorch.core.op import Array
from tinytorch.perf.onnx import from_onnx
from tinytorch.perf.quantization.storage import QuantizedModule

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning"),
]
MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[torch.Tensor, ...]]] = {
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


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("how", [*STATIC, *DYNAMIC])
def test_it_answers_as_onnx_runtime(name: str, how: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    torch.manual_seed(0)
    make, given = MODELS[name]
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
