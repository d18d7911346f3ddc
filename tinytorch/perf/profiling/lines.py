"""Lines, functions and calls into libraries: where the time of any program goes, read off samples of its stacks."""

from __future__ import annotations

import ast
import linecache
import sysconfig
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from tinytorch.perf.events.call_tree import Frame, call_tree
from tinytorch.perf.events.stack_samples import Place, Samples, Track, told
from tinytorch.perf.events.stream import Profile
from tinytorch.perf.measuring.text_table import Column, number, percent, text_table

#: What a place is: the program's own line, Python of a library, or compiled code that a line called.
Whose = Literal["own", "library", "compiled"]
#: What has no line of the program, such as a thread that a library started.
NO_LINE = "no line of the program"


@dataclass(frozen=True, slots=True)
class Shares:
    """Time in which a line of the program was the innermost one of it, and shares of the run's wall time, 0 to 1.

    Attributes:
        seconds: own, compiled and library time together.
        share: of ``seconds``.
        own_share: of the program's own Python.
        compiled_share: of compiled code that it called itself, such as a product of NumPy.
        library_share: of Python of libraries that it called, with what that called.
    """

    seconds: float
    share: float
    own_share: float
    compiled_share: float
    library_share: float


@dataclass(frozen=True, slots=True)
class LineRow(Shares):
    """One line of the program in one thread; the shares of those of one thread sum to the part that it lived.

    Attributes:
        thread: its name, with the process if that is another one.
        file, line, function: where it is; the file "" and 0 where no line of the program ran.
        source: its text.
        with_callees: share with the program's own functions that the line called; calls of itself count once.
    """

    thread: str
    file: str
    line: int
    function: str
    source: str
    with_callees: float


@dataclass(frozen=True, slots=True)
class FunctionRow(Shares):
    """One function of the program: as `LineRow`, of all threads and lines of it; ``line`` is where it begins."""

    file: str
    line: int
    function: str
    with_callees: float


@dataclass(frozen=True, slots=True)
class CallRow:
    """What lines of the program called outside of it: of which library, and from which line.

    ``library`` is "compiled code" where no Python of a library ran, as in ``a @ b``; ``what`` is the call as the line
    has it. Time is that of the calls with all that they called.
    """

    library: str
    what: str
    file: str
    line: int
    seconds: float
    share: float


@dataclass(frozen=True, slots=True)
class ThreadRow(Shares):
    """One thread: how long it lived while the program ran, how it spent that, and its busiest line."""

    thread: str
    busiest: str


