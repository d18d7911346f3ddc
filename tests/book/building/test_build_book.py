"""Builds: settings, preparation, what a failed or interrupted one left is not believed, and each says what it does."""

import errno
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from contextlib import redirect_stdout, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import psutil
import pytest
from llvmlite.binding import get_host_cpu_features

from scripts import build_book
from scripts.building import older_cpu, preparation
from scripts.building.preparation import Memory, StepError, keys_of, prepare, run_steps
from scripts.building.settings import build_settings, ignored_warnings, raises_false_flags, write_startup
from scripts.building.story import Story
from tests.chosen_settings import PATIENCE
from tinytorch.chapters.preparation import Step

ROOT = Path(__file__).resolve().parents[3]
#: Stands in for Jupyter Book: notes which folders it finds, leaves those that Sphinx would leave, and does as told.
BOOK = """
import json, os, pathlib, sys, time
output = pathlib.Path(sys.argv[1])
(output / "found.json").write_text(json.dumps(sorted(path.name for path in output.iterdir() if path.is_dir())))
for name in (".doctrees", ".jupyter_cache", "html"):
    (output / name).mkdir(exist_ok=True)
def tell(**event):
    os.write(int(os.environ["TINYTORCH_BUILD_EVENTS"]), (json.dumps(event) + chr(10)).encode())
"""


def build(root: Path, does: str = "", faults: list[str] | None = None) -> tuple[int, list[str], list[str]]:
    """Build a book that does what ``does`` says; return the code, the lines, and the folders that it found."""

    def command(_: Path, output: Path) -> list[str]:
        return [sys.executable, "-I", "-S", "-c", BOOK + does, str(output)]

    with redirect_stdout(io.StringIO()) as printed:
        code = build_book.build(root, command, lambda *_: faults or [])
    return code, printed.getvalue().splitlines(), json.loads((root / "_build" / "found.json").read_text())


FAILS = "sys.exit(2)"
ALL = [".doctrees", ".jupyter_cache", ".user", "html"]


@pytest.mark.parametrize(
    ("does", "left", "said"),
    [
        ("", ALL, "The book is in _build/html/index.html (built in "),
        (f"tell(event='begun')\n{FAILS}", [".jupyter_cache", ".user"], "The last build did not succeed: reading every"),
        (f"tell(event='begun')\ntell(event='kept')\n{FAILS}", ALL, "The last build did not succeed: reading again"),
        (FAILS, ALL, "The last build did not succeed: reading again"),
    ],
)
def test_of_a_build_is_kept_what_it_says_may_be(tmp_path: Path, does: str, left: list[str], said: str) -> None:
    assert build(tmp_path, does)[0] == bool(does)
    code, lines, found = build(tmp_path)
    assert (code, found) == (0, left)
    assert lines[0].startswith(said)


def test_what_must_be_mended_is_said_at_the_end(tmp_path: Path) -> None:
    said = """
print("much else")
tell(event="warning", where="/somewhere/book/machine.md:100", text="page 'roofline' has recorded no number 'peak'")
tell(event="failed-cell", page="roofline", source="roofline.md", cell=3, line=2, code="study.roof()", source_line=40,
     modules=[{"file": "tinytorch/chapters/roofline.py", "line": 12, "code": "return 1 / 0"}],
     error="ZeroDivisionError: division by zero")
"""
    code, lines, _ = build(tmp_path, said + FAILS)
    assert code == 1
    assert lines[1].startswith("The book was not built because of 1 warning (")
    assert lines[2:] == [
        "  book/machine.md:100: page 'roofline' has recorded no number 'peak'",
        "  Page roofline, code cell 3, its line 2 (roofline.md:40) failed:",
        "      study.roof()",
        "  in tinytorch/chapters/roofline.py:12:",
        "      return 1 / 0",
        "  ZeroDivisionError: division by zero",
        "All that was said is in _build/build.log.",
    ]
    assert (tmp_path / "_build" / "build.log").read_text() == "much else\n"
    _, lines, _ = build(tmp_path, "print('one', '======', 'the cause', sep=chr(10))\nsys.exit(3)")
    assert lines[3:5] == ["  one", "  the cause"], "a build that dies without a word shows its last ones"


