"""Programs of any kind under the profiler: each runs as Python runs it, and is reported whatever it does.

They work for so much processor time that they are looked at even on a busy machine. Shares are checked against the
clocks that a program reads itself, in the same run.
"""

import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tinytorch.cli import main
from tinytorch.cli.program_report import html_report
from tinytorch.perf.events.remote_stacks import UnreadableError
from tinytorch.perf.events.trace import stacks_of
from tinytorch.perf.profiling import program
from tinytorch.perf.profiling.lines import library_of
from tinytorch.perf.profiling.program import ProgramProfile, profile_program

pytestmark = pytest.mark.usefixtures("made_machine")

#: Work of the interpreter's own, for so many seconds of the processor's time.
SPIN = """
import time
def spin(seconds=0.3):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        for _ in range(1000):
            pass
"""


def profiled(folder: Path, text: str, *arguments: str, **how: Any) -> ProgramProfile:
    """Return the profile of a program."""
    (folder / "train.py").write_text(text)
    return profile_program(str(folder / "train.py"), arguments, **how)


#: What follows work, after how many seconds it is stopped, and the exit code.
ENDS = {
    "of itself": ("", None, 0),
    "in another folder": ("import os, tempfile; os.chdir(tempfile.mkdtemp())", None, 0),
    "by sys.exit": ("import sys; sys.exit(3)", None, 3),
    "by sys.exit with a text": ("import sys; sys.exit('why')", None, 1),
    "by an exception": ("raise KeyError('lost')", None, 1),
    "by KeyboardInterrupt": ("raise KeyboardInterrupt", None, 130),
    "terminated": ("import os, signal; os.kill(os.getpid(), signal.SIGTERM); spin(1000)", None, 143),
    "when its time is over": ("spin(1000)", 1.0, 124),
    "when its time is over, though it catches everything": (
        "while True:\n    try: spin(1000)\n    except BaseException: pass",
        1.0,
        124,
    ),
    "with its output closed": ("import os; os.closerange(1, 256)", None, 0),
    "by os._exit": ("import os; os._exit(5)", None, 5),
    "by os._exit within what catches everything": (
        "import os\ntry: os._exit(5)\nexcept BaseException: print('went on')",
        None,
        5,
    ),
    "by a fault": ("import os; os.abort()", None, 134),
    "by another program": ("import os, sys; os.execv(sys.executable, [sys.executable, '-c', 'exit(4)'])", None, 4),
}


@pytest.mark.looks_into_processes
@pytest.mark.parametrize("ends", ENDS)
def test_there_is_a_report_however_a_program_ends(ends: str, tmp_path: Path) -> None:
    text, seconds, code = ENDS[ends]
    done = profiled(tmp_path, f"{SPIN}spin()\n{text}\n", seconds=seconds)
    assert done.exit_code == code, done.remarks
    assert "spin" in {row["function"] for row in done.to_json()["functions"]}
    assert "spin" in html_report(done.name, None, None, program=done)
    assert done.lines is not None
    nanoseconds = sum(int(line.rsplit(" ", 1)[1]) for line in stacks_of(done.lines.tree()).splitlines())
    assert nanoseconds * 1e-9 == pytest.approx(done.wall_seconds - done.lines.start_seconds, rel=0.01)


