"""Reports of models, by this package and by ONNX Runtime: what they say, compare, write and refuse."""

import importlib.util
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from bs4 import BeautifulSoup
from onnx import TensorProto, helper

from tests.perf.onnx.graphs import Made, normal
from tests.perf.onnx.made_models import loop
from tinytorch.cli import main, runtime_report
from tinytorch.cli.runtime_report import differences_of_outputs
from tinytorch.perf.machine import store
from tinytorch.perf.onnx import runtime_profile
from tinytorch.perf.onnx.runtime import RuntimeModel, file_bytes

pytestmark = pytest.mark.usefixtures("made_machine")

#: What has a file run in this package.
OURS = ("--engine", "tinytorch")
WEIGHT, DEPTHWISE = normal(16, 8, 3, 3, seed=1), normal(16, 1, 3, 3, seed=2)
#: Of each channel: the largest weight is 127.
SCALES = [np.abs(each).max((1, 2, 3)) / np.float32(127) for each in (WEIGHT, DEPTHWISE)]


def convolutions(quantized: bool, dtype: type[np.floating] = np.float32, name: str = "x") -> Made:
    """Return a convolution and a depthwise one, of floats or of 8-bit codes."""
    graph = Made(21)
    x = graph.input(name, ["N", 8, 12, 12], dtype=dtype)
    for weight, scale, step in zip((WEIGHT, DEPTHWISE), SCALES, (0.03, 0.3), strict=True):
        if quantized:
            codes = np.round(weight / scale[:, None, None, None]).astype(np.int8)
            parts = [graph.constant(each) for each in (codes, scale, np.zeros(len(scale), np.int8))]
            kernel = graph.node("DequantizeLinear", *parts, axis=0)
            by = [graph.constant(np.float32(step)), graph.constant(np.uint8(128))]
            x = graph.node("DequantizeLinear", graph.node("QuantizeLinear", x, *by), *by)
        else:
            kernel = graph.constant(weight.astype(dtype))
        x = graph.node("Conv", x, kernel, group=8 // weight.shape[1] if weight is WEIGHT else 16, pads=[1, 1, 1, 1])
    graph.output(x)
    return graph


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    convolutions(False).file(tmp_path, "float.onnx")
    convolutions(True).file(tmp_path, "codes.onnx")
    convolutions(False, np.float16).file(tmp_path, "half.onnx")
    convolutions(False, name="other").file(tmp_path, "other.onnx")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def facts(page: BeautifulSoup, key: str) -> dict[str, str]:
    rows = page.select(f"#table-{key} tbody tr")
    return {row.select("th")[0].get_text(): row.select("td")[0].get_text().replace("\xa0", " ") for row in rows}


def test_the_page_says_what_ran_and_what_it_took(files: Path) -> None:
    asked = ["profile", "float.onnx", "--engine", "tinytorch", "--batch", "3", "--html", "report.html"]
    assert main(asked) == 0
    page = BeautifulSoup((files / "report.html").read_text("utf-8"), "html.parser")
    found = facts(page, "model")
    sample = 2 * 144 * (WEIGHT.size + DEPTHWISE.size)
    assert found["parameters"] == f"{WEIGHT.size + DEPTHWISE.size:,}"
    assert found["weights"] == f"{4 * (WEIGHT.size + DEPTHWISE.size):,} B"
    assert found["FLOPs"] == f"{3 * sample:,}, of one sample {sample:,}"
    assert found["input x"].startswith("(3, 8, 12, 12) of float32, all 0")
    assert found["batch"] == "3"
    assert re.search(r"\d [µm]?s", found["latency"])
    assert found["command"] == " ".join(["tinytorch", *asked])
    assert re.match(r"20\d\d-\d\d-\d\d \d\d:\d\d", found["date"])
    heads = [each.get_text() for each in page.select("#table-layers thead .label")]
    rows = {
        row.th.get_text().strip(): dict(zip(heads, row.select("th, td"), strict=True))
        for row in page.select("#table-layers tbody tr")
        if row.th is not None
    }
    (layer,) = [row for name, row in rows.items() if name.endswith("Conv_0")]
    assert float(str(layer["FLOPs"]["data-value"])) == 3 * 2 * 144 * WEIGHT.size
    assert float(str(layer["parameters"]["data-value"])) == WEIGHT.size
    (most,) = [each for each in page.select("section") if each.h2 is not None and "most" in each.h2.get_text()]
    assert "next" in most.get_text()


def test_a_file_of_codes_beside_the_one_of_floats_that_it_was_made_from(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = normal(2, 8, 12, 12, seed=4)
    np.savez("inputs.npz", x=data)
    assert main(["profile", "codes.onnx", "--beside", "float.onnx", "--inputs", "inputs.npz", "--html", "q.html"]) == 0
    found = facts(BeautifulSoup((files / "q.html").read_text("utf-8"), "html.parser"), "beside")
    # Where a CPU has no instruction for it, ONNX Runtime's product of 8-bit codes saturates: it is its own oracle.
    made, wanted = (
        onnxruntime.InferenceSession(name).run(None, {"x": data})[0] for name in ("codes.onnx", "float.onnx")
    )
    apart = 100 * float(np.abs(made - wanted).max() / np.abs(wanted).max())
    said = found["largest difference of outputs"]
    assert float(said.partition("%")[0]) == pytest.approx(apart, abs=0.02)
    assert "of float.onnx" in found["file"]
    assert "speedup" in found["time"]
    assert said in capsys.readouterr().out.replace("\xa0", " ")


def test_layers_that_stay_float_are_said(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", "codes.onnx", *OURS]) == 0
    (kept,) = re.findall(r"stays float: (.*)", capsys.readouterr().out)
    assert "depthwise" in kept


@pytest.mark.parametrize(("file", "is_said"), [("half.onnx", True), ("float.onnx", False)])
def test_halves_that_are_computed_as_floats_are_said(
    files: Path, file: str, is_said: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["profile", file, *OURS]) == 0
    assert ("float16 is computed" in capsys.readouterr().out) == is_said


@pytest.mark.parametrize(
    ("batch", "options", "is_timed"),
    [(3, ["--batch", "3"], False), ("N", ["--batch", "3", "--axis", "N=3"], False), ("N", ["--batch", "3"], True)],
)
def test_batch_1_is_timed_only_if_the_batch_is_free(
    tmp_path: Path, batch: int | str, options: list[str], is_timed: bool
) -> None:
    graph = Made()
    graph.output(graph.node("Relu", graph.input("x", [batch, 4])))
    path, told = graph.file(tmp_path), tmp_path / "told.json"
    assert main(["profile", str(path), *options, "--json", str(told)]) == 0
    document = json.loads(told.read_text("utf-8"))
    assert document["inputs"]["x"]["shape"] == [3, 4]
    assert ("latency, batch 1" in document["facts"]) == is_timed


@pytest.mark.parametrize(("far", "is_disturbed"), [(-1.0, True), (1e9, False)])
def test_the_report_says_if_times_are_too_uncertain(
    far: float, is_disturbed: bool, files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(runtime_profile, "_FAR", far)
    assert main(["profile", "float.onnx", "--json", "told.json"]) == 0
    document = json.loads((files / "told.json").read_text("utf-8"))
    assert document["profiler"]["is_disturbed"] == is_disturbed
    assert {row["bound"] == "times too uncertain" for row in document["operators"]} == {is_disturbed}
    if is_disturbed:
        assert not document["advice"]
        assert {row["rate"] for row in document["operators"]} == {None}
    assert ("No advice is given" in capsys.readouterr().out) == is_disturbed


def test_a_batch_other_than_the_fixed_one_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = Made()
    graph.output(graph.node("Relu", graph.input("x", ["N", 4])))
    assert main(["profile", str(graph.file(tmp_path)), "--batch", "3", "--axis", "N=2"]) == 2
    assert "--batch 3 does not fit: the file or --axis fixes a batch of 2" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["mlp", "--beside", "float.onnx"], "--beside"),
        (["codes.onnx", "--beside", "mlp"], "--beside"),
        (["codes.onnx", "--beside", "other.onnx"], "must take the inputs"),
        (["codes.onnx", *OURS, "--beside", "float.onnx"], "--beside"),
        (["codes.onnx", "--beside", "lost.onnx"], "lost.onnx"),
        (["--beside", "float.onnx", "train.py"], "--beside needs a model"),
    ],
)
def test_what_cannot_stand_beside_is_said(
    files: Path, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["profile", *arguments]) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert captured.err.count("\n") == 1


def scan() -> Made:
    """Return a graph that sums rows from the first to the last."""
    value = helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("Add", ["sum", "row"], ["next"]), helper.make_node("Identity", ["next"], ["kept"])],
        "body",
        [value("sum", TensorProto.FLOAT, [8]), value("row", TensorProto.FLOAT, [8])],
        [value("next", TensorProto.FLOAT, [8]), value("kept", TensorProto.FLOAT, [8])],
    )
    graph = Made()
    x = graph.input("rows", [4, 8])
    graph.output(graph.node("Scan", graph.constant(np.zeros(8, "f")), x, body=body, num_scan_inputs=1, count=2))
    return graph


