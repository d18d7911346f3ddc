"""Run every command that README and the pages print, as a reader would, and check the files that it leaves behind.

The commands run in a fresh clone, in the order of the documents. `pip`, `python` and `tinytorch` are those of a fresh
environment that has only the dependencies which pyproject.toml declares. A command that is not run here must be in
`ELSEWHERE`, with the reason.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from bs4 import BeautifulSoup

from scripts.environment import let_through, without_terminal
from tinytorch.cli.machine import MACHINE
from tinytorch.perf.benchmarking.results import RESULTS
from tinytorch.perf.distributed.collectives.measured import COLLECTIVES
from tinytorch.perf.profiling.repeated import REPEATED
from tinytorch.report.measurements import read_measurements

ROOT = Path(__file__).resolve().parents[1]
#: Seconds after which a command is ended.
PATIENCE = 900
#: Parts of `_build` that `make book` leaves behind, and that commands would otherwise make for minutes.
BUILT = ("kernels", "machine", "models")

#: A block of code, or code within a sentence.
_PRINTED = re.compile(
    r"^(?P<fence>`{3,})(?P<language>[^\s`]*)[^\n]*\n(?P<block>.*?)^(?P=fence)$|(?<!`)`(?P<code>[^`\n]+)`(?!`)",
    re.MULTILINE | re.DOTALL,
)
#: Code within a sentence that is a command, and no name of one.
_COMMAND = re.compile(r"make \S.*|pip \S.*|(?:\.venv/bin/)?(?:python|tinytorch) \S+ \S.*")
T = TypeVar("T")


class Command(NamedTuple):
    """Command, or program in Python, that a document prints: the document's path, the line, and the text."""

    document: str
    line: int
    text: str
    is_python: bool = False

    @property
    def words(self) -> list[str]:
        """Its words; of a program in Python, only the name of its interpreter."""
        return ["python"] if self.is_python else shlex.split(self.text)

    def __str__(self) -> str:
        return f"{self.document}:{self.line}: {'a program in Python' if self.is_python else self.text}"


@dataclass(frozen=True)
class Outcome:
    """Outcome of a command that works.

    Attributes:
        last_line: pattern of the last line that it prints; None if it prints nothing.
        title: pattern of the title of the HTML page that it writes.
        codes: its exit codes.
        files: what it writes besides the files that its options name.
    """

    last_line: str | None
    title: str | None = None
    codes: tuple[int, ...] = (0,)
    files: tuple[str, ...] = ()


#: Outcomes by the first words of a command. Measurements of the same code may differ by chance, which is exit code 1 of
#: the commands that compare them.
OUTCOMES = {
    "pip install": Outcome(r"Successfully installed .*tinytorch-\d.*"),
    "make help": Outcome(r"  make \S+ .+"),
    "make environment": Outcome(None, files=(".venv/made-from", ".venv/bin/tinytorch")),
    "make chapter": Outcome(r"Now: make live PAGES=\w+", files=("book/batching.md", "tinytorch/chapters/batching.py")),
    "tinytorch machine": Outcome(r".+\."),
    "tinytorch profile": Outcome(r".+", title=r"Profile of .+"),
    "tinytorch diff": Outcome(r"nothing is proven to be slower|slower: .+", codes=(0, 1)),
    "tinytorch bench": Outcome(r".+"),
    "tinytorch compare": Outcome(r".+", codes=(0, 1)),
    "tinytorch report": Outcome(None, title=r".+"),
    "tinytorch links": Outcome(r".+"),
    ".venv/bin/tinytorch measure --json": Outcome(r"\S+ has the pages (?:\w+, )*your_machine: drop it onto .+"),
    ".venv/bin/tinytorch measure --check": Outcome(r"\S+ can be used: \d+ records of the pages .+"),
    "python": Outcome(r"True"),
}
#: Commands that are not run here, by their first words, with the reason.
ELSEWHERE = {
    "make book": ".ci/run builds the book",
    "make test": ".ci/run runs the tests",
    "make lint": ".ci/run runs it",
    "make check": "`make lint`, which .ci/run runs, applies the same rules to all pages",
    "make check-site": ".ci/run runs it",
    "make format": "`make lint`, which .ci/run runs, fails where it would change anything",
    "make serve": "does not end; it is `make book` and Python's own http.server",
    "make live": "does not end; tests/repository/test_scripts.py runs its script",
    ".venv/bin/tinytorch measure --json measurements/NAME.json": "measures the same pages as the line of README",
    ".venv/bin/tinytorch measure --check measurements/NAME.json": "checks such a file as that of Your machine",
    "py-spy record": "py-spy is not among the packages of the book",
    "perf record": "perf is a tool of Linux, which pip does not install",
    ".venv/bin/python -m scripts.compare_builds": "needs three builds; tests/repository/test_compare_builds.py runs it",
}
#: Options that name a file to write.
_WRITTEN = ("--json", "--html", "--save", "--trace", "--markdown")


