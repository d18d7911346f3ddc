"""The command line: what it prints and writes, and one sentence with exit code 2 for what it cannot do."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from tests.perf.onnx.graphs import Made
from tests.perf.onnx.made_models import image_net, token_net
from tinytorch import models
from tinytorch.cli import main
from tinytorch.perf.machine import store
from tinytorch.perf.onnx import from_onnx
from tinytorch.perf.profiling import Profiler
from tinytorch.perf.roofline.bounds import WORDS, Bottleneck

pytestmark = pytest.mark.usefixtures("figures_drawn_once", "made_machine")


def written(path: Path) -> dict[str, Any]:
    """Return the document that a command wrote, if it keeps to its form."""
    document: dict[str, Any] = json.loads(path.read_text())
    assert (document["schema"], document["schema_version"]) == ("tinytorch-profile", 2)
    assert 0 < document["op_seconds"] <= document["wall_seconds"]
    overhead = document["profiler_overhead"]
    assert (overhead["unit"], len(overhead["samples"]) >= 6, {*overhead} >= {"median", "interval"}) == ("s", True, True)
    for row in document["ops"]:
        assert {"op", "calls"} < row.keys()
        assert row["bound"] in {*WORDS, None}
        assert all((row[key] or 0) >= 0 for key in ("self_seconds", "flops", "bytes", "allocated", "of_roof"))
    assert all({"path", "depth"} < row.keys() for row in document["layers"])
    return document


#: What has a file run in this package.
OURS = ("--engine", "tinytorch")
FACTORY = """
import numpy as np
from tinytorch.core.layers import Linear
from tinytorch.core.module import Sequential

def plain():
    return Sequential(Linear(5, 4, seed=0), Linear(4, 3, seed=0))

def with_example():
    model = plain()
    model.example_input = np.ones((2, 5), np.float32)
    return model

def broken():
    raise KeyError("lost")

def number():
    return 3