def stft() -> Made:
    """Return a graph of a short-time Fourier transform."""
    graph = Made(17)
    x = graph.input("x", [1, 256, 1])
    graph.output(graph.node("STFT", x, graph.constant(np.array(64)), "", graph.constant(np.array(128))))
    return graph


@pytest.mark.parametrize(
    ("kind", "graph"), [("Loop", loop("Add", np.array(1, np.float32))), ("Scan", scan()), ("STFT", stft())]
)
def test_a_file_with_an_operator_without_a_formula_still_has_a_report(
    kind: str, graph: Made, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told, shown = tmp_path / "told.json", tmp_path / "shown.html"
    assert main(["profile", str(graph.file(tmp_path)), *OURS, "--json", str(told), "--html", str(shown)]) == 0
    said = capsys.readouterr().out
    assert re.search(r"batch_flops +not counted", said)
    assert kind.lower() in said.lower()
    document = json.loads(told.read_text("utf-8"))
    assert document["summary"]["batch_flops"] is None
    assert document["summary"]["latency"]["median"] > 0
    assert [each.lower() for each in document["uncounted_ops"]] == [kind.lower()]
    found = facts(BeautifulSoup(shown.read_text("utf-8"), "html.parser"), "model")
    assert found["FLOPs"].lower() == f"not counted: there is no formula for {kind}".lower()


FILES = ("a.onnx", "b.onnx")


@pytest.fixture
def scaled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file of x (N, 4) times a rate that is a scalar input."""
    graph = Made()
    x, rate = graph.input("x", ["N", 4]), graph.input("rate", [])
    graph.output(graph.node("Mul", x, rate))
    monkeypatch.chdir(tmp_path)
    return graph.file(tmp_path)


def test_outputs_are_compared_by_their_largest_difference() -> None:
    ours, theirs = ({"y": np.array(each)} for each in ([1.0, -4.0, 2.0], [1.5, -4.0, 2.0]))
    assert differences_of_outputs(ours, theirs, FILES) == [
        ("largest difference of outputs", "12.50% of the largest element")
    ]


@pytest.mark.parametrize(
    ("ours", "theirs", "said"),
    [
        ([np.nan, 1, 2], [1, 1, 2], "1 of 3 elements are NaN or infinite in a.onnx, but finite in b.onnx"),
        ([1, 1, 2], [np.inf, np.nan, 2], "2 of 3 elements are NaN or infinite in b.onnx, but finite in a.onnx"),
        ([np.inf, 1, 2], [-np.inf, 1, 2], "1 of 3 elements are NaN or infinite in both files, but differ"),
        ([np.nan, np.inf, 2], [np.nan, np.inf, 2], "2 of 3 elements are NaN or infinite in both files"),
    ],
)
def test_outputs_with_nan_or_infinity_are_named(ours: list[float], theirs: list[float], said: str) -> None:
    found = differences_of_outputs({"y": np.array(ours)}, {"z": np.array(theirs)}, FILES)
    assert found == [("largest difference of outputs", "0.00% of the largest element"), ("output y", said)]


def test_outputs_beside_zeros_have_no_relative_difference() -> None:
    found = differences_of_outputs({"y": np.ones(2)}, {"y": np.zeros(2)}, FILES)
    assert found == [("largest difference of outputs", "an output of b.onnx is 0 everywhere")]


def test_saved_inputs_are_completed_by_given_numbers(scaled: Path) -> None:
    np.savez("x.npz", x=normal(3, 4))
    assert main(["profile", str(scaled), "--inputs", "x.npz", "--given", "rate=7", "--json", "told.json"]) == 0
    told = json.loads(Path("told.json").read_text("utf-8"))
    assert told["inputs"]["x"]["shape"] == [3, 4]
    assert told["inputs"]["rate"] == {"shape": [], "dtype": "float32"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("x=1", "--inputs must hold the inputs rate, and both.npz holds x, rate"),
        ("speed=1", "--given must name inputs of x, rate, not speed"),
    ],
)
def test_given_numbers_that_do_not_fit_saved_inputs_are_refused(
    given: str, said: str, scaled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez("both.npz", x=normal(3, 4), rate=np.float32(1))
    assert main(["profile", str(scaled), "--inputs", "both.npz", "--given", given]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(("absent", "is_offered"), [("onnx", False), ("onnxruntime", True)])
def test_our_engine_is_offered_only_if_it_can_read_files(
    absent: str, is_offered: bool, scaled: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def lacking(*_: Any) -> None:
        raise RuntimeError(f"{absent} is not installed: pip install onnx onnxruntime")

    real: Callable[..., Any] = importlib.util.find_spec
    monkeypatch.setattr(runtime_report, "profile_file", lacking)
    monkeypatch.setattr(runtime_report, "find_spec", lambda name: None if name == absent else real(name))
    assert main(["profile", str(scaled)]) == 2
    said = capsys.readouterr().err
    assert f"{absent} is not installed" in said
    assert ("--engine tinytorch" in said) == is_offered


def test_a_trace_is_written_whole_or_not_at_all(
    scaled: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = Path("trace.json")
    assert main(["profile", str(scaled), "--trace", str(trace)]) == 0
    assert any(each.get("cat") == "Node" for each in json.loads(trace.read_text("utf-8")))

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    trace.write_text("earlier", "utf-8")
    monkeypatch.setattr(os, "replace", full)
    assert main(["profile", str(scaled), "--trace", str(trace)]) == 2
    assert trace.read_text("utf-8") == "earlier"
    assert "No space left on device" in capsys.readouterr().err


def test_the_size_of_a_file_counts_its_external_data_and_no_other_file(tmp_path: Path) -> None:
    graph = Made()
    graph.output(graph.node("MatMul", graph.input("x", [1, 64]), graph.constant(normal(64, 64))))
    path = tmp_path / "whole.onnx"
    onnx.save(graph.model(), str(path), save_as_external_data=True, location="weights", size_threshold=0)
    (tmp_path / "whole.onnx.old").write_bytes(b"0" * 99)
    assert file_bytes(path) == path.stat().st_size + 4 * 64 * 64
    assert RuntimeModel(path, 1, lambda *_: {}).file_bytes == file_bytes(path)


def test_the_page_shows_code_as_code_and_says_that_ceilings_are_not_known(
    scaled: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = "This report has no verdicts, because the ceilings of this machine for 1 thread are not known."
    monkeypatch.setattr(store, "kept_ceilings", lambda threads=1: None)
    monkeypatch.setattr(runtime_report, "advice", lambda done: [])
    monkeypatch.setattr(runtime_report, "_advised", lambda done, found: ["Run `this` & that."])
    np.savez("x.npz", x=normal(3, 4), rate=np.float32(2))
    assert main(["profile", str(scaled), "--inputs", "x.npz", "--threads", "1", "--html", "report.html"]) == 0
    page = BeautifulSoup(Path("report.html").read_text("utf-8"), "html.parser")
    assert [each.get_text() for each in page.select("p code")] == ["this"]
    assert "Run this & that." in page.get_text()
    assert said in page.get_text()
    assert said in capsys.readouterr().out