class Lines:
    """Samples of a program as tables, as a call tree, and by time.

    Args:
        samples: of the program's process, then of those that it started.
        own: files and folders that are the program's even where libraries lie.
    """

    def __init__(self, samples: Sequence[Samples], own: Sequence[str] = ()) -> None:
        self.samples = tuple(samples)
        self._own = tuple(own)
        self._whole = max(samples[0].end - samples[0].start, 1)
        self._whose = cache(self._whose_is)

    @property
    def cost(self) -> float:
        """Processor time that looking took, over the wall time of the run."""
        return self.samples[0].cost / self._whole

    @property
    def looks(self) -> int:
        """How often the program's process was looked at."""
        return self.samples[0].looks

    def name(self, track: Track) -> str:
        """Return a thread's name, with the process if that is another one."""
        first = self.samples[0].tracks[0].process if self.samples[0].tracks else track.process
        return track.name if track.process == first else f"process {track.process}, {track.name}"

    def _whose_is(self, place: Place) -> Whose:
        if place.compiled:
            return "compiled"
        return "own" if library_of(place.file, self._own) is None else "library"

    def _parted(self, places: tuple[Place, ...]) -> tuple[int, Whose]:
        """Return where the innermost line of the program is, -1 if there is none, and what ran in it."""
        inner = max((at for at, place in enumerate(places) if self._is_own(place)), default=-1)
        if inner < len(places) - 1 or inner < 0:
            return inner, "library"
        return inner, "compiled" if places[inner].compiled else "own"

    def _is_own(self, place: Place) -> bool:
        return self._whose(place._replace(compiled=False)) == "own"

    def _all(self) -> Iterator[tuple[str, int, tuple[Place, ...]]]:
        """Yield thread, nanoseconds and stack of each look within the run."""
        start, end = self.samples[0].start, self.samples[0].end
        for one in self.samples:
            for track, look, places in told(one):
                nanoseconds = min(look.end, end) - max(look.start, start)
                if places and nanoseconds > 0:
                    yield self.name(track), nanoseconds, places

    def _summed(self, key: Callable[[str, Place | None], tuple[Any, ...]]) -> dict[tuple[Any, ...], dict[str, int]]:
        """Return nanoseconds by whose they are, and with callees, of each key of thread and place."""
        found: dict[tuple[Any, ...], dict[str, int]] = {}
        for thread, nanoseconds, places in self._all():
            inner, whose = self._parted(places)
            sums = found.setdefault(key(thread, places[inner] if inner >= 0 else None), {})
            sums[whose] = sums.get(whose, 0) + nanoseconds
            own: list[Place | None] = [place for place in places if self._is_own(place)]
            for each in {key(thread, place) for place in own or [None]}:
                with_callees = found.setdefault(each, {})
                with_callees["all"] = with_callees.get("all", 0) + nanoseconds
        return found

    def _shares(self, sums: dict[str, int]) -> tuple[float, float, float, float, float]:
        own, compiled, library = (sums.get(kind, 0) for kind in ("own", "compiled", "library"))
        whole = own + compiled + library
        return whole * 1e-9, whole / self._whole, own / self._whole, compiled / self._whole, library / self._whole

    @cached_property
    def lines(self) -> list[LineRow]:
        """One row for each line and thread, the longest first."""
        found = self._summed(
            lambda thread, place: (
                (thread, place.file, place.line, place.function) if place else (thread, "", 0, NO_LINE)
            )
        )
        rows = []
        for (thread, file, line, function), sums in found.items():
            source = linecache.getline(file, line).strip() if file else ""
            with_callees = sums.get("all", 0) / self._whole
            rows.append(LineRow(*self._shares(sums), thread, file, line, function, source, with_callees))
        return sorted(rows, key=lambda row: -row.seconds)

    @cached_property
    def functions(self) -> list[FunctionRow]:
        """One row for each function of the program, the longest first."""
        found = self._summed(lambda _, place: (place.file, place.first, place.function) if place else ("", 0, NO_LINE))
        rows = []
        for (file, line, function), sums in found.items():
            rows.append(FunctionRow(*self._shares(sums), file, line, function, sums.get("all", 0) / self._whole))
        return sorted(rows, key=lambda row: -row.seconds)

    @cached_property
    def calls(self) -> list[CallRow]:
        """One row for each call from a line of the program into a library, or into compiled code, the longest first."""
        found: dict[tuple[str, str, str, int], int] = {}
        for _, nanoseconds, places in self._all():
            inner, whose = self._parted(places)
            if whose == "own":
                continue
            outside = places[min(inner + 1, len(places) - 1)]
            library = "compiled code" if whose == "compiled" else library_of(outside.file, self._own) or ""
            called = (library, expression(places[inner]) if inner >= 0 else outside.function)
            file, line = (places[inner].file, places[inner].line) if inner >= 0 else ("", 0)
            found[*called, file, line] = found.get((*called, file, line), 0) + nanoseconds
        rows = [CallRow(*key, ns * 1e-9, ns / self._whole) for key, ns in found.items()]
        return sorted(rows, key=lambda row: -row.seconds)

    @cached_property
    def threads(self) -> list[ThreadRow]:
        """One row for each thread, the program's main one first, then those of processes that it started."""
        found = self._summed(lambda thread, _: (thread,))
        busiest: dict[str, LineRow] = {}
        for line in self.lines:
            busiest.setdefault(line.thread, line)
        return [
            ThreadRow(*self._shares(sums), thread, at(busiest[thread].file, busiest[thread].line))
            for (thread,), sums in found.items()
        ]

    def tree(self, run: Profile) -> Frame:
        """Return the call tree of a run with stacks in place of its time without a name; other threads stand beside.

        They are of the looks that no op, module or region covers, and each has its part of that time.
        """
        root, covered = deepcopy(call_tree(run)), _Covered(run)
        several = len([one for one in self.samples for track in one.tracks if track.looks]) > 1
        first, sums = True, 0
        hung: list[tuple[Frame, int]] = []
        for one in self.samples:
            for track in one.tracks:
                above = root.within(self.name(track), "thread", "") if several and not first else root
                for look in track.looks:
                    if not one.stacks[look.stack] or (first and covered.at(look.end)):
                        continue
                    frame = above
                    for name, kind in self._frames(one.stacks[look.stack]):
                        frame = frame.within(name, kind, "")
                    nanoseconds = look.end - look.start
                    if first:
                        hung.append((frame, nanoseconds))
                        sums += nanoseconds
                    else:
                        frame.self_ns += nanoseconds
                first = False
        free = root.self_ns
        for frame, nanoseconds in hung:
            part = free * nanoseconds // sums
            frame.self_ns += part
            root.self_ns -= part
        return root

    def _frames(self, places: tuple[Place, ...]) -> Iterator[tuple[str, Whose]]:
        """Yield name and kind of each frame of a stack, with the compiled code that its last line called.

        Of a deep recursion the frames in the middle are one.
        """
        left = len(places) - 2 * _DRAWN
        for depth, place in enumerate(places):
            if left > 0 and _DRAWN <= depth < _DRAWN + left:
                if depth == _DRAWN:
                    yield "…", "library"
                continue
            if self._is_own(place):
                yield f"{place.function} {at(place.file, place.line)}", "own"
            else:
                yield f"{library_of(place.file, self._own)}: {place.function}", "library"
            if place.compiled:
                yield expression(place), "compiled"

    def trace_events(self, run: Profile) -> Iterator[dict[str, Any]]:
        """Yield events of Chrome's trace format: a row for each thread, and the memory that the process held."""
        for one in self.samples:
            for row, track in enumerate(one.tracks, _FIRST_ROW):
                where = {"pid": track.process, "tid": row}
                words = {"name": f"{self.name(track)}, lines"}
                yield {"name": "thread_name", "ph": "M", **where, "args": words}
                for start, end, _, name, kind in self.intervals(track, one.stacks):
                    timing = {"ts": (start - run.start) / 1e3, "dur": (end - start) / 1e3}
                    yield {"name": name, "cat": kind, "ph": "X", **timing, **where, "args": {}}
            for when, held in one.resident if one.tracks else ():
                at_time = {"ts": (when - run.start) / 1e3, "pid": one.tracks[0].process}
                yield {"name": "resident bytes", "ph": "C", **at_time, "args": {"resident": held}}

    def intervals(
        self, track: Track, stacks: Sequence[tuple[Place, ...]]
    ) -> Iterator[tuple[int, int, int, str, Whose]]:
        """Yield start, end, depth, name and kind of what a thread was seen to run without a break, outer frames first.

        A line that was seen in two looks in a row is taken to have run between them.
        """
        running: list[tuple[int, str, Whose]] = []
        last = 0
        for look in track.looks:
            frames = list(self._frames(stacks[look.stack]))
            same = 0
            if look.start == last:
                while same < min(len(frames), len(running)) and running[same][1:] == frames[same]:
                    same += 1
            for depth in range(len(running) - 1, same - 1, -1):
                yield running[depth][0], last, depth, *running[depth][1:]
            running[same:] = [(look.start, *frame) for frame in frames[same:]]
            last = look.end
        for depth in range(len(running) - 1, -1, -1):
            yield running[depth][0], last, depth, *running[depth][1:]


