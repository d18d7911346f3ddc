"""The report on a file in ONNX Runtime: how its inputs are made, what is compared, and which files it writes."""

import importlib.util
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from bs4 import BeautifulSoup

from tests.perf.onnx.graphs import Made, normal
from tinytorch.cli import main, runtime_report
from tinytorch.cli.runtime_report import differences_of_outputs
from tinytorch.perf.machine import store
from tinytorch.perf.onnx.runtime import RuntimeModel, file_bytes

pytestmark = pytest.mark.usefixtures("made_machine")

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
