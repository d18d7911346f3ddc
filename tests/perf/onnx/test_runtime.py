"""Files in ONNX Runtime, against its own counts, closed forms, and profiles whose costs are known."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.perf.onnx.graphs import Made, normal
from tests.perf.onnx.made_models import image_net, loop, token_net
from tinytorch.chapters.your_model import studies
from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.conditions import Conditions
from tinytorch.perf.onnx import count_onnx
from tinytorch.perf.onnx.nodes import Value, work_of
from tinytorch.perf.onnx.runtime import (
    Calibration,
    Declared,
    File,
    RefusedError,
    Run,
    Settings,
    costs_of_chains,
    node_times,
    reason,
    recorded_turns,
    runs_of,
)
from tinytorch.perf.onnx.runtime_profile import RuntimeProfile, advice, made_inputs, profile_file, side_by_side

MICRO = 1e-6


def event(name: str, start: int, lasts: int, cat: str = "Node") -> dict[str, Any]:
    return {"name": f"{name}_kernel_time" if cat == "Node" else name, "cat": cat, "ts": start, "dur": lasts}


def test_nodes_in_the_body_of_another_one_are_part_of_it() -> None:
    one = [
        event("before", 0, 10),
        event("inner", 20, 5),
        event("SequentialExecutor::Execute", 19, 30, "Session"),
        event("inner", 30, 5),
        event("loop", 18, 40),
        event("inner", 60, 7),  # a node of the graph itself that has the same name
        event("SequentialExecutor::Execute", 0, 80, "Session"),
        event("model_run", 0, 100, "Session"),
    ]
    assert runs_of(one * 2, frozenset({"loop"})) == [Run(80, {"before": 10, "loop": 40, "inner": 7})] * 2


def test_a_known_cost_of_records_is_taken_off() -> None:
    """Nodes of 30 and 10 µs and a call of 5, of which records add 4 to each node and 20 to the call."""
    turns = [(69 * MICRO,) * 4] * 8
    runs = [Run(44, {"a": 34, "b": 14})] * (5 * 8)
    with_records = [Run(run.inside, run.nodes) for run in runs]
    recorded = recorded_turns(with_records, turns)
    assert recorded[0].outside == pytest.approx(25 * MICRO)
    plain = [Measurement("turn", (45 * MICRO,) * 4, "s", Conditions())] * 8
    found = node_times(plain, recorded, Calibration((MICRO,), 4 * MICRO, 20 * MICRO), 1)
    assert np.median(found.nodes["a"]) == pytest.approx(30 * MICRO)
    assert np.median(found.nodes["b"]) == pytest.approx(10 * MICRO)
    assert found.call.median == pytest.approx(5 * MICRO)
    assert found.scale == pytest.approx(1)
    assert found.slowdown == pytest.approx(69 / 45)
    with pytest.raises(ValueError, match="runs must be 40, not 39"):
        recorded_turns(runs[1:], turns)


@pytest.mark.parametrize(
    ("recorded", "wall", "record", "outside"), [(7, 1560, 4, 10), (2, 1500, 0, 0)], ids=["idle", "under load"]
)
def test_costs_of_the_profiler_are_those_of_chains_and_never_below_0(
    recorded: int, wall: int, record: float, outside: float
) -> None:
    """A call takes 10 µs and 3 for each node: 70 µs of 20 nodes, 670 of 220."""
    runs = [Run(1540, {f"node {at}": recorded for at in range(220)})] * 4
    found = costs_of_chains([70 * MICRO] * 5, [670 * MICRO] * 5, [wall * MICRO] * 4, runs)
    assert found.node == pytest.approx((3 * MICRO,) * 5)
    assert (found.record, found.outside) == pytest.approx((record * MICRO, outside * MICRO))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_nodes_and_the_call_sum_to_the_latency_however_rounds_differ(seed: int) -> None:
    draw = np.random.default_rng(seed)
    turns = [tuple(draw.uniform(80, 400, 3) * MICRO) for _ in range(9)]
    runs = [Run(60, {name: int(draw.integers(0, 60)) for name in "abc"}) for _ in range(9 * 4)]
    plain = [Measurement("turn", tuple(draw.uniform(70, 300, 3) * MICRO), "s", Conditions()) for _ in range(9)]
    found = node_times(plain, recorded_turns(runs, turns), Calibration((MICRO,), 3 * MICRO, 0.0), 1)
    total = sum(np.median(each) for each in found.nodes.values()) + found.call.median
    assert total == pytest.approx(found.latency.median, rel=1e-9)


def profiled(path: Path, shape: Sequence[int] = (), lengths: dict[str, int] | None = None) -> RuntimeProfile:
    def inputs(declared: Sequence[Declared]) -> dict[str, Any]:
        return made_inputs(declared, lengths or {}, 2, shape or None)

    return profile_file(path, Settings(1), inputs, 2)


@pytest.fixture(scope="module")
def book() -> RuntimeProfile:
    return profiled(studies.FILE, (3, 48, 192))


def test_flops_of_the_file_are_those_that_its_shapes_tell(book: RuntimeProfile) -> None:
    assert book.work.flops == count_onnx(studies.FILE, (2, 3, 48, 192)).flops
    assert sum(row.flops or 0 for row in book.rows) == book.work.flops
    assert not book.work.uncounted


def test_all_nodes_that_run_have_a_time_and_sum_to_the_latency(book: RuntimeProfile) -> None:
    assert {row.name for row in book.rows} == {node.name for node in book.graph.nodes}
    total = sum(row.middle for row in book.rows) + book.times.call.median
    assert total == pytest.approx(book.times.latency.median, rel=1e-9)
    kinds = [(row.kind, row.origins) for row in book.rows]
    assert any(kind.endswith("Conv") and "BatchNormalization" in of for kind, of in kinds)
    own = {node.output[0] for node in onnx.load(str(studies.FILE)).graph.node if node.op_type != "Constant"}
    stood_for = sum(len(row.origins) for row in book.rows)
    assert stood_for + len(book.origins.folded) == len(own)


def test_advice_is_ordered_by_its_gain(book: RuntimeProfile) -> None:
    gains = [each.gain.median for each in advice(book)]
    assert gains == sorted(gains, reverse=True)
    assert all(each.nodes or "call" in each.what for each in advice(book))


def test_nodes_belong_to_the_modules_that_exporters_name(tmp_path: Path) -> None:
    tokens = profiled(token_net().file(tmp_path), (5,), {})
    modules = {row.module for row in tokens.rows}
    assert {"attention", "up", "down"} <= modules
    made = image_net().model()
    for node in made.graph.node:
        node.metadata_props.add(key="pkg.torch.onnx.name_scopes", value="['', 'body.stage', 'conv']")
    onnx.save(made, str(tmp_path / "new.onnx"))
    assert {row.module for row in profiled(tmp_path / "new.onnx").rows if row.origins} == {"body.stage"}


def test_a_loop_has_a_time_and_the_flops_of_its_turns(tmp_path: Path) -> None:
    (row,) = [row for row in profiled(loop("MatMul", normal(8, 8)).file(tmp_path)).rows if row.kind == "Loop"]
    assert row.work.flops == row.flops == 3 * 2 * 4 * 8 * 8


def test_nodes_of_a_function_that_is_written_out_have_times(tmp_path: Path) -> None:
    """ONNX Runtime has no kernel for HardSwish, and gives the nodes that do for it no names."""
    graph = Made()
    x = graph.input("x", [2, 8])
    graph.output(graph.node("HardSwish", graph.node("HardSwish", x)))
    found = profiled(graph.file(tmp_path))
    assert sorted(row.kind for row in found.rows) == ["HardSigmoid", "HardSigmoid", "Mul", "Mul"]
    assert len({row.name for row in found.rows}) == 4


def test_convolutions_in_codes_stand_for_those_of_the_file(tmp_path: Path) -> None:
    """ONNX Runtime joins them with the conversions around them, and gives the nodes and their outputs other names."""
    graph = Made()
    scale, zero = graph.constant(np.float32(0.1)), graph.constant(np.uint8(128))
    codes = graph.constant(np.ones((8, 8, 3, 3), np.uint8))

    def coded(name: str) -> str:
        return graph.node("DequantizeLinear", graph.node("QuantizeLinear", name, scale, zero), scale, zero)

    weight = graph.node("DequantizeLinear", codes, scale, zero)
    x = coded(graph.input("x", [1, 8, 6, 6]))
    for name in ("stem", "head"):
        x = coded(graph.node("Conv", x, weight, name=f"/{name}/Conv"))
    graph.output(x)
    found = profiled(graph.file(tmp_path))
    rows = {row.module: row for row in found.rows if row.kind.endswith("QLinearConv")}
    assert {name: row.flops for name, row in rows.items()} == {"stem": 2 * 8 * 16 * 8 * 9, "head": 2 * 8 * 4 * 8 * 9}
    assert all("Conv" in row.origins and row.flops == row.work.integer for row in rows.values())


def test_an_operator_without_a_formula_is_named(tmp_path: Path) -> None:
    graph = Made(17)
    x = graph.input("x", [1, 256])
    parts = [graph.constant(np.array(value)) for value in (64, 128)]
    graph.output(graph.node("STFT", x, parts[0], "", parts[1]))
    found = profiled(graph.file(tmp_path))
    assert found.work.uncounted == ("STFT",)
    assert [row.flops for row in found.rows if row.kind == "STFT"] == [None]


@pytest.mark.parametrize(
    ("kind", "attributes", "operands", "output", "flops"),
    [
        ("MatMul", {}, [(3, 4, 5), (5, 6)], (3, 4, 6), 2 * 3 * 4 * 5 * 6),
        ("com.microsoft.MatMulNBits", {"K": 32, "N": 8}, [(3, 32), (8, 1, 16)], (3, 8), 2 * 3 * 32 * 8),
        (
            "com.microsoft.QLinearConv", {"channels_last": 1}, [(1, 6, 6, 8), (), (), (16, 8, 3, 3)], (1, 4, 4, 16),
            2 * 16 * 16 * 8 * 9,
        ),
        (
            "com.microsoft.QAttention", {"num_heads": 2}, [(2, 5, 8), (8, 24), (24,), (), (), (), (), ()], (2, 5, 8),
            2 * (2 * 5 * 8 * 24 + 2 * 2 * 5 * 5 * 8),
        ),
        (
            "com.microsoft.DynamicQuantizeLSTM", {"hidden_size": 4}, [(7, 2, 6), (1, 6, 16), (1, 4, 16)], (7, 1, 2, 4),
            2 * 7 * 2 * 16 * (6 + 4),
        ),
        ("com.microsoft.nchwc.Conv", {}, [(1, 8, 6, 6), (16, 8, 3, 3)], (1, 16, 4, 4), 2 * 16 * 16 * 8 * 9),
        (
            "com.microsoft.MultiHeadAttention", {"num_heads": 2}, [(2, 3, 8), (2, 5, 8), (2, 5, 8)], (2, 3, 8),
            2 * 2 * 3 * 5 * (8 + 8),
        ),
        (
            "com.microsoft.Attention", {"num_heads": 2}, [(2, 5, 8), (8, 24)], (2, 5, 8),
            2 * (2 * 5 * 8 * 24 + 2 * 2 * 5 * 5 * 8),
        ),
        (  # one query on itself and a past of 31
            "com.microsoft.MultiHeadAttention", {"num_heads": 2},
            [(1, 1, 16), (1, 1, 16), (1, 1, 16), None, None, None, (1, 2, 31, 8), (1, 2, 31, 8)], (1, 1, 16),
            2 * 1 * 32 * (16 + 16),
        ),
        (
            "com.microsoft.Attention", {"num_heads": 2}, [(1, 1, 16), (16, 48), None, None, (2, 1, 2, 31, 8)],
            (1, 1, 16), 2 * (16 * 48 + 1 * 32 * (16 + 16)),
        ),
        (
            "com.microsoft.Attention", {"num_heads": 2, "qkv_hidden_sizes": [8, 8, 16]}, [(2, 5, 8), (8, 32)],
            (2, 5, 16), 2 * (2 * 5 * 8 * 32 + 2 * 5 * 5 * (8 + 16)),
        ),
    ],
)  # fmt: skip
def test_flops_are_those_of_closed_forms(
    kind: str, attributes: dict[str, Any], operands: list[tuple[int, ...] | None], output: tuple[int, ...], flops: int
) -> None:
    given = [None if shape is None else Value("float", shape) for shape in operands]
    found = work_of(kind, attributes, given, [Value("float", output)])
    assert found.flops == flops
    assert not found.uncounted
    assert found.bytes == 4 * sum(int(np.prod(shape)) for shape in (*operands, output) if shape is not None)


@pytest.mark.parametrize(
    ("kind", "operands"),
    [
        ("MultiHeadAttention", [*[(1, 1, 16)] * 3, None, None, None, (1, 2, 31, 8), (1, 2, 31, 8), (1,)]),
        ("MultiHeadAttention", [(1, 5, 2, 3, 8)]),
        ("Attention", [(1, 1, 16), (16, 48), None, None, (2, 1, 2, 31, 8), None, (1,)]),
    ],
)
def test_attention_whose_past_no_shape_tells_has_no_formula(kind: str, operands: list[tuple[int, ...] | None]) -> None:
    name = f"com.microsoft.{kind}"
    given = [None if shape is None else Value("float", shape) for shape in operands]
    assert work_of(name, {"num_heads": 2}, given, [Value("float", (1, 1, 16))]).uncounted == (name,)


def test_a_file_with_attention_that_has_no_formula_is_counted_without_it(tmp_path: Path) -> None:
    graph = Made()
    packed = graph.input("packed", [1, 5, 2, 3, 8])
    made = graph.node("MultiHeadAttention", packed, domain="com.microsoft", num_heads=2)
    graph.outputs.append(helper.make_tensor_value_info(made, TensorProto.FLOAT, [1, 5, 16]))
    assert count_onnx(graph.file(tmp_path)).uncounted == {"com.microsoft.MultiHeadAttention": 1}


def test_bytes_of_picked_rows_are_not_those_of_the_table() -> None:
    table, rows = Value("float", (50_000, 64)), Value("int64", (1, 8))
    assert work_of("Gather", {}, [table, rows], [Value("float", (1, 8, 64))]).bytes == 2 * 4 * 8 * 64 + 8 * 8
    assert work_of("Reshape", {}, [table, rows], [table]).bytes == 0


def test_outputs_and_times_of_two_files_come_from_the_same_inputs(tmp_path: Path) -> None:
    for name, factor in (("one.onnx", 1.0), ("two.onnx", 2.0)):
        graph = Made()
        x = graph.input("x", ["N", 4])
        graph.output(graph.node("Mul", x, graph.constant(np.float32(factor))))
        graph.file(tmp_path, name)
    paths = {name: (tmp_path / f"{name}.onnx", Settings(1)) for name in ("one", "two")}
    found = side_by_side(paths, lambda _, declared: made_inputs(declared, {}, 3), 0.1)
    (one,), (two,) = (tuple(found.outputs[name].values()) for name in paths)
    np.testing.assert_allclose(two, 2 * one)
    assert one.shape == (3, 4)


def test_what_onnx_runtime_refuses_is_one_sentence(tmp_path: Path) -> None:
    whole = image_net().file(tmp_path).read_bytes()
    cyclic = Made()
    cyclic.nodes += [helper.make_node("Relu", ["b"], ["a"]), helper.make_node("Relu", ["a"], ["b"])]
    cyclic.output("b")
    cyclic.input("x", [1])
    cyclic.file(tmp_path, "cyclic.onnx")
    outside = image_net().model()
    onnx.save(outside, str(tmp_path / "out.onnx"), save_as_external_data=True, location="w", size_threshold=0)
    (tmp_path / "w").unlink()
    (tmp_path / "cut.onnx").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "empty.onnx").write_bytes(b"")
    for name in ("cyclic", "out", "cut", "empty"):
        with pytest.raises(RefusedError, match=f"ONNX Runtime refuses {name}.onnx: .+") as caught:
            File(tmp_path / f"{name}.onnx", Settings(1), tmp_path)
        assert "\n" not in str(caught.value)
        assert ".cc:" not in str(caught.value)


def test_a_reason_is_without_codes_and_places() -> None:
    raised = "[ONNXRuntimeError] : 1 : FAIL : Load model from x failed:/a/b/graph.cc:1453 This is it"
    assert reason(raised) == "Load model from x failed: This is it"


@pytest.mark.parametrize(
    ("kind", "shape", "said"),
    [
        ("tensor(float)", (1, "t"), "leaves axis 1 open: give --axis t=N"),
        ("tensor(float)", (1, None), "give --inputs FILE.npz, or --input-shape"),
        ("seq(tensor(float))", (), "no example of input x"),
        ("tensor(bfloat16)", (1,), "no example of input x"),
    ],
)
def test_inputs_that_cannot_be_made_are_said(kind: str, shape: tuple[Any, ...], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        made_inputs([Declared("x", kind, shape)], {})


def test_inputs_are_valid_ones() -> None:
    declared = [
        Declared("ids", "tensor(int64)", ("batch", "time")),
        Declared("attention_mask", "tensor(int64)", ("batch", "time")),
        Declared("words", "tensor(string)", ("batch",)),
        Declared("empty", "tensor(float)", (0, 3)),
        Declared("rate", "tensor(int64)", ()),
        Declared("past", "tensor(float16)", ("batch", 2, "time", 4)),
    ]
    made = made_inputs(declared, {"time": 5}, 3, given={"rate": 16000})
    assert {name: array.shape for name, array in made.items()} == {
        "ids": (3, 5), "attention_mask": (3, 5), "words": (3,), "empty": (0, 3), "rate": (), "past": (3, 2, 5, 4),
    }  # fmt: skip
    assert not made["ids"].any()
    assert made["attention_mask"].all()
    assert made["rate"] == 16000
    assert made["past"].dtype == np.float16
    assert json.dumps(made["words"].tolist()) == '["a", "a", "a"]'