#: Frames that are drawn at either end of a deep stack.
_DRAWN = 50
#: Number of the first row of threads in a trace, where those of the system's numbers do not stand.
_FIRST_ROW = 2**31


class _Covered:
    """Says whether a moment lies in an op, a module or a region of a run."""

    def __init__(self, run: Profile) -> None:
        parts = [(one.start, one.end) for one in run.regions]
        parts += [(one.start, one.end) for one in run.spans]
        parts += zip(run.columns.start.tolist(), run.columns.end.tolist(), strict=True)
        merged: list[list[int]] = []
        for start, end in sorted(parts):
            if merged and start <= merged[-1][1]:
                merged[-1][1] = max(end, merged[-1][1])
            else:
                merged.append([start, end])
        self._starts, self._ends = [one[0] for one in merged], [one[1] for one in merged]

    def at(self, moment: int) -> bool:
        number = bisect_right(self._starts, moment) - 1
        return number >= 0 and moment <= self._ends[number]


def at(file: str, line: int) -> str:
    """Return a place as a person names it, ``train.py:12``."""
    return f"{Path(file).name}:{line}" if file else NO_LINE


_PACKAGE = str(Path(__file__).parents[2])
_STANDARD = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib")})
_INSTALLED = ("site-packages", "dist-packages")


