"""Published models that come with packages: read as ours, they answer as ONNX Runtime does, and count as by hand."""

import hashlib
import math
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper, shape_inference

from peers.agreement import runtime
from tests.perf.onnx.graphs import answers, assert_same
from tinytorch.chapters.your_model import studies
from tinytorch.core.tensor import Tensor
from tinytorch.perf.acceleration import accelerated
from tinytorch.perf.acceleration.plans import plan
from tinytorch.perf.events.flops import FLOPCounter
from tinytorch.perf.onnx import UntranslatedError, from_onnx

#: Largest difference, relative to the largest element: roundings of float32 through up to 121 layers.
TOLERANCE = 1e-4
#: Nets that the onnx package tests itself with.
NETS = ("resnet50", "densenet121", "inception_v1", "inception_v2", "shufflenet", "squeezenet")


def test_the_page_s_model() -> None:
    """Op by op, on kernels and as a plan."""
    images = studies.lines()[:6]
    expected = runtime(studies.FILE, {"x": images})
    model = from_onnx(studies.FILE)
    assert_same(answers(model, images), expected, TOLERANCE)
    with accelerated():
        assert_same(answers(model, images), expected, TOLERANCE)
    assert_same([plan(model, Tensor(images))(Tensor(images)).data], expected, TOLERANCE)


def test_a_recognizer_of_files() -> None:
    """Of magika 1.0.3."""
    path = Path(str(files("magika"))) / "models/standard_v3_3/model.onnx"
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert digest == "fe2d2eb49c5f88a9e0a6c048e15d6ffdf86235519c2afc535044de433169ec8c"
    model = from_onnx(path)
    texts = [Path(__file__).read_bytes(), path.read_bytes(), b"<html><body>" * 100]
    given = np.full((len(texts), 2048), 256, np.int32)
    for row, text in zip(given, texts, strict=True):
        row[:1024][: len(text)] = np.frombuffer(text[:1024], np.uint8)
        row[1024:][-len(text) :] = np.frombuffer(text[-1024:], np.uint8)
    expected = runtime(path, {"bytes": given})
    assert_same(answers(model, given), expected, TOLERANCE)
    assert len({int(row.argmax()) for row in expected[0]}) == 3  # three kinds of files
    with accelerated():
        assert_same(answers(model, given), expected, TOLERANCE)


@pytest.fixture(scope="module", params=NETS)
def net(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return the file of a net with random weights: its own are all one number, and its answers all alike."""
    source = Path(str(files("onnx"))) / f"backend/test/data/light/light_{request.param}.onnx"
    model = onnx.load(str(source))
    constants = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    numbers = np.random.default_rng(0)
    for node in [each for each in model.graph.node if each.op_type == "ConstantOfShape"]:
        shape = tuple(int(length) for length in constants[node.input[0]])
        fan_in = max(1, math.prod(shape[1:]))
        made = (
            numbers.normal(size=shape) * math.sqrt(2 / fan_in) if len(shape) > 1 else numbers.uniform(0.5, 1.5, shape)
        )
        model.graph.initializer.append(numpy_helper.from_array(made.astype(np.float32), node.output[0]))
        model.graph.node.remove(node)
    if model.graph.node[-1].op_type == "Softmax":  # it would hide all but the largest
        model.graph.output[0].name = model.graph.node[-1].input[0]
        model.graph.node.pop()
    model.ir_version = max(model.ir_version, 8)  # of older ones shapes are inferred only where weights are inputs
    path = tmp_path_factory.mktemp("nets") / source.name
    onnx.save(model, str(path))
    yield path
    path.unlink()


def test_nets_of_the_onnx_package(net: Path) -> None:
    """Residual, dense, grouped and shuffled, of branches, with response normalization."""
    model = from_onnx(net)
    (declared,) = model.inputs
    shape = tuple(length for length in declared.shape if isinstance(length, int))
    image = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    ours, theirs = answers(model, image), runtime(net, {declared.name: image})
    assert float(theirs[0].std()) > 0
    assert_same(ours, theirs, TOLERANCE)
    assert FLOPCounter().count_model_forward(model, shape) == 2 * hand_count(net)


def hand_count(path: Path) -> int:
    """Return multiply-accumulates by the shapes that the onnx package infers: each result's, times the window's."""
    graph = shape_inference.infer_shapes(onnx.load(str(path))).graph
    lengths = {
        each.name: tuple(length.dim_value for length in each.type.tensor_type.shape.dim)
        for each in (*graph.value_info, *graph.output)
    } | {each.name: tuple(each.dims) for each in graph.initializer}
    macs = 0
    for node in graph.node:
        if node.op_type not in ("Conv", "Gemm"):
            continue
        results = math.prod(lengths[node.output[0]])
        if node.op_type == "Conv":
            macs += results * math.prod(lengths[node.input[1]][1:])
        else:
            turned = {each.name: helper.get_attribute_value(each) for each in node.attribute}.get("transB", 0)
            macs += results * lengths[node.input[1]][1 if turned else 0]
    return macs


@pytest.mark.parametrize("name", ["mul_1", "sigmoid"])
def test_models_of_onnx_runtime(name: str) -> None:
    path = Path(str(files("onnxruntime"))) / f"datasets/{name}.onnx"
    model = from_onnx(path)
    (declared,) = model.inputs
    shape: Any = declared.shape
    x = np.random.default_rng(2).normal(size=shape).astype(np.float32)
    assert_same(answers(model, x), runtime(path, {declared.name: x}), TOLERANCE)


def test_a_model_that_is_no_net_is_named() -> None:
    path = Path(str(files("onnxruntime"))) / "datasets/logreg_iris.onnx"
    with pytest.raises(UntranslatedError) as caught:
        from_onnx(path)
    assert caught.value.missing == {f"ai.onnx.ml.{kind}": 1 for kind in ("LinearClassifier", "Normalizer", "ZipMap")}
