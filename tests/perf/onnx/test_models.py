"""Whole graphs: what they answer, count, hold and are called, and what is said of those that cannot be read."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.perf.onnx.graphs import Made, answers, assert_same, normal, reference
from tests.perf.onnx.made_models import image_net, mlp, plain_net, token_net
from tinytorch.core.dispatch import no_grad
from tinytorch.core.layers import Embedding, LayerNorm, Linear
from tinytorch.core.module import Module
from tinytorch.core.op import Array, Work
from tinytorch.core.spatial import BatchNorm2d, Conv2d
from tinytorch.core.tensor import Tensor
from tinytorch.perf.acceleration import accelerated
from tinytorch.perf.acceleration.plans import plan
from tinytorch.perf.events.flops import FLOPCounter, record_forward
from tinytorch.perf.onnx import OnnxModel, UntranslatedError, count_onnx, from_onnx, from_torch
from tinytorch.perf.profiling import Profiler
from tinytorch.perf.quantization import quantize_model, stored_bytes

TOKENS = np.array([[1, 5, 7, 2, 0], [3, 3, 9, 19, 4]])
MASK = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])


def read(graph: Made, folder: Path, **how: Any) -> OnnxModel:
    return from_onnx(graph.file(folder), **how)


#: Inputs, multiply-accumulates counted by hand, and layers of our own.
NETS: dict[str, tuple[Made, list[Array], int, dict[type[Module], int]]] = {
    "mlp": (mlp(), [normal(4, 6)], 4 * (6 * 5 + 5 * 3), {Linear: 2}),
    "plain": (
        plain_net(), [normal(5, 3, 12, 12)], 5 * (144 * 8 * 27 + 8 * 36 * 4), {Conv2d: 1, BatchNorm2d: 1, Linear: 1},
    ),
    # Stem, depthwise, two of the squeeze, head: each for 2 images.
    "image": (
        image_net(), [normal(2, 3, 16, 16)], 2 * (64 * 8 * 27 + 64 * 8 * 9 + 16 + 16 + 8 * 4),
        {Conv2d: 4, BatchNorm2d: 1, Linear: 1},
    ),
    # Three projections, scores and mix over 5 times, and the two of the MLP, for 2 sequences of width 8.
    "tokens": (
        token_net(), [TOKENS, MASK], 2 * (3 * 5 * 64 + 2 * 5 * 5 * 8 + 5 * 8 * 32 + 5 * 32 * 3),
        {Linear: 5, Embedding: 1, LayerNorm: 1},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NETS)
def test_a_net_and_its_plan_answer_as_the_reference_and_count_as_by_hand(name: str, tmp_path: Path) -> None:
    graph, inputs, macs, layers = NETS[name]
    model, shape = read(graph, tmp_path), inputs[0].shape
    assert {kind: sum(isinstance(each, kind) for _, each in model.named_modules()) for kind in layers} == layers
    made = plan(model, *inputs)
    for given in (inputs, [each[::-1].copy() for each in inputs]):
        expected = reference(graph.model(), {each.name: x for each, x in zip(model.inputs, given, strict=True)})
        assert_same(answers(model, *given), expected)
        assert_same(answers(made, *given), expected)
        with accelerated():
            assert_same(answers(model, *given), expected)
    with pytest.raises(ValueError, match="inputs"):
        plan(model, *inputs, *inputs)
    assert FLOPCounter().count_model_forward(model, shape) == 2 * macs
    assert Profiler().count_flops(model, shape) == 2 * macs // shape[0]
    told = count_onnx(tmp_path / "made.onnx", shape)
    parameters = sum(parameter.size for parameter in model.parameters())
    assert (told.flops, told.parameters, told.uncounted) == (2 * macs, parameters, {})
    assert (told.modules[0].flops, told.modules[0].parameters) == (2 * macs, parameters)
    assert [*told.outputs.values()] == [each.shape for each in answers(model, *inputs)]


def test_layers_have_the_names_of_their_nodes(tmp_path: Path) -> None:
    model = read(mlp(), tmp_path)
    assert [*dict(model.named_parameters())] == [
        "up.Gemm.weight",
        "up.Gemm.bias",
        "down.MatMul.weight",
        "down.MatMul.bias",
    ]
    events = [(event.op, event.path) for event in record_forward(model, Tensor(normal(4, 6))).events]
    assert events == [("linear", "OnnxModel.up.Gemm"), ("relu", "OnnxModel"), ("linear", "OnnxModel.down.MatMul")]


def test_shapes_are_worked_out_once(tmp_path: Path) -> None:
    """They run outside of the seam, and no more when the same shapes come again; what picks weights by them runs."""
    graph = token_net()
    model = read(graph, tmp_path)
    ops = [event.op for event in record_forward(model, Tensor(TOKENS)).events]
    assert not {"concatenate", "shape"} & set(ops)
    assert ops.count("getitem") == 1  # of the places
    for rows, time in ((2, 5), (1, 5), (2, 3), (2, 5)):
        tokens, mask = TOKENS[:rows, :time], MASK[:rows, :time]
        expected = reference(graph.model(), {"tokens": tokens, "attention_mask": mask})
        assert_same(answers(model, tokens, mask), expected)
    tables, norm, products = 20 * 8 + 16 * 8, 2 * 8, 3 * 8 * 8 + 8 * 32 + 32 * 3
    assert sum(parameter.size for parameter in model.parameters()) == tables + norm + products


def test_a_sequence_s_activations_are_dropped_when_they_were_read(tmp_path: Path) -> None:
    """A chain of 20 needs memory for two at a time, and not for all."""
    graph = Made()
    x = graph.input("x", [1000])
    for _ in range(20):
        x = graph.node("Tanh", x)
    graph.output(x)
    model = read(graph, tmp_path)
    with Profiler(memory=True) as profiler, no_grad():
        model(Tensor(normal(1000)))
    assert profiler.memory.array_peak < 4 * 4000


def test_quantization_finds_the_layers(tmp_path: Path) -> None:
    model = read(token_net(), tmp_path)
    small = quantize_model(model)
    exact, near = answers(model, TOKENS, MASK)[0], answers(small, TOKENS, MASK)[0]
    assert 0 < np.linalg.norm(near - exact) < 0.05 * np.linalg.norm(exact)
    assert not any(isinstance(module, Linear) for _, module in small.named_modules())


def test_inputs_that_are_left_out(tmp_path: Path) -> None:
    """A mask is ones then, all else is zeros, of the lengths that the first input tells."""
    model = read(token_net(), tmp_path)
    assert_same(answers(model, TOKENS.astype(np.float32), MASK), answers(model, TOKENS, MASK), tolerance=0)
    assert_same(answers(model, TOKENS), answers(model, TOKENS, np.ones_like(MASK)), tolerance=0)
    tokens, mask = model.example(3, time=7)
    assert (tokens.shape, mask.shape) == ((3, 7), (3, 7))
    assert tokens.dtype == np.int64
    assert mask.data.all()
    assert not tokens.data.any()


@pytest.mark.parametrize("open_length", [None, -1, "?"])
def test_lengths_without_a_name_follow_the_first_input(open_length: Any, tmp_path: Path) -> None:
    """Some exporters write -1, others "?" for each: two of them need not be equal."""
    graph = Made()
    x = graph.input("x", [open_length, open_length])
    graph.output(graph.node("Add", x, graph.input("other", [open_length, open_length])))
    graph.output(graph.node("Relu", graph.input("state", [2, None, 4])))
    total, state = answers(read(graph, tmp_path), normal(3, 5))
    np.testing.assert_array_equal(total, normal(3, 5))
    assert state.shape == (2, 3, 4)


def test_a_given_input_is_no_input_any_more(tmp_path: Path) -> None:
    graph = token_net()
    model = read(graph, tmp_path, given={"attention_mask": MASK})
    assert [each.name for each in model.inputs] == ["tokens"]
    expected = reference(graph.model(), {"tokens": TOKENS, "attention_mask": MASK})
    assert_same(answers(model, TOKENS), expected)


def test_some_outputs_need_only_their_nodes(tmp_path: Path) -> None:
    graph = mlp()
    graph.output("Relu_1")
    both = read(graph, tmp_path)
    hidden = read(graph, tmp_path, outputs=["Relu_1"])
    x = normal(4, 6)
    assert_same(answers(hidden, x), answers(both, x)[1:], tolerance=0)
    assert len(hidden.parameters()) == 2


def _choosing(graph: Made, condition: str, then: Any, other: Any) -> str:
    """Return the output of an If; ``then`` and ``other`` grow its branches, whose values have the same names."""
    branches = {}
    for name, grow in (("then_branch", then), ("else_branch", other)):
        inner = Made()
        result = grow(inner)
        value = helper.make_tensor_value_info(result, 1, None)
        branches[name] = helper.make_graph(inner.nodes, name, [], [value], list(inner.weights.values()))
    return graph.node("If", condition, **branches)


def test_a_branch_that_the_data_decide(tmp_path: Path) -> None:
    """Both hold a product with weights of one name; inside one of them a length decides once more."""
    graph = Made()
    x = graph.input("x", ["rows", 3])

    def weighed(seed: int) -> Any:
        return lambda inner: inner.node(
            "MatMul", x, inner.constant(normal(3, 3, seed=seed), "w"), name="/branch/MatMul"
        )

    def by_length(inner: Made) -> str:
        rows = inner.node("Gather", inner.node("Shape", x), inner.constant(np.array(0)))
        alone = inner.node("Equal", rows, inner.constant(np.array(1)))
        return _choosing(inner, alone, weighed(1), lambda each: each.node("Neg", x))

    total = graph.node("ReduceSum", x, keepdims=0)
    positive = graph.node("Greater", total, graph.constant(np.float32(0)))
    graph.output(graph.node("Relu", _choosing(graph, positive, weighed(2), by_length)))
    model = read(graph, tmp_path)
    one, two = np.ones((1, 3), np.float32), np.ones((2, 3), np.float32)
    for given in (one, -one, two, -two, one, -one, -two):
        assert_same(answers(model, given), reference(graph.model(), {"x": given}))
    assert FLOPCounter().count_model_forward(model, (2, 3)) == 0  # zeros: the sum is not above 0, and 2 rows are not 1
    assert sum(parameter.size for parameter in model.parameters()) == 2 * 9


def test_functions_of_the_file_are_written_out(tmp_path: Path) -> None:
    body = [helper.make_node("Mul", ["a", "a"], ["b"])]
    square = helper.make_function("own", "Square", ["a"], ["b"], body, [helper.make_opsetid("", 18)])
    graph = Made()
    graph.output(graph.node("Square", graph.input("x", [3]), domain="own"))
    model = graph.model()
    model.functions.append(square)
    onnx.save(model, str(tmp_path / "made.onnx"))
    (answer,) = answers(from_onnx(tmp_path / "made.onnx"), normal(3))
    np.testing.assert_array_equal(answer, normal(3) ** 2)


def test_all_that_is_missing_is_named_at_once(tmp_path: Path) -> None:
    graph = Made()
    x = graph.input("x", [2, 2])
    for _ in range(2):
        x = graph.node("Own", x, domain="com.other")
    x = graph.node("Relu", graph.node("Fused", x, domain="com.other"))
    x = graph.node("Scaler", x, domain="ai.onnx.ml")
    graph.output(graph.node("Reshape", x, graph.node("Cast", graph.node("Exp", x), to=7)))
    with pytest.raises(UntranslatedError) as caught:
        read(graph, tmp_path)
    assert caught.value.missing == {"com.other.Own": 2, "com.other.Fused": 1, "ai.onnx.ml.Scaler": 1}
    assert "stop 6 more" in str(caught.value)


def test_what_the_reference_runs_otherwise_is_missing_with_its_reason(tmp_path: Path) -> None:
    graph = Made()
    x = graph.input("x", [3])
    info = [helper.make_tensor_value_info(name, kind, []) for name, kind in (("turn", 7), ("goes", 9), ("on", 9))]
    body = helper.make_graph([helper.make_node("Identity", ["goes"], ["on"])], "body", info[:2], info[2:])
    graph.output(graph.node("Add", x, graph.node("Loop", graph.constant(np.array(2)), "", count=1, body=body)))
    with pytest.raises(UntranslatedError, match="Loop with outputs of each turn, or no condition"):
        read(graph, tmp_path)


def test_what_has_no_code_of_its_own_runs_by_the_reference(tmp_path: Path) -> None:
    """At the seam, where it is timed and counted: products by their formula, all else an operation an element."""
    graph = Made()
    x = graph.input("x", [2, 3, 6, 5])
    graph.output(graph.node("Cosh", graph.node("ReduceProd", x, keepdims=0)))
    graph.output(graph.node("Unique", x, count=2, sorted=1))
    graph.output("Unique_2_1")
    model, given = read(graph, tmp_path), normal(2, 3, 6, 5)
    assert_same(answers(model, given), reference(graph.model(), {"x": given}))
    events = {event.op: event for event in record_forward(model, Tensor(given), timed=True).events}
    assert events["ReduceProd"].work == Work(elementwise=2 * 3 * 6 * 5)
    assert events["Cosh"].work == Work(elementwise=1)
    assert events["Unique"].work == Work()
    assert events["Cosh"].end > events["Cosh"].start
    with pytest.raises(TypeError, match=r"no gradient"):
        model(Tensor(given, requires_grad=True))[0].sum().backward()


def test_constants_that_the_reference_cannot_fold(tmp_path: Path) -> None:
    """It knows no older Upsample and joins no axes in an older Softmax."""
    graph = Made(9)
    values = normal(1, 1, 2, 2)
    up = graph.node("Upsample", graph.constant(values), graph.constant(np.array([1, 1, 2, 2], np.float32)))
    graph.output(graph.node("Mul", graph.input("x", [1, 1, 4, 4]), up))
    (made,) = answers(read(graph, tmp_path), normal(1, 1, 4, 4))
    np.testing.assert_array_equal(made, normal(1, 1, 4, 4) * values.repeat(2, axis=2).repeat(2, axis=3))


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "holds no nodes|is no ONNX"), (b"\x00\x01 not this", "is no"), (b"# text\n" * 40, "is no")],
)
def test_a_file_of_another_kind(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "other.onnx"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"other.onnx ({message})"):
        from_onnx(path)


def _two_nodes(*pairs: tuple[str, str]) -> Any:
    """Return a file of nodes that each make one name from another."""
    graph = Made()
    graph.input("x", [3])
    graph.nodes = [helper.make_node("Tanh", [before], [after]) for before, after in pairs]
    graph.output("y")
    return graph


def test_nodes_in_any_order(tmp_path: Path) -> None:
    x = normal(3)
    assert_same(answers(read(_two_nodes(("h", "y"), ("x", "h")), tmp_path), x), [np.tanh(np.tanh(x))])


@pytest.mark.parametrize(
    ("pairs", "named"),
    [
        ((("x", "h"), ("lost", "y")), "lost"),
        ((("x", "h"),), "y"),
        ((("a", "b"), ("b", "a"), ("x", "y")), "wait for each other"),
    ],
)
def test_graphs_that_cannot_run_are_refused_when_read(pairs: Any, named: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=named):
        read(_two_nodes(*pairs), tmp_path)


def test_weights_beside_a_file_that_may_be_lost_or_broken(tmp_path: Path) -> None:
    made, path = mlp().model(), tmp_path / "made.onnx"
    with pytest.raises(FileNotFoundError):
        from_onnx(path)
    onnx.save(made, str(path), save_as_external_data=True, location="made.onnx.data", size_threshold=0)
    assert_same(answers(from_onnx(path), normal(4, 6)), reference(mlp().model(), {"x": normal(4, 6)}))
    beside = tmp_path / "made.onnx.data"
    beside.write_bytes(beside.read_bytes()[:16])
    with pytest.raises(ValueError, match=r"made\.onnx\.data"):
        from_onnx(path)
    beside.unlink()
    with pytest.raises(FileNotFoundError, match=r"made\.onnx\.data"):
        from_onnx(path)


@pytest.mark.parametrize("form", ["products", "transposed", "Gemm", "embedding"])
def test_a_weight_that_several_nodes_read_is_one_parameter(form: str, tmp_path: Path) -> None:
    graph, matrix = Made(), normal(4, 4)
    weight = graph.constant(matrix, "w")
    x = np.array([1, 0, -1]) if form == "embedding" else normal(3, 4, seed=2)
    name = graph.input("x", ["N", *x.shape[1:]], x.dtype)
    first = graph.node("Gather", weight, name) if form == "embedding" else graph.node("MatMul", name, weight)
    if form == "Gemm":
        graph.output(graph.node("Gemm", first, weight, transB=1))
    else:
        second = weight if form == "products" else graph.node("Transpose", weight, perm=[1, 0])
        graph.output(graph.node("MatMul", first, second))
    model = read(graph, tmp_path)
    left = matrix[x] if form == "embedding" else x @ matrix
    assert_same(answers(model, x), [left @ (matrix if form == "products" else matrix.T)])
    (parameter,) = model.parameters()
    assert (parameter.size, stored_bytes(model)) == (16, 64)
    if form == "products":
        assert stored_bytes(quantize_model(model)) == 16 + 4 * 4  # codes, and a scale for each column
    model(x).sum().backward()
    step, near = 1e-2, []
    for sign in (1, -1):
        parameter.data[2, 1] += sign * step
        near.append(answers(model, x)[0].astype(np.float64).sum())
        parameter.data[2, 1] -= sign * step
    assert parameter.grad is not None
    assert parameter.grad[2, 1] == pytest.approx((near[0] - near[1]) / (2 * step), rel=1e-2, abs=1e-3)


def test_without_the_packages_it_says_how_to_get_or_do_without_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What from_torch does where PyTorch is, peers/test_torch_program.py holds."""
    path = mlp().file(tmp_path)
    for package in ("onnx", "torch"):
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(RuntimeError, match="install"):
        from_onnx(path)
    with pytest.raises(RuntimeError, match=r"torch\.onnx\.export"):
        from_torch(object(), object())


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ((TOKENS, MASK[:, :4]), r"\(2, 4\) with batch=2, time=5"),
        ((TOKENS[0],), r"tokens \(batch, time\) of int64 cannot have shape \(5,\)"),
        ((TOKENS, MASK, MASK), "takes 1 to 2 inputs"),
        ((TOKENS + 0.5,), "whole numbers"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(inputs: Any, message: str, tmp_path: Path) -> None:
    model = read(token_net(), tmp_path)
    with pytest.raises(ValueError, match=message):
        model(*inputs)
    with pytest.raises(ValueError, match="lengths"):
        model.example(2)


@pytest.mark.parametrize(("first", "expected"), [(2, 2), (1, 1), ("batch", 1), (None, 1)])
def test_an_example_has_the_batch_that_the_file_fixes(first: Any, expected: int, tmp_path: Path) -> None:
    graph = Made()
    graph.output(graph.node("Relu", graph.input("x", [first, 3])))
    model = read(graph, tmp_path)
    (made,) = model.example()
    assert (made.shape, model.example_batch) == ((expected, 3), expected)
    if first in (1, 2):
        with pytest.raises(ValueError, match="batch"):
            model.example(4)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"outputs": ["none"]}, "outputs must be some of Add_3, not none"),
        ({"given": {"y": 1}}, "given must name inputs of x, not 'y'"),
        ({"given": {"x": np.ones((2, 5))}}, "cannot have shape"),
        ({"given": {"x": np.ones((2, 6))}}, "must have an input that is not given"),
    ],
)
def test_arguments_are_checked(how: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        read(mlp(), tmp_path, **how)
