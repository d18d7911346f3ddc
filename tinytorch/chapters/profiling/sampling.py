"""A program sampled from inside and from outside of its process, next to what its own clocks say."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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


#: What a program leaves: seconds of its parts by its own clocks and, if it was sampled from inside, its looks.
_LEAVE = "\nimport json, sys\njson.dump({'spent': spent, 'seen': %s}, open(sys.argv[1], 'w'))\n"
_INSIDE = (
    "import sys, threading\nfrom collections import Counter\n%s\n"
    "def program():\n    exec(%r, globals())\nseen = %s(program)\n"
)


def in_turns(
    program: str, sampled: Callable[..., Mapping[str, int]], repeats: int = 6
) -> dict[str, Sampled] | Unmeasured:
    """Return what a program's own clocks, looks from inside and looks from outside say, by runs in turns.

    Args:
        program: source whose variable ``spent`` has the seconds of two parts, which are functions, by their names.
        sampled: runs a function and returns how many looks saw each function; its source is run with the program.
        repeats: runs of each kind, each in a process of its own.
    """
    if why := why_unreadable():
        return Unmeasured(why)
    inside = _INSIDE % (inspect.getsource(sampled), program, sampled.__name__) + _LEAVE % "dict(seen)"
    shares: dict[str, list[float]] = {"clocks": [], "inside": [], "outside": []}
    times: dict[str, list[float]] = {"clocks": [], "inside": [], "outside": []}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(repeats):
            alone, _ = _run(Path(folder), program + _LEAVE % "None", from_outside=False)
            within, _ = _run(Path(folder), inside, from_outside=False)
            beside, seen = _run(Path(folder), program + _LEAVE % "None", from_outside=True)
            for name, left, parts in (
                ("clocks", alone, alone["spent"]), ("inside", within, within["seen"]), ("outside", beside, seen)
            ):  # fmt: skip
                first, second = (parts.get(part, 0.0) for part in alone["spent"])
                shares[name].append(first / (first + second))
                times[name].append(sum(left["spent"].values()))
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
