"""A program sampled from inside and from outside of its process, next to what its own clocks say."""

import inspect
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tinytorch.perf.measuring import Measurement, Unmeasured
from tinytorch.perf.measuring.conditions import Conditions, Sample
from tinytorch.perf.measuring.planning import rounds_within
from tinytorch.perf.profiling.program import profile_program, why_unreadable


def sampled(program: Callable[[], object]) -> dict[str, int]:
    """Return how many times a second thread, which looks a hundred times a second, saw each function of a program."""
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


_A = np.ones((64, 64), np.float32)


def plain() -> None:
    """Interpret a loop that never gives up the interpreter's lock by itself."""
    x = 1.0
    for _ in range(20_000):
        x = x * 0.5 + 1.0


def product() -> None:
    """Multiply two small matrices, for which NumPy gives up the lock."""
    _ = _A @ _A


def run(turns: int) -> dict[str, float]:
    """Return the seconds of each part by the program's own clock, after so many turns of both."""
    spent = {"plain": 0.0, "product": 0.0}
    for _ in range(turns):
        for part in (plain, product):
            begun = time.perf_counter()
            part()
            spent[part.__name__] += time.perf_counter() - begun
    return spent


#: What the functions above need in a program of their own; what runs them; and what leaves their results in a file.
_NEEDS = """import json, sys, threading, time
from collections import Counter
from collections.abc import Callable
import numpy as np
_A = np.ones((64, 64), np.float32)
"""
_ALONE = "left = {'alone': run(%d)}"
_INSIDE = "\nleft['seen'] = sampled(lambda: run(%d))"
_LEAVE = "\njson.dump(left, open(sys.argv[1], 'w'))"


def in_turns(rounds: int = 6, turns: int = 400, at_most_seconds: float = 20.0) -> dict[str, Any] | Unmeasured:
    """Return what the clocks of `run`, looks from inside and looks from outside say of it, as rows of a table.

    Each round runs two processes: one is looked at from inside, after it ran alone, and one from outside. A row has the
    ``share`` of the first part in the time of both.

    Args:
        rounds: at most; each gives one sample.
        turns: of both parts in a run.
        at_most_seconds: no round but the first two begins later than this.
    """
    if why := why_unreadable():
        return Unmeasured(why)
    sources = [inspect.getsource(function) for function in (plain, product, run, sampled)]
    program = "\n".join([_NEEDS, *sources, _ALONE % turns])
    with tempfile.TemporaryDirectory() as folder:
        found = [_round(Path(folder), program, turns) for _ in rounds_within(at_most_seconds, rounds, fewest=2)]
    shares = {name: [share for one in found if (share := one[name]) is not None] for name in found[0]}
    if blind := [name for name, each in shares.items() if len(each) < 2]:
        return Unmeasured(f"too few looks from {blind[0]} saw either part of the program")
    return {
        "clocks": _row("its own clocks", shares["clocks"]),
        "inside": _row("a thread inside", shares["inside"]),
        "outside": _row("a process outside", shares["outside"]),
    }


def _round(folder: Path, program: str, turns: int) -> dict[str, float | None]:
    """Return the shares of the first part, None if it was not seen."""
    script, target = folder / "program.py", folder / "left.json"
    script.write_text(program + _INSIDE % turns + _LEAVE, encoding="utf-8")
    subprocess.run([sys.executable, str(script), str(target)], check=True)
    within = json.loads(target.read_text(encoding="utf-8"))
    script.write_text(program + _LEAVE, encoding="utf-8")
    lines = profile_program(str(script), [str(target)]).lines
    seen = {row["function"]: row["with_callees"] for row in lines.functions} if lines else {}
    parts = {"clocks": within["alone"], "inside": within["seen"], "outside": seen}
    return {name: _share(part) for name, part in parts.items()}


def _share(parts: Mapping[str, float]) -> float | None:
    first, second = parts.get(plain.__name__, 0.0), parts.get(product.__name__, 0.0)
    return first / (first + second) if first + second else None


def _row(label: str, shares: Sequence[float]) -> dict[str, Any]:
    part = Conditions(sample=Sample.PROCESSES, part_of="the time of both parts")
    return {"label": label, "share": Measurement(f"share by {label}", tuple(shares), "%", part)}