def documents(root: Path) -> list[Path]:
    """Return the documents whose commands are run, in this order: README, the pages, and that of measurements."""
    pages = sorted(path for path in (root / "book").glob("*.md") if path.stem != "changelog")
    return [root / "README.md", *pages, root / "measurements" / "README.md"]


def commands_in(document: str, text: str) -> Iterator[Command]:
    """Yield the commands of a document, those of its blocks and of its sentences, and the Python of README as programs.

    The Python of pages is not taken: cells run in the book's build, and snippets need other frameworks. A name such as
    `tinytorch diff` in a sentence is no command.

    Raises:
        ValueError: if a comment follows a command, because zsh hands it to the program when a reader pastes it.
    """
    for found in _PRINTED.finditer(text):
        line = text[: found.start()].count("\n") + 1
        if found["language"] == "python" and document == "README.md":
            yield Command(document, line, found["block"], is_python=True)
        elif found["language"] in ("bash", "shell"):
            for place, command in enumerate(found["block"].splitlines(), line + 1):
                if "#" in shlex.split(command):
                    raise ValueError(f"{document}:{place}: zsh would take the comment for arguments: {command}")
                if command.strip():
                    yield Command(document, place, command.strip())
        elif found["code"] and _COMMAND.fullmatch(found["code"]):
            yield Command(document, line, found["code"])


def entry_of(command: Command, table: Mapping[str, T]) -> T | None:
    """Return the entry of a table whose key has the most of the first words of a command; None if there is none."""
    words = command.words
    keys = (" ".join(words[:count]) for count in range(len(words), 0, -1))
    return next((table[key] for key in keys if key in table), None)


def commands_to_run(root: Path) -> list[Command]:
    """Return the commands that are to be run, each once.

    Raises:
        ValueError: if a document prints a command of which neither `OUTCOMES` nor `ELSEWHERE` says anything.
    """
    printed: dict[str, Command] = {}
    for path in documents(root):
        for command in commands_in(path.relative_to(root).as_posix(), path.read_text("utf-8")):
            printed.setdefault(command.text, command)
    run = [command for command in printed.values() if entry_of(command, ELSEWHERE) is None]
    if unknown := [command for command in run if entry_of(command, OUTCOMES) is None]:
        raise ValueError(f"scripts/check_readme.py must say what this command leaves, or why not: {unknown[0]}")
    return run


def json_fault(path: Path) -> str | None:
    """Return what is wrong with a file of JSON, read as its schema has it; None if nothing is."""
    given: dict[str, Any] = json.loads(path.read_text("utf-8"))
    readers: dict[str, Callable[[], object]] = {
        **{one.schema: partial(one.read, path) for one in (COLLECTIVES, MACHINE, REPEATED, RESULTS)},
        "tinytorch-measurements": lambda: read_measurements(path),
        "tinytorch-profile": lambda: given["wall_seconds"],
    }
    name = str(given.get("schema"))
    if name not in readers:
        return f"{path.name} has the schema {name}, which nothing here reads"
    try:
        return None if readers[name]() else f"{path.name} holds nothing"
    except (ValueError, KeyError) as error:
        return f"{path.name} breaks its schema {name}: {error!r}"


def html_fault(path: Path, title: str | None) -> str | None:
    """Return what is wrong with an HTML page that must have a title of this pattern; None if nothing is."""
    page = BeautifulSoup(path.read_text("utf-8"), "html.parser")
    said = page.title.get_text() if page.title else ""
    if title is None or not re.fullmatch(title, said):
        return f"{path.name} must have a title like {title!r}, not {said!r}"
    return None if len(page.get_text().split()) > 100 else f"{path.name} says nothing"


def faults(command: Command, code: int, output: str, folder: Path) -> Iterator[str]:
    """Yield what is wrong with what a command printed, ended with, and left in a folder, a sentence each."""
    outcome = entry_of(command, OUTCOMES)
    assert outcome is not None
    if code not in outcome.codes:
        yield f"ends with exit code {code}"
    last = last_line(output)
    if outcome.last_line is not None and not re.fullmatch(outcome.last_line, last):
        yield f"must end with a line like {outcome.last_line!r}, not {last!r}"
    yield from (f"leaves no {name}" for name in outcome.files if not (folder / name).is_file())
    for option, name in zip(command.words, command.words[1:], strict=False):
        if option not in _WRITTEN:
            continue
        path = folder / name
        if not path.is_file():
            yield f"leaves no {name}"
        elif fault := html_fault(path, outcome.title) if option == "--html" else json_fault(path):
            yield fault


def last_line(output: str) -> str:
    """Return the last line of an output that says something; empty without one."""
    return next((line for line in reversed(output.splitlines()) if line.strip()), "")


