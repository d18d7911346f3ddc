"""A program sampled from inside and from outside of its process, next to what its own clocks say."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tinytorch.chapters.profiling import two_parts
from tinytorch.perf.measuring import Measurement, Unmeasured
from tinytorch.perf.measuring.conditions import Conditions, Sample
from tinytorch.perf.profiling.program import profile_program, why_unreadable


@dataclass(frozen=True)
class Sampled:
    """What one way to look says of a program of two parts.

    Attributes:
        share: of the first part in the time of both.
        slower: time of the program over that of the program alone; None of the program alone.
    """

    label: str
    share: Measurement
    slower: Measurement | None


def sampled(program: Callable[[], object]) -> dict[str, int]:
    """Return how many looks saw each function of a program: a hundred looks a second, by a thread beside it."""
    watched, ended, seen = threading.get_ident(), threading.Event(), Counter[str]()

    def look() -> None:
        while not ended.wait(0.01):
            frame, functions = sys._current_frames().get(watched), set()
            while frame is not None:
                functions.add(frame.f_code.co_name)
                frame = frame.f_back
            seen.update(functions)

    thread = threading.Thread(target=look)
    thread.start()
    program()
    ended.set()
    thread.join()
    return dict(seen)


#: What runs the program, by itself or with the looks of a thread, and leaves what it found in a file.
_ALONE = "spent, seen = run(%d), None"
_INSIDE = "spent = {}\nseen = sampled(lambda: spent.update(run(%d)))"
_LEAVE = "import json, sys\njson.dump({'spent': spent, 'seen': seen}, open(sys.argv[1], 'w'))"
_NEEDS = "import sys, threading\nfrom collections import Counter\nfrom collections.abc import Callable\n"


def in_turns(repeats: int = 5, turns: int = 2_000) -> dict[str, Sampled] | Unmeasured:
    """Return what the own clocks of `two_parts`, looks from inside and looks from outside say, by runs in turns.

    Args:
        repeats: runs of each kind, each in a process of its own.
        turns: of both parts in a run.
    """
    if why := why_unreadable():
        return Unmeasured(why)
    program = inspect.getsource(two_parts)
    alone_text = "\n".join([program, _ALONE % turns, _LEAVE])
    inside = "\n".join([program, _NEEDS, inspect.getsource(sampled), _INSIDE % turns, _LEAVE])
    shares: dict[str, list[float]] = {"clocks": [], "inside": [], "outside": []}
    times: dict[str, list[float]] = {"clocks": [], "inside": [], "outside": []}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(repeats):
            alone, _ = _run(Path(folder), alone_text, from_outside=False)
            within, _ = _run(Path(folder), inside, from_outside=False)
            beside, seen = _run(Path(folder), alone_text, from_outside=True)
            for name, left, parts in (
                ("clocks", alone, alone["spent"]), ("inside", within, within["seen"]), ("outside", beside, seen)
            ):  # fmt: skip
                first, second = (parts.get(part, 0.0) for part in alone["spent"])
                if first + second:  # else no look saw either part
                    shares[name].append(first / (first + second))
                times[name].append(sum(left["spent"].values()))
    if blind := [name for name, found in shares.items() if not found]:
        return Unmeasured(f"no look from {blind[0]} saw either part of the program")
    each = Conditions(sample=Sample.PROCESSES, part_of="the time of both parts")
    labels = {"clocks": "its own clocks", "inside": "looks from inside", "outside": "looks from outside"}
    return {
        name: Sampled(
            label,
            Measurement(f"share by {label}", tuple(shares[name]), "%", each),
            None if name == "clocks" else _slower(label, times[name], times["clocks"]),
        )
        for name, label in labels.items()
    }


def _slower(label: str, times: list[float], alone: list[float]) -> Measurement:
    ratios = tuple(one / other for one, other in zip(times, alone, strict=True))
    return Measurement(f"time with {label} over time alone", ratios, "", Conditions(sample=Sample.PROCESSES))


def _run(folder: Path, text: str, from_outside: bool) -> tuple[Any, dict[str, float]]:
    """Run a program; return what it left and, if it was looked at from outside, the share of each function."""
    script, target = folder / "program.py", folder / "left.json"
    script.write_text(text, encoding="utf-8")
    functions: dict[str, float] = {}
    if from_outside:
        done = profile_program(str(script), [str(target)])
        functions = {row.function: row.with_callees for row in done.lines.functions} if done.lines else {}
    else:
        subprocess.run([sys.executable, str(script), str(target)], check=True)
    return json.loads(target.read_text(encoding="utf-8")), functions
