"""Preparation of pages: models trained, kernels compiled and the machine measured before any page runs, each once.

`python scripts/building/preparation.py FOLDER MACHINE PAGE ...` prepares pages of the book and prints what it does as
events, a line of JSON each. What was prepared is remembered in FOLDER, so that a second call does nothing.
"""

import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from tinytorch.chapters.preparation import Step, begin_steps, make, steps_of
from tinytorch.sources import code_hash, package_files

_ROOT = Path(__file__).resolve().parents[2]
#: By work, the sources that decide what its steps make. Pages do not.
_SOURCES = {
    "training": (
        *("tinytorch/core", "tinytorch/models", "tinytorch/datasets.py", "tinytorch/perf/compression"),
        *("tinytorch/perf/quantization", "tinytorch/perf/ops", "tinytorch/perf/benchmarking/zoo.py"),
        *("tinytorch/chapters/preparation.py", "tinytorch/chapters/quantization/retrained.py", "requirements.lock"),
    ),
    "compiling": (
        *("tinytorch/core", "tinytorch/models", "tinytorch/datasets.py", "tinytorch/perf/acceleration"),
        *("tinytorch/perf/compression", "tinytorch/perf/engines", "tinytorch/perf/kernels", "tinytorch/perf/machine"),
        *("tinytorch/perf/memoization", "tinytorch/perf/onnx", "tinytorch/perf/ops", "tinytorch/perf/quantization"),
        *("tinytorch/chapters/preparation.py", "requirements.lock"),
    ),
    "measuring": (
        *("tinytorch/core", "tinytorch/perf/host", "tinytorch/perf/kernels", "tinytorch/perf/machine"),
        *("tinytorch/perf/measuring", "tinytorch/chapters/preparation.py", "requirements.lock"),
    ),
}
#: Where models, kernels and ceilings are kept.
_KEPT = _ROOT / "_build"
#: Keeps glibc from giving memory back that each step of a training takes again: a tenth of the time and more.
_HELD_MEMORY = {"MALLOC_TRIM_THRESHOLD_": str(2**31 - 1), "MALLOC_MMAP_THRESHOLD_": str(2**30)}
#: Told each event.
Tell = Callable[[dict[str, Any]], None]


class StepError(Exception):
    """End of the preparation by a step that failed; its cause says why."""


@dataclass(frozen=True)
class Memory:
    """The steps that were done, remembered in a file together with what they hold for.

    Attributes:
        path: the file: the seconds that each step took, by its work.
        keys: by work, a hash of sources and machine; steps that were done under another one count as not done.
        kept: the folder that holds what steps make; steps count as not done once a folder in it is gone.
    """

    path: Path
    keys: Mapping[str, str]
    kept: Path

    def steps(self) -> dict[str, dict[str, float]]:
        """Return the steps that are done: by their work, the seconds that each took."""
        try:
            known = json.loads(self.path.read_text("utf-8"))
            if not all((self.kept / name).is_dir() for name in known["folders"]):
                return {}
            return {
                work: dict(steps) for work, steps in known["steps"].items() if known["keys"][work] == self.keys[work]
            }
        except (OSError, ValueError, KeyError, TypeError):
            return {}

    def add(self, taken: Iterable[tuple[Step, float]]) -> None:
        """Remember that these steps are done as well, and how many seconds each took."""
        known = self.steps()
        for step, seconds in taken:
            known.setdefault(step.work, {})[step.name] = round(seconds, 1)
        kernels = sorted(self.kept.glob("kernels/*/"), key=lambda folder: folder.stat().st_mtime)
        folders = [*kernels[-1:], *self.kept.glob("models/")]
        document = {
            "keys": dict(self.keys),
            "steps": known,
            "folders": [folder.relative_to(self.kept).as_posix() for folder in folders],
        }
        aside = self.path.with_suffix(".part")
        aside.write_text(json.dumps(document), "utf-8")
        aside.replace(self.path)


def keys_of(root: Path, machine: str) -> dict[str, str]:
    """Return, by work, a hash of what its steps depend on: sources below ``root``, and the ``machine``.

    Of Python sources only what they compute counts, not their comments and docstrings.
    """
    return {work: _hash_of(root, sources, machine) for work, sources in _SOURCES.items()}


