"""What only a program itself can tell: its operations, the memory of its arrays, and its calls, in a run of its own.

``python -m tinytorch.perf.profiling.inside FILE KINDS PROGRAM`` runs a program with what ``KINDS`` names recorded, and
leaves the result in a file that the process which started it reads.
"""

from __future__ import annotations

import cProfile
import ctypes
import json
import operator
import os
import pstats
import runpy
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tinytorch.core.op import Array
from tinytorch.perf.events.array_life import MemoryProfile, Step
from tinytorch.perf.events.stream import Columns, Event, Profile, Span
from tinytorch.perf.measuring.atomic_io import read_arrays, write_arrays
from tinytorch.perf.measuring.codec import from_json, to_json
from tinytorch.perf.profiling.profiler import Profiler

Json = dict[str, Any]
#: What stands for a program that is read from standard input.
STDIN = "-"
#: Calls by which the cost of counting one is measured.
_CALLS = 20_000
#: Seconds that are recorded at most: PyTorch's profiler keeps every call in memory, and takes as long to count them.
LONGEST = 20.0


class TorchCall(NamedTuple):
    """One call: when it began and ended, ns of ``time.perf_counter_ns``, its operation, and its thread's number."""

    start: int
    end: int
    op: str
    thread: int


class TorchOps:
    """Records PyTorch's operations of this thread, and of its backward, from now until `stop`, or for `LONGEST`.

    Afterwards ``calls`` and ``remarks`` are there, and ``rows``, one for each operation: its name ``op``, such as
    ``aten::addmm``; ``calls``; ``seconds`` without and ``with_inner`` with operations inside; and ``flops`` by formulas
    of PyTorch's own, None where it has none.

    Raises:
        RuntimeError: from PyTorch, if a profiler of it runs already.
    """

    def __init__(self, longest: float = LONGEST) -> None:
        # Not torch.profiler, which loads some 800 modules more.
        from torch.autograd.profiler import profile

        self.rows: list[Json] = []
        self.calls: list[TorchCall] = []
        self.remarks: list[str] = []
        self._longest = longest
        # A pause between the two readings makes the difference smaller, so that the largest is the nearest.
        self._clock = max(time.perf_counter_ns() - time.time_ns() for _ in range(9))
        self._profiler: Any = profile(use_kineto=True, with_flops=True)
        self._profiler.__enter__()
        # Only the thread that began it can end it: the interpreter is asked to call this there.
        self._call = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(self._over)
        self._timer = threading.Timer(longest, ctypes.pythonapi.Py_AddPendingCall, (self._call, None))
        self._timer.daemon = True
        self._timer.start()

    def _over(self, _: int | None) -> int:
        if self._profiler is not None:
            self.stop()
            self.remarks.append(f"PyTorch's operations are those of the first {self._longest:g} s since its import")
        return 0

    def stop(self) -> None:
        """Record no more, and make the rows, the longest first."""
        if self._profiler is None:
            return
        profiler, self._profiler = self._profiler, None
        self._timer.cancel()
        profiler.__exit__(None, None, None)
        for one in profiler.key_averages():
            times = {"seconds": one.self_cpu_time_total * 1e-6, "with_inner": one.cpu_time_total * 1e-6}
            self.rows.append({"op": one.key, "calls": one.count, **times, "flops": one.flops or None})
        self.rows.sort(key=lambda row: -row["seconds"])
        for one in profiler.kineto_results.events():
            start = one.start_ns() + self._clock
            self.calls.append(TorchCall(start, start + one.duration_ns(), one.name(), one.start_thread_id()))