def test_faults_of_sources_are_told_before_anything_runs(tmp_path: Path) -> None:
    build(tmp_path)
    (tmp_path / "_build" / "html").rmdir()
    code, lines, _ = build(tmp_path, faults=["book/page.md:3: one", "book/page.md:4: another"])
    assert code == 1
    assert lines[1:] == ["  book/page.md:3: one", "  book/page.md:4: another"]
    assert not (tmp_path / "_build" / "html").exists()
    assert "did not succeed" not in build(tmp_path)[1][0], "what the last build left is trusted"


def test_a_build_checks_sources_again_only_after_a_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "book" / "page.md"
    page.parent.mkdir()
    page.write_text("# Page")
    told = "import sys; print(*sys.argv[1:], file=open('told', 'a'))\n"
    fails = "if 'gian' in open('book/page.md').read(): sys.exit(print('wrong') or 1)"
    monkeypatch.setattr(build_book, "CHECK_PAGES", [sys.executable, "-I", "-S", "-c", told + fails])

    def asked() -> list[str]:
        lines = (tmp_path / "told").read_text().splitlines() if (tmp_path / "told").exists() else []
        (tmp_path / "told").unlink(missing_ok=True)
        return lines

    for pages, told_then in ((["page"], ["page"]), ([], [""]), ([], []), (["other"], [])):
        assert build_book.source_faults(tmp_path, pages) == []
        assert asked() == told_then
    page.write_text("# Page\n\n{measured}`gian`")
    for _ in range(2):  # what failed is told again
        assert build_book.source_faults(tmp_path, []) == ["wrong"]
        assert asked() == [""]
    monkeypatch.setattr(build_book, "CHECK_PAGES", [sys.executable, "-c", "raise RuntimeError('no ruff')"])
    with pytest.raises(ValueError, match="the sources could not be checked: RuntimeError: no ruff"):
        build_book.source_faults(tmp_path, [])


@pytest.mark.parametrize(
    ("does", "free"),
    [
        ("tell(event='failed', error='OperationalError: (sqlite3.OperationalError) database or disk is full')", 10**9),
        ("tell(event='warning', where='', text=\"Failed to copy: OSError(28, 'No space left on device')\")", 10**9),
        ("tell(event='failed-cell', page='a', source='a.md', error='OSError: [Errno 122] Disk quota exceeded')", 10**9),
        ("print('Traceback', 'OSError: [Errno 28] No space left on device', sep=chr(10))", 10**9),
        (f"tell(event='warning', where='', text='Failed: OSError({errno.EDQUOT}, None)')", 10**9),
        ("tell(event='warning', where='', text='the cache may need to be cleared')", 12_345),
    ],
)
def test_a_full_disk_is_said_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, does: str, free: int
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    lines = build(tmp_path, f"{does}\n{FAILS}")[1]
    assert lines[2].startswith("  The disk is full: make space, for example by `make clean`, and build again")


def test_a_disk_of_temporary_files_that_is_full_is_said_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free = {tmp_path / "_build": 10**9, Path(tempfile.gettempdir()): 12_345}
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=free[Path(folder)]))
    lines = build(tmp_path, f"print('Killed')\n{FAILS}")[1]
    assert lines[2].startswith("  The disk is full: make space")


MAIN = """
import pathlib, sys
from scripts import build_book
root, does, *sys.argv[1:] = sys.argv[1:]
build_book.ROOT = pathlib.Path(root)
build_book.source_faults = lambda *_: []
build_book.jupyter_book_command = lambda _, output: [sys.executable, "-I", "-S", "-c", does, str(output)]
sys.exit(build_book.main())
"""


def start(root: Path, does: str, *asked: str) -> subprocess.Popen[str]:
    """Start a build in a process of its own, as the command line ``asked``."""
    arguments = [sys.executable, "-c", MAIN, str(root), BOOK + does, *asked]

    def interruptible() -> None:  # tests in the background of a shell are started deaf to it
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    return subprocess.Popen(
        arguments, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=interruptible
    )


def said_by(started: subprocess.Popen[str]) -> str:
    """Return the next line of a build, once it comes."""
    assert started.stdout is not None
    return started.stdout.readline()


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["nothing"], "PAGES must name pages such as profiling, but there is no book/nothing.md"),
        (["--cpu", "z80"], "CPU must be avx2, not 'z80'"),
        ([], "A file stands where the build needs a folder: remove it, and "),
    ],
)
def test_what_cannot_be_built_is_one_sentence(tmp_path: Path, asked: list[str], said: str) -> None:
    (tmp_path / "_build").write_text("a file where the folder should be")  # and nothing is made before the others
    tried = start(tmp_path, "", *asked)
    out, err = tried.communicate()
    assert (tried.returncode, out, len(err.splitlines())) == (1, "", 1)
    assert err.startswith(f"The book was not built: {said}")


