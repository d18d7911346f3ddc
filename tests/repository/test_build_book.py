"""What a failed or interrupted build left is not believed by the next one; what a build measured is kept."""

import io
import json
import re
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import nbformat
import psutil
import pytest
from jupyter_cache.base import CacheBundleIn
from rich.console import Console

from scripts import build_book
from scripts.building import full_disk
from scripts.building.leftovers import discard_untrusted, open_cache
from scripts.building.settings import build_settings, write_startup
from tests.patience import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
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


class Build:
    """A build of a book that does what ``does`` says, and what it printed."""

    def __init__(self, root: Path, does: str = "", faults: list[str] | None = None) -> None:
        printed = io.StringIO()
        console = Console(file=printed, width=20)  # lines are never broken, whatever the width
        self.code = build_book.build(root, console, lambda _, output: command(output, does), lambda *_: faults or [])
        self.printed = printed.getvalue()
        self.found = json.loads((root / "_build" / "found.json").read_text())


def command(output: Path, does: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", BOOK + does, str(output)]


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
    assert Build(tmp_path, does).code == bool(does)
    second = Build(tmp_path)
    assert (second.code, second.found) == (0, left)
    assert second.printed.startswith(said)


def test_what_must_be_mended_is_said_at_the_end(tmp_path: Path) -> None:
    said = """
print("much else")
tell(event="warning", where="/somewhere/book/machine.md:100", text="page 'roofline' has recorded no number 'peak'")
tell(event="failed-cell", page="roofline", source="roofline.md", cell=3, line=2, code="study.roof()", source_line=40,
     modules=[{"file": "tinytorch/chapters/roofline.py", "line": 12, "code": "return 1 / 0"}],
     error="ZeroDivisionError: division by zero")
"""
    failed = Build(tmp_path, said + FAILS)
    assert failed.code == 1
    lines = failed.printed.splitlines()
    assert lines[1].startswith("The book was not built because of 1 warning (")
    assert lines[2:] == [
        "  book/machine.md:100: page 'roofline' has recorded no number 'peak'",  # and no emoji of ":100:"
        "  Page roofline, code cell 3, its line 2 (roofline.md:40) failed:",
        "      study.roof()",
        "  in tinytorch/chapters/roofline.py:12:",
        "      return 1 / 0",
        "  ZeroDivisionError: division by zero",
        "All that was said is in _build/build.log.",
    ]
    assert (tmp_path / "_build" / "build.log").read_text() == "much else\n"


def test_faults_of_sources_are_told_before_anything_runs(tmp_path: Path) -> None:
    Build(tmp_path)
    (tmp_path / "_build" / "html").rmdir()
    failed = Build(tmp_path, faults=["book/page.md:3: one", "book/page.md:4: another"])
    assert failed.code == 1
    assert failed.printed.splitlines() == [
        "The book was not built: 2 faults in its sources, found before anything ran:",
        "  book/page.md:3: one",
        "  book/page.md:4: another",
    ]
    assert not (tmp_path / "_build" / "html").exists()
    assert "did not succeed" not in Build(tmp_path).printed, "what the last build left is trusted"


def test_a_build_that_dies_without_a_word_shows_its_last_ones(tmp_path: Path) -> None:
    failed = Build(tmp_path, "print('one', '======', 'the cause', sep=chr(10))\nsys.exit(3)")
    assert failed.printed.splitlines()[2:4] == ["  one", "  the cause"]


EXTENSION = "Handler <function prepare> for event 'x' threw an exception ([Errno 28] No space left on device)"


@pytest.mark.parametrize(
    "does",
    [
        f"tell(event='failed', error={EXTENSION!r})",
        "tell(event='failed', error='OperationalError: (sqlite3.OperationalError) database or disk is full')",
        "tell(event='warning', where='', text=\"Failed to copy a file: OSError(28, 'No space left on device')\")",
        "tell(event='failed-cell', page='a', source='a.md', error='OSError: [Errno 122] Disk quota exceeded')",
        "print('Traceback', 'OSError: [Errno 28] No space left on device', sep=chr(10))",
    ],
)
def test_an_error_of_a_full_disk_is_one_sentence_that_says_what_to_free(tmp_path: Path, does: str) -> None:
    (tmp_path / "_build" / "kernels").mkdir(parents=True)
    (tmp_path / "_build" / "kernels" / "one").write_bytes(bytes(2_400_000))
    failed = Build(tmp_path, f"{does}\n{FAILS}")
    assert failed.code == 1
    assert re.fullmatch(
        rf"The book was not built: The disk of {tmp_path}/_build is full, with \d.* free: make space there, or remove "
        r"what a build makes anew \(_build/kernels: 2 MB; all of it: `make clean`\), and build again\.\n",
        failed.printed,
    )


OURS = "or remove what a build makes anew (_build/models: 3 MB, _build/kernels: 1 MB; all of it: `make clean`)"


@pytest.mark.parametrize(("full", "ours"), [("_build", f", {OURS}"), ("elsewhere", "")])
def test_a_full_disk_is_seen_where_no_error_tells_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: str, ours: str
) -> None:
    numbers = {tmp_path / "_build": 1, tmp_path / "elsewhere": 2}
    for folder in numbers:
        folder.mkdir()
    for name, size in (("kernels", 1_200_000), ("models", 3_000_000), ("html", 4_000)):
        (tmp_path / "_build" / name).mkdir()
        (tmp_path / "_build" / name / "file").write_bytes(bytes(size))
    free = {folder: 12_345 if folder.name == full else 10**9 for folder in numbers}
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path / "elsewhere"))
    monkeypatch.setattr(full_disk, "disk_of", lambda folder: full_disk.Disk(numbers[folder], free[folder]))
    failed = Build(tmp_path, "tell(event='warning', where='', text='the cache may need to be cleared')\nsys.exit(2)")
    sentence = f"The disk of {tmp_path / full} is full, with 12 kB free: make space there{ours}, and build again."
    assert failed.printed == f"The book was not built: {sentence}\n"


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


