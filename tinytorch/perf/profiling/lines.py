"""Lines, functions and calls into libraries: where the time of any program goes, read off samples of its stacks."""

from __future__ import annotations

import ast
import linecache
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from functools import cache, cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np

from tinytorch.perf.events.call_tree import Frame
from tinytorch.perf.events.remote_stacks import Place
from tinytorch.perf.events.stack_samples import Samples, Track, told
from tinytorch.perf.measuring.statistics import Share

#: What a place is: the program's own line, Python of a library, or compiled code that a line called.
Whose = Literal["own", "library", "compiled"]
#: What has no line of the program, such as a thread that a library started, and the start of Python.
NO_LINE = "no line of the program"
#: Looks below which a share is uncertain: its interval is wider than the share.
FEW = 12


#: A row of a table, as JSON holds it. Each has ``seconds``, and their ``share`` of the run's wall time, 0 to 1, with
#: its 95 % interval from ``low`` to ``high``, which is as wide as the number of looks makes it.
Row = dict[str, Any]


class Lines:
    """Samples of a program as tables, as a call tree, and by time.

    The time of a line is that in which it was the innermost one of the program. A row of lines, functions or threads
    splits its share: ``own_share`` is the program's Python, ``compiled_share`` compiled code that it called, such as a
    product of NumPy, and ``library_share`` Python of libraries that it called, with what that called.
    ``with_callees`` includes the program's own functions that it called, where a recursive call counts once;
    its interval is ``callees_low`` to ``callees_high``. ``file`` is "" and ``line`` 0 where no line of the program ran.

    Args:
        samples: of the program's process, then of those that it started.
        own: files and folders that are the program's even where libraries lie.
    """

    def __init__(self, samples: Sequence[Samples], own: Sequence[str] = ()) -> None:
        self.samples = tuple(samples)
        self._own = tuple(own)
        self._whose = cache(self._whose_is)
        self.begin = self._first_line()
        self._whole = max(samples[0].end - self.begin, 1)

    def _first_line(self) -> int:
        """Return when a line of the program was seen first, ns: until then Python starts."""
        first = self.samples[0]
        for track, look, places in told(first):
            if track is first.tracks[0] and any(map(self._is_own, places)):
                return look.start
        return first.start

    @property
    def start_seconds(self) -> float:
        """Time that Python took to start, before the first line of the program."""
        return (self.begin - self.samples[0].start) * 1e-9

    @property
    def wall_seconds(self) -> float:
        """Time from the start of the program to its end."""
        return (self.samples[0].end - self.samples[0].start) * 1e-9

    @property
    def cost(self) -> float:
        """Time of one core that looking took, over the wall time of the run."""
        return self.samples[0].cost * 1e-9 / max(self.wall_seconds, 1e-9)

    @property
    def looks(self) -> int:
        """How often the program's process was looked at."""
        return self.samples[0].looks

    @cached_property
    def effective_looks(self) -> float:
        """How many looks of equal weight tell as much as those that there were, which stand for different times."""
        first = self.samples[0]
        looks = first.tracks[0].looks if first.tracks else []
        weights = [look.weight for look in looks if look.start >= self.begin]
        squares = sum(weight * weight for weight in weights)
        return sum(weights) ** 2 / squares if squares else 0.0

    def interval(self, share: float) -> tuple[float, float]:
        """Return the 95 % interval of a share (0 to 1) of the run's time, as looks at drawn moments leave it."""
        trials = round(self.effective_looks)
        return _interval(min(round(share * trials), trials), trials) if trials else (0.0, 1.0)

    def uncertain(self, share: float) -> bool:
        """Return whether too few looks stand behind a share."""
        return share * self.effective_looks < FEW

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
        if inner < 0 or inner < len(places) - 1:
            return inner, "library"
        return inner, "compiled" if places[inner].compiled else "own"

    def _is_own(self, place: Place) -> bool:
        return self._whose(place._replace(compiled=False)) == "own"

    def _all(self) -> Iterator[tuple[str, int, tuple[Place, ...]]]:
        """Yield thread, nanoseconds and stack of each look within the run."""
        for one in self.samples:
            for track, look, places in told(one):
                if look.start >= self.begin:
                    yield self.name(track), look.weight, places

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

    def _time(self, nanoseconds: int) -> Row:
        share = nanoseconds / self._whole
        low, high = self.interval(share)
        return {"seconds": nanoseconds * 1e-9, "share": share, "low": low, "high": high}

    def _shares(self, sums: dict[str, int]) -> Row:
        parts = {kind: sums.get(kind, 0) for kind in ("own", "compiled", "library")}
        return self._time(sum(parts.values())) | {f"{kind}_share": part / self._whole for kind, part in parts.items()}

    def _with_callees(self, sums: dict[str, int]) -> Row:
        share = sums.get("all", 0) / self._whole
        low, high = self.interval(share)
        return {"with_callees": share, "callees_low": low, "callees_high": high}

    @cached_property
    def lines(self) -> list[Row]:
        """Lines of each ``thread`` (with the process if that is another one): ``file line function source``."""
        found = self._summed(
            lambda thread, place: (
                (thread, place.file, place.line, place.function) if place else (thread, "", 0, NO_LINE)
            )
        )
        rows = []
        for (thread, file, line, function), sums in found.items():
            source = linecache.getline(file, line).strip() if file else ""
            where = {"thread": thread, "file": file, "line": line, "function": function, "source": source}
            rows.append(self._shares(sums) | where | self._with_callees(sums))
        return _longest_first(rows)

    @cached_property
    def functions(self) -> list[Row]:
        """Functions of the program, of all threads: ``file function``, and the ``line`` where each begins."""
        found = self._summed(lambda _, place: (place.file, place.first, place.function) if place else ("", 0, NO_LINE))
        return _longest_first(
            [
                self._shares(sums) | {"file": file, "line": line, "function": function} | self._with_callees(sums)
                for (file, line, function), sums in found.items()
            ]
        )

    @cached_property
    def calls(self) -> list[Row]:
        """Calls out of the program, with all that they called: ``library what file line``.

        ``library`` is "compiled code" where no Python of a library ran, as in ``a @ b``; ``what`` is the call as the
        line has it.
        """
        found: dict[tuple[str, str, str, int], int] = {}
        for _, nanoseconds, places in self._all():
            inner, whose = self._parted(places)
            if whose == "own" or not places:
                continue
            outside = places[min(inner + 1, len(places) - 1)]
            library = "compiled code" if whose == "compiled" else library_of(outside.file, self._own) or ""
            called = (library, expression(places[inner]) if inner >= 0 else outside.function)
            file, line = (places[inner].file, places[inner].line) if inner >= 0 else ("", 0)
            found[*called, file, line] = found.get((*called, file, line), 0) + nanoseconds
        names = ("library", "what", "file", "line")
        return _longest_first([dict(zip(names, key, strict=True)) | self._time(ns) for key, ns in found.items()])

    @cached_property
    def threads(self) -> list[Row]:
        """Threads, each with its ``busiest`` line: the program's main one first, those of other processes last."""
        found = self._summed(lambda thread, _: (thread,))
        busiest: dict[str, Row] = {}
        for line in self.lines:
            busiest.setdefault(line["thread"], line)
        return [
            self._shares(sums) | {"thread": thread, "busiest": at(busiest[thread]["file"], busiest[thread]["line"])}
            for (thread,), sums in found.items()
        ]

    def tree(self) -> Frame:
        """Return all stacks as a call tree; of several threads and processes all but the first one stand beside it."""
        root = Frame("run", "run", calls=1)
        for one in self.samples:
            for track in one.tracks:
                above = root if track is self.samples[0].tracks[0] else root.within(self.name(track), "thread", "")
                for look in (look for look in track.looks if look.start >= self.begin):
                    frame = above
                    for name, kind in self._frames(one.stacks[look.stack]):
                        frame = frame.within(name, kind, "")
                    frame.self_ns += look.weight
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

    def trace_events(self) -> Iterator[dict[str, Any]]:
        """Yield events of Chrome's trace format: a row for each thread, and the memory that the process held."""
        begin = self.begin
        for one in self.samples:
            for row, track in enumerate(one.tracks, _FIRST_ROW):
                where = {"pid": track.process, "tid": row}
                words = {"name": f"{self.name(track)}, lines"}
                yield {"name": "thread_name", "ph": "M", **where, "args": words}
                for start, end, _, name, kind in self.intervals(track, one.stacks):
                    timing = {"ts": (start - begin) / 1e3, "dur": (end - start) / 1e3}
                    yield {"name": name, "cat": kind, "ph": "X", **timing, **where, "args": {}}
            for when, held in (pair for pair in one.resident if pair[0] >= begin):
                at_time = {"ts": (when - begin) / 1e3, "pid": one.tracks[0].process}
                yield {"name": "resident bytes", "ph": "C", **at_time, "args": {"resident": held}}

    def intervals(
        self, track: Track, stacks: Sequence[tuple[Place, ...]]
    ) -> Iterator[tuple[int, int, int, str, Whose]]:
        """Yield start, end, depth, name and kind of what a thread was seen to run without a break, outer frames first.

        A line that was seen in two looks in a row is taken to have run between them.
        """
        running: list[tuple[int, str, Whose]] = []
        last = 0
        for look in (look for look in track.looks if look.start >= self.begin):
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


def _longest_first(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: -row["seconds"])


#: Frames that are drawn at either end of a deep stack.
_DRAWN = 50
#: Number of the first row of threads in a trace, where those of the system's numbers do not stand.
_FIRST_ROW = 2**31


@cache
def _interval(count: int, trials: int) -> tuple[float, float]:
    low, high = Share(count, trials).quantiles(np.array([0.025, 0.975]))
    return float(low), float(high)


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


#: Characters of a call that are shown.
_LONGEST = 40