@dataclass(frozen=True)
class Place:
    """Folders of a reader: the clone, the environment, and the user's caches."""

    clone: Path
    environment: Path
    caches: Path

    def variables(self) -> dict[str, str]:
        """Return the variables of the reader's shell: the environment is active, and no cache holds our own results."""
        kept = without_terminal(let_through(os.environ))
        path = f"{self.environment / 'bin'}{os.pathsep}{kept['PATH']}"
        caches = Path(kept.get("XDG_CACHE_HOME", Path.home() / ".cache"))
        downloads = {"PIP_CACHE_DIR": str(caches / "pip"), "UV_CACHE_DIR": str(caches / "uv")}
        own = {"PATH": path, "VIRTUAL_ENV": str(self.environment), "XDG_CACHE_HOME": str(self.caches)}
        return {**downloads, **kept, **own, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


def prepare(folder: Path, root: Path, commands: Sequence[Command]) -> Place:
    """Make the clone, with the files of the working tree and what `make book` left, and an environment.

    Of the dependencies the environment has what `pip install` of these commands would download, in the versions of the
    lock: pip then finds them there and installs the package.
    """
    place = Place(folder / "clone", folder / "environment", folder / "caches")
    subprocess.run(["git", "clone", "--quiet", str(root), str(place.clone)], check=True)
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root, capture_output=True, check=True, text=True,
    )  # fmt: skip
    for name in filter(None, listed.stdout.split("\0")):
        (place.clone / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(root / name, place.clone / name)
    for name in BUILT:
        if (root / "_build" / name).is_dir():
            shutil.copytree(root / "_build" / name, place.clone / "_build" / name)
    uv = Path(sys.executable).with_name("uv")
    subprocess.run([uv, "venv", "--quiet", "--seed", place.environment], check=True)
    installed = " ".join(command.text for command in commands if command.words[:2] == ["pip", "install"])
    extras = [f"--extra={name}" for group in re.findall(r"\[([\w,]+)\]", installed) for name in group.split(",")]
    subprocess.run(
        [uv, "pip", "install", "--quiet", "--python", place.environment, "--requirements", "pyproject.toml", *extras,
         "--constraints", "requirements.lock"],
        cwd=place.clone, check=True,
    )  # fmt: skip
    return place


#: A reader's own script for training, as pages name it.
TRAIN = """
import sys
from tinytorch import models
from tinytorch.core.dataloader import DataLoader
from tinytorch.core.optimizers import AdamW
from tinytorch.core.training import fit

entry = models.entry("mlp")
model = entry.make(0)
batches = DataLoader(entry.example_input(128), entry.example_target(128), batch_size=64)
fit(model, batches, models.loss_function(), AdamW(model.parameters()), 40)
print("trained", *sys.argv[1:])
"""


def write_readers_files(folder: Path) -> None:
    """Write the files that pages call a reader's own: a script, a model with its quantized file, and test data."""
    import numpy as np
    import onnx

    from tinytorch.chapters.your_model.studies import FILE, in_codes, lines

    (folder / "train.py").write_text(TRAIN, "utf-8")
    in_codes(str(folder))
    model = onnx.load(str(FILE))
    images = lines()
    for dimension, length in zip(model.graph.input[0].type.tensor_type.shape.dim[1:], images.shape[1:], strict=True):
        dimension.dim_value = length
    onnx.save(model, folder / "model.onnx")
    np.savez(folder / "test.npz", inputs=images, labels=np.arange(len(images)) % 2)


def run_all(commands: Sequence[Command], place: Place) -> int:
    """Run commands one after the other, print a line for each, and return how many faults they have."""
    count = 0
    for command in commands:
        began = time.monotonic()
        given = ["python", "-"] if command.is_python else ["bash", "-c", command.text]
        done = subprocess.run(
            given, cwd=place.clone, env=place.variables(), input=command.text if command.is_python else "",
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PATIENCE, check=False,
        )  # fmt: skip
        found = list(faults(command, done.returncode, done.stdout, place.clone))
        said = [f"{command} ({time.monotonic() - began:.1f} s)", f"  {last_line(done.stdout)}"]
        said += [f"  FAULT: {fault}" for fault in found]
        if found:
            said += [f"  | {line}" for line in done.stdout.splitlines()[-20:]]
        print("\n".join(said), flush=True)
        count += len(found)
    return count


def check(root: Path) -> int:
    """Run every command of the documents and return how many faults were found.

    What runs in `.venv` of the clone, which is mostly measuring for *Your machine*, runs beside the others: numbers do
    not matter here.
    """
    commands = commands_to_run(root)
    with tempfile.TemporaryDirectory() as folder:
        place = prepare(Path(folder), root, commands)
        write_readers_files(place.clone)
        in_clone = [command for command in commands if command.words[0] == "make" or "/" in command.words[0]]
        others = [command for command in commands if command not in in_clone]
        in_clone.sort(key=lambda command: command.text != "make environment")  # which `make book` would have done
        with ThreadPoolExecutor(2) as lanes:
            return sum(lanes.map(lambda lane: run_all(lane, place), (in_clone, others)))


def main() -> int:
    """Check the commands of this repository; return 0 if all of them work as printed, else 1."""
    began = time.monotonic()
    try:
        count = check(ROOT)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"Commands of README and of the pages: {count or 'no'} faults ({time.monotonic() - began:.0f} s).")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
