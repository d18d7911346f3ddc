"""Programs of any kind under the profiler, by the command: each is reported, whatever it does and however it ends.

They work until they were looked at, however long that takes.
"""

import builtins
import io
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tinytorch.cli import main
from tinytorch.cli.program_report import html_report
from tinytorch.perf.events.trace import stacks_of
from tinytorch.perf.profiling.breakdown import NOT_NAMED
from tinytorch.perf.profiling.lines import library_of
from tinytorch.perf.profiling.program import IMPORT, profile_program

pytestmark = pytest.mark.usefixtures("made_machine")

#: Work of the interpreter's own until the thread that samples stacks has looked at them so many times more.
SPIN = """
import threading
def unseen(looks=9):
    (thread,) = [each for each in threading.enumerate() if each.name == "tinytorch: looks"]
    sampler = thread._target.__self__
    until = sampler._looks + looks
    while sampler._looks < until and thread.is_alive():
        yield
def spin(looks=9):
    for _ in unseen(looks):
        for _ in range(1000):
            pass
"""


def report_of(folder: Path, text: str) -> Any:
    """Return what the profile of a program has as JSON."""
    (folder / "train.py").write_text(text)
    return profile_program(str(folder / "train.py")).to_json()


def command(folder: Path, *arguments: str) -> tuple[int, Any, str]:
    """Return exit code, the JSON that the command wrote (None without), and all that it said."""
    target = folder / "report.json"
    asked = [sys.executable, "-m", "tinytorch", "profile", "--json", target.name, *arguments]
    here = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run(asked, cwd=folder, env=here, capture_output=True, text=True)
    return done.returncode, json.loads(target.read_text()) if target.is_file() else None, done.stdout + done.stderr


#: What follows work, after how many seconds it is stopped, and the exit code.
ENDS = {
    "of itself": ("", None, 0),
    "in another folder": ("import os, tempfile; os.chdir(tempfile.mkdtemp())", None, 0),
    "by sys.exit": ("import sys; sys.exit(3)", None, 3),
    "by an exception": ("raise KeyError('lost')", None, 1),
    "by an exception that is no error": ("raise GeneratorExit", None, 1),
    "by Ctrl-C": (  # which a program in the background of a shell has switched off
        "import os, signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "os.kill(os.getpid(), signal.SIGINT); spin(1000)",
        None,
        130,
    ),
    "by KeyboardInterrupt": ("raise KeyboardInterrupt", None, 130),
    "terminated": ("import os, signal; os.kill(os.getpid(), signal.SIGTERM); spin(1000)", None, 143),
    "when its time is over, though it catches errors": (
        "import os, signal; assert 0 < signal.getitimer(signal.ITIMER_REAL)[0] <= 1000\n"
        "try: os.kill(os.getpid(), signal.SIGALRM); spin(1000)\nexcept Exception: pass",
        1000,
        124,
    ),
    "with its output elsewhere": ("import io, sys; sys.stdout = sys.stderr = io.StringIO()", None, 0),
    "deep in a recursion": ("def down(n):\n    down(n - 1) if n else spin()\ndown(900)", None, 0),
    "by os._exit": ("import os; os._exit(5)", None, 5),
}


@pytest.mark.parametrize("ends", ENDS)
def test_there_is_a_report_however_a_program_ends(ends: str, tmp_path: Path) -> None:
    text, seconds, code = ENDS[ends]
    (tmp_path / "train.py").write_text(f"{SPIN}spin()\n{text}\n")
    done = profile_program(str(tmp_path / "train.py"), seconds=seconds)
    assert done.exit_code == code
    assert "spin" in {row["function"] for row in done.to_json()["functions"]}
    assert "spin" in html_report(done.name, done.profiler, None, program=done)
    nanoseconds = sum(int(line.rsplit(" ", 1)[1]) for line in stacks_of(done.tree()).splitlines())
    assert nanoseconds == pytest.approx(done.profiler.run.wall_seconds * 1e9, rel=0.01)