def _hash_of(root: Path, sources: Iterable[str], machine: str) -> str:
    digest = hashlib.sha256(machine.encode())
    for name in sources:
        source = root / name
        for path in package_files(source) if source.is_dir() else [source]:
            content = path.read_bytes()
            digest.update(path.relative_to(root).as_posix().encode() + b"\0")
            digest.update(code_hash(content) if path.suffix == ".py" else content)
    return digest.hexdigest()


def run_steps(
    steps: Sequence[Step], work: Callable[[str], None], workers: int, done: Callable[[Step, float], None]
) -> None:
    """Run each step in one of ``workers`` processes, the first of the list first, and none before those it comes after.

    Args:
        steps: those to run; one that another comes after and that is not among them is not waited for.
        work: runs the step of a name; a function of a module, as it is called in another process.
        workers: number of processes.
        done: told each step when it has ended, and after how many seconds.

    Raises:
        StepError: if a step failed, or its process died.
    """
    waiting = {step.name: step for step in steps}
    running: dict[Future[None], tuple[Step, float]] = {}
    with ProcessPoolExecutor(workers, get_context("spawn"), begin_steps) as pool:
        while waiting or running:
            unfinished = {*waiting, *(step.name for step, _ in running.values())}
            ready = [step for step in waiting.values() if unfinished.isdisjoint(step.after)]
            for step in ready[: workers - len(running)]:
                running[pool.submit(work, step.name)] = waiting.pop(step.name), time.monotonic()
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                step, began = running.pop(future)
                try:
                    future.result()
                except Exception as error:
                    pool.shutdown(wait=True, cancel_futures=True)
                    raise StepError(f"{step.name} failed: {type(error).__name__}: {error}") from error
                done(step, time.monotonic() - began)


def prepare(
    steps: Sequence[Step], memory: Memory, tell: Tell, work: Callable[[str], None] = make, workers: int | None = None
) -> None:
    """Run the steps that ``memory`` does not know as done, told as events, and remember them.

    Args:
        steps: what is needed, the most urgent first.
        memory: of what was done.
        tell: told "preparing" (how many steps, and about how many seconds they take), "prepared-step" (each), and
            "prepared" (after how many seconds).
        work: see `run_steps`.
        workers: number of processes; by default one for each core that this process may keep busy.

    Raises:
        StepError: if a step failed.
    """
    done = {name for names in memory.steps().values() for name in names}
    missing = [step for step in steps if step.name not in done]
    if not missing:
        return
    start = time.monotonic()
    if workers is None:
        from tinytorch.perf.host.pinned_threads import usable_cores  # takes as long as all that nothing to do may take

        workers = len(usable_cores())
    tell({"event": "preparing", "steps": len(missing), "seconds": sum(step.seconds for step in missing) / workers})
    taken: list[tuple[Step, float]] = []

    def ended(step: Step, seconds: float) -> None:
        taken.append((step, seconds))
        tell({"event": "prepared-step", "step": step.name})

    run_steps(missing, work, workers, ended)
    memory.add(taken)
    tell({"event": "prepared", "seconds": time.monotonic() - start})


def needs_of(root: Path, pages: Iterable[str]) -> set[str]:
    """Return what the heads of these pages of the book name under ``needs``."""
    paths = (root / "book" / f"{page}.md" for page in pages)
    # Another book than this one has pages of its own, which need nothing that we could make.
    return {need for path in paths if path.is_file() for need in needs_in(path.read_text("utf-8-sig"))}


def needs_in(text: str) -> set[str]:
    """Return what the head of a page names under ``needs``."""
    head, *_ = text.split("\n---", 1)
    listed = (line.removeprefix("needs:").strip(" []") for line in head.splitlines() if line.startswith("needs:"))
    return {need.strip() for line in listed for need in line.split(",")}


def _print(event: dict[str, Any]) -> None:
    print(json.dumps(event), flush=True)


def main() -> int:
    """Prepare the pages that the command line names; return 0, or 1 if a step failed."""
    folder, machine, *pages = sys.argv[1:]
    memory = Memory(Path(folder) / "prepared.json", keys_of(_ROOT, machine), _KEPT)
    os.environ |= _HELD_MEMORY  # of the processes that this one starts
    try:
        prepare(steps_of(needs_of(_ROOT, pages)), memory, _print)
    except StepError as error:
        _print({"event": "failed", "error": f"Before any page ran, {error}"})
        return 1
    except BrokenPipeError:  # whoever listened is gone: nobody needs the rest
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