def test_pages_another_cpu_and_how_to_prepare_are_told_to_the_build(tmp_path: Path) -> None:
    (tmp_path / "book").mkdir()
    (tmp_path / "book" / "roofline.md").write_text("# Roofline")
    does = "told = [os.environ['TINYTORCH_' + name] for name in ('BUILD_PAGES', 'CPU', 'BUILD_PREPARATION')]\n"
    tried = start(tmp_path, does + "(output / 'told').write_text(json.dumps(told))", "roofline", "--cpu", "avx2")
    out, err = tried.communicate()
    assert (tried.returncode, err) == (0, "")
    assert out.splitlines()[-1].startswith("The book is in _build/avx2/_build/html/index.html (built in ")
    pages, cpu, preparation = json.loads((tmp_path / "_build" / "avx2" / "_build" / "told").read_text())
    assert (pages, cpu) == ("roofline", "avx2")
    python, *told = json.loads(preparation)
    command = [python, "-X", "importtime", str(ROOT / "scripts" / "building" / "preparation.py"), *told[1:]]
    done = subprocess.run([*command, "machine", "glossary"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert "numpy" not in done.stderr, "pages that need nothing wait for nothing"


WAITS = """
tell(event="plan", pages=[])
while not (output / "go-on").exists():
    time.sleep(0.01)
"""


def test_a_second_build_waits_also_for_what_a_killed_one_left_running(tmp_path: Path) -> None:
    first = start(tmp_path, WAITS)
    assert said_by(first) == "No page changed.\n"
    first.send_signal(signal.SIGKILL)
    first.communicate()
    second = start(tmp_path, "")
    waits = f"Another build is at work here (process {first.pid}): waiting until it has ended.\n"
    assert said_by(second) == waits
    (tmp_path / "_build" / "go-on").touch()
    rest, _ = second.communicate()
    assert second.returncode == 0
    assert rest.startswith("The last build did not succeed: reading every page anew.\n")


#: In a session of its own, as kernels are.
KERNEL = """
import subprocess
kernel = subprocess.Popen([sys.executable, "-ISc", "import time; time.sleep(3600)"], start_new_session=True)
(output / "kernel").write_text(str(kernel.pid))
"""


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_build_ends_what_it_started_and_the_next_reads_every_page(
    tmp_path: Path, by: signal.Signals
) -> None:
    first = start(tmp_path, KERNEL + WAITS)
    assert said_by(first) == "No page changed.\n", "it takes what it started for its own"
    first.send_signal(by)
    _, err = first.communicate()
    assert (first.returncode, err) == (130, "Interrupted: the next build reads every page anew.\n")
    with suppress(psutil.NoSuchProcess):  # it has been told to end
        psutil.Process(int((tmp_path / "_build" / "kernel").read_text())).wait(PATIENCE)
    assert build(tmp_path)[2] == [".jupyter_cache", ".user"]


CELL = """
import subprocess, sys, warnings
code = "import warnings; warnings.warn('said', {0})"
subprocess.run([sys.executable, "-c", code], check=True)
exec(code, {{"__name__": "library"}})
warnings.warn('said', {0})
"""
#: Runs cells in a kernel as the build does, and prints what each wrote to standard error.
RUN_CELLS = """
import json, sys
sys.modules["rfc3987_syntax"] = None  # a second to load
import nbformat
from nbclient import NotebookClient
cells = [nbformat.v4.new_code_cell(code) for code in sys.argv[1:]]
NotebookClient(nbformat.v4.new_notebook(cells=cells), kernel_name="python3").execute()
said = [[output["text"] for output in cell.outputs if output.get("name") == "stderr"] for cell in cells]
print(json.dumps(["".join(texts).strip() for texts in said]))
"""


def test_nothing_of_the_shell_or_the_system_runs_in_a_kernel_and_old_ways_fail_no_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = tmp_path / "jupyter" / "kernels" / "python3" / "kernel.json"
    kernel.parent.mkdir(parents=True)
    kernel.write_text(json.dumps({"argv": ["false"], "display_name": "mine", "language": "python"}))
    for name in ("startup.py", "sitecustomize.py"):
        (tmp_path / name).write_text("import sys\nprint('reached', file=sys.stderr)\n")
    shell = {"JUPYTER_PATH": str(tmp_path / "jupyter"), "JUPYTER_PREFER_ENV_PATH": "0", "PYTHONPATH": str(tmp_path)}
    shell |= {"PYTHONSTARTUP": str(tmp_path / "startup.py"), "PYTHONOPTIMIZE": "2", "COLUMNS": "7"}
    for name, value in {**shell, "PYTHONWARNINGS": "error", "PYTHONDEVMODE": "1"}.items():
        monkeypatch.setenv(name, value)
    cell = "import os, sys\nfrom IPython.core import application, shellapp\n"
    cell += "found = application.SYSTEM_CONFIG_DIRS, shellapp.SYSTEM_CONFIG_DIRS, shellapp.ENV_CONFIG_DIRS\n"
    cell += "print(found, sys.flags.optimize, os.environ.get('COLUMNS'), file=sys.stderr)"
    # The last is one that Python shows in its development mode alone.
    kinds = ("DeprecationWarning", "PendingDeprecationWarning", "FutureWarning", "ResourceWarning")
    cells = [cell, "\n".join(map(CELL.format, kinds)), "import warnings\nwarnings.warn('careful')"]
    write_startup(tmp_path)
    command = [sys.executable, "-c", RUN_CELLS, *cells]
    done = subprocess.run(command, env=build_settings(tmp_path), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    settings, old, careful = json.loads(done.stdout)
    assert (settings, old) == ("([], [], []) 0 None", "")
    assert careful.count("UserWarning: careful") == 1


#: An extension that reads the first page, as ours reads all.
READS = f"""import sys
sys.path.insert(0, {str(ROOT / "book" / "_ext")!r})
from measured_book.pages import references

def setup(app):
    app.connect("builder-inited", lambda _: (app.srcdir / "index.md").read_text("utf-8"))
    references.setup(app)
"""
OWN = "book/own.py"
FAILS_LATER = b"def setup(app):\n    app.connect('builder-inited', lambda _: 1 / 0)"


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("book/index.md", b"# Index\n\nna\xefve\n", "book/index.md:3 is not UTF-8: save the file in this encoding."),
        (OWN, b"x = 1\ndef\n", f"{OWN}:2 is no Python: invalid syntax."),
        (OWN, FAILS_LATER, f"ZeroDivisionError: division by zero ({OWN}:2)"),
        ("book/references.bib", b"@book{one,\n  title {One}}\n", "book/references.bib:2 is no BibTeX: "),
        ("_config.yml", b"title: Book\nauthor: [one\n", "_config.yml:3 is no YAML: "),
    ],
)
def test_what_ends_jupyter_book_is_told_with_file_and_line(
    tmp_path: Path, file: str, content: bytes, said: str
) -> None:
    (tmp_path / "book").mkdir()
    (tmp_path / "_toc.yml").write_text("format: jb-book\nroot: index\n")
    (tmp_path / "_config.yml").write_text("title: Book\nsphinx:\n  local_extensions: {own: book}\n")
    for name, text in (("index.md", "# Index\n"), ("own.py", READS), ("references.bib", "")):
        (tmp_path / "book" / name).write_text(text)
    (tmp_path / file).write_bytes(content)
    with redirect_stdout(io.StringIO()) as printed:
        assert build_book.build(tmp_path, build_book.jupyter_book_command, lambda *_: []) == 1
    assert printed.getvalue().splitlines()[-2].startswith(f"  {said}"), printed.getvalue()


def page(name: str, *, seconds: float | None = None, why: str | None = None, **facts: Any) -> dict[str, Any]:
    runs = {"left_out": False, "cells": 1, "runs": why is not None}
    return {"page": name, **runs, "why": why, "seconds": seconds, **facts}


PAGES = [
    page("index", cells=0),
    page("machine", seconds=10.0, why="no result of it is kept as it is now"),
    page("profiling"),
    page("roofline", seconds=20.0, why="no result of it is kept as it is now"),
    page("new", why="it runs here for the first time"),
    page("other", cells=0, left_out=True),
]


def test_each_page_says_what_becomes_of_it_why_and_how_much_is_left() -> None:
    ran = {"machine": 12.0, "roofline": 20.0, "new": 3.0}
    events: list[dict[str, Any]] = [{"event": "plan", "pages": PAGES}]
    events += [{"event": "preparing", "steps": 3, "seconds": 40.0}, {"event": "prepared", "seconds": 61.0}]
    for one in PAGES:
        events.append({"event": "page", "page": one["page"]})
        if one["runs"]:
            events.append({"event": "ran", "page": one["page"], "seconds": ran[one["page"]]})
    story = Story()
    assert [story.take(event) for event in [*events, {"event": "writing"}, {"event": "page", "page": "machine"}]] == [
        "6 pages to read, 3 of them to run, about 45 s.",
        "Before that, training, compiling and measuring what they share (3 steps, about 40 s).",
        "Trained, compiled and measured in 1 min 01 s.",
        "  1 of 6  index has no cells",
        "  2 of 6  machine runs (about 10 s), because no result of it is kept as it is now",
        "          machine ran in 12 s; about 34 s left",
        "  3 of 6  profiling is taken from the cache",
        "  4 of 6  roofline runs (about 20 s), because no result of it is kept as it is now",
        "          roofline ran in 20 s; about 16 s left",
        "  5 of 6  new runs, because it runs here for the first time",
        "          new ran in 3 s",
        "  6 of 6  other is left out",
        "Writing the pages.",
        None,  # read again for its other outcome
    ]


def test_settings_of_a_blas_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = {"OPENBLAS_CORETYPE": "Haswell", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "KMP_AFFINITY": "x"}
    for name, value in chosen.items():
        monkeypatch.setenv(name, value)
    assert not chosen.keys() & build_settings(tmp_path)


WARNED = """
import warnings
for message in ("overflow encountered in matmul", "invalid value encountered in dot", "overflow encountered in exp"):
    warnings.warn(message, RuntimeWarning)
"""


def test_pages_do_without_warnings_of_false_flags_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        assert (np.ones((64, 64), np.float32) @ np.ones((64, 64), np.float32) == 64).all()
    assert raises_false_flags() == bool(warned)

    def with_every_flag(a: Any, b: Any) -> Any:
        return a @ b / np.zeros_like(a)

    monkeypatch.setattr(np, "matmul", lambda a, b: a)
    assert ignored_warnings() == []
    monkeypatch.setattr(np, "matmul", with_every_flag)
    done = subprocess.run([sys.executable, "-c", WARNED], capture_output=True, text=True, env=build_settings(tmp_path))
    assert done.stderr.count(": RuntimeWarning:") == done.stderr.count("encountered in exp") == 1


TOLD = """
import json
import numpy as np
from numpy._core._multiarray_umath import __cpu_features__
from tinytorch.perf.host.identity import identity
from tinytorch.perf.kernels.int8.instructions import available_dots
from tinytorch.perf.kernels.gemm.product_tiles import LANES
made = identity()
print(json.dumps([
    made.vectors, {one.vectors for one in made.blas}.pop(), LANES, [dot.name for dot in available_dots()],
    __cpu_features__["X86_V4"], [name for name in made.extensions if "512" in name],
    made.environment["TINYTORCH_CPU"], made.cpu.endswith(", held to AVX2"),
]))
"""


def test_a_process_that_is_held_to_avx2_has_no_newer_instruction_and_says_so() -> None:
    command = [sys.executable, "-m", "scripts.building.older_cpu"]
    done = subprocess.run([*command, "z80", "false"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, "z80" in done.stderr) == (1, True)
    if not dict(get_host_cpu_features()).get("avx2"):  # an ARM machine, say: there is nothing to hold
        return
    command += ["avx2", sys.executable, "-c", TOLD]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["AVX2", "AVX2", 8, ["vpmaddwd ymm", "multiply"], False, [], "avx2", True]


def test_a_machine_without_avx2_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    for features in ({}, {"avx2": False}, {"neon": True}):
        monkeypatch.setattr(older_cpu, "get_host_cpu_features", lambda features=features: features)
        with pytest.raises(ValueError, match="processor"):
            older_cpu.older_cpu_settings("avx2")


KEYS = {"training": "one key", "compiling": "another key"}
#: Names the folder in which made steps leave what they did, to processes that were started later.
FOLDER = "TINYTORCH_MADE_STEPS"


def step(name: str, *after: str) -> Step:
    return Step(name, "training", lambda: None, frozenset({"page"}), 3.0, after)


def work(name: str) -> None:
    """Leave a line; "broken" fails instead, and "one" and "other" end only while both are at work."""
    folder = Path(os.environ[FOLDER])
    if name == "broken":
        raise ValueError("no such data")
    with (folder / "notes").open("a") as notes:
        notes.write(f"{name}\n")
    for _ in range(100 * PATIENCE if name in ("one", "other") else 0):
        if len((folder / "notes").read_text().split()) == 2:
            return
        time.sleep(0.01)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which steps leave what they did."""
    monkeypatch.setenv(FOLDER, str(tmp_path))
    return tmp_path


def test_a_step_waits_for_those_that_it_starts_from_and_others_run_at_once(folder: Path) -> None:
    ended: list[str] = []
    steps = [step("last", "middle"), step("middle", "first", "made before"), step("first")]
    run_steps(steps, work, 2, lambda one, _: ended.append(one.name))
    assert (folder / "notes").read_text().split() == ended == ["first", "middle", "last"]
    (folder / "notes").unlink()
    run_steps([step("one"), step("other")], work, 2, lambda *_: None)
    assert len((folder / "notes").read_text().split()) == 2


def test_a_step_that_fails_ends_the_preparation_and_what_was_done_is_not_done_again(folder: Path) -> None:
    memory = Memory(folder / "prepared.json", KEYS, folder)
    told: list[dict[str, Any]] = []
    with pytest.raises(StepError, match="broken failed: ValueError: no such data"):
        prepare([step("broken"), step("next", "broken")], memory, told.append, work, 1)
    assert [event["event"] for event in told] == ["preparing"]
    assert memory.steps() == {}
    for steps in ([step("first")], [step("first"), step("second", "first")], [step("first"), step("second", "first")]):
        told.clear()
        prepare(steps, memory, told.append, work, 1)
    assert told == []
    assert (folder / "notes").read_text().split() == ["first", "second"]
    assert sorted(memory.steps()["training"]) == ["first", "second"]


def test_steps_count_as_done_only_for_the_same_sources_and_while_what_they_made_is_there(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    for name in ("models", "kernels/old", "kernels/new"):
        (kept / name).mkdir(parents=True)
    os.utime(kept / "kernels" / "old", (1e9, 1e9))
    memory = Memory(tmp_path / "prepared.json", KEYS, kept)
    memory.add([(step("one"), 1.0)])
    assert memory.steps() == {"training": {"one": 1.0}}
    assert Memory(memory.path, {**KEYS, "compiling": "another"}, kept).steps() == {"training": {"one": 1.0}}
    assert Memory(memory.path, {**KEYS, "training": "another"}, kept).steps() == {}
    (kept / "kernels" / "old").rmdir()
    assert memory.steps() == {"training": {"one": 1.0}}
    (kept / "models").rmdir()
    assert memory.steps() == {}
    for text in ("", "[]", '{"keys": {}}', '{"keys": {}, "folders": [], "steps": {"training": {}}}'):
        memory.path.write_text(text)
        assert memory.steps() == {}, "a memory that cannot be read knows nothing"


@pytest.mark.parametrize(
    ("file", "code", "changed"),
    [
        ("tinytorch/chapters/machine.py", "x = 1", set()),
        ("tinytorch/core/new.py", "# only said", set()),
        ("tinytorch/core/new.py", "x = 1", {"training", "compiling", "measuring"}),
        ("tinytorch/perf/kernels/new.py", "x = 1", {"compiling", "measuring"}),
        ("tinytorch/perf/benchmarking/zoo.py", "x = 1", {"training"}),
        ("requirements.lock", "numpy==9", {"training", "compiling", "measuring"}),
    ],
)
def test_steps_are_done_again_when_what_they_compute_changes(
    tmp_path: Path, file: str, code: str, changed: set[str]
) -> None:
    sources = {name for names in preparation._SOURCES.values() for name in names}
    names = (name if Path(name).suffix else f"{name}/new.py" for name in sources)
    for name in (*names, "tinytorch/chapters/machine.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    first = keys_of(tmp_path, "machine")
    assert {work for work, key in keys_of(tmp_path, "another").items() if key != first[work]} == {*first}
    (tmp_path / file).write_text(code)
    assert {work for work, key in keys_of(tmp_path, "machine").items() if key != first[work]} == changed