class Inside(NamedTuple):
    """What runs from inside have recorded.

    Attributes:
        profiler: holds operations of this package, and the memory of arrays; None if neither was asked for.
        timed: whether operations were asked for, and not only memory.
        torch_rows, torch_calls: PyTorch's own operations, as `TorchOps` has them, and when they ran.
        called: functions as `cProfile` counts them, the longest first: ``function file line calls``, ``seconds``
            without and ``with_callees`` with functions that they called, and the ``share`` of the former in the run.
        start: of the run, ns.
        remarks: what a reader has to know, a sentence each.
    """

    profiler: Profiler | None
    timed: bool
    torch_rows: tuple[Json, ...]
    torch_calls: tuple[TorchCall, ...]
    called: tuple[Json, ...]
    start: int
    remarks: tuple[str, ...]

    @property
    def ran_ops(self) -> bool:
        """Whether ops of this package were recorded, or ran on threads of which they are not."""
        return (
            self.timed and self.profiler is not None and bool(len(self.profiler.run.events) or self.profiler.run.unseen)
        )

    @property
    def has_memory(self) -> bool:
        """Whether a run for the memory of arrays was asked for."""
        return self.profiler is not None and self.profiler.has_memory

    def joined(self, memory: Inside) -> Inside:
        """Return this one with the memory of another run."""
        remarks = [*self.remarks, *memory.remarks]
        if self.profiler is not None and memory.profiler is not None:
            try:
                self.profiler.join(memory.profiler)
            except ValueError:
                remarks.append("memory of arrays is not shown, because the runs for it and for time ran other ops")
        return self._replace(remarks=tuple(remarks))

    def torch_events(self) -> Iterator[Json]:
        """Yield PyTorch's operations as events of Chrome's trace format, from the start of their own run."""
        for thread in sorted({call.thread for call in self.torch_calls}):
            name = {"name": "operations of PyTorch, in a run of their own"}
            yield {"name": "thread_name", "ph": "M", "pid": 0, "tid": thread, "args": name}
        for call in self.torch_calls:
            timing = {"ts": (call.start - self.start) / 1e3, "dur": (call.end - call.start) / 1e3}
            yield {"name": call.op, "cat": "torch", "ph": "X", **timing, "pid": 0, "tid": call.thread, "args": {}}

    def to_json(self) -> Json:
        """Return everything as a JSON object."""
        ops, run = self.profiler if self.timed else None, self.profiler.run if self.profiler else None
        return {
            "wall_seconds": run.wall_seconds if run else None,
            "op_seconds": run.op_seconds if run and ops else None,
            "uncounted_ops": list(run.uncounted) if run else [],
            "ops": [asdict(row) for row in ops.attribution()] if ops else [],
            "layers": [asdict(row) for row in ops.by_layer()] if ops else [],
            "torch_ops": list(self.torch_rows),
            "called": list(self.called),
            "remarks": list(self.remarks),
        }


_NOTHING = Inside(
    None, False, (), (), (), 0, ("the run from inside left no result: it ended before it could write one",)
)


@contextmanager
def inside_command(line: Sequence[str], kinds: Sequence[str]) -> Iterator[tuple[list[str], Path]]:
    """Yield a command that runs what stands behind ``python`` and records it from inside, and where it leaves that."""
    with tempfile.TemporaryDirectory(prefix="tinytorch-") as folder:
        target = Path(folder) / "inside"
        yield [sys.executable, "-P", "-m", __name__, str(target), ",".join(kinds), *line], target


def read_inside(target: Path) -> Inside:
    """Return what the command of `inside_command` has left.

    Raises:
        ValueError: if the file holds something else.
    """
    if not target.is_file():
        return _NOTHING
    arrays = read_arrays(target)
    found = from_json(json.loads(arrays["document"].tobytes()), _Document, str(target))
    profiler = None
    if found.run is not None:
        events: Any = Columns(found.kinds, *arrays["ops"])
        spans = tuple(Span(*found.span_names[at], *times) for at, *times in arrays["spans"].tolist())
        run = replace(found.run, events=events, spans=spans)
        memory = None
        if found.memory is not None:
            rows = arrays["steps"].tolist()
            steps = tuple(Step(allocated, temporary, peak, tuple(live)) for allocated, temporary, peak, *live in rows)
            memory = replace(found.memory, run=run, steps=steps)
        profiler = Profiler.of(memory or run, found.module_call)
    names = found.torch_names
    calls = tuple(TorchCall(start, end, names[at], thread) for start, end, at, thread in arrays["torch_calls"].tolist())
    return Inside(profiler, found.timed, found.torch_rows, calls, found.called, found.start, found.remarks)


def write_inside(target: Path, made: Inside) -> None:
    """Write what one run recorded, for `read_inside`: the numbers of each call as arrays, the rest as JSON."""
    run = memory = module_call = None
    columns, steps, spans = Columns.of(()), [], []
    span_names: dict[tuple[str, str], int] = {}
    if made.profiler is not None:
        run, columns = replace(made.profiler.run, events=(), spans=()), made.profiler.run.columns
        for span in made.profiler.run.spans:
            name = span_names.setdefault((span.path, span.module), len(span_names))
            spans.append((name, span.depth, span.start, span.end))
        module_call = made.profiler.module_call
        if made.has_memory:
            memory = replace(made.profiler.memory, run=run, steps=())
            steps = [(step.allocated, step.temporary, step.peak, *step.live) for step in made.profiler.memory.steps]
    names: dict[str, int] = {}
    calls = [(call.start, call.end, names.setdefault(call.op, len(names)), call.thread) for call in made.torch_calls]
    document = _Document(
        run,
        columns.kinds,
        tuple(span_names),
        memory,
        module_call,
        made.timed,
        made.torch_rows,
        tuple(names),
        made.called,
        made.start,
        made.remarks,
    )
    arrays: dict[str, Array] = {
        "document": np.frombuffer(json.dumps(to_json(document), default=operator.index).encode(), np.uint8),
        "ops": np.stack([columns.kind, columns.start, columns.end, columns.self_ns]),
        "spans": np.array(spans, np.int64).reshape(-1, 4),
        "steps": np.array(steps, np.int64),
        "torch_calls": np.array(calls, np.int64).reshape(-1, 4),
    }
    write_arrays(target, arrays)


