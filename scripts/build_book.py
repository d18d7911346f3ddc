"""Build the book into _build/html, trusting nothing that a failed or interrupted build left behind.

A mark lies in _build/ from before the build until after its success. A build that fails by an error or a warning on a
page writes into the mark that what it left may be trusted, as the next will read what failed again: see
book/_ext/measured_book/execution/failures.py. A build that finds another mark first removes what Sphinx would trust;
results of executed pages are kept, and one that cannot be read runs again (execution/cache.py).

Sources are checked first, so that what is wrong with them is told before anything runs. Before any page runs, models
are trained and kernels compiled (building/preparation.py). Pages tell what happens through a pipe
(book/_ext/measured_book/execution/events.py). All that Jupyter Book says goes to _build/build.log; what must be mended
is said at the end.
"""

import argparse
import fcntl
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from scripts.building.settings import build_settings, write_startup
from scripts.building.story import FULL, Story, counted, duration, sentence_of
from tinytorch.settings import variables

ROOT = Path(__file__).resolve().parent.parent
LOG = "build.log"
#: What the mark says after a failed build that left nothing wrong.
_KEPT = "kept"
#: Lines of the log that are shown when the build died without a word.
_LAST_WORDS = 5
#: With less than so many free bytes on its disk, or on that of temporary files, no build gets by.
_LEAST_FREE = 2**20
JUPYTER_BOOK, PREPARES = (ROOT / "scripts" / "building" / f"{name}.py" for name in ("jupyter_book", "preparation"))
#: Makes the command that builds the site from the root of a checkout into its folder of built things.
Command = Callable[[Path, Path], list[str]]
#: Tells what is wrong with sources of a checkout: those of these pages, or of all if none is named.
Check = Callable[[Path, Sequence[str]], list[str]]
#: Tells what is wrong with the pages that are named behind it.
CHECK_PAGES = [sys.executable, "-m", "scripts.check_pages", "--without-types"]
#: What that reads: files, and below folders those of these kinds.
_CHECKED = ("_toc.yml", "README.md", "pyproject.toml", "requirements.lock", "book", "scripts", "tinytorch")
_KINDS = (".md", ".py", ".svg", ".bib", ".txt")
say = partial(print, flush=True)


def jupyter_book_command(root: Path, output: Path) -> list[str]:
    """Return the command that runs Jupyter Book on `root`/book. Any warning is an error."""
    command = [
        sys.executable,
        "-P",
        str(JUPYTER_BOOK),
        "build",
        str(root / "book"),
        "--path-output",
        str(output.parent),
    ]
    # Absolute, or Jupyter Book looks for the pages beside the list of pages.
    command += ["--config", str(root / "_config.yml"), "--toc", str(root / "_toc.yml")]
    return [*command, "-W", "--keep-going", "-n"]


def source_faults(root: Path, asked: Sequence[str]) -> list[str]:
    """Return what is wrong with these pages and their modules, with all if none is asked for, a line each.

    What `make check` tells, but for types. Where nothing changed since all passed, nothing is read again.

    Raises:
        OSError: if what passed cannot be remembered in _build.
        ValueError: if a rule cannot be applied.
    """
    memory, sources = root / "_build" / "checked", hashlib.sha256(sys.version.encode())
    for path in sorted(path for name in _CHECKED for path in ((root / name), *(root / name).rglob("*"))):
        if path.suffix in (*_KINDS, ".yml", ".toml", ".lock") and path.is_file():
            sources.update(f"\0{path.relative_to(root)}\0".encode() + path.read_bytes())
    if memory.is_file() and memory.read_text("ascii") == sources.hexdigest():
        return []
    folders = (root / "book" / "_ext", root / "book" / "_checks")
    settings = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))}
    done = subprocess.run([*CHECK_PAGES, *asked], cwd=root, env=settings, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        if not asked:
            memory.parent.mkdir(exist_ok=True)
            memory.write_text(sources.hexdigest(), "ascii")
        return []
    if done.returncode != 1 or not done.stdout:
        said = done.stderr.strip().splitlines() or ["it ended without a word"]
        raise ValueError(f"the sources could not be checked: {said[-1]}")
    return done.stdout.splitlines()


@dataclass(frozen=True)
class Wanted:
    """What to build: only some ``pages``, all if there are none; held to the instructions of the older ``cpu``, if any.

    What is held to another CPU goes into a folder of its own, and so does what is ``rough``: there each measurement has
    a tiny budget. With the ``outcome`` "other", a page is written besides each of the pages with what its verdicts did
    not find.
    """

    pages: tuple[str, ...] = ()
    cpu: str | None = None
    outcome: str | None = None
    rough: bool = False

    def output(self, root: Path) -> Path:
        """Return the folder that the build writes into."""
        apart = [name for name in (self.cpu, "rough" if self.rough else None) if name]
        return root.joinpath("_build", "-".join(apart), "_build") if apart else root / "_build"


#: All pages, on this machine's own CPU.
EVERYTHING = Wanted()


def run_and_show(
    command: list[str], root: Path, settings: dict[str, str], output: Path, lock: int, story: Story
) -> int:
    """Run a command that builds, say the events that it tells, and return its exit code."""
    reading, writing = os.pipe()
    settings = {**settings, **variables(build_events=str(writing))}
    with (output / LOG).open("wb") as log, os.fdopen(reading, encoding="utf-8") as events:
        streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log}
        try:
            started = subprocess.Popen(command, cwd=root, env=settings, pass_fds=(writing, lock), **streams)
        finally:
            os.close(writing)
        try:
            for line in events:
                if told := story.take(json.loads(line)):
                    say(told)
            return started.wait()
        finally:
            end_all(started)