def test_the_command_reports_on_a_program_whose_threads_never_end_and_leaves(tmp_path: Path) -> None:
    text = f"""{SPIN}import os, signal
def work():
    spin()
    signal.setitimer(signal.ITIMER_REAL, 0.001, 1)
    spin(10**9)
os.chdir("/")
threading.Thread(target=work).start()
"""
    (tmp_path / "train.py").write_text(text)
    code, report, said = command(tmp_path, "--seconds", "1000", "train.py")
    assert (code, report["exit_code"]) == (124, 124), said
    assert "spin" in said


@pytest.mark.parametrize("kind", ["-m package.module", "-m package", "-m module", "folder", "archive", "-", "script"])
def test_a_program_is_named_as_python_names_it(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = f"{SPIN}import sys\nprint(__name__, sys.argv[1:])\nspin()\n"
    name = f"pack{abs(hash(kind))}"  # a module that is loaded is not found anew
    (tmp_path / name).mkdir()
    for file in ("__init__", "module", "__main__"):
        (tmp_path / name / f"{file}.py").write_text("" if "init" in file else text)
    for file in (f"{name}_module.py", "script"):
        (tmp_path / file).write_text(text)
    with zipfile.ZipFile(tmp_path / "archive.pyz", "w") as archive:
        archive.writestr("__main__.py", text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    what = {"folder": name, "archive": "archive.pyz"}.get(kind, kind.removeprefix("-m "))
    what = what.replace("package", name) if "package" in what else what.replace("module", f"{name}_module")
    assert main(["profile", "--json", "r.json", *(["-m"] if "-m" in kind else []), what, "--limit", "x"]) == 0
    assert "__main__ ['--limit', 'x']" in capsys.readouterr().out
    assert "spin" in {row["function"] for row in json.loads((tmp_path / "r.json").read_text())["functions"]}


def test_own_time_library_time_and_compiled_time_are_apart_and_threads_have_rows_of_their_own(tmp_path: Path) -> None:
    text = f"""{SPIN}import queue
lock, waiting = threading.Lock(), queue.Queue()
def compiled():
    lock.acquire()
def library():
    waiting.get()
def main():
    with lock:
        for each in compiled, library:
            threading.Thread(target=each, name=each.__name__).start()
        spin(50)
    waiting.put("the end")
main()
"""
    report = report_of(tmp_path, text)
    rows = {row["function"]: row for row in report["functions"]}
    for name, whose in (("spin", "own"), ("compiled", "compiled"), ("library", "library")):
        assert rows[name][f"{whose}_share"] > 0, name
    assert rows["main"]["with_callees"] >= rows["spin"]["share"]
    calls = {(row["library"], row["what"]) for row in report["library_calls"]}
    assert calls >= {("compiled code", "lock.acquire"), ("queue", "waiting.get")}
    assert {row["thread"] for row in report["threads"]} == {"MainThread", "compiled", "library"}
    lines, *others = (sum(row["share"] for row in report[table]) for table in ("lines", "functions", "threads"))
    assert others == pytest.approx([lines] * 2)


def test_a_blocking_call_of_compiled_code_is_its_lines(tmp_path: Path) -> None:
    """`sum` keeps the lock, so that no thread can look meanwhile."""
    report = report_of(tmp_path, f"{SPIN}a = range(1_000_000)\nfor _ in unseen():\n    b = sum(a)\n")
    assert {row["source"]: row["compiled_share"] for row in report["lines"]}["b = sum(a)"] > 0


def test_processes_are_followed_or_named(tmp_path: Path) -> None:
    """Of one that is killed what it wrote counts, which it does at every fifth look and ever more seldom."""
    text = f"""{SPIN}import multiprocessing, os, subprocess, sys
if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(1) as pool:
        pool.map(spin, [40])
    started = multiprocessing.get_context("spawn").Process(target=spin, args=(40,))
    started.start(), started.join()
    subprocess.run([sys.executable, "other.py"])
    subprocess.run(["sleep", "0.01"])
    if os.fork() == 0:
        spin(40)
    else:
        os.wait()
        print("the end")
"""
    (tmp_path / "train.py").write_text(text)
    (tmp_path / "other.py").write_text(f"{SPIN}spin(40)\n")
    found, report, said = command(tmp_path, "train.py")
    assert (found, said.count("the end")) == (0, 1), said
    spinning = [row for row in report["lines"] if row["own_share"] > 0 and row["function"] == "spin"]
    assert len({row["thread"].split(",")[0] for row in spinning}) == 4, report["remarks"]
    (unseen,) = [remark for remark in report["remarks"] if "not seen" in remark]
    assert ("sleep 0.01" in unseen, "other.py" in unseen) == (True, False)


def test_a_fork_that_is_terminated_ends_as_without_a_profiler(tmp_path: Path) -> None:
    """A handler of the profiler's in a worker would run too late where the worker waits for a lock for ever."""
    text = f"""{SPIN}import os, resource, signal
for _ in range(20):
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (9, 9))
        spin(10**9)
        os._exit(0)
    os.kill(child, signal.SIGTERM)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
ends = os.pipe()
child = os.fork()
if child == 0:
    spin(40)
    os.write(ends[1], b"seen")
    spin(10**9)
os.read(ends[0], 4)
os.kill(child, signal.SIGTERM)
os.waitpid(child, 0)
"""
    (tmp_path / "train.py").write_text(text)
    found, report, said = command(tmp_path, "train.py")
    assert (found, said.count("-15\n"), "Traceback" in said) == (0, 20, False), said
    assert "spin" in {row["function"] for row in report["functions"]}


def test_what_the_processs_state_was_before_it_is_after_it(tmp_path: Path) -> None:
    def state() -> tuple[object, ...]:
        return os.getcwd(), [*sys.path], [*sys.argv], sys.modules["__main__"], dict(os.environ), builtins.__import__

    (tmp_path / "train.py").write_text("import os, sys\nos.chdir('/')\nsys.path.append('x')\nsys.argv.append('y')\n")
    before = state()
    profile_program(str(tmp_path / "train.py"))
    assert state() == before


@pytest.mark.parametrize(
    ("file", "library"),
    [
        ("/home/a/train.py", None),
        ("/home/a/venv/lib/python3.11/site-packages/numpy/linalg/_linalg.py", "numpy"),
        ("/usr/lib/python3/dist-packages/six.py", "six"),
        (json.__file__, "json"),
        ("<frozen importlib._bootstrap>", "importlib"),
        ("<__array_function__ internals>", "code without a file"),
        ("<stdin>", None),
    ],
)
def test_a_file_is_of_a_library_or_the_programs_own(file: str, library: str | None) -> None:
    assert library_of(file) == library
    assert library_of(file, (str(Path(file).parent),)) is None or file.startswith("<")


SCRIPT = """
import sys
import numpy as np
from beside_of_the_test import SIZE
from tinytorch.core.layers import Linear
from tinytorch.core.tensor import Tensor
from tinytorch.perf.profiling import region

print(__name__, *sys.argv[1:])
layer = Linear(SIZE, 2, seed=0)
with region("augment"):
    x = np.ones((3, SIZE), np.float32)
layer(Tensor(x))
if "say" in sys.argv:
    sys.exit("no such thing")
"""


def test_a_script_runs_as_the_main_module_with_its_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "beside_of_the_test.py").write_text("SIZE = 4\n")
    monkeypatch.delitem(sys.modules, "beside_of_the_test", raising=False)
    script = str(tmp_path / "train.py")
    done = profile_program(script, ["--epochs", "3"], memory=True)
    assert capsys.readouterr().out == "__main__ --epochs 3\n" * 2, "memory takes a second run"
    assert done.profiler.memory.highest["parameters"] == 4 * (4 * 2 + 2)
    assert (done.exit_code, done.name) == (0, f"{script} --epochs 3")
    rows = {row.op: row for row in done.profiler.attribution()}
    assert rows.keys() >= {"linear", "augment", IMPORT, NOT_NAMED}
    assert rows["augment"].calls == 1
    assert rows["linear"].flops == 2 * 3 * 4 * 2
    assert sum(row.share or 0 for row in rows.values()) == pytest.approx(1)
    done = profile_program(script, ["say"])
    assert (done.exit_code, [event.op for event in done.profiler.run.events]) == (1, ["linear"])
    assert "no such thing" in capsys.readouterr().err
    with pytest.raises(ValueError, match="file"):
        profile_program(f"{script}.none")