#: Programs that behave the same with and without a profiler; each prints what it saw.
ALIKE = {
    "types of a dataclass": "import dataclasses\n@dataclasses.dataclass\nclass A:\n    n: int = 3\n"
    "print([f.type('7') for f in dataclasses.fields(A)])",
    "a pool that nobody shuts down": "from concurrent.futures import ThreadPoolExecutor\n"
    "pool = ThreadPoolExecutor(2)\nprint(list(pool.map(abs, [-1, 2])))",
    "threads that are waited for": "import threading\nprint([one.name for one in threading.enumerate()])",
    "excepthook": "import sys\nsys.excepthook = lambda kind, *_: print('hook', kind.__name__)\nraise ValueError",
    "atexit": "import atexit, os, sys\natexit.register(lambda: print(os.path.basename(os.getcwd()), sys.argv[1:]))\n"
    "os.chdir('/')",
    "a child that leaves a file open": "import os\nif os.fork() == 0:\n"
    "    f = open('child.txt', 'w'); f.write('x')\nelse:\n    os.wait(); print(open('child.txt').read())",
    "codes of children": "import os, sys\nif os.fork() == 0: sys.exit(7)\n"
    "print(os.waitstatus_to_exitcode(os.wait()[1]))",
    "descriptors": "import os\nprint(sorted(os.listdir('/proc/self/fd')) if os.path.isdir('/proc/self/fd') else '')",
    "signals": "import signal\nprint([signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE)])",
    "an alarm": "import signal, time\nsignal.signal(signal.SIGALRM, lambda *_: print('alarm'))\n"
    "signal.setitimer(signal.ITIMER_REAL, 0.05)\ntime.sleep(0.2)",
    "main module": "import sys\nprint(__file__, __name__, __spec__, type(__loader__), sys.argv, sys.path[0])",
    "environment": "import os\nprint(sorted(os.environ))",
    "modules": "import sys\nprint('tinytorch' in sys.modules, 'numpy' in sys.modules)",
    "recursion near the limit": "def down(n): return n and 1 + down(n - 1)\nprint(down(960))",
    "a warning of a module": "import warnings\nwarnings.warn('old', DeprecationWarning)\nprint('end')",
    "input": "print(input(), input())",
    "pickling": "import pickle\nclass A: pass\nprint(type(pickle.loads(pickle.dumps(A()))).__name__)",
    "a pool of processes": "import multiprocessing\ndef f(x): return x * x\nif __name__ == '__main__':\n"
    "    with multiprocessing.get_context('spawn').Pool(2) as pool: print(pool.map(f, [2, 3]))",
}