@cache
def library_of(file: str, own: tuple[str, ...] = ()) -> str | None:
    """Return the library that a file belongs to, or None if it is the program's own.

    A library is what is installed for this Python, what comes with it, this package, and code that has no file.
    """
    path = Path(file)
    if file == "<stdin>" or any(file == one or Path(one) in path.parents for one in own):
        return None
    if file.startswith("<"):
        return "importlib" if "importlib" in file else "code without a file"
    if _is_below(file, _PACKAGE):
        return "tinytorch"
    for folder, inner in pairwise(path.parts):
        if folder in _INSTALLED:
            return inner.removesuffix(".py")
    for root in _STANDARD:
        if _is_below(file, root):
            return Path(file).relative_to(root).parts[0].removesuffix(".py")
    return None


def _is_below(file: str, folder: str) -> bool:
    return Path(folder) in Path(file).parents


@cache
def expression(place: Place) -> str:
    """Return what a line called, as its source has it: ``np.maximum`` of ``np.maximum(x, 0)``, or ``a @ b``."""
    first, last, begin, end = place.columns
    if first is None or last is None or begin is None or end is None:
        return "compiled code"
    lines = [line.encode() for line in linecache.getlines(place.file)[first - 1 : last]]
    if not lines:
        return "compiled code"
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][begin:]
    text = b"".join(lines).decode(errors="replace")
    try:
        tree: Any = ast.parse(text.strip(), mode="eval").body
        text = ast.unparse(tree.func if isinstance(tree, ast.Call) else tree)
    except (SyntaxError, ValueError, RecursionError):
        pass
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


_LONGEST = 40
_SHARES = (
    Column("share", "share (%)", percent),
    Column("own_share", "own (%)", percent),
    Column("compiled_share", "compiled (%)", percent),
    Column("library_share", "libraries (%)", percent),
)
_PLACE = Column("place", "line", numeric=False)


@dataclass(frozen=True)
class _Shown:
    """A row of a table with its place as one cell."""

    row: Any

    @property
    def place(self) -> str:
        return at(self.row.file, self.row.line)

    def __getattr__(self, key: str) -> Any:
        return getattr(self.row, key)


def _cut(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:59]}…"


def tables_text(lines: Lines, limit: int) -> str:
    """Return the tables as text: lines, functions, calls into libraries, and threads where there are several."""
    if not lines.lines:
        return "the program was over before it could be looked at"
    several = len(lines.threads) > 1
    thread = [Column("thread", "thread", numeric=False)] if several else []
    milliseconds = Column("seconds", "time (ms)", number(1, 1e3))
    parts = [
        text_table(
            [*map(_Shown, lines.lines[:limit])],
            [_PLACE, *thread, milliseconds, *_SHARES, Column("source", "source", _cut, numeric=False)],
        ),
        text_table(
            [*map(_Shown, lines.functions[:limit])],
            [
                Column("function", "function", numeric=False),
                _PLACE,
                milliseconds,
                *_SHARES,
                Column("with_callees", "with callees (%)", percent),
            ],
        ),
    ]
    if lines.calls:
        columns = [Column("library", "library", numeric=False), Column("what", "call", numeric=False)]
        parts.append(text_table([*map(_Shown, lines.calls[:limit])], [*columns, _PLACE, milliseconds, _SHARES[0]]))
    if several:
        busiest = Column("busiest", "busiest line", numeric=False)
        parts.append(text_table(lines.threads, [*thread, milliseconds, *_SHARES, busiest]))
    return "\n\n".join(parts)