def end_all(started: subprocess.Popen[bytes]) -> None:
    """End a process, if it still runs, and all that it started: kernels have sessions of their own."""
    if started.poll() is not None:
        return
    own = psutil.Process(started.pid)
    every = [*own.children(recursive=True), own]
    for ending in (psutil.Process.terminate, psutil.Process.kill):
        for process in every:
            with suppress(psutil.NoSuchProcess):
                ending(process)
        _, every = psutil.wait_procs(every, timeout=5)
    started.wait()


@contextmanager
def only_build(lock: Path) -> Iterator[int]:
    """Hold the file `lock` while the body runs, and yield its descriptor; say so if another build has it.

    A process that inherits the descriptor holds the lock as well. So a build whose parent was killed keeps the
    next one waiting until it has ended, too.
    """
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip()
            say(f"Another build is at work here (process {owner or 'unknown'}): waiting until it has ended.")
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield descriptor
    finally:
        os.close(descriptor)


def last_words(log: Path) -> list[str]:
    """Return the last lines of the log that say something."""
    lines = [line.rstrip() for line in log.read_text("utf-8", "replace").splitlines()]
    return [f"  {line}" for line in lines if line.strip("= \x1b[0123456789m")][-_LAST_WORDS:]


def build(root: Path, command: Command, check: Check, wanted: Wanted = EVERYTHING) -> int:
    """Build what is ``wanted`` of the book of the checkout at `root`; return 0, or 1 if anything failed or warned.

    Raises:
        OSError: if the folder _build cannot be written.
        ValueError: if there is no such page or outcome, this machine cannot do as the CPU, or the sources cannot be
            checked.
    """
    if wanted.outcome not in (None, "other"):
        raise ValueError(f"OUTCOME must be other, not {wanted.outcome!r}")
    if wanted.outcome and not wanted.pages:
        raise ValueError("OUTCOME=other needs PAGES, which name the pages to write so")
    missing = [page for page in wanted.pages if not (root / "book" / f"{page}.md").is_file()]
    if missing:
        near = get_close_matches(missing[0], [path.stem for path in (root / "book").glob("*.md")], 1) or ["profiling"]
        raise ValueError(f"PAGES must name pages such as {near[0]}, but there is no book/{missing[0]}.md")
    output = wanted.output(root)
    settings = build_settings(output, wanted.cpu)
    settings |= variables(
        build_pages=" ".join(wanted.pages),
        build_outcome=wanted.outcome or "",
        # Trains and compiles what pages need; the pages' build adds their names.
        build_preparation=json.dumps([sys.executable, str(PREPARES), str(output)]),
    )
    if wanted.rough:
        settings |= variables(rough="1")
    if faults := check(root, wanted.pages):
        said = f"The book was not built: {counted(len(faults), 'fault')} in its sources, found before anything ran:"
        say("\n".join([said, *(f"  {fault}" for fault in faults)]))
        return 1
    output.mkdir(parents=True, exist_ok=True)
    with only_build(output / "build.lock") as lock:
        return _build_alone(root, settings, output, lock, command(root, output))


def _build_alone(root: Path, settings: dict[str, str], output: Path, lock: int, command: list[str]) -> int:
    mark = output / "build-in-progress"
    start = time.monotonic()
    folders = output, tempfile.gettempdir()  # the latter before it is full, or another is named
    if mark.exists() and mark.read_text("utf-8") == _KEPT:
        say("The last build did not succeed: reading again what failed.")
    elif mark.exists():
        say("The last build did not succeed: reading every page anew.")
        for name in (".doctrees", "html", "jupyter_execute"):
            shutil.rmtree(output / name, ignore_errors=True)
    mark.write_text("", "utf-8")
    write_startup(output)
    story = Story()
    code = run_and_show(command, root, settings, output, lock, story)
    took = duration(time.monotonic() - start)
    if code != 0:
        mark.write_text(_KEPT if story.kept else "", "utf-8")
        complaints, last = story.complaints, last_words(output / LOG)
        free = min(shutil.disk_usage(folder).free for folder in folders)
        if free < _LEAST_FREE or any(words in "".join(complaints + last) for words in FULL):
            complaints = [f"  {sentence_of(FULL[0])}", *complaints]
        warned = f" because of {counted(story.warnings, 'warning')}" if story.warnings else ""
        say("\n".join(["", f"The book was not built{warned} ({took}):", *(complaints or last)]))
        say(f"All that was said is in {(output / LOG).relative_to(root)}.")
        return 1
    mark.unlink()
    say(f"The book is in {(output / 'html' / 'index.html').relative_to(root)} (built in {took}).")
    for other in sorted((output / "html").glob("**/*.other.html")):
        say(f"What its verdicts did not find is in {other.relative_to(root)}.")
    return 0


def main() -> int:
    """Build what the command line asks for of this checkout and return the exit code."""
    parser = argparse.ArgumentParser(description="Build the book into _build/html.")
    parser.add_argument("pages", nargs="*", help="run only these and leave the others as they were")
    parser.add_argument("--cpu", help="hold all kernels to the instructions of an older CPU: avx2")
    parser.add_argument("--outcome", help="write these also with what their verdicts did not find: other")
    parser.add_argument("--rough", action="store_true", help="give each measurement a tiny budget")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends what was started, as Ctrl+C does
    try:
        wanted = Wanted(tuple(asked.pages), asked.cpu, asked.outcome, asked.rough)
        return build(ROOT, jupyter_book_command, source_faults, wanted)
    except KeyboardInterrupt:
        print("Interrupted: the next build reads every page anew.", file=sys.stderr)
        return 130
    except (OSError, ValueError) as error:
        print(f"The book was not built: {sentence_of(str(error))}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
