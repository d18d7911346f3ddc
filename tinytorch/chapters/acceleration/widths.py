"""Products over their width: where tiles in a cache begin to pay."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tinytorch.chapters import sources
from tinytorch.chapters.acceleration.ladder import drawn
from tinytorch.perf.acceleration import products
from tinytorch.perf.machine import Ceilings, Level
from tinytorch.perf.measuring import Derived, Measurement, Modelled, interleave, quotient, ratio
from tinytorch.perf.measuring.comparison import compare_paired
from tinytorch.perf.measuring.judge import Judgement, Verdict
from tinytorch.report import Column, Page, color, verdict_between, verdict_of_all
from tinytorch.report.figures import draw_line, subplots

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
_VARIANTS = {_LOOPS: "baseline", _TILES: "numpy", _REGISTERS: "quantized", _PACKED: "compiled"}
CACHES = (
    Column("level", "Level"),
    Column("read", "Read"),
    Column("bound", "Bound of i k j", "FLOP/s", modelled=True),
    Column("holds", "Holds, as reported", "B"),
    Column("width", "Widest matrix that fits", "1"),
)


@dataclass(frozen=True)
class Width:
    """Products of a few rows with a second matrix ``width`` wide, each way beside the others.

    Attributes:
        width: rows and columns of the second matrix.
        seconds: by way; those of loops are of fewer rows than those of tiles in registers.
    """

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


def study_widths(machine: Ceilings, *, resolve: float = 0.05, at_most_seconds: float = 2.0) -> list[Width]:
    """Return all ways at each width, from the first cache to well beyond the last one."""
    last = max((level.capacity or 0 for level in machine.levels), default=0)
    found = []
    for width in widths_beyond(last):
        fresh = partial(_runs, width)
        times = interleave(fresh, resolve=resolve, at_most_seconds=at_most_seconds, warmup_seconds=0.05)
        found.append(Width(width, times))
    return found


def _runs(width: int) -> dict[str, Callable[[], Any]]:
    """Return a product by each way, of matrices that lie elsewhere each time."""
    b = drawn(width, width)
    loops, tiles = drawn(_ROWS, width), drawn(_TILE_ROWS, width)
    return {name: partial(way, loops if name in (_LOOPS, _TILES) else tiles, b) for name, way in _WAYS.items()}


def record_widths(page: Page, widths: Sequence[Width], machine: Ceilings) -> None:
    """Show the rates of all ways over the width, and record where cache tiles should begin to pay, and where they do.

    Args:
        page: where to.
        widths: what `study_widths` returned.
        machine: ceilings of one thread.
    """
    figure, ax = subplots(height=3.4)
    for way in _WAYS:
        rates = [each.rate(way) for each in widths]
        draw_line(ax, [each.width for each in widths], rates, quantity="rate", variant=_VARIANTS[way], label=way)
    for level in machine.levels[:-1]:
        ax.axvline(_widest_in(level), color=color("reference"), linestyle=":", linewidth=1)
    ax.set_xscale("log", base=2)
    ax.set_xticks([each.width for each in widths], [f"{each.width:,}" for each in widths])
    ax.set_ylim(bottom=0)
    ax.set_xlabel("width of the second matrix (numbers)")
    ax.legend()
    page.figure(
        "widths",
        figure,
        caption="The rate of four ways over the width of the second matrix, on one core. A dotted line stands where "
        "that matrix fills a cache.",
        alt="Lines of rate over width on a logarithmic axis for loops, loops in cache tiles, tiles in registers and "
        "packed tiles, with dotted lines where the second matrix fills each cache.",
    )
    first, last = widths[0], widths[-1]
    page.number("narrow-loops", first.rate(_LOOPS))
    for key, way in (("loops", _LOOPS), ("tiles", _TILES)):
        kept = quotient(last.rate(way), first.rate(way), f"rate of {way} at the largest width over the smallest", "%")
        page.number(f"kept-{key}", kept)
    page.number("widest-bytes", last.bytes, unit="B", what="bytes of the largest second matrix")
    page.number("tile-bytes", 4 * 32 * 1024, unit="B", what="bytes of a cache tile of 32 rows and 1,024 columns")
    _record_paying(page, widths, machine)
    for key, (before, after) in {"cache": (_LOOPS, _TILES), "panel": (_REGISTERS, _PACKED)}.items():
        gain = ratio(last.seconds[before], last.seconds[after], f"{before} over {after}, {last.width} wide")
        page.number(f"{key}-gain-wide", gain)
        gain = ratio(first.seconds[before], first.seconds[after], f"{before} over {after}, {first.width} wide")
        page.number(f"{key}-gain-narrow", gain)


def show_caches(page: Page, machine: Ceilings) -> None:
    """Show the caches, the widest matrix that each holds, and the bound that it sets to i k j."""
    page.table(
        "caches",
        [
            {
                "level": level.name,
                "read": level.read,
                "bound": Modelled.by("the bytes, at the bandwidth", level.read.scaled(0.5, "FLOP/s")),
                "holds": level.capacity_reported,
                "width": _widest_in(level) if level.capacity_reported else None,
            }
            for level in machine.levels
        ],
        CACHES,
        caption="Caches and memory of one core, the most that i k j can reach with the second matrix there, which is "
        "two operations for each four bytes read, and the widest square matrix that fits the reported size.",
    )


def _widest_in(level: Level) -> int:
    """Return the width of the largest square float32 matrix that a cache holds, by its reported size if it has one."""
    return int(((level.capacity_reported or level.capacity or 0) / 4) ** 0.5)


def _record_paying(page: Page, widths: Sequence[Width], machine: Ceilings) -> None:
    """Record from which width on tiles should pay, and from which on they are proven to."""
    near = widths[0].rate(_LOOPS)
    of_need = "what a level gives i k j, over its rate with everything near"
    holding = [
        level
        for level in machine.levels
        if verdict_between(quotient(level.read.scaled(0.5, "FLOP/s"), near, of_need), low=1.0).verdict
        is not Verdict.REFUTED
    ]
    if len(holding) == len(machine.levels):
        gains = ("pays-next", "pays-memory")
        page.absent("pays-predicted", *gains, reason="even memory is read faster than these loops need")
    else:
        border = _widest_in(holding[-1]) if holding else 0
        what = "width of the largest matrix in a cache that does not hold the loops up"
        page.number(
            "pays-predicted", Modelled(border, "numbers", what, "the bytes of each operation, at the bandwidth")
        )
        for key, level in {"next": machine.levels[len(holding)], "memory": machine.levels[-1]}.items():
            what = f"rate of loops with everything near over the bound of {level.name}"
            page.number(
                f"pays-{key}",
                Modelled.by(
                    "the bytes of each operation, at the bandwidth",
                    quotient(near, level.read.scaled(0.5, "FLOP/s"), what),
                ),
            )
    faster = [
        compare_paired(each.seconds[_LOOPS], each.seconds[_TILES], matters=0.05).verdict == Verdict.FASTER
        for each in widths
    ]
    paying = [each.width for at, each in enumerate(widths) if all(faster[at:])]
    if not paying:
        page.absent("pays-measured", reason="at the largest width cache tiles are not proven to be faster")
        return
    what = "smallest width of the sweep from which on loops in cache tiles are proven to be faster"
    page.number(
        "pays-measured",
        Derived(
            paying[0],
            "numbers",
            what,
            tuple(one.seconds[way] for one in widths for way in (_LOOPS, _TILES)),
            "it is one of the widths tried",
        ),
    )


def claim_tiling(page: Page, widths: Sequence[Width], machine: Ceilings) -> None:
    """Record the claim on tiles and matrices larger than cache, of `record_widths`' numbers."""
    gains = [ratio(each.seconds[_LOOPS], each.seconds[_TILES]) for each in widths]
    capacity = max((level.capacity or 0 for level in machine.levels), default=0)
    beyond, within = gains[-1], gains[0]
    parts = [
        verdict_between(beyond, low=1.0, strict=True),
        verdict_between(
            quotient(beyond, within, "gain beyond the last cache over that within the first"), low=1.0, strict=True
        ),
    ]
    page.claim(
        "tiling",
        statement="Cache tiles make a matrix product faster, most of all where matrices are larger than the cache.",
        quote="Reduces cache misses by working on blocks that fit in L1/L2 … Especially beneficial for matrices larger "
        "than cache size",
        source=sources.COURSE_ACCELERATION,
        source_url=sources.COURSE_ACCELERATION_URL,
        verdict=verdict_of_all(parts) if widths[-1].bytes > capacity > 0 else Judgement(Verdict.OPEN),
        evidence="Loops in cache tiles ran {cache-gain-wide} as fast as plain ones where the second matrix is larger "
        "than the last cache, and {cache-gain-narrow} where all of it is near. The test asks for a gain in the former, "
        "and for a larger one than in the latter.",
    )