@dataclass(frozen=True)
class _Document:
    """What one run recorded, but for the numbers of each call of an op or module, which are in arrays."""

    run: Profile | None
    kinds: tuple[Event, ...]
    span_names: tuple[tuple[str, str], ...]
    memory: MemoryProfile | None
    module_call: float | None
    timed: bool
    torch_rows: tuple[Json, ...]
    torch_names: tuple[str, ...]
    called: tuple[Json, ...]
    start: int
    remarks: tuple[str, ...]


def _run(line: Sequence[str]) -> None:
    """Run a program as the main module, with its arguments and its first folder to search."""
    if line[0] == "-m":
        sys.argv = list(line[1:])
        sys.path.insert(0, os.getcwd())
        runpy.run_module(line[1], run_name="__main__", alter_sys=True)
        return
    sys.argv = list(line)
    if line[0] == STDIN:
        sys.path.insert(0, "")
        code = compile(sys.stdin.read(), "<stdin>", "exec", dont_inherit=True)
        main = sys.modules["__main__"] = type(sys)("__main__")
        exec(code, main.__dict__)
        return
    path = Path(line[0])
    if path.is_file() and path.suffix == ".py":
        sys.path.insert(0, str(path.resolve().parent))
    runpy.run_path(line[0], run_name="__main__")


def _main(target: str, kinds: Sequence[str], line: Sequence[str]) -> None:
    """Run a program with what ``kinds`` name recorded, and leave the result in ``target``, however it ends."""
    remarks: list[str] = []
    profiler = Profiler(memory="memory" in kinds) if {"ops", "memory"} & {*kinds} else None
    counting = cProfile.Profile() if "calls" in kinds else None
    cost = _cost_of_counting() if counting is not None else 0.0
    process, torch = os.getpid(), None
    if "torch" in kinds:
        try:
            torch = TorchOps()
        except (RuntimeError, ImportError, AttributeError) as error:
            remarks.append(f"PyTorch's operations were not recorded: {' '.join(str(error).split())}")
    start = time.perf_counter_ns()
    try:
        with ExitStack() as body:
            if profiler is not None:
                body.enter_context(profiler)
            if counting is not None:
                body.enter_context(counting)
            _run(line)
    finally:
        seconds = (time.perf_counter_ns() - start) * 1e-9
        if os.getpid() == process:  # and not in a copy of it that the program made
            if torch is not None:
                torch.stop()
                remarks += torch.remarks
            called = _called(counting) if counting is not None else []
            if counting is not None:
                calls = sum(row["calls"] for row in called)
                remarks.append(
                    f"counting made each call {cost * 1e6:.2f} µs longer, which is {cost * calls / seconds:.0%} of the "
                    "time: functions with many short calls look longer than they are"
                )
            rows, times = (torch.rows, torch.calls) if torch is not None else ((), ())
            made = Inside(profiler, "ops" in kinds, tuple(rows), tuple(times), tuple(called), start, tuple(remarks))
            write_inside(Path(target), made)


def _called(counting: cProfile.Profile) -> list[Json]:
    stats: Any = pstats.Stats(counting)
    whole_time = sum(own for _, _, own, _, _ in stats.stats.values()) or 1.0
    rows = [
        {"function": function, "file": file, "line": line, "calls": calls, "seconds": own, "with_callees": inner}
        | {"share": own / whole_time}
        for (file, line, function), (_, calls, own, inner, _) in stats.stats.items()
    ]
    return sorted(rows, key=lambda row: -row["seconds"])


def _cost_of_counting() -> float:
    """Return the seconds by which counting makes a call of a function longer."""

    def empty() -> None: ...

    def calls() -> float:
        begun = time.perf_counter()
        for _ in range(_CALLS):
            empty()
        return time.perf_counter() - begun

    alone = min(calls() for _ in range(5))
    with cProfile.Profile():
        counted = min(calls() for _ in range(5))
    return max(counted - alone, 0.0) / _CALLS


if __name__ == "__main__":
    # Under its own name, by which the process that reads the result knows its classes.
    from tinytorch.perf.profiling import inside

    inside._main(sys.argv[1], sys.argv[2].split(","), sys.argv[3:])
