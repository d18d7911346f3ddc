"""Products over their width: where tiles in a cache begin to pay."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tinytorch.chapters.acceleration.ladder import bound_by, drawn
from tinytorch.perf.acceleration import products
from tinytorch.perf.machine import Ceilings
from tinytorch.perf.machine.levels import Level
from tinytorch.perf.measuring import Counted, Derived, Measurement, Modelled, Unmeasured, interleave, quotient, ratio
from tinytorch.perf.measuring.comparison import proven_from
from tinytorch.perf.measuring.judge import Judgement, Verdict, verdict_between, verdict_of_all
from tinytorch.report import points

#: Widths of a sweep double from here; whole tiles of each kind of CPU fit.
_NARROWEST, _WIDEST = 192, 12_288
#: The widest second matrix is at least so many times the last cache.
_BEYOND = 2
#: Rows of the result that are computed. A plain loop's rate does not depend on them: each row needs all of the second
#: matrix. A packed panel must serve many.
_ROWS, _TILE_ROWS = 24, 96
_LOOPS, _TILES, _REGISTERS, _PACKED = "i k j", "i k j in cache tiles", "tile in registers", "packed tile"
_WAYS: Mapping[str, Callable[[Any, Any], Any]] = {
    _LOOPS: products.compiled_loops_by_rows,
    _TILES: products.cache_tiles,
    _REGISTERS: products.register_tiles,
    _PACKED: products.packed_tiles,
}


@dataclass(frozen=True)
class Width:
    """Seconds of products with a second matrix ``width`` wide by way; those of loops are of fewer rows."""

    width: int
    seconds: Mapping[str, Measurement]

    @property
    def bytes(self) -> int:
        """Of the second matrix."""
        return 4 * self.width**2

    def rate(self, way: str) -> Measurement:
        """FLOP/s of one way."""
        rows = _ROWS if way in (_LOOPS, _TILES) else _TILE_ROWS
        return self.seconds[way].per(2 * rows * self.width**2, "FLOP/s", f"rate of {way}, {self.width} wide")


def widths_beyond(last_cache: int) -> tuple[int, ...]:
    """Return widths from 192 on, each twice the one before, until a matrix is twice a cache of so many bytes."""
    found = [_NARROWEST]
    while 4 * found[-1] ** 2 < _BEYOND * last_cache and found[-1] < _WIDEST:
        found.append(2 * found[-1])
    return tuple(found)


def study_widths(machine: Ceilings, *, resolve: float = 0.05, at_most_seconds: float = 2.0) -> Sweep:
    """Return all ways at each width, from the first cache to well beyond the last one."""
    last = max((level.capacity or 0 for level in machine.levels), default=0)
    found = []
    for width in widths_beyond(last):
        fresh = partial(_runs, width)
        times = interleave(fresh, resolve=resolve, at_most_seconds=at_most_seconds, warmup_seconds=0.05)
        found.append(Width(width, times))
    return Sweep(found, machine)


def _runs(width: int) -> dict[str, Callable[[], Any]]:
    """Return a product by each way, of matrices that lie elsewhere each time."""
    b = drawn(width, width)
    loops, tiles = drawn(_ROWS, width), drawn(_TILE_ROWS, width)
    return {name: partial(way, loops if name in (_LOOPS, _TILES) else tiles, b) for name, way in _WAYS.items()}


@dataclass(frozen=True)
class Sweep:
    """All ways at each width, narrowest first, and what the machine's ``levels`` say of them."""

    widths: Sequence[Width]
    machine: Ceilings

    @property
    def rates(self) -> list[dict[str, Any]]:
        """The rate of each way at each width, as `points`."""
        return points({"": {way: {each.width: each.rate(way) for each in self.widths} for way in _WAYS}})

    @property
    def borders(self) -> dict[str, int]:
        """The widest matrix that each cache holds."""
        return {level.name: _widest_in(level) for level in self.machine.levels[:-1]}

    @property
    def narrow_loops(self) -> Measurement:
        """The rate of plain loops with everything near."""
        return self.widths[0].rate(_LOOPS)

    def kept(self, way: str) -> Measurement:
        """Return how much of its rate at the smallest width a way has at the largest."""
        what = f"rate of {way} at the largest width over the smallest"
        return quotient(self.widths[-1].rate(way), self.widths[0].rate(way), what, "%")

    def gain(self, before: str, after: str, at: int) -> Measurement:
        """Return the time of one way over that of another at the width of this index."""
        one = self.widths[at]
        return ratio(one.seconds[before], one.seconds[after], f"{before} over {after}, {one.width} wide")

    @property
    def widest(self) -> Counted:
        """Bytes of the largest second matrix."""
        return Counted(self.widths[-1].bytes, "B", "bytes of the largest second matrix")

    @property
    def paying(self) -> Paying | Unmeasured:
        """From which width on tiles should pay, and how much; unmeasured where no level bounds the loops."""
        near = self.narrow_loops
        of_need = "what a level gives i k j, over its rate with everything near"
        holding = [
            level
            for level in self.machine.levels
            if verdict_between(quotient(level.read.scaled(0.5, "FLOP/s"), near, of_need), low=1.0).verdict
            is not Verdict.REFUTED
        ]
        if len(holding) == len(self.machine.levels):
            return Unmeasured("even memory is read faster than these loops need")

        def gain(level: Level) -> Modelled:
            what = f"rate of loops with everything near over the bound of {level.name}"
            return Modelled.by(bound_by(level).model, quotient(near, level.read.scaled(0.5, "FLOP/s"), what))

        border = _widest_in(holding[-1]) if holding else 0
        what = "width of the largest matrix in a cache that does not hold the loops up"
        return Paying(
            Modelled(border, "numbers", what, bound_by(self.machine.levels[-1]).model),
            gain(self.machine.levels[len(holding)]),
            gain(self.machine.levels[-1]),
        )

    def pays_from(self, matters: float) -> Derived | Unmeasured:
        """Return the smallest width of the sweep from which on loops in cache tiles are proven to be faster."""
        pairs = {each.width: (each.seconds[_LOOPS], each.seconds[_TILES]) for each in self.widths}
        what = "smallest width of the sweep from which on loops in cache tiles are proven to be faster"
        found = proven_from(pairs, matters, what, "numbers")
        return found or Unmeasured("at the largest width cache tiles are not proven to be faster")

    @property
    def tiling(self) -> Judgement:
        """Whether cache tiles gain beyond the last cache, and more than within the first."""
        within, *_, beyond = (ratio(each.seconds[_LOOPS], each.seconds[_TILES]) for each in self.widths)
        capacity = max((level.capacity or 0 for level in self.machine.levels), default=0)
        if not self.widths[-1].bytes > capacity > 0:
            return Judgement(Verdict.OPEN)
        more = quotient(beyond, within, "gain beyond the last cache over that within the first")
        return verdict_of_all(verdict_between(each, low=1.0, strict=True) for each in (beyond, more))


@dataclass(frozen=True)
class Paying:
    """From which width on tiles should pay, and how much: just beyond it, and in memory."""

    width: Modelled
    beyond: Modelled
    in_memory: Modelled


@dataclass(frozen=True)
class Cache:
    """A level of memory, the bound that it sets to i k j, and the widest matrix that it holds."""

    level: str
    read: Measurement
    bound: Modelled
    holds: Counted | None
    width: int | None


def caches(machine: Ceilings) -> list[Cache]:
    """Return the caches and memory of one core."""
    return [
        Cache(
            level.name,
            level.read,
            bound_by(level),
            Counted(held, "B", "bytes that the cache is reported to hold") if held else None,
            _widest_in(level) if held else None,
        )
        for level, held in ((level, level.capacity_reported) for level in machine.levels)
    ]


def _widest_in(level: Level) -> int:
    """Return the width of the largest square float32 matrix that a cache holds, by its reported size if it has one."""
    return int(((level.capacity_reported or level.capacity or 0) / 4) ** 0.5)


#: Bytes of a cache tile of 32 rows and 1,024 columns.
TILE_BYTES = Counted(4 * 32 * 1024, "B", "bytes of a cache tile of 32 rows and 1,024 columns")
