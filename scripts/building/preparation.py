"""Preparation of pages: models trained and kernels compiled before any page runs, on all cores, each once.

`python scripts/building/preparation.py FOLDER MACHINE PAGE ...` prepares pages of the book and prints what it does as
events, a line of JSON each. What was prepared is remembered in FOLDER, so that a second call does nothing.
"""

import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from tinytorch.chapters.preparation import Step, begin_steps, make, steps_of
from tinytorch.sources import package_files

_ROOT = Path(__file__).resolve().parents[2]
#: What decides models and kernels, beside the machine: pages and how they report do not.
_SOURCES = (
    *("tinytorch/core", "tinytorch/perf", "tinytorch/models", "tinytorch/datasets.py"),
    *("tinytorch/chapters/preparation.py", "tinytorch/chapters/quantization/retrained.py"),
    *("tinytorch/chapters/compression/trained.py", "requirements.lock"),
)
#: Where models and kernels are kept.
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
        path: of the file: the seconds that each step took, by its work.
        key: of sources and machine; steps that were done under another one count as not done.
        kept: the folder that holds what steps make; steps count as not done once a folder in it is gone.
    """

    path: Path
    key: str
    kept: Path

    def done(self) -> set[str]:
        """Return the names of the steps that are done."""
        try:
            known = json.loads(self.path.read_text("utf-8"))
            holds = known["key"] == self.key and all((self.kept / name).is_dir() for name in known["folders"])
            return {name for steps in known["steps"].values() for name in steps} if holds else set()
        except (OSError, ValueError, KeyError, TypeError):
            return set()

    def add(self, taken: Iterable[tuple[Step, float]]) -> None:
        """Remember that these steps are done as well, and how many seconds each took."""
        known = self._steps() if self.done() else {}
        for step, seconds in taken:
            known.setdefault(step.work, {})[step.name] = round(seconds, 1)
        kernels = sorted(self.kept.glob("kernels/*/"), key=lambda folder: folder.stat().st_mtime)
        folders = [*kernels[-1:], *self.kept.glob("models/")]
        document = {
            "key": self.key,
            "steps": known,
            "folders": [folder.relative_to(self.kept).as_posix() for folder in folders],
        }
        aside = self.path.with_suffix(".part")
        aside.write_text(json.dumps(document), "utf-8")
        aside.replace(self.path)

    def _steps(self) -> dict[str, dict[str, float]]:
        steps: dict[str, dict[str, float]] = json.loads(self.path.read_text("utf-8"))["steps"]
        return steps


def key_of(root: Path, machine: str) -> str:
    """Return a hash of all that decides models and kernels: sources below ``root``, and the ``machine``."""
    digest = hashlib.sha256(machine.encode())
    for name in _SOURCES:
        source = root / name
        for path in package_files(source) if source.is_dir() else [source]:
            digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
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
        tell: told "preparing" (how many steps), "prepared-step" (each) and "prepared" (after how many seconds).
        work: see `run_steps`.
        workers: number of processes; by default one for each core that this process may keep busy.

    Raises:
        StepError: if a step failed.
    """
    known = memory.done()
    missing = [step for step in steps if step.name not in known]
    if not missing:
        return
    start = time.monotonic()
    workers = workers or _cores()
    tell({"event": "preparing", "steps": len(missing)})
    taken: list[tuple[Step, float]] = []

    def ended(step: Step, seconds: float) -> None:
        taken.append((step, seconds))
        tell({"event": "prepared-step", "step": step.name})

    run_steps(missing, work, workers, ended)
    memory.add(taken)
    tell({"event": "prepared", "seconds": time.monotonic() - start})


def _cores() -> int:
    from tinytorch.perf.host.pinned_threads import usable_cores  # takes as long as all that nothing to do may take

    return len(usable_cores())


def _print(event: dict[str, Any]) -> None:
    print(json.dumps(event), flush=True)


def main() -> int:
    """Prepare the pages that the command line names; return 0, or 1 if a step failed."""
    folder, machine, *pages = sys.argv[1:]
    memory = Memory(Path(folder) / "prepared.json", key_of(_ROOT, machine), _KEPT)
    os.environ |= _HELD_MEMORY  # of the processes that this one starts
    try:
        prepare(steps_of(pages), memory, _print)
    except StepError as error:
        _print({"event": "failed", "error": f"Before any page ran, {error}"})
        return 1
    except BrokenPipeError:  # whoever listened is gone: nobody needs the rest
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