def said_by(build: subprocess.Popen[str]) -> str:
    """Return the next line of a build, once it comes."""
    assert build.stdout is not None
    return build.stdout.readline()


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
    (tmp_path / "scripts").symlink_to(ROOT / "scripts")
    does = "told = [os.environ['TINYTORCH_' + name] for name in ('BUILD_PAGES', 'CPU', 'BUILD_PREPARATION')]\n"
    tried = start(tmp_path, does + "(output / 'told').write_text(json.dumps(told))", "roofline", "--cpu", "avx2")
    out, err = tried.communicate()
    assert (tried.returncode, err) == (0, "")
    assert out.splitlines()[-1].startswith("The book is in _build/avx2/_build/html/index.html (built in ")
    pages, cpu, preparation = json.loads((tmp_path / "_build" / "avx2" / "_build" / "told").read_text())
    assert (pages, cpu) == ("roofline", "avx2")
    python, *told = json.loads(preparation)
    command = [python, "-X", "importtime", *told, "machine", "glossary"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
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
    assert first.returncode == 130
    assert err == "Interrupted: the next build reads every page anew.\n"
    with suppress(psutil.NoSuchProcess):  # it has been told to end
        psutil.Process(int((tmp_path / "_build" / "kernel").read_text())).wait(PATIENCE)
    again = Build(tmp_path)
    assert again.code == 0
    assert again.found == [".jupyter_cache", ".user"]


def test_only_results_that_can_be_read_are_kept(tmp_path: Path) -> None:
    folder = tmp_path / ".jupyter_cache" / "key"
    with open_cache(folder) as cache:
        for number in range(3):
            cell = nbformat.v4.new_code_cell(f"{number}", execution_count=1)
            cache.cache_notebook_bundle(CacheBundleIn(nbformat.v4.new_notebook(cells=[cell]), f"{number}.md"))
        good, half, gone = (record.hashkey for record in sorted(cache.list_cache_records(), key=lambda r: r.uri))
    (folder / "executed" / half / "base.ipynb").write_text('{"cells": [')
    (folder / "executed" / gone / "base.ipynb").unlink()

    discard_untrusted(tmp_path)

    with open_cache(folder) as cache:
        assert [record.hashkey for record in cache.list_cache_records()] == [good]
    assert [path.name for path in (folder / "executed").iterdir()] == [good]


@pytest.mark.parametrize("content", [b"", b"no database at all, but long enough to be looked at" * 99])
def test_a_cache_whose_index_is_broken_is_removed(tmp_path: Path, content: bytes) -> None:
    index = tmp_path / ".jupyter_cache" / "key" / "global.db"
    index.parent.mkdir(parents=True)
    index.write_bytes(content)
    discard_untrusted(tmp_path)
    assert not index.parent.exists()


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


def warned(output: Path, *cells: str) -> list[str]:
    """What cells of a page write to standard error."""
    write_startup(output)
    command = [sys.executable, "-c", RUN_CELLS, *cells]
    done = subprocess.run(command, env=build_settings(output), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    texts: list[str] = json.loads(done.stdout)
    return texts


def test_what_a_newer_python_says_of_old_ways_fails_no_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONWARNINGS", "error")
    monkeypatch.setenv("PYTHONDEVMODE", "1")
    # The last is one that Python shows in its development mode alone.
    kinds = ("DeprecationWarning", "PendingDeprecationWarning", "FutureWarning", "ResourceWarning")
    old, careful = warned(tmp_path, "\n".join(map(CELL.format, kinds)), "import warnings\nwarnings.warn('careful')")
    assert old == ""
    assert careful.count("UserWarning: careful") == 1


def test_nothing_of_the_shell_or_the_system_runs_in_a_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = tmp_path / "jupyter" / "kernels" / "python3" / "kernel.json"
    kernel.parent.mkdir(parents=True)
    kernel.write_text(json.dumps({"argv": ["false"], "display_name": "mine", "language": "python"}))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    monkeypatch.setenv("JUPYTER_PREFER_ENV_PATH", "0")
    for name in ("startup.py", "sitecustomize.py"):
        (tmp_path / name).write_text("import sys\nprint('reached', file=sys.stderr)\n")
    monkeypatch.setenv("PYTHONSTARTUP", str(tmp_path / "startup.py"))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("PYTHONOPTIMIZE", "2")
    monkeypatch.setenv("COLUMNS", "7")
    cell = "import os, sys\nfrom IPython.core import application, shellapp\n"
    cell += "found = application.SYSTEM_CONFIG_DIRS, shellapp.SYSTEM_CONFIG_DIRS, shellapp.ENV_CONFIG_DIRS\n"
    cell += "print(found, sys.flags.optimize, os.environ.get('COLUMNS'), file=sys.stderr)"
    assert warned(tmp_path, cell) == ["([], [], []) 0 None"]


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
ENDS = [
    ("book/index.md", b"# Index\n\nna\xefve\n", "book/index.md:3 is not UTF-8: save the file in this encoding."),
    (OWN, b"x = 1\ndef\n", f"{OWN}:2 is no Python: invalid syntax."),
    (OWN, FAILS_LATER, f"ZeroDivisionError: division by zero ({OWN}:2)"),
    ("book/references.bib", b"@book{one,\n  title {One}}\n", "book/references.bib:2 is no BibTeX: "),
]
#: Loads once what runs of Jupyter Book load, and prints for each what it told.
RUN_ALL = """
import json, os, sys
from importlib import import_module
from scripts.building import jupyter_book as own
from tinytorch import settings
for name in ("jupyter_book.cli.main", "myst_nb.sphinx_ext", "sphinx_book_theme", "sphinx_thebe", "sphinx_comments"):
    import_module(name)
for arguments in json.loads(sys.argv[1]):
    reading, writing = os.pipe()
    if os.fork() == 0:
        settings.SETTINGS = settings.Settings(build_events=str(writing))
        sys.argv[1:] = arguments
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        own.main()
    os.close(writing)
    with os.fdopen(reading) as events:
        print(json.dumps([json.loads(line) for line in events]))
"""


def write_book(root: Path, file: str, content: bytes) -> None:
    (root / "book").mkdir(parents=True)
    (root / "_toc.yml").write_text("format: jb-book\nroot: index\n")
    (root / "_config.yml").write_text("title: Book\nsphinx:\n  local_extensions: {own: book}\n")
    (root / "book" / "index.md").write_text("# Index\n")
    (root / "book" / "own.py").write_text(READS)
    (root / "book" / "references.bib").write_text("")
    (root / file).write_bytes(content)


def test_what_ends_jupyter_book_is_told_once_with_file_and_line(tmp_path: Path) -> None:
    commands = []
    for number, (file, content, _) in enumerate(ENDS):
        root = tmp_path / f"{number}"
        write_book(root, file, content)
        commands.append(build_book.jupyter_book_command(root, root / "_build")[3:])
    told = subprocess.check_output([sys.executable, "-c", RUN_ALL, json.dumps(commands)], cwd=ROOT, text=True)
    for line, (*_, said) in zip(told.splitlines(), ENDS, strict=True):
        (event,) = json.loads(line)
        assert event["event"] == "failed"
        assert event["error"].startswith(said)


def test_a_build_that_jupyter_book_does_not_begin_says_why_in_a_line(tmp_path: Path) -> None:
    write_book(tmp_path, "_config.yml", b"title: Book\nauthor: [one\n")
    printed = io.StringIO()
    assert build_book.build(tmp_path, Console(file=printed), build_book.jupyter_book_command, lambda *_: []) == 1
    lines = printed.getvalue().splitlines()
    assert lines[-2].startswith("  _config.yml:3 is no YAML: "), printed.getvalue()
    assert len(lines) <= 4