@pytest.mark.parametrize("name", ALIKE)
def test_a_program_behaves_as_without_a_profiler(name: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(ALIKE[name])
    said = []
    for command in ([], ["-m", "tinytorch", "profile"]):
        asked = [sys.executable, *command, "train.py", "--x", "3"]
        done = subprocess.run(asked, cwd=tmp_path, input="one\ntwo\n", capture_output=True, text=True)
        said.append(done)
    alone, watched = said
    assert (watched.returncode, watched.stderr) == (alone.returncode, alone.stderr)
    assert watched.stdout.startswith(alone.stdout)
    assert len(watched.stdout) > len(alone.stdout)  # by the report


#: Programs that print what their parts take by their own clocks; the parts are functions, or lines with a comment.
SHARES = {
    "Python, then a product that gives up the lock": """
import numpy as np
a = np.ones((64, 64), np.float32)
def python():
    x = 1.0
    for i in range(20_000): x = x * 0.5 + 1.0
def product():
    for _ in range(4): a @ a
for _ in range(500): timed(python); timed(product)
""",
    "a costly function next to a trivial one": """
def costly():
    x = 1.0
    for _ in range(4_000):
        x = x * 1.0001 + x ** 0.5 - x ** 0.25 + x ** 0.125 - x ** 0.0625 + x ** 0.03
def trivial():
    x = 1.0
    for _ in range(2_000): x = x * 0.5
for _ in range(500): timed(costly); timed(trivial)
""",
    "deep in a recursion": """
def deep(n=100):
    if n: return deep(n - 1)
    for _ in range(20_000): pass
def flat():
    for _ in range(5_000): pass
for _ in range(1500): timed(deep); timed(flat)
""",
    "waiting and working": """
def waiting(): time.sleep(0.004)
def working():
    for _ in range(60_000): pass
for _ in range(200): timed(waiting); timed(working)
""",
}
CLOCKS = """
import json, sys, time
spent = {}
def timed(function):
    begun = time.perf_counter()
    function()
    spent[function.__name__] = spent.get(function.__name__, 0) + time.perf_counter() - begun
"""


@pytest.mark.looks_into_processes
@pytest.mark.parametrize("name", SHARES)
def test_shares_are_those_that_the_programs_own_clocks_show(name: str, tmp_path: Path) -> None:
    end = "open(sys.argv[1], 'w').write(json.dumps(spent))"
    done = profiled(tmp_path, f"{CLOCKS}{SHARES[name]}{end}", str(tmp_path / "spent.json"))
    spent = json.loads((tmp_path / "spent.json").read_text())
    report = done.to_json()
    rows = {row["function"]: row for row in report["functions"]}
    for function, seconds in spent.items():
        right = seconds / (report["wall_seconds"] - report["start_seconds"])
        low, high = rows[function]["callees_low"], rows[function]["callees_high"]
        is_told = any("all cores were busy" in remark for remark in done.remarks)
        assert is_told or low - 0.05 < right < high + 0.05, (function, right, rows[function]["with_callees"])


@pytest.mark.looks_into_processes
def test_the_line_of_a_body_that_takes_the_time_is_named(tmp_path: Path) -> None:
    """It has neither a jump nor a call, next to lines that have both."""
    costly = "; ".join(["x = x * 1.0000001 + 0.5 - x * 0.5"] * 40)
    text = f"def cheap(x): return x\nx = 1.0\nfor i in range(150_000):\n    {costly}  # costly\n    x = cheap(x)\n"
    done = profiled(tmp_path, f"def main():\n    {text.replace(chr(10), chr(10) + '    ')}\nmain()\n")
    assert done.lines is not None
    longest = done.lines.lines[0]
    assert "# costly" in longest["source"]
    assert longest["low"] < longest["share"] < longest["high"]


@pytest.mark.looks_into_processes
def test_rows_with_few_looks_are_uncertain(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = profiled(tmp_path, f"{SPIN}spin()\n")
    assert done.lines is not None
    assert done.lines.uncertain(5 / done.lines.effective_looks)
    assert not done.lines.uncertain(50 / done.lines.effective_looks)
    low, high = done.lines.interval(0.5)
    assert 0 < low < 0.5 < high < 1


@pytest.mark.parametrize("kind", ["-m package.module", "-m package", "-m module", "folder", "archive", "-", "script"])
def test_a_program_is_named_as_python_names_it(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    text = f"{SPIN}import sys\nprint(__name__, sys.argv[1:])\nspin()\n"
    (tmp_path / "package").mkdir()
    for file in ("__init__", "module", "__main__"):
        (tmp_path / "package" / f"{file}.py").write_text("" if "init" in file else text)
    for file in ("module.py", "script.py"):
        (tmp_path / file).write_text(text)
    with zipfile.ZipFile(tmp_path / "archive.pyz", "w") as archive:
        archive.writestr("__main__.py", text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    names = {"folder": "package", "archive": "archive.pyz", "script": "script.py"}
    what = names.get(kind, kind.removeprefix("-m "))
    assert main(["profile", "--json", "r.json", *(["-m"] if "-m" in kind else []), what, "--limit", "x"]) == 0
    assert "__main__ ['--limit', 'x']" in capfd.readouterr().out
    document = json.loads((tmp_path / "r.json").read_text())
    called = document["functions"] or document["inside"]["called"]
    assert "spin" in {row["function"] for row in called}


@pytest.mark.looks_into_processes
def test_own_time_library_time_and_compiled_time_are_apart_and_threads_have_rows_of_their_own(tmp_path: Path) -> None:
    text = f"""{SPIN}import queue, threading
lock, waiting = threading.Lock(), queue.Queue()
def compiled():
    lock.acquire()
def library():
    waiting.get()
def main():
    with lock:
        for each in compiled, library:
            threading.Thread(target=each, name=f"{{each.__name__}} ∑").start()
        spin()
    waiting.put("the end")
main()
"""
    done = profiled(tmp_path, text)
    report = done.to_json()
    rows = {row["function"]: row for row in report["functions"]}
    is_told = any("all cores were busy" in remark for remark in done.remarks)
    for name, whose in (("spin", "own"), ("compiled", "compiled"), ("library", "library")):
        assert rows[name]["share"] > 0, name
        assert is_told or rows[name][f"{whose}_share"] > 0.5 * rows[name]["share"], name
    assert rows["main"]["with_callees"] >= rows["spin"]["share"]
    calls = {(row["library"], row["what"]) for row in report["library_calls"]}
    assert calls >= {("compiled code", "lock.acquire"), ("queue", "waiting.get")}
    assert {row["thread"] for row in report["threads"]} == {"MainThread", "compiled ∑", "library ∑"}
    lines, *others = (sum(row["share"] for row in report[table]) for table in ("lines", "functions", "threads"))
    assert others == pytest.approx([lines] * 2)


@pytest.mark.looks_into_processes
def test_processes_are_followed_or_named(tmp_path: Path) -> None:
    text = f"""{SPIN}import multiprocessing, os, subprocess, sys
if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(1) as pool:
        pool.map(spin, [0.3])
    started = multiprocessing.get_context("spawn").Process(target=spin)
    started.start(), started.join()
    subprocess.run([sys.executable, "-c", {SPIN!r} + "spin()"])
    subprocess.run(["sleep", "0.5"])
    if os.fork() == 0:
        spin()
    else:
        os.wait()
"""
    report = profiled(tmp_path, text).to_json()
    spinning = [row for row in report["lines"] if row["share"] > 0 and row["function"] == "spin"]
    assert len({row["thread"].split(",")[0] for row in spinning}) >= 3, report["remarks"]
    (unseen,) = [remark for remark in report["remarks"] if "not seen" in remark]
    assert "sleep 0.5" in unseen


@pytest.mark.looks_into_processes
def test_a_program_that_runs_already_is_looked_at_and_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "serve.py").write_text(f"{SPIN}print('ready', flush=True)\nspin(1000)\n")
    asked = [sys.executable, str(tmp_path / "serve.py")]
    with subprocess.Popen(asked, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        done = program.profile_process(process.pid, 0.5)
        assert process.poll() is None
        process.kill()
    assert "spin" in {row["function"] for row in done.to_json()["functions"]}
    with pytest.raises(ValueError, match="no process"):
        program.profile_process(process.pid)


def test_where_nobody_may_look_calls_are_counted_and_no_share_of_a_line_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def refuse() -> None:
        raise UnreadableError("the system lets nobody look")

    monkeypatch.setattr(program, "layout", refuse)
    (tmp_path / "train.py").write_text(f"{SPIN}import sys\nfor _ in range(7): spin(0.01)\nsys.exit(3)\n")
    monkeypatch.chdir(tmp_path)
    assert main(["profile", "--json", "r.json", "--html", "r.html", "train.py"]) == 3
    said = capfd.readouterr().out
    assert "the system lets nobody look" in said
    assert "counting made each call" in said
    document = json.loads((tmp_path / "r.json").read_text())
    assert {row["function"]: row["calls"] for row in document["inside"]["called"]}["spin"] == 7
    assert (document["lines"], document["exit_code"]) == ([], 3)
    assert "spin" in (tmp_path / "r.html").read_text()


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

print(__name__, *sys.argv[1:], flush=True)
layer = Linear(SIZE, 2, seed=0)
with region("augment"):
    x = np.ones((3, SIZE), np.float32)
layer(Tensor(x))
if "say" in sys.argv:
    sys.exit("no such thing")
"""


@pytest.mark.looks_into_processes
def test_operations_and_memory_are_recorded_by_runs_of_their_own(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "beside_of_the_test.py").write_text("SIZE = 4\n")
    done = profiled(tmp_path, SCRIPT, "--epochs", "3", ops=True, memory=True)
    assert capfd.readouterr().out == "__main__ --epochs 3\n" * 3
    assert done.inside is not None
    profiler = done.inside.profiler
    assert profiler is not None
    assert profiler.memory.highest["parameters"] == 4 * (4 * 2 + 2)
    rows = {row.op: row for row in profiler.attribution()}
    assert rows.keys() >= {"linear", "augment"}
    assert rows["linear"].flops == 2 * 3 * 4 * 2
    assert sum(row.share or 0 for row in rows.values()) == pytest.approx(1)
    done = profiled(tmp_path, SCRIPT, "say", ops=True)
    assert done.exit_code == 1
    assert done.inside is not None
    assert done.inside.profiler is not None
    assert [event.op for event in done.inside.profiler.run.events] == ["linear"]
    with pytest.raises(ValueError, match="file"):
        profile_program(str(tmp_path / "none.py"))


@pytest.mark.looks_into_processes
def test_only_runs_that_end_as_the_first_are_saved(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "once.py").write_text(f"import os\nos.mkdir('made')\n{SPIN}spin()\n")
    assert main(["profile", "--save", "once.json", "--repeats", "2", "once.py"]) == 2
    assert "run 2 of the script ended with exit code 1, and the first with 0" in capfd.readouterr().err
    assert not (tmp_path / "once.json").exists()
    (tmp_path / "helper.py").write_text(f"{SPIN}spin()\n")
    (tmp_path / "again.py").write_text("import helper\n")
    assert main(["profile", "--save", "again.json", "--repeats", "2", "again.py"]) == 0
    saved = json.loads((tmp_path / "again.json").read_text())["values"]
    assert min(saved["whole"]["samples"]) > 0.3, "each run imports its modules"
    assert any("spin" in one["name"] for one in saved["ops"])


def test_a_file_that_cannot_be_written_costs_neither_the_table_nor_other_files(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(f"{SPIN}spin()\nimport shutil\nshutil.rmtree('gone')\n")
    (tmp_path / "gone").mkdir()
    assert main(["profile", "--html", "gone/r.html", "--json", "r.json", "train.py"]) == 2
    said = capfd.readouterr()
    assert "spin" in said.out
    assert "r.html could not be written" in said.err
    assert (tmp_path / "r.json").is_file()
