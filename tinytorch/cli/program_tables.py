"""Tables of a program's profile, of which the command prints the first rows and the page shows more of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tinytorch.perf.profiling.inside import Inside
from tinytorch.perf.profiling.lines import Lines, Row, at
from tinytorch.perf.profiling.program import ProgramProfile
from tinytorch.report import tables
from tinytorch.report.tables import Column


class ProgramTable(NamedTuple):
    """A table with its title and, where something has to be said of it, a caption."""

    title: str
    rows: Sequence[Row]
    columns: Sequence[Column]
    caption: str = ""


#: What is said of a program without a look at it.
NEVER_SEEN = "The program was over before it could be looked at."
_PLACE, _FUNCTION, _CALLS = Column("place", "line"), Column("function", "function"), Column("calls", "calls", "1")
_SHARE = (Column("seconds", "time", "s"), Column("share", "share", "%"), Column("interval", "95 % interval"))
_SPLIT = (
    *_SHARE,
    Column("own_share", "own", "%"),
    Column("compiled_share", "compiled", "%"),
    Column("library_share", "libraries", "%"),
)
_WITH_CALLEES = (Column("with_callees", "with callees", "%"), Column("callees_interval", "95 % interval"))
_CALLED = (
    *(_FUNCTION, _PLACE, _CALLS),
    Column("seconds", "own time", "s"),
    Column("with_callees", "with callees", "s"),
)
_TORCH = (
    *(Column("op", "operation"), _CALLS),
    Column("seconds", "own time", "s"),
    Column("with_inner", "with inner ones", "s"),
    Column("flops", "FLOPs", "FLOP"),
)


def seen_from_outside(program: ProgramProfile) -> list[ProgramTable]:
    """Return the tables of lines, functions, calls and threads, or that of calls where nobody may look."""
    lines = program.lines
    if lines is None:
        called = program.inside.called if program.inside is not None else ()
        rows = [row | {"place": "compiled code" if row["file"] == "~" else _place(row)} for row in called]
        return [ProgramTable("Functions by their calls", rows, _CALLED, "As cProfile counts them.")]
    several = len(lines.threads) > 1
    thread = [Column("thread", "thread")] if several else []
    shown = [
        ProgramTable("Lines", lines.lines, [_PLACE, *thread, *_SPLIT, Column("source", "source")]),
        ProgramTable("Functions", lines.functions, [_FUNCTION, _PLACE, *_SPLIT, *_WITH_CALLEES]),
        ProgramTable(
            "Calls into libraries", lines.calls, [Column("library", "library"), Column("what", "call"), _PLACE, *_SHARE]
        ),
    ]
    if several:
        shown.append(ProgramTable("Threads", lines.threads, [*thread, *_SPLIT, Column("busiest", "busiest line")]))
    return [table._replace(rows=[_with_texts(lines, row) for row in table.rows]) for table in shown if table.rows]


def recorded_by_torch(inside: Inside) -> ProgramTable:
    """Return the table of PyTorch's operations."""
    said = "As PyTorch's own profiler counts them, whose cost is in the times."
    return ProgramTable("PyTorch's operations", inside.torch_rows, _TORCH, said)


def _place(row: Row) -> str:
    return at(row["file"], row["line"])


def _with_texts(lines: Lines, row: Row) -> Row:
    """Return a row with its place and its intervals as text."""
    texts = {"interval": _interval(lines, row["share"], row["low"], row["high"])}
    if "file" in row:
        texts["place"] = _place(row)
    if "callees_low" in row:
        ends = row["callees_low"], row["callees_high"]
        texts["callees_interval"] = _interval(lines, row["with_callees"], *ends)
    return row | texts


def _interval(lines: Lines, share: float, low: float, high: float) -> str:
    if lines.uncertain(share):
        return f"uncertain, < {high:.1%}"
    return f"{low:.1%} to {high:.1%}"


def table_text(table: ProgramTable, most: int) -> str:
    """Return the first rows as text, in which source is cut."""
    rows = [{key: _cut(cell) if key == "source" else cell for key, cell in row.items()} for row in table.rows[:most]]
    return tables.to_text(rows, table.columns, caption=_caption(table, most, f"{table.title}. "))


def table_html(table: ProgramTable, most: int) -> str:
    """Return the first rows as HTML."""
    key = table.title.split()[0].lower().replace("'", "")
    return tables.to_html(table.rows[:most], table.columns, caption=_caption(table, most), key=key)


def _caption(table: ProgramTable, most: int, title: str = "") -> str:
    left = f"The longest of {len(table.rows)}. " if len(table.rows) > most else ""
    return f"{title}{left}{table.caption}".strip()


def _cut(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:59]}…"
