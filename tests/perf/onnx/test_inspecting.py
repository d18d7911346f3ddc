"""What is told of a file without running it is what its model counts when it runs."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.perf.onnx.graphs import Made, normal
from tinytorch.chapters.your_model import studies
from tinytorch.perf.events.flops import FLOPCounter
from tinytorch.perf.onnx import count_onnx, from_onnx


def _several() -> Made:
    """Products of several kinds, with a shape that is worked out on the way, and a weight that two nodes read."""
    graph = Made()
    x = graph.input("x", ["N", 6, 8])
    weight = graph.constant(normal(8, 8), "w")
    x = graph.node("MatMul", graph.node("MatMul", x, weight, name="/a/one/MatMul"), weight, name="/a/two/MatMul")
    rows = graph.node("Gather", graph.node("Shape", x), graph.constant(np.array([0])))
    shape = graph.node("Concat", rows, graph.constant(np.array([2, 24])), axis=0)
    x = graph.node("Reshape", x, shape)
    graph.output(graph.node("Einsum", x, graph.constant(normal(24, 3)), equation="nhw,wk->nhk", name="/b/Einsum"))
    return graph


def test_the_page_s_model() -> None:
    shape = (6, 3, 48, 192)
    told, model = count_onnx(studies.FILE, shape), from_onnx(studies.FILE)
    assert told.flops == FLOPCounter().count_model_forward(model, shape)
    assert told.parameters == sum(parameter.size for parameter in model.parameters())


def test_modules_have_their_own_rows(tmp_path: Path) -> None:
    path, product = _several().file(tmp_path), 2 * 3 * 6 * 8 * 8
    found = count_onnx(path, N=3)
    told = {row.path: row for row in found.modules}
    assert (told["a"].flops, told["a"].parameters, told["a"].output) == (2 * product, 64, (3, 6, 8))
    assert (told["a.two"].flops, told["a.two"].parameters) == (product, 0)  # the weight is that of the first
    assert (told["b"].flops, told["b"].parameters, told["b"].output) == (2 * 3 * 2 * 24 * 3, 72, (3, 2, 3))
    assert found.flops == FLOPCounter().count_model_forward(from_onnx(path), (3, 6, 8))


def test_a_model_that_fits_into_no_memory(tmp_path: Path) -> None:
    """Its weights, 40 GB beside the file, are not even there."""
    width = 100_000
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[width, width], data_location=TensorProto.EXTERNAL)
    weight.external_data.add(key="location", value="lost.data")
    x = helper.make_tensor_value_info("x", 1, ["N", width])
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    graph = helper.make_graph(nodes, "g", [x], [onnx.ValueInfoProto(name="y")], [weight])
    onnx.save(helper.make_model(graph), str(tmp_path / "large.onnx"))
    told = count_onnx(tmp_path / "large.onnx", (2, width))
    assert (told.parameters, told.weight_bytes) == (width**2, 4 * width**2)
    assert (told.flops, told.outputs) == (2 * 2 * width**2, {"y": (2, width)})


def _odd(build: Any) -> Made:
    graph = Made()
    x = graph.node("MatMul", graph.input("x", [2, 4]), graph.constant(normal(4, 4)))
    graph.output(graph.node("MatMul", build(graph, x), graph.constant(normal(4, 3))))
    return graph


def test_what_is_not_known_is_named_and_in_no_sum(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = count_onnx(_odd(lambda graph, x: graph.node("Own", x, domain="other")).file(tmp_path))
    assert told.uncounted == {"other.Own": 1, "MatMul": 1}
    assert told.flops == 2 * 2 * 4 * 4
    assert told.modules[0].flops is None
    told.print_report()
    assert "other.Own (1)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("how", "named"),
    [({}, "input_shape"), ({"input_shape": (2, 3, 4)}, "x"), ({"other": 3}, "input_shape")],
)
def test_open_lengths_are_refused_by_name(how: Any, named: str, tmp_path: Path) -> None:
    graph = Made()
    graph.output(graph.node("Relu", graph.input("x", ["N", "length"])))
    with pytest.raises(ValueError, match=named):
        count_onnx(graph.file(tmp_path), **how)