"""


@pytest.fixture
def own_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "own_models_of_the_test.py").write_text(FACTORY)
    (tmp_path / "other.onnx").write_text("no model")
    token_net().file(tmp_path, "tokens.onnx")
    (tmp_path / "OTHER.ONNX").write_text("no model")
    deep = Made()
    deep.output(deep.node("Relu", deep.input("x", ["N", 1000])))
    deep.file(tmp_path, "deep.onnx")
    strange = Made()
    strange.output(strange.node("Own", strange.input("x", [2, 2]), domain="other"))
    strange.file(tmp_path, "strange.onnx")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    monkeypatch.delitem(sys.modules, "own_models_of_the_test", raising=False)
    return tmp_path


@pytest.mark.parametrize("name", ["mlp", "cnn", "gpt"])
def test_each_model_of_the_zoo_is_profiled_in_both_directions(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target, trace, page = (tmp_path / name for name in ("profile.json", "trace.json", "page.html"))
    files = {"json": target, "trace": trace, "html": page}
    options = [word for name, path in files.items() for word in (f"--{name}", str(path))]
    assert main(["profile", name, "--batch", "3", "--backward", *options]) == 0
    document = written(target)
    shape = models.entry(name).example_input(3).shape
    assert document["input_shape"] == list(shape)
    forward = sum(row["flops"] for row in document["ops"] if row["phase"] == "forward")
    assert forward == 3 * Profiler().count_flops(models.entry(name).make(0), shape)
    assert document["summary"]["forward_flops"] == forward
    assert {event["ph"] for event in json.loads(trace.read_text())["traceEvents"]} == {"X", "M", "C"}
    said = capsys.readouterr()
    assert "recording cost" in said.out
    assert said.err == ""
    assert {*tmp_path.iterdir()} == {target, trace, page}
    assert "linear backward" in page.read_text("utf-8")


@pytest.mark.parametrize(("known", "terminal"), [(False, True), (False, False), (True, True)])
def test_who_waits_for_a_measurement_is_told(
    known: bool, terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if not known:
        monkeypatch.setattr(store, "kept_ceilings", lambda threads: None)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    assert main(["profile", "mlp"]) == 0
    assert ("of this machine first" in capsys.readouterr().err) == (not known)


def test_a_files_inputs_are_those_that_are_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    token_net().file(tmp_path, "tokens.ONNX")
    arrays = {each.name: np.ones((3, 5), each.dtype) for each in from_onnx("tokens.ONNX").inputs}
    np.savez("inputs.npz", **arrays)  # type: ignore[arg-type]
    assert main(["profile", "tokens.ONNX", *OURS, "--inputs", "inputs.npz", "--json", "profile.json"]) == 0
    assert json.loads(Path("profile.json").read_text())["input_shape"] == [3, 5]
    read = from_onnx("tokens.ONNX")
    first, *later = arrays
    expected = read(*arrays.values())
    read.stand_ins = {name: arrays[name] for name in later}
    np.testing.assert_array_equal(read(arrays[first]).data, expected.data)
    read.stand_ins = {name: 0 * arrays[name] for name in later}
    assert not np.array_equal(read(arrays[first]).data, expected.data)
    np.savez("other.npz", nothing=np.ones(3))
    capsys.readouterr()
    for options, said in (
        (["tokens.ONNX", "--inputs", "other.npz"], "must hold the inputs"),
        (["tokens.ONNX", "--inputs", "tokens.ONNX"], "numpy.savez"),
        (["tokens.ONNX", *OURS, "--inputs", "other.npz"], "must hold the inputs"),
        (["tokens.ONNX", "--inputs", "inputs.npz", "--batch", "2"], "--batch"),
        (["mlp", "--inputs", "inputs.npz"], "has its own input"),
    ):
        assert main(["profile", *options]) == 2
        assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("factory", "options", "shape"),
    [
        ("plain", ["--input-shape", "5"], [4, 5]),
        ("with_example", [], [4, 5]),
        ("plain", ["--input-shape", "7,5"], [4, 7, 5]),
    ],
)
def test_a_users_own_model(own_models: Path, factory: str, options: list[str], shape: list[int]) -> None:
    target = own_models / "profile.json"
    asked = ["profile", f"own_models_of_the_test:{factory}", "--batch", "4", "--json", str(target), *options]
    assert main(asked) == 0
    document = written(target)
    assert document["input_shape"] == shape
    assert document["summary"]["parameters"] == 5 * 4 + 4 + 4 * 3 + 3


@pytest.mark.parametrize(("option", "length"), [("--seq-len", 5), ("--input-shape", 4)])
def test_a_file_of_another_framework(
    own_models: Path, option: str, length: int, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["profile", "tokens.onnx", "--batch", "2", "--limit", "1", "--json", "profile.json", option, str(length)]
    assert main([*asked, *OURS]) == 0
    document = written(own_models / "profile.json")
    assert document["input_shape"] == [2, length]
    flops = 2 * 2 * (3 * length * 64 + 2 * length**2 * 8 + length * 8 * 32 + length * 32 * 3)
    assert sum(row["flops"] for row in document["ops"]) == document["summary"]["batch_flops"] == flops
    assert {row["phase"] for row in document["ops"]} == {"forward"}
    assert document["summary"]["bottleneck"] in set(Bottleneck)
    predicted = document["summary"]["verdict"]["compute"]
    assert (predicted["seconds"]["unit"], predicted["share"]["unit"]) == ("s", "%")
    lines = capsys.readouterr().out.splitlines()
    rules = [at for at, line in enumerate(lines) if line.startswith("─")]
    assert "ms in all" in lines[rules[0] + 2], "one row was asked for"


def test_a_setting_of_a_file_is_given(own_models: Path) -> None:
    """It chooses the branch: a product of 3 by 2, or none."""
    graph, branches = Made(), {}
    x, setting = graph.input("x", ["batch", 3]), graph.input("rate", [], np.int64)
    weights = graph.constant(np.ones((3, 2), np.float32))
    for name, kind, reads in (("then_branch", "MatMul", [x, weights]), ("else_branch", "Neg", [x])):
        node, output = helper.make_node(kind, reads, [name]), helper.make_tensor_value_info(name, 1, None)
        branches[name] = helper.make_graph([node], name, [], [output])
    fast = graph.node("Equal", setting, graph.constant(np.array(16000)))
    graph.output(graph.node("If", fast, **branches))
    graph.file(own_models, "rate.onnx")
    for rate, flops in ((16000, 2 * 3 * 2), (8000, 0)):
        assert main(["profile", "rate.onnx", *OURS, "--given", f"rate={rate}", "--json", "profile.json"]) == 0
        assert json.loads(Path("profile.json").read_text())["summary"]["batch_flops"] == flops


@pytest.mark.parametrize(
    ("arguments", "shape"),
    [
        (["fixed.onnx", *OURS], [3, 4]),
        (["fixed.onnx", "--batch", "3", *OURS], [3, 4]),
        (["fixed.onnx", "--batch", "1"], None),
        (["two_outputs.onnx", "--batch", "2", *OURS], [2, 3, 16, 16]),
        (["gpt", "--batch", "2", "--seq-len", "5"], [2, 5]),
    ],
)
def test_the_input_is_as_the_file_and_the_options_have_it(
    own_models: Path, arguments: list[str], shape: list[int] | None
) -> None:
    fixed, two_outputs = Made(), image_net()
    fixed.output(fixed.node("Relu", fixed.input("x", [3, 4])))
    fixed.file(own_models, "fixed.onnx")
    two_outputs.output("HardSwish_2")
    two_outputs.file(own_models, "two_outputs.onnx")
    assert main(["profile", *arguments, "--json", "profile.json"]) == (2 if shape is None else 0)
    assert shape is None or json.loads(Path("profile.json").read_text())["input_shape"] == shape


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nonsense"], "one of mlp, cnn, gpt, FILE.onnx, or module:factory, not 'nonsense'"),
        (["no_such_module_here:factory"], "cannot be imported"),
        (["json:nothing"], "must be a function that returns a Module"),
        (["own_models_of_the_test:number", "--input-shape", "5"], "must return a Module, not int"),
        (["own_models_of_the_test:broken", "--input-shape", "5"], "raised KeyError: 'lost'"),
        (["own_models_of_the_test:plain"], "give --input-shape"),
        (["own_models_of_the_test:plain", "--input-shape", "5,x"], "--input-shape must be whole numbers"),
        (["own_models_of_the_test:plain", "--input-shape", "6"], "the last axis of linear's input must have length 5"),
        (["own_models_of_the_test:plain", "--input-shape", "5", "--seq-len", "3"], "exclude each other"),
        (
            ["own_models_of_the_test:with_example", "--seq-len", "9"],
            "the last axis of linear's input must have length 5",
        ),
        (["mlp", "--batch", "0"], "--batch must be at least 1, not 0"),
        (["mlp", "--input-shape", "64"], "--input-shape needs module:factory"),
        (["mlp", "--seq-len", "3"], "--seq-len needs a model that reads tokens"),
        (["gpt", "--seq-len", "0"], "--seq-len must be at least 1"),
        (["gpt", "--seq-len", "1000"], "tokens must have 1 to 20 positions, not 1000"),
        (["no_such_file.onnx"], "No such file"),
        (["OTHER.ONNX"], "OTHER.ONNX"),
        (["model.pt"], "torch.onnx.export"),
        *[
            ([what, "--batch", batch, *more], f"--batch {batch}")
            for batch in (str(10**9), str(10**24))
            for what, *more in (
                ("mlp",),
                ("gpt",),
                ("deep.onnx",),
                ("tokens.onnx", "--seq-len", "64"),
                ("own_models_of_the_test:plain", "--input-shape", "500"),
            )
        ],
        (["other.onnx"], "ONNX Runtime refuses other.onnx"),
        (["other.onnx", *OURS], "other.onnx is no ONNX file"),
        (["tokens.onnx"], "tokens (batch, time) of tensor(int64) leaves axis 1 open: give --axis time=N"),
        (["tokens.onnx", *OURS], "leaves lengths open"),
        (["tokens.onnx", "--axis", "sequence"], "--axis must be NAME=N, such as sequence=128, not 'sequence'"),
        (["tokens.onnx", "--seq-len", "3", "--backward"], "--backward needs --engine tinytorch"),
        (["tokens.onnx", "--threads", "1000"], "--threads must be 1 to"),
        (["mlp", "--threads", "1"], "--threads needs an ONNX file, but mlp is not one"),
        (
            ["tokens.onnx", *OURS, "--threads", "1"],
            "--threads is for ONNX Runtime: it cannot be combined with --engine",
        ),
        (["tokens.onnx", *OURS, "--beside", "other.onnx"], "--beside is for ONNX Runtime: it cannot be combined"),
        (["mlp", *OURS], "--engine needs an ONNX file, but mlp is not one"),
        (["tokens.onnx", "--input-shape", "4", "--seq-len", "4"], "exclude each other"),
        (["tokens.onnx", "--input-shape", "4,2"], "must have 1 length after its batch, not 2"),
        (["tokens.onnx", *OURS, "--input-shape", "4,2"], "cannot have shape (1, 4, 2)"),
        (["strange.onnx"], "ONNX Runtime refuses strange.onnx"),
        (["strange.onnx", *OURS], "strange.onnx holds 1 of 1 nodes that have no translation: other.Own (1 node"),
        (["strange.onnx", *OURS, "--seq-len", "3"], "holds 1 of 1 nodes"),
        (["tokens.onnx", "--given", "rate"], "--given must be NAME=NUMBER, such as rate=16000, not 'rate'"),
        (["tokens.onnx", "--given", "=3"], "--given must name an input"),
        (["tokens.onnx", *OURS, "--given", "rate=3"], "given must name inputs of tokens, attention_mask, not 'rate'"),
        (["mlp", "--given", "rate=3"], "--given needs a file such as model.onnx, not mlp"),
        (["mlp", "--limit", "0"], "--limit must be at least 1"),
        (["mlp", "--json", "no/such/folder/x.json"], "is in a folder that does not exist"),
    ],
)
def test_what_cannot_be_done_is_one_sentence_and_exit_code_2(
    own_models: Path, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["profile", *arguments]) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert captured.err.startswith("tinytorch profile: ")
    assert captured.err.count("\n") == 1
    assert captured.out == ""


@pytest.mark.parametrize(
    ("arguments", "code"), [(["--version"], 0), ([], 2), (["fly"], 2), (["profile", "mlp", "--batch", "x"], 2)]
)
def test_the_version_and_arguments_that_do_not_parse_are_one_sentence_too(
    arguments: list[str], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == code
    said = "".join(capsys.readouterr())
    assert said.startswith("tinytorch")
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("commands", "unused"),
    [
        ([["--help"], ["--version"], ["fly"]], {"numpy"}),
        ([["profile", "mlp", "--batch", "x"]], {"numba", "scipy", "matplotlib", "onnx"}),
        ([["profile", "script.py"]], {"numba", "matplotlib", "onnx"}),
        ([[command, "--colour"] for command in ("diff", "machine", "compare", "report")], {"numba", "matplotlib"}),
    ],
)
def test_nobody_waits_for_what_a_command_does_not_use(
    tmp_path: Path, commands: list[list[str]], unused: set[str]
) -> None:
    (tmp_path / "script.py").write_text("print('ran')")
    code = f"""import sys
from contextlib import suppress
from tinytorch.cli import main
for arguments in {commands}:
    with suppress(SystemExit):
        main(arguments)
    if loaded := sorted({unused} & set(sys.modules)):
        sys.exit(f"{{arguments}} loads {{loaded}}")"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_python_m_tinytorch_is_the_command_line() -> None:
    failed = subprocess.run([sys.executable, "-m", "tinytorch", "profile", "nonsense"], capture_output=True, text=True)
    assert (failed.returncode, failed.stderr.count("\n")) == (2, 1)
    assert failed.stderr.startswith("tinytorch profile: TARGET must be")
