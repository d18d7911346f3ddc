"""The benchmark's commands: what they print and write, their exit codes, and what an interruption leaves."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.perf.benchmarking.made import performance, results
from tests.perf.onnx.graphs import Made
from tinytorch.cli import main
from tinytorch.perf.benchmarking import Results, load_results, running, save_results
from tinytorch.perf.benchmarking.performance import compare_with_first
from tinytorch.perf.benchmarking.worker import measure_process

OWN = ["bench", "--model", "tests.perf.benchmarking.made:two", "--batches", "1,2", "--repeats", "6"]
QUICK = [*OWN, "--at-most-seconds", "0.05", "--processes", "2"]


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let workers run here; the list holds their numbers, and one that is negative there is interrupted."""
    numbers: list[int] = []

    def process(results: Results, number: int, folder: Path | None) -> Any:
        if numbers[:1] == [-1 - number]:
            raise KeyboardInterrupt
        numbers.append(number)
        return measure_process(results.plan, number, not results.performances)

    monkeypatch.setattr(running, "_process", process)
    return numbers


def test_bench_keeps_results_prints_a_table_and_is_silent_in_a_log(
    in_this_process: list[int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "made.json"
    assert main([*QUICK, "--json", str(target)]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert [line.split()[0] for line in said.out.splitlines()[2:4]] == ["one", "other"]
    made = load_results(target)
    speedup = compare_with_first(made.performances)["other"].speedup
    assert (f"open for other: {speedup.because}" in said.out) is not speedup.verdict.is_decided
    assert made.complete
    assert made.code["sha256"]
    assert [*made.performances] == ["one", "other"]


def test_an_interruption_leaves_what_was_measured_and_resume_goes_on(
    in_this_process: list[int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "made.json"
    in_this_process.append(-2)  # process 1 is interrupted
    assert main([*QUICK, "--json", str(target), "--resume"]) == 130  # starts where there is nothing
    assert "--resume continues the run" in capsys.readouterr().err
    before = load_results(target)
    assert (before.done, before.complete) == (1, False)
    in_this_process[0] = 99
    assert main([*QUICK, "--json", str(target), "--resume"]) == 0
    assert in_this_process == [99, 0, 1]
    after = load_results(target)
    assert (after.complete, after.run) == (True, before.run)
    assert after.performances["one"].times[1][:1] == before.performances["one"].times[1]
    assert after.performances["one"].peaks == before.performances["one"].peaks
    assert main([*QUICK, "--json", str(target), "--resume", "--seed", "5"]) == 2
    assert "different options" in capsys.readouterr().err


def _file(folder: Path, batch: int | str = "N") -> tuple[str, np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Write a file of one linear layer; return its path, inputs and its answers, by NumPy."""
    draw = np.random.default_rng(0)
    weight, inputs = draw.normal(size=(4, 3)).astype(np.float32), draw.normal(size=(20, 4)).astype(np.float32)
    made = Made()
    made.output(made.node("MatMul", made.input("x", [batch, 4]), made.constant(weight)))
    made.file(folder, "model.onnx")
    return str(folder / "model.onnx"), inputs, inputs @ weight


@pytest.mark.parametrize("answers", ["labels", "outputs"])
def test_a_file_is_measured_beside_its_plan_and_scored_by_data(
    answers: str, in_this_process: list[int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, inputs, outputs = _file(tmp_path)
    labels = outputs.argmax(axis=1)
    wrong = labels.copy()
    wrong[:5] = (labels[:5] + 1) % 3
    right = {"labels": wrong} if answers == "labels" else {"outputs": np.eye(3, dtype=np.float32)[wrong]}
    np.savez(tmp_path / "test.npz", inputs=inputs, **right)
    options = ["--batches", "1", "--repeats", "6", "--at-most-seconds", "0.05", "--processes", "2"]
    target = str(tmp_path / "made.json")
    run = ["bench", "--model", path, "--plan", "--data", str(tmp_path / "test.npz"), "--json", target, *options]
    assert main(run) == 0
    found = load_results(target).performances
    assert {name: float(one.accuracy) for name, one in found.items() if one.accuracy} == {"model": 0.75, "plan": 0.75}


def test_files_are_measured_side_by_side_in_onnx_runtime_and_scored(
    in_this_process: list[int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, inputs, outputs = _file(tmp_path)
    path = str(Path(path).rename(tmp_path / "model, small.onnx"))
    other = tmp_path / "other.onnx"
    made = Made()
    product = made.node("MatMul", made.input("x", ["N", 4]), made.constant(np.eye(4, 3, dtype="f")))
    made.output(made.node("Neg", product))
    made.file(tmp_path, "other.onnx")
    np.savez(tmp_path / "test.npz", inputs=inputs, outputs=outputs)
    options = ["--batches", "1", "--repeats", "6", "--at-most-seconds", "0.05", "--processes", "2"]
    run = ["bench", "--model", path, "--model", str(other), "--data", str(tmp_path / "test.npz")]
    assert main([*run, "--json", str(tmp_path / "made.json"), *options]) == 0
    found = {name: float(one.accuracy or 0) for name, one in load_results(tmp_path / "made.json").performances.items()}
    right = (outputs.argmax(axis=1) == (-inputs @ np.eye(4, 3)).argmax(axis=1)).mean()
    assert found == {"model, small": 1.0, "other": pytest.approx(right)}
    assert main([*run, "--plan", "--json", str(tmp_path / "made.json")]) == 2
    assert main(["bench", "--model", path, "--model", "a:b", "--json", str(tmp_path / "made.json")]) == 2
    assert "must be a file" in capsys.readouterr().err


def test_the_batch_that_a_file_fixes_is_taken(in_this_process: list[int], tmp_path: Path) -> None:
    target = str(tmp_path / "made.json")
    options = ["--repeats", "6", "--at-most-seconds", "0.05", "--processes", "2", "--json", target]
    assert main(["bench", "--model", _file(tmp_path, 3)[0], *options]) == 0
    assert load_results(target).plan.batches == (3,)


@pytest.mark.parametrize(
    ("answers", "word"),
    [
        ({}, "labels or outputs"),
        ({"labels": np.zeros(2)}, "whole numbers"),
        ({"outputs": np.zeros((2, 1))}, "two or more"),
        ({"labels": np.zeros(1, int)}, "as many"),
    ],
)
def test_data_that_score_nothing_are_refused(
    answers: dict[str, Any], word: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez(tmp_path / "test.npz", inputs=np.zeros((2, 4)), **answers)
    target = tmp_path / "made.json"
    run = ["bench", "--model", _file(tmp_path)[0], "--data", str(tmp_path / "test.npz"), "--json", str(target)]
    assert main(run) == 2
    assert word in capsys.readouterr().err
    assert not target.exists()


def saved(folder: Path, name: str, **seconds: float) -> str:
    made = [performance(key, value, seed=len(name) + index) for index, (key, value) in enumerate(seconds.items())]
    return str(save_results(results(*made), folder / f"{name}.json"))


def test_compare_leaves_with_1_for_a_proven_regression_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base, same = saved(tmp_path, "base", a=1e-3, b=2e-3), saved(tmp_path, "again", a=1e-3, b=2e-3)
    slower = saved(tmp_path, "slowed", a=1.1e-3, b=2e-3)
    none, regression = "no proven regression", "regression: a at batch 1 is slower"
    for files, options, code, said in (
        ([base, same], [], 0, none),
        ([base, slower], [], 1, regression),
        ([slower, base], [], 0, none),
        ([base, slower], ["--matters", "15"], 0, none),
        ([base, slower], ["--matters", "-1"], 2, "0 or more"),
    ):
        assert main(["compare", *files, *options]) == code
        assert said in "".join(capsys.readouterr())


def test_a_comparison_across_machines_warns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = saved(tmp_path, "base", a=1e-3)
    document = json.loads(Path(base).read_text())
    document["values"]["identity"]["cpu"] = "another"
    (tmp_path / "moved.json").write_text(json.dumps(document))
    assert main(["compare", base, str(tmp_path / "moved.json")]) == 0
    assert "warning: this comparison crosses machines" in capsys.readouterr().err


def test_report_writes_a_page_and_markdown_with_the_machine_and_the_front(tmp_path: Path) -> None:
    base = saved(tmp_path, "base", a=1e-3, b=2e-3)
    page, text = tmp_path / "page.html", tmp_path / "page.md"
    assert main(["report", base, base, "--html", str(page), "--markdown", str(text)]) == 0
    html = page.read_text()
    assert html.count("<table") == 2
    assert html.count("<svg") == 2
    assert load_results(base).identity["cpu"] in html
    assert "default-src 'none'" in html
    assert "://" not in html.replace("http://www.w3.org/", "")
    rows = [line for line in text.read_text().splitlines() if line.startswith("| ")]
    assert rows[2].startswith("| a | ")
    assert "No other variant is proven better than: a" in text.read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["bench", "--suite", "mlp", "--json", "no/such/folder/x.json"], "does not exist"),
        (["bench", "--model", "nothing", "--json", "x.json"], "module:factory"),
        (["bench", "--model", "no_such_module:x", "--json", "x.json"], "cannot be imported"),
        (["bench", "--suite", "mlp", "--input-shape", "1,2", "--json", "x.json"], "--input-shape needs --model"),
        (["bench", "--plan", "--json", "x.json"], "--data and --plan need --model"),
        (["bench", "--data", "test.npz", "--json", "x.json"], "--data and --plan need --model"),
        (["bench", "--suite", "mlp", "--batches", "a", "--json", "x.json"], "--batches"),
        (["bench", "--suite", "mlp", "--base", "x", "--json", "x.json"], "must be given together"),
        (["bench", "--suite", "mlp", "--base", "x", "--base-json", "y.json", "--json", "x.json"], "must be a checkout"),
        ([*OWN, "--processes", "0", "--json", "x.json"], "processes must be at least 1"),
        (["report", "x.json"], "give --html FILE or --markdown FILE"),
        (["report", "x.json", "--html", "y.html"], "x.json"),
        (["compare", "{}", "{}"], "cut short"),
        (["report", "{}", "--html", "out.html"], "cut short"),
    ],
)
def test_what_cannot_be_done_is_one_sentence_and_leaves_nothing(
    arguments: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    broken = Path(saved(tmp_path, "base", a=1e-3))
    broken.write_text(broken.read_text()[:-50])
    assert main([part.format(broken) for part in arguments]) == 2
    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1
    assert list(tmp_path.iterdir()) == [broken]
